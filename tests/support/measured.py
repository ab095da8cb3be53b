"""Runs of the command line that end as they should, and what they have stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.run import venturi
from support.synthetic import lines

ONCE = ("--repeats", 1, "--warmup", 0, "--no-report", "--no-ceilings")
"""One trial of each cell, and nothing else."""


def measured(out: Path, target: str, *words: object, code: int = 0) -> list[dict[str, Any]]:
    """The records of a run that ends with this code."""
    done = venturi("run", "--target", target, *words, "--out", out)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    return lines(out)
