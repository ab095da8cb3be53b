"""Small files below the user's cache directory, one a thing that was found out about this machine.

Each is replaced in one piece, so that runs at the same time do each other no harm. Whatever is wrong with a
file, the answer is to find it out again. Limits of this machine hold for an hour at most.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from venturi.common.environment import boot_id, describe_host, read, version

_MOST_SCANNED = 1000


def directory(kind: str) -> Path | None:
    """Where this user's files of a kind are; None if there is no home."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    # The XDG base directory specification: a path that is not absolute is to be ignored.
    if base.startswith("/"):
        return Path(base) / "venturi" / kind
    try:
        return Path.home() / ".cache" / "venturi" / kind
    except RuntimeError:
        return None


def machine() -> str | None:
    """A digest of all that a figure of this host depends on and that stays the same between two runs: boot,
    hardware, kernel and its settings, usable CPUs, this build of Venturi. None if the boot has no name:
    then nothing is kept."""
    boot = boot_id()
    if boot is None:
        return None
    host = describe_host()
    for name in ("loadavg", "steal_share_since_boot", "open_files"):
        host.pop(name, None)
    host["memory"] = (host.get("memory") or {}).get("total")
    host["frequency"] = {k: v for k, v in (host.get("frequency") or {}).items() if k != "cur_khz"}
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    group = (read("/proc/self/cgroup") or "").partition("::")[2].splitlines()[:1]
    quota = read(f"/sys/fs/cgroup{group[0]}/cpu.max") if group else None
    text = json.dumps([boot, host, cpus, quota, version("venturi"), _build()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _build() -> list[int] | None:
    """Size and time of the compiled half, and the latest time of the other: another build may measure other
    figures."""
    import importlib.util

    found = importlib.util.find_spec("venturi._core")
    with contextlib.suppress(OSError):
        if found is not None and found.origin is not None:
            stat = os.stat(found.origin)
            sources = Path(__file__).parents[1].rglob("*.py")
            return [stat.st_size, stat.st_mtime_ns, max(path.stat().st_mtime_ns for path in sources)]
    return None


class Kept:
    """Documents by key, of one kind and one state of the machine. With `root` or `host` None it keeps
    nothing."""

    def __init__(self, root: Path | None, host: str | None, format: int, removed_seconds: float) -> None:
        self._root, self._host, self._format, self._removed = root, host, format, removed_seconds

    def _path(self, key: Mapping[str, Any]) -> Path | None:
        if self._root is None or self._host is None:
            return None
        text = json.dumps([self._host, dict(key)], sort_keys=True)
        return self._root / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """What was kept under this key, whole; None if there is nothing that can be read."""
        path = self._path(key)
        try:
            document = json.loads(path.read_bytes()) if path is not None else None
        except (OSError, ValueError):
            return None
        if not isinstance(document, dict) or document.get("format") != self._format:
            return None
        return document if document.get("key") == json.loads(json.dumps(dict(key))) else None

    def put(self, key: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        """Keeps it. A cache that cannot be written is no error."""
        path = self._path(key)
        if path is None:
            return
        document = {"format": self._format, "key": dict(key), **more}
        partial: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_old(path.parent)
            descriptor, partial = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file)
            os.replace(partial, path)
        except OSError:
            if partial is not None:
                with contextlib.suppress(OSError):
                    os.unlink(partial)

    def _remove_old(self, root: Path) -> None:
        limit = time.time() - self._removed
        with contextlib.suppress(OSError), os.scandir(root) as entries:
            for _, entry in zip(range(_MOST_SCANNED), entries, strict=False):
                with contextlib.suppress(OSError):
                    if entry.name.endswith((".json", ".tmp")) and entry.stat().st_mtime < limit:
                        os.unlink(entry.path)


LIFETIME_SECONDS = 3600
_FORMAT = 1
# Older files are removed.
_REMOVED_SECONDS = 24 * LIFETIME_SECONDS


class CeilingCache:
    """Lines of ceilings.jsonl by what was probed. With `root` or `host` None it keeps nothing."""

    def __init__(self, root: Path | None, host: str | None) -> None:
        self._kept = Kept(root, host, _FORMAT, _REMOVED_SECONDS)

    @classmethod
    def of_this_user(cls) -> CeilingCache:
        """The cache of this user on this machine."""
        return cls(directory("ceilings"), machine())

    def get(self, key: Mapping[str, Any], now_ns: int | None = None) -> list[dict[str, Any]]:
        """The good lines of this probe that are at most an hour old; none if there are none."""
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
