"""Addresses of several hosts, and of servers that a run starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from venturi.cluster.server_host import ServerGroup
from venturi.tcp_probe import probe_tcp
from venturi.urls import check_url, each_host, is_loopback, is_ours, is_remote, place_of


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("flight://a,b:1", "flight://a:31337,b:1"),
        ("flight+tls://a,b/table", "flight+tls://a:31337,b:31337/table"),
        ("akumuli://a,b", "akumuli://a:8282,b:8282"),
        ("akumuli+udp://a,b", "akumuli+udp://a:8383,b:8383"),
        ("opentsdb://a,b,c:1", "opentsdb://a:4242,b:4242,c:1"),
        ("influx://a,b", "influx://a:9009,b:9009"),
        ("influx+http://a,b/db", "influx+http://a:8086,b:8086/db"),
        ("flight://[::1]:1,b", "flight://[::1]:1,b:31337"),
    ],
)
def test_several_hosts(url: str, whole: str) -> None:
    assert check_url(url) == whole and check_url(whole) == whole
    assert not is_ours(whole) and len(each_host(whole)) == url.count(",") + 1
    assert all(check_url(one) == one for one in each_host(whole))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("charrow://a,b", "takes one host: the blocks of a query are shared at one server; name one"),
        ("clickhouse://a,b", "takes one host: a query is answered by one server"),
        ("flight://a,local", "local is a server of our own, and stands alone"),
        ("flight://a,remote", "remote means servers of our own, and stands alone"),
        ("akumuli://a,a:8282", "names a host twice"),
        ("flight://a,", "names no host"),
        ("flight://remote:31337", "on a free port; leave the port out"),
        ("flight+tls://remote", "has no certificate; write flight://remote"),
        ("charrow+tls://remote", "has no certificate; write charrow://remote"),
    ],
)
def test_hosts_that_cannot_be_so(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_url(url)


def test_servers_on_hosts_of_their_own() -> None:
    for url in ("flight://remote", "charrow://remote/db", "akumuli+udp://remote", "influx+http://remote"):
        assert check_url(url) == url and is_remote(url) and is_ours(url)
        assert place_of(url) == "remote" and not is_loopback(url)
    # A database's host may be called so: none of those is started for a run elsewhere.
    assert check_url("mysql://remote/db") == "mysql://remote:3306/db"
    assert not is_remote("mysql://remote:3306/db") and not is_remote("flight://local")


class Core:
    """Raw TCP of a gigabyte a second and connection."""

    def __init__(self, **bad: str) -> None:
        self.asked: dict[str, int] = {}
        self.bad = bad

    def probe_tcp(self, text: str, control: Any) -> str:
        spec = json.loads(text)
        host = spec["target"].removeprefix("flight://")
        self.asked[host] = spec["streams"]
        why = self.bad.get(host)
        outcome = {"outcome": "failed", "error": why} if why else {"outcome": "ok", "error": None}
        return json.dumps({"bytes": spec["streams"] * 10**9, "interval_ns": 10**9, **outcome})


def test_raw_tcp_goes_the_ways_of_the_streams() -> None:
    core = Core()
    spec = {"target": "flight://a,b,c", "streams": 4}
    assert json.loads(probe_tcp(core, json.dumps(spec), None))["bytes"] == 4 * 10**9
    assert core.asked == {"a": 2, "b": 1, "c": 1}
    # Those of a loader begin with its first stream, and none goes where it has none.
    core = Core()
    probe_tcp(core, json.dumps(spec | {"streams": 2, "first": 4}), None)
    assert core.asked == {"b": 1, "c": 1}
    assert json.loads(probe_tcp(Core(c="no"), json.dumps(spec), None))["error"] == "no"


class Far:
    """A server elsewhere."""

    def __init__(self, host: str, sealed: int | None = 1, running: bool = True) -> None:
        addresses = {"resp": f"{host}:1", "http": f"{host}:8181", "udp": None if host == "b" else f"{host}:3"}
        self.hello = {"address": f"{host}:1", "addresses": addresses}
        self.address, self.running, self._sealed = f"{host}:1", running, sealed

    def complaint(self) -> str:
        return "" if self.running else "no room"

    def sealed_bytes(self) -> int | None:
        return self._sealed


def test_servers_that_are_one_target() -> None:
    group = ServerGroup([Far("a"), Far("b", 2)])  # type: ignore[list-item]
    assert group.address == "a:1,b:1" and group.running and group.sealed_bytes() == 3
    assert group.hello["addresses"] == {"resp": "a:1,b:1", "http": "a:8181,b:8181"}
    broken = ServerGroup([Far("a"), Far("b", None, False)])  # type: ignore[list-item]
    assert not broken.running and broken.sealed_bytes() is None
    assert broken.complaint() == "b:1: no room"
