"""Addresses of several hosts, and of servers that a run starts."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.mistakes import check
from venturi import cli
from venturi.cluster.ray_servers import ServerGroup
from venturi.common.credentials import carries_secret, is_secret, scrubbed, without_secrets
from venturi.engine.loader import probe_tcp
from venturi.targets.system import (
    in_process,
    is_charrow,
    is_host_of,
    is_local,
    is_ours,
    is_remote,
    is_time_series,
    is_unix,
)
from venturi.targets.urls import check_url, each_host, is_loopback, place_of, printable, split_url

IS = {
    "local": is_local, "ours": is_ours, "remote": is_remote, "loopback": is_loopback, "socket": is_unix,
    "in process": in_process, "charrow": is_charrow, "series": is_time_series,
}  # fmt: skip


def read(url: str) -> str:
    """What an address comes to, and what it is."""
    whole = check_url(url)
    parts, hosts = split_url(whole), each_host(whole) if "," in whole else []
    assert check_url(whole) == whole
    assert all(check_url(one) == one for one in hosts)
    if is_unix(whole):
        # What stands behind the socket goes, and the rest is an address.
        alone = parts._replace(path="", query="").geturl()
        assert check_url(alone) == alone and place_of(alone) == place_of(whole) and parts.geturl() == whole
    kinds = [name for name, holds in IS.items() if holds(whole)]
    told = {"place": place_of(whole), "path": parts.path, "query": parts.query, "is": ", ".join(kinds)}
    lines = [whole, " ".join(f"{name}={value!r}" for name, value in told.items() if value)]
    return "\n".join([*lines, *(f"host: {one}" for one in hosts)])


def test_addresses() -> None:
    check("addresses", read, "texts")


def test_addresses_of_other_systems() -> None:
    assert all(is_host_of("ray", f"ray://{at}") for at in ("h", "h:1", "[::1]:1", "h:1/"))
    assert not any(
        is_host_of("ray", f"ray://{at}") for at in ("", "u@h", "u:p@h", "h?a=b", "h/x", "[::1", "h:x")
    )


SECRETS = (
    "token Authorization x-api-key accessToken PASSWORD2 pwd client_secret X-Amz-Signature keystore_password "
    "apikey auth"
)
OPEN = "command key num_tokens x-tenant password_encryption author authenticator max_threads compass"


def test_names_of_secrets() -> None:
    assert [name for name in SECRETS.split() if not is_secret(name)] == []
    assert [name for name in ("", *OPEN.split()) if is_secret(name)] == []


def test_secrets_in_a_text() -> None:
    """How a text is shown, and whether it is refused where none may be."""

    def shown(text: str) -> str:
        return without_secrets(text) + ("\nrefused" if carries_secret(text) else "")

    check("secrets", shown, "texts")


def test_secrets_in_a_record() -> None:
    within = {"apiKey": "abc", "tokens": 3, "token": 3, "host": "me:abc@h"}
    shown = {"apiKey": "***", "tokens": 3, "token": 3, "host": "me:***@h"}
    assert scrubbed({"password": "abc", "in": [within]}) == {"password": "***", "in": [shown]}


ANY = st.text().filter(lambda text: "Hush" not in text)


@given(ANY, ANY, ANY, ANY)
@example("mysql", "//u", "/", "h/d")
@example("a b", "", "", "")
def test_nothing_between_a_colon_and_an_at_is_shown(before: str, user: str, after: str, host: str) -> None:
    url = f"{before}:{user}Hush{after}@{host}"
    assert "Hush" not in printable(url)
    with contextlib.suppress(ValueError):
        assert check_url(url).partition("?")[1]  # in the text of a query, which is no secret
        return
    try:
        check_url(url)
    except ValueError as error:
        assert "Hush" not in str(error)


@given(ANY, ANY, ANY, st.sampled_from("?#"))
def test_no_parameter_is_shown(before: str, name: str, after: str, mark: str) -> None:
    assert "Hush" not in printable(f"{before}{mark}{name}Hush{after}")


PIECES = (
    "flight charrow mysql mysql+tls postgres clickhouse sqlite influx+http akumuli empty ray x :// : / // @ "
    "? # & = , [ ] ::1 [::1] % %3a %40 %00 h 127.0.0.1 local remote 1 65536 command token query ticket ä ℀ "
    ".. ' \" { - -- $ \\ Hush"
)
ODD = ("9" * 30, "\0", " ", "\n", "\udcff")
BEGINNINGS = ["", "flight://", "mysql://", "sqlite:///", "influx+http://", "empty://", "flight://h:1?"]
WRITTEN = st.tuples(
    st.sampled_from(BEGINNINGS),
    st.lists(st.sampled_from([*PIECES.split(), *ODD]), max_size=8).map("".join),
).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(url=WRITTEN, flag=st.sampled_from(["--target", "--place", "scenario"]))
@example(url="mysql://u:pw@[::1/db", flag="--target")
@example(url="sqlite:///\0", flag="--target")
@example(url="flight://h/\udcff", flag="--target")
def test_no_url_is_a_fault_of_our_own(
    url: str, flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENTURI_DEBUG", "1")
    words = {"--target": ["--target", url], "--place": ["--place", f"a={url}"], "scenario": [url]}[flag]
    monkeypatch.setattr("sys.argv", ["venturi", "run", "--streams", "1", "--dry-run", *words])
    said = io.StringIO()
    with (
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(said),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main()
    assert ended.value.code in (0, 2, 3), (url, said.getvalue())


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
