"""`venturi cluster`: what is refused in words, the batch script, the manifest; [hosts] of a scenario and
--on; how often a driver calls its loaders. Without any host."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.golden import kept
from support.run import command, environment, model, venturi
from support.scenarios import scenario
from venturi.cluster import hosts, node, ray_executor, ray_servers, slurm_task
from venturi.cluster.hosts import Remote, check_alike, listed, raise_errors
from venturi.cluster.ray_executor import RayExecutor, RayHandle
from venturi.cluster.schedulers import batch_script, manifest
from venturi.cluster.trial import loaders_executor
from venturi.cluster.trial.clock import ONE_MACHINE
from venturi.common.environment import describe
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine.record import Trial
from venturi.engine.spec import build_spec
from venturi.measure import placement
from venturi.measure.trial_targets import Endpoints
from venturi.plan import matrix
from venturi.plan.load import to_toml

# Stands in for ssh: forgets the host's name and runs the words here.
HERE = """sh -c 'shift; exec "$@"' ssh"""
ALIKE = {"venturi": "0.1.0", "ray": "2.60.0", "python": "3.11.7"}


def test_hosts_are_named(tmp_path: Path) -> None:
    assert listed("a, b,user@c.example") == ["a", "b", "user@c.example"]
    (tmp_path / "hosts").write_text("# the lab\na\n\nb  # with the disks\n")
    assert listed(f"@{tmp_path / 'hosts'}") == ["a", "b"]
    for text, message in (
        ("", "names nobody"),
        ("a,a", "a is named twice"),
        ("a,-oProxyCommand=rm", "'-oProxyCommand=rm' is no host's name"),
        ("a;b", "'a;b' is no host's name"),
        ("@/nowhere", "No such file"),
    ):
        with pytest.raises(VenturiError, match=message):
            listed(text)


def test_a_server_finds_its_address_on_any_card(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = {b"eth0": (192, 0, 2, 7), b"ib0": (10, 1, 2, 3)}
    monkeypatch.setattr("socket.if_nameindex", lambda: [(1, "eth0"), (2, "ib0")])
    monkeypatch.setattr("fcntl.ioctl", lambda _, __, name: bytes(20) + bytes(cards[name.rstrip(b"\0")]))
    assert ray_servers._address_in("10.0.0.0/8") == "10.1.2.3"
    with pytest.raises(VenturiError, match=r"no address in 10.9.0.0/16, only 192.0.2.7, 10.1.2.3"):
        ray_servers._address_in("10.9.0.0/16")


def test_unlike_hosts_are_refused_by_name() -> None:
    check_alike({"a": ALIKE, "b": ALIKE}, ALIKE)
    # Whoever only starts the cluster needs no Ray.
    check_alike({"a": ALIKE, "b": ALIKE}, {**ALIKE, "ray": None})
    b = {**ALIKE, "ray": None, "executable": "/usr/bin/python3"}
    with pytest.raises(VenturiError) as raised:
        check_alike({"a": {**ALIKE, "venturi": "0.2.0"}, "b": b, "c": {**ALIKE, "python": "3.11.9"}}, ALIKE)
    assert raised.value.message == (
        "a: Venturi 0.2.0, here 0.1.0; b: Ray is not installed for /usr/bin/python3; "
        "c: Python 3.11.9, here 3.11.7"
    )
    assert raised.value.hint is not None and "pip install 'venturi[cluster]==0.1.0'" in raised.value.hint
    with pytest.raises(VenturiError, match=r"c: Ray 2\.59\.0, most others 2\.60\.0"):
        check_alike({"a": ALIKE, "b": ALIKE, "c": {**ALIKE, "ray": "2.59.0"}}, {**ALIKE, "ray": None})


def test_a_host_says_what_it_is(tmp_path: Path) -> None:
    answer = Remote(HERE, sys.executable).ask("a", "look", directory=str(tmp_path))
    assert answer.error is None
    assert answer.fields["python"] == sys.version.split()[0] and answer.fields["nodes"] == []
    # Nothing is running: that is what was wanted.
    assert Remote(HERE, sys.executable).ask("a", "stop", directory=str(tmp_path)).fields == {"ended": []}


def test_a_host_that_cannot_be_asked(tmp_path: Path) -> None:
    def error(ssh: str, python: str = sys.executable, **order: Any) -> VenturiError:
        with pytest.raises(VenturiError) as raised:
            raise_errors([Remote(ssh, python).ask("a", "look", directory=str(tmp_path), **order)])
        return raised.value

    refused = error("sh -c 'echo ssh: connect to host a port 22: Connection refused >&2; exit 255'")
    assert refused.message == "a: sh: ssh: connect to host a port 22: Connection refused"
    assert refused.exit_code == ExitCode.UNREACHABLE
    missing = error(HERE, "/nowhere/python")
    assert missing.message.startswith("a: no Python at /nowhere/python")
    assert missing.hint == "--python says where it is"
    assert error(HERE, interface="203.0.113.0/24").message == "a: has no address in 203.0.113.0/24"
    with pytest.raises(VenturiError, match="--ssh /nowhere/ssh: No such file"):
        Remote("/nowhere/ssh", "python3").ask("a", "look")
    with pytest.raises(VenturiError, match="without blanks"):
        Remote("ssh", "python3; rm -rf /")
    # A login shell that talks does no harm.
    noisy = """sh -c 'shift; echo Welcome; "$@"; echo Bye' ssh"""
    assert Remote(noisy, sys.executable).ask("a", "look", directory=str(tmp_path)).error is None


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    order = {"address": "10.77.0.1", "head": "10.77.0.1:6379", "is_head": True}
    answer = Remote(HERE, sys.executable).ask("a", "start", 1.0, directory=str(tmp_path / "open"), **order)
    assert answer.error == f"{tmp_path / 'open'} is not ours alone"
    assert answer.hint == "remove it, or name another by --directory"
    assert not list((tmp_path / "open").iterdir())


def test_the_token_is_for_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    assert hosts.kept() is None
    cluster = {"hosts": ["a"], "head": "a", "head_address": "10.0.0.1", "directory": str(tmp_path / "none")}
    hosts.remember(cluster, "secret")
    assert hosts.token_file().stat().st_mode & 0o777 == 0o600
    assert "secret" not in (tmp_path / "venturi" / "cluster.json").read_text()
    expected_path = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(hosts.token_file())}
    for on in ("ray://10.0.0.1:10001", "ray://a:10001"):
        assert hosts.environment_for(on) == {**node.quiet_environment(), **expected_path}
    for on in ("ray://10.0.0.2:10001", "local", "auto"):
        assert hosts.environment_for(on) == node.quiet_environment()
    hosts.forget()
    assert hosts.kept() is None and not hosts.token_file().exists()


def test_the_batch_script() -> None:
    run = ["my scenario.toml", "--streams", "1,2", "--out", "run-1"]
    options = ["--time=0:30:00", "--constraint=haswell"]
    text = batch_script(run, 4, "/opt/venturi/bin/python", options, "10.0.0.0/24")
    kept("slurm", text)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    with pytest.raises(VenturiError, match="must be an option of sbatch"):
        batch_script(["quick"], 1, "python3", ["--comment=x\nrm -rf /"])


def test_the_batch_script_holds_no_secret() -> None:
    for told in ("password=hush", "authorization=Bearer x", "mysql://me:hush@h/db"):
        for words in (["--option", told], [f"--option={told}"]):
            with pytest.raises(VenturiError, match="a password or a token stands in the words of the run"):
                batch_script(["quick", *words], 1, "python3")
    # Names of variables, and a query that only speaks of tokens.
    words = ["quick", "--header-env", "x-token=NAME", "--header-env=x-token=OTHER", "--password-env=DB"]
    words += ["--query", "select token = 1"]
    assert "x-token=NAME" in batch_script(words, 1, "python3")


def test_ports_of_a_job_are_its_own() -> None:
    assert slurm_task.ports(1) == (20002, 20003) and slurm_task.ports(5001) == slurm_task.ports(1)
    assert max(slurm_task.ports(4999)) < 32768  # where the kernel's own begin


@pytest.mark.parametrize("host_network", [False, True])
def test_the_manifest(host_network: bool) -> None:
    text = manifest("registry.example/venturi:0.1.0", 4, "2.60.0", host_network=host_network)
    kept("kubernetes-host-network", text) if host_network else kept("kubernetes", text)
    home, cluster = yaml.safe_load_all(text)
    assert yaml.safe_load(home["data"]["ray_bootstrap_config.yaml"]) == {"provider": {"type": "local"}}
    spec = cluster["spec"]
    (group,) = spec["workerGroupSpecs"]
    for part in (spec["headGroupSpec"], group):
        # The operator hands them to `ray start` as texts.
        assert all(isinstance(value, str) for value in part["rayStartParams"].values())
        pod = part["template"]["spec"]
        assert pod.get("hostNetwork", False) is host_network
        (container,) = pod["containers"]
        assert container["resources"]["requests"] == container["resources"]["limits"]
        variables = {one["name"]: one["value"] for one in container["env"]}
        assert node.quiet_environment().items() <= variables.items()
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert mounts["home"] == variables["HOME"]
        assert {one["name"] for one in pod["volumes"]} == set(mounts)
    with pytest.raises(VenturiError, match="is no image's name"):
        manifest("a\nb", 1, "2.60.0")


def test_words_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def ended(*words: object) -> tuple[int, str]:
        done = venturi("cluster", *words)
        return done.returncode, done.stderr

    done = venturi("cluster", "down")
    assert (done.returncode, done.stdout) == (0, "no cluster was started from here\n")
    code, text = ended("status")
    assert code == 2 and text.startswith("error: no cluster was started from here\nhint: --hosts")
    done = venturi("cluster", "slurm", "-N", 2, "--print", "quick", "--streams", "1,2")
    assert done.returncode == 0 and done.stdout.endswith(" -- \\\n    quick --streams 1,2\n")
    done = venturi("cluster", "kubernetes", "--image", "venturi", "--ray", "2.60.0", "--hosts", 2)
    assert done.stdout == manifest("venturi", 2, "2.60.0")
    # Reached by nobody else: loopback is no way between hosts.
    code, text = ended("up", "--hosts", "a", "--ssh", HERE, "--head", "127.0.0.1")
    assert code == 2 and ("reached by nobody else" in text or "Ray is not installed" in text), text


# ---- calls of loaders


class Recording(RayHandle):
    """Answers at once, and notes what it was asked."""

    def __init__(self, at: int, boot_id: str | None, idle: bool = True) -> None:
        super().__init__(f"loader-{at + 1}", at, None, {"boot_id": boot_id})
        self.asked: list[str] = []
        self._idle = idle

    def call(self, method: str, *arguments: object) -> Future[Any]:
        self.asked.append(method)
        answer: Future[Any] = Future()
        answer.set_result(time.time_ns() if method == "now" else self._idle)
        return answer


def executor(handles: list[Any]) -> RayExecutor:
    found = RayExecutor.__new__(RayExecutor)
    found._loaders = handles
    found._note = lambda level, text: None
    return found


def test_a_machines_clock_is_asked_for_once() -> None:
    machines = [describe()["boot_id"], "a", "a", "b", None, None]
    handles = [Recording(at, name) for at, name in enumerate(machines)]
    clocks = loaders_executor.clocks(handles)
    assert [bool(handle.asked) for handle in handles] == [False, True, False, True, True, True]
    assert clocks[0] == ONE_MACHINE and all(clock.measured_unix_ns for clock in clocks[1:])
    assert handles[1].clock == handles[2].clock
    # They still hold: nobody is asked again.
    before = [len(handle.asked) for handle in handles]
    loaders_executor.clocks(handles)
    assert [len(handle.asked) for handle in handles] == before


def test_no_more_loaders_are_asked_than_a_trial_takes() -> None:
    handles = [Recording(at, "a") for at in range(6)]
    assert executor(handles).ready(2) == handles[:2]
    assert [len(handle.asked) for handle in handles] == [1, 1, 0, 0, 0, 0]
    # One that is busy: another one takes part, and nobody is started anew.
    handles = [Recording(at, "a", idle=at != 1) for at in range(4)]
    assert executor(handles).ready(2) == [handles[0], handles[2]]
    # Whoever ended a trial well just now is not asked.
    handles = [Recording(at, "a") for at in range(2)]
    handles[0].heard = time.monotonic()
    assert executor(handles).ready(2) == handles
    assert [len(handle.asked) for handle in handles] == [0, 1]


def test_a_loader_is_started_where_too_few_are_good(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = [Recording(at, "a", idle=at > 0) for at in range(2)]
    fresh = Recording(0, "a")
    monkeypatch.setattr(ray_executor.RayExecutor, "_another", lambda self, lost: fresh)
    found = executor(list(handles))
    assert found.ready(2) == [fresh, handles[1]]
    assert found._loaders == [fresh, handles[1]]


# ---- scenarios


TEXT = '[workload]\nstreams = 8\n[hosts]\nservers = 1\nserver_resource = "big"\n[matrix]\nloaders = "1..4"\n'


def test_loaders_are_planned_where_streams_have_a_place() -> None:
    (cell,) = matrix.cells(scenario(TEXT))
    (plain,) = matrix.cells(scenario("[workload]\nstreams = 8\n"))
    assert cell.id == plain.id
    assert cell.parameters["loaders"] is None and cell.parameters["on"] is None
    assert "loaders" not in build_spec(cell, "t", "flight://a", {})
    found = scenario(TEXT, on="ray")
    shared = matrix.cells(found)
    assert len({cell.id for cell in shared}) == 4
    assert build_spec(shared[2], "t", "flight://a", {})["loaders"] == 3
    # The resolved scenario keeps them.
    again = scenario(to_toml(found), on="ray")
    assert again.hosts == found.hosts and again.axes == found.axes
    assert [cell.id for cell in matrix.cells(again)] == [cell.id for cell in shared]


def test_where_streams_may_run() -> None:
    found = scenario("")
    kinds = {None: None, "auto": "ray", "local": "ray", "ray://a:10001": "ray", "spark": "spark"}
    for on, kind in kinds.items():
        assert placement.named(found, on, None)[0].on == kind
    with pytest.raises(VenturiError, match="--on everywhere: must be ray://HOST:PORT, auto, local or spark"):
        placement.named(found, "everywhere", None)
    with pytest.raises(VenturiError, match="--master is Spark's"):
        placement.named(found, "auto", "local[2]")
    assert placement.named(scenario(TEXT), None, None)[1] == [
        "no --on: all streams run in this process, and loaders mean nothing"
    ]


def planned(text: str, on: str | None) -> None:
    """As `venturi run --dry-run` looks at it."""
    with Endpoints(placement.named(scenario(text), on, None)[0], False, lambda level, text: None):
        pass


REMOTE = '[target]\nurl = "flight://remote"\n'


def test_a_server_on_a_host_of_its_own_needs_a_cluster() -> None:
    for on in ("auto", "local", "ray://a:10001", "here,auto"):
        planned(REMOTE, on)
        planned(f"{REMOTE}[hosts]\nservers = 3\n", on)
    # Nobody goes there.
    planned('[places]\nnear = "flight://local"\nfar = "flight://remote"\n[matrix]\nplace = ["near"]\n', None)


def test_a_resumed_run_goes_on_where_it_was_begun() -> None:
    def lines(on: str | None) -> list[Trial]:
        return [Trial(parameters={"on": on})]

    placement.resumed(None, lines(None), "RUN")
    placement.resumed("auto", lines("ray"), "RUN")
    placement.resumed("auto", [], "RUN")
    with pytest.raises(VenturiError, match="RUN was begun on ray: say where again"):
        placement.resumed(None, lines("ray"), "RUN")
    with pytest.raises(VenturiError, match="RUN was begun without it"):
        placement.resumed("spark", lines(None), "RUN")


def test_loaders_without_a_place_are_told(tmp_path: Path) -> None:
    words = ("--streams", "2", "--rows-per-stream", "1M", "--repeats", "1", "--no-report")
    done = model(*words, "--loaders", "2", "--out", tmp_path / "run")
    assert done.returncode == 0
    assert "no --on: all streams run in this process" in done.stderr


def test_a_plan_of_several_hosts_needs_no_cluster() -> None:
    done = venturi("run", "--streams", "8", "--loaders", "1,2,4", "--on", "auto", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loaders=") == 3


def test_without_ray_the_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('no')\n")
    found = environment()
    found["PYTHONPATH"] = os.pathsep.join([str(tmp_path), found["PYTHONPATH"]])
    words = command("run", "--streams", "2", "--on", "local", "--out", tmp_path / "run")
    done = subprocess.run(words, capture_output=True, text=True, env=found, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "--on needs Ray, which is not installed here" in done.stderr
    assert "pip install 'venturi[cluster]'" in done.stderr
    assert not (tmp_path / "run").exists()


def test_who_reads_a_nodes_log_is_no_process_of_it(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with contextlib.ExitStack() as ends:
        log = ends.enter_context((tmp_path / "log").open())
        started = [
            subprocess.Popen([name, "600"], executable="sleep", stdin=log, env={"NODE": value})
            for name, value in (("less", ""), ("ray::IDLE", ""), ("less", str(tmp_path)))
        ]
        for one in started:
            ends.callback(one.wait)
            ends.callback(one.kill)
        _, rays, ours = (one.pid for one in started)
        assert sorted(node.users("NODE", str(tmp_path), str(tmp_path))) == sorted([rays, ours])
        assert node.users("NODE", str(tmp_path)) == [ours]
