"""Several loaders over links: a link each to a switch, and one way on from there to the server."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import venturi as api
from support.link import gone, laboratory, until
from support.run import venturi
from venturi.analysis import results
from venturi.common.links import parse
from venturi.lab.hosts import Hosts, address

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("core")]

TRIAL = ("--duration", "1s", "--warmup", "0", "--no-report", "--unproven")
PART = parse("1gbit").payload_part


def _measured(tmp_path: Path, *more: str) -> dict[tuple[Any, ...], Any]:
    """The run's cells by operation and loaders."""
    with laboratory():
        pass
    out = tmp_path / "run"
    done = venturi("run", "--target", "flight://local", "--out", out, *TRIAL, *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cells = results.load(str(out)).cells
    return {(cell.parameters["operation"], cell.parameters["loaders"]): cell for cell in cells}


def test_each_loader_has_a_link_and_all_share_the_backplane(tmp_path: Path) -> None:
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


def test_without_a_backplane_loaders_share_what_one_link_carries(tmp_path: Path) -> None:
    found = _measured(tmp_path, "--link", "40mbit", "--loaders", "3", "--streams", "3", "--repeats", "1")
    (cell,) = found.values()
    assert 0.85 < cell.throughput.value / (PART * 40e6 / 8) < 1.02


def test_a_loader_that_is_killed_fails_its_trial_and_is_replaced(tmp_path: Path) -> None:
    with laboratory():
        pass
    killed: list[int] = []

    def told(event: api.Event) -> None:
        if not killed and event.moved is not None and event.moved.rows:
            killed.append(until(os.getpid(), "venturi.cluster.trial.process"))
            os.kill(killed[0], signal.SIGKILL)

    run = api.run(
        out=tmp_path / "run", target="flight://local", link="50mbit", loaders=2, streams=2,
        duration="3s", repeats=2, warmup=0, unproven=True, progress=told,
    )  # fmt: skip
    first, second = run.trials.to_pylist()
    assert (first["outcome"], second["outcome"]) == ("failed", "ok"), first["error_message"]
    assert first["error_kind"] == "lost" and "loader-" in first["error_message"]
    gone(killed)


def test_every_host_has_an_address_of_its_own() -> None:
    hosts = Hosts(600)
    addresses = [address(end) for end in hosts.ends]
    assert len(set(addresses)) == len(hosts.ends) == 601
    assert all(0 < int(part) < 255 for it in addresses for part in it.split(".")[2:] if it[6:8] != "0.")
    assert hosts.middle == ("trunk-s", "toward-s") and Hosts().middle == ("toward-c", "toward-s")
    assert max(map(len, hosts.ports)) <= 15, "an interface's name"
