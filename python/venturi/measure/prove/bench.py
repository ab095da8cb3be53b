"""The bench on which proofs are made: trials of a target on the real path, each with what was seen from
outside while it ran."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from venturi.common.errors import ExitCode, VenturiError
from venturi.engine.executor import CoreExecutor, Executor, Progress, run_with_progress
from venturi.engine.spec import build_spec, completed, trial_line
from venturi.measure.ceiling_probes import Prober, probes
from venturi.measure.endpoints import Endpoints
from venturi.measure.prove.framing import FRAMINGS
from venturi.measure.prove.outcome import Reason
from venturi.measure.prove.outside import Around, Outside, process_cpu_ns
from venturi.measure.prove.relay import Plan, Relay
from venturi.plan import matrix
from venturi.plan.cell import Cell
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.plan.rules.flight import names_something
from venturi.plan.scenario import Scenario
from venturi.servers.reference import ReferenceServer
from venturi.targets.system import (
    PORTS,
    REFERENCE,
    REMOTE,
    SYSTEMS,
    System,
    is_charrow,
    is_local,
    is_ours,
    is_readable,
    is_unix,
    scheme_of,
)
from venturi.targets.urls import each_host, is_loopback, printable

__all__ = ["TIMEOUT_NS", "Bench", "Trial"]

Note = Callable[[str, str], None]
_RAW_TCP_SECONDS = 0.06
_LONG_SECONDS = 2.0
"""Of a target whose trials are slow, a proof makes as few as it can, so that there is time for the others."""
TIMEOUT_NS = 5_000_000_000
_COLUMNS = 2
_POLL_SECONDS, _SELDOM_SECONDS = 0.02, 1.0


@dataclasses.dataclass(frozen=True)
class Trial:
    cell: Cell
    record: dict[str, Any]
    outside: Outside
    relay: Any = None
    """What a relay on its way has seen."""

    @property
    def ok(self) -> bool:
        return bool(self.record["outcome"] == "ok")

    @property
    def batches(self) -> int:
        """As many as were asked for."""
        p = self.cell.parameters
        return int(p["streams"]) * -(-int(p["rows_per_stream"] or 0) // int(p["rows_per_batch"]))

    def line(self, repeat: int = 0) -> dict[str, Any]:
        """As it would stand in a run."""
        return trial_line(
            self.record,
            run="prove",
            trial=f"prove-{repeat}",
            cell=self.cell,
            repeat=repeat,
            warmup=False,
            order=repeat,
        )


class Bench:
    """Use as a context manager, which starts and stops what `X://local` stands for."""

    def __init__(
        self,
        url: str,
        settings: Mapping[str, Any] | None = None,
        executor: Executor | None = None,
        note: Note = lambda level, text: None,
        seconds: float | None = None,
    ) -> None:
        self.url, self._note = url, note
        self.executor = executor if executor is not None else CoreExecutor()
        self._given = {name: value for name, value in (settings or {}).items() if value not in (None, [])}
        self.system: System = next(one for one in SYSTEMS if url.partition("://")[0] in one.schemes)
        self._stack = contextlib.ExitStack()
        self._count = 0
        self._pid: int | None = None
        self._seconds = seconds
        self._deadline: float | None = None
        self.trials: list[Trial] = []
        """All that went well and were meant to, for what must hold of each."""
        self._cells: dict[str, tuple[Scenario, Cell]] = {}
        self.endpoints: Endpoints | None = None

    def __enter__(self) -> Bench:
        try:
            scenario, _ = self._cell({})
            self.endpoints = self._stack.enter_context(
                Endpoints(scenario, self.executor.needs_server, self._note)
            )
            self.endpoints.start()
            # After the start: Cassandra's alone takes as long as all proofs may.
            if self._seconds is not None:
                self._deadline = time.monotonic() + self._seconds
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # ---- what it is ------------------------------------------------------------------------

    @property
    def operations(self) -> list[str]:
        """Those that a proof may do there: of what is somebody's, reading alone."""
        if self.somebodys:
            return [one for one in self.system.operations if one == "get"]
        if is_readable(self.url) and self.networked:
            # A relay tells the batches of an upsert by their answers; the rows of a get come one by one.
            return ["upsert"]
        return list(self.system.operations)

    @property
    def somebodys(self) -> bool:
        """Whether the URL names rows that are there already."""
        return "get" in self.system.operations and names_something(self.url)

    @property
    def networked(self) -> bool:
        return bool(self.system.ports)

    @property
    def several(self) -> bool:
        return self.networked and len(each_host(self.url)) > 1

    @property
    def datagrams(self) -> bool:
        return "+udp" in self.url.partition("://")[0]

    @property
    def encrypted(self) -> bool:
        return "+tls" in self.url.partition("://")[0]

    @property
    def framed(self) -> bool:
        """Whether a relay can tell its batches."""
        return self.system.scheme in FRAMINGS and self.relayed

    @property
    def relayed(self) -> bool:
        """Whether a relay can stand on its way. A certificate names another address than the relay's."""
        unseen = self.several or self.encrypted or self.datagrams or is_unix(self.url)
        return self.networked and not unseen

    @property
    def unframed(self) -> Reason:
        """Why no relay can tell its batches."""
        if is_unix(self.url):
            return Reason.NO_NETWORK
        if self.several:
            return Reason.SEVERAL
        return Reason.NO_STREAM if self.networked else Reason.NO_PLACE

    @property
    def handicapped(self) -> bool:
        """Whether its client's stages can be slowed down."""
        return self.takes(handicap="verify=1ms")

    @property
    def reference(self) -> bool:
        """Whether its server is one of Venturi's own, started here."""
        return is_local(self.url) and scheme_of(self.url) in (*REMOTE, *REFERENCE)

    @property
    def server_pid(self) -> int | None:
        """The process of the server that was started here for the proof. A store is a new one for each
        trial."""
        return self.endpoints.server_pid(self.cell()) if self.endpoints is not None else None

    @property
    def streams(self) -> int:
        """Of a trial with several: as many as share no query, so that it is known what each does."""
        return 1 if is_charrow(self.url) else 2

    def in_time(self) -> bool:
        """Whether more can be begun."""
        return self._deadline is None or time.monotonic() < self._deadline

    def goes_on(self, began: float) -> bool:
        """Whether a proof that began then makes more repeats than it must."""
        return self.in_time() and time.monotonic() - began < _LONG_SECONDS

    # ---- trials ----------------------------------------------------------------------------

    def _cell(self, changes: Mapping[str, Any]) -> tuple[Scenario, Cell]:
        from venturi.plan.typed import layer_tree

        key = repr(sorted(changes.items()))
        if key not in self._cells:
            defaults = self._defaults(changes.get("operation", self.operations[0]))
            wanted = {"target": self.url, **defaults, **self._given, **changes}
            wanted = {name: value for name, value in wanted.items() if value is not None}
            tree, spelled = layer_tree({name: _typed(name, value) for name, value in wanted.items()})
            tree.setdefault("name", "prove")
            scenario = load([Layer("", tree, flags=spelled)])
            self._cells[key] = scenario, matrix.cells(scenario)[0]
        return self._cells[key]

    def _defaults(self, operation: str) -> dict[str, Any]:
        found: dict[str, Any] = {"operation": operation, "streams": 1, "rows_per_batch": 256}
        if self.somebodys:
            return {"operation": "get", "streams": 1, "data": ["remote"]}
        if operation == "upsert":
            return found | {"rows_per_batch": 50, "working_set": 10_000, "rows_per_stream": 1000}
        if operation == "ingest":
            return found | {
                "rows_per_batch": 100,
                "hosts": 10,
                "points_per_stream": 1000,
                "generate": "ahead",
            }
        return found | {"columns": _COLUMNS, "rows_per_stream": 2560}

    def cell(self, **changes: Any) -> Cell:
        return self._cell(changes)[1]

    def takes(self, **changes: Any) -> bool:
        """Whether a cell of this target may have these parameters."""
        with contextlib.suppress(VenturiError):
            self.cell(**changes)
            return True
        return False

    def options(self, operation: str) -> set[str]:
        """Names of the parameters that a cell of this target has."""
        return {
            name for name, value in self.cell(operation=operation).parameters.items() if value is not None
        }

    def url_of(self, **changes: Any) -> str:
        """The real address."""
        assert self.endpoints is not None
        return self.endpoints.url(self.cell(**changes))

    def trial(
        self,
        *,
        at: str | None = None,
        seed: int | None = None,
        timeout_ns: int = TIMEOUT_NS,
        sample_ns: int = 20_000_000,
        keep: bool = True,
        plan: Plan | None = None,
        meanwhile: Callable[[Progress], None] | None = None,
        **changes: Any,
    ) -> Trial:
        """One trial of the target with these parameters, or of another server `at` an address; with a `plan`
        through a relay. `keep`: it is meant to go well, and what must hold of each trial is checked of it.
        `meanwhile` is called again and again while it runs."""
        endpoints = self.endpoints
        assert endpoints is not None
        cell = self.cell(**changes)
        # A store that is emptied may listen elsewhere afterwards.
        endpoints.ready(cell)
        url = at or endpoints.url(cell)
        with contextlib.ExitStack() as stack:
            relay = None
            if plan is not None:
                host, port = _place(url, self.system)
                relay = stack.enter_context(Relay(host, port, plan))
                url = urlsplit(url)._replace(netloc=_through(url, relay.port)).geturl()
            self._count += 1
            data = endpoints.data(cell)
            spec = build_spec(
                cell,
                f"prove-{os.getpid()}-{time.monotonic_ns()}-{self._count}",
                url,
                data if seed is None else {**data, "seed": seed},
                timeout_ns=timeout_ns,
                sample_interval_ns=sample_ns,
                options=endpoints.options(cell),
            )
            endpoints.begin(cell)
            pid = self.server_pid or self._pid
            outside = Around(pid if at is None else None, is_loopback(url) and not is_unix(url))
            record = completed(
                run_with_progress(
                    *(self.executor.run_trial, spec, self.executor.control(), meanwhile),
                    poll_seconds=_POLL_SECONDS if meanwhile is not None else _SELDOM_SECONDS,
                )
            )
            # A server that does not tell its process is looked for by its port. Through a relay that is this
            # process, whose CPU time is told as the server's.
            found = self.reference or relay is None
            seen = outside.ended(record if found else {})
            endpoints.moved(cell, record)
            if not found:
                seen = dataclasses.replace(seen, server_cpu_ns=None)
            elif at is None and is_loopback(url):
                # From the first trial on it is known.
                self._pid = (record["target"] or {}).get("pid")
            made = Trial(cell, record, seen, relay.seen if relay is not None else None)
        if keep:
            self.trials.append(made)
        return made

    def slowed(self, stack: contextlib.ExitStack, handicaps: Sequence[str]) -> list[tuple[str, int | None]]:
        """Reference servers of this system, one for each handicap, as their URLs and processes. `stack` stops
        them."""
        kind = REFERENCE[self.system.scheme]
        servers = [ReferenceServer("--handicap", text, kind=kind) for text in handicaps]
        # All are started at once, and stopped at once.
        pool = stack.enter_context(ThreadPoolExecutor(len(servers)))
        stack.callback(lambda: list(pool.map(ReferenceServer.stop, servers)))
        list(pool.map(ReferenceServer.start, servers))
        return [(f"{self.system.scheme}://{server.address}", server.pid) for server in servers]

    def cpu_ns(self, pids: Sequence[int | None]) -> int:
        """The CPU time that these processes have used so far."""
        return sum(process_cpu_ns(pid) or 0 for pid in pids)

    def reach(self) -> None:
        """Makes one trial of each operation of a target that is not ours. Raises VenturiError where one does
        not end well: of such a target nothing can be proved."""
        for operation in () if is_ours(self.url) else self.operations:
            error = self.trial(operation=operation).record["error"]
            if error is not None:
                unreachable = error["kind"] == "unreachable"
                said = f"no {operation} ends well there: {error['kind']}: {error['message']}"
                raise VenturiError(
                    f"{printable(self.url)}: {said}",
                    ExitCode.UNREACHABLE if unreachable else ExitCode.TRIALS_FAILED,
                    hint="a proof needs a target that works: venturi run --target says more",
                )

    def engine_alone(self, cell: Cell) -> dict[str, Any]:
        """What the engine can do with this cell's data where nothing is moved: a line of ceilings.jsonl."""
        probe = next(probe for probe in probes([cell]) if probe.kind == "engine")
        with contextlib.ExitStack() as stack:
            return Prober(self.executor, self.endpoints, stack).line(probe, 0, self.executor.control())

    def raw_tcp(self, cell: Cell) -> tuple[dict[str, Any], Outside] | None:
        """What plain bytes over as many connections did, as a line of ceilings.jsonl, and what was seen of it
        from outside (all placements, of which the line has the best); None where nothing of it passes the
        loopback interface."""
        probe = next((probe for probe in probes([cell]) if probe.kind == "tcp"), None)
        if probe is None or not is_loopback(self.url_of()):
            return None
        with contextlib.ExitStack() as stack:
            prober = Prober(self.executor, self.endpoints, stack)
            around = Around(self.server_pid or self._pid, loopback=True)
            line = prober.line(probe, 0, self.executor.control(), length=_RAW_TCP_SECONDS)
            return line, around.ended({})


def _typed(name: str, value: Any) -> Any:
    """As it would be typed: what follows is what reads a command line."""
    return value if isinstance(value, (str, bool, list)) else str(value)


def _place(url: str, system: System) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or PORTS.get(
        url.partition("://")[0], PORTS.get(scheme_of(url), 0)
    )


def _through(url: str, port: int) -> str:
    """The authority of a URL with a port of this host, and with the user that was there."""
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    return f"{user}{at}127.0.0.1:{port}"
