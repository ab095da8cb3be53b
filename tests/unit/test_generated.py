"""The repository around the product: one record is all that a parameter needs (tools/generate), clear lines
where a machine lacks something, and `action.yml` with its script, without GitHub."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import typer
import yaml

import venturi
from support.compare import slower
from support.run import ROOT, TESTS
from support.synthetic import cells, make_run
from venturi.cli import app

FIELD = """    hurry: Annotated[Nullable[Literal["some", "much"]], _flight("How much to hurry.")] = None
    connections: """
RUN = """
import sys
import venturi
from support.model import ModelExecutor, used
from support.run import venturi as typed
from venturi.analysis.verdict.rerun import Rerun
out = sys.argv[1]
keywords = dict(target="flight://h", streams=1, rows_per_stream=1000, ceilings=False, repeats=1, warmup=0)
print("--hurry" in typed("run", "--help").stdout)
planned = typed("run", "--target", "flight://h", "--hurry", "some,much", "--dry-run", "-q").stdout
print("hurry=some" in planned and "hurry=much" in planned)
with used(ModelExecutor()):
    run = venturi.run(hurry=["some", "much"], out=out, **keywords)
print(sorted(run.trials["hurry"].to_pylist()))
print(run.sql("select count(distinct hurry) as found from trials").to_pylist())
print(typed("sql", out, "select hurry from trials order by 1", "--format", "csv").stdout.split())
print(sorted(Rerun.of(cell, {}).but() for cell in run.results.cells))
"""


@pytest.fixture(scope="module")
def with_one_more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose Flight has one option more, and what is generated from it."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "python", root / "python", symlinks=True, ignore=shutil.ignore_patterns("*.so"))
    for core in (ROOT / "python/venturi").glob("*.so"):
        (root / "python/venturi" / core.name).symlink_to(core)
    (root / "tools").mkdir()
    shutil.copy(ROOT / "tools/generate", root / "tools/generate")
    shutil.copytree(ROOT / "docs", root / "docs")
    shutil.copytree(ROOT / "tests/data/golden", root / "tests/data/golden")
    flight = root / "python/venturi/targets/transfers.py"
    text = flight.read_text()
    assert text.count("    connections: ") == 1
    flight.write_text(text.replace("    connections: ", FIELD))
    python(root, root / "tools/generate")
    return root


def python(root: Path, *words: object) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "python"), str(TESTS)])}
    found = [sys.executable, *map(str, words)]
    done = subprocess.run(found, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_parameter_is_one_record(with_one_more: Path) -> None:
    root = with_one_more
    schema = json.loads((root / "python/venturi/schema/trial.schema.json").read_text())
    said = schema["properties"]["parameters"]["properties"]["hurry"]
    assert said == {"description": "How much to hurry.", "enum": ["some", "much", None]}
    assert '"hurry": _Text,' in (root / "python/venturi/api/keywords.pyi").read_text()
    *told, again = python(root, "-c", RUN, root / "run").splitlines()
    assert told == [
        "True", "True", "['much', 'some']", "[{'found': 2}]", "['hurry', 'much', 'some']",
    ]  # fmt: skip
    assert "--hurry some" in again and "--hurry much" in again


# ---- the other tools of the repository


# What tools/check-tools calls besides the tools that it looks for.
SHELL_TOOLS = ("sh", "cut", "sort", "head")


def check_tools(tmp_path: Path, tools: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """tools/check-tools on a machine that has only these tools, each a line of shell."""
    for name, text in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for name in SHELL_TOOLS:
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    given = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "CC")}
    command = [ROOT / "tools" / "check-tools", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**given, "PATH": str(tmp_path)})


PYTHON = {"python3": f'exec {sys.executable} "$@"'}
CARGO = {"cargo": "echo cargo 1.91.0"}
COMPILER = {"cc": "true"}


def test_a_complete_machine_is_silent(tmp_path: Path) -> None:
    done = check_tools(tmp_path, PYTHON | CARGO | COMPILER)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("tools", "line"),
    [
        (CARGO | COMPILER, "no Python of at least 3.11"),
        ({"python3": "exit 1"} | CARGO | COMPILER, "no Python of at least 3.11"),
        (PYTHON | COMPILER, "cargo is missing"),
        (PYTHON | {"cargo": "echo cargo 1.63.0"} | COMPILER, "cargo 1.63.0 is too old"),
        (PYTHON | CARGO, "no C compiler"),
    ],
)
def test_what_is_missing_is_one_clear_line(tmp_path: Path, tools: dict[str, str], line: str) -> None:
    done = check_tools(tmp_path, tools)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_newer_python_is_found_by_its_own_name(tmp_path: Path) -> None:
    tools = {"python3": "exit 1", "python3.12": PYTHON["python3"]}
    assert check_tools(tmp_path, tools, "--python").stdout == "python3.12\n"


# ---- what the package says of itself


VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def test_one_version_everywhere() -> None:
    assert venturi.__version__ == metadata.version("venturi") == VERSION
    assert f"version: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(VERSION)} - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_a_release_names_its_repository_and_refuses_another_version() -> None:
    def release(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "tools" / "release"), "--print", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = release(f"v{VERSION}", "https://example.org/venturi")
    urls = tomllib.loads(done.stdout)["project"]["urls"]
    assert urls["Repository"] == "https://example.org/venturi"
    assert urls["Changelog"] == f"https://example.org/venturi/blob/v{VERSION}/CHANGELOG.md"
    refused = release("v9.9.9", "https://example.org/venturi")
    assert refused.returncode == 2
    assert refused.stderr == f"error: the tag is v9.9.9, Cargo.toml says {VERSION}; set one of them right\n"


# ---- the action


SCRIPT = ROOT / "tools" / "action"
OPTIONS = "--operation get --rows-per-stream 200k\n--repeats 4 --no-ceilings --no-report --quiet\n"
VENTURI = """#!/bin/sh
if [ "$1" = ab ] && [ -n "$MADE" ]; then
    shift
    printf '%s\\n' "$@" >"$RUNNER_TEMP/words"
    cp -r "$MADE" "$8"
    exit 8
