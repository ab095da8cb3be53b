"""Runs and programs over links: begun, resumed, killed, by somebody who is not root."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import venturi as api
from support.link import (
    alive,
    for_others,
    gone,
    laboratory,
    networks,
    nothing_left,
    started,
    tree,
    until,
)  # fmt: skip
from support.needs import require
from support.run import command, environment, venturi
from venturi.common.links import parse
from venturi.lab import programs
from venturi.lab.hosts import address

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("core")]

KILLS = int(os.environ.get("VENTURI_KILLS", "3"))
QUIET = ("--no-ceilings", "--no-report", "--warmup", "0")
LOCAL = ("--target", "flight://local", "--operation", "get", *QUIET)
TRIAL = "venturi.engine.apart"
"""The process of a trial that runs in a namespace."""


@pytest.fixture(scope="module", autouse=True)
def host_has_namespaces() -> None:
    with laboratory():
        pass


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("attempt", range(KILLS))
def test_nothing_is_left_after_a_kill(tmp_path: Path, attempt: int) -> None:
    """No process, no interface, no namespace; of temporary files none after the next run."""
    places = tmp_path / "tmp"
    places.mkdir()
    words = (
        "run",
        *LOCAL,
        "--link",
        "100mbit 5ms loss 0.01%",
        "--duration",
        "20s",
        "--out",
        tmp_path / "run",
    )
    killed = started(*words, cwd=tmp_path, env=environment(TMPDIR=str(places)))
    until(killed.pid, TRIAL)
    time.sleep(random.uniform(0, 0.5))
    all_of_it = list(tree(killed.pid))
    assert len(all_of_it) >= 6  # the keeper, its two ends, the server, the trial
    spaces = networks(all_of_it)
    assert len(spaces) == 3
    killed.kill()
    killed.communicate(timeout=30)
    nothing_left(all_of_it, spaces)
    again = (
        "run",
        *LOCAL,
        "--link",
        "100mbit",
        "--duration",
        "200ms",
        "--repeats",
        1,
        "--out",
        tmp_path / "next",
    )
    done = subprocess.run(
        command(*again), env=environment(TMPDIR=str(places)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(places.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_leaves_nothing(tmp_path: Path, number: int) -> None:
    words = ("run", *LOCAL, "--link", "20mbit 5ms", "--duration", "20s", "--out", tmp_path / "run")
    ended = started(*words, cwd=tmp_path)
    until(ended.pid, TRIAL)
    all_of_it = list(tree(ended.pid))
    spaces = networks(all_of_it)
    ended.send_signal(number)
    _, said = ended.communicate(timeout=60)
    assert ended.returncode == 130, said
    nothing_left(all_of_it, spaces)


def test_a_laboratory_that_is_killed_fails_the_trial(tmp_path: Path) -> None:
    words = (
        "run",
        *LOCAL,
        "--link",
        "100mbit 5ms",
        "--duration",
        "20s",
        "--repeats",
        2,
        "--out",
        tmp_path / "run",
    )
    run = started(*words, cwd=tmp_path)
    until(run.pid, TRIAL)
    all_of_it = list(tree(run.pid))
    began = time.monotonic()
    os.kill(until(run.pid, "venturi.lab.keeper"), signal.SIGKILL)
    _, said = run.communicate(timeout=60)
    assert time.monotonic() - began < 15
    assert run.returncode == 5, said
    for trial in stored(tmp_path / "run"):
        assert (trial["outcome"], trial["error"]["kind"]) == ("failed", "link")
        assert trial["error"]["message"] == "the laboratory has ended: it was killed"
    gone(all_of_it)


def test_a_run_over_links_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = (
        "run",
        *LOCAL,
        "--link",
        "50mbit 2ms,100mbit 2ms",
        "--duration",
        "1s",
        "--repeats",
        2,
        "--out",
        out,
    )
    run = started(*words, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not (out / "trials.jsonl").exists() or not stored(out):
        assert time.monotonic() < deadline and alive([run.pid])
        time.sleep(0.05)
    run.kill()
    run.communicate(timeout=30)
    assert len(stored(out)) < 4
    done = venturi("run", "--resume", out)
    assert done.returncode == 0, done.stderr
    found = [(line["parameters"]["link"], line["repeat"], line["outcome"]) for line in stored(out)]
    assert sorted(found) == [(link, n, "ok") for link in ("100mbit 2ms", "50mbit 2ms") for n in (0, 1)]
    for line in stored(out):
        (rate, _) = parse(line["parameters"]["link"]).rate or (0, 0)
        assert line["link"]["down_bits_per_second"] == pytest.approx(rate, rel=0.03)


def test_the_link_leads_to_remote_and_local_is_beside_the_client(tmp_path: Path) -> None:
    """Flight, and a store of time series: far ones get what the link carries, near ones more."""
    given = {
        "flight": ("--operation", "get", "--rows-per-stream", "500k"),
        "influx": ("--operation", "ingest", "--points-per-stream", "500k"),
    }
    for scheme, words in given.items():
        out = tmp_path / scheme
        places = (f"--place={place}={scheme}://{place}" for place in ("local", "remote"))
        done = venturi("run", *places, "--link", "100mbit", "--repeats", 1, *QUIET, *words, "--out", out)
        assert done.returncode == 0, done.stderr
        found = {line["parameters"]["place"]: line for line in stored(out)}
        rate = {
            place: line["counts"]["wire_bytes"] / line["times"]["interval_ns"] * 1e9
            for place, line in found.items()
        }
        assert rate["remote"] < 1.03 * 12.5e6 < rate["local"]
        assert found["local"]["parameters"]["link"] is None and "link" not in found["local"]
        assert found["local"]["target"]["address"].startswith(f"{address('client')}:")
        assert found["remote"]["target"]["address"].startswith(f"{address('server')}:")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU: both ends are always on it")
def test_raw_tcp_that_its_ends_limit_is_tried_on_one_cpu_and_on_two(tmp_path: Path) -> None:
    """Over a link that is as fast as it goes, each placement of the ends has a third of the time."""
    words = (
        "--target",
        "flight://local",
        "--operation",
        "get",
        "--duration",
        "200ms",
        "--repeats",
        1,
        "--warmup",
        0,
        "--no-report",
    )
    out = tmp_path / "run"
    done = venturi("run", "--link", "unshaped,100mbit", *words, "--quiet", "--out", out)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, (out / "ceilings.jsonl").read_text().splitlines())
    spent = {line["link"]: line["interval_ns"] for line in lines if line["kind"] == "tcp"}
    # A busy machine stretches both.
    assert spent["unshaped"] < spent["100mbit"] / 2


def test_links_from_python(tmp_path: Path) -> None:
    run = api.run(
        target="flight://local", operation="get", link=["50mbit 2ms", "100mbit 2ms"], duration="500ms",
        repeats=2, warmup=0, ceilings=False, out=tmp_path / "run",
    )  # fmt: skip
    rates = {cell["link"]: cell["bytes_per_second"] for cell in run.cells.to_pylist()}
    assert 1.6 < rates["100mbit 2ms"] / rates["50mbit 2ms"] < 2.4


@pytest.mark.parametrize("typed", [True, False])
def test_a_search_over_a_link_searches_compression_too(tmp_path: Path, typed: bool) -> None:
    """As towards another host: over a slow link the smaller data win."""
    out = tmp_path / "run"
    if typed:
        given = ("--operation", "get", "--data", "builtin:birdstrikes", "--link", "50mbit 2ms")
        budget = ("--duration", "300ms", "--trials", 8, "--no-ceilings", "--out", out)
        done = venturi("tune", "flight://remote", *given, *budget)
        assert done.returncode == 0, done.stderr
    else:
        api.tune(
            "flight://local", operation="put", data="builtin:birdstrikes", link="50mbit 2ms",
            duration="300ms", trials=8, ceilings=False, out=out,
        )  # fmt: skip
    lines = stored(out)
    assert {line["parameters"]["link"] for line in lines} == {"50mbit 2ms"}
    assert {line["parameters"]["compression"] for line in lines} & {"lz4", "zstd"}


@pytest.fixture
def home_of_others() -> Iterator[Path]:
    """A directory of somebody who is not root, which pytest's own would hide."""
    with tempfile.TemporaryDirectory(prefix="vt-others-") as name:
        os.chown(name, 65534, 65534)
        yield Path(name)


