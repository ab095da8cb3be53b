"""A run from a validated scenario to a finished run directory, for `venturi run` and the Python API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from venturi import ceilings
from venturi.endpoints import Endpoints
from venturi.environment import collect
from venturi.errors import ExitCode
from venturi.scenario import Layer, Scenario, load
from venturi.settings import POINT_BYTES
from venturi.store import RunDirectory, RunWriter
from venturi.suffixes import format_bytes, format_duration
from venturi.sweep import Interrupts, Observer, Result, Sweep, exit_code
from venturi.toml_text import parse
from venturi.trial import Cell, Executor

__all__ = ["Estimate", "RunResult", "default_out", "estimate", "execute", "scenario_of"]

# What the estimate assumes; stated to the user together with it.
_BYTES_PER_SECOND = 1.5e9
_POINTS_PER_SECOND = 5e6
_SECONDS_PER_TRIAL = 0.1


@dataclass(frozen=True)
class RunResult:
    """How a run ended and where it is."""

    path: Path
    result: Result

    @property
    def exit_code(self) -> ExitCode:
        return exit_code(self.result)


@dataclass(frozen=True)
class Estimate:
    """What a run would do. Bytes are payload; `unknown` cells have no size before they are run."""

    cells: list[Cell]
    trials: int
    payload_bytes: int
    seconds: float
    unknown: int

    def _rates(self) -> list[str]:
        of = {cell.parameters["operation"] == "ingest" for cell in self.cells}
        bytes_ = [f"{format_bytes(_BYTES_PER_SECOND)}/s"] if False in of or not of else []
        return [*bytes_, *([f"{_POINTS_PER_SECOND / 1e6:g} M points/s"] if True in of else [])]

    def lines(self) -> list[str]:
        """For people."""
        size = format_bytes(self.payload_bytes)
        known = f"payload to move: {size}"
        if self.payload_bytes == 0 or self.unknown == len(self.cells):
            known = "payload to move: not known before; trials end by time, or the server has the data"
        elif self.unknown:
            known += f", and {self.unknown} cells whose size is not known before"
        return [
            f"cells: {len(self.cells)}, trials with warm-up: {self.trials}",
            known,
            f"time: about {format_duration(round(self.seconds, 1) * 1e9)}, assuming "
            f"{' and '.join(self._rates())} and {_SECONDS_PER_TRIAL:g} s set-up a trial, and "
            "the ceilings' probes",
        ]


def default_out(scenario: Scenario) -> Path:
    """venturi-runs/<timestamp>-<name>, numbered where that is taken."""
    stem = Path("venturi-runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{scenario.name}"
    path, number = stem, 1
    while path.exists():
        number += 1
        path = stem.with_name(f"{stem.name}-{number}")
    return path


def scenario_of(directory: RunDirectory) -> Scenario:
    """The scenario that a run was made of, to go on with it."""
    name = str(directory.path / "scenario.toml")
    text = directory.scenario_text()
    return load([Layer(name, parse(text, name), text, directory.path)], stored=True)


def estimate(scenario: Scenario, found: list[Cell]) -> Estimate:
    """Cells, trials, bytes and time of a whole run; nothing is measured."""
    per_cell = scenario.run.repeats + scenario.run.warmup
    sizes = [cell.payload_bytes for cell in found]
    durations = [cell.parameters["duration_ns"] for cell in found]
    total = sum(size or 0 for size in sizes) * per_cell
    points = [cell.parameters["operation"] == "ingest" for cell in found]
    moved = sum(
        (size or 0) / (_POINTS_PER_SECOND * POINT_BYTES if ingest else _BYTES_PER_SECOND)
        for size, ingest in zip(sizes, points, strict=True)
    )
    seconds = moved * per_cell + len(found) * per_cell * _SECONDS_PER_TRIAL
    seconds += sum(duration or 0 for duration in durations) / 1e9 * per_cell
    if scenario.run.ceilings:
        seconds += ceilings.seconds(ceilings.probes(found, servers=scenario.hosts.servers or 1))
    unknown = sum(size is None and not duration for size, duration in zip(sizes, durations, strict=True))
    return Estimate(found, len(found) * per_cell, total, seconds, unknown)


def execute(
    scenario: Scenario,
    out: Path,
    executor: Executor,
    observer: Observer,
    resume: bool = False,
    retry_failed: bool = False,
    command: Sequence[str] | None = None,
    fresh_ceilings: bool = False,
) -> RunResult:
    """Runs a scenario into `out`. Trials are on disk the moment they end.

    `command` is the command line to keep with the run; it must hold no secrets. `fresh_ceilings`: physical
    limits are measured again even where an earlier run of this hour has them.

    Raises VenturiError: ScenarioError for data files, StoreError for the directory, and where the
    reference server does not start. A failed trial raises nothing; see the result's `exit_code`.
    """
    with (
        Interrupts() as interrupts,
        Endpoints(
            scenario, executor.needs_server, observer.note, getattr(executor, "starter", None)
        ) as endpoints,
        RunWriter.resume(out) if resume else RunWriter.create(out) as writer,
    ):
        for text in writer.repaired:
            observer.note("warning", text)
        began = {"run": out.resolve().name, "started_unix_ns": time.time_ns(), "command": command}
        if not resume:
            # The name first: a run that is killed at once can still be resumed.
            writer.write_scenario(scenario.to_toml())
            writer.write_environment(began)
        observer.begin(endpoints.cells)
        # Of placements on several hosts only: what they need to know and can tell.
        if (check := getattr(executor, "check", None)) is not None:
            check(endpoints.cells)
        endpoints.start()
        peers = {} if resume else endpoints.server_environments()
        if not resume:
            loaders = getattr(executor, "environments", None)
            hosts = {"hosts": loaders()} if loaders is not None else {}
            writer.write_environment(began | collect(peers) | hosts)
        if scenario.run.ceilings:
            note, guard = observer.note, interrupts.guard
            ceilings.measure(endpoints, executor, writer, note, guard, peers, fresh=fresh_ceilings)
        sweep = Sweep(scenario.run, endpoints, executor, writer, observer, interrupts, retry_failed)
        result = sweep.run()
        if resume:
            from venturi import checks

            # What was foretold and queued since is measured too.
            result = result.with_more(
                checks.measure(scenario, writer, executor, observer, interrupts, retry_failed)
            )
    return RunResult(out, result)
