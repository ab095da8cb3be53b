"""Hosts that fail in the middle of a run: slow, frozen, cut off, dead, with disks that are full.

Six hosts (namespaces): four for loaders, the driver on the first of them, and two for servers. One run goes
on all the while: what a fault costs is a failed row, and the rows after it are good again. The tests stand in
the order in which hosts are used up, and each needs those before it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hosts import NETWORK, Host, RayCluster, busy, hosts, nothing_is_left, records
from support.needs import require
from support.run import ROOT, command, environment
from venturi.analysis.advice.stragglers import LEAST_OF_TWO
from venturi.analysis.results import Results
from venturi.cluster.up.up import own_versions
from venturi.store.directory import RunDirectory

pytestmark = [pytest.mark.slow, pytest.mark.noisy]
SCENARIO = f"""\
name = "faults"
[target]
url = "flight://remote"
[workload]
operation = "get"
data = "records"
rows_per_batch = 4096
streams = 2
duration = "3s"
[hosts]
loaders = 2
loader_resource = "loader"
server_resource = "server"
interface = "{NETWORK}"
[run]
warmup = 0
repeats = 500
ceilings = false
"""
SECONDS = 90.0
"""For what takes some: the machine may be busy with other tests."""


@contextlib.contextmanager
def disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A disk of its own of that size."""
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "venturi-test", str(place)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"a disk for the test ({done.stderr.strip()})")
    try:
        yield place
    finally:
        # Lazily: who still has a file open there keeps it.
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def fill(place: Path) -> Path:
    """A file that takes all the room that is left."""
    filler = place / "filler"
    with open(filler, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(65536)):
            pass
    return filler


class Driver:
    """A run on the first host that goes on until it is ended."""

    def __init__(self, made: RayCluster, out: Path, *words: object) -> None:
        self.out, self.said = out, list[str]()
        line = command("run", *words, "--on", "auto", "--no-report")
        variables = environment(**made.variables)
        self.process = made.hosts[0].start(*line, env=variables, cwd=ROOT, stdout=subprocess.DEVNULL)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)

    def records(self) -> list[dict[str, Any]]:
        return records(self.out)

    def wait_for(self, what: Callable[[list[dict[str, Any]]], bool], after: int = 0) -> list[dict[str, Any]]:
        """The records from number `after` on, once they are `what`."""
        until = time.monotonic() + SECONDS
        while not what(found := self.records()[after:]):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until, (found[-2:], self.said[-5:])
            time.sleep(0.1)
        return found

    def moving(self) -> int:
        """Waits until one trial has ended and the next one is under way; how many have ended."""
        self.wait_for(bool, len(self.records()))
        time.sleep(1.0)
        return len(self.records())

    def ended(self) -> int:
        """Its exit code."""
        code = self.process.wait(SECONDS)
        self._reader.join(10)
        return code


def bad_then_good(found: list[dict[str, Any]]) -> bool:
    outcomes = [record["outcome"] for record in found]
    return "failed" in outcomes and "ok" in outcomes[outcomes.index("failed") :]


def first_bad(found: list[dict[str, Any]]) -> dict[str, Any]:
    return next(record for record in found if record["outcome"] == "failed")


@pytest.fixture(scope="module")
def cluster(core: Any) -> Iterator[RayCluster]:
    require(own_versions()["ray"], "ray (venturi[cluster])")
    with hosts(6) as six, contextlib.ExitStack() as stack:
        made = RayCluster(six)
        try:
            stack.callback(shutil.rmtree, made.folder, ignore_errors=True)
            # The last loader's host has a disk of its own.
            stack.enter_context(disk(made.folder / "n" / six[3].address, 48))
            (made.folder / "n").chmod(0o700)
            places = [f"--resource={host.name}=loader" for host in six.hosts[:4]]
            places += [f"--resource={host.name}=server" for host in six.hosts[4:]]
            done = made.up("--cpus", 1, *places)
            assert done.returncode == 0, done.stderr
            (made.folder / "faults.toml").write_text(SCENARIO)
            yield made
        finally:
            made.remove()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The disk of the run's directory."""
    with disk(tmp_path_factory.mktemp("faults") / "disk", 16) as made:
        yield made


@pytest.fixture(scope="module")
def driver(cluster: RayCluster, place: Path) -> Iterator[Driver]:
    made = Driver(cluster, place / "run", cluster.folder / "faults.toml", "--out", place / "run")
    yield made
    made.process.kill()
    made.process.wait()


def host_of(cluster: RayCluster, word: str, but: Host | None = None) -> Host:
    """One of the hosts where such a process runs."""
    names = [line.partition(":")[0] for line in busy(cluster.hosts) if word in line]
    return next(host for host in cluster.hosts if host.name in names and host is not but)


