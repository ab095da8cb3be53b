"""Another host's clock against this one's, by exchanges as in NTP.

An exchange has four stamps: sent and received back by the clock here, received and answered by the clock
there. Half of the round trip is the most that the offset can be wrong; the quickest exchange tells most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

__all__ = ["ONE_MACHINE", "Clock", "Stamps", "measure", "of"]

ROUNDS = 16
# What a crystal may drift against another one, 50 ppm: the error grows by it from one check to the next.
DRIFT = 50e-6


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

    def there(self, here_ns: int) -> int:
        """The driver's time as this host has it."""
        return here_ns + self.offset_ns

    def here(self, there_ns: int) -> int:
        """This host's time as the driver has it."""
        return there_ns - self.offset_ns

    def at(self, now_ns: int) -> Clock:
        """The same some time later: less certain."""
        if not self.measured_unix_ns:
            return self
        drift = round(abs(now_ns - self.measured_unix_ns) * DRIFT)
        return replace(self, uncertainty_ns=self.uncertainty_ns + drift)


ONE_MACHINE = Clock()
"""The clock of a process on the driver's own machine, which has one clock."""


def of(exchanges: Iterable[Stamps]) -> Clock:
    """From the exchange with the least round trip. Raises ValueError where there is none."""
    best = min(exchanges, key=lambda found: found.round_trip_ns, default=None)
    if best is None:
        raise ValueError("no exchange of clocks")
    offset = ((best.received - best.sent) + (best.answered - best.back)) / 2
    # Clocks that were set in the middle of an exchange may make it negative.
    return Clock(round(offset), max(0, best.round_trip_ns + 1) // 2, best.back)


def measure(
    now_there: Callable[[], int], rounds: int = ROUNDS, now_here: Callable[[], int] = time.time_ns
) -> Clock:
    """Asks the other host for its time (unix, ns) so many times."""

    def exchange() -> Stamps:
        sent = now_here()
        there = now_there()
        return Stamps(sent, there, there, now_here())

    return of(exchange() for _ in range(max(1, rounds)))
