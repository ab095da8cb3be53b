"""The hosts that other tests use (tests/support/hosts.py): they reach one another, their links are as asked.

Twin: tests/servers/test_cluster_remote.py, for what runs on them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hosts import Hosts, hosts, namespaces, sweep, tcp_rate
from support.run import TESTS, environment
from support.trial import gone
from support.wait import wait_until

GIGABIT = 1e9 / 8


@pytest.fixture(scope="module")
def three() -> Iterator[Hosts]:
    with hosts(3) as made:
        yield made


def test_a_shaped_link_has_its_rate_and_the_others_theirs(three: Hosts) -> None:
    with three[0].server() as server:
        target = f"flight://{server.address}"
        three[0].shape("1gbit")
        try:
            for there in (three[1], three[2]):
                assert 0.93 * GIGABIT < tcp_rate(there, target) < 0.97 * GIGABIT
        finally:
            three[0].unshape()
        assert tcp_rate(three[1], target) > 2 * GIGABIT


def test_the_link_to_each_of_two_servers(three: Hosts) -> None:
    """One that is slower than the other is found, and what both carry at once is more than it."""
    with three[1].server() as quick, three[2].server() as slow:
        three[2].shape("20mbit", burst="16kb")
        try:
            target = f"flight://{quick.address},{slow.address}"
            words = ("ceilings", target, "--only", "tcp", "--streams", 2, "--repeats", 1, "--duration", "1s")
            done = three[0].venturi(*words, "--format", "json", "--quiet")
        finally:
            three[2].unshape()
    assert done.returncode == 0, done.stderr
    found = [limit for limit in json.loads(done.stdout)["limits"] if limit["place"] != "local"]
    for direction in ("get", "put"):
        rates = {n["name"]: n["bytes_per_second"] for n in found if n["direction"] == direction}
        assert list(rates) == [None, "server-1", "server-2"]
        assert rates["server-2"] < 1.5 * 20e6 / 8 and rates["server-1"] > 3 * 20e6 / 8
        assert rates[None] > 2 * rates["server-2"]
    (way,) = [line["text"] for line in json.loads(done.stdout)["narrowest"] if target[9:] in line["text"]]
    assert f"{quick.address} and 1 more" in way and "alone" not in way


def test_a_cut_host_is_reached_by_nobody(three: Hosts) -> None:
    reach = (sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], 9), 1)")
    three[1].cut()
    try:
        assert "timed out" in three[0].run(*reach, three[1].address).stderr
    finally:
        three[1].mend()
    assert "refused" in three[0].run(*reach, three[1].address).stderr


def test_nothing_is_left() -> None:
    with hosts(2) as made:
        names = [made.switch, *(host.name for host in made)]
        assert set(names) <= set(namespaces())
        # What has left its session, frozen too, and will not hear of a polite end.
        stubborn = (
            "import os, signal; os.setsid(); signal.signal(15, signal.SIG_IGN)\n"
            "while True: os.kill(os.getpid(), 19)"
        )
        child = made[1].start(sys.executable, "-c", stubborn)
        stat = Path(f"/proc/{child.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    assert not set(names) & set(namespaces())
    assert child.wait() == -signal.SIGKILL


def test_what_a_killed_process_left_goes_with_the_next() -> None:
    script = textwrap.dedent(
        """
        import os, sys
        sys.path.insert(0, sys.argv[1])
        from support.hosts import hosts
        with hosts(1) as made:
            child = made[0].start("sleep", "1000")
            print(child.pid, flush=True)
            os.kill(os.getpid(), 9)
        """
    )
    words = [sys.executable, "-c", script, str(TESTS)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    child = int(done.stdout)
    os.kill(child, 0)
    assert len(sweep()) == 2
    wait_until(lambda: gone(child))
    assert not sweep()
