"""What a test needs and this machine lacks skips the test, but fails it under VENTURI_REQUIRE=1, as the gate
sets it: there nothing may be skipped silently."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.installed import DEBIAN, unpacked_libraries
from venturi.common.errors import VenturiError
from venturi.servers import throwaway

_WRAPPER = """#!/bin/sh
LD_LIBRARY_PATH="{libraries}"
export LD_LIBRARY_PATH
exec {program} "$@"
"""


@contextmanager
def in_path(name: str, unpacked: str) -> Iterator[str]:
    """A server's program is in PATH as long as the block lasts: the installed one, or that of an unpacked
    package with its libraries. Yields its directory; skips the test, or fails it, where there is none."""
    program, before = DEBIAN / unpacked, os.environ["PATH"]
    with tempfile.TemporaryDirectory(prefix="venturi-program-") as place:
        if shutil.which(name) is None and program.exists():
            wrapper = Path(place) / name
            wrapper.write_text(_WRAPPER.format(libraries=unpacked_libraries(), program=program))
            wrapper.chmod(0o755)
            os.environ["PATH"] = place + os.pathsep + before
        found = shutil.which(name)
        require(found, f"{name} (tools/install-servers)")
        try:
            yield str(Path(str(found)).parent)
        finally:
            os.environ["PATH"] = before


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
