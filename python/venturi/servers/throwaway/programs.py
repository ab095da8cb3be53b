"""Finding a server's programs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from venturi.common.errors import ExitCode, VenturiError

__all__ = ["find", "missing"]

# Debian keeps servers out of a user's PATH; the others are Homebrew's and those built from source.
_PLACES = ("/usr/sbin", "/usr/libexec", "/opt/homebrew/bin", "/usr/local/bin", "/usr/local/sbin")


def find(names: Sequence[str], places: Sequence[str | Path] = ()) -> str | None:
    """The first program of one of these names, in PATH, then `places`, then where servers usually are."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, places), *_PLACES])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    return None


def missing(title: str, what: str, debian: str, homebrew: str) -> VenturiError:
    """The error of a server that is not installed: what is missing, and the line that mends it."""
    line = f"brew install {homebrew}" if sys.platform == "darwin" else f"apt-get install {debian}"
    return VenturiError(f"{title} is not installed here: {what} not found", ExitCode.UNREACHABLE, hint=line)
