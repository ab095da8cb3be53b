"""What benches say of many loaders and of many cores, of figures that are known."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

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


def cores(lost_ns: float, two: float, running: float = 1.0) -> list[dict[str, Any]]:
    """`lost_ns`: what the encoder takes more beside another core; `two`: times that two streams take on two
    CPUs what they take on one."""
    parts = {"one counter for all": (5.0, 9.0), "one batch for all, kept by each": (60.0, 200.0)}
    parts |= dict.fromkeys(("source", "counters of streams", "slabs", "allocator"), (4.0, 4.0))
    parts |= dict.fromkeys(("stage clock and histogram", "stop flag"), (1.0, 1.0))
    parts["encoder"] = (1000.0, 1000.0 + lost_ns)
    lines: list[dict[str, Any]] = [
        {"kind": "part", "round": n, "part": part, "threads": threads, "ns": ns, "running": running}
        for n in range(8)
        for part, each in parts.items()
        for threads, ns in zip((1, 2), each, strict=True)
    ]
    for number in range(8):
        for cpus in (1, 2):
            for streams in (1, 2):
                ns = 30_000 * (two if (cpus, streams) == (2, 2) else 1.0)
                line = {"cpus": cpus, "streams": streams, "round": number, "batches": 1000, "steal": 0.0}
                line |= {"interval_ns": 10**9, "stages": {"client": {"receive": 10**6}, "server": None}}
                cpu = {"client": ns * 500, "server": ns * 500}
                lines.append({"kind": "get", "rows": 4096, "bytes": 131_072_000, "cpu_ns": cpu, **line})
    return lines


@pytest.mark.parametrize(
    ("lost_ns", "two", "verdicts"),
    [
        (0.0, 1.0, ["met", "met", "met", "met"]),
        # 3,000 ns of 30,000 are lost, and were seen to be.
        (3000.0, 1.1, ["met", "met", "met", "missed"]),
        # Two CPUs take half as much again, of which the parts know nothing.
        (0.0, 1.5, ["met", "missed", "met", "met"]),
    ],
)
def test_the_model_of_cores_is_checked_on_two(
    lost_ns: float, two: float, verdicts: list[str], tmp_path: Path
) -> None:
    page, goals, failed = told("cores", cores(lost_ns, two), tmp_path)
    assert [goal["verdict"] for goal in goals] == verdicts and len(failed) == 1
    assert f"A batch loses {lost_ns:.0f} ns [{lost_ns:.0f}..{lost_ns:.0f}]" in page
    assert "perf: none" in page
    rate = 131_072 / 30_000
    assert f"| 4096 | {rate:.1f} [" in page
    if not lost_ns:
        # Nothing is lost: 128 cores do 128 times as much.
        assert f"{128 * rate:,.1f} [{128 * rate:,.1f}..{128 * rate:,.1f}] |" in page


def test_turns_in_which_a_thread_was_put_aside_tell_nothing(tmp_path: Path) -> None:
    """But the gets beside them do."""
    page, goals, failed = told("cores", cores(0.0, 1.0, running=0.5), tmp_path)
    assert not goals and any("the model: the machine is too busy" in line for line in failed), page
    assert "| get, 4096 rows | 2 | 2 | 30,000 [" in page and "by two at the same time" not in page
    assert "Failed:" not in page


def test_errors_of_several_streams_do_not_cancel(tmp_path: Path) -> None:
    """A fifth too much of two streams and too little of four are two goals missed."""
    lines = cores(0.0, 1.2)
    lines += [
        {**line, "streams": 4, "cpu_ns": dict.fromkeys(("client", "server"), ns * 500)}
        for line in lines
        if line["kind"] == "get" and line["streams"] == 2
        for ns in (30_000 / (1.2 if line["cpus"] == 2 else 1.0),)
    ]
    _, goals, _ = told("cores", lines, tmp_path)
    missed = [goal["what"] for goal in goals if goal["verdict"] == "missed"]
    assert [what.split(", ")[-1] for what in missed] == ["2 streams", "4 streams"]


def test_two_threads_of_one_core_are_not_two_cores(tmp_path: Path) -> None:
    page, _, _ = told("cores", cores(0.0, 1.0), tmp_path, siblings=True)
    assert "- two cores: the two CPUs that were used are threads of one" in page


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
