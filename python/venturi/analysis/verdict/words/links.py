"""Hits over a link that was made for the cell, as lines."""

from __future__ import annotations

from collections.abc import Iterator

from venturi.analysis.cells.probed import packed
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.over_link import OverLink
from venturi.analysis.verdict.proof import Diagnosis
from venturi.analysis.verdict.proof.links import OVER_BOUND
from venturi.analysis.words.wording import milliseconds, nouns_of, rate, size
from venturi.common.units import bit_rate, percent, plural

__all__ = ["full", "holds", "loss", "path", "start"]

Lines = Iterator[str]
_TITLES = {"bbr": "BBR", "cubic": "CUBIC", "reno": "Reno"}


def _raw_tcp(seen: CellEvidence) -> Lines:
    share = seen.facts.get("share.raw TCP")
    # What is packed is held against what raw TCP would carry of it.
    moved = seen.wire_rate if packed(seen.cell.parameters) else seen.rate
    if share and moved:
        yield f"raw TCP over the same link, with as many connections, does {rate(moved / share)}"


def full(seen: CellEvidence, hit: Diagnosis) -> Lines:
    over = seen.over
    assert over is not None and over.rate is not None
    share, moved = percent(hit.numbers["link_share"]), rate(over.moved or 0.0)
    carried = bit_rate(over.bits or 0.0)
    wide, it = f"the link ({carried}) is full", "it"
    if over.loaders > 1:
        wide, it = (
            f"the links of {over.loaders} loaders ({bit_rate(over.bits or 0.0)} together) are full",
            "them",
        )
    if hit.cause is Cause.LINK_SHARED:
        left = rate(over.free or 0.0)
        yield f"{wide}: others take {percent(over.cross)} of {it}, and {left} is what is left"
        yield f"{moved} on the wire are {share} of that"
    else:
        yield f"{wide}: {moved} on the wire are {share} of what TCP gets through {it}"
    yield from _raw_tcp(seen)


def holds(seen: CellEvidence) -> Lines:
    """What has to be in flight to fill the link."""
    over = seen.over
    if over is not None and over.holds is not None and over.free is not None:
        holder = "the link holds" if over.loaders == 1 else f"the links of {over.loaders} loaders hold"
        yield (
            f"{holder} {rate(over.free)} x {milliseconds(over.round_trip)} = {size(over.holds)} (its "
            "bandwidth-delay product): so much must be in flight to fill it"
        )


def loss(seen: CellEvidence, hit: Diagnosis) -> Lines:
    over, numbers = seen.over, hit.numbers
    assert over is not None
    control, stream = _TITLES[str(over.control)], nouns_of(seen.cell).stream
    yield (
        f"the link loses {100 * over.loss:.3g} % of the packets, and {control} takes a loss for a full link "
        "and sends less"
    )
    law = "Mathis et al. 1997" if over.control == "reno" else "RFC 9438, 5.1"
    bound = numbers["bound_bytes_per_second"]
    of_link = f", {percent(over.share)} of what the link carries" if over.share is not None else ""
    yield (
        f"{plural(seen.streams, stream)} of packets of {over.link.packet:,} bytes at a round trip of "
        f"{milliseconds(over.round_trip)} can be expected to do {rate(bound)} ({law})"
    )
    yield f"{rate(over.moved or 0.0)} were moved{of_link}"
    if (over.moved or 0.0) > OVER_BOUND * bound:
        lost = plural(round(numbers["lost_packets"]), "packet")
        yield f"a {stream} lost {lost}, so its start still counts: a longer trial moves less"
    if needed := numbers.get("streams_needed"):
        yield f"some {plural(int(needed), stream)} would fill the link"
    yield from _raw_tcp(seen)


def start(seen: CellEvidence, hit: Diagnosis) -> Lines:
    over, numbers = seen.over, hit.numbers
    assert over is not None
    yield (
        f"the trial took {plural(round(numbers['round_trips']), 'round trip')} of "
        f"{milliseconds(over.round_trip)}; TCP begins with {size(numbers['first_bytes'])} in flight and at "
        "most doubles that in each"
    )
    yield from holds(seen)
    yield (
        f"that takes {plural(int(numbers['trips_to_fill']), 'round trip')}, so the trial could move "
        f"{percent(numbers['started_share'])} of what the link carries; it moved "
        f"{percent(numbers['link_share'])}"
    )


def path(seen: CellEvidence, over: OverLink) -> str:
    """The link as it was asked for, and what was measured of it."""
    found = [f"a round trip of {milliseconds(over.round_trip)}"]
    if (measured := seen.facts.get("link.bits_per_second")) is not None:
        found.insert(0, bit_rate(measured))
    if over.loss and (counted := seen.facts.get("link.loss")) is not None:
        found.append(f"{100 * counted:.2g} % of the packets lost")
    control = f"; {_TITLES.get(over.control, over.control)} sends" if over.control else ""
    if over.loss and over.control == "bbr":
        control += " and does not slow down for single losses"
    return f"asked for {seen.cell.parameters['link']}, measured {', '.join(found)}{control}"
