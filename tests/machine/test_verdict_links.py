"""Verdicts on link bottlenecks made to measure: real links of the laboratory, real servers, each narrow in
one known place.

Every bottleneck is measured once, and anew where a test of it has failed. That nothing could be proved is not
right, and not wrong either; that other processes hold the cores is true, but of this machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.needs import require
from support.run import environment
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import load
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.types import Verdict
from venturi.common.links import parse

pytestmark = [pytest.mark.noisy, pytest.mark.slow]

RIGHT = 0.95
"""Of the verdicts; none may be wrong."""
TIME = 110.0
_SLOW = 200e6
"""bits/s"""
SPARED = (Cause.CORES_OF_OTHERS,)
FAILED = "not measured: "


@dataclass(frozen=True)
class Bottleneck:
    """What is measured, and what makes it slow."""

    link: str
    words: tuple[object, ...]
    right: frozenset[Cause]
    """The first is what was made; others say the same of it."""
    target: str = "flight://local"
    bits: float | None = None
    """What the link carries of the data's way."""

    @property
    def slow(self) -> bool:
        """Whether it leaves a core of two idle, so that two of its kind are measured beside each other."""
        rate = parse(self.link).rate
        return rate is not None and max(rate) <= _SLOW


def over(
    link: str, words: str, *right: Cause, target: str = "flight://local", bits: float | None = None
) -> Bottleneck:
    return Bottleneck(link, tuple(words.split()), frozenset(right), target, bits)


GET, PUT = "--operation get", "--operation put"
UPSERT = "--operation upsert --data usage --working-set 1000"
MADE = {
    # The link's rate.
    "20mbit": over("20mbit", GET, Cause.LINK_FULL, bits=20e6),
    "put-100mbit-10ms": over("100mbit 10ms", PUT, Cause.LINK_FULL, bits=100e6),
    "500mbit-1ms": over("500mbit 1ms", f"{GET} --streams 2", Cause.LINK_FULL, bits=500e6),
    "2gbit": over("2gbit", f"{GET} --streams 2 --verify count", Cause.LINK_FULL, bits=2e9),
    "slow-down": over("20mbit/200mbit 10ms", GET, Cause.LINK_FULL, bits=20e6),
    "slow-up": over("200mbit/20mbit 10ms", PUT, Cause.LINK_FULL, bits=20e6),
    "fast-down": over("200mbit/20mbit 10ms", f"{GET} --duration 2s", Cause.LINK_FULL, bits=200e6),
    "charrow": over("100mbit 2ms", GET, Cause.LINK_FULL, target="charrow://local", bits=100e6),
    "points": over("20mbit", "--operation ingest", Cause.LINK_FULL, target="akumuli://local", bits=20e6),
    "table": over(
        "100mbit 10ms", f"{GET} --rows-per-stream 150k", Cause.LINK_FULL, target="postgres://local"
    ),
    # Windows and buffers.
    "window-64k": over("500mbit 20ms", f"{GET} --window 64Ki", Cause.HTTP2_WINDOW),
    "window-128k-two": over("1gbit 20ms", f"{GET} --window 128Ki --streams 2", Cause.HTTP2_WINDOW),
    "send-buffer": over("200mbit 20ms", f"{PUT} --send-buffer 64Ki", Cause.SEND_BUFFER),
    # Losses.
    "loss-cubic": over("200mbit 20ms loss 0.5% cubic", GET, Cause.LOSS),
    "loss-reno-four": over("500mbit 20ms loss 0.5% reno", f"{GET} --streams 4", Cause.LOSS),
    "loss-put": over("500mbit 10ms loss 1% cubic", f"{PUT} --streams 2", Cause.LOSS),
    "loss-far": over("100mbit 40ms loss 1% reno", f"{GET} --duration 2s", Cause.LOSS),
    # Answers.
    "rows-one-by-one": over(
        "100mbit 10ms", f"{UPSERT} --rows-per-batch 1", Cause.LITTLE_IN_FLIGHT, target="mysql://local"
    ),
    "small-batches": over(
        "1gbit 30ms", f"{UPSERT} --rows-per-batch 10", Cause.LITTLE_IN_FLIGHT, target="postgres://local"
    ),
    "answers": over("1gbit 20ms", f"{PUT} --ack batch --rows-per-batch 256", Cause.ACKNOWLEDGEMENTS),
    # TCP's start.
    "start": over("200mbit 200ms", GET, Cause.SLOW_START),
    "start-put": over("1gbit 150ms", PUT, Cause.SLOW_START),
    # Others.
    "cross": over("100mbit 5ms", f"{GET} --cross 40", Cause.LINK_SHARED, bits=60e6),
    "cross-put": over("200mbit", f"{PUT} --cross 25", Cause.LINK_SHARED, bits=150e6),
}
SERVERS = {"mysql": "mariadbd", "postgres": "postgres"}


