"""The loaders of a trial: how each is called, its streams, what it has answered and what it brings."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from venturi.cluster.trial.clock import ONE_MACHINE, Clock
from venturi.common.credentials import masked
from venturi.common.errors import ScenarioError
from venturi.common.units import plural
from venturi.engine.calls import Gone
from venturi.engine.loader import PhaseReply
from venturi.engine.spec import failed_record


class Handle(Protocol):
    """A loader, near or far."""

    clock: Clock
    """Its host's, as it was measured last."""
    identity: Mapping[str, Any]
    """What its `identify` has answered."""

    @property
    def name(self) -> str:
        """As loader-1."""

    @property
    def address(self) -> str | None:
        """Where it runs."""

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """A method of its `Loader`. The future fails where the loader does, or is no more."""


class ClusterControl:
    """The handle on a trial of several loaders, as `_core.Control` is that on one here; for any thread."""

    def __init__(self) -> None:
        self._cancel = threading.Event()
        self._progress: dict[str, Any] = {"phase": "set-up", "rows": 0, "payload_bytes": 0, "batches": 0}

    def cancel(self) -> None:
        self._cancel.set()

    @property
    def cancelled(self) -> bool:
        return self._cancel.is_set()

    def progress(self) -> dict[str, Any]:
        return self._progress

    def update(self, progress: Mapping[str, Any]) -> None:
        """Called by whoever runs the trial."""
        self._progress = dict(progress)


@dataclass(frozen=True)
class Share:
    """Streams first .. first + count of the whole trial."""

    first: int
    count: int


def divide(streams: int, loaders: int) -> list[Share]:
    """A share for each loader, in their order, as even as can be: earlier ones have one stream more. Raises
    ScenarioError if some would have none."""
    if loaders < 1:
        raise ScenarioError(f"{loaders} loaders: a trial needs at least one")
    if streams < loaders:
        raise ScenarioError(
            f"{plural(streams, 'stream')} cannot be shared by {loaders} loaders: each of them needs one",
            hint=f"--streams {loaders} or more, or --loaders {streams}",
        )
    least, more = divmod(streams, loaders)
    shares, first = [], 0
    for number in range(loaders):
        count = least + (number < more)
        shares.append(Share(first, count))
        first += count
    return shares


def threads_of(spec: Mapping[str, Any], share: Share) -> int:
    """A loader's threads: of the whole trial's as many as its part of the streams, at least one."""
    streams, threads = int(spec["streams"]), int(spec["threads"])
    return max(1, min(share.count, round(threads * share.count / streams)))


def spec_of(spec: Mapping[str, Any], share: Share, lead: bool) -> dict[str, Any]:
    """The spec of one loader, from that of the whole trial."""
    own = {name: value for name, value in spec.items() if name != "loaders"}
    return own | {
        "threads": threads_of(spec, share),
        "share": {"first": share.first, "count": share.count, "lead": lead},
    }


@dataclass(frozen=True)
class Part:
    """What one loader brought."""

    host: str
    """Its name in this trial, as loader-1."""
    share: Share
    record: Mapping[str, Any]
    lead: bool = False
    address: str | None = None
    role: str = "loader"
    clock: Clock = ONE_MACHINE
    identity: Mapping[str, Any] = field(default_factory=dict)
    """What `Loader.identify` told: which loaders share a machine, a network, a process."""
    origin_ns: int = 0
    """Its start instant on the time line of the merged record."""

    @property
    def where(self) -> str:
        """For people: its name and where it runs."""
        place = self.address or self.identity.get("hostname")
        return f"{self.host} ({place})" if place else self.host

    @property
    def started_ns(self) -> int:
        """Its start instant by the driver's clock; 0 if it had none."""
        started = (self.record.get("times") or {}).get("started_unix_ns") or 0
        return self.clock.to_driver(int(started)) if started else 0

    def scope(self, column: str) -> object:
        """What a counter counts, so that what two loaders see alike is counted once."""
        machine = self.identity.get("boot_id")
        if machine is None:
            return self.host
        group, _, _ = column.partition("_")
        if group in ("host", "core", "memory", "psi", "frequency", "disk"):
            return machine
        if group == "net":
            return machine, self.identity.get("network")
        if group == "throttled":
            return machine, self.identity.get("cgroup")
        if column in ("rows", "payload_bytes", "streams") or group == "socket":
            return self.host
        return machine, self.identity.get("network"), self.identity.get("pid")


def lost(message: str, progress: Mapping[str, Any], started_unix_ns: int = 0) -> dict[str, Any]:
    """The record of a loader that answers no more: what was known of it last, as `Loader.progress` told."""
    record = failed_record("lost", message, started_unix_ns=started_unix_ns)
    for name in ("rows", "batches", "payload_bytes"):
        record["counts"][name] = int(progress.get(name) or 0)
    record["times"]["interval_ns"] = int(progress.get("elapsed_ns") or 0)
    return record


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
    poll: Future[Any] | None = None
    polled_at: float = 0.0
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
            record = lost(self.lost, self.progress, self.clock.to_host(began) if began else 0)
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
