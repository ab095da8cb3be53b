"""The self-test before every run, which measures this machine, as if it had passed today."""

from __future__ import annotations

from pathlib import Path

import pytest

from venturi.measure import prove
from venturi.measure.machine_cache import Kept, directory, machine
from venturi.measure.prove.outcome import Outcome


@pytest.fixture(scope="session", autouse=True)
def proven_instrument(cache_home: Path) -> None:
    """Keeps that where runs look for it: what they measure before they begin is no part of the tests."""
    proof = {**prove.summary([]), "outcome": Outcome.PASSED.value}
    Kept(directory("proofs"), machine(), prove.FORMAT, 3600).put(prove._KEY, {"proof": proof})
