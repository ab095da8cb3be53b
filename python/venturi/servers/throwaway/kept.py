"""Directories whose data are kept from one server to the next."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from venturi.common.errors import VenturiError

__all__ = ["MARKER", "claimed", "marked"]

# Says whose data a directory holds, and whether they are complete; its lock is held while they are in use.
MARKER = "venturi.json"


def claimed(directory: Path, name: str) -> int:
    """A descriptor that holds the lock of a directory for data, made where it is missing.

    Raises VenturiError where it is not one of this kind of server's, or in use.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = marked(directory / MARKER)
        if known is None and any(entry.name != MARKER for entry in directory.iterdir()):
            raise VenturiError(
                f"--data {directory}: has files already, and not of venturi serve {name}",
                hint="name an empty directory, or one that does not exist yet",
            )
        if known is not None and known.get("server") != name:
            raise VenturiError(f"--data {directory}: holds data of {known.get('server')}, not of {name}")
        descriptor = os.open(directory / MARKER, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise VenturiError(f"--data {directory}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise VenturiError(f"--data {directory}: another server works with it") from None
    return descriptor


def marked(marker: Path) -> dict[str, Any] | None:
    """What a directory's marker says; None where there is none, or none of ours."""
    try:
        found = json.loads(marker.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
