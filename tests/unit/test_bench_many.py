"""What bench/cluster says of many loaders, of figures that are known."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.needs import require
from support.run import ROOT

BENCH = ROOT / "bench"
HEAD: dict[str, Any] = {
    "kind": "environment", "date": "2026-11-25T00:00:00Z", "cpu": "Model CPU", "cpus": 2, "kernel": "6.1",
    "commit": "abc", "load_before": 0.1, "ray": "2", "batches_per_second": 1000, "no_events": "perf: none",
}  # fmt: skip


def told(
    bench: str, lines: list[dict[str, Any]], place: Path, **head: Any
) -> tuple[str, list[dict[str, Any]], list[str]]:
    """The page of such lines, its goals, and what failed or could not be measured."""
    source = place / f"{bench}.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in [HEAD | head, *lines]))
    code = (
        "import json, sys; sys.path.insert(0, '..')\n"
        "from pathlib import Path; import table\n"
        f"found = table.told(Path({str(source)!r}))\n"
        "goals = [dict(goal.as_json(), verdict=goal.verdict) for goal in found.goals]\n"
        "print(json.dumps([found.page, goals, found.failed + found.missing]))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=BENCH / bench, capture_output=True, text=True, check=True
    )
    page, goals, failed = json.loads(answer.stdout)
    return page, goals, failed


def loaders(seconds: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for count in (10, 100, 300, 1000):
        for repeat in range(7):
            beyond = seconds(count) * (1 + 0.01 * (repeat - 3))
            lines.append(
                {
                    "kind": "trial", "of": "simulated", "loaders": count, "beyond_s": beyond,
                    "driver_cpu_s": beyond / 2, "ray_cpu_s": 0.1, "loaders_cpu_s": 0.2, "skew_ms": 1.0,
                }
            )  # fmt: skip
        run = {"begun_s": 5.0, "end_s": 2.0, "peak_bytes": 10**8, "steal": 0.0}
        lines.append({"kind": "run", "of": "simulated", "loaders": count, **run})
    return lines


def test_the_law_of_loaders_is_found_and_held_against_the_largest_number(tmp_path: Path) -> None:
    page, goals, _ = told("cluster", loaders(lambda count: 0.2 + 0.004 * count), tmp_path)
    assert re.search(r"\| 0\.20 \[[0-9.]+\] s \| (4\.0|3\.9)\d \[[0-9.]+\] ms \| 4\.[12]\d \[", page), page
    verdicts = {goal["what"]: goal["verdict"] for goal in goals}
    assert set(verdicts.values()) == {"met"} and len(goals) == 6
    # One that grows with the square of the number is no law of a line.
    _, goals, _ = told("cluster", loaders(lambda count: 0.2 + 1e-5 * count**2), tmp_path)
    largest = [goal for goal in goals if "1000 loaders, law of fewer" in goal["what"]]
    assert [goal["verdict"] for goal in largest] == ["met", "missed"] * 2


_LATE = """
import asyncio, time
import simulated

end, ends, now = simulated._End(), simulated.Ends.__new__(simulated.Ends), time.time_ns()
end.spec, ends._told = {"duration_ns": 0}, lambda end: end.started_ns
print(asyncio.run(ends._start_at(end, 0, now - 10**9, "counted", 1.0)) >= now)
"""


def test_a_simulated_loader_that_hears_too_late_starts_late() -> None:
    # Found, not imported: what Ray demands is read when it is, and other tests are in this process.
    require(find_spec("ray"), "ray (pip install 'venturi[cluster]')")
    answer = subprocess.run(
        [sys.executable, "-c", _LATE], cwd=BENCH / "cluster", capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "True"
