"""The servers of the bench, and every part's ways: what to ask which client process."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import build
import numpy as np
from peers import PAIRINGS, Bench, Cell, Server, TrialFailed
from table import PLACES

HERE = Path(__file__).resolve().parent
PARTS = ("memory", "transports", "rows", "clickhouse")
BLOCK_ROWS = 32_768  # of 32 bytes: 1 MiB
RECORD_BYTES = 32
STATE_BYTES = 137
TABLE_BYTES = 60
TRIAL_SECONDS = 180
SQL = (
    "SELECT number AS id, number % 1000 AS customer, toString(number) AS name, "
    "toDecimal64(number % 100000, 2) AS price, toDateTime64(number, 3) AS at FROM numbers({rows})"
)
HANDLER = (
    "ClickHouse's engine is chdb {version}; what answers HTTP is Venturi's own handler before it, in Python, "
    "and not ClickHouse's server."
)

Request = dict[str, Any]


class Ways:
    """Starts the servers that the chosen parts need and runs trials against them."""

    def __init__(self, options: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        self.rows = int(options.bytes) // RECORD_BYTES
        self._options = options
        self._servers: dict[str, Server] = {}
        self._cpp: Bench | None = None
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="venturi-bench-")))
        self.peers: dict[str, list[str]] = {}
        """Lines a part that say who was measured, and who was not."""
        made = {
            "memory": self._memory,
            "transports": self._transports,
            "rows": self._rows,
            "clickhouse": self._clickhouse,
        }
        self.parts: dict[str, dict[str, Request]] = {part: made[part]() for part in options.parts}

    def _serve(self, name: str, *words: str, cpu: int | None = None, unix: bool = False) -> str:
        """The address of `venturi serve WORDS`, which lives as long as the bench; `unix`: of its socket."""
        where = ("--unix", str(self._folder / f"{name}.sock")) if unix else ("--port", "0")
        common = (*where, "--json", "--exit-with-parent")
        server = Server([*_on(cpu), sys.executable, "-m", "venturi", "serve", *words, *common])
        self._stack.callback(server.stop)
        self._servers[name] = server
        return server.address

    def _memory(self) -> dict[str, Request]:
        """Batches that lie ready: 4 int64, 1 MiB, one and two connections."""
        url = f"charrow://{self._serve('charrow', 'charrow')}"
        ways: dict[str, Request] = {}
        for streams in (1, 2):
            common = {"streams": streams, "encoders": 1, "rows_per_batch": BLOCK_ROWS, "rows": self.rows}
            for decoders in (0, 1):
                where = {"way": "venturi", "server": "charrow", "url": url, "decoders": decoders}
                ways[f"charrow {streams}, decoders {decoders}"] = {**where, **common}
            ways[f"raw TCP {streams}"] = {"way": "tcp", "server": "charrow", "url": url, **common}
        ways |= self._placed()
        table = self._folder / "records.arrow"
        _records(table, min(self.rows, 16_000_000))
        flight = f"flight://{self._serve('flight', 'flight', '--table', f'records={table}')}"
        for streams in (1, 2):
            where = {"way": "venturi", "server": "flight", "url": flight, "streams": streams}
            ways[f"Venturi Flight {streams}"] = {**where, "rows_per_batch": BLOCK_ROWS, "rows": self.rows}
        ways["pyarrow.flight 1"] = _pyarrow_flight("flight", flight, "records")
        if not self._options.no_cpp:
            self._cpp = Bench(build.build(quiet=True), ["cpp/cpp"], self.rows * RECORD_BYTES)
            self._stack.callback(self._cpp.stop)
            for streams in (1, 2):
                ways[f"Arrow C++ Flight {streams}"] = {"way": "cpp", "streams": streams}
        return ways

    def _placed(self) -> dict[str, Request]:
        """One connection with both ends on one CPU, and on two. Where the scheduler puts them matters more
        than who sends: bytes that cross from one CPU's caches to another's cost several times as much."""
        if shutil.which("taskset") is None or not {0, 1} <= os.sched_getaffinity(0):
            return {}
        url = f"charrow://{self._serve('placed', 'charrow', cpu=0)}"
        ways: dict[str, Request] = {}
        for cpu, where in enumerate(PLACES):
            common = {"server": "placed", "url": url, "streams": 1, "rows_per_batch": BLOCK_ROWS, "cpu": cpu}
            mine = {"way": "venturi", "encoders": 1, "decoders": 0, "rows": self.rows}
            ways[f"charrow 1, {where}"] = {**mine, **common}
            ways[f"raw TCP 1, {where}"] = {"way": "tcp", **common}
        return ways

    def _transports(self) -> dict[str, Request]:
        """The same batches over the loopback, a Unix socket and shared memory, beside raw sockets and copies
        in memory."""
        ways: dict[str, Request] = {}
        for kind, title in (("charrow", "charrow"), ("flight", "Flight")):
            places = {"TCP": (f"{kind}-tcp", f"{kind}://{self._serve(f'{kind}-tcp', kind)}")}
            socket = self._serve(f"{kind}-unix", kind, unix=True)
            places["Unix socket"] = (f"{kind}-unix", f"{kind}+unix://{socket}")
            if kind == "charrow":
                places["shared memory"] = (f"{kind}-unix", f"{kind}+shm://{socket}")
            for streams in (1, 2):
                more = {"streams": streams, "rows_per_batch": BLOCK_ROWS, "rows": self.rows}
                for place, (server, url) in places.items():
                    where = {"way": "venturi", "server": server, "url": url, "encoders": 1, "decoders": 0}
                    ways[f"{title}, {place} {streams}"] = {**where, **more}
                    if title == "charrow" and place != "shared memory":
                        ways[f"raw {place} {streams}"] = {**where, **more, "way": "tcp", "rows": None}
        for threads in sorted({1, min(2, os.cpu_count() or 1)}):
            ways[f"memory copy {threads}"] = {"way": "memory", "streams": threads}
        return ways

    def _rows(self) -> dict[str, Request]:
        """Rows that encoders turn into columns."""
        url = f"charrow://{self._serve('rows', 'charrow')}"
        rows = self.rows * RECORD_BYTES // STATE_BYTES
        common = {
            "way": "venturi",
            "server": "rows",
            "url": url,
            "streams": 1,
            "decoders": 1,
            "rows_per_batch": 16384,
            "query": f"SELECT * FROM state_rows(rows = {rows}, block_rows = 16384)",
            "expected": rows,
        }
        counts = sorted({1, 2, os.cpu_count() or 1})
        return {f"charrow, encoders {n}": {**common, "encoders": n} for n in counts}

    def _clickhouse(self) -> dict[str, Request]:
        """One table by a query that ClickHouse's engine executes, whose own time is in all ways but those
        that have the result in memory already."""
        rows = self.rows * RECORD_BYTES // TABLE_BYTES // 3
        query = SQL.format(rows=rows)
        asked: Request = {"query": query, "expected": rows, "rows_per_batch": BLOCK_ROWS}
        ways: dict[str, Request] = {"chdb in process": {**asked, "way": "chdb"}}
        engine = f"charrow://{self._serve('chdb', 'charrow', '--engine', 'chdb')}"
        by_charrow = {**asked, "way": "venturi", "encoders": 1, "decoders": 1}
        for streams in (1, 2):
            where = {"server": "chdb", "url": engine, "streams": streams}
            ways[f"charrow from chdb {streams}"] = {**by_charrow, **where}
        http, server = self._http()
        for form in ("arrow", "native", "rowbinary"):
            name = f"Venturi clickhouse://, {form} 1"
            where = {"way": "venturi", "server": server, "streams": 1, "format": form}
            ways[name] = {**asked, **where, "url": http.replace("http://", "clickhouse://")}
        driver = _version_of("clickhouse-connect")
        if driver is None:
            self._note("clickhouse-connect is not installed (the extra `bench`), and left out.")
        else:
            self._note(f"clickhouse-connect {driver}, without compression.")
            for way in ("query_arrow", "query_arrow_stream"):
                where = {"way": "clickhouse-connect", "server": server, "url": http, "method": way}
                ways[f"clickhouse-connect {way} 1"] = {**asked, **where}
        self._note("`in memory` has the query's result before the clock starts: transport alone.")
        table = self._folder / "result.arrow"
        _result(query, table)
        flight = f"flight://{self._serve('result', 'flight', '--table', f'result={table}')}"
        ways["pyarrow.flight, in memory 1"] = {
            **_pyarrow_flight("result", flight, "result"),
            "expected": rows,
        }
        kept = f"charrow://{self._serve('kept', 'charrow', '--table', f'result={table}')}"
        where = {"server": "kept", "url": kept, "streams": 1, "query": "SELECT * FROM result"}
        ways["charrow, in memory 1"] = {**by_charrow, **where}
        ways["raw TCP 1"] = {
            "way": "tcp", "server": "kept", "url": kept, "streams": 1, "rows_per_batch": BLOCK_ROWS,
        }  # fmt: skip
        table.unlink()
        return ways

    def _http(self) -> tuple[str, str]:
        """A ClickHouse with Arrow, asked over HTTP: http://HOST:PORT, and whose CPU time is counted."""
        if self._options.clickhouse:
            self._note(f"ClickHouse at {self._options.clickhouse}; its CPU time is not known.")
            return str(self._options.clickhouse).rstrip("/"), ""
        self._note(HANDLER.format(version=_version_of("chdb") or "?"))
        address = self._serve("handler", "clickhouse", "--engine", "chdb")
        return f"http://{address}", "handler"

    def _note(self, text: str) -> None:
        self.peers.setdefault("clickhouse", []).append(text)

    def trial(self, part: str, name: str) -> dict[str, Any]:
        """One measured transfer: the client's numbers and the server's CPU time. Raises TrialFailed, where
        other rows came than were asked for too."""
        request = self.parts[part][name]
        if request["way"] == "cpp":
            assert self._cpp is not None
            found = self._cpp.trial(Cell("get", request["streams"], BLOCK_ROWS), PAIRINGS["cpp/cpp"])
            found["client_cpu_ns"] = found["user_ns"] + found["system_ns"]
            return found
        server = self._servers.get(request.get("server", ""))
        before = server.cpu_ns() if server else 0
        done = subprocess.run(
            [*_on(request.get("cpu")), sys.executable, str(HERE / "client.py"), json.dumps(request)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TRIAL_SECONDS,
        )
        if done.returncode != 0:
            raise TrialFailed(f"{part}, {name}: {(done.stderr.strip() or done.stdout.strip())[-400:]}")
        result: dict[str, Any] = json.loads(done.stdout)
        expected = request.get("expected", request.get("rows") and self._whole(request))
        if result["rows"] is not None and expected is not None and result["rows"] != expected:
            raise TrialFailed(f"{part}, {name}: {result['rows']:,} rows came, {expected:,} were asked for")
        result["server_cpu_ns"] = server.cpu_ns() - before if server else None
        return result

    @staticmethod
    def _whole(request: Request) -> int:
        """Rows that all streams get together: each the same number."""
        return int(request["rows"]) // int(request["streams"]) * int(request["streams"])


def _on(cpu: int | None) -> list[str]:
    """What a command begins with that is to run on that CPU only, all its threads."""
    return [] if cpu is None else ["taskset", "-c", str(cpu)]


def _pyarrow_flight(server: str, url: str, path: str) -> Request:
    return {"way": "pyarrow-flight", "server": server, "url": url, "path": path}


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    if importlib.util.find_spec(package.replace("-", "_")) is None:
        return None
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _records(path: Path, rows: int) -> None:
    """The table of `records` for those who want a path: the same types and sizes, other random values."""
    import pyarrow as pa

    random_ = np.random.default_rng(1)
    names = ["a", "b", "c", "d"]
    schema = pa.schema([(name, pa.int64()) for name in names])
    columns = [pa.array(random_.integers(-(2**63), 2**63 - 1, BLOCK_ROWS)) for _ in names]
    batch = pa.record_batch(columns, schema=schema)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for _ in range(max(1, rows // BLOCK_ROWS)):
            writer.write_batch(batch)


def _result(query: str, path: Path) -> None:
    """What the engine answers, as an Arrow file; by a process of its own, for the engine keeps its memory."""
    made = (
        "import sys, chdb, pyarrow as pa\n"
        "writer = None\n"
        "for piece in chdb.connect(':memory:').send_query(sys.argv[1], 'ArrowStream'):\n"
        "    for batch in pa.ipc.open_stream(piece.bytes()):\n"
        "        writer = writer or pa.ipc.new_file(sys.argv[2], batch.schema)\n"
        "        writer.write_batch(batch)\n"
        "writer.close()\n"
    )
    subprocess.run([sys.executable, "-c", made, query, str(path)], check=True, timeout=TRIAL_SECONDS)
