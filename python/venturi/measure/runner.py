"""A run from a validated scenario to a finished run directory, for `venturi run` and the Python API."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from venturi.engine.executor import Executor
from venturi.measure import ceilings
from venturi.measure.ceiling_rounds import RoundProbes
from venturi.measure.interrupts import Interrupts
from venturi.measure.observer import Observer
from venturi.measure.outcome import RunResult
from venturi.measure.start_run import opened
from venturi.measure.sweep import Sweep
from venturi.measure.trial_targets import Endpoints
from venturi.plan.scenario import Scenario

__all__ = ["execute"]


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
        Endpoints(
            scenario, executor.needs_server, observer.note, getattr(executor, "starter", None)
        ) as endpoints,
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
