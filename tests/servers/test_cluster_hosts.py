"""Trials on five hosts (namespaces): four loaders, one server behind a link of 1 Gbit/s; hosts that die."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from support.hosts import NETWORK, RayCluster, busy, hosts, nothing_is_left, records
from support.needs import require
from support.run import ROOT, command, environment
from venturi.analysis import results
from venturi.cluster.up.up import own_versions

pytestmark = [pytest.mark.slow, pytest.mark.noisy]
GIGABIT = 1e9 / 8
SCENARIO = f"""\
name = "five"
[target]
url = "flight://remote"
[workload]
operation = "get"
data = "records"
rows_per_batch = 4096
threads = "streams"
[hosts]
loader_resource = "loader"
server_resource = "server"
interface = "{NETWORK}"
"""


@pytest.fixture(scope="module")
def nodes(core: Any) -> Iterator[RayCluster]:
    require(own_versions()["ray"], "ray (venturi[cluster])")
    require(hasattr(core.Control, "start_at"), "venturi._core with shares")
    with hosts(5) as five:
        five[4].shape("1gbit")
        made = RayCluster(five)
        try:
            bring_up(made)
            (made.folder / "five.toml").write_text(SCENARIO)
            yield made
        finally:
            made.remove()


def bring_up(nodes: RayCluster) -> None:
    places = [
        f"--resource={host.name}={'loader' if host is not nodes.hosts[4] else 'server'}"
        for host in nodes.hosts
    ]
    done = nodes.up("--cpus", 1, *places)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def cluster(nodes: RayCluster) -> RayCluster:
    """All five of them: a test that is run again may have killed one."""
    if nodes.venturi("cluster", "status").returncode != 0:
        nodes.down()
        bring_up(nodes)
    return nodes


def words(made: RayCluster, out: Path, *more: object) -> list[str]:
    return command("run", made.folder / "five.toml", "--on", "auto", "--out", out, "--no-report", *more)


def test_a_link_that_limits_one_and_four_loaders(cluster: RayCluster, tmp_path: Path) -> None:
    out = tmp_path / "run"
    given = ("--loaders", "1,4", "--streams", 4, "--duration", "2s", "--repeats", 2, "--warmup", 0)
    done = cluster.hosts[0].run(
        *words(cluster, out, *given), env=environment(**cluster.variables), cwd=ROOT, timeout=180
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = records(out)
    assert len(found) == 4
    for record in found:
        assert record["outcome"] == "ok", record["error"]
        assert record["verification"]["achieved"] == "checksum"
        count = record["parameters"]["loaders"]
        parts = record["hosts"]
        assert len(parts) == count and len({host["address"] for host in parts}) == count
        for name in ("rows", "batches", "payload_bytes"):
            assert sum(host[name] for host in parts) == record["counts"][name]
        assert sum(host["streams"][1] for host in parts) == 4
        assert record["target"]["address"].startswith("10.77.0.5:")
    loaded = results.load(out)
    assert len(loaded.cells) == 2
    for cell in loaded.cells:
        rate = median(r["counts"]["payload_bytes"] * 1e9 / r["times"]["interval_ns"] for r in cell.records)
        # What TCP and Ethernet leave of a gigabit is 0.949 of it; the bucket's burst may come on top.
        assert 0.95 * 0.94 * GIGABIT < rate < 0.97 * GIGABIT, rate
        assert loaded.verdicts[cell.name].kind == "link", loaded.verdicts[cell.name]
    (four,) = (cell for cell in loaded.cells if cell.parameters["loaders"] == 4)
    shares = [
        median(
            record["hosts"][n]["payload_bytes"] / record["counts"]["payload_bytes"] for record in four.records
        )
        for n in range(4)
    ]
    assert all(abs(share - 0.25) <= 0.025 for share in shares), shares
    nothing_is_left(cluster.hosts)


def started(made: RayCluster, out: Path, *more: object) -> subprocess.Popen[str]:
    """A run whose first trial has ended, and whose second one is under way."""
    driver = made.hosts[0].start(*words(made, out, *more), env=environment(**made.variables), cwd=ROOT)
    until = time.monotonic() + 90
    while len(records(out)) < 1:
        assert driver.poll() is None and time.monotonic() < until, driver.communicate()
        time.sleep(0.1)
    time.sleep(2.0)
    return driver


MOVING = ("--loaders", 3, "--streams", 3, "--duration", "4s", "--warmup", 0, "--no-ceilings")


def test_a_driver_that_is_killed(cluster: RayCluster, tmp_path: Path) -> None:
    driver = started(cluster, tmp_path / "run", *MOVING, "--repeats", 3)
    driver.kill()
    driver.communicate()
    nothing_is_left(cluster.hosts)
    assert [record["outcome"] for record in records(tmp_path / "run")] == ["ok"]


def test_a_node_that_is_killed(cluster: RayCluster, tmp_path: Path) -> None:
    """Three of four loaders' hosts are needed: the fourth takes over."""
    out = tmp_path / "run"
    driver = started(cluster, out, *MOVING, "--repeats", 4)
    # A host of a loader that is not the driver's.
    victim = next(
        host
        for host in reversed(cluster.hosts.hosts[1:4])
        if any(f"{host.name}:" in line and "ray::RayLoader" in line for line in busy(cluster.hosts))
    )
    assert victim.signal(signal.SIGKILL)
    stdout, stderr = driver.communicate(timeout=120)
    found = records(out)
    assert [record["outcome"] for record in found].count("failed") == 1, stdout + stderr
    (failed,) = (record for record in found if record["outcome"] == "failed")
    assert failed["error"]["kind"] == "lost" and victim.address in failed["error"]["message"], failed["error"]
    assert found[-1]["outcome"] == "ok" and victim.address not in {h["address"] for h in found[-1]["hosts"]}
    assert driver.returncode == 5
    nothing_is_left(cluster.hosts)
    done = cluster.venturi("cluster", "status")
    assert done.returncode == 4 and f"{victim.name}  -" in done.stdout, done.stdout
