"""Several servers that are one target: what each tells of itself, what is said where they differ, and what
the ways to them carry."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.compare import environment
from support.mistakes import check
from support.run import SMALL, venturi
from support.scenarios import scenario
from support.synthetic import cells, make_run
from support.verdict import cell_of, end, raw_tcp, trial, verdict
from venturi.analysis.advice.collect import several_servers
from venturi.analysis.cells import machines
from venturi.analysis.cells.limits import limits, narrowest
from venturi.analysis.cells.probes import is_single_link
from venturi.analysis.compare import likeness
from venturi.analysis.results import load
from venturi.analysis.verdict.judge import judge
from venturi.analysis.verdict.types import Verdict
from venturi.cli import serving
from venturi.cluster.ray_servers import ServerGroup
from venturi.cluster.trial.loaders_executor import Beside
from venturi.common.environment import collect
from venturi.common.errors import ScenarioError, VenturiError
from venturi.engine.executor import CoreExecutor
from venturi.measure import preflight, trial_targets
from venturi.measure.ceiling_probes import Probe, Prober, probes
from venturi.plan.cell import Cell
from venturi.report.page import page as html_page
from venturi.servers.commanded import Commanded
from venturi.servers.local import LocalTargets, Settings
from venturi.servers.reference import ReferenceServer

TWO = "10.0.0.2:31337", "10.0.0.3:31337"
(PARAMETERS,) = cells(("get",), (4,))


def described(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = environment()["server"]
    return found | {"host": "node2"} | changes


def with_servers(*told: dict[str, Any] | None) -> dict[str, Any]:
    """environment.json of a run whose servers tell this."""
    found = environment() | {"server_hosts": {"remote": dict(zip(TWO, told, strict=False))}}
    return found | {"server": next(one for one in told if one)}


def advised(*told: dict[str, Any] | None) -> dict[str, str]:
    return {a.kind: str(a) for a in several_servers(with_servers(*told))}


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
    page = html_page.page(results)
    assert all(f">server {address}</th>" in page for address in both) and "server_hosts" not in page


def test_one_that_does_not_answer_hides_none_that_does(both: tuple[str, str]) -> None:
    told = trial_targets.ask_environments(f"flight://127.0.0.1:1,{both[0]}/table", {}, 20.0)
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


class Store:
    """One of a group of stores, elsewhere."""

    def __init__(self, host: str) -> None:
        self.address = f"{host}:1"
        addresses = {"resp": f"{host}:1", "opentsdb": f"{host}:2", "http": f"{host}:3", "udp": None}
        self.hello = {"address": self.address, "addresses": addresses, "settings": {"durable": "os"}}
        self.hello |= {"environment": {"host": host}}
        self.running = True

    def stop(self) -> None:
        self.running = False


def test_each_store_of_a_run_tells_of_itself() -> None:
    group = ServerGroup([Store("a"), Store("b")])  # type: ignore[list-item]
    local = LocalTargets(lambda level, text: None, lambda kind, arguments, remote=False: group)
    assert local.environments("opentsdb://remote") == {}
    store = local.store("opentsdb://remote")
    assert store is not None
    store.ready(Settings())
    told = local.environments("opentsdb://remote")
    assert told == {f"{host}:2": {"host": host, "settings": {"durable": "os"}} for host in "ab"}
    # Its own address where it does not serve the protocol.
    assert list(local.environments("akumuli+udp://remote")) == ["a:1", "b:1"]
    local.stop()


def test_every_server_has_a_column() -> None:
    one, two = described(), described(host="node3")
    assert list(machines.environment_ends(with_servers(one, two))) == [
        "client",
        *(f"server {a}" for a in TWO),
    ]
    assert machines.environment_ends(with_servers(one, None))[f"server {TWO[1]}"] == {}
    places = {"servers": {"local": one, "remote": one}}
    assert list(machines.environment_ends(with_servers(one, two) | places)) == [
        "client", "server local", f"server remote {TWO[0]}", f"server remote {TWO[1]}",
    ]  # fmt: skip
    assert list(machines.environment_ends(environment())) == ["client", "server"]


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
        given = {"repeats": 2, "edit": edit, "samples": False, "environment": described}
        return load(make_run(tmp_path / name, cells(("get",), (1,)), **given))

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
    assert machines.in_words("memory", (2**30, 64 * 2**30)) == "1.074 GB, 68.72 GB"


def test_a_verdict_says_how_many_servers_it_saw() -> None:
    def judged(**more: Any) -> Verdict:
        full = end(busy=0.99) | more
        return verdict(same_machine=False, server_end=full, cpu=(0.5, 7.9))

    one, two = judged(), judged(of_servers=2)
    assert (one.kind, one.end) == (two.kind, two.end) == ("cores", "server")
    assert two.sentence == f"{one.sentence}; of 2 servers one was watched"
    assert (one.confidence, two.confidence) == ("high", "medium")
    # What the client does is known, however many servers there are.
    waits = {"server_end": end() | {"of_servers": 2}, "same_machine": False}
    mine = verdict(client_end=end(busy=0.99), cpu=(7.9, 0.5), **waits)
    assert mine.end == "client" and "watched" not in mine.sentence
    texts = [e.text for e in mine.evidence if e.name == "server host"]
    assert len(texts) == 1 and texts[0].startswith("host of one of 2 servers: 15 % of 8 cores busy")
    silent: dict[str, float] = {}
    two_addresses = {"address": ",".join(TWO), "servers": 2, "reference": False}
    unknown = verdict({"await_input": 0.4, "receive": 0.6}, silent, server_end={}, target=two_addresses)
    assert unknown.kind == "unknown"
    assert "of 2 servers not all report their stages" in unknown.sentence


def test_cpus_that_a_server_may_use_count_where_all_may_use_as_many() -> None:
    shares = [1.0, 1.0, *[0.0] * 6]
    full = end(host={"core_busy_share": shares, "busy_share": 0.25}) | {"of_servers": 2}
    moved = trial(parameters={"place": "remote"}, same_machine=False, server_end=full, cpu=(0.5, 1.9))

    def judged(*usable: int) -> str:
        told = [described(cores={"logical": 8, "usable": n}) for n in usable]
        return judge(cell_of(moved), with_servers(*told)).kind

    assert judged(2, 2) == "cores"
    assert judged(2, 8) == judged(8, 2) != "cores"


def test_names_are_looked_up_where_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    book = {"a": ["10.0.0.1", "10.0.0.2"], "b": ["10.0.0.2"], "c": ["10.0.0.3"]}

    def look_up(name: str, port: int, **more: Any) -> list[Any]:
        if name not in book:
            raise socket.gaierror("nobody knows")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in book[name]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    def check(url: str) -> None:
        text = f"[places]\nthere = '{url}'\n"
        preflight.check_hosts(scenario(text), [Cell(PARAMETERS | {"target": url, "place": "there"})])

    with pytest.raises(ScenarioError, match=r"^my.toml:2: .*a:1 and b:1 are one server, 10.0.0.2 port 1;"):
        check("flight://a:1,c:1,b:1")
    for url in (
        "flight://a:1,b:2",
        "flight://a:1,c:1",
        "flight://x:1,y:1",
        "flight://a:1",
        "mysql://a:1,b:1/d",
    ):
        check(url)


# What the ways to them carry.


def test_all_ways_at_once_and_each_alone() -> None:
    """A case is parameters of a cell; the answer is the probes of raw TCP and their connections."""

    def ways(case: str) -> str:
        given: dict[str, Any] = {"streams": 5}
        for word in case.splitlines()[-1].split():
            name, _, text = word.partition("=")
            given[name] = int(text) if text.isdigit() else text
        servers = given.pop("servers", 2)
        asked = probes([Cell(PARAMETERS | given)], servers=servers)
        return "\n".join(f"{p.name or 'all'}: {p.streams}" for p in asked if p.kind == "tcp")

    check("ways", ways, "texts")


def test_only_all_ways_at_once_are_a_limit() -> None:
    alone = [raw_tcp(rate, 4, name=name) for rate, name in ((1e9, "server-1"), (5e9, "server-2"))]
    together = raw_tcp(4e9, 4, name=None)
    cell = cell_of(trial(parameters={"streams": 4}), probes=[*itertools.chain(*alone), *together])
    assert cell.ceilings["raw TCP"].value == 4e9
    cell = cell_of(trial(parameters={"streams": 4}), probes=[*itertools.chain(*alone)])
    assert "raw TCP" not in cell.ceilings


def test_ways_have_titles() -> None:
    def named(name: str | None, place: str = "remote", **more: Any) -> str:
        (limit, *_) = limits(raw_tcp(1e9, 4, place=place, name=name, **more))
        assert (narrowest([limit], place) is None) == is_single_link(name)
        return limit.title.removeprefix("raw TCP get, 4 connections, ")

    assert named("loaders=2") == "remote, 2 loaders" and named(None) == "remote"
    assert named("loader-2") == "remote, loader-2 alone"
    assert named("loader-2:server-1", address=TWO[0]) == f"remote, loader-2 and {TWO[0]} alone"
    assert named("server-2", ",".join(TWO), address=TWO[1]) == f"{TWO[1]} alone"
    assert named("server-2") == "remote, server-2 alone"
    assert named(None, "a:1,b:1,c:1") == "a:1 and 2 more"


def test_connections_go_to_the_servers_that_are_meant(core: Any) -> None:
    """Two servers in this process, asked what they were asked for."""
    cell = Cell(PARAMETERS | {"streams": 3, "operation": "get"})
    with ReferenceServer() as one, ReferenceServer() as two, contextlib.ExitStack() as stack:
        url = f"flight://{one.address},{two.address}"
        prober = Prober(CoreExecutor(), None, stack, stand_in=False)
        size = {"streams": 3, "message_bytes": 65_536}
        probe = Probe("tcp", place="there", direction="get", url=url, cell=cell, **size)

        def line(probe: Probe) -> dict[str, Any]:
            return prober.line(probe, 0, core.Control(), 0.05)

        whole = line(probe)
        assert whole["outcome"] == "ok" and whole["bytes"] > 0 and "address" not in whole, whole
        link = dataclasses.replace(probe, name="server-2", streams=1, server=2)
        assert line(link)["outcome"] == "ok" and line(link)["address"] == two.address
        two.stop()
        # All at once need both, the way to the first one only that.
        assert line(dataclasses.replace(link, name="server-1", server=1))["outcome"] == "ok"
        for lost in (line(link), line(probe)):
            assert lost["outcome"] == "failed" and two.address in lost["error"]["message"], lost


def test_loaders_probe_their_own_ways() -> None:
    """Beside this process: what a probe is from says who makes it."""
    asked: list[tuple[str, Any]] = []

    class Place:
        def __init__(self, name: str) -> None:
            self.name = name

        def probe_tcp(self, spec: str, control: Any) -> str:
            asked.append((self.name, json.loads(spec).get("from")))
            return "{}"

        def control(self) -> None:
            return None

    beside = Beside.__new__(Beside)
    beside._placed, beside._local = Place("placed"), Place("here")  # type: ignore[assignment]
    control = beside.control()
    beside.probe_tcp('{"from": "loader-1", "first": 0}', control)
    beside.probe_tcp("{}", control)
    assert asked == [("placed", "loader-1"), ("here", None)]


@pytest.mark.parametrize("text", ["0", "00", "0MiB"])
def test_nothing_is_a_size_where_it_may_be(text: str) -> None:
    assert serving.count("--ring-memory", text, least=0) == 0
    with pytest.raises(VenturiError, match=f"--memory {text}: must be at least 1"):
        serving.count("--memory", text)


def test_a_port_that_somebody_has_is_no_server_of_a_command() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(VenturiError, match=f"something else listens on port {port}"):
            Commanded("sleep {port}", port).__enter__()
