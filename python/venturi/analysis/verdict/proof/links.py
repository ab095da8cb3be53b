"""Proofs over a link that was made for the cell: it is full, it loses packets, or the trial is over before
TCP has found what it carries.

What such a link carries was measured before the trials, apart from them, so that no CPU can feign it.
"""

from __future__ import annotations

from venturi.analysis.cells.figures import numeric
from venturi.analysis.models import tcp
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.over_link import OverLink
from venturi.analysis.verdict.proof.cores import ELSEWHERE, Work, busy_ends, filled, mix
from venturi.analysis.verdict.proof.ends import WORKERS
from venturi.analysis.verdict.proof.hit import Diagnosis, beyond, known
from venturi.targets.system import is_datagrams

__all__ = ["full", "held_back", "relay", "settles"]

FULL = 0.9
"""Share of what full packets of TCP carry of a link. The rest is what frames and answers of a protocol are,
and what its start takes."""
SHARED = 0.1
"""Part of a link from which others are the reason: without them a ninth more could be had."""
LOST = 3.0
"""Packets lost on each stream, by the link's part, from which losses have shaped a trial."""
UNDER_LAW = 0.5
"""Of what the law lets through, what is moved at least where losses hold back: a single trial scatters so
far. Where less was moved, something else does."""
OVER_BOUND = 3.0
"""So much more than the law is moved by chance: the law is of regular losses."""
SETTLED = 20.0
"""Losses of a stream from which its start is forgotten, for each takes three tenths or half of what is in
flight. Before, more than the law may be moved."""
STARTED = 0.9
"""Where TCP's start alone would let through less of a link, a trial cannot fill it."""
UNDER_START = 1 / 3
"""Of what the start lets through. Where less was moved, something else holds back."""


def settles(over: OverLink | None) -> bool:
    """Whether what is known of a link tells more than raw TCP over it, which its losses slow down too."""
    return over is not None and (over.rate is not None or over.loss > 0)


def relay(seen: CellEvidence) -> Diagnosis | None:
    """The relay that makes the link fills a core with one of its threads, or most of the cores that are full:
    it can pass on no more; unless the link carries what it shall."""
    hit = _relay(seen)
    return hit and (full(seen) or hit)


def _relay(seen: CellEvidence) -> Diagnosis | None:
    found = seen.helpers.get("relay")
    if found is None or found.cpu is None:
        return None
    thread = found.busiest_thread[1] if found.busiest_thread else None
    numbers = known(cpu_cores=found.cpu, thread_busy=thread)
    if thread is not None and thread >= WORKERS:
        return Diagnosis(Cause.LINK_RELAY, "client", None, beyond(thread, WORKERS) + 0.3, numbers)
    ends = busy_ends(seen)
    share = mix(seen, ends).get(Work(None, found.name), 0.0)
    if share <= ELSEWHERE:
        return None
    host = filled(seen)[0]
    numbers |= known(busy=host.busy, cores=host.cores, relay_share=share)
    return Diagnosis(Cause.LINK_RELAY, "client", None, beyond(share, ELSEWHERE), numbers)


def full(seen: CellEvidence) -> Diagnosis | None:
    """The link carries what it can, or what others leave of it."""
    over = seen.over
    if over is None or over.rate is None or over.share is None or over.share < FULL:
        return None
    numbers = known(
        link_share=over.share,
        link_bits_per_second=over.bits,
        raw_tcp_share=seen.of("raw TCP"),
    )
    margin = beyond(over.share, FULL - 0.02)
    if over.cross >= SHARED:
        return Diagnosis(Cause.LINK_SHARED, None, None, margin, numbers | {"cross_share": over.cross})
    return Diagnosis(Cause.LINK_FULL, None, None, margin, numbers)


def held_back(seen: CellEvidence) -> Diagnosis | None:
    """Neither end, nor a window, nor the link's rate: TCP itself sends no faster."""
    over = seen.over
    if over is None or not over.moved or is_datagrams(str(seen.cell.parameters.get("target") or "")):
        return None
    return _loss(seen, over, over.moved) or _start(seen, over, over.moved) or _raw_tcp(seen, over)


def _loss(seen: CellEvidence, over: OverLink, moved: float) -> Diagnosis | None:
    """Of an upsert each batch waits for its answer, which is another reason."""
    if seen.cell.answered or not over.loss or over.control not in tcp.LOSS_BASED:
        return None
    packet = over.link.packet
    lost = moved * _seconds(seen) / packet / seen.streams * over.loss
    one = tcp.loss_bound(over.control, packet, over.round_trip / 1e9, over.loss)
    bound = seen.streams * one
    if lost < LOST or moved < UNDER_LAW * bound or (over.free is not None and bound > over.free):
        return None
    above = moved > OVER_BOUND * bound
    if above and lost >= SETTLED:
        return None
    share = over.share
    needed = None if over.free is None else -(-over.free // (one if above else moved / seen.streams))
    under_full = 0.5 if share is None else beyond(1 - share, 1 - FULL, 0.5)
    margin = 0.0 if above else min(under_full, beyond(moved / bound, UNDER_LAW))
    return Diagnosis(
        Cause.LOSS,
        None,
        None,
        margin,
        known(
            link_share=share,
            loss=over.loss,
            bound_bytes_per_second=bound,
            lost_packets=lost,
            round_trip_ns=over.round_trip,
            streams_needed=needed,
            raw_tcp_share=seen.of("raw TCP"),
        ),
    )


def _start(seen: CellEvidence, over: OverLink, moved: float) -> Diagnosis | None:
    """Of an upsert each batch waits for its answer, which is another reason."""
    if seen.cell.answered or not over.holds or over.share is None:
        return None
    trips = _seconds(seen) * 1e9 / over.round_trip
    batch = moved / (seen.cell.batches.value or 1.0)
    # As much again as was answered: a batch has gone through each stream before the clock starts.
    first = seen.streams * (tcp.FIRST_PACKETS * over.link.packet + batch)
    possible = tcp.started_share(trips, over.holds, first)
    if possible >= STARTED or over.share < UNDER_START * possible:
        return None
    numbers = {
        "link_share": over.share,
        "round_trips": trips,
        "first_bytes": first,
        "trips_to_fill": float(tcp.trips_to_fill(over.holds, first)),
        "started_share": possible,
    }
    return Diagnosis(Cause.SLOW_START, None, None, beyond(1 - possible, 1 - STARTED, 0.5), numbers)


def _raw_tcp(seen: CellEvidence, over: OverLink) -> Diagnosis | None:
    """Raw TCP does no better, for whatever reason."""
    share = seen.of("raw TCP")
    if share is None or share < FULL or not settles(over):
        return None
    numbers = known(raw_tcp_share=share, wire_bytes_per_second=over.moved)
    return Diagnosis(Cause.RAW_TCP_REACHED, None, None, beyond(share, FULL - 0.02), numbers)


def _seconds(seen: CellEvidence) -> float:
    """A trial's time."""
    times = sorted(t for r in seen.cell.records if (t := numeric(r, "times", "interval_ns")) is not None)
    return times[len(times) // 2] / 1e9 if times else 0.0
