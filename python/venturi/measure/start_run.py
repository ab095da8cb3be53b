"""How a run begins: the user's mistakes, the self-test, the directory, the servers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from venturi.common.environment import collect
from venturi.common.runtime import beside
from venturi.engine.executor import Executor
from venturi.measure.interrupts import Interrupts
from venturi.measure.observer import Observer
from venturi.measure.prove import short
from venturi.measure.trial_targets import Endpoints
from venturi.plan.resolved import to_toml
from venturi.plan.scenario import Scenario
from venturi.store.directory import RunDirectory
from venturi.store.writer import RunWriter

__all__ = ["opened"]


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
    # Only placements on several hosts have these.
    if (check := getattr(executor, "check", None)) is not None:
        check(endpoints.cells)
    if not resume:
        RunWriter.check(out)
    # A run that was killed as it began has its scenario alone.
    fresh = not (resume and RunDirectory(out).environment)
    # After mistakes of the user's, and before anything is written.
    proof = short.before_run(executor, observer.note, unproven) if fresh else None
    if interrupts.asked:
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
            endpoints.start(lambda: interrupts.asked)
        peers: Mapping[str, Any] = endpoints.server_environments() if fresh else {}
        if fresh:
            loaders = getattr(executor, "environments", dict)()
            hosts = {"hosts": loaders} if loaders else {}
            writer.write_environment(began | collect(peers) | hosts)
        yield writer, peers
