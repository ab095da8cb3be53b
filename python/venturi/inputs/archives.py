"""Archives of points, made by the core while this process looks on."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from venturi.common.environment import usable_cores
from venturi.common.errors import ExitCode, StoreError, VenturiError
from venturi.common.suffixes import parse_count, parse_duration, parse_time

__all__ = ["make", "planned"]


def planned(path: Path, given: Mapping[str, object], prefix: str = "") -> dict[str, Any]:
    """The spec of archives in this directory. Raises VenturiError for a value that is wrong, under its name
    with this prefix."""

    def read(name: str, parse: Callable[[str], int]) -> int:
        try:
            found = int(parse(str(given[name])))
        except ValueError as error:
            raise VenturiError(f"{prefix}{name}: {error}") from None
        if found < 1 and name != "seed":
            raise VenturiError(f"{prefix}{name} {given[name]}: must be at least 1")
        return found

    archives, hosts = read("archives", parse_count), read("hosts", parse_count)
    if archives > hosts:
        raise VenturiError(
            f"{prefix}archives {given['archives']}: {hosts:,} hosts are fewer, and each archive has some of "
            "its own",
            hint=f"take more hosts: {prefix}hosts {archives}",
        )
    digits = str(given["digits"])
    if digits not in ("17", "shortest"):
        raise VenturiError(f"{prefix}digits {digits}: is not one of 17, shortest")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise VenturiError(
            f"{prefix}archive {path}: is {'not empty' if path.is_dir() else 'no directory'}",
            hint="name a new one: nothing is overwritten",
        )
    return {
        "path": str(path.absolute()),
        "data": {
            "source": "metrics",
            "hosts": hosts,
            "seed": read("seed", parse_count),
            "tick_ns": read("tick", parse_duration),
            "start_unix_ns": read("start", parse_time),
            "steps": None,
        },
        "archives": archives,
        "steps": read("steps", parse_count),
        "format": "rows",
        "digits": 17 if digits == "17" else None,
        "level": given["level"],
        "threads": usable_cores() if given["threads"] == "cpus" else read("threads", parse_count),
    }


def make(core: Any, spec: dict[str, Any], draw: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Makes the archives of this spec, and answers their manifest. Ctrl-C takes back what was begun.

    `draw` is told how many points are made, and of how many. Raises VenturiError.
    """
    control = core.Control()
    answer: list[str] = []
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(core.generate(json.dumps(spec), control))
        except BaseException as error:  # handed to the caller's thread, which raises it
            trouble.append(error)

    interrupted = threading.Event()
    before = None
    if threading.current_thread() is threading.main_thread():

        def stop(*_: object) -> None:
            interrupted.set()
            control.cancel()

        before = signal.signal(signal.SIGINT, stop)
    try:
        thread = threading.Thread(target=work, name="venturi-generate", daemon=True)
        thread.start()
        whole = spec["data"]["hosts"] * 10 * spec["steps"]
        while thread.is_alive():
            thread.join(0.2)
            if draw is not None:
                draw(int(control.progress().get("rows") or 0), whole)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    if interrupted.is_set() and trouble:
        raise VenturiError("interrupted; what was begun is removed", ExitCode.INTERRUPTED)
    if trouble:
        error = trouble[0]
        if isinstance(error, OSError):
            raise StoreError(str(error)) from None
        if isinstance(error, ValueError | RuntimeError):
            raise VenturiError(str(error)) from None
        raise error
    found = json.loads(answer[0])
    return found if isinstance(found, dict) else {}
