"""One trial over several loaders: planned by the lead, lined up, started at one instant, collected, merged.

However a trial ends, every loader has ended its part or is known to be lost, and there is a record.
"""

from __future__ import annotations

import functools
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from venturi.cluster.clock import Clock
from venturi.cluster.handle import ClusterControl, Gone, Handle
from venturi.cluster.loader import ENDED, reached
from venturi.cluster.merge import Part, lost, merge
from venturi.cluster.shares import Share, divide, spec_of
from venturi.errors import VenturiError
from venturi.trial import failed_record

__all__ = ["HEAD_START_NS", "Patience", "alone", "head_start_ns", "join_tallies", "placed", "run"]

HEAD_START_NS = 50_000_000
_HEAD_START_A_LOADER_NS = 1_000_000
_POLL_SECONDS = 0.1
_ASKED_AT_ONCE = 10
"""Loaders that are asked how far they are, each time: a call costs the driver most of a millisecond."""


@dataclass(frozen=True)
class Patience:
    """How long is waited for what, in seconds."""

    answer: float
    """For a loader's answer to anything that takes no time: then it is lost."""
    set_up: float
    """For planning, and for data being made."""
    collect: float
    """For records of a trial that was broken off."""

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> Patience:
        timeout = float(spec.get("timeout_ns") or 30e9) / 1e9
        return cls(timeout, 60.0 + 10 * timeout, min(20.0, 2.0 + timeout))


def head_start_ns(clocks: Sequence[Clock], round_trip_ns: int = 0) -> int:
    """From now to the start instant: time for all to hear of it, and more than the clocks are wrong."""
    errors = max((clock.uncertainty_ns for clock in clocks), default=0)
    told = HEAD_START_NS + _HEAD_START_A_LOADER_NS * len(clocks)
    return max(told, 4 * errors, 3 * round_trip_ns)


def join_tallies(texts: Iterable[str | None]) -> str:
    """Several loaders' tallies as one list."""
    return json.dumps([tally for text in texts for tally in json.loads(text or "[]")])


@dataclass
class _Member:
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
    record: dict[str, Any] | None = None

    @property
    def where(self) -> str:
        return f"{self.handle.name} ({self.handle.address})" if self.handle.address else self.handle.name


class _Broken(Exception):
    """The trial cannot go on; `failure` is an error of docs/format.md, None where a record says it."""

    def __init__(self, failure: dict[str, Any] | None = None) -> None:
        super().__init__(failure)
        self.failure = failure


def placed(
    text: str,
    control: Any,
    ready: Callable[[int, Mapping[str, Any]], Sequence[Any]],
    clocks: Callable[[Sequence[Any]], Sequence[Clock]],
    localised: Callable[[Any, dict[str, Any]], dict[str, Any]] | None = None,
    trouble: Callable[[Mapping[str, Any]], str | None] | None = None,
) -> dict[str, Any]:
    """The record of a spec, over as many loaders as it has `loaders`; without, of one that runs it whole.

    `ready` gives so many loaders that answer, or raises VenturiError; the rest is `run`'s.
    """
    assert isinstance(control, ClusterControl)
    spec = json.loads(text)
    wanted = spec.pop("loaders", None)
    try:
        handles = ready(wanted or 1, spec)
    except VenturiError as error:
        return failed_record("lost", error.message, started_unix_ns=time.time_ns())
    if wanted is None:
        # A limit of one host's engine.
        return alone(localised(handles[0], spec) if localised else spec, handles[0], control)
    ask = None if trouble is None else functools.partial(trouble, spec)
    return run(spec, handles, clocks(handles), control, localised=localised, trouble=ask)


def run(
    spec: Mapping[str, Any],
    handles: Sequence[Handle],
    clocks: Sequence[Clock],
    control: ClusterControl,
    patience: Patience | None = None,
    localised: Callable[[Handle, dict[str, Any]], dict[str, Any]] | None = None,
    trouble: Callable[[], str | None] | None = None,
) -> dict[str, Any]:
    """The merged record of a trial. `spec` is that of the whole trial; the first handle leads.

    `localised` puts into a loader's spec what is its host's own, as paths. `trouble` answers what else has
    gone that the trial cannot do without, as a server's host; None as long as all is there.

    Raises ScenarioError where there are more loaders than streams, and nothing else: what goes wrong later is
    in the record.
    """
    shares = divide(int(spec["streams"]), len(handles))
    # Servers remember the name of what several processes share, a trial that is tried again too.
    spec = {**spec, "trial": f"{spec['trial']}.{secrets.token_hex(4)}"}
    members = [
        _Member(handle, share, clock, at == 0)
        for at, (handle, share, clock) in enumerate(zip(handles, shares, clocks, strict=True))
    ]
    return _LineUp(spec, members, control, patience or Patience.of(spec), localised, trouble).run()


