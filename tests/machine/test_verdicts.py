"""Verdicts on bottlenecks made on purpose, by the bench that judges them: none is wrong. A busy machine may
keep a verdict from being found, or be the true one: it must never be another place.

Twins: tests/unit/test_verdict.py and test_findings.py, for what each record gives.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.run import ROOT, environment
from venturi.analysis.verdict.causes import Cause

ONLY = (
    *("foreign-link", "foreign-sleeps-put", "foreign-burns-put", "foreign-serial", "encode-of-the-server"),
    *("decode-of-the-client", "zstd", "cores", "quota-of-the-server", "rate-get", "window-get"),
    *("link-get", "link-put", "link-unprobed"),
)
"""Beginnings of the names of cases: one for each kind of place."""


def test_no_verdict_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "verdicts.jsonl"
    words = [sys.executable, "-m", "bench.verdicts.run", "--rounds", "1", "--output", file, "--only", *ONLY]
    done = subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(text) for text in file.read_text().splitlines()]
    found = [line for line in lines if line["kind"] == "verdict" and "missing" not in line]
    assert found and not [line for line in found if "error" in line], found
    wrong = [line for line in found if line["verdict"]["judged"] == "wrong"]
    assert not [line for line in wrong if line["verdict"]["cause"] != str(Cause.CORES_OF_OTHERS)]
