"""Proofs that the narrow place lies between the workers: link, disk, memory, flow control."""

from __future__ import annotations

from venturi.analysis.verdict.causes import Cause, MissingEvidence
from venturi.analysis.verdict.evidence import CellEvidence, End
from venturi.analysis.verdict.proof.cores import crowded, embedded, held_up, shared
from venturi.analysis.verdict.proof.ends import CLIENT_WAITS, LIMITED, WORKERS
from venturi.analysis.verdict.proof.hit import Diagnosis, beyond, known
from venturi.analysis.verdict.proof.links import settles

WAKE_UP = 1e6
"""A round trip (ns) on loopback below this is the time in which the other end wakes up, and no path's."""
LINK = 0.9
"""Share of raw TCP, or of the interface's speed. Frames' headers alone are 3 to 5 % of it."""
BLOCKED = 0.3
"""Share of its time that a sender is refused by its socket before the path is suspected."""
SPARE = 0.9
"""Under this busy share a host has CPU to spare; above it, waiting for a CPU shows in every stage."""
DISK = 0.9
DISK_OURS = 0.1
"""A busy disk is the narrow place only where it moves at least this share of the payload."""
MEMORY = 0.8
"""Share of the memory-copy ceiling: every payload byte is copied at least once, and the kernel's own copies
of headers and the checksum's reads come on top."""
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


def link(seen: CellEvidence) -> Diagnosis | None:
    """The path carries what it can: raw TCP does no more, or the interface is full, or the socket refuses."""
    if seen.loopback is not False or settles(seen.over):
        return None
    sender, receiver, share = seen.sender, seen.receiver, seen.of("raw TCP")
    # What others take of the CPUs both raw TCP and the trial have got along with.
    spare = crowded(seen) or all(e.busy is None or e.busy < SPARE for e in (seen.client, seen.server))
    blocked, idle = sender.stages.get("await_output", 0.0), receiver.stages.get("await_input", 0.0)
    use = interface_share(seen)
    if share is not None and share >= LINK and spare:
        cause, margin = Cause.RAW_TCP_REACHED, beyond(share, LINK - 0.02)
    elif use is not None and use >= LINK:
        cause, margin = Cause.INTERFACE_FULL, beyond(use, LINK - 0.02)
    elif (
        blocked >= BLOCKED
        and blocked >= 0.5 * sum(sender.waiting.values())
        and (idle >= 0.1 or not receiver.stages)
        and spare
        and _buffered(seen) is None
        and (sender.receive_window_limited or 0.0) < LIMITED
        # A link that was made without a rate takes all that its relay passes on.
        and seen.over is None
        # Who waits for a CPU does not read.
        and not any(held_up(seen, end) for end in (sender, receiver))
        # Where raw TCP moves more over the same path, the path takes more.
        and share is None
    ):
        cause, margin = Cause.SOCKET_BLOCKED, beyond(min(blocked, idle or blocked), BLOCKED, 0.6)
    else:
        return None
    found = known(
        blocked=blocked,
        idle=idle,
        raw_tcp_share=share,
        interface_share=use,
        wire_bytes_per_second=seen.wire_rate or seen.rate,
    )
    lacks = [] if share is not None or use is not None else [MissingEvidence.RAW_TCP]
    if not receiver.stages:
        lacks.append(MissingEvidence.RECEIVER_STAGES)
    return Diagnosis(
        cause, None, None, margin, {n: v for n, v in found.items() if n in cause.numbers}, tuple(lacks)
    )


def interface_share(seen: CellEvidence) -> float | None:
    """How much of its speed the fuller interface moves, either way; None where no speed is known."""
    # That of a link that was made is none of the interface's.
    ends = (e for e in (seen.client, seen.server) if e.speed and seen.over is None)
    return max((rate / (e.speed or 1.0) for e in ends for rate in (e.tx, e.rx) if rate), default=None)


def disk(seen: CellEvidence) -> Diagnosis | None:
    """A disk is busy all the time, and with this data."""
    for end in (seen.server, seen.client):
        if (end.disk_busy or 0.0) < DISK or (end.disk_rate or 0.0) < DISK_OURS * (seen.rate or 0.0):
            continue
        busy = end.disk_busy or 0.0
        numbers = known(
            busy=busy, disk_bytes_per_second=end.disk_rate or 0.0, tasks_waited=end.psi_io or None
        )
        return Diagnosis(Cause.DISK_BUSY, writer(seen, end), None, beyond(busy, DISK - 0.01), numbers)
    share = seen.of("disk")
    if share is not None and share >= DISK:
        return Diagnosis(
            Cause.DISK_CEILING, "server", None, beyond(share, DISK - 0.01), {"disk_share": share}
        )
    return None


def writer(seen: CellEvidence, end: End) -> str:
    """Whose disk it is: on one machine both ends see the same, and a database's own process writes to it."""
    own = not seen.cell.in_rows or embedded(seen)
    return end.name if own or not shared(seen) else seen.server.name


