"""bench/links on lines made by a known law: what it counts, and that a wrong law is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_link_law import LINKS, cells

from support.run import ROOT, environment

HEAD = {
    **{"kind": "environment", "date": "2026-11-26T00:00:00Z", "cpu": "c", "cpus": 2, "kernel": "k"},
    **{"commit": "0", "load_before": 0.0, "links": list(LINKS), "seconds": 1.0},
}


def page(path: Path, records: list[dict[str, object]]) -> subprocess.CompletedProcess[str]:
    lines = [HEAD, {"kind": "set", "set": "flight", "steal": 0.0}]
    lines += [{"kind": "trial", "set": "flight", "record": record} for record in records]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return subprocess.run(
        [sys.executable, str(ROOT / "bench/links/run.py"), "--from", str(path)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_links_that_follow_the_law_are_counted_inside(tmp_path: Path) -> None:
    said = page(tmp_path / "lines.jsonl", cells())
    assert said.returncode == 0, said.stdout + said.stderr
    assert f"predicted from the others: {len(LINKS)} times" in said.stdout
    # Nothing but `unshaped` shows what the ends do.
    assert said.stdout.count("cannot be told |") >= 1
    assert "| get | unshaped |" in said.stdout
    (goal,) = [line for line in said.stdout.splitlines() if "inside the 95 % interval" in line]
    assert "missed" not in goal


def test_links_that_follow_no_law_are_counted_outside(tmp_path: Path) -> None:
    """Rates that jump about by a factor, which repeats do not tell."""
    wild = cells(between=0.0, noise=0.001)
    for record in wild:
        if record["parameters"]["link"] in ("100mbit 10ms", "500mbit 5ms", "1gbit"):
            record["counts"]["payload_bytes"] //= 2
    said = page(tmp_path / "lines.jsonl", wild)
    rows = [line.split("|") for line in said.stdout.splitlines() if line.startswith("| get | ")]
    told = [float(row[5].split()[0]) for row in rows if "cannot be told" not in row[4]]
    assert sum(abs(error) > 10 for error in told) >= 2
    (goal,) = [line for line in said.stdout.splitlines() if "within 10 %" in line]
    share = float(goal.split("|")[3].split()[0])
    assert share == pytest.approx(sum(abs(error) <= 10 for error in told) / len(told), abs=0.006)
