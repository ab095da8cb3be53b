"""The tables of the bench, and the stock Flight server and client of pyarrow that move them.

`python -m bench.wide.tables FOLDER` serves the Arrow files of a folder. It prints its address as a line of
JSON, and ends when its standard input does.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

_FILE = 16 << 20
"""Bytes of a table, about: more than a core's cache holds, and quickly made."""
Columns = Iterator[tuple[str, pa.Array]]


@dataclass(frozen=True)
class Cell:
    table: str
    rows: int
    """Per batch."""

    @property
    def name(self) -> str:
        return f"{self.table}, {self.rows:,} rows"


def _numbers(rows: int, draw: np.random.Generator) -> Columns:
    """A wide table of measurements: a twentieth of every fourth column is missing."""
    kinds = [pa.int64(), pa.float64(), pa.int32(), pa.float32(), pa.int16(), pa.timestamp("us"), pa.uint8()]
    for at in range(200):
        missing = draw.random(rows) < 0.05 if at % 4 == 3 else None
        yield f"c{at}", pa.array(draw.integers(0, 100, rows), mask=missing).cast(kinds[at % len(kinds)])


def _words(rows: int, draw: np.random.Generator) -> pa.Array:
    """Of 4 to 31 letters."""
    offsets = np.concatenate([[0], np.cumsum(draw.integers(4, 32, rows))]).astype(np.int32)
    letters = draw.integers(97, 123, offsets[-1], dtype=np.uint8)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))


def _strings(rows: int, draw: np.random.Generator) -> Columns:
    for at in range(4):
        yield f"s{at}", _words(rows, draw)


def _nested(rows: int, draw: np.random.Generator) -> Columns:
    """A list of structs, up to seven in each."""
    offsets = np.concatenate([[0], np.cumsum(draw.integers(0, 8, rows))]).astype(np.int32)
    count = int(offsets[-1])
    arrays = [pa.array(draw.integers(0, 100, count)), pa.array(draw.random(count)), _words(count, draw)]
    yield (
        "points",
        pa.ListArray.from_arrays(pa.array(offsets), pa.StructArray.from_arrays(arrays, ["x", "y", "label"])),
    )


def _integers(rows: int, draw: np.random.Generator) -> Columns:
    for name in "abcd":
        yield name, pa.array(draw.integers(0, 2**62, rows))


_TABLES: dict[str, Callable[[int, np.random.Generator], Columns]] = {
    "200 columns": _numbers,
    "strings": _strings,
    "nested": _nested,
    "4 integers": _integers,
}
CELLS = [
    *(Cell(table, rows) for table in ("200 columns", "strings", "nested") for rows in (1024, 16_384)),
    Cell("4 integers", 64),
]


def write(cell: Cell, path: Path) -> None:
    """The cell's table as an Arrow file, in batches as they are to be moved."""
    draw = np.random.default_rng(1)

    def batch() -> pa.RecordBatch:
        names, arrays = zip(*_TABLES[cell.table](cell.rows, draw), strict=True)
        return pa.record_batch(list(arrays), names=list(names))

    first = batch()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
        writer.write_batch(first)
        for _ in range(max(1, round(_FILE / first.nbytes) - 1)):
            writer.write_batch(batch())


def batches(path: Path) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        return reader.schema, [reader.get_batch(at) for at in range(reader.num_record_batches)]


class Server(flight.FlightServerBase):
    """Gives ready batches, and counts the rows that it takes."""

    def __init__(self, folder: Path) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.tables = {path.name: batches(path) for path in folder.iterdir()}

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        """As many batches as are asked for: the table's over and over."""
        name, count = json.loads(ticket.ticket)
        schema, ready = self.tables[name]
        repeated = itertools.islice(itertools.cycle(ready), count)
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, repeated))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        rows = sum(chunk.data.num_rows for chunk in reader)
        writer.write(pa.py_buffer(str(rows).encode()))


def get(client: flight.FlightClient, path: Path, count: int) -> int:
    ticket = flight.Ticket(json.dumps([path.name, count]))
    return sum(chunk.data.num_rows for chunk in client.do_get(ticket))


def put(client: flight.FlightClient, schema: pa.Schema, ready: list[pa.RecordBatch], count: int) -> int:
    writer, reader = client.do_put(flight.FlightDescriptor.for_path("taken"), schema)
    for batch in itertools.islice(itertools.cycle(ready), count):
        writer.write_batch(batch)
    writer.done_writing()
    rows = int(reader.read().to_pybytes())
    writer.close()
    return rows


if __name__ == "__main__":
    server = Server(Path(sys.argv[1]))
    print(json.dumps({"address": f"127.0.0.1:{server.port}", "pid": os.getpid()}), flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve()
