"""`venturi cluster`: what is refused in words, the batch script, the manifest; without any host."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.golden import kept
from support.run import venturi
from venturi.cluster.up import access, node, slurm_task
from venturi.cluster.up.kubernetes import Pods, manifest
from venturi.cluster.up.remote import Remote, listed, raise_errors
from venturi.cluster.up.slurm import Job, script
from venturi.cluster.up.up import check_alike
from venturi.common.errors import ExitCode, VenturiError

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


def test_unlike_hosts_are_refused_by_name() -> None:
    check_alike({"a": ALIKE, "b": ALIKE}, ALIKE)
    # Whoever only starts the cluster needs no Ray.
    check_alike({"a": ALIKE, "b": ALIKE}, {**ALIKE, "ray": None})
    unlike = {
        "a": {**ALIKE, "venturi": "0.2.0"},
        "b": {**ALIKE, "ray": None, "executable": "/usr/bin/python3"},
        "c": {**ALIKE, "python": "3.11.9"},
    }
    with pytest.raises(VenturiError) as raised:
        check_alike(unlike, ALIKE)
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
    order |= {"directory": str(tmp_path / "open")}
    answer = Remote(HERE, sys.executable).ask("a", "start", 1.0, **order)
    assert answer.error == f"{tmp_path / 'open'} is not ours alone"
    assert answer.hint == "remove it, or name another by --directory"
    assert not list((tmp_path / "open").iterdir())


def test_the_token_is_for_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    assert access.kept() is None
    cluster = {"hosts": ["a"], "head": "a", "head_address": "10.0.0.1", "directory": str(tmp_path / "none")}
    access.remember(cluster, "secret")
    assert access.token_file().stat().st_mode & 0o777 == 0o600
    assert "secret" not in (tmp_path / "venturi" / "cluster.json").read_text()
    expected_path = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(access.token_file())}
    for on in ("ray://10.0.0.1:10001", "ray://a:10001"):
        assert access.environment_for(on) == {**node.quiet_environment(), **expected_path}
    for on in ("ray://10.0.0.2:10001", "local", "auto"):
        assert access.environment_for(on) == node.quiet_environment()
    access.forget()
    assert access.kept() is None and not access.token_file().exists()


def test_the_batch_script() -> None:
    run = ["my scenario.toml", "--streams", "1,2", "--out", "run-1"]
    job = Job(
        nodes=4, run=run, python="/opt/venturi/bin/python", time="0:30:00", partition="short",
        options=["--constraint=haswell"], interface="10.0.0.0/24",
    )  # fmt: skip
    text = script(job)
    kept("slurm", text)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    with pytest.raises(VenturiError, match="must be an option of sbatch"):
        script(Job(nodes=1, run=["quick"], python="python3", options=["--comment=x\nrm -rf /"]))


def test_the_batch_script_holds_no_secret() -> None:
    for told in ("password=hush", "authorization=Bearer x", "mysql://me:hush@h/db"):
        for words in (["--option", told], [f"--option={told}"]):
            with pytest.raises(VenturiError, match="a password or a token stands in the words of the run"):
                script(Job(nodes=1, run=["quick", *words], python="python3"))
    # Names of variables, and a query that only speaks of tokens.
    words = ["quick", "--header-env", "x-token=NAME", "--header-env=x-token=OTHER", "--password-env=DB"]
    words += ["--query", "select token = 1"]
    assert "x-token=NAME" in script(Job(nodes=1, run=words, python="python3"))


def test_ports_of_a_job_are_its_own() -> None:
    assert slurm_task.ports(1) == (20002, 20003) and slurm_task.ports(5001) == slurm_task.ports(1)
    assert max(slurm_task.ports(4999)) < 32768  # where the kernel's own begin


@pytest.mark.parametrize("host_network", [False, True])
def test_the_manifest(host_network: bool) -> None:
    pods = Pods(image="registry.example/venturi:0.1.0", hosts=4, ray="2.60.0", host_network=host_network)
    text = manifest(pods)
    kept("kubernetes-host-network", text) if host_network else kept("kubernetes", text)
    home, cluster = yaml.safe_load_all(text)
    assert (home["kind"], home["apiVersion"]) == ("ConfigMap", "v1")
    assert yaml.safe_load(home["data"]["ray_bootstrap_config.yaml"]) == {"provider": {"type": "local"}}
    assert (cluster["kind"], cluster["apiVersion"]) == ("RayCluster", "ray.io/v1")
    spec = cluster["spec"]
    assert spec["rayVersion"] == "2.60.0" and spec["authOptions"] == {"mode": "token"}
    (group,) = spec["workerGroupSpecs"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 4
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


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(VenturiError, match="is no image's name"):
        manifest(Pods(image="a\nb", hosts=1, ray="2.60.0"))


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
    assert done.stdout == manifest(Pods(image="venturi", hosts=2, ray="2.60.0"))
    # Reached by nobody else: loopback is no way between hosts.
    code, text = ended("up", "--hosts", "a", "--ssh", HERE, "--head", "127.0.0.1")
    assert code == 2 and ("reached by nobody else" in text or "Ray is not installed" in text), text
    assert shlex.split(HERE)[0] == "sh"
