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

__all__ = ["document", "lines", "presets", "presets_document"]


def presets() -> Iterator[str]:
    """A line each: name, link, source."""
    names, texts = (max(map(len, found)) for found in (PRESETS, [one.text for one in PRESETS.values()]))
    for name, preset in PRESETS.items():
        yield f"{name:<{names}}  {preset.text:<{texts}}  {preset.source}"


def presets_document() -> dict[str, Any]:
    return {"format": 1, "presets": [{"name": name, **asdict(one)} for name, one in PRESETS.items()]}


def document(found: Sequence[Looked]) -> dict[str, Any]:
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


def lines(one: Looked) -> Iterator[str]:
    """One link: whether it is as asked, and a row each of what was asked for, what was found, its range."""
    text = one.name if one.name == one.link.text else f"{one.name} ({one.link.text})"
    yield f"{text}: {'as asked' if one.wrong is None else f'NOT as asked: {one.wrong}'}"
    if not one.looks:
        return
    columns = [("", "asked", "found", "range")]
    for n, way in enumerate(WAYS):
        asked = _rate(one.link.rate[n]) if one.link.rate is not None else "any"
        columns.append((f"rate {way}", asked, *_spread(one.found(f"{way}_bits_per_second"), _rate)))
    trip = format_duration(one.link.round_trip_ns)
    columns.append(("round trip", trip, *_spread(one.found("round_trip_ns"), _time)))
    for n, way in enumerate(WAYS):
        lost, sent = one.lost(way) or (0, 0)
        columns.append((f"lost {way}", f"{100 * one.link.loss[n]:g} %", f"{lost:,} of {sent:,}", ""))
    for n, way in enumerate(WAYS):
        most = _at_most(one.link)
        asked = f"<= {_rate(most[n])}" if most is not None else "any"
        columns.append((f"raw TCP {way}", asked, *_spread(one.tcp[way], _rate)))
    widths = [max(map(len, column)) for column in columns]
    for row in zip(*columns, strict=True):
        if row[0] != "range" or any(row[1:]):
            cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
            yield f"  {'  '.join(cells)}".rstrip()


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