def measured(out: Path, made: Bottleneck) -> tuple[Cell, Verdict]:
    words = [sys.executable, "-m", "venturi", "run", "--target", made.target, "--link", made.link,
             "--repeats", "2", "--warmup", "0", "--out", str(out), "--no-report", "--no-ceilings", "--quiet",
             *made.words]  # fmt: skip
    if not {"--duration", "--rows-per-stream"} & set(made.words):
        words += ["--duration", "1s"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=TIME,
                          check=False, stdin=subprocess.DEVNULL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = load(out)
    (cell,) = results.cells
    return cell, results.verdicts[cell.name]


class Found(dict[str, "tuple[Cell, Verdict] | str"]):
    """Each bottleneck with its verdict, or why it could not be measured. A test that is run again measures
    anew what it has taken out."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self._out = out
        slow = [name for name, made in MADE.items() if made.slow]
        with ThreadPoolExecutor(2) as pairs:
            self.update(zip(slow, pairs.map(self._told, slow), strict=True))
        self.complete()

    def complete(self) -> None:
        self.update({name: self._told(name) for name in MADE if name not in self})

    def _told(self, name: str) -> tuple[Cell, Verdict] | str:
        began, made = time.monotonic(), MADE[name]
        program = SERVERS.get(made.target.partition(":")[0])
        if program is not None and shutil.which(program) is None:
            return f"no {program}"
        try:
            cell, verdict = measured(Path(tempfile.mkdtemp(prefix=name, dir=self._out)) / "run", made)
        except AssertionError as error:
            # On a host that is too busy the path is not the link: one bottleneck less, and no others.
            return f"{FAILED}{error}"
        print(f"{name}: {verdict.cause} {cell.main} in {time.monotonic() - began:.1f} s: {verdict.sentence}")
        return cell, verdict

    def of(self, name: str) -> tuple[Cell, Verdict]:
        one = self[name]
        if isinstance(one, str) and one.startswith(FAILED):
            del self[name]
            pytest.fail(one)
        require(not isinstance(one, str), str(one))
        assert not isinstance(one, str)
        return one


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Found:
    require(shutil.which("tc") and shutil.which("ip") and shutil.which("nsenter"), "iproute2 and util-linux")
    return Found(tmp_path_factory.mktemp("links"))


@pytest.fixture
def found(kept: Found) -> Found:
    kept.complete()
    return kept


def is_right(verdict: Verdict, name: str) -> bool:
    return verdict.cause in MADE[name].right


@pytest.mark.parametrize("name", MADE)
def test_no_verdict_is_wrong(found: Found, name: str) -> None:
    _, verdict = found.of(name)
    if not (is_right(verdict, name) or verdict.cause in SPARED or verdict.kind == "unknown"):
        del found[name]
        pytest.fail(verdict.sentence)


def test_most_verdicts_are_right(found: Found) -> None:
    judged = {name: one for name, one in found.items() if not isinstance(one, str)}
    if len(judged) < 20:
        for name in [name for name, one in found.items() if isinstance(one, str) and one.startswith(FAILED)]:
            del found[name]
        pytest.fail(f"{len(judged)} were measured")
    missed = {name: verdict.sentence for name, (_, verdict) in judged.items() if not is_right(verdict, name)}
    if 1 - len(missed) / len(judged) < RIGHT:
        for name in missed:
            del found[name]
        pytest.fail(json.dumps(missed, indent=1))


@pytest.mark.parametrize(
    "name", [name for name, made in MADE.items() if made.bits and made.target[0] in "cf"]
)
def test_a_full_link_carries_what_was_asked_for(found: Found, name: str) -> None:
    cell, _ = found.of(name)
    bits = MADE[name].bits
    assert bits is not None and cell.throughput.value is not None
    # Of the rate, 94.1 % are payload of TCP; what others take is a little more than asked for by then.
    if not 0.85 < cell.throughput.value * 8 / bits < 0.96:
        del found[name]
        pytest.fail(str(cell.throughput))


def test_what_would_help_can_be_typed(found: Found) -> None:
    """No command of the loopback or of another host, for the link is what was asked about."""
    told = {name: "; ".join(one[1].next) for name, one in found.items() if not isinstance(one, str)}
    for name, text in told.items():
        assert "ceilings flight://local" not in text and "faster path" not in text, (name, text)
    wanted = {
        "window-64k": "--window",
        "send-buffer": "--send-buffer",
        "loss-cubic": "--streams",
        "start": "--duration",
    }
    for name, option in wanted.items():
        text = "; ".join(found.of(name)[1].next)
        if option not in text:
            del found[name]
            pytest.fail(f"{name}: {option} is not in {text!r}")
