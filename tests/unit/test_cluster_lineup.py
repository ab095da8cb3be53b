"""Loaders lined up, started together and collected: without an engine, with it in this process, and in
processes that are killed."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from support.cluster import FakeCore
from support.flight import ServerProcess
from support.wait import wait_until
from venturi.cluster.trial.clock import Clock
from venturi.cluster.trial.coordinator import Patience, alone, head_start_ns, join_tallies, run
from venturi.cluster.trial.loaders import ClusterControl
from venturi.engine.loader import Loader, LoaderProcess

SPEC: dict[str, Any] = {
    "trial": "t",
    "target": "empty://",
    "streams": 5,
    "threads": 5,
    "timeout_ns": 2 * 10**9,
}
# None of these is waited for: what shall take too long does so by a clock that the test moves.
LONG = 600.0
PATIENT = Patience(answer=LONG, set_up=LONG, collect=LONG)


class Hands:
    """A clock that stands still until `moves`, and then goes on by a second whenever it is looked at."""

    def __init__(self, moves: Callable[[], bool]) -> None:
        self._moves, self._seconds = moves, itertools.count(1)
        self._at = 0

    def __call__(self) -> float:
        if self._moves():
            self._at = next(self._seconds)
        return self._at


class LocalHandle:
    """A loader in this process."""

    def __init__(self, name: str, loader: Loader, address: str | None = None) -> None:
        self.name, self.address = name, address
        self.identity: Mapping[str, Any] = loader.identify()
        self._loader = loader
        self._pool = ThreadPoolExecutor(6, thread_name_prefix=name)

    def call(self, method: str, *arguments: object) -> Future[Any]:
        return self._pool.submit(getattr(self._loader, method), *arguments)

    def close(self) -> None:
        """Takes no more calls, and ends what a driver that has given it up has left."""
        self._loader.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def handles() -> Iterator[Any]:
    made: list[LocalHandle] = []

    def of(*cores: Any, kind: type[LocalHandle] = LocalHandle) -> list[LocalHandle]:
        made.extend(kind(f"loader-{n + 1}", Loader(core), f"10.0.0.{n + 1}") for n, core in enumerate(cores))
        return made

    yield of
    for handle in made:
        handle.close()


def clocks(found: list[Any]) -> list[Clock]:
    return [Clock() for _ in found]


def test_one_trial_of_three(handles: Any) -> None:
    log: list[Any] = []
    found = handles(*(FakeCore(log=log) for _ in range(3)))
    control = ClusterControl()
    record = run(SPEC, found, clocks(found), control, PATIENT)
    assert record["outcome"] == "ok"
    assert record["counts"]["rows"] == 500
    # The lead has verified what all have counted.
    assert record["verification"]["rows"] == 500 and record["verification"]["achieved"] == "count"
    assert [h["streams"] for h in record["hosts"]] == [[0, 2], [2, 2], [4, 1]]
    assert [s["stream"] for s in record["streams"]] == list(range(5))
    # Nobody else begins before the lead has planned, and nobody runs before all are ready.
    assert log[0] == ("0+2", "planned")
    running = [at for at, (_, phase) in enumerate(log) if phase == "running"]
    ready = [at for at, (_, phase) in enumerate(log) if phase == "ready"]
    assert max(ready) < min(running)
    assert control.progress()["rows"] in range(501)


def test_who_begins_late_is_the_skew(handles: Any) -> None:
    found = handles(FakeCore(), FakeCore(late_ns=7_000_000), FakeCore(late_ns=3_000_000))
    record = run(SPEC, found, clocks(found), ClusterControl(), PATIENT)
    assert record["times"]["start_skew_ns"] == 7_000_000


class Recording(LocalHandle):
    """Notes what it is asked, and hands on the start as this process's clock has it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        self.asked.append((method, arguments))
        if method == "start_at":
            arguments = (time.time_ns(), *arguments[1:])
        return super().call(method, *arguments)


def test_the_start_is_told_by_each_hosts_own_clock(handles: Any) -> None:
    """One instant for all, which is still to come."""
    found = handles(FakeCore(), FakeCore(), FakeCore(), kind=Recording)
    before = time.time_ns()
    run(SPEC, found, [Clock(), Clock(10**12, 1000, 1), Clock()], ClusterControl(), PATIENT)
    first, second, third = (dict(handle.asked)["start_at"][0] for handle in found)
    assert before < first == third == second - 10**12


