"""Links on the terminal and for machines: `venturi links`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from venturi.analysis.statistics.intervals import median_interval
from venturi.common.links import PRESETS, Link
from venturi.common.suffixes import format_duration
from venturi.common.units import MISSING, bit_rate
from venturi.measure.links import WAYS, Looked
from venturi.report.document import Column, Document, Section, Table

__all__ = ["document", "machine", "presets", "presets_machine"]


def presets() -> Iterator[str]:
    """A line each: name, link, source."""
    names, texts = (max(map(len, found)) for found in (PRESETS, [one.text for one in PRESETS.values()]))
    for name, preset in PRESETS.items():
        yield f"{name:<{names}}  {preset.text:<{texts}}  {preset.source}"


def presets_machine() -> dict[str, Any]:
    return {"format": 1, "presets": [{"name": name, **asdict(one)} for name, one in PRESETS.items()]}


def machine(found: Sequence[Looked]) -> dict[str, Any]:
    """Rates in bits/s, down and up; times in ns."""
    return {
        "format": 1,
        "links": [
            {
                "name": one.name,
                "link": one.link.text,
                "asked": {**asdict(one.link), "raw_tcp_at_most": _at_most(one.link)},
                "as_asked": one.wrong is None,
                "wrong": one.wrong,
                "found": one.looks,
                "raw_tcp_bits_per_second": one.tcp,
            }
            for one in found
        ],
    }


def _at_most(link: Link) -> list[float] | None:
    return [rate * link.payload_part for rate in link.rate] if link.rate is not None else None


def document(one: Looked) -> Document:
    """One link: whether it is as asked, and a row each of what was asked for, what was found, its range."""
    text = one.name if one.name == one.link.text else f"{one.name} ({one.link.text})"
    title = f"{text}: {'as asked' if one.wrong is None else f'NOT as asked: {one.wrong}'}"
    if not one.looks:
        return Document("Links", [Section(title, [], "strong")])
    asked, most = one.link.rate, _at_most(one.link)
    rows = [
        (f"rate {way}", _rate(asked[n]) if asked is not None else "any",
         *_spread(one.found(f"{way}_bits_per_second"), _rate))
        for n, way in enumerate(WAYS)
    ]  # fmt: skip
    trip = format_duration(one.link.round_trip_ns)
    rows.append(("round trip", trip, *_spread(one.found("round_trip_ns"), _time)))
    for n, way in enumerate(WAYS):
        lost, sent = one.lost(way) or (0, 0)
        rows.append((f"lost {way}", f"{100 * one.link.loss[n]:g} %", f"{lost:,} of {sent:,}", ""))
    for n, way in enumerate(WAYS):
        limit = f"<= {_rate(most[n])}" if most is not None else "any"
        rows.append((f"raw TCP {way}", limit, *_spread(one.tcp[way], _rate)))
    heads = ("", "asked", "found", "range")
    columns = [
        Column(head, "", list(cells), text=True)
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
    ]
    return Document("Links", [Section(title, [Table([c for c in columns if any(c.cells)])], "strong")])


def _time(nanoseconds: float) -> str:
    return format_duration(round(nanoseconds))


def _rate(value: float) -> str:
    return bit_rate(value, 4)


def _spread(values: Sequence[float], spelled: Any) -> tuple[str, str]:
    """The median, and the least and the most where there are several."""
    if not values:
        return MISSING, ""
    low, high = spelled(min(values)), spelled(max(values))
    if low.split()[1:] == high.split()[1:]:
        low, high = low.split()[0], high.split()[0]
    return spelled(median_interval(values).median), f"{low}..{high}" if len(values) > 1 else ""
