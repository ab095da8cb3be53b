"""The repository's own tools: clear lines where a machine lacks something, the bench's arithmetic."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.run import ROOT

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
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "CC")}
    return subprocess.run(
        [ROOT / "tools" / "check-tools", *arguments],
        capture_output=True,
        text=True,
        env={**environment, "PATH": str(tmp_path)},
    )


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