@pytest.mark.parametrize("loaders", [2, 40])
def test_a_loader_is_called_twice_and_the_lead_five_times(handles: Any, loaders: int) -> None:
    """What a trial costs the driver grows as its loaders do: a call takes it most of a millisecond."""
    found = handles(*(FakeCore() for _ in range(loaders)), kind=Recording)
    spec = {**SPEC, "streams": loaders, "threads": loaders}
    record = run(spec, found, clocks(found), ClusterControl(), PATIENT)
    assert record["outcome"] == "ok" and len(record["hosts"]) == loaders
    asked = [[method for method, _ in handle.asked] for handle in found]
    lead, *others = [[method for method in methods if method != "progress"] for methods in asked]
    assert lead == ["begin", "wait", "start_at", "conclude", "wait"]
    assert others == [["begin", "start_at"]] * (loaders - 1)


def test_the_head_start() -> None:
    """It is longer than the clocks' error, grows with a slow driver, and is capped, so that loaders accept
    it: a driver that was stopped for a minute does not make them wait for two."""
    assert head_start_ns([Clock()]) == 50_500_000
    assert head_start_ns([Clock()] * 100) == 100_000_000
    assert head_start_ns([Clock(0, 100_000_000, 1)]) == 450_500_000
    assert head_start_ns([Clock()], 200_000_000) == 250_500_000
    assert head_start_ns([Clock()] * 100, telling_ns=10_000_000) == 100_000_000
    assert head_start_ns([Clock()] * 100, telling_ns=100_000_000) == 250_000_000
    minute = 60 * 10**9
    assert head_start_ns([Clock()], telling_ns=minute) == 5_050_000_000
    assert head_start_ns([Clock()], telling_ns=minute, timeout_ns=2 * 10**9) == 10**9
    assert head_start_ns([Clock()], minute, timeout_ns=2 * 10**9) == 10**9


def test_tallies_of_several_are_one_list() -> None:
    assert json.loads(join_tallies(['[{"stream": 1}]', None, '[{"stream": 2}]'])) == [
        {"stream": 1},
        {"stream": 2},
    ]


@pytest.mark.parametrize("phase", ["planned", "ready", "running", "counted"])
@pytest.mark.parametrize("who", [0, 1])
def test_a_loader_that_fails_ends_the_others(handles: Any, phase: str, who: int) -> None:
    found = handles(*(FakeCore(fails=phase if n == who else None) for n in range(3)))
    record = run(SPEC, found, clocks(found), ClusterControl(), PATIENT)
    assert record["outcome"] == "failed"
    assert record["error"]["message"] == f"loader-{who + 1} (10.0.0.{who + 1}): no {phase}"
    assert {h["outcome"] for h in record["hosts"]} <= {
        "failed",
        "interrupted",
        # Who had done its part by then.
        *(["ok"] if phase in ("running", "counted") else []),
    }
    # Nothing is left of it: the next trial is clean.
    for handle in found:
        handle._loader._core.fails = None
    assert run(SPEC, found, clocks(found), ClusterControl(), PATIENT)["outcome"] == "ok"


@pytest.mark.parametrize("who", [0, 1])
def test_nobody_starts_before_all_are_ready(handles: Any, who: int) -> None:
    cores = [FakeCore(hangs="ready" if n == who else None) for n in range(2)]
    found = handles(*cores, kind=Recording)
    spec = {**SPEC, "duration_ns": 10**9}  # so that a trial which has begun has an end by this clock
    patience = Patience(answer=LONG, set_up=2.0, collect=LONG)
    record = run(spec, found, clocks(found), ClusterControl(), patience, now=Hands(cores[who].stuck.is_set))
    assert record["outcome"] == "failed" and record["error"]["kind"] == "timeout"
    assert record["error"]["message"] == f"loader-{who + 1} (10.0.0.{who + 1}): not ready within 2 s"
    assert "start_at" not in [method for handle in found for method, _ in handle.asked]


class Prompt:
    """A handle of which is known what it has answered."""

    def __init__(self, handle: Any) -> None:
        self.name, self.address, self.identity = handle.name, handle.address, handle.identity
        self._handle, self._answers = handle, list[Future[Any]]()

    def call(self, method: str, *arguments: object) -> Future[Any]:
        answer: Future[Any] = self._handle.call(method, *arguments)
        if method == "progress":
            self._answers.append(answer)
        return answer

    def has_answered(self) -> bool:
        return all(answer.done() for answer in self._answers)

    def has_told_of_rows(self) -> bool:
        """And the driver, which has asked again since then, knows of them."""
        return any(answer.done() and answer.result().get("rows") for answer in self._answers[:-1])