def alone(
    spec: Mapping[str, Any], handle: Handle, control: ClusterControl, patience: Patience | None = None
) -> dict[str, Any]:
    """The record of a trial that one loader runs whole, without a share."""
    patience = patience or Patience.of(spec)
    member = _Member(handle, Share(0, int(spec["streams"])), Clock(), True)
    only = _LineUp(spec, [member], control, patience, None)
    only.run_whole()
    if member.record is not None:
        return member.record
    return lost(f"{member.where}: {member.lost}", member.progress)


class _LineUp:
    def __init__(
        self,
        spec: Mapping[str, Any],
        members: list[_Member],
        control: ClusterControl,
        patience: Patience,
        localised: Callable[[Handle, dict[str, Any]], dict[str, Any]] | None,
        trouble: Callable[[], str | None] | None = None,
    ) -> None:
        self._localised, self._trouble = localised, trouble
        self._spec, self._members, self._control, self._patience = spec, members, control, patience
        self._agreed: int | None = None
        self._next_poll = 0.0
        self._round_trip_ns = 0

    def run(self) -> dict[str, Any]:
        lead, others = self._members[0], self._members[1:]
        failure = None
        try:
            self._begin([lead])
            self._reach([lead], "planned", self._patience.set_up)
            self._begin(others)
            self._reach(self._members, "ready", self._patience.set_up)
            self._start()
            self._reach(self._members, "counted", self._longest())
            told = self._each(others, "tallies")
            self._each([lead], "conclude", join_tallies(told))
            # The others have nothing left to do, and are asked for their records at once.
            self._reach([lead], "done", self._patience.set_up)
        except _Broken as broken:
            failure = broken.failure
            self._tell_all_to_end()
        self._collect(self._patience.collect)
        record = merge([self._part(member) for member in self._members], self._agreed)
        if failure is not None and record["outcome"] != "failed":
            record |= {"outcome": "failed", "error": failure}
        return record

    def run_whole(self) -> None:
        try:
            member = self._members[0]
            self._answers({self._call(member, "begin", json.dumps(dict(self._spec))): member})
            member.begun = True
            self._reach([member], "done", self._longest())
        except _Broken:
            self._tell_all_to_end()
        self._collect(self._patience.collect)

    def _longest(self) -> float:
        """Streams that make no progress end by themselves; this is for a loader that does not."""
        duration = float(self._spec.get("duration_ns") or 0) / 1e9
        return float("inf") if not duration else duration + self._patience.set_up

    def _begin(self, members: Sequence[_Member]) -> None:
        calls = {}
        for member in members:
            own = spec_of(self._spec, member.share, member.lead)
            try:
                own = self._localised(member.handle, own) if self._localised is not None else own
            except Exception as error:  # data that do not get there: told like any other loss
                self._lose(member, _words(error))
                raise _Broken from None
            calls[self._call(member, "begin", json.dumps(own))] = member
            member.begun = True
        self._answers(calls)

    def _start(self) -> None:
        """One instant, told to each by its own clock."""
        clocks = [member.clock for member in self._members]
        self._agreed = time.time_ns() + head_start_ns(clocks, self._round_trip_ns)
        calls = {
            self._call(member, "start_at", member.clock.there(self._agreed)): member
            for member in self._members
        }
        self._answers(calls)

    def _each(self, members: Sequence[_Member], method: str, *arguments: object) -> list[Any]:
        return self._answers({self._call(member, method, *arguments): member for member in members})

    def _call(self, member: _Member, method: str, *arguments: object) -> Future[Any]:
        try:
            return member.handle.call(method, *arguments)
        except Exception as error:  # whatever carries calls: a loader that cannot be called is lost
            failed: Future[Any] = Future()
            failed.set_exception(error)
            return failed

    def _answers(self, calls: Mapping[Future[Any], _Member]) -> list[Any]:
        """Answers in their order; all of them in time, or the trial is broken."""
        began = time.monotonic()
        wait(calls, self._patience.answer)
        for call, member in calls.items():
            if not call.done():
                self._lose(member, f"has not answered for {self._patience.answer:g} s")
            elif error := call.exception():
                self._lose(member, _words(error))
        self._round_trip_ns = max(self._round_trip_ns, round((time.monotonic() - began) * 1e9))
        if any(member.lost for member in calls.values()):
            raise _Broken
        return [call.result() for call in calls]

    def _reach(self, members: Sequence[_Member], phase: str, seconds: float) -> None:
        """Waits until all are there. Raises _Broken where one ends before, is lost, or takes too long."""
        slice_ = min(seconds, 3600.0)
        waiting: dict[Future[Any], _Member] = {}
        arrived: SimpleQueue[Future[Any]] = SimpleQueue()

        def expect(member: _Member) -> None:
            call = self._call(member, "wait", phase, slice_)
            waiting[call] = member
            call.add_done_callback(arrived.put)

        for member in members:
            expect(member)
        deadline = time.monotonic() + seconds
        while waiting:
            broken = False
            for call in _taken(arrived, _POLL_SECONDS):
                member = waiting.pop(call)
                if error := call.exception():
                    self._lose(member, _words(error))
                    broken = True
                elif call.result() == ENDED:
                    broken = True
                elif not reached(str(call.result()), phase):
                    expect(member)
            self._poll()
            if broken or any(member.lost for member in self._members):
                raise _Broken
            if self._control.cancelled:
                raise _Broken
            if self._trouble is not None and (what := self._trouble()) is not None:
                raise _Broken({"kind": "lost", "message": f"{what} ({self._known()})", "stream": None})
            if waiting and time.monotonic() > deadline:
                late = ", ".join(member.where for member in waiting.values())
                text = f"{late}: not {phase} within {seconds:g} s"
                raise _Broken({"kind": "timeout", "message": text, "stream": None})

    def _poll(self) -> None:
        """Progress, and whether those that were asked for it are still there."""
        now = time.monotonic()
        if now < self._next_poll:
            return
        self._next_poll = now + _POLL_SECONDS
        there = [member for member in self._members if member.begun and not member.lost]
        for member in there:
            if member.asked is not None and member.asked.done():
                if error := member.asked.exception():
                    self._lose(member, _words(error))
                else:
                    member.progress = dict(member.asked.result())
                member.asked = None
            elif member.asked is not None and now - member.asked_at > self._patience.answer:
                self._lose(member, f"has not answered for {self._patience.answer:g} s")
        free = [member for member in there if member.asked is None and not member.lost]
        for member in sorted(free, key=lambda member: member.asked_at)[:_ASKED_AT_ONCE]:
            member.asked, member.asked_at = self._call(member, "progress"), now
        self._tell_progress()

    def _tell_progress(self) -> None:
        known = [member.progress for member in self._members if member.progress]
        summed = {
            name: sum(int(p.get(name) or 0) for p in known) for name in ("rows", "payload_bytes", "batches")
        }
        elapsed = max((int(p.get("elapsed_ns") or 0) for p in known), default=0)
        phase = known[0].get("phase") if known else "set-up"
        self._control.update({"phase": phase, **summed, "elapsed_ns": elapsed})

    def _lose(self, member: _Member, what: str) -> None:
        if member.lost is None:
            when, rows = _reached_by([member])
            member.lost = f"{what} ({_clock()} UTC; last heard of {when}, {rows:,} rows counted)"

    def _known(self) -> str:
        """When this is, and what all have counted so far."""
        when, rows = _reached_by(self._members)
        return f"{_clock()} UTC, {when}; {rows:,} rows counted"

    def _tell_all_to_end(self) -> None:
        for member in self._members:
            if member.begun and not member.lost:
                self._call(member, "cancel")

    def _collect(self, seconds: float) -> None:
        """The records of all that are there; who does not give one in time is lost."""
        calls = {
            self._call(member, "result", seconds): member
            for member in self._members
            if member.begun and not member.lost
        }
        wait(calls, seconds + _POLL_SECONDS * (1 + len(calls) / _ASKED_AT_ONCE))
        for call, member in calls.items():
            if not call.done():
                self._lose(member, f"gave no record for {seconds:g} s")
            elif error := call.exception():
                self._lose(member, _words(error))
            elif call.result() is None:
                self._lose(member, f"did not end within {seconds:g} s")
            else:
                member.record = json.loads(call.result())

    def _part(self, member: _Member) -> Part:
        record = member.record
        if member.lost is not None:
            record = lost(member.lost, member.progress, self._started(member))
        elif record is None:
            record = failed_record("cancelled", "not begun: the trial was broken off before", "interrupted")
        return Part(
            host=member.handle.name,
            share=member.share,
            record=record,
            lead=member.lead,
            address=member.handle.address,
            clock=member.clock,
            identity=member.handle.identity,
        )

    def _started(self, member: _Member) -> int:
        begun = self._agreed is not None and member.progress.get("elapsed_ns")
        return member.clock.there(self._agreed) if begun and self._agreed else 0


def _taken(arrived: SimpleQueue[Future[Any]], seconds: float) -> list[Future[Any]]:
    """All that are there; waits so long for the first one."""
    found = []
    try:
        found.append(arrived.get(timeout=seconds))
        while True:
            found.append(arrived.get_nowait())
    except Empty:
        return found


def _reached_by(members: Sequence[_Member]) -> tuple[str, int]:
    """How far they had come when they were heard of last, and their rows."""
    elapsed = max(int(member.progress.get("elapsed_ns") or 0) for member in members)
    when = f"{elapsed / 1e9:.1f} s after the start" if elapsed else "before the start"
    return when, sum(int(member.progress.get("rows") or 0) for member in members)


def _clock() -> str:
    return time.strftime("%H:%M:%S", time.gmtime())


def _words(error: BaseException) -> str:
    """Why a call failed, in a line."""
    if isinstance(error, Gone):
        return str(error)
    text = " ".join(str(error).split())
    return f"failed: {text[:300] or type(error).__name__}"
