"""The tables of the bench, and what is measured of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

_FILE = 16 << 20
"""Bytes of a table, about: more than a core's cache holds, little enough to be made at once."""

Columns = Iterator[tuple[str, pa.Array]]


@dataclass(frozen=True)
class Cell:
    table: str
    rows: int
    """Of a batch."""

    @property
    def name(self) -> str:
        return f"{self.table}, {self.rows:,} rows"


def _numbers(count: int, rows: int, draw: np.random.Generator) -> Columns:
    """As a wide table of measurements: eight types, a twentieth of every fourth column missing."""
    types = [pa.int64(), pa.float64(), pa.int32(), pa.float32(), pa.int16(), pa.timestamp("us"), pa.uint8()]
    types.append(pa.bool_())
    for at in range(count):
        kind = types[at % len(types)]
        values = draw.integers(0, 2 if kind == pa.bool_() else 100, rows)
        width = np.bool_ if kind == pa.bool_() else np.int64
        missing = draw.random(rows) < 0.05 if at % 4 == 3 else None
        yield f"c{at}", pa.array(values.astype(width), mask=missing).cast(kind)


def _words(rows: int, draw: np.random.Generator) -> pa.Array:
    """Of 4 to 31 letters."""
    lengths = draw.integers(4, 32, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = draw.integers(97, 123, offsets[-1], dtype=np.uint8)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))


def _strings(rows: int, draw: np.random.Generator) -> Columns:
    for at in range(4):
        yield f"s{at}", _words(rows, draw)


def _dictionaries(rows: int, draw: np.random.Generator) -> Columns:
    """The same 1,000 words in every batch: dictionaries are sent once a stream."""
    words = _words(1000, np.random.default_rng(7))
    for at in range(4):
        keys = pa.array(draw.integers(0, len(words), rows, dtype=np.int32))
        yield f"d{at}", pa.DictionaryArray.from_arrays(keys, words)


def _nested(rows: int, draw: np.random.Generator) -> Columns:
    """A list of structs, up to seven in each, and a struct."""
    lengths = draw.integers(0, 8, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    fields = {"x": pa.int64(), "y": pa.float64(), "label": pa.string()}

    def structs(count: int) -> pa.Array:
        arrays = [pa.array(draw.integers(0, 100, count)), pa.array(draw.random(count)), _words(count, draw)]
        return pa.StructArray.from_arrays(arrays, list(fields))

    yield "points", pa.ListArray.from_arrays(pa.array(offsets), structs(int(offsets[-1])))
    yield "last", structs(rows)


def _integers(rows: int, draw: np.random.Generator) -> Columns:
    for name in "abcd":
        yield name, pa.array(draw.integers(0, 2**62, rows))


_TABLES: dict[str, Callable[[int, np.random.Generator], Columns]] = {
    "200 columns": lambda rows, draw: _numbers(200, rows, draw),
    "1,000 columns": lambda rows, draw: _numbers(1000, rows, draw),
    "strings": _strings,
    "dictionaries": _dictionaries,
    "nested": _nested,
    "4 integers": _integers,
}

CELLS = [
    *(Cell(table, rows) for table in _TABLES for rows in (1024, 16_384) if not table.startswith(("1", "4"))),
    *(Cell("1,000 columns", rows) for rows in (128, 1024)),  # 16,384 would be a batch of 70 MB
    Cell("4 integers", 64),
]


def write(cell: Cell, path: Path) -> int:
    """The cell's table as an Arrow file, a batch as it shall be moved; how many there are."""
    draw = np.random.default_rng(1)

    def batch() -> pa.RecordBatch:
        names, arrays = zip(*_TABLES[cell.table](cell.rows, draw), strict=True)
        return pa.record_batch(list(arrays), names=list(names))

    first = batch()
    count = max(2, round(_FILE / first.nbytes))
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
        writer.write_batch(first)
        for _ in range(count - 1):
            writer.write_batch(batch())
    return count