class Mute(LocalHandle):
    """A loader whose host is frozen, or gone, from a call on."""

    def __init__(self, *arguments: Any, at: str, dies: bool) -> None:
        super().__init__(*arguments)
        self.at, self.dies, self.gone = at, dies, False

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        self.gone = self.gone or method == self.at
        if not self.gone:
            return super().call(method, *arguments)
        silent: Future[Any] = Future()
        if self.dies:
            silent.set_exception(ConnectionError("the actor died"))
        return silent


@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize("at", ["begin", "start_at", "progress"])
def test_a_loader_that_is_lost(at: str, dies: bool) -> None:
    core = FakeCore(hangs="counted") if at == "progress" else FakeCore()
    near = LocalHandle("loader-1", Loader(core), "a")
    good = Prompt(near)
    mute = Mute("loader-2", Loader(core), "b", at=at, dies=dies)
    # Time passes for the one alone that has gone silent.
    hands = Hands(lambda: mute.gone and good.has_answered())
    patience = Patience(answer=2.0, set_up=LONG, collect=LONG)
    record = run(SPEC, [good, mute], [Clock(), Clock()], ClusterControl(), patience, now=hands)
    assert record["outcome"] == "failed" and record["error"]["kind"] == "lost"
    what = "failed: the actor died" if dies else "has not answered for 2 s"
    assert record["error"]["message"].startswith(f"loader-2 (b): {what} (")
    assert "rows counted" in record["error"]["message"]
    assert record["hosts"][0]["outcome"] in ("ok", "interrupted")
    for handle in (near, mute):
        handle.close()


def test_a_server_that_is_gone_ends_all(handles: Any) -> None:
    """Its connections may say nothing of it, and the loaders wait for data."""
    found = handles(*(FakeCore(hangs="counted") for _ in range(2)))
    control = ClusterControl()
    record = run(SPEC, found, clocks(found), control, PATIENT, trouble=lambda: "the server a:1 has ended")
    assert record["outcome"] == "failed" and record["error"]["kind"] == "lost"
    assert re.fullmatch(
        r"the server a:1 has ended \(\d\d:\d\d:\d\d UTC, .* the start; \d+ rows counted\)",
        record["error"]["message"],
    )
    assert {h["outcome"] for h in record["hosts"]} == {"interrupted"}


def test_cancelling_ends_all(handles: Any) -> None:
    cores = [FakeCore(hangs="counted") for _ in range(3)]
    found, control = handles(*cores), ClusterControl()

    def cancel() -> None:
        for core in cores:
            core.stuck.wait()
        control.cancel()

    threading.Thread(target=cancel).start()
    record = run(SPEC, found, clocks(found), control, PATIENT)
    assert record["outcome"] == "interrupted" and record["error"]["kind"] == "cancelled"
    assert {h["outcome"] for h in record["hosts"]} == {"interrupted"}


def test_a_cancel_that_overtakes_the_begin_it_means() -> None:
    """Calls of an actor with several threads come in any order."""
    spec = {**SPEC, "share": {"first": 0, "count": 5, "lead": True}}
    loader = Loader(FakeCore())
    loader.cancel("second")
    first = loader.begin(json.dumps({**spec, "trial": "first"}), "ready", 5.0)
    assert first["phase"] == "ready" and first["record"] is None
    # Nor is another trial's progress told.
    assert loader.progress("first")["phase"] == "ready" and loader.progress("second") == {}
    loader.cancel("first")
    assert json.loads(loader.wait("done", LONG)["record"] or "{}")["outcome"] == "interrupted"
    loader.cancel("second")
    second = loader.begin(json.dumps({**spec, "trial": "second"}), "done", 5.0)
    assert second["phase"] == "ended"
    assert json.loads(second["record"] or "{}")["error"]["kind"] == "cancelled"
    # It was meant once.
    assert loader.begin(json.dumps({**spec, "trial": "second"}), "ready", 5.0)["phase"] == "ready"
    loader.cancel()
    loader.wait("done", LONG)


def test_a_loader_tells_who_it_is() -> None:
    from venturi.common.environment import version
    from venturi.engine.spec import FORMAT_VERSION

    found = Loader(FakeCore()).identify()
    assert found["venturi"] == version("venturi") and found["format"] == FORMAT_VERSION
    assert found["pid"] and found["hostname"] and found["environment"]["cores"]
    json.dumps(found)


SHARED: dict[str, Any] = {
    "trial": "t",
    "operation": "get",
    "data": {"source": "records", "columns": 4, "values": "random", "seed": 1},
    "rows_per_batch": 4096,
    "rows_per_stream": 200_000,
    "streams": 5,
    "threads": 5,
    "timeout_ns": 5 * 10**9,
}