fi
exec {python} -m venturi "$@"
"""
"""Venturi, but that a run that is made already stands for what `ab` measures."""


def test_the_script_gets_all_its_variables() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = set(action["runs"]["steps"][-1]["env"])
    wanted = set(re.findall(r"\$\{?([A-Z_]+)\b", SCRIPT.read_text()))
    # What every job has, and what `gh` reads.
    assert wanted - {"RUNNER_TEMP", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"} == given - {"GH_TOKEN", "GH_REPO"}
    inputs = set(re.findall(r"inputs\.([a-z]+)", str(action["runs"])))
    assert inputs == set(action["inputs"])
    # A text of a pull request must never become a part of a script.
    assert not any("${{" in step.get("run", "") for step in action["runs"]["steps"])


def act(tmp_path: Path, head: str, **more: str) -> tuple[int, str]:
    """A job's step; its exit code, and what it has said on the pull request."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    said = tmp_path / "comment"
    gh = tools / "gh"
    gh.write_text(f'#!/bin/sh\ncat "$5" >{said}\n')
    gh.chmod(0o755)
    venturi = tools / "venturi"
    venturi.write_text(VENTURI.format(python=sys.executable))
    venturi.chmod(0o755)
    server = f"{venturi} serve flight --port {{port}}"
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "BASE": server,
        "HEAD": f"{server} {head}".strip(),
        "OPTIONS": OPTIONS,
        "URL": "flight://127.0.0.1:{port}",
        "THRESHOLD": "30%",
        "HISTORY": str(tmp_path / "history"),
        "COMMENT": "true",
        "PULL_REQUEST": "7",
    }
    done = subprocess.run([SCRIPT], env=environment | more, capture_output=True, text=True, check=False)
    assert f"exit-code={done.returncode}\n" in (tmp_path / "output").read_text(), done.stderr
    return done.returncode, said.read_text() if said.exists() else ""


def test_a_slower_server_fails_the_job_and_is_told_on_the_pull_request(tmp_path: Path) -> None:
    kept, made = tmp_path / "history", tmp_path / "made"
    for path in (made, kept / "night"):
        matrix = cells(("get",), (2,), ("base", "head"))
        make_run(path, matrix, edit=slower(1.5, "place == 'head'"), samples=False)
    code, said = act(tmp_path, "--handicap encode=2ms", MADE=str(made))
    assert code == 8
    assert "slower" in said and (tmp_path / "summary.md").read_text().startswith(said)
    assert len([run for run in kept.iterdir() if run.is_dir()]) == 2
    assert "head" in (kept / "history.html").read_text()
    words = (tmp_path / "words").read_text().splitlines()
    asked = typer.main.get_command(app).get_command(None, "ab").make_context("ab", words).params  # type: ignore[attr-defined]
    assert asked["head"].endswith("serve flight --port {port} --handicap encode=2ms")
    assert (asked["threshold"], asked["url"]) == ("30%", "flight://127.0.0.1:{port}")
    assert " ".join(asked["run"]) == " ".join(OPTIONS.split())


def test_a_job_that_compares_nothing_fails_too(tmp_path: Path) -> None:
    code, said = act(tmp_path, "--no-such-option", HISTORY="")
    assert code not in (0, 5, 8) and said == ""
    assert not (tmp_path / "summary.md").exists()
