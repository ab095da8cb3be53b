"""The self-test before every run, which measures this machine, as if it had passed today."""

from __future__ import annotations

from pathlib import Path

import pytest

from venturi.measure.machine_cache import Kept, directory, machine
from venturi.measure.prove import outcome
from venturi.measure.prove.outcome import Outcome


@pytest.fixture(scope="session", autouse=True)
def proven_instrument(cache_home: Path) -> None:
    """Keeps that where runs look for it: what they measure before they begin is no part of the tests."""
    proof = {**outcome.summary([]), "outcome": Outcome.PASSED.value}
    Kept(directory("proofs"), machine(), outcome.FORMAT, 3600).put(outcome._KEY, {"proof": proof})
