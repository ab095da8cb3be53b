"""`venturi cluster up`, `status` and `down` with real Ray nodes on namespaces as hosts."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hosts import NETWORK, Host, Hosts, RayCluster, hosts
from support.installed import program, unpacked_libraries
from support.needs import require
from support.read import records
from support.run import ROOT, command, environment
from support.wait import wait_until
from venturi.cluster.hosts import Answer, Plan, Remote, own_versions, up
from venturi.common.errors import VenturiError

# sshd wants a user of its own and a directory of root's: in a view of the file system that only it has.
_AS_INSTALLED = """
set -eu
mount --bind "$1/passwd" /etc/passwd
mkdir -p /run/sshd
mount --bind "$1/empty" /run/sshd
shift
exec "$@"
"""
_SERVER = """\
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
LogLevel ERROR
"""
_CLIENT = """\
Host *
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 30
"""


@contextlib.contextmanager
def ssh(on: Hosts) -> Iterator[str]:
    """The command that runs another on a host: `ssh -F FILE`, which knows them as h1, h2, ..."""
    server = program("sshd")
    require(server and shutil.which("ssh"), "sshd and ssh (tools/install-servers)")
    folder = Path(tempfile.mkdtemp(prefix="vtssh", dir="/tmp"))
    running = []
    try:
        for name in ("host", "key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, timeout=20)
        (folder / "empty").mkdir()
        passwd = Path("/etc/passwd").read_text()
        if "sshd" not in {user.pw_name for user in pwd.getpwall()}:
            passwd += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
        (folder / "passwd").write_text(passwd)
        (folder / "sshd_config").write_text(_SERVER.format(folder=folder))
        names = "".join(f"Host h{host.number}\n  HostName {host.address}\n" for host in on)
        (folder / "config").write_text(names + _CLIENT.format(folder=folder))
        libraries = unpacked_libraries()
        for host in on:
            prepared = ["unshare", "--mount", "sh", "-c", _AS_INSTALLED, "sh", folder]
            words = [server, "-D", "-e", "-f", folder / "sshd_config"]
            running.append(host.start(*prepared, *words, env={**os.environ, "LD_LIBRARY_PATH": libraries}))
        command = f"ssh -F {folder / 'config'}"
        for host in on:
            reach = [*command.split(), f"h{host.number}", "true"]
            wait_until(lambda reach=reach: on[0].run(*reach).returncode == 0)
        yield command
    finally:
        for process in running:
            process.terminate()
            process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


JOIN = "import ray, sys; ray.init(address=sys.argv[1], logging_level='ERROR'); print(len(ray.nodes()))"
GATEWAY = "10.77.0.254"
SILENT = """
from ray._raylet import Config
print(Config.grpc_client_keepalive_time_ms(), Config.grpc_client_keepalive_timeout_ms())
"""


@pytest.fixture(scope="module")
def three() -> Iterator[Hosts]:
    require(own_versions()["ray"], "ray (venturi[cluster])")
    with hosts(3) as made:
        yield made


@pytest.fixture
def cluster(three: Hosts) -> Iterator[RayCluster]:
    made = RayCluster(three)
    yield made
    made.remove()


def left(on: Hosts) -> list[str]:
    return [line for host in on for line in host.commands().values() if line]


def asks_nobody_outside(host: Host) -> bool:
    """Whether the host has tried to reach its way out, which is an address that nobody has."""
    return not host.run("ip", "neigh", "show", GATEWAY).stdout


def test_how_soon_ray_knows_that_a_connection_is_silent() -> None:
    """A host that stays cut off ends by itself, as docs/cluster.md has it for these settings of Ray's."""
    require(own_versions()["ray"], "ray (venturi[cluster])")
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    words = [sys.executable, "-c", SILENT]
    done = subprocess.run(words, env=alone, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["300000", "120000"]
    said = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert "not acknowledged for 120 s" in said and "probed every 300 s" in said


def test_up_status_down(three: Hosts, cluster: RayCluster) -> None:
    head, second, third = three
    # All ways lead somewhere now, so that asking anybody outside would be seen.
    for host in three:
        host.run("ip", "route", "replace", "default", "via", GATEWAY)
    done = cluster.up("--cpus", 2, "--resource", f"{third.name}=server:2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("3 hosts on Ray ") and lines[0].endswith(f"{head.name} (10.77.0.1:6379)")
    assert lines[1].split()[:2] == [head.name, "10.77.0.1"] and lines[1].endswith("head")
    assert "next:  venturi run SCENARIO --on auto" in lines

    done = cluster.venturi("cluster", "status")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[2] for line in done.stdout.splitlines()] == ["joined"] * 3

    # A second one on the same hosts is refused, with the way out; the first one lives on.
    again = RayCluster(three)
    again.folder.rmdir()
    again.folder = cluster.folder
    again.variables = {"XDG_STATE_HOME": str(cluster.folder / "other")}
    done = again.up()
    assert done.returncode == 2 and "runs there already" in done.stderr, done.stderr
    assert f"venturi cluster down --hosts {three.names}" in done.stderr

    # Whoever has not the token has nothing; it takes a while to believe it.
    stranger = second.start(sys.executable, "-c", JOIN, "10.77.0.1:6379")
    wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    trial = command("run", "--target", "empty://", "--on", "auto", "--out", cluster.folder / "refused")
    another = head.start(*trial, env=environment(**cluster.variables, **wrong), cwd=ROOT)
    for host in three:
        assert asks_nobody_outside(host)
        host.run(
            sys.executable, "-c", "import socket; socket.create_connection(('169.254.169.254', 80), 0.2)"
        )
        assert not asks_nobody_outside(host), "the test sees nothing"

    # A node that is killed is told of, and what it leaves behind is ended too.
    (killed,) = second.signal(signal.SIGKILL, "ray.scripts.scripts start")

    def known() -> subprocess.CompletedProcess[str] | None:
        done = cluster.venturi("cluster", "status")
        return done if done.stdout.splitlines()[1].split()[2:4] == ["no", "node"] else None

    done = wait_until(known)
    assert done is not None and done.returncode == 4 and killed
    assert done.stdout.splitlines()[0].split()[2] == "joined"
    _, refused = stranger.communicate()
    assert stranger.returncode == 1 and "Failed to connect to Ray cluster" in refused, refused[-2000:]
    _, refused = another.communicate()
    assert another.returncode == 4, refused
    assert "error: --on auto: the Ray cluster demands another token than this process has\n" in refused
    done = cluster.down()
    assert (done.returncode, done.stdout) == (0, "3 nodes ended on 3 hosts\n"), done.stderr
    assert left(three) == []
    assert not (cluster.folder / "n").exists() or not list((cluster.folder / "n").iterdir())
    done = cluster.down()
    assert (done.returncode, done.stdout) == (0, "no cluster was started from here\n")
    where = ("--hosts", three.names, "--ssh", "ip netns exec", "--directory", cluster.folder / "n")
    done = cluster.venturi("cluster", "down", *where)
    assert (done.returncode, done.stdout) == (0, "0 nodes ended on 3 hosts\n")


def test_hosts_that_cannot_join(three: Hosts, cluster: RayCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that reaches nobody, and one with another token: both are named, and nothing is left running."""
    head, away, stranger = three
    ask = Remote.ask

    def asked(self: Remote, host: str, do: str, *more: object, **order: Any) -> Answer:
        if host == stranger.name and do == "start":
            order["token"] = "0" * 64
        if host == away.name and do == "start":
            more = (30.0,)  # it would wait for two minutes in vain
        return ask(self, host, do, *more, **order)  # type: ignore[arg-type]

    monkeypatch.setattr(Remote, "ask", asked)
    monkeypatch.setenv("XDG_STATE_HOME", cluster.variables["XDG_STATE_HOME"])
    names, folder = [host.name for host in three], str(cluster.folder / "n")
    away.cut()
    try:
        plan = Plan(names, "ip netns exec", sys.executable, NETWORK, cpus=1, directory=folder)
        with pytest.raises(VenturiError) as error:
            up(plan, lambda level, text: None)
    finally:
        away.mend()
    assert error.value.exit_code == 4 and head.name not in error.value.message, error.value.message
    found = dict(one.split(": ", 1) for one in error.value.message.split("; "))
    assert found.keys() == {away.name, stranger.name}
    assert "ailed to connect" in found[away.name] and "10.77.0.1:6379" in found[away.name]
    assert found[stranger.name].endswith(": the head demands another token")
    assert error.value.hint is not None and "must reach one another" in error.value.hint
    assert left(three) == []
    assert cluster.down().stdout == "no cluster was started from here\n"


def test_a_head_that_cannot_start_says_why(three: Hosts, cluster: RayCluster) -> None:
    done = cluster.up("--resource", f"{three[0].name}=CPU:1")  # what Ray wants to be told otherwise
    assert done.returncode == 4, done.stderr
    (error,) = (line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert error.startswith(f"error: {three[0].name}: Ray has ended: ") and "num_cpus" in error, error
    assert left(three) == []


def test_by_ssh_from_a_host_outside(three: Hosts, cluster: RayCluster, tmp_path: Path) -> None:
    outside = three[2]

    def said(*words: object) -> subprocess.CompletedProcess[str]:
        return outside.venturi(*words, **cluster.variables)

    with ssh(three) as command:
        way = ("--ssh", command, "--directory", cluster.folder / "n")
        # Nobody says by which network: it is the one that ssh came by.
        done = said("cluster", "up", "--hosts", "h1,h2", *way)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("2 hosts on Ray ") and "head h1 (10.77.0.1:6379)\n" in done.stdout
        on = done.stdout.splitlines()[-2].rpartition(" --on ")[2]
        assert on == "ray://10.77.0.1:10001"
        trial = ("--target", "empty://", "--operation", "get", "--streams", 2, "--duration", "200ms")
        more = ("--loaders", 2, "--repeats", 1, "--warmup", 0, "--no-ceilings", "--no-report", "--quiet")
        done = said("run", *trial, *more, "--on", on, "--out", tmp_path / "run")
        assert done.returncode == 0, done.stderr
        (record,) = records(tmp_path / "run")
        assert {host["address"] for host in record["hosts"]} == {"10.77.0.1", "10.77.0.2"}
        done = said("cluster", "down")
        assert (done.returncode, done.stdout) == (0, "2 nodes ended on 2 hosts\n"), done.stderr
        done = said("cluster", "up", "--hosts", "h1,h9", *way)
        assert done.returncode == 4 and done.stderr.startswith("error: h9: ssh: "), done.stderr
    assert not [line for line in left(three) if "ray" in line]
