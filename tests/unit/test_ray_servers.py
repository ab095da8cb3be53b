"""Servers on hosts of a cluster without Ray: stand-ins for its processes, whose ports are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from venturi.cluster.ray.ray_servers import RayServers
from venturi.cluster.ray.server_host import RemoteServer
from venturi.common.errors import VenturiError

TRIES = 5
PORTS = range(8101, 8200)
"""What a host takes, one after the other, where it may choose."""


class Ref:
    """An answer that is there, or an error."""

    def __init__(self, value: Any, error: Exception | None = None) -> None:
        self._future: Future[Any] = Future()
        if error is not None:
            self._future.set_exception(error)
        elif value is not NEVER:
            self._future.set_result(value)

    def future(self) -> Future[Any]:
        return self._future


NEVER = object()


class Method:
    def __init__(self, call: Any) -> None:
        self._call = call

    def remote(self, *arguments: Any) -> Ref:
        try:
            return Ref(self._call(*arguments))
        except VenturiError as error:
            return Ref(None, error)


class Host:
    """As `RayServer`, as far as it is asked here."""

    def __init__(self, address: str, taken: Sequence[int] = ()) -> None:
        self.address, self.taken = address, taken
        self.started: list[int] = []
        self.running: dict[str, int] = {}
        self._free: Iterator[int] = iter(PORTS)

    def __getattr__(self, name: str) -> Method:
        return Method(getattr(self, f"_{name}"))

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


class Session:
    boot_id, alone = "the driver's", False

    def address(self, node: str) -> str:
        return node


def servers(hosts: Sequence[Host]) -> RayServers:
    told: list[str] = []
    session, places = Session(), Places(hosts)
    return RayServers(session, places, range(len(hosts)), "10.0.0.0/24", lambda _, text: told.append(text))  # type: ignore[arg-type]


STORE = ("--akumuli", "0", "--http", "0")


def test_stores_tell_what_they_hold_on_one_port() -> None:
    hosts = [Host("10.0.0.2"), Host("10.0.0.3"), Host("10.0.0.4")]
    group = servers(hosts).remote("timeseries", STORE)
    assert group.hello["addresses"]["http"] == "10.0.0.2:8101,10.0.0.3:8101,10.0.0.4:8101"
    assert group.hello["addresses"]["akumuli"] == "10.0.0.2:9001,10.0.0.3:9001,10.0.0.4:9001"


def test_a_port_that_is_taken_on_another_host_is_left_for_the_next_one() -> None:
    """And nothing is left of those that had been started for it."""
    hosts = [Host("10.0.0.2"), Host("10.0.0.3", taken=[8101]), Host("10.0.0.4", taken=[8102])]
    group = servers(hosts).remote("timeseries", STORE)
    assert group.hello["addresses"]["http"] == "10.0.0.2:8103,10.0.0.3:8103,10.0.0.4:8103"
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
