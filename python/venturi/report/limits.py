"""The limits of a machine, and links that were made on it: as documents and for scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from venturi.analysis.cells.limits import Limit, Narrowest
from venturi.analysis.models.batch_cost import LEAST, Packing
from venturi.analysis.statistics.intervals import RANGE_BELOW, median_interval, range_coverage
from venturi.common.links import PRESETS, Link
from venturi.common.suffixes import format_duration
from venturi.common.units import MISSING, Quantity, bit_rate, percent, significant
from venturi.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    Section,
    Table,
    Terms,
    Text,
    fields,
    numbers,
    text_columns,
)

if TYPE_CHECKING:
    from venturi.measure.links import Looked


def machine(
    found: Sequence[Limit],
    last: Sequence[Narrowest],
    codecs: Sequence[Packing],
    lines: Sequence[Mapping[str, Any]],
    interrupted: bool,
) -> dict[str, Any]:
    """Limits and single repeats in base units; `lines` are those of ceilings.jsonl."""
    return {
        "format": 1,
        "interrupted": interrupted,
        "limits": [
            {
                **limit.fields,
                **fields(limit, "title", "spread", "meaning", "error", "moot", payload_per_encoded="ratio"),
                "bytes_per_second": limit.quantity.value,
                "bytes_per_second_low": limit.quantity.low,
                "bytes_per_second_high": limit.quantity.high,
                "repeats": len(limit.rates),
            }
            for limit in found
        ],
        "narrowest": [
            {"title": line.limit.title, "bytes_per_second": line.limit.quantity.value, "text": line.text}
            for line in last
        ],
        "codecs": [
            fields(one, "codec", "data", payload_per_encoded="ratio")
            | {"pays_below_bytes_per_second": one.pays_below()}
            for one in codecs
        ],
        "lines": [dict(line) for line in lines],
    }


def packed(found: Sequence[Packing]) -> list[str]:
    """Of each codec on which links it pays, as its cores allow."""
    lines = []
    for data in dict.fromkeys(one.data for one in found):
        vain = [one.codec for one in found if one.data == data and one.ratio < LEAST]
        if vain:
            least = f"{data}: less than {percent(LEAST - 1)} smaller by {' and '.join(vain)}"
            lines.append(f"{least}, and faster by no more than that on any link")
    for one in found:
        if one.ratio >= LEAST:
            most = one.pays_below()
            lines.append(
                f"{one.codec}: {one.data} {one.ratio:.3g} times smaller, "
                f"{Quantity(most, unit='B/s').text('MB/s')} with a core at each end. Faster than plain where "
                f"the link carries less than that a stream ({significant(8 * most / 1e9)} Gbit/s)"
            )
    return lines


def columns(found: Sequence[Limit]) -> list[Column]:
    """Rates and the spread of their repeats."""
    rates = [limit.quantity for limit in found]
    return [
        Column("limit", "", [limit.title for limit in found], text=True),
        replace(numbers("median", rates, 0, "MB/s"), styles=["strong"] * len(found)),
        Column(_coverage(found), "MB/s", [rate.margin("MB/s") for rate in rates]),
        Column("spread", "", [percent(limit.spread) for limit in found]),
    ]


def every_column(found: Sequence[Limit]) -> list[Column]:
    """Also the messages, the repeats, what was taken over, and why a limit was not measured."""
    first, *rest = columns(found)
    sizes = [limit.fields.get("message_bytes") for limit in found]
    texts = [f"{size / 1e3:,.4g}" if isinstance(size, int | float) else "" for size in sizes]
    out = [first, *([Column("message", "kB", texts)] if len(set(sizes) - {None}) > 1 else ()), *rest]
    out.append(Column("repeats", "", [str(len(limit.rates)) for limit in found]))
    cached = ["yes" if limit.cached else "" for limit in found]
    errors = [limit.error or ("" if limit.quantity.known else "not measured") for limit in found]
    out += [Column(head, "", cells, text=True) for head, cells in (("taken over", cached), ("error", errors))]
    return [c for c in out if any(c.cells)]


def document(found: Sequence[Limit], last: Sequence[Narrowest], codecs: Sequence[Packing]) -> Document:
    """A row per limit, what each kind means, the narrowest of each path, and where codecs pay."""
    shown = [limit for limit in found if not limit.moot]
    moot = [f"{limit.title} ({limit.moot})" for limit in found if limit.moot]
    meanings = dict.fromkeys((limit.family, limit.meaning) for limit in shown)
    blocks: list[Block] = [Table(columns(shown)), Terms(list(meanings))]
    if moot:
        blocks.append(Text(f"not limits here: {'; '.join(moot)}", "quiet"))
    blocks.append(Bullets([*(narrow.text for narrow in last), *packed(codecs)]))
    return Document("Limits", blocks if found else [])


def _coverage(found: Sequence[Limit]) -> str:
    """How surely the margins hold the medians."""
    least = min((n for limit in found if (n := len(limit.rates)) > 1), default=RANGE_BELOW)
    return "95 % CI" if least >= RANGE_BELOW else f"{range_coverage(least) * 100:.4g} % CI"


def presets() -> Iterator[str]:
    """A line each: name, link, source."""
    names, texts = (max(map(len, found)) for found in (PRESETS, [one.text for one in PRESETS.values()]))
    for name, preset in PRESETS.items():
        yield f"{name:<{names}}  {preset.text:<{texts}}  {preset.source}"


def presets_machine() -> dict[str, Any]:
    return {"format": 1, "presets": [{"name": name, **asdict(one)} for name, one in PRESETS.items()]}


def links_machine(found: Sequence[Looked]) -> dict[str, Any]:
    """Rates in bits/s, down and up; times in ns."""
    return {
        "format": 1,
        "links": [
            {
                **fields(one, "name", "wrong", found="looks", raw_tcp_bits_per_second="tcp"),
                "link": one.link.text,
                "asked": {**asdict(one.link), "raw_tcp_at_most": _at_most(one.link)},
                "as_asked": one.wrong is None,
            }
            for one in found
        ],
    }


def _at_most(link: Link) -> list[float] | None:
    return [rate * link.payload_part for rate in link.rate] if link.rate is not None else None


def link_document(one: Looked) -> Document:
    """One link: whether it is as asked, and a row each of what was asked for, what was found, its range."""
    from venturi.measure.links import WAYS

    text = one.name if one.name == one.link.text else f"{one.name} ({one.link.text})"
    title = f"{text}: {'as asked' if one.wrong is None else f'NOT as asked: {one.wrong}'}"
    if not one.looks:
        return Document("Links", [Section(title, [], "strong")])
    wanted, most = one.link.rate, _at_most(one.link)
    rows = [
        (f"rate {way}", bit_rate(wanted[n], 4) if wanted is not None else "any",
         *_spread(one.found(f"{way}_bits_per_second"), partial(bit_rate, digits=4)))
        for n, way in enumerate(WAYS)
    ]  # fmt: skip
    trip = format_duration(one.link.round_trip_ns)
    rows.append(
        ("round trip", trip, *_spread(one.found("round_trip_ns"), lambda ns: format_duration(round(ns))))
    )
    for n, way in enumerate(WAYS):
        lost, sent = one.lost(way) or (0, 0)
        rows.append((f"lost {way}", f"{100 * one.link.loss[n]:g} %", f"{lost:,} of {sent:,}", ""))
    for n, way in enumerate(WAYS):
        limit = f"<= {bit_rate(most[n], 4)}" if most is not None else "any"
        rows.append((f"raw TCP {way}", limit, *_spread(one.tcp[way], partial(bit_rate, digits=4))))
    columns = text_columns(("", "asked", "found", "range"), rows)
    return Document("Links", [Section(title, [Table([c for c in columns if any(c.cells)])], "strong")])


def _spread(values: Sequence[float], spelled: Any) -> tuple[str, str]:
    """The median, and the least and the most where there are several."""
    if not values:
        return MISSING, ""
    low, high = spelled(min(values)), spelled(max(values))
    if low.split()[1:] == high.split()[1:]:
        low, high = low.split()[0], high.split()[0]
    return spelled(median_interval(values).median), f"{low}..{high}" if len(values) > 1 else ""
