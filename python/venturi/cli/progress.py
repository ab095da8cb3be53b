"""How a run is told on the terminal: a live line, plain lines, JSON lines, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from venturi.common.suffixes import format_duration
from venturi.common.texts import say
from venturi.engine.executor import Progress
from venturi.measure.run_events import QuietObserver, Slot, counts_rows, outcome_text
from venturi.store.lines import line_text


class PlainObserver(QuietObserver):
    """A line a trial on standard error, for logs and pipes."""

    def __init__(self) -> None:
        super().__init__()
        self._count = ""

    def started(self, number: int, total: int, slot: Slot) -> None:
        self._count = f"[{number}/{total}]"

    def ended(self, line: Mapping[str, Any]) -> None:
        print(f"{self._count} {self.head(line)}: {outcome_text(line)}", file=sys.stderr, flush=True)

    def note(self, level: str, text: str) -> None:
        say(level, text)


class JsonObserver(QuietObserver):
    """One JSON object a trial on standard output, nothing else there."""

    def ended(self, line: Mapping[str, Any]) -> None:
        print(line_text({key: value for key, value in line.items() if key != "samples"}), flush=True)

    def unstored(self, line: Mapping[str, Any]) -> None:
        self.ended(line)


class LiveObserver(QuietObserver):
    """One line that is drawn again in place: cell i of n, MB/s or rows/s now, a bar, time left."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.fields[count]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[rate]:>16}"),
            TextColumn("{task.fields[left]}"),
            TextColumn("[dim]{task.description}"),
            console=Console(stderr=True),
            transient=True,
            # Drawn by our own 10 Hz poll: a thread that draws would run inside the timed interval.
            auto_refresh=False,
        )
        self._task = self._bar.add_task("", total=None, count="", rate="", left="")
        self._began = time.monotonic()
        self._number = self._total = 0
        self._expected = 0
        self._in_rows = False
        self._unit = "rows/s"
        self._last = (0, 0.0)
        self._bar.start()

    def close(self) -> None:
        self._bar.stop()

    def started(self, number: int, total: int, slot: Slot) -> None:
        self._number, self._total = number, total
        from venturi.analysis.cells.figures import main_unit

        self._in_rows = counts_rows(slot.cell.parameters.get("operation"))
        self._unit = main_unit(slot.cell.parameters.get("operation"))
        each = slot.cell.parameters.get("rows_per_stream")
        rows = each * slot.cell.parameters["streams"] if each else 0
        self._expected = rows if self._in_rows else slot.cell.payload_bytes or 0
        self._last = (0, time.monotonic())
        kind = " warm-up" if slot.warmup else ""
        self._draw(0.0, description=f"{self.label(slot.cell.id)}{kind}", count=f"{number} of {total}")

    def progress(self, progress: Progress) -> None:
        moved, now = progress.rows if self._in_rows else progress.payload_bytes, time.monotonic()
        speed = max(0, moved - self._last[0]) / max(now - self._last[1], 1e-9)
        rate = f"{speed:,.0f} {self._unit}" if self._in_rows else f"{speed / 1e6:,.0f} MB/s"
        self._last = (moved, now)
        share = min(moved / self._expected, 1.0) if self._expected else 0.0
        self._draw(share, rate=rate)

    def ended(self, line: Mapping[str, Any]) -> None:
        if line["outcome"] != "ok":
            self._above(f"warning: {self.head(line)}: {outcome_text(line)}")
        self._draw(1.0)

    def note(self, level: str, text: str) -> None:
        self._above(f"{level}: {text}")

    def _above(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _draw(self, share: float, **fields: Any) -> None:
        done = self._number - 1 + share
        spent = time.monotonic() - self._began
        left = f"{format_duration(spent / done * (self._total - done) * 1e9)} left" if done >= 1 else ""
        self._bar.update(self._task, total=self._total or None, completed=done, left=left, **fields)
        self._bar.refresh()
