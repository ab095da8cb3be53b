"""One trial over several loaders: planned by the lead, lined up, started at one instant, collected, merged.

However a trial ends, every loader has ended its part or is known to be lost, and there is a record.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from venturi.cluster.trial.clock import Clock
from venturi.cluster.trial.loaders import (
    ClusterControl,
    Handle,
    Member,
    Share,
    divide,
    heard_of,
    lost,
    spec_of,
    utc,
    words,
)
from venturi.cluster.trial.merge import merge
from venturi.common.runtime import without_collector
from venturi.engine.loader import ENDED, PHASES, reached

HEAD_START_NS = 50_000_000
_HEAD_START_A_LOADER_NS = 500_000
_TELLINGS, _MOST_TELLING_NS = 2, 5 * 10**9
"""So many times as long as it took to call all loaders before, they have to hear of the start, and no longer
than this: the driver may have been stopped meanwhile."""
_POLL_SECONDS = 0.1
_POLLED_AT_ONCE = 10
"""Loaders polled for progress at a time: a call costs the driver almost a millisecond."""
_LONGEST_CALL = 3600.0
"""A loader answers after so many seconds wherever it is, and is asked again."""


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


def head_start_ns(
    clocks: Sequence[Clock], round_trip_ns: int = 0, telling_ns: int = 0, timeout_ns: int = 30 * 10**9
) -> int:
    """From now to the start instant: time for all to hear of it, and more than the clocks are wrong.
    `telling_ns`: how long the driver took to call as many loaders before: it knows how busy its host is.
    `timeout_ns`: the trial's; loaders refuse a start that is further away, as of a clock that is wrong."""
    errors = max((clock.uncertainty_ns for clock in clocks), default=0)
    notice_ns = max(_HEAD_START_A_LOADER_NS * len(clocks), min(_TELLINGS * telling_ns, _MOST_TELLING_NS))
    return min(HEAD_START_NS + notice_ns + max(4 * errors, round_trip_ns), timeout_ns // 2)


def join_tallies(texts: Iterable[str | None]) -> str:
    """Several loaders' tallies as one list."""
    return json.dumps([tally for text in texts for tally in json.loads(text or "[]")])


@dataclass(frozen=True)
class _Awaited:
    """A call that is answered when the loader has come to a phase."""

    member: Member
    phase: str
    call: Future[Any]


class _Broken(Exception):
    """The trial cannot go on; `failure` is an error of docs/format.md, None if a record says it."""

    def __init__(self, failure: dict[str, Any] | None = None) -> None:
        super().__init__(failure)
        self.failure = failure


def run(
    spec: Mapping[str, Any],
    handles: Sequence[Handle],
    clocks: Sequence[Clock],
    control: ClusterControl,
    patience: Patience | None = None,
    localised: Callable[[Handle, dict[str, Any]], dict[str, Any]] | None = None,
    trouble: Callable[[], str | None] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """The merged record of a trial. `spec` is that of the whole trial; the first handle leads.

    `localised` puts into a loader's spec what is its host's own, as paths. `trouble` answers what else has
    gone that the trial cannot do without, as a server's host; None as long as all is there. `now` is the
    clock that patience is measured by, in seconds.

    Raises ScenarioError if there are more loaders than streams, and nothing else: what goes wrong later is
    in the record.
    """
    shares = divide(int(spec["streams"]), len(handles))
    # Servers remember the name that several processes share, so a retried trial needs a new one.
    spec = {**spec, "trial": f"{spec['trial']}.{secrets.token_hex(4)}"}
    members = [
        Member(handle, share, clock, at == 0)
        for at, (handle, share, clock) in enumerate(zip(handles, shares, clocks, strict=True))
    ]
    return _LineUp(spec, members, control, patience or Patience.of(spec), localised, trouble, now).run()


def alone(
    spec: Mapping[str, Any], handle: Handle, control: ClusterControl, patience: Patience | None = None
) -> dict[str, Any]:
    """The record of a trial that one loader runs whole, without a share."""
    patience = patience or Patience.of(spec)
    member = Member(handle, Share(0, int(spec["streams"])), Clock(), True)
    only = _LineUp(spec, [member], control, patience, None)
    only.run_alone()
    if member.record is not None:
        return dict(json.loads(member.record))
    return lost(f"{member.where}: {member.lost}", member.progress)


class _LineUp:
    def __init__(
        self,
        spec: Mapping[str, Any],
        members: list[Member],
        control: ClusterControl,
        patience: Patience,
        localised: Callable[[Handle, dict[str, Any]], dict[str, Any]] | None,
        trouble: Callable[[], str | None] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._localised, self._trouble, self._now = localised, trouble, now
        self._spec, self._members, self._control, self._patience = spec, members, control, patience
        self._agreed: int | None = None
        self._next_poll = 0.0
        self._round_trip_ns = 0
        self._telling_ns = 0

    def run(self) -> dict[str, Any]:
        lead, *followers = self._members
        failure = None
        try:
            self._reach("planned", [self._begin(lead, "planned")], self._patience.set_up)
            begun = [self._begin(member, "ready") for member in followers]
            self._reach("ready", [self._wait(lead, "ready"), *begun], self._patience.set_up)
            self._agree()
            # The others have nothing left to do when they have counted, and give their records with that.
            started = [self._start(lead, "counted"), *(self._start(member, "done") for member in followers)]
            self._reach("counted", started, self._longest())
            conclude = lead.call("conclude", join_tallies(member.tallies for member in followers))
            self._answers({conclude: lead})
            self._reach("done", [self._wait(lead, "done")], self._patience.set_up)
        except _Broken as broken:
            failure = broken.failure
            self._tell_all_to_end()
        self._collect(self._patience.collect)
        with without_collector():
            record = merge([member.part(self._agreed) for member in self._members], self._agreed)
        if failure is not None and record["outcome"] != "failed":
            record |= {"outcome": "failed", "error": failure}
        return record

    def run_alone(self) -> None:
        try:
            member = self._members[0]
            member.begun = True
            # Without a share it starts by itself.
            begun = self._awaited(member, "done", "begin", json.dumps(dict(self._spec)))
            self._reach("done", [begun], self._longest())
        except _Broken:
            self._tell_all_to_end()
        self._collect(self._patience.collect)

    def _longest(self) -> float:
        """Streams that make no progress end by themselves; this is for a loader that does not."""
        duration = float(self._spec.get("duration_ns") or 0) / 1e9
        return float("inf") if not duration else duration + self._patience.set_up

    # What is asked of a loader comes with the phase that it shall answer in: a call costs the driver and the
    # loader most of a millisecond each, and there may be hundreds of loaders.

    def _begin(self, member: Member, phase: str) -> _Awaited:
        own = spec_of(self._spec, member.share, member.lead)
        try:
            own = self._localised(member.handle, own) if self._localised is not None else own
        except Exception as error:  # data that do not get there: told like any other loss
            member.lose(words(error))
            raise _Broken from None
        member.begun = True
        began = time.monotonic_ns()
        awaited = self._awaited(member, phase, "begin", json.dumps(own))
        self._telling_ns += time.monotonic_ns() - began
        return awaited

    def _agree(self) -> None:
        """On the instant to start at."""
        clocks = [member.clock for member in self._members]
        timeout_ns = int(self._spec.get("timeout_ns") or 30 * 10**9)
        ahead = head_start_ns(clocks, self._round_trip_ns, self._telling_ns, timeout_ns)
        self._agreed = time.time_ns() + ahead

    def _start(self, member: Member, phase: str) -> _Awaited:
        """Tells the instant, by the loader's own clock."""
        assert self._agreed is not None
        return self._awaited(member, phase, "start_at", member.clock.to_host(self._agreed))

    def _wait(self, member: Member, phase: str) -> _Awaited:
        return self._awaited(member, phase, "wait")

    def _awaited(self, member: Member, phase: str, method: str, *arguments: object) -> _Awaited:
        member.awaited = member.call(method, *arguments, phase, _LONGEST_CALL)
        return _Awaited(member, phase, member.awaited)

    def _answers(self, calls: Mapping[Future[Any], Member]) -> None:
        """Waits for the answers; all of them in time, or the trial is broken."""
        wait(calls, self._patience.answer)
        for call, member in calls.items():
            if not call.done():
                member.lose(f"has not answered for {self._patience.answer:g} s")
            elif error := call.exception():
                member.lose(words(error))
        if any(member.lost for member in calls.values()):
            raise _Broken

    def _reach(self, phase: str, awaited: Sequence[_Awaited], seconds: float) -> None:
        """Waits until all are where they shall be, which is `phase` or later. Raises _Broken where one ends
        before, is lost, or takes too long."""
        waiting: dict[Future[Any], _Awaited] = {}
        arrived: SimpleQueue[Future[Any]] = SimpleQueue()

        def expect(one: _Awaited) -> None:
            waiting[one.call] = one
            one.call.add_done_callback(arrived.put)

        for one in awaited:
            expect(one)
        deadline = self._now() + seconds
        while waiting:
            broken = False
            for call in _taken(arrived, _POLL_SECONDS):
                one = waiting.pop(call)
                if error := call.exception():
                    one.member.lose(words(error))
                    broken = True
                elif (phase_reached := one.member.heard(call.result())) == ENDED:
                    broken = True
                elif not reached(phase_reached, one.phase):
                    expect(self._wait(one.member, one.phase))
            self._poll()
            if broken or any(member.lost for member in self._members):
                raise _Broken
            if self._control.cancelled:
                raise _Broken
            if self._trouble is not None and (what := self._trouble()) is not None:
                raise _Broken(
                    {"kind": "lost", "message": f"{what} ({self._when_and_rows()})", "stream": None}
                )
            if waiting and self._now() > deadline:
                late = ", ".join(one.member.where for one in waiting.values())
                text = f"{late}: not {phase} within {seconds:g} s"
                raise _Broken({"kind": "timeout", "message": text, "stream": None})

    def _poll(self) -> None:
        """Progress, and whether those that were asked for it are still there."""
        if time.monotonic() < self._next_poll:
            return
        self._next_poll = time.monotonic() + _POLL_SECONDS
        now = self._now()
        present = [m for m in self._members if m.begun and not m.lost and m.record is None]
        for member in present:
            if member.poll is not None and member.poll.done():
                if error := member.poll.exception():
                    member.lose(words(error))
                else:
                    member.progress = dict(member.poll.result())
                member.poll = None
            elif member.poll is not None and now - member.polled_at > self._patience.answer:
                member.lose(f"has not answered for {self._patience.answer:g} s")
        free = [member for member in present if member.poll is None and not member.lost]
        for member in sorted(free, key=lambda member: member.polled_at)[:_POLLED_AT_ONCE]:
            self._ask(member)
        self._tell_progress()

    def _ask(self, member: Member) -> None:
        """How far it is."""
        member.polled_at, began = self._now(), time.monotonic_ns()

        def answered(_: Future[Any]) -> None:
            self._round_trip_ns = max(self._round_trip_ns, time.monotonic_ns() - began)

        member.poll = member.call("progress", self._spec["trial"])
        member.poll.add_done_callback(answered)

    def _tell_progress(self) -> None:
        counters = [member.progress for member in self._members if member.progress]
        summed = {
            name: sum(int(p.get(name) or 0) for p in counters)
            for name in ("rows", "payload_bytes", "batches")
        }
        elapsed = max((int(p.get("elapsed_ns") or 0) for p in counters), default=0)
        phase = counters[0].get("phase") if counters else "set-up"
        self._control.update({"phase": phase, **summed, "elapsed_ns": elapsed})

    def _when_and_rows(self) -> str:
        """When this is, and what all have counted so far."""
        when, rows = heard_of(self._members)
        return f"{utc()} UTC, {when}; {rows:,} rows counted"

    def _tell_all_to_end(self) -> None:
        for member in self._members:
            if member.begun and not member.lost:
                member.call("cancel", self._spec["trial"])

    def _collect(self, seconds: float) -> None:
        """The records of all loaders present; one that is late counts as lost."""
        waiting: dict[Future[Any], Member] = {}
        arrived: SimpleQueue[Future[Any]] = SimpleQueue()

        def expect(member: Member, call: Future[Any]) -> None:
            waiting[call] = member
            call.add_done_callback(arrived.put)

        wanted = [m for m in self._members if m.begun and not m.lost and m.record is None]
        deadline = time.monotonic() + seconds + _POLL_SECONDS * (1 + len(wanted) / _POLLED_AT_ONCE)
        for member in wanted:
            # Wait for pending calls: a new one might overtake the call that begins a trial.
            last = member.awaited
            pending = last is not None and not last.done()
            expect(member, last if last and pending else member.call("wait", PHASES[-1], seconds))
        while waiting and (left := deadline - time.monotonic()) > 0:
            for call in _taken(arrived, left):
                member = waiting.pop(call)
                if error := call.exception():
                    member.lose(words(error))
                    continue
                member.heard(call.result())
                if member.record is None:
                    expect(member, member.call("wait", PHASES[-1], max(0.0, deadline - time.monotonic())))
        for member in waiting.values():
            member.lose(f"gave no record for {seconds:g} s")


def _taken(arrived: SimpleQueue[Future[Any]], seconds: float) -> list[Future[Any]]:
    """All that are there; waits so long for the first one."""
    found = []
    try:
        found.append(arrived.get(timeout=seconds))
        while True:
            found.append(arrived.get_nowait())
    except Empty:
        return found
