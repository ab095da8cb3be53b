"""All subcommands: help, lists, SQL, doctor, start-up; and how programs end: at once, but with all that
others see of an end."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from support.golden import kept
from support.run import ROOT, SMALL, command, environment, model, venturi
from venturi import cli
from venturi.cli import COMMANDS, EPILOG, app, serving
from venturi.common import processes
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine import executor
from venturi.plan.validation import TABLES


def commands() -> list[tuple[str, Any]]:
    """Every command with its path, found by walking the tree."""
    found: list[tuple[str, Any]] = []

    def walk(path: str, node: Any) -> None:
        found.append((path, node))
        if hasattr(node, "list_commands"):
            for name in node.list_commands(None):
                walk(f"{path} {name}", node.get_command(None, name))

    walk("venturi", typer.main.get_command(app))
    return found


def test_every_command_and_option_has_help() -> None:
    for path, node in commands():
        assert node.help, f"{path} has no help"
        for parameter in node.params:
            assert getattr(parameter, "help", None), f"{path} {parameter.name} has no help"


def test_every_scenario_key_is_a_flag() -> None:
    (run,) = (node for path, node in commands() if path == "venturi run")
    flags = {name for parameter in run.params for name in parameter.opts}
    renamed = {
        ("target", "url"): "--target",
        ("run", "seed"): "--shuffle-seed",
        ("target", "headers"): "--header",
        ("target", "driver_options"): "--driver-option",
    }
    for table, keys in TABLES.items():
        for key in keys.model_fields:
            assert renamed.get((table, key), "--" + key.replace("_", "-")) in flags


def test_exit_codes_are_documented() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text()
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert rows == {int(code) for code in ExitCode}
    assert {int(code) for code in re.findall(r"^  (\d+)  ", EPILOG, re.MULTILINE)} == rows


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs" / "scenarios.md").read_text()
    for table, keys in TABLES.items():
        for key in keys.model_fields:
            assert f"`{key}`" in page, f"[{table}] {key} is not in docs/scenarios.md"


def test_help_is_plain() -> None:
    done = venturi("--help")
    assert done.returncode == 0 and done.stderr == ""
    assert "130  interrupted" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_tells_its_use(name: str) -> None:
    done = venturi(name, "--help")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(f"Usage: venturi {name}")


def test_scenarios() -> None:
    folder = ROOT / "python/venturi/plan/scenarios"
    listed = [line.split()[0] for line in venturi("scenarios").stdout.splitlines()]
    assert "quick" in listed and listed == sorted(path.stem for path in folder.glob("*.toml"))
    for words in (("show", "quick"), ("quick",)):
        assert venturi("scenarios", *words).stdout == (folder / "quick.toml").read_text()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "r"
    assert model("--out", path, *SMALL, "--quiet").returncode == 0
    return path


QUERY = (
    "select operation, streams, count(*) as n, round(median(bytes_per_second) / 1e6) as mb_s "
    "from trials where outcome = 'ok' and not warmup group by all order by all"
)


def test_sql_prints_tables(run: Path) -> None:
    done = venturi("sql", run, QUERY)
    assert (done.returncode, done.stderr) == (0, "")
    kept("sql", done.stdout)
    done = venturi("sql", run, run, QUERY, "--format", "csv")
    assert done.stdout.splitlines()[:2] == ["operation,streams,n,mb_s", "get,1,4,1415.0"]
    done = venturi("sql", run, "select sum(bytes) as b from ceilings", "--format", "json")
    assert json.loads(done.stdout)[0]["b"] > 0
    done = venturi(
        "sql", run, "pivot (select operation from trials) on operation using count(*)", "--format", "json"
    )
    assert list(json.loads(done.stdout)[0]) == ["get", "put"]
    assert "explain_key" in venturi("sql", run, "explain from trials", "--format", "json").stdout


def test_the_last_run_is_meant_everywhere(tmp_path: Path) -> None:
    for _ in range(2):
        assert model(*SMALL, "--quiet", cwd=tmp_path).returncode == 0
    newest = sorted(path.name for path in (tmp_path / "venturi-runs").iterdir())[-1]
    done = venturi("sql", "last", "select distinct run from trials", "--format", "csv", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[-1]) == (0, newest)
    for line in ("show last", "report last", "run --executor support.model --resume last"):
        assert venturi(*line.split(), cwd=tmp_path).returncode == 0


def test_sql_has_all_tables(run: Path) -> None:
    views = ("trials", "streams", "latency", "stages", "resources", "samples", "ceilings")
    query = " union all ".join(f"select distinct run, '{view}' as view from {view}" for view in views)
    done = venturi("sql", run, f"select view, run from ({query}) order by 1", "--format", "csv")
    assert done.stdout.splitlines() == ["view,run", *(f"{view},r" for view in sorted(views))]


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -S as Linux has it")
def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    line = f"ulimit -S -n 200 && {shlex.quote(sys.executable)} -m venturi doctor --json"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert f"{hard} at most" in done.stdout


def test_doctor_looks_at_everything() -> None:
    done = venturi("doctor", "--json")
    findings = json.loads(done.stdout)
    warned = any(finding["state"] == "warning" for finding in findings)
    assert done.returncode == int(warned) and done.stderr == ""
    assert {finding["check"] for finding in findings} >= {
        *("governor", "load", "steal", "open files", "tcp_rmem", "tcp_wmem", "memory", "swap"),
        *("congestion control", "huge pages", "virtual", "clock", "instrument", "databases"),
    }
    for finding in findings:
        assert finding["state"] in ("ok", "warning", "unknown")
        assert finding["advice"] or finding["state"] != "warning"


def test_the_busiest_processes_are_named_by_their_ticks() -> None:
    """What a real one uses, and that the doctor names it, is in tests/machine/test_doctor.py."""
    second = os.sysconf("SC_CLK_TCK")
    before = {(7, 1): ("old", 5 * second), (8, 1): ("idle", 0)}
    after = {(7, 1): ("old", 6 * second), (8, 1): ("idle", 0), (9, 3): ("new", 3 * second)}
    found = processes.busiest(before, after | {(os.getpid(), 1): ("ourselves", 9 * second)}, 2.0)
    assert found == [processes.Busy(9, "new", 1.5), processes.Busy(7, "old", 0.5)]
    assert processes.busiest(before, after, 2.0, least=1.0) == found[:1]


def test_completion_is_there() -> None:
    asked = {"_VENTURI_COMPLETE": "complete_bash", "COMP_WORDS": "venturi sc", "COMP_CWORD": "1"}
    shell = environment(**asked)
    done = subprocess.run(command(), capture_output=True, text=True, env=shell, check=False)
    assert done.stdout.strip() == "scenarios"


# ---- ends


PROGRAM = """
import atexit, sys, threading
from venturi import cli

