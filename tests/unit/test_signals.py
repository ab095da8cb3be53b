"""Servers hear at once of what ends them, and are stopped whatever fails beside them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.run import environment
from venturi.cli import serving

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
