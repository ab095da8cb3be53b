"""Several servers that are one target: what each tells of itself, and what is said where they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compare_support import environment
from run_support import SMALL, venturi
from synthetic import cells, make_run
from venturi import peers
from venturi.analysis import likeness, server_advice, servers
from venturi.analysis.results import load
from venturi.environment import collect
from venturi.report import html
from venturi.servers import ReferenceServer

TWO = "10.0.0.2:31337", "10.0.0.3:31337"


def described(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = environment()["server"]
    return found | {"host": "node2"} | changes


def with_servers(*told: dict[str, Any] | None) -> dict[str, Any]:
    """environment.json of a run whose servers tell this."""
    found = environment() | {"server_hosts": {"remote": dict(zip(TWO, told, strict=False))}}
    return found | {"server": next(one for one in told if one)}


def advised(*told: dict[str, Any] | None) -> dict[str, str]:
    return {a.kind: str(a) for a in server_advice.advise(with_servers(*told))}


@pytest.fixture(scope="module")
def both(core: object) -> Iterator[tuple[str, str]]:
    """The addresses of two servers."""
    with ReferenceServer() as one, ReferenceServer() as two:
        yield one.address, two.address


def test_a_run_keeps_what_each_server_tells(both: tuple[str, str], tmp_path: Path) -> None:
    target, out = f"flight://{both[0]},{both[1]}", tmp_path / "run"
    done = venturi("run", "--target", target, *SMALL, "--no-ceilings", "--warmup", 0, "--out", out)
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "environment.json").read_text())
    assert list(found["server_hosts"]) == [",".join(both)]
    ((*hosts,),) = (told.items() for told in found["server_hosts"].values())
    assert [address for address, _ in hosts] == list(both)
    assert all(told["boot_id"] == found["client"]["boot_id"] for _, told in hosts)
    assert found["server"] == hosts[0][1] and "servers" not in found
    results = load(out)
    assert results.records[0]["target"]["address"] == ",".join(both)
    assert not {a.kind for a in results.advice} & {"unlike-servers", "silent-servers"}
    page = html.page(results)
    assert all(f">server {address}</th>" in page for address in both) and "server_hosts" not in page


def test_one_that_does_not_answer_hides_none_that_does(both: tuple[str, str]) -> None:
    told = peers.ask(f"flight://127.0.0.1:1,{both[0]}/table", {}, 20.0)
    assert list(told) == ["127.0.0.1:1", both[0]] and told["127.0.0.1:1"] is None
    assert told[both[0]] is not None
    found = collect({"there": told})
    assert found["server"] == told[both[0]] and found["server_hosts"] == {"there": told}


def test_one_server_has_no_list() -> None:
    one, two = described(), described(host="node3")
    found = collect({"here": {"a:1": one}, "there": {"b:1": two}})
    assert (found["server"], found["servers"]) == (one, {"here": one, "there": two})
    assert "server_hosts" not in found and "servers" not in collect({"here": {"a:1": one}})
    assert collect()["server"] is None


def test_every_server_has_a_column() -> None:
    one, two = described(), described(host="node3")
    assert list(servers.ends(with_servers(one, two))) == ["client", *(f"server {a}" for a in TWO)]
    assert servers.ends(with_servers(one, None))[f"server {TWO[1]}"] == {}
    places = {"servers": {"local": one, "remote": one}}
    assert list(servers.ends(with_servers(one, two) | places)) == [
        "client", "server local", f"server remote {TWO[0]}", f"server remote {TWO[1]}",
    ]  # fmt: skip
    assert list(servers.ends(environment())) == ["client", "server"]


def test_hosts_that_differ_are_a_warning() -> None:
    small = {"logical": 4, "physical": 2, "usable": 4}
    # Nobody reads a warning of the host's name, or of what a kernel keeps for itself.
    other = described(host="node3", loadavg=[3.0, 2.0, 1.0], memory={"total": 63 * 2**30})
    assert advised(described(), other) == {}
    found = advised(described(), described(cores=small, memory={"total": 2**30}, kernel="6.9.0"))
    assert found["unlike-servers"].startswith(
        f"the servers of remote differ: cores 8 ({TWO[0]}), 4 ({TWO[1]}); usable cores 8 ({TWO[0]}), "
        f"4 ({TWO[1]}); physical cores 4 ({TWO[0]}), 2 ({TWO[1]}); and 2 more; streams take them in turn"
    )
    durable = ({"settings": {"durable": how}} for how in ("os", "fsync"))
    found = advised(*(described(**settings) for settings in durable))
    assert f"remote differ: durable os ({TWO[0]}), fsync ({TWO[1]});" in found["unlike-servers"]


def test_servers_that_tell_nothing_are_a_warning() -> None:
    found = advised(described(), None)
    assert list(found) == ["silent-servers"]
    said = f"1 of 2 servers of remote tells nothing of itself ({TWO[1]})"
    assert found["silent-servers"].startswith(said)


def test_runs_are_compared_by_all_their_servers(tmp_path: Path) -> None:
    def run(name: str, count: int, *told: dict[str, Any]) -> Any:
        def edit(line: dict[str, Any]) -> dict[str, Any]:
            line["target"]["servers"] = count
            return line

        described = with_servers(*told) | {"run": name}
        few = cells(("get",), (1,))
        return load(
            make_run(tmp_path / name, few, repeats=2, edit=edit, samples=False, environment=described)
        )

    def differing(one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
        facts = likeness.facts(one, other)
        return {f.name: (f.base, f.run) for f in facts if f.differs and f.weight != "note"}

    old, new = described(), described(host="node3", kernel="6.9.0")
    base = run("base", 2, old, described(host="node3"))
    assert differing(base, run("turned", 2, described(host="node3"), old)) == {}
    mixed = run("mixed", 2, old, new)
    assert differing(base, mixed) == {"kernel": ("6.1.0", ("6.1.0", "6.9.0"))}
    assert differing(mixed, run("again", 2, new, old)) == {}
    assert differing(base, run("single", 1, old)) == {"servers": (2, 1)}
    small = run("small", 2, old, described(host="node3", memory={"total": 2**30}))
    refused = likeness.refusal(likeness.facts(base, run("cpu", 2, old, described(cpu="Another"))))
    assert refused == "the server's CPU differs (Model CPU | Another, Model CPU)"
    assert differing(base, small) == {"memory": (64 * 2**30, (2**30, 64 * 2**30))}
    assert likeness.in_words("memory", (2**30, 64 * 2**30)) == "1.074 GB, 68.72 GB"
