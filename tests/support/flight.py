"""What the Flight tests share: tables of every type, trial specs, server processes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import flight

from support.core import run
from support.run import ROOT, helper, python_path
from support.wait import HANG_SECONDS


def records(rows: int, start: int = 0) -> pa.Table:
    """Four int64 columns, as the performance protocol has them."""
    return pa.table({name: pa.array(range(start, start + rows), pa.int64()) for name in "abcd"})


def mixed(rows: int = 1000) -> pa.Table:
    """The types that everyone uses, most with nulls."""

    def some(value: Any, every: int) -> list[Any]:
        return [None if i % every == 0 else value(i) for i in range(rows)]

    instant = datetime(2026, 3, 1, tzinfo=UTC)
    point = pa.struct([("x", pa.int32()), ("label", pa.string())])
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "flag": pa.array(some(lambda i: i % 3 == 0, 7), pa.bool_()),
            "tiny": pa.array(some(lambda i: i % 100, 5), pa.uint8()),
            "ratio": pa.array(some(lambda i: i / 7, 11), pa.float64()),
            "name": pa.array(some(lambda i: f"name-{i}" * (i % 4), 3), pa.string()),
            "note": pa.array(some(lambda i: "ä" * (i % 9), 4), pa.large_string()),
            "raw": pa.array(some(lambda i: bytes([i % 256]) * (i % 5), 6), pa.binary()),
            "key": pa.array([i.to_bytes(4, "big") for i in range(rows)], pa.binary(4)),
            "day": pa.array(some(lambda i: date(2026, 1, 1) + timedelta(i % 365), 9), pa.date32()),
            "at": pa.array(some(lambda i: instant + timedelta(seconds=i), 8), pa.timestamp("us", "UTC")),
            "lasts": pa.array(some(lambda i: timedelta(milliseconds=i), 8), pa.duration("ms")),
            "price": pa.array(some(lambda i: Decimal(i) / 4, 10), pa.decimal128(18, 2)),
            "big": pa.array(some(lambda i: Decimal(i), 10), pa.decimal256(50, 0)),
            "numbers": pa.array(some(lambda i: list(range(i % 4)), 5), pa.list_(pa.int32())),
            "pair": pa.array([[float(i), -float(i)] for i in range(rows)], pa.list_(pa.float32(), 2)),
            "point": pa.array(some(lambda i: {"x": i, "label": str(i)}, 6), point),
            "points": pa.array(some(lambda i: [{"x": i, "label": None}] * (i % 3), 6), pa.list_(point)),
            "tags": pa.array(some(lambda i: [("k", i)], 7), pa.map_(pa.string(), pa.int64())),
            "colour": pa.array(some(lambda i: ["red", "green", "blue"][i % 3], 5)).dictionary_encode(),
            "nothing": pa.nulls(rows),
        }
    )


def rare(name: str, rows: int = 500) -> pa.Table:
    """One column of a type that not every implementation carries."""
    words = [None if i % 5 == 0 else f"{'long-' * (i % 6)}{i}" for i in range(rows)]
    lists = [None if i % 7 == 0 else [i] * (i % 3) for i in range(rows)]
    columns: dict[str, Any] = {
        "string_view": lambda: pa.array(words, pa.string_view()),
        "binary_view": lambda: pa.array([w and w.encode() for w in words], pa.binary_view()),
        "list_view": lambda: pa.array(lists, pa.list_view(pa.int32())),
        "run_end_encoded": lambda: pa.RunEndEncodedArray.from_arrays([100, rows], ["a", "b"]),
        "dense_union": lambda: pa.UnionArray.from_dense(
            pa.array([i % 2 for i in range(rows)], pa.int8()),
            pa.array([i // 2 for i in range(rows)], pa.int32()),
            [pa.array(range(rows), pa.int64()), pa.array([str(i) for i in range(rows)])],
        ),
        "nested_dictionary": lambda: pa.ListArray.from_arrays(
            pa.array(range(rows + 1), pa.int32()),
            pa.array([f"w{i % 4}" for i in range(rows)]).dictionary_encode(),
        ),
    }
    return pa.table({name: columns[name]()})


RARE = ["string_view", "binary_view", "list_view", "run_end_encoded", "dense_union", "nested_dictionary"]


def repeated(table: pa.Table, rows: int) -> pa.Table:
    """The table's rows from the start again and again, up to `rows`."""
    copies = -(-rows // table.num_rows)
    return pa.concat_tables([table] * copies).slice(0, rows)


def decoded(table: pa.Table) -> pa.Table:
    """Top-level dictionary columns as their values, so that chunks with other dictionaries compare."""
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names).combine_chunks()


