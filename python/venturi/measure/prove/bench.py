"""Where the self-test measures: trials of a target over the real path, each beside the system's clocks."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from venturi.common.environment import cpu_times, read
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine import record as records
from venturi.engine.executor import CoreExecutor, run_with_progress
from venturi.engine.spec import build_spec, completed, trial_line
from venturi.measure.prove.outcome import Checks, Reason
from venturi.measure.prove.relay import FRAMINGS, Plan, Relay
from venturi.measure.trial_targets import Endpoints
from venturi.plan import matrix
from venturi.plan.cell import Cell
from venturi.plan.layers import Layer
from venturi.plan.load import layer_tree, load
from venturi.plan.rules.systems import names_something
from venturi.plan.scenario import Scenario
from venturi.targets.system import (
    BY_SCHEME,
    PORTS,
    REFERENCE,
    REMOTE,
    System,
    is_charrow,
    is_local,
    is_ours,
    is_readable,
    is_unix,
    scheme_of,
)
from venturi.targets.urls import each_host, is_loopback, printable

NOISY = 0.10
"""If other processes or the host use this share of all cores or more, a deviation in time is excused."""
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ExternalView:
    """A trial by the clocks and counters of the system."""

    began_unix_ns: int
    elapsed_ns: int
    other_share: float
    """The share of all cores that neither end used, or that the host took."""

    @property
    def noisy(self) -> bool:
        return self.other_share > NOISY


class ExternalCounters:
    """Reads the system's clocks and counters before a trial and after it."""

    def __init__(self, server: int | None) -> None:
        self._server = server
        self._began_unix_ns = time.time_ns()
        self._before = self._now()

    def _now(self) -> tuple[int, int, dict[str, int]]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used_ns = int((usage.ru_utime + usage.ru_stime) * 1e9) + process_cpu_ns(self._server)
        return time.monotonic_ns(), used_ns, cpu_times() or {}

    def ended(self) -> ExternalView:
        (t0, used0, cpu0), (t1, used1, cpu1) = self._before, self._now()
        parts = {name: cpu1[name] - cpu0.get(name, 0) for name in cpu1}
        total, stolen = max(sum(parts.values()), 1), parts.get("steal", 0)
        busy = total - parts.get("idle", 0) - parts.get("iowait", 0) - stolen
        other_share = max(0.0, busy * _TICK_NS - (used1 - used0)) / (total * _TICK_NS) + stolen / total
        # A few ticks are too coarse.
        return ExternalView(self._began_unix_ns, t1 - t0, other_share if total > 4 else 0.0)


def process_cpu_ns(pid: int | None) -> int:
    """User and system time of a process and of its children: PostgreSQL has one for each connection."""
    text = read(f"/proc/{pid}/stat") if pid is not None else None
    if text is None:
        return 0
    ticks = sum(map(int, text.rpartition(")")[2].split()[11:15]))
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    children = " ".join(read(str(path)) or "" for path in threads).split()
    return ticks * _TICK_NS + sum(process_cpu_ns(int(child)) for child in children)


TIMEOUT_NS = 5_000_000_000
_LONG_SECONDS = 2.0
"""If trials are slow, a part makes as few as it can, so that there is time for the others."""
_DEFAULTS: dict[str, dict[str, Any]] = {
    "upsert": {"rows_per_batch": 50, "working_set": 10_000, "rows_per_stream": 1000},
    "ingest": {"rows_per_batch": 100, "hosts": 10, "points_per_stream": 1000, "generate": "ahead"},
}


@dataclass(frozen=True)
class Trial:
    cell: Cell
    record: dict[str, Any]
    external: ExternalView
    relay: Any = None
    """What a relay on its way counted."""

    @property
    def ok(self) -> bool:
        return bool(self.record["outcome"] == "ok")

    def line(self) -> records.Trial:
        """As a run would record it."""
        of: dict[str, Any] = {"run": "prove", "trial": "prove", "repeat": 0, "warmup": False, "order": 0}
        return records.trial_of(trial_line(self.record, cell=self.cell, **of))


