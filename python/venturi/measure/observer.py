"""Who is told how a run goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from venturi.common.texts import LONGEST, plain, say
from venturi.engine.executor import Progress
from venturi.plan.cell import Cell
from venturi.store.lines import line_text

__all__ = ["Observer", "QuietObserver", "Slot", "counts_rows", "outcome_text"]


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
    if line["outcome"] == "ok":
        interval = line["times"]["interval_ns"]
        if counts_rows(line["parameters"].get("operation")):
            from venturi.analysis.cells.batches import troubles, words
            from venturi.analysis.cells.figures import main_unit

            unit = main_unit(line["parameters"].get("operation"))
            rate = f"{line['counts']['rows'] * 1e9 / max(interval, 1):,.0f} {unit}"
            return ", ".join([rate, *words(troubles([line]))])
        return f"{line['counts']['payload_bytes'] * 1e3 / max(interval, 1):,.0f} MB/s"
    from venturi.analysis.cells.batches import acknowledged

    error = line.get("error") or {}
    done = acknowledged(line)
    text = plain(f"{line['outcome']}: {error.get('kind')}: {error.get('message')}", LONGEST)
    return f"{text}; {done}" if done else text


def counts_rows(operation: object) -> bool:
    from venturi.analysis.cells.figures import IN_ROWS

    return operation in IN_ROWS


class QuietObserver:
    """Warnings and errors only, and the reasons of failed trials."""

    def __init__(self) -> None:
        self.labels: Mapping[str, str] = {}

    def begin(self, cells: Sequence[Cell]) -> None:
        from venturi.plan.cell_names import labels

        self.labels = labels(cells)

    def started(self, number: int, total: int, slot: Slot) -> None:
        pass

    def progress(self, progress: Progress) -> None:
        pass

    def ended(self, line: Mapping[str, Any]) -> None:
        if line["outcome"] != "ok":
            say("warning", f"{self.head(line)}: {outcome_text(line)}")

    def unstored(self, line: Mapping[str, Any]) -> None:
        say("warning", f"measured but not stored: {self.head(line)}: {outcome_text(line)}")
        print(line_text({key: value for key, value in line.items() if key != "samples"}), flush=True)

    def note(self, level: str, text: str) -> None:
        if level != "info":
            say(level, text)

    def head(self, line: Mapping[str, Any]) -> str:
        """Which trial a line is of."""
        return f"{self.label(line['cell'])} {'warm-up' if line['warmup'] else 'repeat'} {line['repeat']}"

    def label(self, cell: str) -> str:
        return self.labels.get(cell, cell)
