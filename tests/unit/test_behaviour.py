"""Venturi's own servers and the databases in files, judged by the behaviours of all systems."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from support.behaviour import NOT_JUDGED, SYSTEMS
from support.judged import BEHAVIOURS, Place, cases
from support.judged import judged as judged  # a fixture
from venturi.targets.system import SCHEMES

pytestmark = pytest.mark.usefixtures("core")


@cases(ours=True)
def test_behaviour(scheme: str, name: str, judged: Callable[[str], Place]) -> None:
    BEHAVIOURS[name](judged(scheme))


def test_whoever_is_not_judged_says_why() -> None:
    plain = {re.sub(r"\+(tls|unix|shm)$", "", scheme) for scheme in SCHEMES}
    assert plain <= {*SYSTEMS, *NOT_JUDGED}
    for system in SYSTEMS.values():
        assert set(system.without) <= set(BEHAVIOURS) and all(system.without.values())
