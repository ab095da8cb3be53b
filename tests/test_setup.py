"""The repository's own tools: clear lines where a machine lacks something, the bench's arithmetic."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flight_support import ROOT

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
        (CARGO | COMPILER, "no Python of at least 3.10"),
        ({"python3": "exit 1"} | CARGO | COMPILER, "no Python of at least 3.10"),
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


# ---- the bench's summary ------------------------------------------------------------


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "flight"))
    yield importlib.import_module("summary")
    for name in ("summary", "peers"):
        sys.modules.pop(name, None)


def bench_file(path: Path, speeds: dict[str, list[float]], streams: int = 1) -> Path:
    """The bench's JSONL with one cell; speeds in GB/s by pairing, one a round."""
    lines: list[dict[str, Any]] = [
        {
            "kind": "environment", "date": "2026-11-21T00:00:00Z", "cpu": "Model CPU", "cpus": 2,
            "kernel": "6.1", "arrow": "26.0.1", "commit": "abc", "load_before": 0.1, "rounds": 3,
            "bytes": 10**9, "seed": 1, "pairings": list(speeds),
        }
    ]  # fmt: skip
    for pairing, values in speeds.items():
        for number, speed in enumerate(values):
            lines.append(
                {
                    "kind": "trial", "round": number, "pairing": pairing, "operation": "get",
                    "streams": streams, "rows_per_batch": 4096, "bytes": 10**9, "rows": 31_250_000,
                    "interval_ns": int(1e9 / speed), "user_ns": 10**8, "system_ns": 10**8,
                    "server_cpu_ns": 3 * 10**8, "steal": 0.0,
                }
            )  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_ratios_are_taken_within_a_round(summary: ModuleType, tmp_path: Path) -> None:
    # The machine halves its speed from round to round; the ratio stays.
    speeds = {"cpp/cpp": [2.0, 1.0, 0.5], "venturi/venturi": [3.2, 1.6, 0.8], "tcp": [4.0, 4.0, 4.0]}
    text, accepted = summary.markdown(bench_file(tmp_path / "bench.jsonl", speeds))
    assert accepted
    assert "| get | 1 | 4096 | 1.00 | 1.60: 1.60 (1.60..1.60) | 4.00 |" in text
    assert "venturi/venturi at least 1.5 on one stream, 1.25 on more: met in every cell" in text
    assert "| get | 0.20 + 0.30 | 0.20 + 0.30 | 0.20 + 0.30 |" in text


@pytest.mark.parametrize(("streams", "accepted"), [(1, False), (2, True), (4, True)])
def test_the_requirement_depends_on_the_streams(
    summary: ModuleType, tmp_path: Path, streams: int, accepted: bool
) -> None:
    speeds = {"cpp/cpp": [1.0, 1.0, 1.0], "venturi/venturi": [1.3, 1.4, 1.3]}
    text, met = summary.markdown(bench_file(tmp_path / "bench.jsonl", speeds, streams))
    assert met is accepted
    assert ("**1.30**" in text) is not accepted


def test_a_failed_trial_is_never_accepted(summary: ModuleType, tmp_path: Path) -> None:
    path = bench_file(tmp_path / "bench.jsonl", {"cpp/cpp": [1.0], "venturi/cpp": [1.2]})
    with open(path, "a") as file:
        file.write(
            json.dumps({"kind": "trial", "pairing": "venturi/cpp", "error": "venturi/cpp: lost"}) + "\n"
        )
    text, accepted = summary.markdown(path)
    assert not accepted
    assert "Failed trials: 1" in text