class Bench:
    """A context manager that starts and stops what `X://local` stands for."""

    def __init__(
        self,
        url: str,
        settings: Mapping[str, Any] | None = None,
        note: Callable[[str, str], None] = lambda level, text: None,
        seconds: float | None = None,
    ) -> None:
        self.url, self._note, self._seconds = url, note, seconds
        self.system: System = BY_SCHEME[scheme_of(url)]
        self._executor = CoreExecutor()
        self._settings = {name: value for name, value in (settings or {}).items() if value not in (None, [])}
        self._stack = contextlib.ExitStack()
        self._deadline: float | None = None
        self._cells: dict[str, tuple[Scenario, Cell]] = {}
        self._endpoints: Endpoints | None = None
        self._count = 0
        self._pid: int | None = None
        """The process of a server on this host, once a trial has found it."""

    def __enter__(self) -> Bench:
        with contextlib.ExitStack() as stack:
            scenario, _ = self._planned({})
            endpoints = Endpoints(scenario, self._executor.needs_server, self._note)
            self._endpoints = stack.enter_context(endpoints)
            endpoints.start()
            # After the start: Cassandra's alone takes as long as the whole self-test may.
            if self._seconds is not None:
                self._deadline = time.monotonic() + self._seconds
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # ---- what the target allows --------------------------------------------------------------

    @property
    def operations(self) -> list[str]:
        """Those that the self-test may do. A user's table is only read."""
        if self.is_user_table:
            return [one for one in self.system.operations if one == "get"]
        if is_readable(self.url) and self.system.ports:
            # A relay distinguishes the batches of an upsert by their answers; the rows of a get come singly.
            return ["upsert"]
        return list(self.system.operations)

    @property
    def is_user_table(self) -> bool:
        """Whether the URL names rows that exist already."""
        return "get" in self.system.operations and names_something(self.url)

    @property
    def why_not_relayed(self) -> Reason | None:
        """Why no relay can stand on the way. A certificate names another address than the relay's."""
        scheme = self.url.partition("://")[0]
        if is_unix(self.url):
            return Reason.NO_NETWORK
        if not self.system.ports:
            return Reason.NO_PLACE
        if len(each_host(self.url)) > 1:
            return Reason.SEVERAL
        return Reason.NO_STREAM if "+tls" in scheme or "+udp" in scheme else None

    @property
    def why_not_framed(self) -> Reason | None:
        """Why no relay can distinguish batches."""
        return self.why_not_relayed or (None if self.system.scheme in FRAMINGS else Reason.NO_STREAM)

    @property
    def can_be_slowed(self) -> bool:
        """Whether its client's stages can be slowed down."""
        with contextlib.suppress(VenturiError):
            self.cell(handicap="verify=1ms")
            return True
        return False

    @property
    def is_reference(self) -> bool:
        """Whether its server is one of Venturi's, started here."""
        return is_local(self.url) and scheme_of(self.url) in (*REMOTE, *REFERENCE)

    @property
    def streams(self) -> int:
        """How many streams of a trial share no query, so that the work of each is known."""
        return 1 if is_charrow(self.url) else 2

    def has_time(self) -> bool:
        return self._deadline is None or time.monotonic() < self._deadline

    def has_time_for_more(self, began: float) -> bool:
        """Whether a part that began then makes more trials than it must."""
        return self.has_time() and time.monotonic() - began < _LONG_SECONDS

    # ---- trials ------------------------------------------------------------------------------

    def _planned(self, changes: Mapping[str, Any]) -> tuple[Scenario, Cell]:
        key = repr(sorted(changes.items()))
        if key not in self._cells:
            operation = changes.get("operation", self.operations[0])
            wanted: dict[str, Any] = {"target": self.url, "operation": operation, "streams": 1}
            if self.is_user_table:
                wanted |= {"operation": "get", "data": ["remote"]}
            else:
                records = {"rows_per_batch": 256, "columns": 2, "rows_per_stream": 2560}
                wanted |= _DEFAULTS.get(operation, records)
            wanted = {**wanted, **self._settings, **changes}
            # As it would be typed: the rest reads command lines.
            tree, spelled = layer_tree(
                {
                    name: value if isinstance(value, (str, bool, list)) else str(value)
                    for name, value in wanted.items()
                    if value is not None
                }
            )
            tree.setdefault("name", "prove")
            scenario = load([Layer("", tree, flags=spelled)])
            self._cells[key] = scenario, matrix.cells(scenario)[0]
        return self._cells[key]

    def cell(self, **changes: Any) -> Cell:
        return self._planned(changes)[1]

    def batch_bytes(self, operation: str) -> int:
        """The least size of a message with a batch."""
        p = self.cell(operation=operation).parameters
        return max(1, int((p["row_bytes"] or 0) * p["rows_per_batch"]))

    def url_of(self, **changes: Any) -> str:
        """The real address."""
        assert self._endpoints is not None
        return self._endpoints.url(self.cell(**changes))

    def trial(
        self,
        *,
        timeout_ns: int = TIMEOUT_NS,
        sample_ns: int = 20_000_000,
        plan: Plan | None = None,
        **changes: Any,
    ) -> Trial:
        """One trial of the target with these parameters; with a `plan`, through a relay."""
        endpoints = self._endpoints
        assert endpoints is not None
        cell = self.cell(**changes)
        # A store that is emptied may listen elsewhere afterwards.
        endpoints.ready(cell)
        url, target = endpoints.url(cell), str(cell.parameters["target"])
        with contextlib.ExitStack() as stack:
            relay = None
            if plan is not None:
                relay = stack.enter_context(Relay(*_place(url), plan))
                user, at, _ = urlsplit(url).netloc.rpartition("@")
                url = urlsplit(url)._replace(netloc=f"{user}{at}127.0.0.1:{relay.port}").geturl()
            self._count += 1
            spec = build_spec(
                cell,
                f"prove-{os.getpid()}-{time.monotonic_ns()}-{self._count}",
                url,
                endpoints.data(cell),
                timeout_ns=timeout_ns,
                sample_interval_ns=sample_ns,
                options=endpoints.options(cell),
            )
            if (store := endpoints.local.store(target)) is not None:
                store.begin()
            counters = ExternalCounters(endpoints.local.pid(target) or self._pid)
            control = self._executor.control()
            record = completed(
                run_with_progress(self._executor.run_trial, spec, control, None, poll_seconds=1.0)
            )
            external = counters.ended()
            endpoints.moved(cell, record)
            # Through a relay, the process at the other end is this one.
            if relay is None and is_loopback(url):
                self._pid = (record["target"] or {}).get("pid")
            return Trial(cell, record, external, relay.counts if relay is not None else None)

    def attempt(self, make: Callable[..., Checks], *arguments: Any, most: int = 3) -> Checks:
        """Tries again if only time is in doubt: the first attempt without a doubt, or with an error that no
        other work on the machine explains; else the one with the fewest doubts."""
        best: Checks | None = None
        for number in range(most):
            if number > 0 and not self.has_time():
                break
            found = make(self, *arguments)
            wrong = [check for check in found if not check.right]
            if any(not check.timed for check in wrong) or not wrong:
                return found
            if best is None or len(wrong) < sum(not check.right for check in best):
                best = found
        assert best is not None
        return best

    def check_target(self) -> None:
        """Makes one trial of each operation of a target that is not Venturi's. Raises VenturiError if one
        fails: nothing can be tested with such a target."""
        for operation in () if is_ours(self.url) else self.operations:
            error = self.trial(operation=operation).record["error"]
            if error is not None:
                unreachable = error["kind"] == "unreachable"
                raise VenturiError(
                    f"{printable(self.url)}: no {operation} ends well there: {error['kind']}: "
                    f"{error['message']}",
                    ExitCode.UNREACHABLE if unreachable else ExitCode.TRIALS_FAILED,
                    hint="the self-test needs a target that works: venturi run --target says more",
                )


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    port = PORTS.get(url.partition("://")[0], PORTS.get(scheme_of(url), 0))
    return parts.hostname or "127.0.0.1", parts.port or port
