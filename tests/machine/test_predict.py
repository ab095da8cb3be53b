"""Predictions checked by real trials, here and now. Twin: tests/unit/test_predict.py."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

from support.link import laboratory
from support.read import ran, records
from support.run import venturi
from venturi.analysis import results


def test_real_trials_check_a_prediction(core: object, tmp_path: Path) -> None:
    with laboratory():  # skips where no network namespaces can be made
        pass
    path = tmp_path / "run"
    over = "50mbit 5ms,100mbit 20ms,200mbit 5ms,100mbit"
    ran(
        path,
        *("--target", "flight://local", "--operation", "get", "--link", over, "--window", "1Mi", "-q"),
        *("--duration", "700ms", "--repeats", "2", "--warmup", "0", "--ceilings", "none", "--no-report"),
    )
    queued = venturi("predict", path, "--link", "150mbit 10ms", "--queue")
    assert queued.returncode == 0, queued.stderr
    (line,) = [json.loads(text) for text in (path / "predictions.jsonl").read_text().splitlines()]
    assert line["axis"] == "link" and line["value"] == line["parameters"]["link"] == "150mbit 10ms"
    assert "150mbit 10ms" not in line["measured"]
    checked = venturi("predict", path, "--check", "-q")
    assert checked.returncode == 0, checked.stderr
    assert "get with link 150mbit 10ms: predicted" in " ".join(checked.stdout.split())
    (one,) = results.load(path).predictions
    trials = records(path)
    assert {trial["outcome"] for trial in trials} == {"ok"}
    new = [trial for trial in trials if trial["parameters"]["link"] == "150mbit 10ms"]
    assert len(new) == 2, "as many repeats as the run has"
    middle = median(trial["counts"]["payload_bytes"] / trial["times"]["interval_ns"] * 1e9 for trial in new)
    # What the link carries, less its start; whether it came true is the machine's affair.
    assert 12e6 < line["predicted"] < 18.75e6 and line["low"] < line["predicted"] < line["high"]
    assert one.measured.value == pytest.approx(middle) and 8e6 < middle < 18.75e6
    assert one.error == pytest.approx(line["predicted"] / middle - 1)
    assert one.inside == (line["low"] <= middle <= line["high"])
    assert one.sentence.endswith(f"{'inside' if one.inside else 'outside'} the interval")
