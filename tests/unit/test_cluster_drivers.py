"""Drivers and their hosts without Spark and Ray: calls to loaders in tasks, over real sockets, and what is
said of `--on spark`; servers on hosts of a cluster, with stand-ins whose ports are known."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from support.wait import wait_until
from venturi.cluster.ray_servers import RayServers, RemoteServer
from venturi.cluster.spark_executor import (
    SparkExecutor,
    SparkSession,
    Switchboard,
    TaskLoader,
    answer_calls,
    in_our_words,
)
from venturi.common.environment import describe
from venturi.common.errors import VenturiError
from venturi.engine.calls import Gone, Process
from venturi.engine.record import Trial
from venturi.measure import placement


class Loader:
    """Says what it was asked."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def now(self) -> int:
        return time.time_ns()

    def wait(self, phase: str, seconds: float) -> str:
        self.ended.wait(seconds)
        return phase

    def begin(self, spec: str) -> None:
        raise ValueError(f"no such target: {json.loads(spec)}")

    def cancel(self) -> None:
        self.ended.set()

    def result(self, seconds: float) -> str | None:
        return "x" * 3_000_000 if self.ended.wait(seconds) else None


@pytest.fixture
def board() -> Iterator[Switchboard]:
    made = Switchboard("127.0.0.1")
    yield made
    made.close()


def tasks(board: Switchboard, count: int) -> tuple[list[Loader], list[TaskLoader], list[threading.Thread]]:
    loaders = [Loader() for _ in range(count)]
    threads = [
        threading.Thread(target=answer_calls, args=("127.0.0.1", board.port, board.token, at, loader))
        for at, loader in enumerate(loaders)
    ]
    for thread in reversed(threads):
        thread.start()
    return loaders, board.loaders(count, 60, threading.Event()), threads


def test_calls_are_answered(board: Switchboard) -> None:
    loaders, lines, threads = tasks(board, 3)
    assert [line.name for line in lines] == ["loader-1", "loader-2", "loader-3"]
    assert {line.address for line in lines} == {"127.0.0.1"}
    long = lines[0].call("wait", "ready", 60.0)
    # A short one beside it, and an error by its text.
    asked = time.time_ns()
    assert asked <= lines[0].call("now").result(60) <= time.time_ns(), "one machine has one clock"
    with pytest.raises(RuntimeError, match="no such target"):
        lines[0].call("begin", '{"a": 1}').result(60)
    with pytest.raises(RuntimeError, match="no such call"):
        lines[0].call("__init__").result(60)
    assert not long.done()
    lines[0].call("cancel").result(60)
    assert long.result(60) == "ready"
    assert len(lines[0].call("result", 1.0).result(60)) == 3_000_000
    assert not loaders[1].ended.is_set()
    for line in lines:
        line.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    # Who hangs up wants nothing to go on.
    assert all(loader.ended.is_set() for loader in loaders)


@pytest.mark.parametrize(
    ("last", "why"),
    [(b"", "is gone$"), (b"[1\n", r"is gone: its answer cannot be read \(Expecting"), (b"3\n", "read")],
)
def test_a_task_that_dies_fails_its_calls(board: Switchboard, last: bytes, why: str) -> None:
    host = socket.create_connection(("127.0.0.1", board.port))
    host.sendall(json.dumps({"token": board.token, "index": 0}).encode() + b"\n")
    (line,) = board.loaders(1, 60, threading.Event())
    call = line.call("wait", "ready", 60.0)
    host.sendall(last)
    host.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionError, match=why):
        call.result(60)
    host.close()
    with pytest.raises(ConnectionError):
        line.call("now").result(60)
    assert line.gone


def test_a_process_that_reads_nothing_is_closed() -> None:
    process, calls = Process("deaf", "x", within=("sh", "-c", "exec sleep 600")), []
    caller = threading.Thread(target=lambda: calls.append(process.call("now", "x" * 2**20)), daemon=True)
    caller.start()
    wait_until(process._sending.locked)
    process.close(0.0)
    caller.join()
    with pytest.raises(Gone):
        calls[0].result()


