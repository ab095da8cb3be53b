"""Laws over links in sentences: what bounds a setting, from where on, and where another one passes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from venturi.analysis.models import fit_words, over_links
from venturi.analysis.models.link_law import BOUNDS, START, Path
from venturi.analysis.models.over_links import Crossing, LinkFit
from venturi.analysis.statistics.intervals import Interval
from venturi.common.links import Link
from venturi.common.suffixes import format_duration
from venturi.common.units import Quantity, significant

__all__ = ["crossing", "doubt", "head", "left_out", "others", "sentences", "short", "stands_on", "value"]

CROSSINGS = "over links: which setting is faster where"
"""Above the crossings."""
WIDE = 2.0
"""Ends of an interval that lie so far apart, as a factor."""
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
    """What is in flight: a window that somebody set, TCP's own, or batches that wait."""
    held = over_links.held_by(one.cells[0])
    return {"answers": "waiting for answers", "tcp": "TCP's window"}.get(held, held.replace("_", " "))


def _named(one: LinkFit, bound: str) -> str:
    return (
        _flight(one)
        if bound == "flight"
        else {"ends": "the ends' own rate", "link": "the link's rate"}.get(bound, bound)
    )


def stands_on(one: LinkFit, at: Path) -> str:
    """The bound that a prediction stands on: `the link's rate`, `window and the link's rate`."""
    assert one.law is not None
    shares = one.law.shares(at)
    names = sorted((n for n in BOUNDS if shares[n] >= 0.25), key=lambda n: -shares[n])
    told = " and ".join(_named(one, name) for name in names)
    return f"{told}, less TCP's start" if shares[START] >= STARTS else told


def doubt(one: LinkFit, at: Path) -> str:
    """What is against a prediction; empty where nothing is."""
    assert one.law is not None
    bound = one.law.bound(at)
    if bound not in one.law.seen:
        return f"no measured link was bound by {_named(one, bound)}"
    if one.law.unseen(at):
        return one.law.unseen(at)
    band = one.law.band(at)
    if band.high > WIDE * band.low:
        return f"the measured links leave open what {_named(one, bound)} is here"
    return ""


def _of_rate(one: LinkFit, found: Interval) -> str:
    return str(found.quantity(one.unit))


def _amount(one: LinkFit, found: Interval) -> str:
    return str(found.quantity(one.unit.removesuffix("/s")))


def _parameters(one: LinkFit) -> list[str]:
    """What was fitted, of each bound that a measured link was at."""
    law = one.law
    assert law is not None
    out = []
    if "ends" in law.seen:
        out.append(f"the ends alone do {_of_rate(one, law.parameter('ends'))}")
    if "link" in law.seen:
        what = "payload bytes" if one.unit == "B/s" else one.unit.removesuffix("/s")
        part = fit_words.plain_number(law.parameter("link"))
        out.append(f"a byte that the link carries has {part} {what}")
    if "flight" in law.seen and over_links.held_by(one.cells[0]) == "answers":
        whole, found = law.setting.flight, law.parameter("flight")
        trips = Interval(whole / found.median, whole / found.high, whole / found.low, found.n, found.coverage)
        out.append(f"a batch waits {fit_words.plain_number(trips)} round trips for its answer")
    elif "flight" in law.seen:
        out.append(f"{_flight(one)}: {_amount(one, law.parameter('flight'))} in flight at most")
    if "losses" in law.seen:
        part, by = fit_words.plain_number(law.parameter("losses")), law.setting.control
        told = {"reno": "of Mathis's rate", "cubic": "of CUBIC's rate (RFC 9438)"}
        out.append(
            f"losses: {part} {told.get(by or '', 'times the rate of a packet a round trip, lost once')}"
        )
    missing = [_named(one, name) for name in BOUNDS if name not in law.seen]
    if missing:
        out.append(f"no measured link was bound by {', '.join(missing)}")
    return out


def _knees(one: LinkFit) -> list[str]:
    """From which round trip on what is in flight bounds, on the fastest measured link, and what to do."""
    rates = [link for link in one.links.values() if not any(link.loss)]
    if not rates:
        return []
    link = max(rates, key=lambda found: over_links.attributes(found, one.way)["rate"] or math.inf)
    found = over_links.knee(one, link)
    if found is None:
        return []
    shown = "a link without a rate" if link.rate is None else Link(rate=link.rate).text
    low, middle, high = (format_duration(round(v * 1e9)) for v in (found.low, found.median, found.high))
    told = f"over {shown}, from {middle} [{low}..{high}] round trip on, {_flight(one)} is the limit"
    held = over_links.held_by(one.cells[0])
    window = one.cells[0].parameters.get(held)
    if not isinstance(window, int):
        return [told]
    longest = max(max(other.round_trip_ns for other in one.links.values()) / 1e9, 2 * found.median)
    # A wider one than TCP's own holds nothing back.
    most = over_links.TCP_FLIGHT / over_links.WINDOW_USED
    more: float = window
    while more * found.median < window * longest and more < most:
        more *= 2
    moved = format_duration(round(found.median * min(more, most) / window * 1e9))
    option = f"--{held.replace('_', '-')}"
    if more < most:
        return [f"{told}; {option} {_window(int(more))} moves that to {moved}"]
    return [
        f"{told}; {option} none moves that to some {moved}, where TCP's own window holds back "
        f"(sysctl net.ipv4.{'tcp_rmem' if held == 'window' else 'tcp_wmem'})"
    ]


def _window(size: int) -> str:
    """As an option has it: `8Mi`."""
    for suffix, unit in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size % unit == 0:
            return f"{size // unit}{suffix}"
    return str(size)


def sentences(one: LinkFit) -> list[str]:
    """What the law says; or why there is none."""
    if one.law is None:
        return [f"no law: {one.refused}"]
    return [*_parameters(one), *_knees(one)]


def left_out(one: LinkFit, text: str, measured: float, found: Interval | None) -> str:
    """How a link comes out that the law has not seen."""
    shown = Quantity(measured, unit=one.unit)
    if found is None:
        return f"{text} left out: the others cannot tell; measured {shown}"
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
    """For machines: base units, intervals of 95 %; by the place in `made` what leaving links out gave."""

    def interval(found: Interval) -> dict[str, float]:
        return {"value": found.median, "low": found.low, "high": found.high}

    fits = []
    for i, one in enumerate(made):
        entry: dict[str, Any] = {
            "operation": one.operation,
            "where": one.where,
            "unit": one.unit,
            "links": list(one.links),
            "refused": one.refused or None,
            "sentences": sentences(one),
            "left_out": held.get(i, []),
        }
        if one.law is not None:
            law = one.law
            entry["bounds"] = {
                name: interval(law.parameter(name)) | {"seen": name in law.seen} for name in BOUNDS
            }
            entry["start"] = interval(law.parameter(START))
        fits.append(entry)
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
