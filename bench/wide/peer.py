"""A stock Flight server of pyarrow's: it gives ready batches, and counts the rows that it takes.

A process of its own: `peer.py FOLDER` serves the Arrow files of the folder. It prints its address as a line
of JSON, and ends when its standard input does.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight


def batches(path: Path) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    with pa.OSFile(str(path)) as file:
        reader = pa.ipc.open_file(file)
        return reader.schema, [reader.get_batch(at) for at in range(reader.num_record_batches)]


class Server(flight.FlightServerBase):
    def __init__(self, folder: Path) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.tables = {path.name: batches(path) for path in folder.iterdir()}

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        """As many batches as are asked for: the table's over and over."""
        name, count = json.loads(ticket.ticket)
        schema, ready = self.tables[name]
        given = itertools.islice(itertools.cycle(ready), count)
        return flight.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, given))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        rows = sum(chunk.data.num_rows for chunk in reader)
        writer.write(pa.py_buffer(str(rows).encode()))


if __name__ == "__main__":
    server = Server(Path(sys.argv[1]))
    print(json.dumps({"address": f"127.0.0.1:{server.port}", "pid": os.getpid()}), flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), server.shutdown()), daemon=True).start()
    server.serve()
