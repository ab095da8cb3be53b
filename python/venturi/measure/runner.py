"""A run from a validated scenario to a finished run directory, for `venturi run` and the Python API."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venturi.common import links
from venturi.common.environment import collect
from venturi.common.runtime import beside
from venturi.common.suffixes import format_bytes, format_duration
from venturi.engine.executor import Executor
from venturi.measure import ceiling_probes, ceilings, prove
from venturi.measure.ceilings import LEAST, OVER_LINKS, SHARE, RoundProbes
from venturi.measure.run_events import Interrupts, Observer, RunResult
from venturi.measure.sweep import Sweep
from venturi.measure.trial_targets import Endpoints
from venturi.plan.cell import Cell
from venturi.plan.load import to_toml
from venturi.plan.scenario import Scenario
from venturi.plan.workload import POINT_BYTES
from venturi.store.directory import RunDirectory
from venturi.store.writer import RunWriter

# What the estimate assumes; stated to the user together with it.
_BYTES_PER_SECOND = 1.5e9
_POINTS_PER_SECOND = 5e6
_SECONDS_PER_TRIAL = 0.1
_SECONDS_PER_LINK = 1.5


@dataclass(frozen=True)
class Estimate:
    """What a run would do. Bytes are payload; `unknown` cells have no size before they are run."""

    cells: list[Cell]
    trials: int
    payload_bytes: int
    seconds: float
    unknown: int

    def _rates(self) -> list[str]:
        if any(cell.parameters["link"] for cell in self.cells):
            return ["the rates of the links"]
        of = {cell.parameters["operation"] == "ingest" for cell in self.cells}
        bytes_ = [f"{format_bytes(_BYTES_PER_SECOND)}/s"] if False in of or not of else []
        return [*bytes_, *([f"{_POINTS_PER_SECOND / 1e6:g} M points/s"] if True in of else [])]

    def lines(self) -> list[str]:
        """For people."""
        size = format_bytes(self.payload_bytes)
        payload = f"payload to move: {size}"
        if self.payload_bytes == 0 or self.unknown == len(self.cells):
            payload = "payload to move: not known before; trials end by time, or the server has the data"
        elif self.unknown:
            payload += f", and {self.unknown} cells whose size is not known before"
        return [
            f"cells: {len(self.cells)}, trials with warm-up: {self.trials}",
            payload,
            f"time: about {format_duration(float(f'{self.seconds:.2g}') * 1e9)}, the probes of limits "
            f"included, at {' and '.join(self._rates())} and {_setup(self.cells):g} s set-up a trial",
        ]


def estimate(scenario: Scenario, found: list[Cell]) -> Estimate:
    """Cells, trials, bytes and time of a whole run; nothing is measured."""
    per_cell = scenario.run.repeats + scenario.run.warmup
    sizes = [cell.payload_bytes for cell in found]
    durations = [cell.parameters["duration_ns"] for cell in found]
    total = sum(size or 0 for size in sizes) * per_cell
    points = [cell.parameters["operation"] == "ingest" for cell in found]
    moved = sum(
        (size or 0) / min(_POINTS_PER_SECOND * POINT_BYTES if ingest else _BYTES_PER_SECOND, _carried(cell))
        for cell, size, ingest in zip(found, sizes, points, strict=True)
    )
    over_links = any(cell.parameters["link"] for cell in found)
    seconds = moved * per_cell + len(found) * per_cell * _setup(found)
    seconds += sum(duration or 0 for duration in durations) / 1e9 * per_cell
    if scenario.run.ceilings == "rounds":
        seconds += max(LEAST, (OVER_LINKS if over_links else SHARE) * seconds)
    if scenario.run.ceilings == "once":
        seconds += ceiling_probes.seconds(ceiling_probes.probes(found, servers=scenario.hosts.servers or 1))
    unknown = sum(size is None and not duration for size, duration in zip(sizes, durations, strict=True))
    return Estimate(found, len(found) * per_cell, total, seconds, unknown)


def _setup(cells: list[Cell]) -> float:
    """Seconds that a trial takes to begin: over a link also what it takes to make that and to look at it."""
    return _SECONDS_PER_LINK if any(cell.parameters["link"] for cell in cells) else _SECONDS_PER_TRIAL


def _carried(cell: Cell) -> float:
    """Bytes/s of the cell's link, the way that it moves rows, where it has one with a rate."""
    text = cell.parameters["link"]
    rate = links.parse(text).rate if text else None
    return rate[0 if cell.parameters["operation"] == "get" else 1] / 8 if rate is not None else math.inf


