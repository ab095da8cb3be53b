"""Verdicts on bottlenecks made to measure: real servers, real trials, each narrow in one known place.

A busy machine may keep a verdict from being found, or be the true one: it must never be another place.
Twins: tests/unit/test_verdict.py, test_verdict_path.py, test_findings.py, for what each record gives.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from support.flight import ServerProcess, peer_command
from support.path import SERVER_ADDRESS, at_once, hosts, quota, relay, server
from support.run import environment
from venturi.analysis.results import Results, load
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.types import Verdict

pytestmark = pytest.mark.usefixtures("core")

CORES = len(os.sched_getaffinity(0))
DELAY_MS = 5.0
WINDOW = 64 * 1024


@dataclass(frozen=True)
class Place:
    """Where to measure: an address and a path, and what the client's command begins with."""

    address: str
    within: list[str] = field(default_factory=list)


@contextlib.contextmanager
def plain(*words: str) -> Iterator[Place]:
    with server(*words) as end:
        yield Place(end.address)


@contextlib.contextmanager
def shaped(rate: str) -> Iterator[Place]:
    with hosts(rate) as two, server(within=two.inside(two.server), host=SERVER_ADDRESS) as end:
        yield Place(f"{SERVER_ADDRESS}:{end.port}", two.inside(two.client))


@contextlib.contextmanager
def throttled(cores: float) -> Iterator[Place]:
    with server() as end, quota(end.process.pid, cores):
        yield Place(end.address)


@contextlib.contextmanager
def delayed() -> Iterator[Place]:
    with server(within=at_once()) as end, relay(end.port, DELAY_MS) as port:
        yield Place(f"127.0.0.1:{port}", at_once())


@contextlib.contextmanager
def foreign(path: str, rate: str | None = None) -> Iterator[Place]:
    """A pyarrow server, behind a link where one is asked for."""
    with contextlib.ExitStack() as stack:
        if rate is None:
            end = ServerProcess(peer_command())
            place = Place(f"{end.address}/{path}")
        else:
            two = stack.enter_context(hosts(rate))
            end = ServerProcess([*two.inside(two.server), *peer_command("--host", SERVER_ADDRESS)])
            place = Place(f"{SERVER_ADDRESS}:{end.port}/{path}", two.inside(two.client))
        stack.callback(end.stop)
        yield place


@dataclass(frozen=True)
class Bottleneck:
    """What is measured, and what is right to say of it: a kind, an end and some stages, or causes."""

    place: Callable[[], contextlib.AbstractContextManager[Place]]
    words: str
    kind: str | None = None
    end: str | None = None
    stages: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    flagged: bool = False
    said: str = ""

    def wrong(self, verdict: Verdict) -> str:
        """What is wrong with it, nothing if it is right or says that it does not know."""
        if verdict.kind == "unknown" or verdict.cause is Cause.CORES_OF_OTHERS:
            return ""
        if self.causes:
            return "" if verdict.cause in self.causes else "the cause"
        if (verdict.kind, verdict.end) != (self.kind, self.end):
            return "the kind or the end"
        if self.stages and verdict.stage not in self.stages:
            return "the stage"
        return "" if verdict.flagged == self.flagged and self.said in verdict.sentence else "what is said"


