"""What lies between the ends as the narrow place: links, losses, TCP's start, windows and buffers.

A link that was made for the cell was measured before the trials, so that no CPU can feign it.
"""

from __future__ import annotations

from collections.abc import Iterator

from venturi.analysis.cells.probes import is_compressed
from venturi.analysis.models import link_law
from venturi.analysis.verdict.evidence import CellEvidence, OverLink
from venturi.analysis.verdict.machine import (
    ELSEWHERE,
    Work,
    busy_ends,
    cores_lines,
    crowded,
    filled,
    held_up,
    mix,
)
from venturi.analysis.verdict.types import Diagnosis, MissingEvidence, beyond, measured
from venturi.analysis.verdict.workers import WORKERS, waits_line
from venturi.analysis.wording import milliseconds, nouns_of, rate, size
from venturi.common.units import bit_rate, percent, plural, significant
from venturi.targets.system import is_datagrams

Lines = Iterator[str]

LINK = 0.9
"""Share of a link's full packets, of raw TCP, or of the interface's speed. The rest is a protocol's frames,
answers and start."""
SHARED = 0.1
"""Part of a link from which others are the reason: without them a ninth more could be had."""
LOST = 3.0
"""Packets lost on each stream, by the link's part, from which losses have shaped a trial."""
UNDER_LAW = 0.5
"""Share of what the law lets through that is moved at least if losses hold back: a trial scatters so far."""
OVER_LAW = 3.0
"""So much more than the law is moved by chance: the law is of regular losses."""
SETTLED = 20.0
"""Losses of a stream from which its start is forgotten, for each takes three tenths or half of what is in
flight. Before, more than the law may be moved."""
STARTED = 0.9
"""If TCP's start alone would let through less of a link, a trial cannot fill it."""
UNDER_START = 1 / 3
"""Of what the start lets through. If less was moved, something else holds back."""
WAKE_UP = 1e6
"""A round trip (ns) on loopback below this is the time in which the other end wakes up, and no path's."""
BLOCKED = 0.3
"""Share of its time that a sender is refused by its socket before the path is suspected."""
SPARE = 0.9
"""Under this busy share a host has CPU to spare; above it, waiting for a CPU shows in every stage."""
CLIENT_WAITS = 0.5
LIMITED = 0.5
"""Share of a socket's busy time in which the kernel counts it as limited by a buffer."""
WINDOW = 0.2
"""Share of its time that a sender waits for the peer's window."""
FIRST_WINDOW = 65_535
"""A stream's window before anybody sets another (RFC 9113, 6.9.2), in bytes: a server of which nothing is
known gives no less."""
NEAR_BOUND = 0.5
"""A buffer that limits lets through about buffer / round trip. Far below that, it filled up because something
behind it is slow."""
OVER_BOUND = 1.3
"""A round trip that was asked once is not known better."""
_CONTROLS = {"bbr": "BBR", "cubic": "CUBIC", "reno": "Reno"}


# ---- a link that was made for the cell


def relay(seen: CellEvidence) -> Diagnosis | None:
    """The relay that makes the link fills a core with one of its threads, or most of the cores that are full:
    it can pass on no more; unless the link carries what it shall."""
    place = _relay(seen)
    return place and (link(seen) or place)


def _relay(seen: CellEvidence) -> Diagnosis | None:
    found = seen.helpers.get("relay")
    if found is None or found.cpu is None:
        return None
    thread = found.busiest_thread[1] if found.busiest_thread else None
    numbers = measured(cpu_cores=found.cpu, thread_busy=thread)
    if thread is not None and thread >= WORKERS:
        return Diagnosis("link-relay", "client", None, beyond(thread, WORKERS) + 0.3, numbers)
    share = mix(seen, busy_ends(seen)).get(Work(None, found.name), 0.0)
    if share <= ELSEWHERE:
        return None
    host = filled(seen)[0]
    numbers |= measured(busy=host.busy, cores=host.cores, relay_share=share)
    return Diagnosis("link-relay", "client", None, beyond(share, ELSEWHERE), numbers)


