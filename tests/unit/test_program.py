"""How programs end: at once, but with all that others see of an end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.run import environment
from venturi.cli import serving

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


WAITS = """
from venturi.common import signals

ending = signals.Ending()
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
    spec = {"server": "http", "unix": str(there), **serving.bounds("1Mi", "1Mi")}
    with pytest.raises(ZeroDivisionError), serving.started(core, spec, "here") as server:
        assert there.exists()
        raise ZeroDivisionError
    # It is still referred to here, so nothing else has stopped it.
    assert server.wait(0) and not there.exists()
