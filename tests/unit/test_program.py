"""How the program ends: at once, but with all that others see of an end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.run import environment

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