def relay_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    if "busy" in place.numbers:
        yield from cores_lines(seen, place)
    else:
        busy = percent(place.numbers["thread_busy"])
        yield f"the busiest thread of the link's relay fills {busy} of a core"
    yield "the relay is Venturi's, so this is how fast the link can be made here, not how fast the server is"


def link(seen: CellEvidence) -> Diagnosis | None:
    """The link carries what it can, or what others leave of it."""
    over = seen.over
    if over is None or over.rate is None or over.share is None or over.share < LINK:
        return None
    numbers = measured(
        link_share=over.share,
        link_bits_per_second=over.bits,
        raw_tcp_share=seen.of("raw TCP"),
        cross_share=over.cross if over.cross >= SHARED else None,
    )
    return Diagnosis("link-full", None, None, beyond(over.share, LINK - 0.02), numbers)


def link_title(seen: CellEvidence, place: Diagnosis) -> str:
    return "link: traffic of others" if "cross_share" in place.numbers else "link"


def link_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    over = seen.over
    assert over is not None and over.rate is not None
    share, moved = percent(place.numbers["link_share"]), rate(over.moved or 0.0)
    carried, one = bit_rate(over.bits or 0.0), over.loaders == 1
    wide = (
        f"the link ({carried}) is" if one else f"the links of {over.loaders} loaders ({carried} together) are"
    )
    it = "it" if one else "them"
    if "cross_share" in place.numbers:
        left = rate(over.free or 0.0)
        yield f"{wide} full: others take {percent(over.cross)} of {it}, and {left} is left"
        yield f"{moved} on the wire are {share} of that"
    else:
        yield f"{wide} full: {moved} on the wire are {share} of what TCP gets through {it}"
    yield from _raw_tcp_lines(seen)


def _raw_tcp_lines(seen: CellEvidence) -> Lines:
    share = seen.facts.get("share.raw TCP")
    # What is packed is held against what raw TCP would carry of it.
    moved = seen.wire_rate if is_compressed(seen.cell.parameters) else seen.rate
    if share and moved:
        yield f"raw TCP over the same link, with as many connections, does {rate(moved / share)}"


def holds_lines(seen: CellEvidence) -> Lines:
    """What has to be in flight to fill the link."""
    over = seen.over
    if over is not None and over.holds is not None and over.free is not None:
        holder = "the link holds" if over.loaders == 1 else f"the links of {over.loaders} loaders hold"
        yield (
            f"{holder} {rate(over.free)} x {milliseconds(over.round_trip)} = {size(over.holds)} (its "
            "bandwidth-delay product): so much must be in flight to fill it"
        )


def path_words(seen: CellEvidence, over: OverLink) -> str:
    """The link as it was asked for, and as it was measured."""
    found = [f"a round trip of {milliseconds(over.round_trip)}"]
    if (bits := seen.facts.get("link.bits_per_second")) is not None:
        found.insert(0, bit_rate(bits))
    if over.loss and (counted := seen.facts.get("link.loss")) is not None:
        found.append(f"{100 * counted:.2g} % of the packets lost")
    control = f"; {_CONTROLS.get(over.control, over.control)} sends" if over.control else ""
    if over.loss and over.control == "bbr":
        control += " and does not slow down for single losses"
    return f"asked for {seen.cell.parameters['link']}, measured {', '.join(found)}{control}"


def _seconds(seen: CellEvidence) -> float:
    """A trial's time."""
    return (seen.cell.interval.value or 0.0) / 1e9


def _tcp_alone(seen: CellEvidence) -> OverLink | None:
    """The link, if a stream of TCP crosses it that waits for no answer to each batch."""
    over, url = seen.over, str(seen.cell.parameters.get("target") or "")
    return None if over is None or not over.moved or seen.cell.answered or is_datagrams(url) else over


