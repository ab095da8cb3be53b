"""A run as its caller has it: what it is told, what it gets, and how it ends it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from venturi.common.errors import ExitCode
from venturi.common.runtime import ending, is_program
from venturi.common.texts import LONGEST, plain, say
from venturi.common.toml_text import parse
from venturi.common.units import plural
from venturi.engine.executor import Progress, TrialControl
from venturi.engine.record import trial_of
from venturi.plan.cell import Cell
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.plan.scenario import Scenario
from venturi.store.directory import RunDirectory
from venturi.store.lines import line_text


class Observer(Protocol):
    """Who is told how a run goes on: the terminal, or a program."""

    def begin(self, cells: Sequence[Cell]) -> None:
        """The data are ready and the cells known; nothing has been measured."""

    def started(self, number: int, total: int, slot: Slot) -> None:
        """Trial `number` (from 1) of `total` begins."""

    def progress(self, progress: Progress) -> None:
        """Ten times a second while it runs."""

    def ended(self, line: Mapping[str, Any]) -> None:
        """It has ended and is on disk."""

    def unstored(self, line: Mapping[str, Any]) -> None:
        """It has ended and could not be stored."""

    def note(self, level: str, text: str) -> None:
        """A line for the user: info, warning or error."""


@dataclass(frozen=True)
class Slot:
    """One trial to be run: a repeat (from 0) of a cell."""

    cell: Cell
    repeat: int
    warmup: bool


def outcome_text(line: Mapping[str, Any]) -> str:
    """How a trial ended, in a few words: "2431 MB/s", "143,312 rows/s" or "failed: lost: ..."."""
    from venturi.analysis.cells.figures import main_unit
    from venturi.analysis.cells.writes import acknowledged, trouble_phrases, troubles

    trial = trial_of(line)
    if trial.outcome == "ok":
        interval, operation = trial.times.interval_ns or 1, trial.parameters.get("operation")
        if counts_rows(operation):
            rate = f"{(trial.counts.rows or 0) * 1e9 / interval:,.0f} {main_unit(operation)}"
            return ", ".join([rate, *trouble_phrases(troubles([trial]))])
        return f"{(trial.counts.payload_bytes or 0) * 1e3 / interval:,.0f} MB/s"
    done = acknowledged(trial)
    text = plain(f"{trial.outcome}: {trial.error.kind}: {trial.error.message}", LONGEST)
    return f"{text}; {done}" if done else text


def counts_rows(operation: object) -> bool:
    from venturi.analysis.cells.figures import IN_ROWS

    return operation in IN_ROWS


class QuietObserver:
    """Warnings and errors only, and the reasons of failed trials."""

    def __init__(self) -> None:
        self.labels: Mapping[str, str] = {}

    def begin(self, cells: Sequence[Cell]) -> None:
        from venturi.plan.cell import cell_labels

        self.labels = cell_labels(cells)

    def started(self, number: int, total: int, slot: Slot) -> None:
        pass

    def progress(self, progress: Progress) -> None:
        pass

    def ended(self, line: Mapping[str, Any]) -> None:
        if line["outcome"] != "ok":
            self.note("warning", f"{self.head(line)}: {outcome_text(line)}")

    def unstored(self, line: Mapping[str, Any]) -> None:
        self.note("warning", f"measured but not stored: {self.head(line)}: {outcome_text(line)}")
        print(line_text({key: value for key, value in line.items() if key != "samples"}), flush=True)

    def close(self) -> None:
        """Takes away what it has drawn, at the end of a run."""

    def note(self, level: str, text: str) -> None:
        if level != "info":
            say(level, text)

    def head(self, line: Mapping[str, Any]) -> str:
        """Which trial a line is of."""
        return f"{self.label(line['cell'])} {'warm-up' if line['warmup'] else 'repeat'} {line['repeat']}"

    def label(self, cell: str) -> str:
        return self.labels.get(cell, cell)


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


class Interrupts:
    """Ctrl-C, SIGTERM and SIGHUP. The first cancels the trial and ends the sweep, which is kept. The second
    waits for no trial. A third one ends the process of the command line, which then does not even wait for
    what was started to end; a library raises KeyboardInterrupt, after the first one when all is kept."""

    def __init__(self) -> None:
        self.requested = False
        self._left = False
        self._control: TrialControl | None = None
        self._before: dict[int, Any] = {}

    def guard(self, control: TrialControl | None) -> bool:
        """Tells what runs now (None: nothing); answers whether to go on."""
        self._control = control
        return not self.requested

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._left and is_program():
            os._exit(ExitCode.INTERRUPTED)
        if self.requested:
            # Nothing is lost: every trial that ended is on disk. What was started and made goes.
            self._left = True
            raise KeyboardInterrupt
        self.requested = True
        if self._control is not None:
            self._control.cancel()

    def __enter__(self) -> Interrupts:
        # Only the main thread may take signals; in a notebook's worker thread they stay as they are.
        if threading.current_thread() is threading.main_thread():
            for number in ending():
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        if self.requested and kind is None and not is_program():
            raise KeyboardInterrupt