def main():
    {body}

cli.main = main
cli.program()
"""


def program(*lines: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", PROGRAM.format(body="\n    ".join(lines))]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=environment(), text=True, stdin=pipe, stdout=pipe, stderr=pipe)


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no such thing')", 1, "no such thing\n"),
        ("pass", 0, ""),
    ],
)
def test_its_status_and_output(end: str, status: int, said: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    lines = (f"atexit.register(open, {str(there)!r}, 'w')", "print('last words', end='')", end)
    with program(*lines) as running:
        assert running.communicate(timeout=60) == ("last words", said)
    assert running.returncode == status and there.exists()


def test_a_daemon_is_not_waited_for() -> None:
    lines = ("threading.Thread(target=threading.Event().wait, daemon=True).start()", "sys.exit(3)")
    with program(*lines) as running:
        assert running.wait(60) == 3


def test_another_thread_is_waited_for() -> None:
    """It reads what comes when `main` is over."""
    lines = (
        "threading.Thread(target=lambda: print(sys.stdin.read())).start()",
        "print('over', flush=True)",
        "sys.exit(3)",
    )
    with program(*lines) as running:
        assert running.stdout is not None and running.stdout.readline() == "over\n"
        assert running.communicate("late", timeout=60) == ("late\n", "")
    assert running.returncode == 3


# ---- servers hear at once of what ends them, and are stopped whatever fails beside them


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "no memory was left for this: MemoryError"),
        (ImportError("x.so: failed to map segment from shared object"), "no memory was left"),
        (OSError(errno.EMFILE, "Too many open files"), "no more files may be open"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "no more processes or threads"),
        (BlockingIOError(errno.EAGAIN, "write could not complete", 7), "the output took no more"),
        (RuntimeError("can't start new thread"), "no more processes or threads"),
    ],
)
def test_what_the_system_does_not_give_is_no_fault_of_ours(error: Exception, said: str) -> None:
    found = cli._not_ours(error)
    assert found is not None and said in found.message and found.hint and found.exit_code == 3


def test_too_few_open_files_is_said_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "open_files", lambda: 63)
    with pytest.raises(VenturiError, match="only 63 files may be open, and a trial needs 64"):
        executor.CoreExecutor()


WAITS = """
from venturi.common import runtime

ending = runtime.Ending()
assert not ending.wait(0)
print("ready", flush=True)
# Longer than whoever waits for this process has patience.
assert ending.wait(3600)
assert ending.wait(0)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_wait_ends_with_the_signal(number: signal.Signals) -> None:
    hears = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)}
    words = [sys.executable, "-c", WAITS]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(), **hears) as waits:
        assert waits.stdout is not None and waits.stdout.readline() == "ready\n"
        try:
            waits.send_signal(number)
            assert waits.wait(60) == 0
        finally:
            waits.kill()


def test_a_server_is_stopped_whatever_fails_beside_it(core: Any, tmp_path: Path) -> None:
    there = tmp_path / "socket"
    spec = {"server": "http", "unix": str(there), "memory_bytes": 2**20, "max_message_size": 2**20}
    with pytest.raises(ZeroDivisionError), serving.started(core, spec, "here") as server:
        assert there.exists()
        raise ZeroDivisionError
    # It is still referred to here, so nothing else has stopped it.
    assert server.wait(0) and not there.exists()