def loss(seen: CellEvidence) -> Diagnosis | None:
    """TCP slows down for packets that the link loses."""
    over = _tcp_alone(seen)
    if over is None or not over.moved or not over.loss or over.control not in link_law.LOSS_BASED:
        return None
    moved, packet, share = over.moved, over.link.packet, over.share
    lost = moved * _seconds(seen) / packet / seen.streams * over.loss
    one = link_law.loss_bound(over.control, packet, over.round_trip / 1e9, over.loss)
    bound = seen.streams * one
    if lost < LOST or moved < UNDER_LAW * bound or (over.free is not None and bound > over.free):
        return None
    above = moved > OVER_LAW * bound
    if above and lost >= SETTLED:
        return None
    each = one if above else moved / seen.streams
    under_full = 0.5 if share is None else beyond(1 - share, 1 - LINK, 0.5)
    numbers = measured(
        link_share=share,
        loss=over.loss,
        bound_bytes_per_second=bound,
        lost_packets=lost,
        round_trip_ns=over.round_trip,
        streams_needed=None if over.free is None else -(-over.free // each),
        raw_tcp_share=seen.of("raw TCP"),
    )
    margin = 0.0 if above else min(under_full, beyond(moved / bound, UNDER_LAW))
    return Diagnosis("loss", None, None, margin, numbers)


def loss_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    over, numbers = seen.over, place.numbers
    assert over is not None
    control, stream = _CONTROLS[str(over.control)], nouns_of(seen.cell).stream
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
    if (over.moved or 0.0) > OVER_LAW * bound:
        lost = plural(round(numbers["lost_packets"]), "packet")
        yield f"a {stream} lost {lost}, so its start still counts: a longer trial moves less"
    if needed := numbers.get("streams_needed"):
        yield f"some {plural(int(needed), stream)} would fill the link"
    yield from _raw_tcp_lines(seen)


def held_back(seen: CellEvidence) -> Diagnosis | None:
    """The trial is over before TCP has found what the link carries; or raw TCP does no better over it, for
    whatever reason."""
    return _start(seen) or _raw_tcp(seen)


def _start(seen: CellEvidence) -> Diagnosis | None:
    over = _tcp_alone(seen)
    if over is None or not over.moved or not over.holds or over.share is None:
        return None
    trips = _seconds(seen) * 1e9 / over.round_trip
    batch = over.moved / (seen.cell.batches.value or 1.0)
    # As much again as was answered: a batch has gone through each stream before the clock starts.
    first = seen.streams * (link_law.FIRST_PACKETS * over.link.packet + batch)
    possible = link_law.started_share(trips, over.holds, first)
    if possible >= STARTED or over.share < UNDER_START * possible:
        return None
    numbers = {
        "link_share": over.share,
        "round_trips": trips,
        "first_bytes": first,
        "trips_to_fill": float(link_law.trips_to_fill(over.holds, first)),
        "started_share": possible,
    }
    return Diagnosis("slow-start", None, None, beyond(1 - possible, 1 - STARTED, 0.5), numbers)


def _raw_tcp(seen: CellEvidence) -> Diagnosis | None:
    over, share, url = seen.over, seen.of("raw TCP"), str(seen.cell.parameters.get("target") or "")
    if over is None or not over.moved or is_datagrams(url) or share is None or share < LINK:
        return None
    if not _settles(over):
        return None
    numbers = measured(raw_tcp_share=share, wire_bytes_per_second=over.moved)
    return Diagnosis("path-full", None, None, beyond(share, LINK - 0.02), numbers)


def start_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    over, numbers = seen.over, place.numbers
    assert over is not None
    yield (
        f"the trial took {plural(round(numbers['round_trips']), 'round trip')} of "
        f"{milliseconds(over.round_trip)}; TCP begins with {size(numbers['first_bytes'])} in flight and at "
        "most doubles that in each"
    )
    yield from holds_lines(seen)
    yield (
        f"that takes {plural(int(numbers['trips_to_fill']), 'round trip')}, so the trial could move "
        f"{percent(numbers['started_share'])} of what the link carries; it moved "
        f"{percent(numbers['link_share'])}"
    )


# ---- the path between the hosts


def _settles(over: OverLink | None) -> bool:
    """Whether the link's measurement says more than raw TCP over it, which its losses slow down too."""
    return over is not None and (over.rate is not None or over.loss > 0)


def path(seen: CellEvidence) -> Diagnosis | None:
    """The path carries what it can: raw TCP does no more, or the interface is full, or the socket refuses."""
    if seen.loopback is not False or _settles(seen.over):
        return None
    sender, receiver, share = seen.sender, seen.receiver, seen.of("raw TCP")
    # What others take of the CPUs both raw TCP and the trial have got along with.
    spare = crowded(seen) or all(e.busy is None or e.busy < SPARE for e in (seen.client, seen.server))
    blocked, idle = sender.stages.get("await_output", 0.0), receiver.stages.get("await_input", 0.0)
    use = interface_share(seen)
    wire = seen.wire_rate or seen.rate
    numbers = measured(raw_tcp_share=share, interface_share=use, wire_bytes_per_second=wire)
    if share is not None and share >= LINK and spare:
        margin = beyond(share, LINK - 0.02)
    elif use is not None and use >= LINK:
        margin = beyond(use, LINK - 0.02)
    elif (
        blocked >= BLOCKED
        and blocked >= 0.5 * sum(sender.waiting.values())
        and (idle >= 0.1 or not receiver.stages)
        and spare
        and _buffered(seen) is None
        and (sender.receive_window_limited or 0.0) < LIMITED
        # A link that was made without a rate takes all that its relay passes on.
        and seen.over is None
        # An end that waits for a CPU does not read.
        and not any(held_up(seen, end) for end in (sender, receiver))
        # If raw TCP moves more over the same path, the path takes more.
        and share is None
    ):
        margin = beyond(min(blocked, idle or blocked), BLOCKED, 0.6)
        numbers |= {"blocked": blocked, "idle": idle}
    else:
        return None
    lacks: tuple[MissingEvidence, ...] = (
        () if share is not None or use is not None else (MissingEvidence.RAW_TCP,)
    )
    if not receiver.stages:
        lacks += (MissingEvidence.RECEIVER_STAGES,)
    return Diagnosis("path-full", None, None, margin, numbers, lacks)


def interface_share(seen: CellEvidence) -> float | None:
    """How much of its speed the fuller interface moves, either way; None if no speed is known."""
    # That of a link that was made is none of the interface's.
    ends = (e for e in (seen.client, seen.server) if e.speed and seen.over is None)
    return max((rate / (e.speed or 1.0) for e in ends for rate in (e.tx, e.rx) if rate), default=None)


def path_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    numbers = place.numbers
    wire = numbers.get("wire_bytes_per_second", 0.0)
    wired = f"{rate(wire)} on the wire ({significant(wire * 8 / 1e9)} Gbit/s)"
    raw, use = numbers.get("raw_tcp_share", 0.0), numbers.get("interface_share", 0.0)
    if "blocked" in numbers:
        yield f"the path takes no more than {wired}"
    elif raw >= LINK:
        yield f"the path carries {wired}, {percent(raw)} of what raw TCP can do on it"
    else:
        yield f"the path carries {wired}, {percent(use)} of the interface's speed"
    blocked = seen.sender.stages.get("await_output", 0.0)
    idle = seen.receiver.stages.get("await_input", 0.0)
    if blocked or idle:
        yield f"the sender waits for the socket {percent(blocked)}, the receiver for input {percent(idle)}"


# ---- flow control: both ends wait and nothing is saturated


def window(seen: CellEvidence) -> Diagnosis | None:
    """The receiver's HTTP/2 window is too small for the round trip."""
    sender, moved = seen.sender, seen.rate or 0.0
    share = sender.stages.get("await_window", 0.0)
    # The client's own setting bounds what it receives; the server's window is its own affair.
    own = own_window(seen)
    bound = buffer_bound(seen, own)
    lacks = [] if bound is not None or not own else [MissingEvidence.ROUND_TRIP]
    numbers = measured(bound_bytes_per_second=bound)
    if (
        share >= WINDOW
        and share >= max(sender.waiting.values(), default=0.0)
        and _idle(seen)
        and (seen.receiver.stages or _foreign_server_window_limits(seen))
    ):
        numbers = {"await_window": share, **numbers}
        return Diagnosis("http2-window", None, "await_window", beyond(share, WINDOW, 0.6), numbers, (*lacks,))
    # A foreign sender: only the client's waiting and the arithmetic speak.
    fits = bool(bound) and not sender.stages and NEAR_BOUND <= moved / (bound or 1.0) <= OVER_BOUND
    if own and fits and seen.receiver.share("await_input", "wait") >= CLIENT_WAITS:
        return Diagnosis("http2-window", None, None, 0.2, numbers, (MissingEvidence.SERVER_STAGES, *lacks))
    return None


def _idle(seen: CellEvidence) -> bool:
    return seen.sender.occupancy is None or seen.sender.occupancy < WORKERS


def buffer(seen: CellEvidence) -> Diagnosis | None:
    """TCP's receive window or the sender's socket buffer is too small for the round trip."""
    found = _buffered(seen)
    if found is None or not _idle(seen):
        return None
    cause, limited, bound = found
    numbers = measured(limited=limited, bound_bytes_per_second=bound)
    return Diagnosis(cause, None, None, beyond(limited, LIMITED), numbers)


def _buffered(seen: CellEvidence) -> tuple[str, float, float | None] | None:
    """The buffer that limits the sender, the share of time that it does, its bound; None if none does."""
    sender, receiver = seen.sender, seen.receiver
    limited = sender.receive_window_limited or 0.0
    # A receiver that does not read closes its window too; only one that waits for input wants a larger one.
    if limited >= LIMITED and receiver.stages.get("await_input", 0.0) >= 0.1:
        return "receive-window", limited, None
    limited, bound = sender.send_buffer_limited or 0.0, buffer_bound(seen, sender.send_buffer)
    # A queue on the path fills the send buffer as well; then the buffer alone would let much more through.
    if limited >= LIMITED and bound is not None and (seen.rate or 0.0) >= NEAR_BOUND * bound:
        return "send-buffer", limited, bound
    return None


def acknowledgements(seen: CellEvidence) -> Diagnosis | None:
    """The client waits for answers and the server for input."""
    if seen.cell.in_rows or (seen.over is not None and seen.cell.parameters.get("ack") == "stream"):
        # That a database answers late is another proof's affair. Over a link the one answer to a stream waits
        # for all that is on its way.
        return None
    reply, awaited = seen.client.stages.get("await_reply", 0.0), seen.server.stages.get("await_input", 0.0)
    if seen.sender is not seen.client or reply < CLIENT_WAITS:
        return None
    if awaited < CLIENT_WAITS and not _path_takes(seen, reply):
        return None
    lacks = () if seen.server.stages else (MissingEvidence.SERVER_STAGES,)
    numbers = {"await_reply": reply, "await_input": awaited}
    return Diagnosis("acknowledgements", None, "await_reply", beyond(reply, CLIENT_WAITS), numbers, lacks)


def _path_takes(seen: CellEvidence, reply: float) -> bool:
    """Whether what the answers of a server without stages take may be the path's round trip. Else the server
    takes the time, whatever it does with it."""
    if seen.server.stages:
        return False
    if seen.round_trip is None or not seen.service:
        return seen.loopback is not True
    return seen.round_trip >= NEAR_BOUND * reply * seen.service


def own_window(seen: CellEvidence) -> float | None:
    """The HTTP/2 window that the client set for what it receives."""
    found = seen.cell.parameters.get("window") if seen.receiver is seen.client else None
    return found if isinstance(found, int | float) else None


def buffer_bound(seen: CellEvidence, size: float | None) -> float | None:
    """What a buffer per connection lets through at most: streams x buffer / round trip (B/s)."""
    if not size or not seen.round_trip:
        return None
    return seen.streams * size / (seen.round_trip / 1e9)


def _foreign_server_window_limits(seen: CellEvidence) -> bool:
    """Whether a server without stages may hold the client back by a window that is small for the path, and
    not because it reads no faster."""
    if seen.loopback is True and (seen.round_trip or 0.0) < WAKE_UP:
        return False
    bound = buffer_bound(seen, FIRST_WINDOW)
    if bound is None:
        return seen.loopback is not True
    return (seen.rate or 0.0) >= NEAR_BOUND * bound


def _bound_words(seen: CellEvidence, buffer: float | None, bound: float) -> str:
    streams = "" if seen.streams == 1 else f"{seen.streams:g} {nouns_of(seen.cell).stream}s x "
    return (
        f"{streams}{size(buffer or 0)} / {milliseconds(seen.round_trip or 0)} = {rate(bound)} at most, and "
        f"{rate(seen.rate or 0.0)} were moved ({percent((seen.rate or 0.0) / bound)} of the bound)"
    )


def window_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    share, bound = place.numbers.get("await_window"), place.numbers.get("bound_bytes_per_second")
    own = own_window(seen)
    held = (
        f"the {seen.sender.name} back {percent(share)} of the time"
        if share is not None
        else "the sender back"
    )
    yield f"the HTTP/2 window holds {held}"
    if bound is not None:
        yield f"window {_bound_words(seen, own, bound)}"
    elif own:
        yield f"the window is {size(own)}"
    elif seen.round_trip and seen.rate:
        flight = size(seen.rate / seen.streams * seen.round_trip / 1e9)
        trip = milliseconds(seen.round_trip)
        yield f"about {flight} per {nouns_of(seen.cell).stream} are in flight in a round trip of {trip}"
    yield from holds_lines(seen)
    yield from waits_line(seen.sender)
    yield from waits_line(seen.receiver)


def buffer_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    sender, bound = seen.sender, place.numbers.get("bound_bytes_per_second")
    buffered = place.cause == "send-buffer"
    name = "send buffer" if buffered else "receive window"
    sized = f" ({size(sender.send_buffer)})" if buffered and sender.send_buffer else ""
    limited = percent(place.numbers["limited"])
    yield f"the {name} holds the {sender.name}'s connections back {limited} of their time{sized}"
    if bound:
        yield _bound_words(seen, sender.send_buffer, bound)
    yield from holds_lines(seen)
    yield from waits_line(sender)
    yield from waits_line(seen.receiver)


def acknowledgements_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    reply, awaited = place.numbers["await_reply"], place.numbers["await_input"]
    yield f"the client waits for acknowledgements {percent(reply)} of the time" + (
        f" and the server for input {percent(awaited)}" if awaited else ""
    )
    if not seen.round_trip:
        return
    trip = f"a round trip takes {milliseconds(seen.round_trip)}"
    if seen.cell.parameters.get("ack") != "batch" or not seen.cell.batches.value:
        yield trip
        return
    most = seen.streams / (seen.round_trip / 1e9)
    yield (
        f"{trip}, so {plural(seen.streams, nouns_of(seen.cell).stream)} with a batch in flight each can move "
        f"{significant(most)} batches/s; {significant(seen.cell.batches.value)} were moved"
    )