@contextlib.contextmanager
def opened(
    scenario: Scenario,
    out: Path,
    executor: Executor,
    observer: Observer,
    interrupts: Interrupts,
    endpoints: Endpoints,
    *,
    resume: bool,
    unproven: bool,
    command: Sequence[str] | None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator[tuple[RunWriter, Mapping[str, Any]]]:
    """The writer of a run whose servers are up, and what these tell of their hosts, by place; nothing of a
    resumed run that told it before. `meanwhile` is done while servers start: before any clock.

    Raises as `runner.execute`, and KeyboardInterrupt where that was asked for before the first trial.
    """
    executor.check(endpoints.cells)
    if not resume:
        RunWriter.check(out)
    # A run that was killed as it began has its scenario alone.
    fresh = not (resume and RunDirectory(out).environment)
    # After mistakes of the user's, and before anything is written.
    proof = prove.before_run(executor, observer.note, unproven) if fresh else None
    if interrupts.requested:
        raise KeyboardInterrupt
    with RunWriter.resume(out) if resume else RunWriter.create(out) as writer:
        for text in writer.repaired:
            observer.note("warning", text)
        began = {"run": out.resolve().name, "started_unix_ns": time.time_ns(), "command": command}
        began |= {"proof": proof} if proof is not None else {}
        if not resume:
            # First, so that a run killed at once can be resumed.
            writer.write_scenario(to_toml(scenario))
        if fresh:
            writer.write_environment(began)
        else:
            endpoints.resumed(writer.read().records())
        observer.begin(endpoints.cells)
        with beside(writer.get_ready, meanwhile):
            endpoints.start(lambda: interrupts.requested)
        peers: Mapping[str, Any] = endpoints.server_environments() if fresh else {}
        if fresh:
            loaders = executor.environments()
            hosts = {"hosts": loaders} if loaders else {}
            writer.write_environment(began | collect(peers) | hosts)
        yield writer, peers


def execute(
    scenario: Scenario,
    out: Path,
    executor: Executor,
    observer: Observer,
    resume: bool = False,
    retry_failed: bool = False,
    command: Sequence[str] | None = None,
    fresh_ceilings: bool = False,
    unproven: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> RunResult:
    """Runs a scenario into `out`. Trials are on disk the moment they end.

    `command` is the command line to keep with the run; it must hold no secrets. `fresh_ceilings`: physical
    limits that are measured once are measured again even where an earlier run of this hour has them.
    `unproven`: a failed self-test does not stop the run. `meanwhile`: what the caller does, in a thread while
    servers start.

    Raises VenturiError: ScenarioError for data files, StoreError for the directory, and where the
    reference server does not start or a proof fails. A failed trial raises nothing; see the result's
    `exit_code`.
    """
    with (
        Interrupts() as interrupts,
        Endpoints(scenario, executor.needs_server, observer.note, executor.starter) as endpoints,
    ):
        begin = opened(
            scenario, out, executor, observer, interrupts, endpoints,
            resume=resume, unproven=unproven, command=command, meanwhile=meanwhile,
        )  # fmt: skip
        with begin as (writer, peers):
            note, guard, run = observer.note, interrupts.guard, scenario.run
            if run.ceilings == "once":
                ceilings.measure(endpoints, executor, writer, note, guard, peers, fresh=fresh_ceilings)
            with contextlib.ExitStack() as stack:
                rounds = None
                if run.ceilings == "rounds":
                    rounds = stack.enter_context(RoundProbes(endpoints, executor, writer, note, guard))
                sweep = Sweep(run, endpoints, executor, writer, observer, interrupts, retry_failed, rounds)
                result = sweep.run()
    return RunResult(out, result)
