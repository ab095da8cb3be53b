"""Predictions checked by real trials, here and now. Twins: tests/unit/test_predict.py,
test_a_queued_prediction_is_measured_and_shown_beside; tests/unit/test_predict.py."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

from support import synthetic
from support.path import hosts
from support.run import venturi
from venturi.analysis import results


def test_real_trials_check_a_prediction(core: object, tmp_path: Path) -> None:
    arguments = ("--operation", "get", "--streams", "1,2,3,4", "--rows-per-stream", "2M", "--repeats", "3")
    path = tmp_path / "run"
    made = venturi("run", *arguments, "--out", path, "--no-report", "-q")
    assert made.returncode == 0, made.stderr
    queued = venturi("predict", path, "--streams", "6", "--queue")
    assert queued.returncode == 0, queued.stderr
    checked = venturi("predict", path, "--check", "-q")
    assert checked.returncode == 0, checked.stderr
    (one,) = results.load(path).predictions
    trials = synthetic.lines(path)
    assert {t["outcome"] for t in trials} == {"ok"}
    new = [t for t in trials if t["parameters"]["streams"] == 6]
    assert [t["warmup"] for t in new].count(False) == 3, "as many repeats as the run has"
    rates = [t["counts"]["payload_bytes"] / t["times"]["interval_ns"] * 1e9 for t in new if not t["warmup"]]
    middle, low, high = median(rates), one.line["low"], one.line["high"]
    # Whether it came true is the machine's affair; that it was measured and judged is ours.
    assert one.measured.value == pytest.approx(middle) and low < one.line["predicted"] < high
    assert one.error == pytest.approx(one.line["predicted"] / middle - 1)
    assert one.sentence.endswith(f"{'inside' if low <= middle <= high else 'outside'} the interval")


def test_a_real_prediction_is_queued_and_measured(core: object, tmp_path: Path) -> None:
    with hosts():  # skips where no network namespaces can be made
        pass
    path = tmp_path / "run"
    over = "50mbit 5ms,100mbit 20ms,200mbit 5ms,100mbit"
    run = venturi(
        *("run", "--target", "flight://local", "--operation", "get", "--link", over, "--window", "1Mi"),
        *("--duration", "700ms", "--repeats", "2", "--warmup", "0", "--ceilings", "none", "--no-report"),
        *("-q", "--out", path),
    )
    assert run.returncode == 0, run.stderr
    queued = venturi("predict", path, "--link", "150mbit 10ms", "--queue")
    assert queued.returncode == 0, queued.stderr
    (line,) = [json.loads(text) for text in (path / "predictions.jsonl").read_text().splitlines()]
    assert line["axis"] == "link" and line["value"] == line["parameters"]["link"] == "150mbit 10ms"
    assert "150mbit 10ms" not in line["measured"]
    checked = venturi("predict", path, "--check", "-q")
    assert checked.returncode == 0, checked.stderr
    assert "get with link 150mbit 10ms: predicted" in " ".join(checked.stdout.split())
    (one,) = results.load(path).predictions
    # What the link carries, less its start; how near both are is the machine's affair.
    assert 12e6 < line["predicted"] < 18.75e6 and line["low"] < line["predicted"] < line["high"]
    assert one.measured.value is not None and 8e6 < one.measured.value < 18.75e6
    assert one.inside == (line["low"] <= one.measured.value <= line["high"])
