"""What a placement asks of a loader's identity: is it of the same software, and is it here?."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

__all__ = ["is_here", "unlike"]


def unlike(identity: Mapping[str, Any]) -> str | None:
    """In what its software differs from this process's, in words; None where it is the same."""
    from venturi.common.core import load_core
    from venturi.common.environment import version
    from venturi.engine.spec import FORMAT_VERSION

    here = {"venturi": version("venturi"), "core": load_core().version(), "format": FORMAT_VERSION}
    for name, mine in here.items():
        if identity.get(name) != mine:
            return f"{name} {identity.get(name)}, this host {mine}"
    return None


def is_here(identity: Mapping[str, Any]) -> bool:
    """Whether it has this process's machine, files and loopback."""
    from venturi.common.environment import read

    boot_id = read("/proc/sys/kernel/random/boot_id")
    return identity.get("boot_id") == boot_id and identity.get("network") == _network()


def _network() -> str | None:
    try:
        return os.readlink("/proc/self/ns/net")
    except OSError:
        return None