@pytest.mark.parametrize(
    "word",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"{" * 1024,
        b"[]\n",
        b'{"token": "guessed", "index": 0}\n',
    ],
)
def test_strangers_are_hung_up_on(board: Switchboard, word: bytes) -> None:
    with socket.create_connection(("127.0.0.1", board.port), 60) as stranger:
        stranger.sendall(word)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    # Nobody stands where a task of ours comes to.
    _, (line,), (thread,) = tasks(board, 1)
    assert line.call("now").result(60) > 0
    line.close()
    thread.join(60)


def test_a_driver_that_cannot_be_reached() -> None:
    closed = Switchboard("127.0.0.1")
    closed.close()
    told = answer_calls("127.0.0.1", closed.port, "", 0, Loader())
    assert told is not None and told.startswith(f"the driver cannot be reached at 127.0.0.1:{closed.port}")
    with pytest.raises(VenturiError, match="cannot listen on"):
        Switchboard("no.such.host.invalid")


def test_both_places_are_gone_on_with() -> None:
    def lines(*ons: str | None) -> list[Trial]:
        return [Trial(parameters={"on": on}) for on in ons]

    placement.resumed("here,spark", lines(None, "spark"), "RUN")
    placement.resumed("here,spark", lines(None), "RUN")
    with pytest.raises(VenturiError, match="say where again by --on here,spark"):
        placement.resumed("spark", lines(None, "spark"), "RUN")
    with pytest.raises(VenturiError, match="must be ray://"):
        placement.kind("here,there")


def test_errors_of_spark_are_a_line() -> None:
    def said(text: str) -> str:
        return in_our_words(RuntimeError(text), "spark://head:7077", 4)

    text = (
        "py4j.protocol.Py4JJavaError: An error\n: org.apache.spark.SparkException: [SPARK-24819]: Barrier ..."
    )
    assert "4 loaders run at a time, and spark://head:7077 has fewer slots" in said(text)
    text = "org.apache.spark.api.python.PythonException: ...\nModuleNotFoundError: No module named 'venturi'"
    assert said(text).startswith("executors have no venturi: pip install 'venturi[spark]' on each of them")
    assert "\n" not in said("java.io.IOException: no space left\n\tat x\n\tat y")


def test_loaders_beyond_the_slots_of_a_local_spark_are_refused() -> None:
    local = SparkSession.__new__(SparkSession)
    local.master, local.context = "local[2]", SimpleNamespace(defaultParallelism=2)
    local.check_slots(2)
    with pytest.raises(VenturiError) as refused:
        local.check_slots(3)
    assert refused.value.message == (
        "3 loaders run at a time, and local[2] has 2 slots: fewer --loaders, or --master 'local[3]'"
    )
    local.master = "spark://head:7077"
    local.check_slots(3)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"target": "charrow://127.0.0.1:9006"}, "is on this machine's loopback, and loader-2 runs on there"),
        ({"target": "charrow+unix:///run/s"}, "is a Unix socket of this machine, and loader-2 runs on there"),
        (
            {"target": "flight://here:1", "data": {"ipc": "/x"}},
            "lie on this machine, and loader-2 runs on there",
        ),
    ],
)
def test_what_a_loader_on_another_host_does_not_reach(spec: dict[str, Any], said: str) -> None:
    executor = SparkExecutor.__new__(SparkExecutor)
    ours = {"boot_id": describe()["boot_id"], "network": os.readlink("/proc/self/ns/net")}
    here = SimpleNamespace(name="loader-1", identity={"hostname": "here", **ours})
    far = SimpleNamespace(name="loader-2", identity={"hostname": "there", "boot_id": "another"})
    executor._check_reach(spec, [here])
    executor._check_reach({"target": "flight://here:1"}, [here, far])
    with pytest.raises(ValueError, match=said):
        executor._check_reach(spec, [here, far])


# ---- servers on hosts of a cluster


TRIES = 5
PORTS = range(8101, 8200)
"""What a host takes, one after the other, where it may choose."""


NEVER = object()


class Answer(Future[Any]):
    """An answer that is there, an error, or neither for ever."""

    def __init__(self, call: Callable[..., Any], arguments: Sequence[Any]) -> None:
        super().__init__()
        try:
            value = call(*arguments)
        except VenturiError as error:
            self.set_exception(error)
        else:
            if value is not NEVER:
                self.set_result(value)


