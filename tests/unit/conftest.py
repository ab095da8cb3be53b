"""Facts do not wait for what this machine can tell: each run finds the self-test passed already, and probes
of its limits are short."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from support.proven import proven_instrument as proven_instrument  # a fixture of all
from venturi.measure.ceiling_probes import SECONDS


@pytest.fixture(scope="session", autouse=True)
def short_probes() -> Iterator[None]:
    with mock.patch.dict(SECONDS, dict.fromkeys(SECONDS, 0.02)):
        yield
