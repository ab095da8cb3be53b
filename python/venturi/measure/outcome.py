"""How a run ended, as a value and as an exit code."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from venturi.common.errors import ExitCode
from venturi.common.toml_text import parse
from venturi.common.units import plural
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.plan.scenario import Scenario
from venturi.store.directory import RunDirectory

__all__ = ["Result", "RunResult", "default_out", "exit_code", "scenario_of"]


@dataclass(frozen=True)
class RunResult:
    """How a run ended and where it is."""

    path: Path
    result: Result

    @property
    def exit_code(self) -> ExitCode:
        return exit_code(self.result)


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


@dataclass
class Result:
    """How a sweep ended."""

    trials: int = 0
    failed: int = 0
    failed_warmups: int = 0
    """Of the failed ones."""
    interrupted: bool = False
    kinds: set[str] = field(default_factory=set)
    # The distinct reasons, first come first.
    reasons: dict[str, None] = field(default_factory=dict)

    def failures(self) -> str:
        """`2 of 6 trials failed, 1 of them a warm-up`."""
        text = f"{self.failed} of {plural(self.trials, 'trial')} failed"
        some = self.failed_warmups
        return f"{text}, {some} of them {'a warm-up' if some == 1 else 'warm-ups'}" if some else text


def exit_code(result: Result) -> ExitCode:
    """The process's exit code after a sweep; docs/exit-codes.md."""
    if result.interrupted:
        return ExitCode.INTERRUPTED
    if not result.failed:
        return ExitCode.OK
    if "verification" in result.kinds:
        return ExitCode.VERIFICATION
    # Only if nothing else went wrong and no trial was answered: otherwise the host is there.
    if result.kinds == {"unreachable"} and result.failed == result.trials:
        return ExitCode.UNREACHABLE
    return ExitCode.TRIALS_FAILED