def test_whoever_is_not_root_can_too(home_of_others: Path) -> None:
    require(os.geteuid() == 0, "root, to be somebody else")
    others, variables = for_others()
    home = str(home_of_others)
    given: dict[str, Any] = {
        "env": variables | dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), home),
        **{"cwd": home, "capture_output": True, "text": True, "check": False, "timeout": 120},
    }
    words = ("--link", "100mbit 10ms loss 0.01%,200mbit", "--duration", "500ms", "--repeats", "1")
    done = subprocess.run([*others, "run", *LOCAL, *words, "--out", f"{home}/run"], **given)
    assert done.returncode == 0, done.stderr
    found = [(line["outcome"], line["verification"]["achieved"]) for line in stored(home_of_others / "run")]
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
        env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
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


def test_a_program_that_is_needed_and_not_here(tmp_path: Path) -> None:
    done = subprocess.run(
        command("links", "100mbit"),
        env=environment(PATH=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "--link needs the program unshare, which is not here" in done.stderr
    assert "hint: Debian's package util-linux has it" in done.stderr


def test_links_are_looked_at() -> None:
    done = venturi("links", "100mbit 10ms,50mbit/10mbit", "--repeats", 2, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["links"]
    assert first["as_asked"] and second["as_asked"] and len(first["found"]) == 2
    for rate in first["raw_tcp_bits_per_second"]["up"]:
        assert 0.6 < rate / first["asked"]["raw_tcp_at_most"][1] <= 1.03
    for rate in second["raw_tcp_bits_per_second"]["down"]:
        assert 0.7 < rate / second["asked"]["raw_tcp_at_most"][0] <= 1.03
    assert done.stderr == ""


def test_a_link_that_is_not_as_asked_ends_with_5() -> None:
    done = venturi("links", "400gbit", "50mbit", "--repeats", 1)
    assert done.returncode == 5
    assert "\n50mbit: as asked\n" in done.stdout and done.stdout.startswith("400gbit: NOT as asked: ")
    assert done.stderr.endswith("error: 1 of 2 links are not as asked: 400gbit\n")


def over(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    given = {"capture_output": True, "text": True, "timeout": 120, "check": False, "env": environment()}
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
    began = time.monotonic()
    assert over("unshaped", "--client", "cat", input="from outside\n").stdout == "from outside\n"
    assert time.monotonic() - began < 30


def test_a_client_decides_how_it_ends() -> None:
    assert over("unshaped", "--client", "sh -c 'exit 7'").returncode == 7
    assert over("unshaped", "--client", "sh -c 'kill -9 $$'").returncode == 128 + 9
    done = over("unshaped", "--server", SERVES + "{server}", "--client", "false")
    assert (done.returncode, done.stderr) == (1, "")


def test_a_server_that_does_not_serve() -> None:
    done = over("unshaped", "--server", "sh -c 'echo no disk; exit 3'", "--client", "true")
    assert done.returncode == 4
    assert done.stderr == "error: --server sh: ended before anybody could connect to it: no disk\n"


def test_a_server_that_only_its_own_host_comes_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_READY_SECONDS", 2.0)
    done = venturi("links", "unshaped", "--server", SERVES + "127.0.0.1", "--client", "true")
    assert done.returncode == 4
    assert "listens at 127.0.0.1, where nobody comes to over the link" in done.stderr
    assert "nobody can connect to it after 2 s" in done.stderr
    assert "hint: it has to listen at {server}, which is 10.77.0.2, or at all addresses" in done.stderr


FAMILY = "sh -c 'setsid sleep 1000 & (sleep 1000 &) ; sleep 1000'"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_programs_and_what_they_start_end_with_the_command(tmp_path: Path, number: int) -> None:
    run = started("links", "unshaped", "--client", FAMILY, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while sum(line.startswith("sleep") for line in tree(run.pid).values()) < 3:
        assert time.monotonic() < deadline and alive([run.pid])
        time.sleep(0.05)
    all_of_it = list(tree(run.pid))
    spaces = networks(all_of_it)
    run.send_signal(number)
    run.communicate(timeout=30)
    assert run.returncode == (-9 if number == signal.SIGKILL else 130)
    nothing_left(all_of_it, spaces)
