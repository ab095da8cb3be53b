"""One amount of data divided over more and more streams: predicted from the sweep, and what was measured.

4M rows are 4M x 1, 2M x 2, 1M x 4, 500k x 8. Hockney's t = a + n/b, fitted at each number of streams to the
*other* sizes of the sweep, predicts how long the whole amount takes with so many streams; the cells of the
amount itself are held out, so that they check it.

Where the rates converge follows from the same fits: start-up a + a' N (a' >= 0: each stream has its own to
pay) and the rate b by its scaling law over N give t(N) = a(N) + n / b(N) for any N. The highest rate of that
curve is what more streams tend to; beyond it their start-up costs more than they bring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from venturi.analysis.cells.figures import by_key
from venturi.analysis.cells.summary import Cell, by_operation, by_setting, follows, varying
from venturi.analysis.models import fits
from venturi.analysis.statistics import hockney, laws, regression, scaling
from venturi.analysis.statistics.hockney import Hockney
from venturi.analysis.statistics.laws import Refused, attempt
from venturi.analysis.statistics.regression import Array, Points
from venturi.common.units import Quantity

LEAST, CERTAIN = 3, 4
"""Numbers of streams over which an amount is divided, from which on it may be, and is, one that was meant."""
APART = 2
"""Sizes that occur at one number of streams only, from which on `LEAST` are enough."""
FAR = 16
"""How many times beyond the sweep's most streams the highest rate is looked for."""
NEAR = 0.95
"""Share of the highest rate that counts as reaching it."""


@dataclass(frozen=True)
class Split:
    """The amount over so many streams."""

    streams: int
    rows_per_stream: int | None
    predicted: Quantity
    """Of the median of as many trials as were measured, with its 95 % prediction interval."""
    measured: Quantity
    refused: str = ""

    @property
    def error(self) -> float | None:
        """Predicted over measured, less one."""
        return self.predicted.over(self.measured.value)

    @property
    def inside(self) -> bool | None:
        """Whether the measured median lies in the interval; None where one of them is missing."""
        return self.predicted.holds(self.measured.value)


@dataclass(frozen=True)
class Limit:
    """What more and more streams tend to."""

    rate: Quantity
    """The highest rate, with its 95 % bootstrap interval."""
    at: int
    """Streams at which it is reached."""
    near: int
    """The fewest streams that come within 5 % of it."""
    startup: Quantity
    """Growth of start-up per stream (ns); unknown where it may be zero."""
    law: str
    """The law of b over streams."""
    curve: dict[int, float]
    """Rates by streams, up to twice the sweep's most."""

    @property
    def loses(self) -> bool:
        """Whether twice the sweep's most streams do less than 95 % of the highest rate."""
        return self.startup.measured and self.curve[max(self.curve)] < NEAR * (self.rate.value or 0.0)


@dataclass(frozen=True)
class Convergence:
    """One amount, with all but streams and size equal."""

    operation: str
    where: dict[str, Any]
    rows: int
    """Total amount."""
    payload_bytes: float
    splits: tuple[Split, ...]
    """Those that were measured, the fewest streams first."""
    predicted: dict[int, Quantity] = field(default_factory=dict)
    """Rates at every number of streams of the sweep, measured with this amount or not."""
    limit: Limit | None = None
    refused: str = ""
    """Why there is no limit."""

    @property
    def reached(self) -> float | None:
        """The most that was measured, over the limit."""
        rates = [s.measured.value for s in self.splits if s.measured.value is not None]
        highest = self.limit.rate.value if self.limit else None
        return max(rates) / highest if rates and highest else None


def convergences(cells: Sequence[Cell]) -> list[Convergence]:
    """One a setting of everything but streams and size at which one amount was divided."""
    found = []
    for operation, members in by_operation([c for c in cells if c.throughput.measured]).items():
        names = [n for n in varying(members) if n not in (*fits.SIZES, "streams")]
        names = [n for n in names if not follows(members, n, "streams")]
        for group in by_setting(members, names):
            if (rows := _amount(group)) is not None:
                where = {n: group[0].parameters.get(n) for n in names}
                found.append(_convergence(operation, where, group, rows))
    return found


def _rows(cell: Cell) -> int | None:
    streams, each = cell.parameters.get("streams"), cell.parameters.get("rows_per_stream")
    return streams * each if isinstance(streams, int) and isinstance(each, int) else None


def _amount(cells: Sequence[Cell]) -> int | None:
    """The number of rows that was divided on purpose: over most numbers of streams, and of those the one
    whose sizes stand most apart from the sweep's, then the largest. None where products met by chance."""
    at = by_key((c.parameters.get("rows_per_stream"), c.parameters.get("streams")) for c in cells)
    fewest = min((n for c in cells if isinstance(n := c.parameters.get("streams"), int)), default=0)
    best = (0, 0, 0)
    for rows, same in by_key((rows, c) for c in cells if (rows := _rows(c)) is not None).items():
        streams = {c.parameters["streams"] for c in same}
        apart = sum(len(set(at[c.parameters["rows_per_stream"]])) == 1 for c in same)
        meant = len(streams) >= (LEAST if apart >= APART else CERTAIN)
        if fewest in streams and meant:
            best = max(best, (len(streams), apart, rows))
    return best[2] or None


