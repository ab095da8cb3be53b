"""How long a run will take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from venturi.common import links
from venturi.common.suffixes import format_bytes, format_duration
from venturi.measure import ceiling_probes
from venturi.measure.ceiling_rounds import LEAST, OVER_LINKS, SHARE
from venturi.plan.cell import Cell
from venturi.plan.scenario import Scenario
from venturi.plan.workload import POINT_BYTES

__all__ = ["Estimate", "estimate"]

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
        known = f"payload to move: {size}"
        if self.payload_bytes == 0 or self.unknown == len(self.cells):
            known = "payload to move: not known before; trials end by time, or the server has the data"
        elif self.unknown:
            known += f", and {self.unknown} cells whose size is not known before"
        return [
            f"cells: {len(self.cells)}, trials with warm-up: {self.trials}",
            known,
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
