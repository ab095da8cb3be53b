"""A loader in a trial of several: what is asked of it, what is heard, its part of the record."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from venturi.cluster.trial.clock import Clock
from venturi.cluster.trial.handle import Handle
from venturi.cluster.trial.merge import Part, lost
from venturi.cluster.trial.shares import Share
from venturi.common.credentials import masked
from venturi.engine.calls import Gone
from venturi.engine.loader import PhaseReply
from venturi.engine.spec import failed_record

__all__ = ["Member", "heard_of", "utc", "words"]


@dataclass
class Member:
    """A loader in this trial."""

    handle: Handle
    share: Share
    clock: Clock
    lead: bool
    begun: bool = False
    lost: str | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    asked: Future[Any] | None = None
    asked_at: float = 0.0
    awaited: Future[Any] | None = None
    """The last call that is answered with a phase."""
    tallies: str | None = None
    record: str | None = None
    """As JSON."""

    @property
    def where(self) -> str:
        return f"{self.handle.name} ({self.handle.address})" if self.handle.address else self.handle.name

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """Of its loader; the future fails where that cannot be called."""
        try:
            return self.handle.call(method, *arguments)
        except Exception as error:  # whatever carries calls
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def heard(self, reply: PhaseReply) -> str:
        """Keeps what is new; where the loader is."""
        self.tallies = reply["tallies"] or self.tallies
        self.record = reply["record"] or self.record
        return reply["phase"]

    def lose(self, what: str) -> None:
        """It takes no more part, for that reason."""
        if self.lost is None:
            when, rows = heard_of([self])
            self.lost = f"{what} ({utc()} UTC; last heard of {when}, {rows:,} rows counted)"

    def part(self, agreed_unix_ns: int | None) -> Part:
        """What it brought to the trial that was to start at that instant, by the driver's clock."""
        if self.lost is not None:
            began = agreed_unix_ns if self.progress.get("elapsed_ns") else None
            record = lost(self.lost, self.progress, self.clock.there(began) if began else 0)
        elif self.record is not None:
            record = json.loads(self.record)
        else:
            record = failed_record("cancelled", "not begun: the trial was broken off before", "interrupted")
        return Part(
            host=self.handle.name,
            share=self.share,
            record=record,
            lead=self.lead,
            address=self.handle.address,
            clock=self.clock,
            identity=self.handle.identity,
        )


def heard_of(members: Sequence[Member]) -> tuple[str, int]:
    """How far they had come when they were heard of last, and their rows."""
    elapsed = max(int(member.progress.get("elapsed_ns") or 0) for member in members)
    when = f"{elapsed / 1e9:.1f} s after the start" if elapsed else "before the start"
    return when, sum(int(member.progress.get("rows") or 0) for member in members)


def utc() -> str:
    """The time of day."""
    return time.strftime("%H:%M:%S", time.gmtime())


def words(error: BaseException) -> str:
    """Why a call failed, in a line."""
    if isinstance(error, Gone):
        return str(error)
    text = " ".join(str(error).split())
    return f"failed: {masked(text)[:300] or type(error).__name__}"
