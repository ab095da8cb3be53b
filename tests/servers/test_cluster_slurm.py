"""`venturi cluster slurm` with Debian's Slurm, a node a namespace."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hosts import NETWORK, Hosts, hosts
from support.installed import DEBIAN, program
from support.needs import require
from support.read import records
from support.run import ROOT, command, environment
from support.wait import wait_until
from venturi.cluster.hosts import own_versions

_LIBRARIES = ("libmunge.so.2", "libhwloc.so.15", "liblua5.1.so.0", "libslurmfull.so")
_CONFIG = """\
ClusterName=venturi
SlurmctldHost=h1(10.77.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
PluginDir={plugins}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=30
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
"""
# A node's name is the host's: a name of its own, in a namespace of its own.
_NAMED = 'echo "$1" >/proc/sys/kernel/hostname; shift; exec "$@"'


class Slurm:
    """A cluster over `hosts`, whose nodes are called h1, h2, ..."""

    def __init__(self, on: Hosts) -> None:
        self.hosts = on
        self.folder = Path(tempfile.mkdtemp(prefix="vts", dir="/tmp"))
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._programs = {
            name: program(f"{name}-wlm", name) for name in ("slurmctld", "slurmd", "slurmstepd", "munged")
        }

    def start(self) -> None:
        require(all(self._programs.values()), "slurm-wlm and munge (tools/install-servers)")
        libraries = self.folder / "lib"
        libraries.mkdir()
        for name in _LIBRARIES:
            for place in (DEBIAN / "usr/lib").glob(f"*-linux-gnu*/**/{name}"):
                (libraries / name).symlink_to(place)
        plugins = next(iter((DEBIAN / "usr/lib").glob("*-linux-gnu*/slurm-wlm")), None)
        plugins = plugins or next(Path("/usr/lib").glob("*-linux-gnu*/slurm-wlm"))
        for name in ("state", *(f"spool-h{host.number}" for host in self.hosts)):
            (self.folder / name).mkdir()
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        nodes = "\n".join(
            f"NodeName=h{h.number} NodeAddr={h.address} CPUs=1 RealMemory=1000" for h in self.hosts
        )
        text = _CONFIG.format(folder=self.folder, plugins=plugins, nodes=nodes)
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        files = [f"--{what}-file={self.folder}/munge.{what}" for what in ("key", "log", "pid", "seed")]
        self._daemon(
            [str(self._programs["munged"]), "-F", "-f", f"--socket={self.folder}/munge.socket", *files]
        )
        wait_until((self.folder / "munge.socket").exists)
        for host in self.hosts:
            named = [*host.inside(), "unshare", "--uts", "sh", "-c", _NAMED, "sh", f"h{host.number}"]
            config = ["-f", str(self.folder / "slurm.conf"), "-D"]
            if host.number == 1:
                self._daemon([*named, str(self._programs["slurmctld"]), *config, "-c"])
            self._daemon(
                [*named, str(self._programs["slurmd"]), *config, "-d", str(self._programs["slurmstepd"])]
            )
        idle = ["idle"] * len(self.hosts.hosts)
        wait_until(lambda: self._states() == idle, self._logs)

    def _states(self) -> list[str]:
        return self.run("sinfo", "-h", "-N", "-o", "%T").stdout.split()

    def _logs(self) -> str:
        logs = "\n".join(path.read_text()[-1000:] for path in self.folder.glob("*.log"))
        return f"nodes are {self._states()}\n{logs}"

    def _daemon(self, words: list[str]) -> None:
        with open(self.folder / "output", "ab") as output:
            self._daemons.append(
                subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.environment()
                )
            )

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(DEBIAN / "usr/bin"), os.environ["PATH"]])
        conf = str(self.folder / "slurm.conf")
        ours = {"PATH": path, "SLURM_CONF": conf, "LD_LIBRARY_PATH": str(self.folder / "lib")}
        return environment(**ours, XDG_STATE_HOME=str(self.folder / "home"))

    def run(self, *words: object, cwd: Path = ROOT, **more: object) -> subprocess.CompletedProcess[str]:
        """A command as on the login node, which is the first host."""
        return self.hosts[0].run(*words, env=self.environment(), cwd=cwd, **more)

    def venturi(self, *words: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        return self.run(*command(*words), cwd=cwd, timeout=None)

    def job(self, number: str) -> dict[str, str]:
        """What Slurm says of a job: JobState, ExitCode and the rest."""
        done = self.run("scontrol", "show", "job", "-o", number)
        return dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)

    def ended(self, number: str) -> dict[str, str]:
        going = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")
        return wait_until(lambda: job if (job := self.job(number))["JobState"] not in going else {})

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
            daemon.kill()
            daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


TRIAL = ("--target", "empty://", "--operation", "get", "--streams", 4, "--duration", "200ms")
QUICK = (*TRIAL, "--repeats", 1, "--warmup", 0, "--no-ceilings", "--no-report", "--quiet")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Slurm]:
    require(own_versions()["ray"], "ray (venturi[cluster])")
    with hosts(3) as on, contextlib.ExitStack() as stack:
        made = Slurm(on)
        stack.callback(made.stop)
        made.start()
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
    # Slurm ends the trial's server too, which the trial may see before its own end.
    lines = records(tmp_path / "run")
    assert "ok" not in {line["outcome"] for line in lines}, lines
