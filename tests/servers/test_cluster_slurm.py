"""`venturi cluster slurm` with Debian's Slurm, a node a namespace."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hosts import NETWORK, hosts
from support.needs import require
from support.read import records
from support.slurm import Slurm, slurm
from support.wait import wait_until
from venturi.cluster.up.up import own_versions

TRIAL = ("--target", "empty://", "--operation", "get", "--streams", 4, "--duration", "200ms")
QUICK = (*TRIAL, "--repeats", 1, "--warmup", 0, "--no-ceilings", "--no-report", "--quiet")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    require(own_versions()["ray"], "ray (venturi[cluster])")
    with hosts(3) as on, slurm(on) as made:
        yield made


def nothing_runs(made: Slurm) -> None:
    """No Ray, no Venturi: Slurm's own daemons are all that is left."""

    def left() -> list[str]:
        lines = [line for host in made.hosts for line in host.commands().values()]
        return [line for line in lines if line and "slurm" not in line.split()[0]]

    wait_until(lambda: not left(), left)


def submitted(made: Slurm, folder: Path, *words: object) -> str:
    asked = ("cluster", "slurm", "-N", 3, "--interface", NETWORK)
    done = made.venturi(*asked, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"Submitted batch job (\d+)\n", done.stdout)
    assert found, done.stdout
    return found[1]


def test_a_scenario_runs_on_an_allocation(cluster: Slurm, tmp_path: Path) -> None:
    number = submitted(cluster, tmp_path, *QUICK, "--loaders", 3, "--out", tmp_path / "run")
    job = cluster.ended(number)
    said = (tmp_path / f"venturi-{number}.out").read_text()
    assert (job["JobState"], job["ExitCode"]) == ("COMPLETED", "0:0"), said
    (record,) = records(tmp_path / "run")
    assert record["outcome"] == "ok"
    assert sorted(host["address"] for host in record["hosts"]) == ["10.77.0.1", "10.77.0.2", "10.77.0.3"]
    nothing_runs(cluster)


def test_inside_an_allocation_and_with_an_error(cluster: Slurm, tmp_path: Path) -> None:
    done = cluster.venturi("cluster", "slurm", "-N", 2, "--interface", NETWORK, "--print", "no-such-scenario")
    (tmp_path / "job.sh").write_text(done.stdout)
    done = cluster.run("salloc", "-N", 2, "bash", tmp_path / "job.sh", cwd=tmp_path, timeout=None)
    # What `venturi run` says and how it ends is what the job says and how it ends.
    assert "no-such-scenario" in done.stderr, done.stderr
    assert done.returncode == 3, done.stderr
    nothing_runs(cluster)


def test_a_cancelled_job_leaves_nothing(cluster: Slurm, tmp_path: Path) -> None:
    long = shlex.split(" ".join(map(str, QUICK)).replace("200ms", "600s"))
    number = submitted(cluster, tmp_path, *long, "--out", tmp_path / "run")
    trial = tmp_path / "run" / "environment.json"  # written before the first trial
    wait_until(trial.exists, (tmp_path / f"venturi-{number}.out").read_text)
    assert cluster.run("scancel", number).returncode == 0
    assert cluster.ended(number)["JobState"] == "CANCELLED"
    nothing_runs(cluster)
    lines = records(tmp_path / "run")
    assert {line["outcome"] for line in lines} <= {"interrupted"}, lines
