"""Facts do not wait for what this machine can tell: each run finds the self-test passed already."""

from __future__ import annotations

import pytest

from support.proven import proven_instrument as proven_instrument  # a fixture of all
from venturi.measure.ceiling_probes import SECONDS


@pytest.fixture
def short_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that ask which limits are probed, and not how high they are."""
    for kind in SECONDS:
        monkeypatch.setitem(SECONDS, kind, 0.02)
