"""Proofs that the narrow place lies between the workers: link, disk, memory, flow control."""

from __future__ import annotations

from typing import Any

from venturi.analysis.verdict.evidence import End, Evidence, Seen
from venturi.analysis.verdict.proof.cores import crowded, embedded, shared
from venturi.analysis.verdict.proof.ends import CLIENT_WAITS, WORKERS
from venturi.analysis.verdict.proof.hit import Hit, beyond
from venturi.analysis.words.wording import milliseconds, rate, size, waiting
from venturi.common.units import percent

LINK = 0.9
"""Share of raw TCP, or of the interface's speed. Frames' headers alone are 3 to 5 % of it."""
LINK_NOT = 0.7
"""Where raw TCP moves so much more over the same path, the path is not the narrow place."""
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
LIMITED = 0.5
"""Share of a socket's busy time in which the kernel counts it as limited by a buffer."""
NEAR_BOUND = 0.5
"""A buffer that limits lets through about buffer / round trip. Far below that, it filled up because something
behind it is slow."""
OVER_BOUND = 1.3
"""A round trip that was asked once is not known better."""


def link(seen: Seen) -> Hit | None:
    """The path carries what it can: raw TCP does no more, or the interface is full, or the socket refuses."""
    if seen.loopback is not False:
        return None
    sender, receiver, share = seen.sender, seen.receiver, seen.of("raw TCP")
    # What others take of the CPUs both raw TCP and the trial have got along with.
    spare = crowded(seen) or all(e.busy is None or e.busy < SPARE for e in (seen.client, seen.server))
    blocked, idle = sender.stages.get("await_output", 0.0), receiver.stages.get("await_input", 0.0)
    evidence, wire = [], (seen.wire_rate or seen.rate or 0.0)
    if share is not None:
        evidence.append(Evidence("raw TCP", f"{percent(share)} of raw TCP, same streams and messages"))
    use = max(
        (r / e.speed for e in (seen.client, seen.server) if e.speed for r in (e.tx, e.rx) if r), default=None
    )
    if use is not None:
        evidence.append(Evidence("interface", f"{percent(use)} of the interface's speed"))
    queued = sender.rtt and sender.min_rtt and sender.rtt > 3 * sender.min_rtt
    if queued:
        evidence.append(Evidence(
            "queue", f"round trip {milliseconds(sender.rtt or 0)} under load, "
            f"{milliseconds(sender.min_rtt or 0)} at best: a queue before the narrow place"
        ))  # fmt: skip
    if sender.retransmits:
        evidence.append(Evidence("loss", f"{sender.retransmits:,.0f} segments were sent again"))
    waits = f"the sender waits for the socket {percent(blocked)}, the receiver for input {percent(idle)}"
    wired = f"{rate(wire)} on the wire ({wire * 8 / 1e9:.3g} Gbit/s)"
    if share is not None and share >= LINK and spare:
        text = f"the path carries {wired}, {percent(share)} of what raw TCP can do on it"
        margin = beyond(share, LINK - 0.02)
    elif use is not None and use >= LINK:
        text = f"the path carries {wired}, {percent(use)} of the interface's speed"
        margin = beyond(use, LINK - 0.02)
    elif (
        blocked >= BLOCKED
        and blocked >= 0.5 * sum(sender.waiting.values())
        and (idle >= 0.1 or not receiver.stages)
        and spare
        and _buffered(seen) is None
        and (sender.receive_window_limited or 0.0) < LIMITED
        and (share is None or share >= LINK_NOT)
    ):
        text = f"the path takes no more than {wired}"
        margin = beyond(min(blocked, idle or blocked), BLOCKED, 0.6)
    else:
        return None
    if blocked or idle:
        text += f"; {waits}"
    lacks = [] if share is not None or use is not None else ["raw TCP over the same path"]
    if not receiver.stages:
        lacks.append("the receiver's stages")
    return Hit("link", None, None, "link", text, margin, tuple(evidence), tuple(lacks))


def disk(seen: Seen) -> Hit | None:
    """A disk is busy all the time, and with this data."""
    for end in (seen.server, seen.client):
        if (end.disk_busy or 0.0) < DISK or (end.disk_rate or 0.0) < DISK_OURS * (seen.rate or 0.0):
            continue
        name = _writer(seen, end)
        return Hit(
            "disk",
            name,
            None,
            f"disk of the {name}",
            f"a disk of the {name} is busy {percent(end.disk_busy)} at {rate(end.disk_rate or 0.0)}"
            + (f"; tasks waited for it {percent(end.psi_io)} of the time" if end.psi_io else ""),
            beyond(end.disk_busy or 0.0, DISK - 0.01),
        )
    share = seen.of("disk")
    if share is not None and share >= DISK:
        text = f"{percent(share)} of what the disk writes in order"
        return Hit("disk", "server", None, "disk of the server", text, beyond(share, DISK - 0.01))
    return None


def _writer(seen: Seen, end: End) -> str:
    """Whose disk it is: on one machine both ends see the same, and a database's own process writes to it."""
    own = not seen.cell.in_rows or embedded(seen)
    return end.name if own or not shared(seen) else seen.server.name


def memory(seen: Seen) -> Hit | None:
    """Payload moves nearly as fast as memory can be copied."""
    share, limit = seen.of("memory copy"), seen.cell.ceilings.get("memory copy")
    if share is None or limit is None or share < MEMORY:
        return None
    return Hit(
        "memory",
        None,
        None,
        "memory bandwidth",
        f"{rate(seen.rate or 0.0)} is {percent(share)} of what all cores copy in memory "
        f"({rate(limit.value or 0.0)}), and no stage nor core is at its own limit",
        beyond(share, MEMORY),
    )