BATCH = "--rows-per-batch 16Ki"
BARE = f"{BATCH} --no-ceilings"
LINK = Bottleneck(partial(shaped, "1gbit"), f"{BATCH} --streams 2", "link")
SLOW_PUTS = "--operation put --no-ceilings --duration 2s"
SERIAL = "--no-ceilings --streams 1,2,4 --duration 2s"
BEHIND = (Cause.SOCKET_BLOCKED, Cause.SERVER_OR_PATH)
MADE = {
    "link-get": LINK,
    "link-put": Bottleneck(LINK.place, f"{LINK.words} --operation put", "link"),
    "link-by-sockets": Bottleneck(LINK.place, f"{LINK.words} --no-ceilings", "link"),
    "a-tenth-of-a-core": Bottleneck(
        *(partial(throttled, 0.1), f"{BARE} --duration 2s", "stage", "server"),
        stages=("generate", "encode", "send"),
        said="0.1 of a core",
    ),
    "encode-delay": Bottleneck(
        partial(plain, "--handicap", "encode=2ms"), BATCH, "stage", "server", stages=("encode",)
    ),
    "slow-decoder": Bottleneck(
        *(plain, f"{BATCH} --handicap decode=2ms", "load-generator", "client"),
        stages=("decode",),
        flagged=True,
    ),
    "compression-get": Bottleneck(
        plain, f"{BARE} --compression zstd:15", "stage", "server", stages=("encode",)
    ),
    "compression-put": Bottleneck(
        plain, f"{BARE} --compression zstd:15 --operation put", "stage", "client", stages=("encode",)
    ),
    "all-cores": Bottleneck(plain, f"{BARE} --streams {4 * CORES} --duration 2s", "cores"),
    "a-rate": Bottleneck(plain, f"{BARE} --rate 200", "schedule", "client", flagged=True),
    # Of a get only the client's waiting is seen; raw TCP to that host is not measured.
    "foreign-get": Bottleneck(partial(foreign, "sleeps/0", "200mbit"), "--streams 2", causes=BEHIND[1:]),
    "foreign-put": Bottleneck(
        partial(foreign, "sleeps/0", "200mbit"), f"{BATCH} --streams 2 --operation put", causes=BEHIND
    ),
    # Neither a window nor an acknowledgement is what a stranger's own code waits for.
    "foreign-sleeps": Bottleneck(
        partial(foreign, "sleeps/3000"), SLOW_PUTS, causes=(Cause.SERVER_WAITED_FOR,)
    ),
    "foreign-burns": Bottleneck(partial(foreign, "burns/1000"), SLOW_PUTS, causes=(Cause.SERVER_WAITED_FOR,)),
    # Python's lock: one core whatever the streams, and of puts what its other threads receive.
    "serial-get": Bottleneck(partial(foreign, "burns/1000"), SERIAL, causes=(Cause.SERIAL_SERVER,)),
    "serial-put": Bottleneck(
        partial(foreign, "burns/1000"), f"{SERIAL} --operation put", causes=(Cause.SERIAL_SERVER,)
    ),
}


def measure(out: Path, place: Place, words: str) -> Results:
    line = [*place.within, sys.executable, "-m", "venturi", "run", "--target", f"flight://{place.address}"]
    line += ["--operation", "get", "--duration", "1s", "--repeats", "3", "--out", str(out), "--no-report"]
    done = subprocess.run([*line, "--quiet", *words.split()], capture_output=True, text=True,
                          env=environment(), check=False, stdin=subprocess.DEVNULL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return load(out)


@pytest.mark.parametrize("name", MADE)
def test_no_verdict_is_wrong(tmp_path: Path, name: str) -> None:
    made = MADE[name]
    with made.place() as place:
        results = measure(tmp_path / "run", place, made.words)
    assert results.verdicts
    for verdict in results.verdicts.values():
        assert not made.wrong(verdict), (made.wrong(verdict), verdict)


def test_small_windows_over_a_path_with_delay(tmp_path: Path) -> None:
    """The relay itself limits nothing like that."""
    windows = Bottleneck(delayed, "", "flow-control", None, ("await_window",), said="64 KiB / 1")
    with delayed() as place:
        narrow = measure(tmp_path / "narrow", place, f"{BARE} --window {WINDOW}")
        wide = measure(tmp_path / "wide", place, BARE)
    (verdict,) = narrow.verdicts.values()
    assert not windows.wrong(verdict), verdict
    assert verdict.kind != "flow-control" or any("--window none" in text for text in verdict.next)
    bound = WINDOW / (2 * DELAY_MS / 1000)
    (cell,), (open_cell,) = narrow.cells, wide.cells
    assert cell.throughput.value is not None and open_cell.throughput.value is not None
    assert cell.throughput.value < 1.1 * bound < open_cell.throughput.value
    assert all(verdict.stage != "await_window" for verdict in wide.verdicts.values())
