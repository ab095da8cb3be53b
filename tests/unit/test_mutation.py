"""The seeded faults of bench/mutation: a patch that does not fit the tree any more seeds nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from mutation import cargo_mutants, faults, steps, table
from support.run import ROOT

FAULTS = faults.everything()


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies them")
def test_every_fault_fits_the_tree() -> None:
    apply = ["git", "apply", "--check"]
    said = {
        fault.name: done.stderr
        for fault in FAULTS
        if (
            done := subprocess.run([*apply, str(fault.path)], cwd=ROOT, capture_output=True, text=True)
        ).returncode
    }
    assert said == {}


def test_there_are_enough_of_them_and_each_says_what_it_breaks() -> None:
    assert len(FAULTS) >= 60
    assert max(Counter(fault.area for fault in FAULTS).values()) <= len(FAULTS) / 4
    for fault in FAULTS:
        first = fault.path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# ") and fault.says.endswith("."), fault.name
        assert fault.touched, fault.name


def test_every_fault_has_tests_that_are_there() -> None:
    for fault in FAULTS:
        for step in steps.of(fault.touched):
            for word in step[1:]:
                kind, name = step[0], word.removeprefix("venturi-")
                there = ROOT / (f"crates/{name}/Cargo.toml" if kind == "cargo" else word)
                assert word == "-p" or there.exists(), f"{fault.name}: {word}"


def test_a_file_that_nobody_has_tests_for_is_an_error() -> None:
    with pytest.raises(KeyError):
        steps.of(["docs/method.md"])


def test_cargo_mutants_has_files() -> None:
    for pattern in cargo_mutants.FILES:
        assert list(ROOT.glob(pattern)), pattern

    def files(*words: str) -> int:
        return cargo_mutants.command(words, ROOT, ROOT).count("--file")

    assert (files(), files("--file", "a.rs")) == (len(cargo_mutants.FILES), 1)


def lines(tmp_path: Path, *outcomes: dict[str, Any]) -> Path:
    head = {"kind": "environment", "date": "today", "cpu": "a CPU", "cpus": 2, "kernel": "6", "commit": "abc"}
    found = [
        {"kind": "fault", "fault": fault.name, **one} for fault, one in zip(FAULTS, outcomes, strict=False)
    ]
    file = tmp_path / "lines.jsonl"
    every = [head | {"load_before": 0.1}, {"kind": "baseline", "failing": []}, *found]
    file.write_text("".join(json.dumps(line) + "\n" for line in every), encoding="utf-8")
    return file


PROVED = {"prove": True, "proofs": ["lies"]}
TESTED = {"prove": False, "proofs": [], "tests": True, "by": "cargo test -p venturi-base"}
MISSED = {"prove": False, "proofs": [], "tests": False}


def test_the_score_needs_19_of_20_by_prove_and_all_together(tmp_path: Path) -> None:
    told = table.told(lines(tmp_path, *[PROVED] * 19, TESTED))
    assert told.kept and "19 of 20 (95%)" in told.text and "20 of 20 (100%)" in told.text
    assert TESTED["by"] in told.text
    assert not table.told(lines(tmp_path, *[PROVED] * 18, TESTED, TESTED)).kept
    told = table.told(lines(tmp_path, *[PROVED] * 19, MISSED))
    assert not told.kept and "**nobody**" in told.text


def test_a_fault_that_does_not_compile_is_an_error_of_ours(tmp_path: Path) -> None:
    told = table.told(lines(tmp_path, *[PROVED] * 19, {"error": "does not compile: here"}))
    assert not told.kept and "does not compile: here" in told.page


def test_one_that_was_only_proved_says_nothing_of_tests(tmp_path: Path) -> None:
    unproved = {"prove": False, "proofs": []}
    told = table.told(lines(tmp_path, *[PROVED] * 19, unproved))
    assert told.kept and "and the tests" not in told.text and "nobody" not in told.text
