"""What a test needs and this machine lacks skips the test, but fails it under VENTURI_REQUIRE=1, as the gate
sets it: there nothing may be skipped silently."""

from __future__ import annotations

import os

import pytest

from venturi.common.errors import VenturiError
from venturi.servers import throwaway


def require(present: object, what: str) -> None:
    """Skips the test, or the module that says so at its top, where `present` is false; fails where nothing
    may be skipped."""
    if present:
        return
    if os.environ.get("VENTURI_REQUIRE") == "1":
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing", allow_module_level=True)


def require_server(scheme: str) -> None:
    """A database whose server `X://local` starts."""
    try:
        throwaway.for_scheme(scheme)().find()
    except VenturiError as error:
        if os.environ.get("VENTURI_REQUIRE"):
            raise
        pytest.skip(f"{error.message}; VENTURI_REQUIRE=1 makes this a failure")
