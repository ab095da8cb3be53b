"""The limits of a machine on the terminal and for machines: `venturi ceilings`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from venturi.analysis.cells.limits import Limit, Narrowest
from venturi.analysis.models.packing import LEAST, Packing
from venturi.analysis.statistics.intervals import RANGE_BELOW, range_coverage
from venturi.common.units import Quantity, percent, significant

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["document", "packed", "print_table"]


def document(
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
                "title": limit.title,
                **limit.fields,
                "bytes_per_second": limit.quantity.value,
                "bytes_per_second_low": limit.quantity.low,
                "bytes_per_second_high": limit.quantity.high,
                "spread": limit.spread,
                "repeats": len(limit.rates),
                "payload_per_encoded": limit.ratio,
                "meaning": limit.meaning,
                "error": limit.error,
                "moot": limit.moot,
            }
            for limit in found
        ],
        "narrowest": [
            {"title": line.limit.title, "bytes_per_second": line.limit.quantity.value, "text": line.text}
            for line in last
        ],
        "codecs": [
            {
                "codec": one.codec,
                "data": one.data,
                "payload_per_encoded": one.ratio,
                "pays_below_bytes_per_second": one.pays_below(),
            }
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
            lines.append(
                f"{data}: less than {percent(LEAST - 1)} smaller by {' and '.join(vain)}, and faster by no "
                "more than that on any link"
            )
    for one in found:
        if one.ratio >= LEAST:
            most = one.pays_below()
            lines.append(
                f"{one.codec}: {one.data} {one.ratio:.3g} times smaller, "
                f"{Quantity(most, unit='B/s').text('MB/s')} with a core at each end. Faster than plain where "
                f"the link carries less than that a stream ({significant(8 * most / 1e9)} Gbit/s)"
            )
    return lines


def print_table(
    found: Sequence[Limit], last: Sequence[Narrowest], codecs: Sequence[Packing], console: Console
) -> None:
    """A row a limit, what each kind means, and at the end the narrowest of each path, and where codecs
    pay."""
    from rich.table import Table
    from rich.text import Text

    if not found:
        return
    moot = [f"{limit.title} ({limit.moot})" for limit in found if limit.moot]
    found = [limit for limit in found if not limit.moot]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)

    def column(head: str, unit: str, justify: Literal["left", "right"]) -> None:
        table.add_column(Text(f"{head}\n{unit}", style="bold"), justify=justify, no_wrap=True)

    column("limit", "", "left")
    column("median", "MB/s", "right")
    column(_coverage(found), "MB/s", "right")
    column("spread", "", "right")
    for limit in found:
        quantity = limit.quantity
        table.add_row(
            Text(limit.title),
            Text(quantity.number("MB/s"), style="bold"),
            Text(quantity.margin("MB/s")),
            Text(percent(limit.spread)),
        )
    console.print(table)
    console.print()
    meanings = dict.fromkeys((limit.family, limit.meaning) for limit in found)
    indent = max(len(family) for family, _ in meanings) + 2
    room = max(console.width, indent + 30)
    for family, meaning in meanings:
        text = f"{family:<{indent}}{meaning}"
        for part in textwrap.wrap(text, room, subsequent_indent=" " * indent, break_on_hyphens=False):
            console.print(Text(part, style="dim"))
    if moot:
        for part in textwrap.wrap(f"not limits here: {'; '.join(moot)}", room, break_on_hyphens=False):
            console.print(Text(part, style="dim"))
    for line in (*(narrow.text for narrow in last), *packed(codecs)):
        console.print()
        for text in textwrap.wrap(line, max(console.width, 40), break_on_hyphens=False):
            console.print(Text(text, style="bold"))


def _coverage(found: Sequence[Limit]) -> str:
    """How surely the margins hold the medians."""
    least = min((n for limit in found if (n := len(limit.rates)) > 1), default=RANGE_BELOW)
    return "95 % CI" if least >= RANGE_BELOW else f"{range_coverage(least) * 100:.4g} % CI"