def _convergence(operation: str, where: dict[str, Any], cells: Sequence[Cell], rows: int) -> Convergence:
    own = {int(c.parameters["streams"]): c for c in cells if _rows(c) == rows}
    payload = next(c.payload_bytes or 0.0 for c in own.values())
    fitted, refused = _fitted([c for c in cells if _rows(c) != rows])
    repeats = {n: c.good for n, c in own.items()}
    found = {n: _rate(fit, payload, repeats.get(n)) for n, fit in sorted(fitted.items())}
    nothing = Quantity(None, unit="B/s")
    splits = tuple(
        Split(
            n,
            cell.parameters.get("rows_per_stream"),
            found.get(n, nothing),
            cell.throughput,
            "" if n in found else refused.get(n, "no other size was measured with so many streams"),
        )
        for n, cell in sorted(own.items())
    )
    tends, reason = limit(fitted, payload)
    return Convergence(operation, where, rows, payload, splits, found, tends, reason)


def _fitted(cells: Sequence[Cell]) -> tuple[dict[int, Hockney], dict[int, str]]:
    """Hockney's line at each number of streams, or why there is none."""
    by_streams = by_key((n, c) for c in cells if isinstance(n := c.parameters.get("streams"), int))
    found: dict[int, Hockney] = {}
    refused: dict[int, str] = {}
    for n, members in by_streams.items():
        fit, refused[n] = attempt(lambda members=members: hockney.fit(fits.times(members)))  # type: ignore[misc]
        if fit is not None:
            found[n] = fit
    return found, refused


def _rate(fit: Hockney, payload: float, repeats: int | None) -> Quantity:
    time = fit.predict(payload, repeats or 5)
    low, high = (payload / t * 1e9 if t > 0 else None for t in (time.high, time.low))
    return Quantity(payload / time.median * 1e9, low, high, "B/s")


def limit(fitted: Mapping[int, Hockney], payload: float) -> tuple[Limit | None, str]:
    """The highest rate of `payload` bytes over streams, and why there is none."""
    streams = sorted(fitted)
    if len(streams) < scaling.LEAST_POINTS:
        least = scaling.LEAST_POINTS
        return (
            None,
            f"lines over sizes at {len(streams)} numbers of streams; a law over streams needs {least}",
        )
    n = np.array(streams, dtype=np.float64)
    # Each line was drawn with the same seed; in another order they are independent of each other.
    order = np.random.default_rng(regression.SEED)
    draws = [order.permutation(fitted[k].draws) for k in streams]
    startups = np.stack([rows[:, 0] for rows in draws], axis=1)
    rates_drawn = np.stack([1e9 / rows[:, 1] for rows in draws], axis=1)
    a, b = (np.array([getattr(fitted[k], name) for k in streams]) for name in ("a", "b"))
    try:
        over = scaling.fit_points(_points(n, b, rates_drawn, [fitted[k] for k in streams]))
    except Refused as reason:
        return None, str(reason)
    name = over.chosen.name
    grid = np.arange(1.0, FAR * streams[-1] + 1)

    def curve(startup: Array, rate: Array) -> tuple[Array, Array]:
        """Rates (rows, grid) for rows of a (ns) and b (per second) at each number of streams, and a'."""
        first, slope = _line(n, startup)
        coefficients = laws.solve(name, n, np.log(rate), 1 / over.sigma**2)[0]
        time = np.maximum(first[:, None] + slope[:, None] * grid, 0.0)
        time = time + payload / np.exp(laws.curve(name, coefficients, grid)) * 1e9
        return payload / time * 1e9, slope

    rates, slope = curve(a[None], b[None])
    own = rates[0]
    at = int(np.argmax(own))
    if name == "linear" and at == len(grid) - 1:
        return None, "the rate grows in proportion to the streams, as far as the sweep goes"
    first, _ = _line(n, a[None])
    drawn, slopes = curve(
        _widened(startups, a, first + slope * n),
        np.exp(_widened(np.log(rates_drawn), np.log(b), np.log(over.chosen.at(n)))),
    )
    low, high = (float(v) for v in np.quantile(drawn.max(axis=1), [0.025, 0.975]))
    most = float(own[at])
    near = int(grid[int(np.argmax(own >= NEAR * most))])
    shown = {int(k): float(v) for k, v in zip(grid, own, strict=True) if k <= 2 * streams[-1]}
    rate = Quantity(most, min(low, most), max(high, most), "B/s")
    shallow, steep = (float(v) for v in np.quantile(slopes, [0.025, 0.975]))
    grows = Quantity(float(slope[0]), shallow, max(steep, float(slope[0])), "ns")
    startup = grows if 0 < shallow <= float(slope[0]) else Quantity(None, unit="ns")
    return Limit(rate, int(grid[at]), near, startup, over.chosen.title, shown), ""


def _points(n: Array, b: Array, drawn: Array, lines: Sequence[Hockney]) -> Points:
    """The asymptotic rates over streams, each as sure as its line."""
    variance = np.maximum(np.log(drawn).var(axis=0), 1e-8)
    sizes = np.array([len(line.points.x) for line in lines], dtype=np.int64)
    return Points(n, np.log(b), variance, np.sqrt(variance), sizes, int((sizes - 2).sum()))


def _widened(drawn: Array, found: Array, fitted: Array) -> Array:
    """Draws of figures that lie further from what was fitted to them than they scatter, by as much."""
    freedom = max(1, len(found) - 2)
    off = float(np.sqrt(((found - fitted) ** 2).sum() / freedom))
    scatter = float(np.sqrt(drawn.var(axis=0).mean()))
    return found + (drawn - found) * max(1.0, off / scatter if scatter > 0 else 1.0)


def _line(n: Array, startup: Array) -> tuple[Array, Array]:
    """a and a' >= 0 of rows of start-up times at n: least squares, else level at the mean."""
    away = n - n.mean()
    slope = ((startup * away).sum(axis=1) / (away**2).sum()).clip(min=0.0)
    return startup.mean(axis=1) - slope * n.mean(), slope
