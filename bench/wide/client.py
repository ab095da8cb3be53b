"""One trial of either client, in a process of its own: what it took, as a line of JSON.

Both count the rows that came or were taken, and nothing else. The clock runs from the call to its end, with
the connection and the data there before; so does the CPU time, of both processes.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peer
import pyarrow.flight as flight

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import core_trials


def venturi(asked: dict[str, Any]) -> dict[str, Any]:
    record = core_trials.trial(
        target=f"flight://{asked['address']}",
        options={},
        operation=asked["operation"],
        data={"source": "file", "path": asked["file"], "ipc": asked["file"]},
        rows_per_batch=asked["rows_per_batch"],
        rows_per_stream=asked["rows_per_batch"] * asked["batches"],
        streams=1,
        threads=1,
        timeout_ns=120_000_000_000,
    )
    cpu = [record["cpu"][end] for end in ("client", "server")]
    return {
        "rows": record["counts"]["rows"],
        "payload": record["counts"]["payload_bytes"],
        "seconds": record["times"]["interval_ns"] / 1e9,
        "cpu": [(end["user_ns"] + end["system_ns"]) / 1e9 for end in cpu],
    }


def get(client: flight.FlightClient, asked: dict[str, Any]) -> Callable[[int], int]:
    def run(batches: int) -> int:
        ticket = flight.Ticket(json.dumps([Path(asked["file"]).name, batches]))
        return sum(chunk.data.num_rows for chunk in client.do_get(ticket))

    return run


def put(client: flight.FlightClient, asked: dict[str, Any]) -> Callable[[int], int]:
    schema, ready = peer.batches(Path(asked["file"]))
    descriptor = flight.FlightDescriptor.for_path("taken")

    def run(batches: int) -> int:
        writer, reader = client.do_put(descriptor, schema)
        for batch in itertools.islice(itertools.cycle(ready), batches):
            writer.write_batch(batch)
        writer.done_writing()
        rows = int(reader.read().to_pybytes())
        writer.close()
        return rows

    return run


def pyarrow(asked: dict[str, Any]) -> dict[str, Any]:
    server = (~asked["pid"] << 3) | 2  # Linux: the clock of another process' CPU time
    with flight.connect(f"grpc://{asked['address']}") as client:
        run = {"get": get, "put": put}[asked["operation"]](client, asked)
        run(max(1, asked["batches"] // 20))
        cpu = [time.process_time(), time.clock_gettime(server)]
        began = time.perf_counter()
        rows = run(asked["batches"])
        seconds = time.perf_counter() - began
        spent = [time.process_time() - cpu[0], time.clock_gettime(server) - cpu[1]]
    return {"rows": rows, "seconds": seconds, "cpu": spent}


def tcp(asked: dict[str, Any]) -> dict[str, Any]:
    """The limit of both: bytes of no meaning over one connection."""
    record = core_trials.probe(f"flight://{asked['address']}", asked["operation"], 1)
    return {"payload": record["bytes"], "seconds": record["interval_ns"] / 1e9}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps({"venturi": venturi, "pyarrow": pyarrow, "tcp": tcp}[asked["way"]](asked)))
