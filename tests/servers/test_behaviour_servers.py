"""Other people's servers, judged by the behaviours of all systems."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.judged import BEHAVIOURS, Place, cases

pytestmark = pytest.mark.usefixtures("core")


@cases(ours=False)
def test_behaviour(scheme: str, name: str, judged: Callable[[str], Place]) -> None:
    BEHAVIOURS[name](judged(scheme))
