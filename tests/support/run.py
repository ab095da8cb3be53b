"""`venturi` as a user runs it, its output as text."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from venturi.cli import main
from venturi.store import directory

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
DATA = TESTS / "data"
SMALL = (
    "--operation", "get,put", "--streams", "1,2", "--rows-per-stream", "1M", "--repeats", "2", "--no-report",
)  # fmt: skip


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "venturi", *map(str, arguments)]


def helper(module: str, *arguments: object) -> list[str]:
    """The command of a program of tests/support. By its module's name: as a file it would find the modules
    beside it, `http` among them, in the place of Python's."""
    return [sys.executable, "-m", f"support.{module}", *map(str, arguments)]


def python_path() -> str:
    """Where a process of the tests finds Venturi and the programs of tests/support."""
    return os.pathsep.join(filter(None, [str(ROOT / "python"), str(TESTS), os.environ.get("PYTHONPATH")]))


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": python_path(), "COLUMNS": "110", "NO_COLOR": "1", **extra}


def venturi(
    *arguments: object, cwd: Path | None = None, columns: int = 110
) -> subprocess.CompletedProcess[str]:
    """`venturi ARGUMENTS` in this process, which spares the second that Python and its libraries take to
    start; `venturi_process` is for what needs one of its own."""
    words = [str(word) for word in arguments]
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv, sys.stdin, warnings.showwarning, Path.cwd() if cwd is not None else None
    collected = gc.get_threshold()
    directory._read.clear()
    with mock.patch.dict(os.environ, {"COLUMNS": str(columns), "NO_COLOR": "1"}), open(os.devnull) as nothing:
        sys.argv, sys.stdin = ["venturi", *words], nothing
        try:
            if cwd is not None:
                os.chdir(cwd)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.argv, sys.stdin, warnings.showwarning, there = before
            gc.set_threshold(*collected)
            if there is not None:
                os.chdir(there)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def venturi_process(
    *arguments: object, cwd: Path | None = None, timeout: float = 60, **extra: Any
) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        check=False,
        **extra,
    )


def model(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`venturi run` with the deterministic executor."""
    return venturi("run", "--executor", "support.model", *arguments, cwd=cwd)
