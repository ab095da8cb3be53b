"""Models and laws over links in sentences: every number with its unit and margin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.figures import by_key, is_number
from venturi.analysis.models import over_links
from venturi.analysis.models.fits import AxisFit, EffectFit, SizeFit
from venturi.analysis.models.link_law import BOUNDS, LOSS_BASED, LinkLaw
from venturi.analysis.models.over_links import Crossing, LinkFit
from venturi.analysis.statistics.intervals import Interval
from venturi.analysis.statistics.scaling import Scaling
from venturi.common.links import Link
from venturi.common.suffixes import format_duration
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
        if is_number(value):
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


CROSSINGS = "over links: which setting is faster where"
"""Above the crossings."""
NAMED = 4
"""So many links are named, of more only their number."""
_SHOWS = {"ends": "unshaped", "link": "slower links", "flight": "longer round trips", "losses": "losses"}
_UNITS = {"delay": "ms", "rate": "Mbit/s", "loss": "%"}


def link_head(one: LinkFit) -> str:
    """`get over links, 4 streams`."""
    return f"{one.operation} over links" + (f", {setting(one.where)}" if one.where else "")


def short_link_head(one: LinkFit, among: Sequence[LinkFit]) -> str:
    """The setting, as far as it differs among these: `4 streams`; of one alone the operation."""
    names = [n for n in one.where if len({repr(other.where.get(n)) for other in among}) > 1]
    return setting({n: one.where[n] for n in names}) or one.operation


def link_value(along: str, at: float) -> str:
    """`20 ms`, `480 Mbit/s`, `0.1 %`."""
    return f"{significant(at)} {_UNITS[along]}"


def _limits(one: LinkFit, law: LinkLaw) -> str:
    """`2 of 3 links are limited by the link's rate (0.98 payload bytes per byte that it carries), 1 by window
    (948 kB in flight): 1gbit 20ms`."""
    texts = by_key((bound, text) for text, bound in one.limited_by.items())
    parts: list[str] = []
    for bound, some in sorted(texts.items(), key=lambda item: -len(item[1])):
        count = f"{len(some)} of {len(one.links)} links are limited" if not parts else f"{len(some)}"
        shown = f": {', '.join(some)}" if len(some) <= NAMED else ""
        parts.append(f"{count} by {one.named(bound)} ({_number(one, law, bound)}){shown}")
    return "; ".join(parts)


def _number(one: LinkFit, law: LinkLaw, bound: str) -> str:
    number, amount = law.numbers[BOUNDS.index(bound)], one.unit.removesuffix("/s")
    if bound == "ends":
        return str(Quantity(number, unit=one.unit))
    if bound == "link":
        what = "payload bytes" if amount == "B" else amount
        return f"{significant(number)} {what} per byte that it carries"
    if bound == "losses":
        return f"{significant(number)} of {'Mathis' if law.setting.control == 'reno' else 'CUBIC'}'s rate"
    if over_links.held_by(one.cells[0]) == "answers":
        return f"{significant(law.setting.flight / number)} round trips per batch"
    return f"{Quantity(number, unit=amount)} in flight at most"


def _window(one: LinkFit, law: LinkLaw) -> list[str]:
    """The round trip from which on what is in flight limits the fastest measured link; the window to set."""
    calm = [link for link in one.links.values() if not any(link.loss)]
    if not calm or "flight" not in law.limits:
        return []
    link = max(calm, key=lambda found: over_links.attributes(found, one.way)["rate"] or math.inf)
    bounds, flight = law.bounds(one.path(link)), law.numbers[BOUNDS.index("flight")]
    least, longest = min(bounds["ends"], bounds["link"]), max(other.trip for other in law.paths)
    held = over_links.held_by(one.cells[0])
    size = one.cells[0].parameters.get(held)
    if math.isinf(least):
        return []
    shown = "a link without a rate" if link.rate is None else Link(rate=link.rate).text
    trip = format_duration(round(flight / least * 1e9))
    text = f"over {shown}, {one.named('flight')} is the limit from {trip} round trip on"
    if not isinstance(size, int):
        return [text]
    option, needed = f"--{held.replace('_', '-')}", size * max(2.0, longest * least / flight)
    if needed < over_links.TCP_FLIGHT / over_links.WINDOW_USED:
        return [f"{text}; {option} {math.ceil(needed / 1024)}Ki is enough for all measured links"]
    setting = f"sysctl net.ipv4.tcp_{'r' if held == 'window' else 'w'}mem"
    return [f"{text}; set {option} none; then TCP's own window is the limit, which {setting} sets"]


def link_sentences(one: LinkFit) -> list[str]:
    """What limits each link, what to do, the error, and what to measure next; or why there is no law."""
    if one.law is None:
        return [f"no law: {one.refused}"]
    misses = [100 * math.expm1(miss) for _, miss in one.law.misses]
    unseen = [n for n in BOUNDS if n not in one.law.limits and (n != "losses" or one.control in LOSS_BASED)]
    missing = ", ".join(f"{one.named(name)} (measure {_SHOWS[name]})" for name in unseen)
    return [
        _limits(one, one.law),
        *_window(one, one.law),
        *(
            [
                f"of {len(misses)} links that the others can predict, half are within "
                f"{median(misses):.0f} %, the worst within {max(misses):.0f} %"
            ]
            if misses
            else []
        ),
        *([f"no measured link was limited by {missing}"] if missing else []),
    ]


def left_out(one: LinkFit, text: str, measured: float, found: Interval | None) -> str:
    """How a link comes out that the law has not seen."""
    shown = Quantity(measured, unit=one.unit)
    if found is None:
        return f"{text} left out: the others are inconclusive; measured {shown}"
    where = "inside" if found.low <= measured <= found.high else "outside"
    return (
        f"{text} left out: predicted {found.quantity(one.unit)}, measured {shown}: "
        f"{100 * (found.median / measured - 1):+.1f} %, {where} the interval"
    )


def crossing_sentence(one: Crossing) -> str:
    """`get: compression lz4 is faster than no compression below 480 Mbit/s [430..530], and slower above`."""
    first, second = (setting({one.parameter: fit.where[one.parameter]}) for fit in (one.below, one.above))
    at = link_value(one.along, one.at)
    between = f"[{significant(one.low)}..{significant(one.high)}]"
    return (
        f"{one.below.operation}: {first} is faster than {second} below {at} {between}, "
        f"and slower above ({link_conditions(one.along, one.link)}{_same(one)})"
    )


def link_conditions(along: str, link: Link) -> str:
    """What links along a line have in common."""
    parts = []
    if along == "delay":
        parts.append("no rate" if link.rate is None else Link(rate=link.rate).text)
    else:
        trip = link.round_trip_ns
        parts.append(f"{format_duration(trip)} round trip" if trip else "no delay")
    if any(link.loss) and along != "loss":
        parts.append(f"loss {100 * max(link.loss):g} %")
    return ", ".join(parts)


def _same(one: Crossing) -> str:
    rest = {k: v for k, v in one.below.where.items() if k != one.parameter}
    return f"; {setting(rest)}" if rest else ""


def document(
    made: Sequence[LinkFit], passed: Iterable[Crossing], held: dict[int, list[dict[str, Any]]]
) -> Any:
    """For machines, in base units; an infinite number is null. `held`: how links that were left out came out,
    by the place in `made`."""

    def number(law: LinkLaw, i: int, name: str) -> dict[str, Any]:
        seen = name in law.limits
        # That of a bound which limited links has no margin.
        low, high = (None, None) if seen else law.ranges[i]
        values = {"value": law.numbers[i], "low": low, "high": high}
        return {k: v if v is not None and math.isfinite(v) else None for k, v in values.items()} | {
            "seen": seen
        }

    fits = [
        {
            "operation": one.operation,
            "where": one.where,
            "unit": one.unit,
            "links": list(one.links),
            "limited_by": one.limited_by,
            "refused": one.refused or None,
            "sentences": link_sentences(one),
            "left_out": held.get(place, []),
        }
        | ({} if one.law is None else {"bounds": {n: number(one.law, i, n) for i, n in enumerate(BOUNDS)}})
        for place, one in enumerate(made)
    ]
    crossings = [
        {
            "operation": c.below.operation,
            "faster_below": c.below.where,
            "faster_above": c.above.where,
            "along": c.along,
            "at": c.at,
            "low": c.low,
            "high": c.high,
            "text": crossing_sentence(c),
        }
        for c in passed
    ]
    return {"fits": fits, "crossings": crossings}
