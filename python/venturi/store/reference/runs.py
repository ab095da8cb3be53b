"""Published sets as runs: every command takes `reference:NAME` where it takes a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from venturi.common.errors import VenturiError
from venturi.common.texts import meant
from venturi.engine.record import Trial, trial_of
from venturi.store.directory import RunDirectory
from venturi.store.importers.record import Origin, lines
from venturi.store.reference import names, sets

PREFIX = "reference:"


class ReferenceRun(RunDirectory):
    """Published sets, read like a run directory; there is none on disk."""

    def __init__(self, name: str) -> None:
        """`name` with or without `reference:`. Raises `VenturiError` (usage) for one that does not exist."""
        short = name.removeprefix(PREFIX)
        if short not in names():
            close = meant(short, names())
            raise VenturiError(
                f"there is no reference run {short!r}" + (f"; {close}" if close else ""),
                hint=f"choose one of: {', '.join(names())}",
            )
        self.sets = sets(short)
        self.path = Path(PREFIX + short)
        first = self.sets[0]
        self.environment = {
            "format": 1,
            "run": PREFIX + short,
            "started_unix_ns": None,
            "command": None,
            "client": dict(first.client) or None,
            "server": dict(first.server) or None,
            "servers": {},
            "imported": [{"from": s.file, "format": s.format, "source": s.source} for s in self.sets],
        }

    @property
    def saved(self) -> bool:
        return False

    def records(self) -> list[Trial]:
        out: list[dict[str, Any]] = []
        for one in self.sets:
            origin = Origin(one.file, one.format, one.source)
            out += lines(one.drafts(), self.name, origin, out)
        return [trial_of(line) for line in out]

    def ceiling_records(self) -> list[dict[str, Any]]:
        return []
