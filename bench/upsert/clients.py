"""The clients of a cell, each with its turn: some seconds of upserts, and what they cost."""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import shared
from bench.upsert import latte, processes, working_set
from bench.upsert.cells import Cell
from venturi.servers.throwaway import MariaDb, ThrowawayServer

LOADED_UNIX_S = 1_790_000_000


@dataclass(frozen=True)
class Turn:
    """One client's figures. `cpu` is the client's while it upserts, `life` that of its processes from their
    start to their end; seconds."""

    rows: int
    seconds: float
    cpu: float
    life: float
    more: dict[str, Any]


class Bench:
    """A server with the table of one cell, filled by Venturi; and what the clients send, as files."""

    def __init__(
        self,
        server: ThrowawayServer,
        cell: Cell,
        rows: int,
        streams: int,
        directory: Path,
        samples: bool = True,
    ) -> None:
        self.server = server
        self.cell = cell
        self.rows = rows
        self.streams = streams
        self.samples = samples
        self.directory = directory / cell.name
        self.directory.mkdir(parents=True, exist_ok=True)
        host, port = server.address.rsplit(":", 1)
        self.place = {"host": host, "port": int(port)}
        self._slap_rate = 20.0  # batches per second, until the first turn shows its rate
        self._floor: tuple[float, float] | None = None
        self._statements: list[Path] = []
        self._prepared: working_set.Prepared | None = None

    def prepare(self) -> None:
        """Makes the table and fills it with one pass; takes the statements, or the rows, from the server."""
        whole = -(-self.rows // self.streams)
        if isinstance(self.server, MariaDb):
            with working_set.logged(self.server) as statements:
                self._venturi({"setup": True, "keep": True}, rows_per_stream=whole)
                shares = statements()
            for number, share in enumerate(shares):
                path = self.directory / f"share-{number}.sql"
                working_set.write_statements(path, share)
                self._statements.append(path)
            if len(shares) != self.streams:
                raise shared.ClientFailed(f"{len(shares)} connections upserted, not {self.streams}")
            return
        self._venturi({"setup": True, "keep": True}, rows_per_stream=whole)
        found = working_set.from_cassandra(self.server, self.cell.table, self.cell.rows_per_batch)
        self._prepared = found
        rows = self.cell.rows_per_batch
        for number in range(self.streams):
            share = [
                found.rows[at : at + rows]
                for at in range(number * rows, len(found.rows), self.streams * rows)
            ]
            working_set.write_rows(
                self.directory / f"share-{number}.csv", [row for part in share for row in part]
            )
        if "latte" in self.cell.clients:
            latte.write_files(self.directory, found, rows, self._batch)

    def turn(self, client: str, seconds: float) -> Turn:
        turns = {
            "venturi": lambda: self._venturi({"setup": False}, duration_ns=int(seconds * 1e9)),
            "mysqlslap": lambda: self._mysqlslap(seconds),
            "pymysql": lambda: self._pymysql(seconds),
            "latte": lambda: self._latte(seconds),
            "python-driver": lambda: self._python_driver(seconds),
        }
        return turns[client]()

    @property
    def _batch(self) -> str | None:
        """COUNTER, UNLOGGED; None: row by row."""
        if self.cell.options.get("batch") == "none":
            return None
        return "COUNTER" if self.cell.options.get("write") == "counter" else "UNLOGGED"

    def _venturi(self, options: dict[str, Any], **amount: int) -> Turn:
        spec = {
            "trial": uuid.uuid4().hex,
            "target": self.server.url,
            "options": {"table": self.cell.table, **self.cell.options, **options},
            "operation": "upsert",
            "data": {"source": "usage", "working_set": self.rows, "seed": 1, "loaded_unix_s": LOADED_UNIX_S},
            "rows_per_batch": self.cell.rows_per_batch,
            "streams": self.streams,
            "threads": self.streams,
            "in_flight": self.cell.in_flight,
            "generate": "ahead",
            # Nobody checks what is in the table: the peers do not either.
            "verify": "none",
            "sample_interval_ns": 100_000_000 if self.samples else 0,
            **amount,
        }
        (ended,) = processes.run([processes.python("venturi_client", spec)])
        figures = json.loads(ended.output)
        return Turn(
            figures["rows"],
            figures["seconds"],
            figures["cpu"],
            ended.cpu,
            {"sampler_cpu": figures["sampler_cpu"], "software": figures["software"]},
        )

    def _mysqlslap(self, seconds: float) -> Turn:
        """One process a stream: within one, all connections send the same statements at the same time."""
        batches = max(1, round(self._slap_rate * seconds))
        common = [
            *("mysqlslap", "--no-defaults", "--protocol=tcp", f"--host={self.place['host']}", "--csv"),
            *(f"--port={self.place['port']}", f"--user={self.server.user}", "--create-schema=venturi"),
            *("--no-drop", "--delimiter=;", "--concurrency=1", "--iterations=1"),
        ]
        commands = [
            [*common, f"--query={path}", f"--number-of-queries={batches}"] for path in self._statements
        ]
        # It reports no CPU time. The connection has its own thread, which does nothing else.
        seen: dict[tuple[int, int], list[tuple[float, float]]] = {}

        def watch(pids: Sequence[int]) -> None:
            now = time.monotonic()
            for pid in pids:
                for thread, cpu in processes.thread_seconds(pid).items():
                    seen.setdefault((pid, thread), []).append((now, cpu))

        ended = processes.run(commands, watch)
        times = [float(one.output.strip().split(",")[2]) for one in ended]
        self._slap_rate = batches / statistics.fmean(times)
        rows = batches * self.cell.rows_per_batch
        # Each process at its own pace, as if all ended at once: in favour of the peer.
        rate = sum(rows / time for time in times)
        rows *= len(times)
        # Share of a core from the first look, when it had connected, to the last; then over the whole time.
        cpu = statistics.fmean(times) * sum(_share(looks) for looks in seen.values())
        return Turn(rows, rows / rate, cpu, sum(one.cpu for one in ended), {})

    def _pymysql(self, seconds: float) -> Turn:
        request = {**self.place, "user": self.server.user, "seconds": seconds}
        commands = [
            processes.python("pymysql_client", {**request, "path": str(path)}) for path in self._statements
        ]
        return self._together(commands)

    def _python_driver(self, seconds: float) -> Turn:
        assert self._prepared is not None
        request = {
            **self.place,
            "seconds": seconds,
            "statement": self._prepared.statement,
            "kinds": self._prepared.kinds,
            "batch": self._batch,
            "rows_per_batch": self.cell.rows_per_batch,
            "in_flight": self.cell.in_flight,
        }
        paths = [str(self.directory / f"share-{number}.csv") for number in range(self.streams)]
        return self._together(
            [processes.python("cassandra_client", {**request, "path": path}) for path in paths]
        )

    def _together(self, commands: list[list[str]]) -> Turn:
        """Python processes side by side, one a stream: a single one would have a single core."""
        ended = processes.run(commands)
        figures = [json.loads(one.output) for one in ended]
        rows = sum(one.get("rows", one.get("batches", 0) * self.cell.rows_per_batch) for one in figures)
        rate = sum(
            one.get("rows", one.get("batches", 0) * self.cell.rows_per_batch) / one["seconds"]
            for one in figures
        )
        return Turn(rows, rows / rate, sum(o["cpu"] for o in figures), sum(e.cpu for e in ended), {})

    def _latte(self, seconds: float) -> Turn:
        cell = self.cell

        def report(duration: str) -> tuple[dict[str, Any], float]:
            where = "{host}:{port}".format(**self.place)
            return latte.report(
                self.directory, where, cell.rows_per_batch, self.streams, cell.in_flight, duration
            )

        if self._floor is None:
            # Its clock runs while the script's data are copied for each thread: one call tells how long.
            floors = [report("1")[0] for _ in range(3)]
            self._floor = (
                min(result["cpu_time_s"] for result in floors),
                min(result["elapsed_time_s"] for result in floors),
            )
        result, life = report(f"{seconds:g}s")
        calls = result["cycle_count"] - 1
        cpu, elapsed = self._floor
        return Turn(
            calls * cell.rows_per_batch,
            result["elapsed_time_s"] - elapsed,
            result["cpu_time_s"] - cpu,
            life,
            {"floor_cpu": cpu, "floor_seconds": elapsed},
        )


def _share(looks: list[tuple[float, float]]) -> float:
    """CPU seconds a second, of (time, CPU seconds so far)."""
    (began, before), (ended, after) = looks[0], looks[-1]
    if ended <= began:
        raise shared.ClientFailed("a turn was too short to see a thread twice")
    return (after - before) / (ended - began)
