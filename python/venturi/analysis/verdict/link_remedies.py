"""What to try over a link that was made for the cell: other settings, and other links."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from venturi.analysis.cells.probed import data_label
from venturi.analysis.models.packing import LEAST
from venturi.analysis.models.tcp import LOSS_BASED
from venturi.analysis.verdict.causes import Cause, RemedyKind
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.over_link import OverLink
from venturi.analysis.verdict.proof import Diagnosis
from venturi.analysis.verdict.shared_remedies import more_connections
from venturi.analysis.verdict.types import Remedy
from venturi.analysis.words.wording import size
from venturi.common import links
from venturi.targets.system import is_charrow

__all__ = ["buffer", "kernels", "link", "long_enough", "relay", "twice_held", "unpaced"]

STREAMS_MOST = 64
_LARGE_FRAMES = 9000
_STARTS = 10
"""Times that TCP's start fits into a trial of which it is a small part."""
_FEWEST = 4096
"""Bytes of a window or a buffer."""


def link(seen: CellEvidence, over: OverLink, hit: Diagnosis, packs: bool) -> list[Remedy]:
    """For a link that is full or loses packets. `packs`: whether its system can be asked to compress data
    that may get smaller."""
    if hit.cause is Cause.LOSS:
        return [*_more_streams(seen, hit), *_control(over)]
    found = [Remedy(RemedyKind.NO_CROSS, {"cross": None})] if hit.cause is Cause.LINK_SHARED else []
    if packs:
        found += _compression(seen, over)
    return [*found, *_faster(seen, over)]


def relay(seen: CellEvidence) -> list[Remedy]:
    """For a relay that can pass on no more frames."""
    found = []
    if seen.over is not None:
        larger = replace(seen.over.link, mtu=_LARGE_FRAMES)
        if larger != seen.over.link and links.known(larger.text):
            found.append(Remedy(RemedyKind.LARGER_FRAMES, {"link": larger.text}))
    return [*found, Remedy(RemedyKind.RELAY_CORES, settings={"relay.cores": "more"})]


def _compression(seen: CellEvidence, over: OverLink) -> list[Remedy]:
    """The codec that is the fastest over this link, by what cores make of it; else what would tell."""
    label, p = data_label(seen.cell.parameters), seen.cell.parameters
    known = {one.codec: one for one in seen.packings if one.data == label}
    if not known or not over.free:
        found = [Remedy(RemedyKind.COMPRESSION, {"compression": "lz4"})]
        data = str(p.get("data") or "remote")
        if label is None or data in ("remote", "states") or is_charrow(str(p.get("target"))):
            return found
        what = f"--columns {p.get('columns')} --values {p.get('values')}"
        named = what if data == "records" else f"--data {shlex.quote(data)}"
        return [*found, Remedy(RemedyKind.PACKING_LIMITS, command=f"venturi ceilings --only codec {named}")]
    cores = round(seen.client.cores) if seen.client.cores else None
    streams, free = int(seen.streams), over.free
    rates = {codec: one.rate(free, streams, cores=cores) for codec, one in known.items()}
    best = max(rates, key=lambda codec: rates[codec])
    gain = rates[best] / free
    if gain < LEAST:
        return []
    told = {"codec": best, "ratio": known[best].ratio, "gain": gain}
    return [Remedy(RemedyKind.PACKING_PAYS, {"compression": best}, numbers=told)]


def _faster(seen: CellEvidence, over: OverLink) -> list[Remedy]:
    """A link twice as fast, and what the links of several loaders share too: each may be the narrower."""
    if over.link.rate is None:
        return []
    twice = replace(over.link, rate=_doubled(over.link.rate))
    changes = {"link": twice.text}
    asked = [twice]
    if (backplane := links.known_rates(seen.cell.parameters.get("backplane"))) is not None:
        asked.append(links.Link(rate=_doubled(backplane)))
        changes["backplane"] = asked[-1].text
    # Faster than can be asked for is no remedy.
    return [Remedy(RemedyKind.FASTER_LINK, changes)] if all(links.known(one.text) for one in asked) else []


def _doubled(rates: links.Rates) -> links.Rates:
    return 2 * rates[0], 2 * rates[1]


def _more_streams(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    needed = int(hit.numbers.get("streams_needed") or 2 * seen.streams)
    wanted = min(max(needed, int(seen.streams) + 1), STREAMS_MOST)
    if wanted <= seen.streams:
        return []
    return [replace(more_connections(seen, RemedyKind.STREAMS_HIDE, wanted), numbers={"needed": needed})]


def _control(over: OverLink) -> list[Remedy]:
    """What another congestion control would make of it."""
    if over.control not in LOSS_BASED:
        return []
    return [Remedy(RemedyKind.OTHER_CONTROL, {"link": replace(over.link, control="bbr").text})]


def unpaced(seen: CellEvidence, over: OverLink, hit: Diagnosis) -> list[Remedy]:
    """CUBIC, where sockets keep the ends of a fast and short link busy, and BBR paces what they send: over
    54.5 Gbit/s on two cores four streams moved 3.5 GB/s so, and 6.3 with CUBIC or Reno."""
    of_sockets = hit.stage in ("send", "receive") or (hit.cause is Cause.CORES_FULL and hit.stage is None)
    rate = over.link.of(seen.cell.operation)
    fast = (rate is None or rate >= links.FAST) and not over.link.round_trip_ns and not over.loss
    if over.control != "bbr" or not (fast and of_sockets):
        return []
    return [Remedy(RemedyKind.NO_PACING, {"link": replace(over.link, control="cubic").text})]


def long_enough(seen: CellEvidence, hit: Diagnosis) -> int:
    """Seconds of a trial of which TCP's start is a small part."""
    assert seen.over is not None
    return max(5, math.ceil(_STARTS * hit.numbers["trips_to_fill"] * seen.over.round_trip / 1e9))


def twice_held(seen: CellEvidence) -> int | None:
    """Bytes a stream that a window or a buffer needs so that it does not limit: twice what the link holds,
    for it is opened again when half of it is used, and a buffer of the kernel holds more than payload.
    A power of two; None where the link's rate is not known."""
    over = seen.over
    if over is None or not over.holds:
        return None
    return int(2 ** math.ceil(math.log2(max(_FEWEST, 2 * over.holds / seen.streams))))


def kernels(seen: CellEvidence, end: str, setting: str) -> Remedy:
    """A setting of TCP's that bounds the kernel's own buffers, as large as the link needs it."""
    found = buffer(seen, RemedyKind.TCP_BUFFERS_TO, {}, {f"{end}.net.ipv4.{setting}": twice_held(seen)})
    return replace(found, numbers={**found.numbers, "end": end, "setting": setting})


def buffer(
    seen: CellEvidence, why: RemedyKind, changes: Mapping[str, Any], settings: Mapping[str, Any] | None = None
) -> Remedy:
    """One that is as large as the link needs it."""
    over, larger = seen.over, twice_held(seen)
    assert over is not None and over.holds is not None and larger is not None
    told = {"holds": size(over.holds / seen.streams), "larger": size(larger)}
    return Remedy(why, changes, settings=settings or {}, numbers=told)
