"""All proofs, and the few that are made before every run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

from venturi.measure.prove import (
    answers,
    bottleneck,
    conservation,
    difference,
    headroom,
    lies,
    pause,
    rate,
    seed,
    stall,
)
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Name, Outcome, Proof, Reason

__all__ = ["PROOFS", "SHORT", "proofs"]


class Made(Protocol):
    def __call__(self, bench: Bench, short: bool = False) -> Proof: ...


PROOFS: dict[Name, Made] = {
    Name.RATE: rate.prove,
    Name.STALL: stall.prove,
    Name.PAUSE: pause.prove,
    Name.LIES: lies.prove,
    Name.HEADROOM: headroom.prove,
    Name.BOTTLENECK: bottleneck.prove,
    # As many repeats as there is time for.
    Name.SEED: seed.prove,
    Name.DIFFERENCE: difference.prove,
    Name.ANSWERS: answers.prove,
    # The last: it looks at the trials of all others.
    Name.CONSERVATION: conservation.prove,
}
QUICK = (Name.ANSWERS, Name.CONSERVATION)
"""These are made however late it is."""
SHORT = (Name.RATE, Name.LIES, Name.DIFFERENCE, Name.ANSWERS)


def proofs(
    bench: Bench, short: bool = False, only: Callable[[Name], bool] = lambda name: True
) -> Iterator[Proof]:
    """Makes them one after the other."""
    for name, prove in PROOFS.items():
        if (short and name not in SHORT) or not only(name):
            continue
        began = time.monotonic()
        if not bench.in_time() and name not in QUICK:
            yield Proof(name, Outcome.UNTOLD, (), [(name.value, Reason.NO_TIME)])
            continue
        found = prove(bench, short)
        yield replace(found, seconds=time.monotonic() - began)
