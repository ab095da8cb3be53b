"""The self-test: this instrument, on this machine, must find what is known in advance. `docs/prove.md`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from venturi.measure.prove.bench import Bench
    from venturi.measure.prove.outcome import Proof, ProofName

__all__ = ["SECONDS", "proofs", "prove"]

SECONDS = 9.0
"""After this time no further measurement begins."""


def prove(
    url: str,
    settings: Mapping[str, Any] | None = None,
    only: Collection[ProofName] | None = None,
    note: Callable[[str, str], None] = lambda level, text: None,
) -> Iterator[Proof]:
    """Tests the instrument with a target, one result after the other. `settings`: credentials, by keyword.

    Raises VenturiError if the target cannot be planned for, its server does not start, or no trial of it
    succeeds.
    """
    from venturi.common.errors import ScenarioError
    from venturi.measure.prove.bench import Bench
    from venturi.targets.system import is_driver, is_plugin

    if url.startswith("empty://"):
        raise ScenarioError(f"{url}: nothing is moved there, so there is nothing to test")
    if is_plugin(url):
        raise ScenarioError(
            f"{url}: a target in Python reports its own counts, and nothing can check them",
            hint="leave it out: venturi prove tests what is the same for all targets",
        )
    if is_driver(url):
        raise ScenarioError(
            f"{url}: a driver's connections are its own, and nothing can come between them",
            hint="test Venturi's own target of that database, for example postgres://HOST/DATABASE",
        )
    with Bench(url, settings, note=note, seconds=SECONDS) as bench:
        bench.check_target()
        yield from proofs(bench, only=only)


def proofs(bench: Bench, short: bool = False, only: Collection[ProofName] | None = None) -> Iterator[Proof]:
    """Makes the parts of the self-test, or their `short` form, one after the other."""
    from venturi.measure.prove import answers, difference, injected_faults, rate
    from venturi.measure.prove.outcome import Outcome, Proof, ProofName, Reason

    makers: dict[ProofName, Callable[[Bench, bool], Proof]] = {
        ProofName.RATE: rate.prove,
        ProofName.INJECTED_FAULTS: injected_faults.prove,
        ProofName.DIFFERENCE: difference.prove,
        ProofName.ANSWERS: answers.prove,
    }
    for name, make in makers.items():
        if only is not None and name not in only:
            continue
        began = time.monotonic()
        # Known answers are arithmetic: there is always time for them.
        if bench.has_time() or name is ProofName.ANSWERS:
            yield replace(make(bench, short), seconds=time.monotonic() - began)
        else:
            yield Proof(name, Outcome.INCONCLUSIVE, (), [(name.value, Reason.NO_TIME)])
