"""Probes of physical limits kept from run to run: same boot, machine and configuration, an hour at most."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from venturi.measure.machine_cache import Kept, machine
from venturi.measure.machine_cache import directory as kept_directory

__all__ = ["LIFETIME_SECONDS", "CeilingCache", "directory", "machine"]

LIFETIME_SECONDS = 3600
_FORMAT = 1
# Older files are removed.
_REMOVED_SECONDS = 24 * LIFETIME_SECONDS


def directory() -> Path | None:
    """Where probes are kept; None where this user has no home."""
    return kept_directory("ceilings")


class CeilingCache:
    """Lines of ceilings.jsonl by what was probed. With `root` or `host` None it keeps nothing."""

    def __init__(self, root: Path | None, host: str | None) -> None:
        self._kept = Kept(root, host, _FORMAT, _REMOVED_SECONDS)

    @classmethod
    def of_this_user(cls) -> CeilingCache:
        """The cache of this user on this machine."""
        return cls(directory(), machine())

    def get(self, key: Mapping[str, Any], now_ns: int | None = None) -> list[dict[str, Any]]:
        """The good lines of this probe that are at most an hour old; none where there are none."""
        now = time.time_ns() if now_ns is None else now_ns
        lines = (self._kept.get(key) or {}).get("lines")
        if not isinstance(lines, list) or not all(_usable(line, now) for line in lines):
            return []
        return lines

    def put(self, key: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
        """Keeps the lines of a probe. A cache that cannot be written is no error: the run goes on."""
        if lines:
            self._kept.put(key, {"lines": [dict(line) for line in lines]})


def _usable(line: object, now_ns: int) -> bool:
    if not isinstance(line, dict) or line.get("outcome") != "ok":
        return False
    numbers = [line.get(name) for name in ("bytes", "interval_ns", "measured_unix_ns")]
    if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in numbers):
        return False
    # After the clock was set back, a line may lie in the future.
    age: int = now_ns - line["measured_unix_ns"]
    return 0 <= age <= LIFETIME_SECONDS * 10**9
