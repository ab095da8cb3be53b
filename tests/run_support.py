"""`venturi` as a user runs it: a subprocess, its output as text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SMALL = (
    "--operation", "get,put", "--streams", "1,2", "--rows-per-stream", "1M", "--repeats", "2", "--no-report",
)  # fmt: skip


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "venturi", *map(str, arguments)]


def environment(**extra: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "110", "NO_COLOR": "1", **extra}


def venturi(*arguments: object, cwd: Path | None = None, **extra: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
        **extra,
    )


def model(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`venturi run` with the deterministic executor."""
    return venturi("run", "--executor", "model", *arguments, cwd=cwd)
