"""What a batch costs: t = a + n/b for a batch of n rows, from a sweep over rows per batch.

a is paid a batch (the round trip, parsing, the commit), 1/b a row. It is Hockney's line over the rows of a
batch in the place of a transfer's bytes: half of b is reached with n_half = a b rows, 90 % of it, the knee,
with 9 n_half. Closed loop only: an open loop's rate is the schedule's.

Where compression on the wire pays: what a codec's cores put through, against what a link carries plain.

One thread of an end works on a batch and then hands it to its socket, so their times add up; the link works
beside it. In payload bytes per second, with n streams of a thread each,

    sender = 1 / encode + 1 / (ratio * socket),  receiver = 1 / decode + 1 / (ratio * socket)
    X(link) = min(ratio * link, n / sender, n / receiver, cores / (sender + receiver))

where the last term holds for ends that share the cores of one machine. Plain moves min(link, n * socket), so
the codec is faster on every link that carries less than its cores put through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.figures import by_key, quotient
from venturi.analysis.cells.limits import Limit
from venturi.analysis.cells.summary import Cell, by_operation, by_setting, follows, varying
from venturi.analysis.statistics import hockney
from venturi.analysis.statistics.hockney import Hockney
from venturi.analysis.statistics.intervals import Interval
from venturi.analysis.statistics.laws import attempt
from venturi.common.units import Quantity, count, percent, pick_unit

AXIS = "rows_per_batch"
KNEE = 0.9
"""METHOD: the knee is where 90 % of the peak is reached."""


@dataclass(frozen=True)
class BatchCost:
    """The line of one setting of all other parameters; `refused` says why there is none."""

    operation: str
    where: dict[str, Any]
    cells: tuple[Cell, ...]
    lanes: int
    """Batches in flight at a time: streams x in_flight."""
    fit: Hockney | None = None
    refused: str = ""

    @property
    def most(self) -> Quantity:
        """b of all lanes together: rows a second with batches so large that `a` no longer counts."""
        assert self.fit is not None
        b = self.fit.intervals["b"]
        return Quantity(b.median * self.lanes, b.low * self.lanes, b.high * self.lanes, "rows/s")

    @property
    def knee(self) -> Interval:
        """Rows per batch with 90 % of b."""
        assert self.fit is not None
        half, factor = self.fit.intervals["n_half"], KNEE / (1 - KNEE)
        return Interval(half.median * factor, half.low * factor, half.high * factor, half.n, half.coverage)

    @property
    def measured(self) -> tuple[float, float]:
        """The smallest and the largest batch that was measured."""
        sizes = [float(c.parameters[AXIS]) for c in self.cells]
        return min(sizes), max(sizes)

    def at(self, rows: float) -> float:
        """Rows a second (all lanes) with batches of so many."""
        assert self.fit is not None
        return float(self.lanes * rows / float(self.fit.at([rows])[0]) * 1e9)

    @property
    def sentence(self) -> str:
        """`a batch costs 0.21 ms [...] and each of its rows 1.9 µs: ...`, or why there is no line."""
        if self.fit is None:
            return f"no line over rows per batch: {self.refused}"
        a, b = self.fit.intervals["a"], self.fit.intervals["b"]
        batch = Quantity(a.median, a.low, a.high, "ns")
        row = Quantity(1e9 / b.median, 1e9 / b.high, 1e9 / b.low, "ns")
        paid = batch.text(pick_unit("ns", [batch.value, batch.high]))
        text = f"a batch costs {paid} and each of its rows {row}; {self.most} with the largest batches"
        knee = self.knee
        if knee.high < 1:
            return f"{text}, and a batch of one row comes near that"
        text += f", half of it with {_rows(self.fit.n_half)}, 90 % with {_rows(knee.median)}"
        text += f" [{count(round(knee.low))}..{count(round(knee.high))}]"
        if knee.median > self.measured[1]:
            text += f", beyond the largest measured ({count(self.measured[1])})"
        return f"{text}; {percent(self.fit.r_squared, 1)} of the variance"


def _rows(n: float) -> str:
    """`550 rows per batch`, three digits."""
    shown = float(f"{max(n, 1.0):.3g}")
    return f"{count(int(shown))} row{'' if int(shown) == 1 else 's'} per batch"


def batch_costs(cells: Sequence[Cell]) -> list[BatchCost]:
    """A line for each setting of the others along which rows per batch were varied, the fastest first."""
    out = []
    for operation, members in by_operation([c for c in cells if c.answered and c.good]).items():
        others = [n for n in varying(members) if n != AXIS and not follows(members, n, AXIS)]
        closed = [c for c in members if c.parameters.get(AXIS) and not c.parameters.get("rate")]
        for group in by_setting(closed, others):
            if len({c.parameters[AXIS] for c in group}) > 1:
                out.append(_fitted(operation, {n: group[0].parameters.get(n) for n in others}, group))
    return sorted(out, key=lambda one: -max(c.main.value or 0.0 for c in one.cells))


def _lanes(cell: Cell) -> int:
    return int(cell.parameters.get("streams") or 1) * int(cell.parameters.get("in_flight") or 1)


def _fitted(operation: str, where: dict[str, Any], group: Sequence[Cell]) -> BatchCost:
    # The mean time of a batch, by Little's law: so many were in flight throughout.
    times = by_key(
        (float(cell.parameters[AXIS]), each)
        for cell in group
        for r in cell.records
        if (each := quotient(r.times.interval_ns, r.counts.batches, _lanes(cell)))
    )
    fit, refused = None, "the number of batches in flight changes with them"
    if len({_lanes(cell) for cell in group}) == 1:
        fit, refused = attempt(lambda: hockney.fit(times, "rows"))
    return BatchCost(operation, where, tuple(group), _lanes(group[0]), fit, refused)


LEAST = 1.05
"""Data that a codec makes less than 5 % smaller cannot gain more than that by it."""


@dataclass(frozen=True)
class Packing:
    """A codec on some data, as its probes measured it. Rates are payload bytes/s of one core."""

    codec: str
    data: str
    encode: float
    decode: float
    ratio: float
    """Payload bytes to a byte of Arrow's messages."""

    def through_cores(self, streams: int = 1, socket: float = math.inf, cores: int | None = None) -> float:
        """Payload bytes/s where the link is no limit. `socket`: what one core moves through plain sockets;
        `cores`: of one machine that both ends share, None where each stream has a core at either end."""
        ends = self._ends(socket)
        alone = streams / max(ends)
        return alone if cores is None else min(alone, cores / sum(ends))

    def _ends(self, socket: float) -> tuple[float, float]:
        """A core's seconds for a byte of payload, of the sender and the receiver."""
        wire = 1 / (self.ratio * socket)
        return 1 / self.encode + wire, 1 / self.decode + wire

    def rate(
        self, link: float, streams: int = 1, socket: float = math.inf, cores: int | None = None
    ) -> float:
        """Payload bytes/s over a link that carries so many bytes/s."""
        return min(self.ratio * link, self.through_cores(streams, socket, cores))

    def pays_below(self, streams: int = 1, socket: float = math.inf, cores: int | None = None) -> float:
        """The link's bytes/s below which this is faster than plain: 0 where it never is, for the data do not
        get smaller; infinite where it is faster even than what plain sockets do without a link."""
        if self.ratio <= 1:
            return 0.0
        plain = streams * socket if cores is None else min(streams, cores / 2) * socket
        found = self.through_cores(streams, socket, cores)
        return found if found < plain else math.inf


def packings(found: Sequence[Limit]) -> list[Packing]:
    """Each codec of which both ways were probed on the same data."""
    rates: dict[tuple[str, str], dict[str, float]] = {}
    ratios: dict[tuple[str, str], float] = {}
    for limit in found:
        codec, _, verb = str(limit.fields["name"] or "").rpartition("-")
        if limit.fields["kind"] == "codec" and codec != "ipc" and limit.rate is not None and limit.ratio:
            key = (codec, str(limit.fields["data"]))
            rates.setdefault(key, {})[verb] = limit.rate.median
            ratios[key] = limit.ratio
    return [
        Packing(*key, ways["encode"], ways["decode"], ratios[key])
        for key, ways in rates.items()
        if {"encode", "decode"} <= ways.keys()
    ]
