"""What benches say of their goals, and what `make bench` knows of them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.run import ROOT

BENCH = ROOT / "bench"


def in_bench(code: str) -> str:
    """In a process of its own: the modules of bench/ have short names."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=BENCH, capture_output=True, text=True, check=True).stdout


def test_a_goal_is_met_or_missed_where_the_whole_interval_says_so() -> None:
    said = in_bench(
        "import goals\n"
        "for values in ([1.1, 1.2, 1.3], [0.7, 0.8, 0.9], [0.9, 1.0, 1.1]):\n"
        "    for most in (False, True):\n"
        "        (goal,) = goals.judge('a', 2 * values, 1.0, most=most, unit='s')\n"
        "        print(goal.verdict)\n"
        "print(goals.judge('a', [], 1.0), goals.exact('b', 2, 2).verdict)\n"
        "print(goals.judge('a', 6 * [0.7], 1.0)[0].line)\n"
        "print(goals.judge('a', 3 * [0.7], 1.0)[0].line)\n"
        "print(*(goals.share('b', n, 20, 0.95)[0].verdict for n in (20, 15)), goals.share('b', 0, 0, 1))\n"
    )
    assert said.splitlines() == [
        *("met", "missed", "missed", "met", "cannot be told", "cannot be told"),
        "[] met",
        "| a | >= 1 | 0.7 | **missed** |",
        "| a | >= 1 | 0.7 | cannot be told: too few repeats (75%) |",
        "cannot be told missed []",
    ]


@pytest.mark.parametrize(("wanted", "failed"), [(0.9, False), (0.4, True), (0.4, False)])
def test_a_failed_trial_and_a_missed_goal_are_told(tmp_path: Path, wanted: float, failed: bool) -> None:
    said = in_bench(
        "import goals, shared\n"
        "from pathlib import Path\n"
        "lines = [{'kind': 'trial', 'round': n, 'way': w, 'rate': r} for n in range(6) for w, r in "
        "(('a', 1 + n), ('b', 2 + 2 * n))]\n"
        f"lines += {failed} * [{{'kind': 'trial', 'round': 9, 'way': 'a', 'steal': 0.0, 'error': 'no'}}]\n"
        "found = shared.by_round(lines, 'way')\n"
        "ratios = shared.ratios(found['a'], found['b'], lambda line: line['rate'])\n"
        f"told = shared.Told('# t', goals.judge('a of b', ratios, {wanted}), shared.failures(lines, 'way'))\n"
        f"print(shared.finish('x', told, Path({str(tmp_path / 'x.jsonl')!r}), False))\n"
    )
    missed = wanted > 0.5
    assert ("| a of b | >= 0.9 | 0.5 | **missed** |" in said) is missed
    assert ("- a: no" in said) is failed
    assert said.splitlines()[-1] == str(int(missed or failed))
    kept = json.loads((tmp_path / "x.goals.json").read_text())
    assert kept["failed"] == failed * ["a: no"] and kept["goals"][0]["found"] == 0.5


def test_each_bench_is_run_or_left_out_with_a_reason() -> None:
    said = json.loads(in_bench("import json, run; print(json.dumps([list(run.SMALL), list(run.LEFT_OUT)]))"))
    there = sorted(path.parent.name for path in BENCH.glob("*/run.py"))
    assert sorted(said[0] + said[1]) == sorted({*there, "models"})


# ---- the page of bench/flight


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for place in (BENCH, BENCH / "flight"):
        monkeypatch.syspath_prepend(str(place))
    yield importlib.import_module("summary")
    for name in ("summary", "goals", "shared"):
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
                    "interval_ns": int(1e9 / speed), "user_ns": 5 * 10**7, "system_ns": 5 * 10**7,
                    "server_cpu_ns": 10**8, "steal": 0.0,
                }
            )  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_ratios_are_taken_within_a_round(summary: ModuleType, tmp_path: Path) -> None:
    # The machine halves its speed from round to round; the ratio stays.
    speeds = {
        "cpp/cpp": 2 * [2.0, 1.0, 0.5],
        "venturi/venturi": 2 * [3.2, 1.6, 0.8],
        "tcp": 6 * [4.0],
    }
    told = summary.told(bench_file(tmp_path / "bench.jsonl", speeds))
    assert told.kept
    assert "| get | 1 | 4096 | 1.00 | 1.60: 1.60 [1.60..1.60] | 4.00 |" in told.text
    assert "| get | 0.10 + 0.10 | 0.10 + 0.10 | 0.10 + 0.10 |" in told.text
    assert [goal.verdict for goal in told.goals] == ["met", "met"]


@pytest.mark.parametrize(("streams", "kept"), [(1, False), (2, True), (4, True)])
def test_the_requirement_depends_on_the_streams(
    summary: ModuleType, tmp_path: Path, streams: int, kept: bool
) -> None:
    speeds = {"cpp/cpp": 6 * [1.0], "venturi/venturi": 2 * [1.3, 1.4, 1.3]}
    told = summary.told(bench_file(tmp_path / "bench.jsonl", speeds, streams))
    assert told.kept is kept
    assert ("**missed**" in told.page) is not kept


# ---- wide and odd tables: bench/wide

_WITHOUT_LIMIT = """
import sys
sys.path.insert(0, "wide")
import json, pathlib
import run

path = pathlib.Path(sys.argv[1])
lines = [{"date": "2026-11-25", "cpu": "c", "cpus": 2, "kernel": "k", "commit": "0", "load_before": 0.0}]
for number in range(6):
    for way, seconds in (("venturi", 1.0), ("pyarrow", 3.0)):
        lines.append({"kind": "trial", "round": number, "cell": run.CELLS[0].name, "operation": "get",
                      "way": way, "payload": 1e9, "seconds": seconds, "cpu": [1.0, 1.0], "steal": 0.0})
    lines.append({"kind": "trial", "round": number, "cell": run.CELLS[0].name, "operation": "get",
                  "way": "tcp", "error": "refused", "steal": 0.0})
path.write_text("\\n".join(map(json.dumps, lines)))
told = run.told(path)
print(told.text)
print(*(goal.verdict for goal in told.goals), sep=", ")
"""


def test_a_goal_is_told_where_its_limit_could_not_be_measured(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITHOUT_LIMIT, str(tmp_path / "lines.jsonl")]
    said = subprocess.run(command, cwd=BENCH, capture_output=True, text=True, check=True).stdout
    assert "| get | 3.00 [3.00..3.00] | - | 1.00 | 0.33 | - |" in said
    assert said.splitlines()[-1] == "met"
