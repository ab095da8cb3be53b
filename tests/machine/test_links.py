"""Links between hosts, and what runs get of those that the laboratory makes, here and now."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.hosts import hosts
from support.link import host_has_namespaces  # noqa: F401 - a fixture
from support.read import ran, records
from support.run import venturi
from venturi.analysis import results
from venturi.common.links import parse

pytestmark = pytest.mark.usefixtures("core")

TRIAL = ("--duration", "1s", "--warmup", "0", "--no-report", "--unproven")
PART = parse("1gbit").payload_part


def _measured(tmp_path: Path, *more: str) -> dict[tuple[Any, ...], Any]:
    """The run's cells by operation and loaders."""
    out = tmp_path / "run"
    ran(out, "--target", "flight://local", *TRIAL, *more, cwd=tmp_path)
    cells = results.load(str(out)).cells
    return {(cell.parameters["operation"], cell.parameters["loaders"]): cell for cell in cells}


def test_each_loader_has_a_link_and_all_share_the_backplane(tmp_path: Path) -> None:
    """Twin: tests/unit/test_verdict.py for the verdict, test_cluster_lineup.py for the sums."""
    found = _measured(
        tmp_path,
        *("--link", "60mbit 4ms", "--backplane", "100mbit", "--loaders", "1,2", "--streams", "2"),
        *("--operation", "get,put", "--repeats", "2"),
    )
    assert set(found) == {("get", 1), ("get", 2), ("put", 1), ("put", 2)}
    for (operation, loaders), cell in found.items():
        carried = PART * {1: 60e6, 2: 100e6}[loaders] / 8
        assert 0.85 < cell.throughput.value / carried < 1.02, (operation, loaders, str(cell.throughput))
        assert cell.binding == "link"
        assert abs(cell.ceilings["link"].value / carried - 1) < 0.03
        if loaders == 2:
            hosts = cell.records[0]["hosts"]
            assert [host["host"] for host in hosts] == ["loader-1", "loader-2"]
            rates = [host["rows"] for host in hosts]
            assert min(rates) > 0.3 * max(rates), rates


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: both ends are always on it")
def test_raw_tcp_that_its_ends_limit_is_tried_on_one_cpu_and_on_two(tmp_path: Path) -> None:
    """Over a link that is as fast as it goes, each placement of the ends has a third of the time.

    Twin: tests/unit/test_ceilings.py."""
    words = ("--target", "flight://local", "--operation", "get", "--link", "unshaped,100mbit")
    once = ("--duration", "200ms", "--repeats", 1, "--warmup", 0, "--no-report", "--quiet")
    ran(tmp_path / "run", *words, *once)
    lines = map(json.loads, (tmp_path / "run" / "ceilings.jsonl").read_text().splitlines())
    spent = {line["link"]: line["interval_ns"] for line in lines if line["kind"] == "tcp"}
    # A busy machine stretches both.
    assert spent["unshaped"] < spent["100mbit"] / 2


def test_links_are_looked_at() -> None:
    """Twin: tests/unit/test_links.py, for what is as asked."""
    done = venturi("links", "100mbit 10ms,50mbit/10mbit", "--repeats", 2, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["links"]
    assert first["as_asked"] and second["as_asked"] and len(first["found"]) == 2
    for rate in first["raw_tcp_bits_per_second"]["up"]:
        assert 0.6 < rate / first["asked"]["raw_tcp_at_most"][1] <= 1.03
    for rate in second["raw_tcp_bits_per_second"]["down"]:
        assert 0.7 < rate / second["asked"]["raw_tcp_at_most"][0] <= 1.03
    assert done.stderr == ""


def test_what_this_machine_cannot_carry_fails_the_cell(tmp_path: Path) -> None:
    """Twin: tests/unit/test_links.py, for what is not as asked."""
    given = ("--link", "50mbit,400gbit", "--duration", "300ms", "--repeats", 1, "--warmup", 0)
    words = ("--target", "flight://local", "--operation", "get", *given, "--no-ceilings", "--no-report")
    done = venturi("run", *words, "--out", tmp_path / "run")
    assert done.returncode == 5, done.stderr
    by_link = {line["parameters"]["link"]: line for line in records(tmp_path / "run")}
    good, bad = by_link["50mbit"], by_link["400gbit"]
    assert good["outcome"] == "ok" and good["verification"]["achieved"] == "checksum", good["error"]
    assert good["link"]["asked"] == "50mbit"
    assert bad["outcome"] == "failed" and bad["error"]["kind"] == "link"
    said = bad["error"]["message"]
    assert said.startswith("the path is not 400gbit: ") and "400 Gbit/s were asked for, " in said
    assert said in done.stderr


def test_a_link_that_is_not_as_asked_ends_with_5() -> None:
    done = venturi("links", "400gbit", "--repeats", 1)
    assert done.returncode == 5
    assert done.stdout.startswith("400gbit: NOT as asked: ")
    assert done.stderr.endswith("error: 1 of 1 links are not as asked: 400gbit\n")


def test_the_link_to_each_of_two_servers(core: object) -> None:
    """One that is slower than the other is found, and what both carry at once is more than it.

    Twin: tests/servers/test_cluster_remote.py, test_several_servers, for which links a cell has."""
    with hosts(3) as three, three[1].server() as quick, three[2].server() as slow:
        three[2].shape("20mbit", burst="16kb")
        target = f"flight://{quick.address},{slow.address}"
        words = ("ceilings", target, "--only", "tcp", "--streams", 2, "--repeats", 1, "--duration", "1s")
        done = three[0].venturi(*words, "--format", "json", "--quiet")
    assert done.returncode == 0, done.stderr
    found = [limit for limit in json.loads(done.stdout)["limits"] if limit["place"] != "local"]
    for direction in ("get", "put"):
        rates = {n["name"]: n["bytes_per_second"] for n in found if n["direction"] == direction}
        assert list(rates) == [None, "server-1", "server-2"]
        assert rates["server-2"] < 1.5 * 20e6 / 8 and rates["server-1"] > 3 * 20e6 / 8
        assert rates[None] > 2 * rates["server-2"]
    (way,) = [line["text"] for line in json.loads(done.stdout)["narrowest"] if target[9:] in line["text"]]
    assert f"{quick.address} and 1 more" in way and "alone" not in way
