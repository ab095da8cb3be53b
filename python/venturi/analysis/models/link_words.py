"""Laws over links in sentences: what limits each link, from where on, and where a setting passes another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from venturi.analysis.models import fit_words, over_links
from venturi.analysis.models.link_law import BOUNDS, LinkLaw
from venturi.analysis.models.over_links import Crossing, LinkFit
from venturi.analysis.models.tcp import LOSS_BASED
from venturi.analysis.statistics.intervals import Interval
from venturi.common.links import Link
from venturi.common.suffixes import format_duration
from venturi.common.units import Quantity, significant

__all__ = ["crossing", "head", "left_out", "others", "sentences", "short", "value"]

CROSSINGS = "over links: which setting is faster where"
"""Above the crossings."""
NAMED = 4
"""So many links are named, of more only their number."""
_SHOWS = {"ends": "unshaped", "link": "slower links", "flight": "longer round trips", "losses": "losses"}
_UNITS = {"delay": "ms", "rate": "Mbit/s", "loss": "%"}


def head(one: LinkFit) -> str:
    """`get over links, 4 streams`."""
    return f"{one.operation} over links" + (f", {fit_words.setting(one.where)}" if one.where else "")


def short(one: LinkFit, among: Sequence[LinkFit]) -> str:
    """The setting, as far as it differs among these: `4 streams`; of one alone the operation."""
    names = [n for n in one.where if len({repr(other.where.get(n)) for other in among}) > 1]
    return fit_words.setting({n: one.where[n] for n in names}) or one.operation


def value(along: str, at: float) -> str:
    """`20 ms`, `480 Mbit/s`, `0.1 %`."""
    return f"{significant(at)} {_UNITS[along]}"


def _limits(one: LinkFit, law: LinkLaw) -> str:
    """`2 of 3 links are limited by the link's rate (0.98 payload bytes per byte that it carries), 1 by window
    (948 kB in flight): 1gbit 20ms`."""
    texts: dict[str, list[str]] = {}
    for text, bound in one.limited_by.items():
        texts.setdefault(bound, []).append(text)
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


def sentences(one: LinkFit) -> list[str]:
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


def crossing(one: Crossing) -> str:
    """`get: compression lz4 is faster than no compression below 480 Mbit/s [430..530], and slower above`."""
    first, second = (
        fit_words.setting({one.parameter: fit.where[one.parameter]}) for fit in (one.below, one.above)
    )
    between = f"[{significant(one.low)}..{significant(one.high)}]"
    return (
        f"{one.below.operation}: {first} is faster than {second} below {value(one.along, one.at)} {between}, "
        f"and slower above ({others(one.along, one.link)}{_same(one)})"
    )


def others(along: str, link: Link) -> str:
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
    return f"; {fit_words.setting(rest)}" if rest else ""


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
            "sentences": sentences(one),
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
            "text": crossing(c),
        }
        for c in passed
    ]
    return {"fits": fits, "crossings": crossings}
