"""Models in sentences for people: every number with unit and margin."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from venturi.analysis import wording
from venturi.analysis.models.fits import AxisFit, EffectFit, SizeFit
from venturi.analysis.statistics.intervals import Interval
from venturi.analysis.statistics.scaling import Scaling
from venturi.common.units import MISSING, Quantity, count, p_value, percent, plural, significant

SINGULAR = {"streams": "stream", "threads": "thread", "encoders": "encoder", "decoders": "decoder"}
SINGULAR |= {"hosts": "host", "loaders": "loader", "partitions": "partition", "columns": "column"}


def several(axis: str, n: float | str | None) -> str:
    """`4 streams`, `rows_per_batch 4,096`, `link 100mbit 20ms`."""
    if n is None:
        return MISSING
    if isinstance(n, str):
        return f"{axis} {n}"
    shown = count(int(n) if float(n).is_integer() else n)
    if axis in SINGULAR:
        return f"{shown} {SINGULAR[axis] if n == 1 else axis}"
    return f"{axis} {shown}"


def setting(where: Mapping[str, Any]) -> str:
    """`2 streams, rows_per_batch 4,096, uncompressed`."""
    parts = []
    for name, value in where.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            parts.append(several(name, value))
        elif value is not None:
            parts.append(str(value) if name in ("place", "target", "data") else f"{name} {value}")
        else:
            parts.append(f"no {name}")
    return ", ".join(parts)


def plain_number(interval: Interval, digits: int = 3) -> str:
    """`0.32 [0.29..0.35]`."""
    value, low, high = (significant(v, digits) for v in (interval.median, interval.low, interval.high))
    return f"{value} [{low}..{high}]"


def head(one: AxisFit | SizeFit) -> str:
    """`get over streams, large sizes together (1.9M rows_per_stream and more)`."""
    parts = [f"{one.operation} over {one.axis if isinstance(one, AxisFit) else 'payload'}"]
    if isinstance(one, AxisFit) and one.pooled_from is not None:
        parts.append(f"large sizes together ({one.pooled} from {count(int(one.pooled_from))})")
    elif isinstance(one, AxisFit) and one.pooled:
        parts.append(f"all {one.pooled} together")
    if one.where:
        parts.append(setting(one.where))
    return ", ".join(parts)


SIZES = "time over payload, t = a + n/b (Hockney): a start-up, b rate without it; n_half reaches half of b"
COSTS = "cost of a batch of n rows, t = a + n/b (Hockney)"
"""Above the fits of a kind."""
_MEANING = {"C": "at most C", "s": "serial share s", "k": "cost of each pair k"}


def law(one: AxisFit, fit: Scaling) -> str:
    """The chosen law with its parameters."""
    constant = fit.chosen.name == "constant"
    meaning = {} if constant else _MEANING
    found = []
    for name, interval in fit.intervals.items():
        if name in ("l", "C"):
            text = str(interval.quantity(one.unit)) + (
                f" per {SINGULAR.get(one.axis, 'unit')}" if name == "l" else ""
            )
        else:
            text = plain_number(interval)
        found.append(f"{meaning.get(name, name)} = {text}")
    rivals = [f"{v.title} {percent(v.weight)}" for v in fit.laws if v is not fit.chosen and v.weight >= 0.05]
    beside = f"; other laws by AICc: {', '.join(rivals)}" if rivals else ""
    # Of the variance a constant explains nothing, however true it is.
    explains = "" if constant else f"; explains {percent(fit.r_squared, 1)} of the variance"
    return f"{fit.chosen.title}: {', '.join(found)}{explains}{beside}"


def axis_sentences(one: AxisFit) -> list[str]:
    """What the fit over an axis says, the law first."""
    if one.fit is None:
        return [f"no law: {one.refused}", *measured(one)]
    fit = one.fit
    if one.level:
        return [f"{shape(one)}; {fit.peak.quantity(one.unit)} at best"]
    out = [law(one, fit)]
    last = float(fit.points.x[-1])
    at = fit.peak_at
    text = f"{knee(one)}, peak {fit.peak.quantity(one.unit)} at {several(one.axis, at)}"
    if at == last:
        text += ", the largest measured"
        if fit.limit is not None and fit.limit > fit.peak.median * 1.01:
            text += f"; the law's own limit is {Quantity(fit.limit, unit=one.unit)}"
    out.append(text)
    out += measured(one)
    held = fit.held_out
    if held is not None:
        where = "inside" if held.inside else "outside"
        out.append(
            f"left out of the fit, {several(one.axis, held.n)} would be predicted as "
            f"{held.predicted.quantity(one.unit)}; measured {Quantity(held.measured, unit=one.unit)}: "
            f"{100 * held.error:+.1f} %, {where} the interval"
        )
    if fit.doubtful:
        out.append(f"doubtful: {fit.doubtful}")
    return out


def knee(one: AxisFit) -> str:
    """`knee (90 % of the peak) at 5 streams [4..5]`, or as measured `between 4 and 8 streams`."""
    found = one.knee
    if found is None:
        return f"knee (90 % of the highest) {_between(one)}"
    text = f"knee (90 % of the peak) at {several(one.axis, round(found.median))}"
    low, high = count(round(found.low)), count(round(found.high))
    return text if low == high else f"{text} [{low}..{high}]"


def _between(one: AxisFit) -> str:
    """Where the medians reach 90 % of the highest: `between 4 and 8 streams`."""
    below, at = one.knee_between or (None, None)
    return (
        f"at {several(one.axis, at)}"
        if below is None
        else f"between {count(below)} and {several(one.axis, at)}"
    )


def measured(one: AxisFit) -> list[str]:
    """What the measured medians say, whatever the law."""
    out = []
    if one.each is not None and one.curve is not None:
        rate = Quantity(one.each, unit=one.unit)
        out.append(f"{wording.linear_part(one.curve, partial(several, one.axis))}, {rate} each")
    if one.knee_between is not None and (one.fit is None or one.knee is not None):
        out.append(f"measured knee (90 % of the highest median): {_between(one)}")
    out.append(shape(one))
    return [text for text in out if text]


def shape(one: AxisFit) -> str:
    """How throughput goes on at the end of the axis, or that it cannot be told."""
    if one.curve is None:
        return "whether more gains cannot be told: no repeat went well at every point"
    rounds = plural(len(one.curve.logs), "setting" if one.pooled else "repeat")
    return f"{wording.curve_end(one.curve, partial(several, one.axis))}, over {rounds}"


def size_sentence(one: SizeFit) -> str:
    """The line over sizes, or why there is none."""
    return one.fit.text() if one.fit is not None else f"no line: {one.refused}"


def effect_sentence(one: EffectFit) -> str:
    """Whether a parameter matters."""
    found = one.effect
    levels = ", ".join(count(v) if isinstance(v, int | float) else str(v) for v in found.levels[:8])
    spread = f"{percent(found.spread, 1)} between best and worst"
    others = f"{plural(found.pairs, 'setting')} of the others"
    basis = f"{p_value(found.p)}, {others}, {spread}"
    if not found.testable:
        few = f"{others} {'is' if found.pairs == 1 else 'are'} too few to test it"
        return (
            f"{one.operation}: {one.parameter} ({levels}): {spread}, but {few} "
            f"({p_value(found.least)} at best); more repeats or settings would do"
        )
    if not found.significant:
        return f"{one.operation}: {one.parameter} ({levels}) has no significant effect ({basis})"
    text = f"{one.operation}: {one.parameter} ({levels}) matters ({basis})"
    if one.above is not None and not one.above.significant:
        least = min(v for v in found.levels if isinstance(v, int | float))
        rest = f"{p_value(one.above.p)}, {percent(one.above.spread, 1)}"
        text += f"; above {count(least)} no significant effect ({rest})"
    return text
