"""One record is all that a parameter needs: the rest is made of it (tools/generate); and clear lines where a
machine lacks something."""

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

import venturi
from support.run import ROOT, TESTS

FIELD = """    hurry: Annotated[Nullable[Literal["some", "much"]], _flight("How much to hurry.")] = None
    connections: """
RUN = """
import sys
import venturi
from support.model import ModelExecutor
from support.run import venturi as typed
from venturi.analysis.verdict.rerun import Rerun
out = sys.argv[1]
keywords = dict(target="flight://h", streams=1, rows_per_stream=1000, ceilings=False, repeats=1, warmup=0)
print("--hurry" in typed("run", "--help").stdout)
planned = typed("run", "--target", "flight://h", "--hurry", "some,much", "--dry-run", "-q").stdout
print("hurry=some" in planned and "hurry=much" in planned)
run = venturi.run(hurry=["some", "much"], out=out, executor=ModelExecutor(), **keywords)
print(sorted(run.trials["hurry"].to_pylist()))
print(run.sql("select count(distinct hurry) as found from trials").to_pylist())
print(typed("sql", out, "select hurry from trials order by 1", "--format", "csv").stdout.split())
print(sorted(Rerun.of(cell, {}).but() for cell in run.results.cells))
"""


@pytest.fixture(scope="module")
def with_one_more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose Flight has one option more, and what is generated from it."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(
        ROOT / "python", root / "python", symlinks=True, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    for core in (ROOT / "python/venturi").glob("*.so"):
        (root / "python/venturi" / core.name).symlink_to(core)
    (root / "tools").mkdir()
    shutil.copy(ROOT / "tools/generate", root / "tools/generate")
    shutil.copytree(ROOT / "docs", root / "docs")
    shutil.copytree(ROOT / "tests/data/golden", root / "tests/data/golden")
    flight = root / "python/venturi/targets/flight.py"
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