@pytest.mark.parametrize(("operation", "loaders"), [("get", 1), ("get", 3), ("put", 3)])
def test_the_engine_shared_is_the_engine_whole(
    core: Any, reference_server: Any, handles: Any, operation: str, loaders: int
) -> None:
    found = handles(*([core] * loaders))
    spec = {**SHARED, "target": f"flight://{reference_server.address}", "operation": operation}
    record = run(spec, found, clocks(found), ClusterControl())
    assert record["outcome"] == "ok", record["error"]
    whole = json.loads(core.run_trial(json.dumps({**spec, "trial": "whole"}), core.Control()))
    assert record["verification"]["achieved"] == "checksum"
    assert record["verification"]["checksum"] == whole["verification"]["checksum"]
    for name in ("rows", "batches", "payload_bytes"):
        assert record["counts"][name] == whole["counts"][name] == sum(h[name] for h in record["hosts"])
    assert record["latency"]["service"]["count"] == whole["latency"]["service"]["count"]
    assert [s["stream"] for s in record["streams"]] == [s["stream"] for s in whole["streams"]]
    assert record["stages"]["server"] and record["workers"]["client"]["workers"] == 5


def test_a_trial_that_one_loader_runs_whole(core: Any, handles: Any) -> None:
    (handle,) = handles(core)
    spec = {**SHARED, "target": "empty://", "rows_per_stream": 10_000, "timeout_ns": 2 * 10**9}
    for _ in range(2):
        record = alone(spec, handle, ClusterControl())
        assert record["outcome"] == "ok", record["error"]
        assert record["counts"]["rows"] == 50_000 and "hosts" not in record


# ---- loaders in processes of their own ------------------------------------------------


@pytest.fixture
def processes(core: Any) -> Iterator[list[LoaderProcess]]:
    made = [LoaderProcess(f"loader-{n + 1}", f"10.0.0.{n + 1}") for n in range(2)]
    for one in made:
        one.identity = one.call("identify").result()
    yield made
    for one in made:
        one.close()


class Moving(threading.Thread):
    """Sends a signal to the last loader as soon as the driver knows of rows that every loader has moved."""

    def __init__(self, loaders: list[Prompt], number: int) -> None:
        super().__init__()
        self._loaders, self._number, self.sent = loaders, number, threading.Event()

    def run(self) -> None:
        wait_until(lambda: all(loader.has_told_of_rows() for loader in self._loaders))
        os.kill(self._loaders[-1].identity["pid"], self._number)
        self.sent.set()


def endless(server: ServerProcess) -> dict[str, Any]:
    """A trial that ends only because something happens to it."""
    spec = {**SHARED, "target": f"flight://{server.address}", "operation": "get"}
    return spec | {"rows_per_stream": None, "duration_ns": int(LONG * 1e9), "timeout_ns": int(LONG * 1e9)}


def test_a_loaders_process_that_is_killed(reference_server: Any, processes: list[LoaderProcess]) -> None:
    """What had been counted is kept, of it and of the other; the next trial is clean."""
    both = [Prompt(one) for one in processes]
    Moving(both, signal.SIGKILL).start()
    record = run(endless(reference_server), both, clocks(both), ClusterControl())
    assert (record["outcome"], record["error"]["kind"]) == ("failed", "lost")
    assert record["error"]["message"].startswith("loader-2 (10.0.0.2): is gone (")
    assert [host["outcome"] for host in record["hosts"]] == ["interrupted", "failed"]
    assert all(host["rows"] > 0 for host in record["hosts"])
    assert not processes[1].running
    again = run({**SHARED, "target": "empty://"}, processes[:1], [Clock()], ClusterControl())
    assert again["outcome"] == "ok", again["error"]


def test_a_loaders_process_that_is_frozen(reference_server: Any, processes: list[LoaderProcess]) -> None:
    both = [Prompt(one) for one in processes]
    stop = Moving(both, signal.SIGSTOP)
    stop.start()
    hands = Hands(lambda: stop.sent.is_set() and both[0].has_answered())
    patience = Patience(answer=4.0, set_up=LONG, collect=LONG)
    try:
        record = run(endless(reference_server), both, clocks(both), ClusterControl(), patience, now=hands)
    finally:
        os.kill(processes[1].identity["pid"], signal.SIGCONT)
    assert (record["outcome"], record["error"]["kind"]) == ("failed", "lost")
    assert record["error"]["message"].startswith("loader-2 (10.0.0.2): has not answered for 4 s (")
    assert [host["outcome"] for host in record["hosts"]] == ["interrupted", "failed"]
    assert all(host["rows"] > 0 for host in record["hosts"])
