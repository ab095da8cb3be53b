"""redis://: what is special about it, against a real server, seen without Venturi."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support import redis as redis_support
from support.core import refused, run_trial, spec
from support.holding import while_held
from support.read import file_of
from support.redis import Client
from venturi.common.errors import VenturiError
from venturi.servers import throwaway

pytestmark = pytest.mark.usefixtures("core")


@pytest.fixture(scope="module")
def server() -> Iterator[throwaway.ThrowawayServer]:
    with redis_support.started() as found:
        yield found


@pytest.fixture
def client(server: throwaway.ThrowawayServer) -> Iterator[Client]:
    with Client(server) as found:
        found.ask("FLUSHALL")
        yield found


def upserted(url: str, place: Path, rows: dict[str, Any], key: list[str], add: list[str], **more: Any) -> Any:
    """The record of a trial of these rows, in one batch, which stay."""
    data = file_of(place / "rows.arrow", pa.table(rows))
    count = len(next(iter(rows.values())))
    given = {"data": data, "upsert": {"key": key, "add": add}, "rows": count, "rows_per_batch": count}
    return run_trial(url, options={"keep": True, **more.pop("options", {})}, **given, **more)


def test_a_row_is_a_hash(server: throwaway.ThrowawayServer, client: Client, tmp_path: Path) -> None:
    rows = {
        "who": ["a:b", "a", "100%", "a:b"],
        "what": ["c", "b:c", "\r\n", "c"],
        "hits": [1, 2, None, 40],
        "seen": ["x", "y", None, "z"],
        "ratio": [0.5, None, -1.25, 2.0],
    }
    record = upserted(server.url, tmp_path, rows, ["who", "what"], ["hits"], options={"table": "venturi_a"})
    assert record["outcome"] == "ok", record["error"]
    found = record["verification"]
    assert (found["rows"], found["achieved"], found["sums"][0]["found"]) == (3, "sums", "43")
    keys = {b"venturi_a:a%3Ab:c", b"venturi_a:a:b%3Ac", b"venturi_a:100%25:\r\n"}
    assert set(client.ask("KEYS", "*")) == keys

    def row(key: str) -> dict[bytes, bytes]:
        flat = client.ask("HGETALL", key)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    assert row("venturi_a:a%3Ab:c") == {b"hits": b"41", b"seen": b"z", b"ratio": b"2e0"}
    assert row("venturi_a:a:b%3Ac") == {b"hits": b"2", b"seen": b"y"}
    assert row("venturi_a:100%25:\r\n") == {b"hits": b"0", b"ratio": b"-1.25e0"}


def test_without_a_counter_the_key_is_there_too(
    server: throwaway.ThrowawayServer, client: Client, tmp_path: Path
) -> None:
    record = upserted(server.url, tmp_path, {"id": [1, 2]}, ["id"], [], options={"table": "venturi_b"})
    assert record["outcome"] == "ok" and record["verification"]["rows"] == 2
    assert client.ask("HGETALL", "venturi_b:2") == [b"id", b"2"]


def test_only_its_own_keys_go(server: throwaway.ThrowawayServer, client: Client) -> None:
    others = (
        "venturi_usage",
        "venturi_usage2:x",
        "xventuri_usage:x",
        "venturi_usage%3A:x",
        "VENTURI_USAGE:x",
    )
    for key in others:
        client.ask("SET", key, "1")
    client.ask("HSET", "venturi_usage:old", "hits", "5")
    record = run_trial(server.url, rows=2000)
    assert record["outcome"] == "ok" and record["verification"]["rows"] == 1000, record
    assert sorted(client.ask("KEYS", "*")) == sorted(key.encode() for key in others)


def test_numbers_of_databases(server: throwaway.ThrowawayServer, client: Client) -> None:
    url = server.url.removesuffix("/0")
    assert run_trial(f"{url}/3", rows=1000, options={"keep": True})["outcome"] == "ok"
    assert client.ask("DBSIZE") == 0
    client.ask("SELECT", "3")
    assert client.ask("DBSIZE") == 1000
    kind, message = refused(f"{url}/99")
    assert kind == "server" and "no database 99" in message and "`databases`" in message
    kind, message = refused(f"{url}/shop")
    assert kind == "usage" and f"{url}/0" in message


def test_a_key_that_is_no_hash(server: throwaway.ThrowawayServer, client: Client, tmp_path: Path) -> None:
    client.ask("SET", "mine:1", "text")
    options = {"table": "mine", "setup": False}
    record = upserted(server.url, tmp_path, {"id": [1], "hits": [1]}, ["id"], ["hits"], options=options)
    assert record["outcome"] == "failed" and "another program has written it" in record["error"]["message"]
    client.ask("DEL", "mine:1")
    client.ask("HSET", "mine:1", "hits", "many")
    record = upserted(server.url, tmp_path, {"id": [1], "hits": [1]}, ["id"], ["hits"], options=options)
    assert record["outcome"] == "failed" and "a counter of mine is" in record["error"]["message"]


def test_commands_for_every_connection(server: throwaway.ThrowawayServer, client: Client) -> None:
    before = b"cmdstat_client|no-evict:calls="
    options = {"init": ["CLIENT NO-EVICT on"]}
    assert run_trial(server.url, rows=1000, streams=2, options=options)["outcome"] == "ok"
    assert before in client.ask("INFO", "commandstats")
    kind, message = refused(server.url, options={"init": ["NOSUCH x"]})
    assert kind == "server" and "NOSUCH x" in message and "unknown command" in message


LINES: dict[str, tuple[dict[str, Any], str]] = {
    "in_flight": ({"in_flight": 2}, "use more --streams"),
    "options": ({"options": {"statement": "text"}}, "statement"),
    "init": ({"options": {"init": ["A\nB"]}}, "one line"),
}


@pytest.mark.parametrize("name", LINES)
def test_what_it_has_not(name: str, server: throwaway.ThrowawayServer) -> None:
    more, part = LINES[name]
    kind, message = refused(server.url, **more)
    assert kind == "usage" and part in message


def test_a_node_of_a_cluster() -> None:
    with redis_support.started(settings={"cluster-enabled": "yes"}) as server:
        kind, message = refused(server.url)
        assert kind == "server" and "a node of a Redis Cluster" in message and server.address in message


def test_a_full_server_refuses_batches() -> None:
    with redis_support.started(memory=3 << 20) as server:
        record = run_trial(server.url, rows=50_000, working_set=50_000)
        assert record["outcome"] == "failed" and record["error"]["kind"] == "server", record
        message = record["error"]["message"]
        assert "OOM" in message and "CONFIG SET maxmemory" in message and server.address in message
        with Client(server) as client:
            assert client.ask("DBSIZE") == 0


def test_the_trial_of_a_replica_s_primary_may_turn(server: throwaway.ThrowawayServer, client: Client) -> None:
    """A server that becomes a replica in mid-trial says READONLY to whole batches: refused, not in doubt."""
    record = while_held(spec(server.url, rows=20_000), lambda *_: client.ask("REPLICAOF", "127.0.0.1", "1"))
    kind, message = refused(server.url)
    client.ask("REPLICAOF", "NO", "ONE")
    assert kind == "server" and "name its primary" in message and server.address in message
    assert record["outcome"] == "failed", record
    assert "READONLY" in record["error"]["message"] and "name its primary" in record["error"]["message"]


def test_a_setting_that_it_does_not_know() -> None:
    with (
        pytest.raises(VenturiError, match=r"Redis did not start: .*nosuch"),
        redis_support.started(settings={"nosuch": "1"}),
    ):
        pass


def test_data_that_stay(tmp_path: Path) -> None:
    for before in (0, 1000):
        with redis_support.started(data=tmp_path / "data") as server, Client(server) as client:
            assert client.ask("DBSIZE") == before
            if not before:
                assert run_trial(server.url, rows=1000, options={"keep": True})["outcome"] == "ok"
