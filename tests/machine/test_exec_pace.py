"""Which end of a pipe sets the pace, measured on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

from support.read import ran
from support.run import venturi

SHORT = ("--repeats", "1", "--warmup", "0", "--no-report")


def test_what_sets_the_pace_is_named(tmp_path: Path) -> None:
    """Its twin judges records: `test_a_program_that_is_waited_for_sets_the_pace`, tests/unit/test_exec.py."""
    run = tmp_path / "run"
    script = tmp_path / "slow.py"
    # It works for some ticks of CPU time, and sleeps most of the time.
    loop = (
        "while True:\n    print('row\\n' * 1000, flush=True)\n    sum(range(50000))\n    time.sleep(0.01)\n"
    )
    script.write_text(f"import time\n{loop}")
    words = ("--command", f"{sys.executable} {script}", "--writes", "lines", "--duration", "1s")
    ran(run, "--target", "exec://", *words, *SHORT)
    shown = venturi("show", run, "--cell", "best").stdout
    assert "the program sets the pace" in shown and "what they have started, use 0." in shown, shown
    assert "raw pipe" in shown, shown
