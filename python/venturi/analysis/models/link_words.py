"""Laws over links in sentences: what limits each link, from where on, and where a setting passes another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from venturi.analysis.models import fit_words, over_links
from venturi.analysis.models.link_law import BOUNDS, LinkLaw, Path
from venturi.analysis.models.over_links import Crossing, LinkFit
from venturi.analysis.statistics.intervals import Interval
from venturi.common.links import Link
from venturi.common.suffixes import format_duration
from venturi.common.units import Quantity, significant

__all__ = ["crossing", "doubt", "head", "left_out", "others", "sentences", "short", "stands_on", "value"]

CROSSINGS = "over links: which setting is faster where"
"""Above the crossings."""
NAMED = 4
"""So many links are named, of more only their number."""
NEAR = 1.1
"""Two bounds so near each other are both named."""
STARTS = 0.1
"""What TCP's start must take of a rate to be named."""
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


def _flight(one: LinkFit) -> str:
    """A window that somebody set, TCP's own, or batches that wait."""
    held = over_links.held_by(one.cells[0])
    return {"answers": "waiting for answers", "tcp": "TCP's window"}.get(held, held.replace("_", " "))


def _named(one: LinkFit, bound: str) -> str:
    names = {"ends": "the ends' own rate", "link": "the link's rate", "flight": _flight(one)}
    return names.get(bound, bound)


def stands_on(one: LinkFit, at: Path) -> str:
    """The bound that a prediction stands on: `the link's rate`, `window and the link's rate`."""
    assert one.law is not None
    bounds = one.law.bounds(at)
    near = NEAR * min(bounds.values())
    text = " and ".join(_named(one, n) for n in sorted(BOUNDS, key=lambda n: bounds[n]) if bounds[n] <= near)
    return f"{text}, less TCP's start" if one.law.start(at) >= STARTS else text


def doubt(one: LinkFit, at: Path) -> str:
    """What is against a prediction; empty if nothing is."""
    assert one.law is not None
    if at.loss and not any(other.loss for other in one.law.paths):
        return "no measured link loses packets"
    unseen = one.law.open(at)
    return f"no measured link was limited by {_named(one, unseen)}" if unseen else ""


def _limits(one: LinkFit) -> str:
    """`8 of 11 links are limited by the link's rate, 2 by window (1gbit 20ms, 1gbit 80ms)`."""
    links: dict[str, list[str]] = {}
    for text, bound in one.limited_by.items():
        links.setdefault(bound, []).append(text)
    parts = []
    for bound, texts in sorted(links.items(), key=lambda item: -len(item[1])):
        shown = f" ({', '.join(texts)})" if len(texts) <= NAMED else ""
        parts.append((len(texts), f"limited by {_named(one, bound)}{shown}"))
    (count, first), *rest = parts
    more = "".join(f", {n} {text.removeprefix('limited ')}" for n, text in rest)
    return f"{count} of {len(one.links)} links are {first}{more}"


def _numbers(one: LinkFit) -> list[str]:
    """The number of each bound that limits a measured link."""
    law = one.law
    assert law is not None
    found = {name: law.number(name) for name in BOUNDS if name in law.limits}
    out = []
    if "ends" in found:
        out.append(f"the ends alone do {found['ends'].quantity(one.unit)}")
    if "link" in found:
        what = "payload bytes" if one.unit == "B/s" else one.unit.removesuffix("/s")
        out.append(f"a byte that the link carries has {fit_words.plain_number(found['link'])} {what}")
    if "flight" in found and over_links.held_by(one.cells[0]) == "answers":
        whole, flight = law.setting.flight, found["flight"]
        trips = replace(
            flight, median=whole / flight.median, low=whole / flight.high, high=whole / flight.low
        )
        out.append(f"a batch waits {fit_words.plain_number(trips)} round trips for its answer")
    elif "flight" in found:
        most = found["flight"].quantity(one.unit.removesuffix("/s"))
        out.append(f"{_flight(one)}: {most} in flight at most")
    if "losses" in found:
        law_of = {"reno": "Mathis's rate", "cubic": "CUBIC's rate (RFC 9438)"}[law.setting.control or ""]
        out.append(f"losses: {fit_words.plain_number(found['losses'])} of {law_of}")
    return out


def _knees(one: LinkFit) -> list[str]:
    """From which round trip on what is in flight limits the fastest measured link, and what to do."""
    law, cell = one.law, one.cells[0]
    rates = [link for link in one.links.values() if not any(link.loss)]
    if law is None or not rates or "flight" not in law.limits:
        return []
    link = max(rates, key=lambda found: over_links.attributes(found, one.way)["rate"] or math.inf)
    bounds, flight = law.bounds(one.path(link)), law.number("flight")
    least = min(bounds["ends"], bounds["link"])
    if math.isinf(least):
        return []
    shown = "a link without a rate" if link.rate is None else Link(rate=link.rate).text
    low, middle, high = (_trip(f / least) for f in (flight.low, flight.median, flight.high))
    said = f"over {shown}, from {middle} [{low}..{high}] round trip on, {_flight(one)} is the limit"
    held = over_links.held_by(cell)
    window = cell.parameters.get(held)
    if not isinstance(window, int):
        return [said]
    knee = flight.median / least
    longest = max(max(other.round_trip_ns for other in one.links.values()) / 1e9, 2 * knee)
    # A wider one than TCP's own holds nothing back.
    most = over_links.TCP_FLIGHT / over_links.WINDOW_USED
    more: float = window
    while more * knee < window * longest and more < most:
        more *= 2
    moved, option = _trip(knee * min(more, most) / window), f"--{held.replace('_', '-')}"
    if more < most:
        return [f"{said}; {option} {_window(int(more))} moves that to {moved}"]
    return [
        f"{said}; {option} none moves that to some {moved}, where TCP's own window holds back "
        f"(sysctl net.ipv4.{'tcp_rmem' if held == 'window' else 'tcp_wmem'})"
    ]


def _trip(seconds: float) -> str:
    return format_duration(round(seconds * 1e9))


def _window(size: int) -> str:
    """As an option has it: `8Mi`."""
    for suffix, unit in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size % unit == 0:
            return f"{size // unit}{suffix}"
    return str(size)


def sentences(one: LinkFit) -> list[str]:
    """What limits each link, the law's numbers, and what to do; or why there is no law."""
    if one.law is None:
        return [f"no law: {one.refused}"]
    return [_limits(one), *_numbers(one), *_knees(one)]


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

    def number(law: LinkLaw, name: str) -> dict[str, Any]:
        found = law.number(name)
        values = {"value": found.median, "low": found.low, "high": found.high}
        finite = {k: v if math.isfinite(v) else None for k, v in values.items()}
        return finite | {"seen": name in law.limits}

    fits = [
        {
            "operation": one.operation,
            "where": one.where,
            "unit": one.unit,
            "links": list(one.links),
            "limited_by": one.limited_by,
            "refused": one.refused or None,
            "sentences": sentences(one),
            "left_out": held.get(i, []),
        }
        | ({} if one.law is None else {"bounds": {name: number(one.law, name) for name in BOUNDS}})
        for i, one in enumerate(made)
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