def memory(seen: CellEvidence) -> Diagnosis | None:
    """Payload moves nearly as fast as memory can be copied."""
    share, limit = seen.of("memory copy"), seen.cell.ceilings.get("memory copy")
    if share is None or limit is None or share < MEMORY:
        return None
    numbers = known(memory_copy_share=share, payload_bytes_per_second=seen.rate)
    return Diagnosis(Cause.MEMORY_BANDWIDTH, None, None, beyond(share, MEMORY), numbers)


def flow_control(seen: CellEvidence) -> Diagnosis | None:
    """Both ends wait and nothing is saturated: a window or a buffer is too small for the round trip."""
    sender, receiver, moved = seen.sender, seen.receiver, seen.rate or 0.0
    window = sender.stages.get("await_window", 0.0)
    # The client's own setting bounds what it receives; the server's window is its own affair.
    own = own_window(seen)
    bound = buffer_bound(seen, own)
    idle = sender.occupancy is None or sender.occupancy < WORKERS
    if (
        window >= WINDOW
        and window >= max(sender.waiting.values(), default=0.0)
        and idle
        and (receiver.stages or _window_of_a_stranger(seen))
    ):
        return _window(window, own, bound)
    # A foreign sender: only the client's waiting and the arithmetic speak.
    fits = bool(bound) and not sender.stages and NEAR_BOUND <= moved / (bound or 1.0) <= OVER_BOUND
    if own and fits and receiver.share("await_input", "wait") >= CLIENT_WAITS:
        return _window(None, own, bound)
    buffered = _buffered(seen)
    if buffered is not None and idle:
        cause, limited, bound = buffered
        numbers = known(limited=limited, bound_bytes_per_second=bound)
        return Diagnosis(cause, None, None, beyond(limited, LIMITED), numbers)
    if seen.cell.in_rows or (seen.over is not None and seen.cell.parameters.get("ack") == "stream"):
        # That a database answers late is another proof's affair. Over a link the one answer to a stream waits
        # for all that is on its way.
        return None
    reply, input_ = seen.client.stages.get("await_reply", 0.0), seen.server.stages.get("await_input", 0.0)
    if sender is seen.client and reply >= CLIENT_WAITS and (input_ >= CLIENT_WAITS or _away(seen, reply)):
        lacks = () if seen.server.stages else (MissingEvidence.SERVER_STAGES,)
        numbers = {"await_reply": reply, "await_input": input_}
        return Diagnosis(
            Cause.ACKNOWLEDGEMENTS, None, "await_reply", beyond(reply, CLIENT_WAITS), numbers, lacks
        )
    return None


def _away(seen: CellEvidence, reply: float) -> bool:
    """Of a server without stages: whether what answers take may be the path's round trip. Else the server
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


def _window(share: float | None, own: float | None, bound: float | None) -> Diagnosis:
    lacks = [] if bound is not None or not own else [MissingEvidence.ROUND_TRIP]
    if share is None:
        lacks.insert(0, MissingEvidence.SERVER_STAGES)
    return Diagnosis(
        Cause.HTTP2_WINDOW,
        None,
        "await_window" if share is not None else None,
        beyond(share, WINDOW, 0.6) if share is not None else 0.2,
        known(await_window=share, bound_bytes_per_second=bound),
        tuple(lacks),
    )


def buffer_bound(seen: CellEvidence, buffer: float | None) -> float | None:
    """What `buffer` bytes a connection let through at most: streams x buffer / round trip (B/s)."""
    if not buffer or not seen.round_trip:
        return None
    return seen.streams * buffer / (seen.round_trip / 1e9)


def _window_of_a_stranger(seen: CellEvidence) -> bool:
    """Whether a server without stages may hold the client back by a window that is small for the path, and
    not because it reads no faster."""
    if seen.loopback is True and (seen.round_trip or 0.0) < WAKE_UP:
        return False
    return not _below(seen, buffer_bound(seen, FIRST_WINDOW))


def _below(seen: CellEvidence, bound: float | None) -> bool:
    """Whether so much less is moved than a bound that something else must hold it back; on loopback without a
    round trip too, for that is microseconds."""
    return seen.loopback is True if bound is None else (seen.rate or 0.0) < NEAR_BOUND * bound


def _near(seen: CellEvidence, bound: float | None) -> bool:
    return bound is not None and (seen.rate or 0.0) >= NEAR_BOUND * bound


def _buffered(seen: CellEvidence) -> tuple[Cause, float, float | None] | None:
    """The buffer that limits the sender, the share of time that it does, its bound; None where none does."""
    sender, receiver = seen.sender, seen.receiver
    limited = sender.receive_window_limited or 0.0
    # A receiver that does not read closes its window too; only one that waits for input wants a larger one.
    if limited >= LIMITED and receiver.stages.get("await_input", 0.0) >= 0.1:
        return Cause.RECEIVE_WINDOW, limited, None
    limited = sender.send_buffer_limited or 0.0
    bound = buffer_bound(seen, sender.send_buffer)
    # A queue on the path fills the send buffer as well; then the buffer alone would let much more through.
    if limited >= LIMITED and _near(seen, bound):
        return Cause.SEND_BUFFER, limited, bound
    return None