def assert_same(actual: pa.Table, expected: pa.Table) -> None:
    assert actual.schema.equals(expected.schema), f"{actual.schema}\n!=\n{expected.schema}"
    assert actual.num_rows == expected.num_rows
    if decoded(actual).equals(decoded(expected)):
        return
    for name in expected.column_names:
        assert actual[name].to_pylist() == expected[name].to_pylist(), f"column {name}"


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def write_ipc(table: pa.Table, path: Path) -> Path:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path


def trial_spec(target: str, operation: str = "get", **changes: Any) -> dict[str, Any]:
    """One small trial; `changes` are fields of the spec (docs/format.md)."""
    return {
        "trial": uuid.uuid4().hex,
        "target": target,
        "options": {},
        "operation": operation,
        "data": {"source": "remote"}
        if operation == "get"
        else {"source": "records", "columns": 4, "seed": 1},
        "rows_per_batch": 1000,
        "streams": 1,
        "threads": changes.get("streams", 1),
        "timeout_ns": 10_000_000_000,
        **changes,
    }


def run_trial(target: str, operation: str = "get", **changes: Any) -> dict[str, Any]:
    """The record of such a trial."""
    return run(trial_spec(target, operation, **changes))


def succeeded(record: dict[str, Any]) -> dict[str, Any]:
    assert record["outcome"] == "ok", record["error"]
    assert record["error"] is None
    return record


def failed(record: dict[str, Any], *kinds: str) -> str:
    """The message of a trial that failed as it should."""
    assert record["outcome"] == "failed", record
    assert record["error"]["kind"] in kinds, record["error"]
    message: str = record["error"]["message"]
    assert message
    return message


@dataclass(frozen=True)
class Certificates:
    """PEM files: an authority, a server (localhost, 127.0.0.1), a client, and what is not trusted."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    other_ca: Path
    expired: Path
    expired_key: Path


class ServerProcess:
    """A server in a process of its own; ready when it has printed one JSON line."""

    def __init__(self, command: list[str], environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # held open: the reference server ends when it closes
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": python_path(), **(environment or {})},
        )
        self.ready = self._first_line()
        self.address = self.ready["address"].split("://")[-1]
        port = self.address.rpartition(":")[2]
        self.port = int(port) if port.isdecimal() else 0  # of a Unix socket

    def _first_line(self) -> dict[str, Any]:
        lines: queue.Queue[str] = queue.Queue()
        assert self.process.stdout is not None
        threading.Thread(target=lambda: lines.put(self.process.stdout.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=HANG_SECONDS)
            ready: dict[str, Any] = json.loads(line)
            return ready
        except (queue.Empty, ValueError) as error:
            self.process.kill()
            _, stderr = self.process.communicate()
            raise AssertionError(f"{self.process.args} did not get ready: {stderr}") from error

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> tuple[int, str]:
        """Ends it politely; its exit status and stderr."""
        self.process.terminate()
        try:
            _, stderr = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, stderr = self.process.communicate()
        return self.process.returncode, stderr


KINDS: dict[str, dict[str, object]] = {
    "flight": {"memory_bytes": 1 << 30},
    "http": {"server": "http", "memory_bytes": 1 << 30},
    "charrow": {"server": "charrow"},
}


@contextlib.contextmanager
def served(kind: str, tables: Mapping[str, Path] | None = None, **spec: object) -> Iterator[str]:
    """The address of a server of this kind (`flight`, `charrow`, `http`) in this process, which has these
    Arrow files as tables; `spec` is what else docs/format.md lets one say."""
    from venturi import _core

    held = [{"name": name, "ipc": str(path)} for name, path in (tables or {}).items()]
    server = _core.serve(json.dumps({**KINDS[kind], "host": "127.0.0.1", "tables": held, **spec}))
    try:
        yield server.address
    finally:
        server.stop()


Start = Callable[..., ServerProcess]
"""Starts a server with such arguments; keywords are environment variables."""


def serve_command(*arguments: str) -> list[str]:
    common = ["--port", "0", "--json", "--exit-with-parent"]
    return [sys.executable, "-m", "venturi", "serve", "flight", *common, *arguments]


def peer_command(*arguments: str) -> list[str]:
    return helper("flight_peer", *arguments)


def gets(address: str) -> int:
    """How many gets the server has been asked for."""
    with flight.connect(f"grpc+tcp://{address}") as client:
        return int(json.loads(next(client.do_action("statistics")).body.to_pybytes())["gets"])
