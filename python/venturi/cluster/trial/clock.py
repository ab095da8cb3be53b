"""Another host's clock against this one's, by exchanges as in NTP.

An exchange has four stamps: sent and received back by the clock here, received and answered by the clock
there. Half of the round trip is the most that the offset can be wrong; the quickest exchange tells most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

ROUNDS = 16
# What a crystal may drift against another one, 50 ppm: the error grows by it from one check to the next.
DRIFT = 50e-6
_SHORTEST_NS, _LONGEST_NS = 10 * 10**9, 60 * 10**9
"""For how long a measured clock holds."""
_ENOUGH_NS = 500_000
"""An offset known to so much is worth no further exchange: drift adds as much in ten seconds."""
_AS_GOOD = 1.5
"""An offset known to so much of the least error ever reached is as good as the way and both hosts allow."""
_AT_ONCE = 8
"""Hosts asked at a time: more of them would wait for one another here, which looks like the way."""


@dataclass(frozen=True)
class Stamps:
    """One exchange: unix times in ns. `received` and `answered` are the other host's."""

    sent: int
    received: int
    answered: int
    back: int

    @property
    def round_trip_ns(self) -> int:
        return (self.back - self.sent) - (self.answered - self.received)


@dataclass(frozen=True)
class Clock:
    """A host's clock: `offset_ns` is what it is ahead of the driver's, at most `uncertainty_ns` wrong."""

    offset_ns: int = 0
    uncertainty_ns: int = 0
    # When it was measured, by the driver's clock; 0: it needs no other measuring.
    measured_unix_ns: int = 0
    best_ns: int = 0
    """The least error that a measuring of this host has ever reached."""

    def to_host(self, driver_ns: int) -> int:
        """The driver's time as this host has it."""
        return driver_ns + self.offset_ns

    def to_driver(self, host_ns: int) -> int:
        """This host's time as the driver has it."""
        return host_ns - self.offset_ns

    def at(self, now_ns: int) -> Clock:
        """The same some time later: less certain."""
        if not self.measured_unix_ns:
            return self
        drift = round(abs(now_ns - self.measured_unix_ns) * DRIFT)
        return replace(self, uncertainty_ns=self.uncertainty_ns + drift)


ONE_MACHINE = Clock()
"""The clock of a process on the driver's own machine, which has one clock."""


def of(exchanges: Iterable[Stamps]) -> Clock:
    """From the exchange with the least round trip. Raises ValueError if there is none."""
    best = min(exchanges, key=lambda found: found.round_trip_ns, default=None)
    if best is None:
        raise ValueError("no exchange of clocks")
    offset = ((best.received - best.sent) + (best.answered - best.back)) / 2
    # Clocks that were set in the middle of an exchange may make it negative.
    error = max(0, best.round_trip_ns + 1) // 2
    return Clock(round(offset), error, best.back, error)


def stale(clock: Clock, now_ns: int) -> bool:
    """Whether to ask again: it never was, or what it may have drifted since comes near its own error."""
    if not clock.measured_unix_ns:
        return True
    holds = min(_LONGEST_NS, max(_SHORTEST_NS, clock.uncertainty_ns / DRIFT))
    return abs(now_ns - clock.measured_unix_ns) > holds


def measure(
    asks: Sequence[Callable[[], Future[int]]],
    seconds: float,
    before: Sequence[Clock] | None = None,
    rounds: int = ROUNDS,
    local_now: Callable[[], int] = time.time_ns,
) -> list[Clock]:
    """The clocks of hosts. Each is asked for its time (unix, ns) until an exchange is about as good as the
    best one ever of that host, `rounds` times at most; some hosts are asked at once. `before`: their clocks
    as they were measured last. Raises what a call does, and TimeoutError where one takes longer."""
    found: list[list[Stamps]] = [[] for _ in asks]
    last = before or [ONE_MACHINE] * len(found)
    enough = [max(_ENOUGH_NS, _AS_GOOD * clock.best_ns) for clock in last]
    for _ in range(max(1, rounds)):
        open_ = [
            at
            for at, exchanges in enumerate(found)
            if not exchanges or exchanges[-1].round_trip_ns > 2 * enough[at]
        ]
        for first in range(0, len(open_), _AT_ONCE):
            group = open_[first : first + _AT_ONCE]
            calls = [_Exchange(asks[at], local_now) for at in group]
            for at, call in zip(group, calls, strict=True):
                found[at].append(call.stamps(seconds))
    return [
        replace(new, best_ns=min(old.best_ns, new.best_ns)) if old.measured_unix_ns else new
        for old, new in zip(last, map(of, found), strict=True)
    ]


class _Exchange:
    """One that is in flight."""

    def __init__(self, ask: Callable[[], Future[int]], local_now: Callable[[], int]) -> None:
        self._back: int | None = None
        self._local_now = local_now
        self._sent = local_now()
        self._call = ask()
        self._call.add_done_callback(self._answered)

    def _answered(self, _: Future[int]) -> None:
        # By the thread that brings the answer, not when somebody comes to look at it.
        self._back = self._local_now()

    def stamps(self, seconds: float) -> Stamps:
        remote = int(self._call.result(seconds))
        back = self._back if self._back is not None else self._local_now()
        return Stamps(self._sent, remote, remote, back)
