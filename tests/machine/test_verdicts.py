"""Verdicts on bottlenecks made on purpose: none is wrong. A busy machine may keep a verdict from being found,
or be the true one: it must never be another place.

Twins: tests/unit/test_verdict.py and test_findings.py, for what each record gives.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.needs import require, require_server
from support.run import ROOT, environment, venturi_process
from venturi.analysis.results import load

pytestmark = pytest.mark.usefixtures("core")
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
    assert not [line for line in wrong if line["verdict"]["cause"] != "cores-of-others"]


@dataclass(frozen=True)
class Bottleneck:
    """What is measured, and what makes it slow."""

    link: str
    words: str
    right: str
    target: str = "flight://local"
    bits: float | None = None
    """What the link carries of the data's way."""
    helps: str = ""
    """An option that the command of what would help has."""


GET, PUT = "--operation get", "--operation put"
UPSERT = "--operation upsert --data usage --working-set 1000"
MADE = {
    # The link's rate.
    "20mbit": Bottleneck("20mbit", GET, "link-full", bits=20e6),
    "put-100mbit-10ms": Bottleneck("100mbit 10ms", PUT, "link-full", bits=100e6),
    "2gbit": Bottleneck("2gbit", f"{GET} --streams 2 --verify count", "link-full", bits=2e9),
    "slow-down": Bottleneck("20mbit/200mbit 10ms", GET, "link-full", bits=20e6),
    "fast-down": Bottleneck("200mbit/20mbit 10ms", f"{GET} --duration 2s", "link-full", bits=200e6),
    "charrow": Bottleneck("100mbit 2ms", GET, "link-full", target="charrow://local", bits=100e6),
    "points": Bottleneck("20mbit", "--operation ingest", "link-full", target="akumuli://local"),
    "table": Bottleneck(
        "100mbit 10ms", f"{GET} --rows-per-stream 150k", "link-full", target="postgres://local"
    ),
    # Windows and buffers.
    "window-64k": Bottleneck("500mbit 20ms", f"{GET} --window 64Ki", "http2-window", helps="--window"),
    "send-buffer": Bottleneck(
        "200mbit 20ms", f"{PUT} --send-buffer 64Ki", "send-buffer", helps="--send-buffer"
    ),
    # Losses.
    "loss-cubic": Bottleneck("200mbit 20ms loss 0.5% cubic", GET, "loss", helps="--streams"),
    "loss-put": Bottleneck("500mbit 10ms loss 1% cubic", f"{PUT} --streams 2", "loss"),
    # Answers.
    "rows-one-by-one": Bottleneck(
        "100mbit 10ms", f"{UPSERT} --rows-per-batch 1", "little-in-flight", target="mysql://local"
    ),
    "answers": Bottleneck("1gbit 20ms", f"{PUT} --ack batch --rows-per-batch 256", "acknowledgements"),
    # TCP's start.
    "start": Bottleneck("200mbit 200ms", GET, "slow-start", helps="--duration"),
    # Others.
    "cross": Bottleneck("100mbit 5ms", f"{GET} --cross 40", "link-full", bits=60e6),
}


@pytest.mark.parametrize("name", MADE)
def test_no_verdict_over_a_link_is_wrong(tmp_path: Path, name: str) -> None:
    """Real links of the laboratory, each narrow in one known place."""
    made, out = MADE[name], tmp_path / "run"
    require(shutil.which("tc") and shutil.which("ip") and shutil.which("nsenter"), "iproute2 and util-linux")
    if made.target.startswith(("mysql:", "postgres:")):
        require_server(made.target.partition(":")[0])
    given = made.words.split()
    words = ["--target", made.target, "--link", made.link, "--repeats", 2, "--warmup", 0, "--out", out]
    if not {"--duration", "--rows-per-stream"} & set(given):
        words += ["--duration", "1s"]
    quiet = ("--no-report", "--no-ceilings", "--quiet")
    done = venturi_process("run", *words, *quiet, *given, timeout=600)
    assert done.returncode == 0, done.stderr
    results = load(out)
    (cell,), (verdict,) = results.cells, results.verdicts.values()
    assert cell.throughput.value is not None
    if made.bits is not None:
        # Of the rate, 94.1 % are payload of TCP.
        assert cell.throughput.value * 8 / made.bits < 0.96, str(cell.throughput)
    told = "; ".join(verdict.next)
    # The link is what was asked about.
    assert "ceilings flight://local" not in told and "faster path" not in told
    if verdict.kind != "unknown" and verdict.cause != "cores-of-others":
        assert verdict.cause is made.right, verdict
        assert made.helps in told
