"""What stands for `X://local`: started, asked for its address, started again, gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from support.processes import killed
from venturi.common.errors import ExitCode, VenturiError
from venturi.servers import throwaway
from venturi.servers.local import LocalTargets, duckdb_library
from venturi.servers.reference import Halted, ReferenceServer
from venturi.servers.throwaway.guarded import Guarded


class Server:
    """In place of a throw-away server: alive until it is told otherwise."""

    title = "MariaDB"
    made: list[Server] = []  # noqa: RUF012 - emptied by the fixture
    refuse = False

    def __init__(self, note: Any) -> None:
        self.running = False
        self.hello: dict[str, Any] = {"software": "MariaDB 11", "settings": {"a": "1"}}

    def start(self) -> Server:
        if Server.refuse:
            raise VenturiError("MariaDB did not start: no room", ExitCode.UNREACHABLE)
        Server.made.append(self)
        self.running = True
        self.hello["url"] = f"mysql://venturi@127.0.0.1:{4000 + len(Server.made)}/venturi"
        return self

    @property
    def address(self) -> str:
        return str(self.hello["url"]).split("@")[1].split("/")[0]

    def complaint(self) -> str:
        return "out of memory"

    def stop(self) -> None:
        self.running = False


@pytest.fixture(autouse=True)
def _servers(monkeypatch: pytest.MonkeyPatch) -> None:
    Server.made, Server.refuse = [], False
    monkeypatch.setattr(throwaway, "for_scheme", lambda scheme: Server)


def noted() -> tuple[LocalTargets, list[str]]:
    said: list[str] = []
    return LocalTargets(lambda level, text: said.append(f"{level}: {text}")), said


def test_one_server_for_all_cells_of_a_system() -> None:
    local, said = noted()
    local.start(["mysql://local", "mysql://far/db", "mysql://local/venturi_two", "sqlite://local"])
    assert len(Server.made) == 1 and said == ["info: starting MariaDB for this run"]
    assert local.url("mysql://local") == "mysql://venturi@127.0.0.1:4001/venturi"
    assert local.url("mysql://local/venturi_two") == "mysql://venturi@127.0.0.1:4001/venturi_two"
    assert local.url("mysql://far/db") == "mysql://far/db"
    (told,) = local.environments("mysql://local").values()
    assert (
        told is not None and told["software"] == {"server": "MariaDB 11"} and told["settings"] == {"a": "1"}
    )
    assert "kernel" in told and list(local.environments("mysql://local")) == ["127.0.0.1:4001"]
    assert local.environments("postgres://local") == {}
    local.stop()
    assert not Server.made[0].running


def test_a_dead_server_is_started_again_until_it_runs() -> None:
    local, said = noted()
    local.start(["mysql://local"], halt=lambda: True)
    local.ensure()
    assert len(Server.made) == 1
    assert local.died("mysql://local") is None is local.died("mysql://h")
    Server.made[0].running = False
    assert local.died("mysql://local") == "the server of mysql://local died: out of memory"
    Server.refuse = True
    for _ in range(2):
        with pytest.raises(VenturiError, match="no room"):
            local.ensure()
    for stop, raises in (
        (Halted, contextlib.nullcontext()),
        (KeyboardInterrupt, pytest.raises(KeyboardInterrupt)),
    ):
        with pytest.MonkeyPatch.context() as patch, raises:
            patch.setattr(Server, "start", Mock(side_effect=stop))
            local.ensure()
    Server.refuse = False
    local.ensure()
    assert local.url("mysql://local") == "mysql://venturi@127.0.0.1:4002/venturi"
    # It died once, so it is said once.
    died = "warning: the server of mysql://local died: out of memory; starting another"
    assert [text for text in said if "died" in text] == [died]
    local.stop()


WAITS = """import os, signal
from venturi.common import processes; from venturi.servers.throwaway.guard import die_with
processes.is_ending = lambda pid: pid == os.getppid(); processes.signal.pause = lambda: print("waits")
wait = processes.await_end_with_parent; wait(); die_with(os.getppid(), signal.SIGTERM)(); wait()"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a parent hears of it first")
def test_who_ends_with_its_parent_waits_for_that() -> None:
    assert subprocess.check_output([sys.executable, "-c", WAITS]) == b"waits\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a parent hears of it first")
def test_a_database_is_dead_before_its_guard_says_so(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path / "server")
    guarded.directory.mkdir()
    pid = guarded.serve(["sleep", "600"], tmp_path / "log", signal.SIGTERM, 1.0, os.environ)
    assert guarded.running
    os.kill(guarded._guard.pid, signal.SIGSTOP)
    try:
        killed(pid)
        assert not guarded.running
    finally:
        os.kill(guarded._guard.pid, signal.SIGCONT)
        guarded.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a parent hears of it first")
def test_a_server_is_dead_with_the_process_that_serves_for_it(tmp_path: Path) -> None:
    """As `venturi serve mysql`, which has not looked yet."""
    starts = tmp_path / "starts.py"
    starts.write_text(
        "import json, subprocess, sys\n"
        "database = subprocess.Popen(['sleep', '600'])\n"
        "print(json.dumps({'address': '127.0.0.1:1', 'pid': database.pid}), flush=True)\n"
        "sys.stdin.read()\n"
        "database.kill()\n"
    )
    with ReferenceServer(within=[sys.executable, str(starts)]) as server:
        assert server.running
        killed(server.hello["pid"])
        assert not server.running


def test_a_file_is_there_for_the_run_alone() -> None:
    local, _ = noted()
    path = Path(local.url("sqlite://local").removeprefix("sqlite://"))
    assert local.url("duckdb://local") == f"duckdb://{path.parent}/venturi.duckdb"
    path.write_text("")
    local.stop()
    assert not path.parent.exists()


def test_duckdb_has_a_library() -> None:
    assert Path(duckdb_library()).is_file()
