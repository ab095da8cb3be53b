"""`action.yml` and the script that it runs, without GitHub: its files and `gh` are what a job has of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import typer
import yaml

from support.compare import slower
from support.run import ROOT
from support.synthetic import cells, make_run
from venturi.cli import app

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
