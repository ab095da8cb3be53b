"""Runs and programs over links: begun, resumed, killed, by somebody who is not root."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import venturi as api
from support.link import (
    alive,
    for_others,
    gone,
    host_has_namespaces,  # noqa: F401 - a fixture
    laboratory,
    networks,
    nothing_left,
    only_the_first,
    started,
    tree,
    until,
)  # fmt: skip
from support.needs import require
from support.read import ran, records
from support.run import command, environment, venturi
from support.wait import wait_until
from venturi.common.errors import VenturiError
from venturi.common.links import parse
from venturi.netlab import programs
from venturi.netlab.network import address

pytestmark = pytest.mark.usefixtures("core")

QUIET = ("--no-ceilings", "--no-report", "--warmup", "0")
LOCAL = ("--target", "flight://local", "--operation", "get", *QUIET)
TRIAL, KEEPER = "venturi.engine.loader", "venturi.netlab.keeper"
"""The process of a trial that runs in a namespace, and that which holds the namespaces."""
LONG = ("--duration", "600s")


@pytest.mark.parametrize(
    ("at", "number"),
    [(KEEPER, signal.SIGKILL), (TRIAL, signal.SIGKILL), (TRIAL, signal.SIGINT), (TRIAL, signal.SIGTERM)],
)
def test_nothing_is_left_of_a_run_that_is_ended(tmp_path: Path, at: str, number: int) -> None:
    """No process, no interface, no namespace; of temporary files none after the next run. Ended as soon as
    the laboratory begins to be made, or the trial."""
    places = tmp_path / "tmp"
    places.mkdir()
    variables = environment(TMPDIR=str(places))
    words = ("run", *LOCAL, "--link", "100mbit 5ms loss 0.01%", *LONG, "--out", tmp_path / "run")
    ended = started(*words, cwd=tmp_path, env=variables)
    until(ended.pid, at)
    all_of_it = list(tree(ended.pid))
    spaces = networks(all_of_it)
    if at == TRIAL:
        assert len(all_of_it) >= 6  # the keeper, its two ends, the server, the trial
        assert len(spaces) == 3
    ended.send_signal(number)
    _, said = ended.communicate()
    assert ended.returncode == (-9 if number == signal.SIGKILL else 130), said
    nothing_left(all_of_it, spaces)
    if number == signal.SIGKILL:
        again = ("--link", "100mbit", "--duration", "200ms", "--repeats", 1, "--out", tmp_path / "b")
        words = command("run", *LOCAL, *again)
        done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert list(places.iterdir()) == []


def test_a_laboratory_that_is_killed_fails_the_trial(tmp_path: Path) -> None:
    words = ("run", *LOCAL, "--link", "100mbit 5ms", *LONG, "--repeats", 2, "--out", tmp_path / "run")
    run = started(*words, cwd=tmp_path)
    until(run.pid, TRIAL)
    all_of_it = list(tree(run.pid))
    os.kill(until(run.pid, KEEPER), signal.SIGKILL)
    _, said = run.communicate()
    assert run.returncode == 5, said
    for trial in records(tmp_path / "run"):
        assert (trial["outcome"], trial["error"]["kind"]) == ("failed", "link")
        assert trial["error"]["message"] == "the laboratory has ended: it was killed"
    gone(all_of_it)


def test_a_run_over_links_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    given = ("--link", "50mbit 2ms,100mbit 2ms", "--duration", "300ms", "--repeats", 2, "--out", out)
    run = started("run", *LOCAL, *given, cwd=tmp_path)
    wait_until(lambda: records(out), lambda: alive([run.pid]))
    run.kill()
    run.communicate()
    only_the_first(out)
    done = venturi("run", "--resume", out)
    assert done.returncode == 0, done.stderr
    found = [(line["parameters"]["link"], line["repeat"], line["outcome"]) for line in records(out)]
    assert sorted(found) == [(link, n, "ok") for link in ("100mbit 2ms", "50mbit 2ms") for n in (0, 1)]
    for line in records(out):
        assert line["link"]["asked"] == line["parameters"]["link"]


def test_the_link_leads_to_remote_and_local_is_beside_the_client(tmp_path: Path) -> None:
    """Flight, and a store of time series: far ones get no more than the link carries."""
    given = {
        "flight": ("--operation", "get", "--rows-per-stream", "200k"),
        "influx": ("--operation", "ingest", "--points-per-stream", "200k"),
    }
    for scheme, words in given.items():
        places = (f"--place={place}={scheme}://{place}" for place in ("local", "remote"))
        trials = ran(tmp_path / scheme, *places, "--link", "100mbit", "--repeats", 1, *QUIET, *words)
        found = {line["parameters"]["place"]: line for line in trials}
        far = found["remote"]
        assert far["counts"]["wire_bytes"] / far["times"]["interval_ns"] * 1e9 < 1.03 * 12.5e6
        assert found["local"]["parameters"]["link"] is None and "link" not in found["local"]
        assert found["local"]["target"]["address"].startswith(f"{address('client')}:")
        assert found["remote"]["target"]["address"].startswith(f"{address('server')}:")


def test_a_loader_that_is_killed_fails_its_trial(tmp_path: Path) -> None:
    """As soon as the first of its rows are heard of: a trial that only this ends."""
    killed: list[int] = []

    def told(event: api.Event) -> None:
        if not killed and event.moved is not None and event.moved.rows:
            killed.append(until(os.getpid(), TRIAL))
            os.kill(killed[0], signal.SIGKILL)

    run = api.run(
        out=tmp_path / "run", target="flight://local", link="50mbit", loaders=2, streams=2,
        duration="600s", repeats=1, warmup=0, unproven=True, progress=told,
    )  # fmt: skip
    (trial,) = run.trials.to_pylist()
    assert (trial["outcome"], trial["error_kind"]) == ("failed", "lost"), trial["error_message"]
    assert "loader-" in trial["error_message"]
    gone(killed)


@pytest.fixture
def home_of_others() -> Iterator[Path]:
    """A directory of somebody who is not root, which pytest's own would hide."""
    with tempfile.TemporaryDirectory(prefix="vt-others-") as name:
        os.chown(name, 65534, 65534)
        yield Path(name)