def flow_control(seen: Seen) -> Hit | None:
    """Both ends wait and nothing is saturated: a window or a buffer is too small for the round trip."""
    sender, receiver, moved = seen.sender, seen.receiver, seen.rate or 0.0
    window = sender.stages.get("await_window", 0.0)
    # The client's own setting bounds what it receives; the server's window is its own affair.
    own = seen.cell.parameters.get("window") if receiver is seen.client else None
    bound = buffer_bound(seen, own if isinstance(own, int | float) else None)
    trip = milliseconds(seen.round_trip) if seen.round_trip else None
    idle = sender.occupancy is None or sender.occupancy < WORKERS
    if window >= WINDOW and window >= max(sender.waiting.values(), default=0.0) and idle:
        return _window(seen, window, own, bound, trip)
    # A foreign sender: only the client's waiting and the arithmetic speak.
    fits = bool(bound) and not sender.stages and NEAR_BOUND <= moved / (bound or 1.0) <= OVER_BOUND
    if own and fits and receiver.share("await_input", "wait") >= CLIENT_WAITS:
        return _window(seen, None, own, bound, trip)
    buffered = _buffered(seen)
    if buffered is not None and idle:
        name, limited, bound = buffered
        near = f"; {_bound_text(seen, sender.send_buffer, bound, trip)}" if bound else ""
        return Hit(
            "flow-control", None, None, f"flow control: {name}",
            f"the {sender.name}'s connections are held back by the {name} {percent(limited)} of their time"
            + (f" ({size(sender.send_buffer)})" if name == "send buffer" and sender.send_buffer else "")
            + near + _both_wait(seen),
            beyond(limited, LIMITED),
        )  # fmt: skip
    if seen.cell.in_rows:
        # That a database answers late is another proof's affair.
        return None
    reply, input_ = seen.client.stages.get("await_reply", 0.0), seen.server.stages.get("await_input", 0.0)
    if sender is seen.client and reply >= CLIENT_WAITS and (input_ >= CLIENT_WAITS or not seen.server.stages):
        return Hit(
            "flow-control", None, "await_reply", "flow control: acknowledgements",
            f"the client waits for acknowledgements {percent(reply)} of the time"
            + (f" and the server for input {percent(input_)}" if input_ else "")
            + (f"; a round trip takes {trip}" if trip else ""),
            beyond(reply, CLIENT_WAITS), lacks=() if seen.server.stages else ("the server's stages",),
        )  # fmt: skip
    return None


def _window(seen: Seen, share: float | None, own: Any, bound: float | None, trip: str | None) -> Hit:
    held = "the HTTP/2 window holds the sender back"
    if share is not None:
        held = f"the {seen.sender.name} is held back by the HTTP/2 window {percent(share)} of the time"
    lacks = []
    if bound is not None:
        held += f": window {_bound_text(seen, own, bound, trip)}"
    elif own:
        held += f"; the window is {size(own)}"
        lacks.append("the round trip")
    elif seen.round_trip and seen.rate:
        flight = seen.rate / seen.streams * seen.round_trip / 1e9
        held += f"; about {size(flight)} a stream are under way in a round trip of {trip}"
    return Hit(
        "flow-control",
        None,
        "await_window" if share is not None else None,
        "flow control: HTTP/2 window",
        held + _both_wait(seen),
        beyond(share, WINDOW, 0.6) if share is not None else 0.2,
        lacks=tuple(lacks) if share is not None else ("the server's stages", *lacks),
    )


def buffer_bound(seen: Seen, buffer: float | None) -> float | None:
    """What `buffer` bytes a connection let through at most: streams x buffer / round trip (B/s)."""
    if not buffer or not seen.round_trip:
        return None
    return seen.streams * buffer / (seen.round_trip / 1e9)


def _near(seen: Seen, bound: float | None) -> bool:
    return bound is not None and (seen.rate or 0.0) >= NEAR_BOUND * bound


def _buffered(seen: Seen) -> tuple[str, float, float | None] | None:
    """The buffer that limits the sender, the share of time that it does, its bound; None where none does."""
    sender, receiver = seen.sender, seen.receiver
    limited = sender.receive_window_limited or 0.0
    # A receiver that does not read closes its window too; only one that waits for input wants a larger one.
    if limited >= LIMITED and receiver.stages.get("await_input", 0.0) >= 0.1:
        return "receive window", limited, None
    limited = sender.send_buffer_limited or 0.0
    bound = buffer_bound(seen, sender.send_buffer)
    # A queue on the path fills the send buffer as well; then the buffer alone would let much more through.
    if limited >= LIMITED and _near(seen, bound):
        return "send buffer", limited, bound
    return None


def _bound_text(seen: Seen, buffer: float | None, bound: float, trip: str | None) -> str:
    streams = "" if seen.streams == 1 else f"{seen.streams:g} streams x "
    return (
        f"{streams}{size(buffer or 0)} / {trip} = {rate(bound)} at most, and {rate(seen.rate or 0.0)} were "
        f"moved ({percent((seen.rate or 0.0) / bound)} of the bound)"
    )


def _both_wait(seen: Seen) -> str:
    ends = [e for e in (seen.sender, seen.receiver) if e.waiting]
    return "".join(f"; the {e.name} {waiting(e.waiting)}" for e in ends)
