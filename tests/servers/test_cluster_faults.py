"""Hosts that fail in the middle of a run: a full disk, frozen, dead, cut off; and a driver that ends.

Six hosts (namespaces): four for loaders, the driver on the first of them, and two for servers. It is one
story, because each fault uses up a host. Trials come in pairs: one that would last for ten minutes and ends
by what happens to it, a failed row, and a short one after it that is good again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hosts import NETWORK, Host, RayCluster, hosts, nothing_is_left
from support.needs import require
from support.read import records
from support.run import ROOT, command, environment
from support.wait import wait_until
from venturi.cluster.hosts import own_versions
from venturi.store.directory import RunDirectory

SCENARIO = f"""\
name = "faults"
[target]
url = "flight://remote"
[workload]
operation = "get"
data = "records"
rows_per_batch = 4096
streams = 2
[matrix]
duration = ["600s", "300ms"]
[hosts]
loaders = 2
loader_resource = "loader"
server_resource = "server"
interface = "{NETWORK}"
[run]
warmup = 0
repeats = 50
shuffle = false
ceilings = false
"""


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

    def __init__(self, made: RayCluster, out: Path) -> None:
        self.hosts, self.out, self.said = made.hosts, out, list[str]()
        line = command("run", made.folder / "faults.toml", "--out", out, "--on", "auto", "--no-report")
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

    def _until(self, what: Callable[[], Any]) -> Any:
        def holds() -> Any:
            assert self.process.poll() is None, self.said
            return what()

        return wait_until(holds, lambda: (self.records()[-2:], self.said[-5:]))

    def moving(self) -> tuple[Host, list[Host]]:
        """Waits until a long trial is under way: the host that serves, and those of its loaders, of which the
        driver's may be one."""

        def found() -> tuple[Host, list[Host]] | None:
            if len(self.records()) % 2:
                return None
            for host in self.hosts.hosts[4:]:
                if len(peers := host.peers("venturi serve")) == 2:
                    return host, [one for one in self.hosts if one.address in peers]
            return None

        made: tuple[Host, list[Host]] = self._until(found)
        return made

    def moving_elsewhere(self) -> Host:
        """Waits for the same: the host of a loader that is not the driver's."""
        return next(host for host in self.moving()[1] if host is not self.hosts[0])

    def two_more(self, after: int) -> list[dict[str, Any]]:
        """The records of the pair that begins with number `after`."""
        self._until(lambda: len(self.records()) >= after + 2)
        return self.records()[after : after + 2]

    def ended(self) -> int:
        """Its exit code."""
        code = self.process.wait()
        self._reader.join()
        return code


@pytest.fixture
def cluster(core: Any) -> Iterator[RayCluster]:
    require(own_versions()["ray"], "ray (venturi[cluster])")
    with hosts(6) as six, contextlib.ExitStack() as stack:
        made = RayCluster(six)
        try:
            stack.callback(shutil.rmtree, made.folder, ignore_errors=True)
            # Each loader's host has a disk of its own.
            for host in six.hosts[:4]:
                stack.enter_context(disk(of_ray(made, host), 64))
            (made.folder / "n").chmod(0o700)
            places = [f"--resource={host.name}=loader" for host in six.hosts[:4]]
            places += [f"--resource={host.name}=server" for host in six.hosts[4:]]
            done = made.up("--cpus", 1, *places)
            assert done.returncode == 0, done.stderr
            (made.folder / "faults.toml").write_text(SCENARIO)
            yield made
        finally:
            made.remove()


def of_ray(made: RayCluster, host: Host) -> Path:
    """Where Ray's files of that host are."""
    return made.folder / "n" / host.address


def lost_then_good(found: list[dict[str, Any]], host: Host) -> None:
    """A row that says which host, when, and what had been counted there and everywhere; then a good one."""
    lost, good = found
    assert lost["error"]["kind"] == "lost", lost["error"]
    said = re.search(
        rf"loader-\d \({re.escape(host.address)}\): .*\(\d\d:\d\d:\d\d UTC; last heard of "
        r"(?:[\d.]+ s after|before) the start, ([\d,]+) rows counted\)",
        lost["error"]["message"],
    )
    assert said is not None, lost["error"]["message"]
    (part,) = (one for one in lost["hosts"] if one["address"] == host.address)
    assert part["outcome"] == "failed" and part["rows"] == int(said[1].replace(",", ""))
    assert lost["counts"]["rows"] == sum(one["rows"] for one in lost["hosts"])
    assert good["outcome"] == "ok" and good["verification"]["achieved"] == "checksum", good["error"]
    assert host.address not in {one["address"] for one in good["hosts"]}