def test_whoever_is_not_root_can_too(home_of_others: Path) -> None:
    """Their relay waits for a CPU like everybody else, so its link is slow and its buffer holds what comes
    meanwhile."""
    require(os.geteuid() == 0, "root, to be somebody else")
    others, variables = for_others()
    home = str(home_of_others)
    given: dict[str, Any] = {
        "env": variables | dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), home),
        **{"cwd": home, "capture_output": True, "text": True, "check": False},
    }
    words = ("--link", "10mbit 10ms loss 1% buffer 1MB,200mbit", "--duration", "200ms", "--repeats", "1")
    done = subprocess.run([*others, "run", *LOCAL, *words, "--out", f"{home}/run"], **given)
    assert done.returncode == 0, done.stderr
    found = [(line["outcome"], line["verification"]["achieved"]) for line in records(home_of_others / "run")]
    assert found == [("ok", "checksum")] * 2
    require(shutil.which("ping"), "ping (tools/install-servers)")
    client = "sh -c 'id -u; ping -c 3 -i 0.2 {server}'"
    done = subprocess.run([*others, "links", "100mbit 10ms", "--client", client], **given)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("65534\n") and "3 received, 0% packet loss" in done.stdout


def test_where_namespaces_are_forbidden_it_says_so(tmp_path: Path) -> None:
    forbid = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh"]
    done = subprocess.run(
        [*words, *command("run", *LOCAL, "--link", "100mbit", "--out", tmp_path / "run")],
        env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4 and not (tmp_path / "run").exists()
    error, hint = done.stderr.splitlines()[-2:]
    assert error.startswith(
        "error: --link: no network namespaces can be made here: unshare: unshare failed: "
    )
    assert hint.startswith("hint: user.max_net_namespaces (sysctl) has to be above 0, and a container ")
    doctor = subprocess.run(
        [*words, *command("doctor", "--json")], env=environment(), capture_output=True, text=True, check=False
    )
    (finding,) = [one for one in json.loads(doctor.stdout) if one["check"] == "links"]
    assert finding["state"] == "ok" and "no network namespaces can be made here" in finding["text"]


def over(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    given = {"capture_output": True, "text": True, "check": False, "env": environment()}
    return subprocess.run(command("links", *words), **given | more)


SERVES = (
    f"{sys.executable} -c 'import socket, sys; s = socket.create_server((sys.argv[1], 7000)); "
    'c = s.accept()[0]; c.sendall(b"hello " + c.recv(9))\' '
)
ASKS = (
    f'{sys.executable} -c \'import socket; c = socket.create_connection(("{{server}}", 7000)); '
    'c.sendall(b"you"); print(c.recv(99).decode())\''
)


def test_programs_talk_over_a_link() -> None:
    done = over("100mbit 40ms", "--server", SERVES + "{server}", "--client", ASKS)
    assert (done.returncode, done.stdout) == (0, "hello you\n"), done.stderr
    assert over("unshaped", "--client", "cat", input="from outside\n").stdout == "from outside\n"


def test_a_client_decides_how_it_ends() -> None:
    assert over("unshaped", "--client", "sh -c 'exit 7'").returncode == 7
    assert over("unshaped", "--client", "sh -c 'kill -9 $$'").returncode == 128 + 9
    assert over("unshaped", "--server", "sh -c 'exit 3'", "--client", "true").returncode == 4
    done = over("unshaped", "--server", SERVES + "{server}", "--client", "false")
    assert (done.returncode, done.stderr) == (1, "")


def test_a_server_that_only_its_own_host_comes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that it has to get ready is over once it has been said where it listens."""
    said: list[str] = []
    clock = SimpleNamespace(monotonic=lambda: 1e9 if said else 0.0)
    with laboratory() as lab:
        lab.ready(parse("unshaped"), None)
        monkeypatch.setattr(programs, "time", clock)
        with pytest.raises(VenturiError, match="nobody can connect to it after 60 s") as error:
            programs.run(lab, SERVES + "127.0.0.1", ["true"], lambda level, text: said.append(text))
    assert error.value.exit_code == 4
    assert said == [f"{sys.executable} listens at 127.0.0.1, where nobody comes to over the link"]
    assert error.value.hint == "it has to listen at {server}, which is 10.77.0.2, or at all addresses"


FAMILY = "sh -c 'setsid sleep 1000 & (sleep 1000 &) ; sleep 1000'"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_programs_and_what_they_start_end_with_the_command(tmp_path: Path, number: int) -> None:
    run = started("links", "unshaped", "--client", FAMILY, cwd=tmp_path)
    wait_until(lambda: sum(line.startswith("sleep") for line in tree(run.pid).values()) == 3)
    all_of_it = list(tree(run.pid))
    spaces = networks(all_of_it)
    run.send_signal(number)
    run.communicate()
    assert run.returncode == (-9 if number == signal.SIGKILL else 130)
    nothing_left(all_of_it, spaces)
