"""How often a driver calls its loaders: what a thousand of them cost, without Ray."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import pytest

from venturi.cluster.ray import ray_executor
from venturi.cluster.ray.ray_executor import RayExecutor, RayHandle
from venturi.cluster.trial.clock import ONE_MACHINE


class Recording(RayHandle):
    """Answers at once, and notes what it was asked."""

    def __init__(self, at: int, boot_id: str | None, idle: bool = True) -> None:
        super().__init__(f"loader-{at + 1}", at, None, {"boot_id": boot_id})
        self.asked: list[str] = []
        self._idle = idle

    def call(self, method: str, *arguments: object) -> Future[Any]:
        self.asked.append(method)
        answer: Future[Any] = Future()
        answer.set_result(time.time_ns() if method == "now" else self._idle)
        return answer


def executor(handles: list[Any]) -> RayExecutor:
    found = RayExecutor.__new__(RayExecutor)
    found._boot_id, found._loaders = "here", handles
    found._note = lambda level, text: None
    return found


def test_a_machines_clock_is_asked_for_once() -> None:
    handles = [Recording(at, name) for at, name in enumerate(["here", "a", "a", "b", None, None])]
    clocks = executor(handles)._clocks(handles)
    assert [bool(handle.asked) for handle in handles] == [False, True, False, True, True, True]
    assert clocks[0] == ONE_MACHINE and all(clock.measured_unix_ns for clock in clocks[1:])
    assert handles[1].clock == handles[2].clock
    # They still hold: nobody is asked again.
    before = [len(handle.asked) for handle in handles]
    executor(handles)._clocks(handles)
    assert [len(handle.asked) for handle in handles] == before


def test_no_more_loaders_are_asked_than_a_trial_takes() -> None:
    handles = [Recording(at, "a") for at in range(6)]
    assert executor(handles)._ready(2) == handles[:2]
    assert [len(handle.asked) for handle in handles] == [1, 1, 0, 0, 0, 0]
    # One that is busy: another one takes part, and nobody is started anew.
    handles = [Recording(at, "a", idle=at != 1) for at in range(4)]
    assert executor(handles)._ready(2) == [handles[0], handles[2]]
    # Whoever ended a trial well just now is not asked.
    handles = [Recording(at, "a") for at in range(2)]
    handles[0].heard = time.monotonic()
    assert executor(handles)._ready(2) == handles
    assert [len(handle.asked) for handle in handles] == [0, 1]


def test_a_loader_is_started_where_too_few_are_good(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = [Recording(at, "a", idle=at > 0) for at in range(2)]
    fresh = Recording(0, "a")
    monkeypatch.setattr(ray_executor.RayExecutor, "_another", lambda self, lost: fresh)
    found = executor(list(handles))
    assert found._ready(2) == [fresh, handles[1]]
    assert found._loaders == [fresh, handles[1]]