class Host:
    """As `RayServer`, as far as it is asked here."""

    def __init__(self, address: str, taken: Sequence[int] = ()) -> None:
        self.address, self.taken = address, taken
        self.started: list[int] = []
        self.running: dict[str, int] = {}
        self._free: Iterator[int] = iter(PORTS)

    def call(self, method: str, *arguments: Any) -> Answer:
        return Answer(getattr(self, f"_{method}"), arguments)

    def _boot_id(self) -> str:
        return self.address

    _node_id = _boot_id

    def _start(self, name: str, kind: str, words: list[str], address: str, network: str | None) -> Any:
        assert (kind, address, network) == ("timeseries", self.address, "10.0.0.0/24")
        port = int(words[words.index("--http") + 1]) or next(self._free)
        if port in self.taken:
            raise VenturiError(f"cannot listen on {address}:{port}: address already in use")
        self.started.append(port)
        self.running[name] = port
        return {
            "address": f"{address}:9000",
            "addresses": {"akumuli": f"{address}:9001", "http": f"{address}:{port}"},
        }

    def _stop(self, name: str) -> None:
        del self.running[name]

    def _ended(self, name: str) -> object:
        return NEVER


class Places:
    """One host a place."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = hosts

    def check(self, seconds: float) -> None:
        pass

    def actor(self, kind: type, at: int, calls: int, reserved: bool = True) -> Host:
        return self._hosts[at]


class RaySession:
    boot_id, alone = "the driver's", False

    def address(self, node: str) -> str:
        return node


def servers(hosts: Sequence[Host]) -> RayServers:
    told: list[str] = []
    session, places = RaySession(), Places(hosts)
    return RayServers(session, places, range(len(hosts)), "10.0.0.0/24", lambda _, text: told.append(text))  # type: ignore[arg-type]


STORE = ("--akumuli", "0", "--http", "0")


def test_a_port_that_is_taken_on_another_host_is_left_for_the_next_one() -> None:
    """Stores tell what they hold on one port; nothing is left of those that had been started on others."""
    hosts = [Host("10.0.0.2"), Host("10.0.0.3", taken=[8101]), Host("10.0.0.4", taken=[8102])]
    group = servers(hosts).remote("timeseries", STORE)
    assert group.hello["addresses"]["http"] == "10.0.0.2:8103,10.0.0.3:8103,10.0.0.4:8103"
    assert group.hello["addresses"]["akumuli"] == "10.0.0.2:9001,10.0.0.3:9001,10.0.0.4:9001"
    assert [host.started for host in hosts] == [[8101, 8102, 8103], [8102, 8103], [8101, 8103]]
    assert [list(host.running.values()) for host in hosts] == [[8103]] * 3


def test_a_host_that_has_no_such_port_ends_it_with_its_words() -> None:
    hosts = [Host("10.0.0.2"), Host("10.0.0.3"), Host("10.0.0.4", taken=PORTS)]
    with pytest.raises(VenturiError, match=r"cannot listen on 10\.0\.0\.4:8105: address already in use"):
        servers(hosts).remote("timeseries", STORE)
    assert hosts[0].started == hosts[1].started == list(PORTS[:TRIES])
    assert not any(host.running for host in hosts)


def test_a_first_host_that_starts_none_is_not_asked_again() -> None:
    hosts = [Host("10.0.0.2", taken=PORTS), Host("10.0.0.3")]
    with pytest.raises(VenturiError, match=r"10\.0\.0\.2:8101"):
        servers(hosts).remote("timeseries", STORE)
    assert hosts[1].started == []


def test_the_end_of_a_server_comes_before_an_answer_about_it() -> None:
    """Its host has no more to say of one that ends while it is asked."""
    ended: Future[Any] = Future()

    def call(name: str) -> Future[Any]:
        if name == "state":
            ended.set_result("out of memory")
            return Future()
        return ended

    server = RemoteServer(call, {"address": "10.0.0.2:9000"})
    assert not server.running and server.complaint() == "out of memory"
