"""All subcommands: help, lists, SQL, doctor, start-up."""

from __future__ import annotations

import json
import re
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from support.run import ROOT, SMALL, command, environment, model, venturi
from venturi.cli import COMMANDS, EPILOG, app
from venturi.common.errors import ExitCode
from venturi.plan.values import TABLES

pytestmark = pytest.mark.slow


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


def test_help_is_quick_and_plain() -> None:
    done = venturi("--help")
    assert done.returncode == 0 and done.stderr == ""
    assert "130  interrupted" in done.stdout
    script = "import sys; from venturi.cli import app, LazyGroup; import typer; "
    script += "typer.main.get_command(app).get_help; import venturi.cli.run; "
    script += "heavy = ('pyarrow', 'numpy', 'duckdb', 'plotly', 'scipy', 'pydantic'); "
    script += "print([name for name in heavy if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_tells_its_use(name: str) -> None:
    done = venturi(name, "--help")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(f"Usage: venturi {name}")


def test_scenarios() -> None:
    assert [line.split()[0] for line in venturi("scenarios").stdout.splitlines()] == [
        "arrow-transports",
        "chspark",
        "flight-local",
        "flight-remote",
        "ingest-32",
        "ingest-akumuli",
        "ingest-protocols",
        "ingest-quick",
        "one-table",
        "quick",
        "read-databases",
        "unix-or-tcp",
        "upsert-batch-size",
        "upsert-cassandra",
        "upsert-memsql",
        "upsert-quick",
        "upsert-scale",
    ]
    shown = venturi("scenarios", "show", "quick").stdout
    assert shown == (ROOT / "python/venturi/plan/scenarios/quick.toml").read_text()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql") / "r"
    assert model("--out", path, *SMALL, "--quiet").returncode == 0
    return path


QUERY = (
    "select operation, streams, count(*) as n, round(median(bytes_per_second) / 1e6) as mb_s "
    "from trials where outcome = 'ok' and not warmup group by all order by all"
)
TABLE = """\
operation  streams  n  mb_s
---------  -------  -  ----
get              1  2  1415
get              2  2  2839
put              1  2  1165
put              2  2  2275
"""


def test_sql_prints_tables(run: Path) -> None:
    done = venturi("sql", run, QUERY)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", TABLE)
    done = venturi("sql", run, run, QUERY, "--format", "csv")
    assert done.stdout.splitlines()[:2] == ["operation,streams,n,mb_s", "get,1,4,1415.0"]
    done = venturi("sql", run, "select sum(bytes) as b from ceilings", "--format", "json")
    assert json.loads(done.stdout)[0]["b"] > 0


def test_the_last_run_is_meant_everywhere(tmp_path: Path) -> None:
    for _ in range(2):
        assert model(*SMALL, "--quiet", cwd=tmp_path).returncode == 0
    newest = sorted(path.name for path in (tmp_path / "venturi-runs").iterdir())[-1]
    done = venturi("sql", "last", "select distinct run from trials", "--format", "csv", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()[-1]) == (0, newest)
    for arguments in (
        ("show", "last"),
        ("report", "last"),
        ("run", "--executor", "support.model", "--resume", "last"),
    ):
        assert venturi(*arguments, cwd=tmp_path).returncode == 0


def test_sql_has_all_tables(run: Path) -> None:
    views = ("trials", "streams", "latency", "stages", "resources", "samples", "ceilings")
    query = " union all ".join(f"select distinct run, '{view}' as view from {view}" for view in views)
    done = venturi("sql", run, f"select view, run from ({query}) order by 1", "--format", "csv")
    assert done.stdout.splitlines() == ["view,run", *(f"{view},r" for view in sorted(views))]


def test_a_reader_that_has_enough_is_no_error(run: Path) -> None:
    process = subprocess.Popen(
        command("sql", run, "select * from range(200000)"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(30) == 0
    process.stderr.close()


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


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_doctor_says_who_uses_the_cpus() -> None:
    from venturi.common import processes

    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            before, began = processes.ticks(), time.monotonic()
            done = venturi("doctor", "--json")
            found = processes.busiest(before, processes.ticks(), time.monotonic() - began)
            again = processes.busiest(before, processes.ticks(), time.monotonic() - began, least=1e9)
        finally:
            busy.kill()
    (ours,) = [one for one in found if one.pid == busy.pid]
    # It never sleeps, so only others that want the CPUs too keep it from a whole one; it has one thread.
    assert 0.05 <= ours.cores <= 1.05 and ours.name.startswith("python"), ours
    assert found == sorted(found, key=lambda one: -one.cores) and again == []
    load = next(one for one in json.loads(done.stdout) if one["check"] == "load")
    named = re.findall(r"(\S+) \(pid (\d+)\) ([\d.]+)", load["text"])
    assert str(busy.pid) in [pid for _, pid, _ in named] or (len(named) == 5 and " more" in load["text"]), (
        load
    )
    assert load["state"] == "warning" and load["advice"].startswith("end that work")


def test_completion_is_there() -> None:
    shell = {
        **environment(),
        "_VENTURI_COMPLETE": "complete_bash",
        "COMP_WORDS": "venturi sc",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(command(), capture_output=True, text=True, env=shell, check=False)
    assert done.stdout.strip() == "scenarios"
