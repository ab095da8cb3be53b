"""Servers hear at once of what ends them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from run_support import environment

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
