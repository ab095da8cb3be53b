"""The short form of the self-test, before every run. Its result is kept for a day, per boot and build."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from venturi.common.errors import ExitCode, VenturiError
from venturi.engine.executor import Executor
from venturi.measure.machine_cache import Kept, directory, machine
from venturi.measure.prove.outcome import Outcome, Proof, ProofName, worst

__all__ = ["FORMAT", "before_run", "summary"]

FORMAT = 1
_KEY = {"form": "short"}
_PASSED_SECONDS, _INCONCLUSIVE_SECONDS = 24 * 3600, 3600
"""How long a result is kept: less if it is inconclusive, because the machine may be quiet by then."""
_REMOVED_SECONDS = 90 * 24 * 3600


def before_run(
    executor: Executor, note: Callable[[str, str], None], unproven: bool = False, kept: Kept | None = None
) -> dict[str, Any] | None:
    """For environment.json; None if nothing is measured. `unproven`: a failure does not stop the run.

    Raises VenturiError after a failure otherwise.
    """
    if not executor.measures:
        return None
    store = kept if kept is not None else Kept(directory("proofs"), machine(), FORMAT, _REMOVED_SECONDS)
    found = _from(store)
    if found is None:
        note("info", "self-test of this instrument on this machine: once per day, boot and build, some 2 s")
        found = summary(_made(note))
        # After a failure it is made again each time: the fault may be gone.
        if found["outcome"] != Outcome.FAILED.value:
            store.put(_KEY, {"proof": found})
        found = found | {"cached": False}
    if found["outcome"] == Outcome.FAILED.value:
        names = ", ".join(found["failed"])
        if not unproven:
            raise VenturiError(
                f"the self-test of this instrument failed here: {names}",
                ExitCode.UNPROVEN,
                hint="venturi prove says what was expected and found; --unproven goes on, and marks figures",
            )
        note(
            "warning",
            f"the self-test failed here: {names}; every figure is marked as unproven",
        )
    return found


def _from(store: Kept) -> dict[str, Any] | None:
    found = (store.get(_KEY) or {}).get("proof")
    if not isinstance(found, dict) or found.get("outcome") not in [one.value for one in Outcome]:
        return None
    age = time.time() - float(found.get("measured_unix_ns") or 0) / 1e9
    passed = found["outcome"] == Outcome.PASSED.value
    if not 0 <= age <= (_PASSED_SECONDS if passed else _INCONCLUSIVE_SECONDS):
        return None
    return found | {"cached": True}


def _made(note: Callable[[str, str], None]) -> list[Proof]:
    from venturi.measure.prove import proofs
    from venturi.measure.prove.bench import Bench
    from venturi.targets.system import LOCAL

    with Bench(LOCAL, note=lambda level, text: None if level == "info" else note(level, text)) as bench:
        return list(proofs(bench, short=True))


def summary(found: Sequence[Proof]) -> dict[str, Any]:
    """Results as environment.json records them."""
    figures: dict[str, Mapping[str, float]] = {proof.name.value: proof.figures for proof in found}
    lies = figures.get(ProofName.INJECTED_FAULTS.value, {})
    return {
        "outcome": worst(proof.outcome for proof in found).value,
        "failed": [proof.name.value for proof in found if proof.outcome is Outcome.FAILED],
        "untold": [proof.name.value for proof in found if proof.outcome is Outcome.INCONCLUSIVE],
        "rate_off": figures.get(ProofName.RATE.value, {}).get("off"),
        "lies": int(lies.get("lies", 0)),
        "lies_caught": int(lies.get("caught", 0)),
        "detectable": figures.get(ProofName.DIFFERENCE.value, {}).get("detectable"),
        "seconds": round(sum(proof.seconds for proof in found), 3),
        "measured_unix_ns": time.time_ns(),
    }