def test_hosts_that_fail_in_the_middle_of_a_run(cluster: RayCluster, tmp_path: Path) -> None:
    with disk(tmp_path / "disk", 16) as place:
        driver = Driver(cluster, place / "run")
        try:
            faults_of_a_run(cluster, driver)
            the_drivers_disk_that_is_full(cluster, driver, place)
        finally:
            driver.process.kill()
            driver.process.wait()
    a_driver_that_is_killed(cluster, tmp_path / "killed")


def faults_of_a_run(cluster: RayCluster, driver: Driver) -> None:
    # One is frozen for longer than Ray waits for a host, so it is dead to Ray; when it wakes up it ends what
    # it had. The other one's disk is full: it goes on, for nothing of a trial is kept there.
    frozen = driver.moving_elsewhere()
    (full,) = (host for host in driver.moving()[1] if host is not frozen)
    assert (of_ray(cluster, full) / "ray").is_dir()
    filler = fill(of_ray(cluster, full))
    assert os.statvfs(of_ray(cluster, full)).f_bavail == 0
    assert frozen.signal(signal.SIGSTOP)
    try:
        found = driver.two_more(0)
    finally:
        frozen.signal(signal.SIGCONT)
    lost_then_good(found, frozen)
    assert full.address in {one["address"] for one in found[1]["hosts"]}
    filler.unlink()
    nothing_is_left([frozen])

    # Killed, all of it, at once.
    dead = driver.moving_elsewhere()
    assert dead.signal(signal.SIGKILL)
    lost_then_good(driver.two_more(2), dead)
    done = cluster.venturi("cluster", "status")
    assert done.returncode == 4 and f"{dead.name}  -" in done.stdout, done.stdout

    # A server's host that is cut off. No connection ends and no data come; it is Ray that knows, and another
    # host takes over.
    served, _ = driver.moving()
    served.cut()
    try:
        lost, good = driver.two_more(4)
    finally:
        served.mend()
    error = lost["error"]
    assert error["kind"] == "lost" and f"the server {served.address}:" in error["message"], error
    assert re.search(
        r"its host is gone \(\d\d:\d\d:\d\d UTC, .* the start; [\d,]+ rows counted\)", error["message"]
    )
    assert any(
        "the reference server died: its host is gone; starting another" in line for line in driver.said
    )
    assert good["outcome"] == "ok" and good["target"]["address"].partition(":")[0] != served.address


def the_drivers_disk_that_is_full(cluster: RayCluster, driver: Driver, place: Path) -> None:
    """Nothing that was measured is lost silently, and nothing goes on running anywhere."""
    kept = driver.records()
    driver.moving()
    filler = fill(place)
    # The trial that is under way ends by this. Its row, or the next one, cannot be stored: a short one may
    # find room in the last page of its file.
    assert cluster.hosts[0].signal(signal.SIGKILL, "ray::RayLoader")
    assert driver.ended() == 7
    said = "".join(driver.said)
    assert "the disk is full; trials stored before are safe\nhint: make room" in said, said
    assert re.search(r"warning: measured but not stored: ", said), said
    assert driver.records()[: len(kept)] == kept
    # Of the hosts that were cut off too: they have found their way back, and that they were given up.
    nothing_is_left(cluster.hosts)
    filler.unlink()
    outcomes = [record["outcome"] for record in RunDirectory(place / "run").records()]
    assert outcomes[:6] == ["failed", "ok"] * 3


def a_driver_that_is_killed(cluster: RayCluster, out: Path) -> None:
    driver = Driver(cluster, out)
    driver.moving()
    driver.process.kill()
    driver.ended()
    nothing_is_left(cluster.hosts)
    assert driver.records() == []