def lost_row(record: dict[str, Any], host: Host) -> None:
    """It says which host, when, and what had been counted there and everywhere."""
    error = record["error"]
    assert error["kind"] == "lost", error
    found = re.search(
        rf"loader-\d \({re.escape(host.address)}\): .*\(\d\d:\d\d:\d\d UTC; last heard of "
        r"(?:[\d.]+ s after|before) the start, ([\d,]+) rows counted\)",
        error["message"],
    )
    assert found is not None, error["message"]
    (part,) = (one for one in record["hosts"] if one["address"] == host.address)
    assert part["outcome"] == "failed" and part["rows"] == int(found[1].replace(",", ""))
    assert record["counts"]["rows"] == sum(one["rows"] for one in record["hosts"])


def test_a_host_whose_link_is_slow(cluster: RayCluster, driver: Driver) -> None:
    """No fault: it has moved less than the other, what it has moved is right, and a warning names it."""
    driver.wait_for(bool)
    slow = host_of(cluster, "ray::RayLoader", but=cluster.hosts[0])
    slow.shape("40mbit")
    try:
        # The first one from now has seen another link too.
        found = driver.wait_for(lambda found: len(found) > LEAST_OF_TWO, len(driver.records()))[1:]
    finally:
        slow.unshape()
    for record in found:
        assert record["outcome"] == "ok" and record["verification"]["achieved"] == "checksum", record["error"]
        rows = {part["address"]: part["rows"] for part in record["hosts"]}
        assert len(rows) == 2 and 0 < rows.pop(slow.address) < min(rows.values()) / 2
    results = Results(RunDirectory(driver.out), found, [])
    (warning,) = (advice for advice in results.advice if advice.kind == "straggler")
    assert f"({slow.address}) is the slower one of two" in warning.finding, warning
    (behind,) = results.stragglers.values()
    assert [one.address for one in behind] == [slow.address]


def test_a_loaders_disk_that_is_full(cluster: RayCluster, driver: Driver) -> None:
    """Ray's directory without room: whoever measures there goes on, for nothing of a trial is kept there."""
    of_ray = cluster.folder / "n" / cluster.hosts[3].address
    assert (of_ray / "ray").is_dir()
    filler = fill(of_ray)
    try:
        assert os.statvfs(of_ray).f_bavail == 0
        found = driver.wait_for(lambda found: len(found) > 1, len(driver.records()))
        assert [record["outcome"] for record in found] == ["ok"] * len(found)
    finally:
        filler.unlink()


def test_a_host_that_is_frozen(cluster: RayCluster, driver: Driver) -> None:
    """Longer than Ray waits for a host, so it is dead to Ray; when it wakes up it ends what it had."""
    count = driver.moving()
    host = host_of(cluster, "ray::RayLoader", but=cluster.hosts[0])
    began = time.monotonic()
    assert host.signal(signal.SIGSTOP)
    try:
        lost_row(first_bad(driver.wait_for(bad_then_good, count)), host)
        time.sleep(max(0.0, began + 10.0 - time.monotonic()))
    finally:
        host.signal(signal.SIGCONT)
    nothing_is_left([host], SECONDS)


def test_a_link_that_is_cut(cluster: RayCluster, driver: Driver) -> None:
    count = driver.moving()
    host = host_of(cluster, "ray::RayLoader", but=cluster.hosts[0])
    host.cut()
    try:
        lost_row(first_bad(driver.wait_for(bad_then_good, count)), host)
    finally:
        host.mend()


def test_a_servers_host_that_is_cut_off(cluster: RayCluster, driver: Driver) -> None:
    """No connection ends and no data come; it is Ray that knows, and another host takes over."""
    count = driver.moving()
    host = host_of(cluster, "ray::RayServer")
    host.cut()
    try:
        found = driver.wait_for(bad_then_good, count)
    finally:
        host.mend()
    error = first_bad(found)["error"]
    assert error["kind"] == "lost" and f"the server {host.address}:" in error["message"], error
    assert re.search(
        r"its host is gone \(\d\d:\d\d:\d\d UTC, .* the start; [\d,]+ rows counted\)", error["message"]
    )
    assert any(
        "the reference server died: its host is gone; starting another" in line for line in driver.said
    )
    record = next(record for record in reversed(found) if record["outcome"] == "ok")
    assert record["target"]["address"].partition(":")[0] not in (None, host.address)


def test_the_drivers_disk_that_is_full(cluster: RayCluster, driver: Driver, place: Path) -> None:
    """Nothing that was measured is lost silently, and nothing goes on running anywhere."""
    driver.moving()
    kept = driver.records()
    filler = fill(place)
    assert driver.ended() == 7
    said = "".join(driver.said)
    assert "the disk is full; trials stored before are safe\nhint: make room" in said, said
    assert re.search(r"warning: measured but not stored: .* MB/s\n", said), said
    assert driver.records()[: len(kept)] == kept
    # Of the hosts that were cut off too: they have found their way back, and that they were given up.
    nothing_is_left(cluster.hosts, SECONDS)
    filler.unlink()
    assert [record["outcome"] for record in RunDirectory(place / "run").records()].count("failed") >= 3
