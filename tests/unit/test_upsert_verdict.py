"""Verdicts of databases on records whose narrow place is known, and what they propose. Their words are
in tests/data/golden/verdicts-upserts.txt."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from support.upsert import ENVIRONMENT, SECOND, end, process, repeated, sweep
from support.verdict import Case, found_as_expected, words_are_kept
from venturi.analysis.cells.summary import summarise
from venturi.analysis.verdict import findings, types
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.judge import judge, verdicts
from venturi.analysis.verdict.types import Verdict


def of(given: dict[str, Any] | None = None, **settings: Any) -> Verdict:
    """The verdict of five like trials."""
    (cell,) = summarise(repeated(given, **settings))
    typed = ["venturi", "run", "--target", cell.parameters["target"], "--operation", "upsert"]
    return judge(cell, ENVIRONMENT | {"command": typed})


SQLITE = {
    "target": "sqlite:///tmp/x.db", "streams": 1, "threads": 1, "journal": "wal", "synchronous": "normal"
}  # fmt: skip
ONE = {"streams": 1, "threads": 1}
CROWDED = {"send": 0.235, "await_thread": 0.7, "await_reply": 0.065}
BUSY_DISK = end(disk={"busy_share": 0.97, "written_bytes": 900_000_000, "read_bytes": 0})
POSTGRES = "postgres://local/venturi"


def starved() -> dict[str, Any]:
    """A server's process that waits for a CPU."""
    waiting = process(0.1)
    waiting["process"]["run_delay_ns"] = 30 * SECOND
    return waiting


def engine(given: dict[str, Any], cpu: float, **more: Any) -> Verdict:
    """Of an engine in the client's process."""
    shares = {"apply": 0.98, "generate": 0.02}
    return of(SQLITE | given, client=shares, cpu=(cpu, None), server_end={}, round_trip=None, **more)


CASES: dict[str, Case] = {
    "statements built inline": (Cause.OWN_WORK, "client", "encode", lambda: of(
        {"generate": "inline"}, client={"generate": 0.35, "encode": 0.5, "send": 0.1, "await_reply": 0.05})),
    "too few threads for the connections": (Cause.TOO_FEW_THREADS, "client", "await_thread", lambda: of(
        {"streams": 8, "threads": 2}, client=CROWDED, cpu=(1.9, 0.4))),
    "batches in flight are no missing threads": (Cause.STAGE_BUSY, "client", "send", lambda: of(
        {"streams": 2, "threads": 2, "in_flight": 4, "target": "cassandra://local/venturi"}, client=CROWDED,
        cpu=(1.9, 0.4))),
    "cores of one machine": (Cause.CORES_FULL, None, "send", lambda: of(
        client={"send": 0.3, "await_reply": 0.7}, client_end=end(0.99), cpu=(1.0, 6.5))),
    "the server's disk, on this machine": (Cause.DISK_BUSY, "server", None, lambda: of(
        {"target": POSTGRES}, client_end=BUSY_DISK)),
    # One connection has one thread there, so more connections come first.
    "a server whose one thread is full": (Cause.SERVER_WAITED_FOR, "server", None, lambda: of(
        ONE, cpu=(0.1, 0.95), server_end=process(0.96), batch_ns=4e6)),
    "a server that works most of the time": (
        Cause.SERVER_WAITED_FOR, "server", None, lambda: of(cpu=(0.2, 3.4))),
    "a server elsewhere is not seen": (Cause.SERVER_WAITED_FOR, "server", None, lambda: of(
        cpu=(0.2, None), server_end={}, client_end=end(network={"loopback": False}), same_machine=False,
        round_trip=None)),
    # The MySQL protocol has one statement in flight.
    "too little in flight": (Cause.LITTLE_IN_FLIGHT, None, "await_reply", lambda: of(
        ONE, cpu=(0.05, 0.15), batch_ns=10e6, client={"send": 0.03, "await_reply": 0.97})),
    "too little in flight on a long path": (Cause.LITTLE_IN_FLIGHT, None, "await_reply", lambda: of(
        ONE | {"target": "cassandra://far/venturi"}, cpu=(0.05, None), server_end={}, same_machine=False,
        client_end=end(0.02, network={"loopback": False}), round_trip=40_000_000, batch_ns=42e6)),
    "commits that wait for the disk": (Cause.LITTLE_IN_FLIGHT, None, "await_reply", lambda: of(
        ONE | {"target": POSTGRES}, cpu=(0.05, 0.2),
        client_end=end(disk={"busy_share": 0.6, "written_bytes": 10_000_000, "read_bytes": 0}))),
    "a server that gets no CPU in a crowd": (Cause.CORES_OF_OTHERS, None, None, lambda: of(
        cpu=(0.05, 0.4), client_end=end(1.0), server_end=starved())),
    "a server that gets no CPU": (Cause.SERVER_WAITED_FOR, "server", None, lambda: of(
        cpu=(0.05, 0.4), client_end=end(0.6), server_end=starved())),
    "an engine computes": (Cause.ENGINE_BUSY, "client", "apply", lambda: engine({}, 0.97)),
    "an engine waits for its commits": (Cause.ENGINE_WAITS, "client", "apply", lambda: engine(
        {"synchronous": "full"}, 0.2)),
    "an engine has one writer": (Cause.ENGINE_ONE_WRITER, "client", "apply", lambda: engine(
        {"streams": 4, "threads": 4}, 1.0)),
    "an engine beside others that hold the cores": (Cause.STAGE_BUSY, "client", "apply", lambda: engine(
        {}, 0.4, client_end=end(1.0, process={"run_delay_ns": 6 * SECOND}))),
    "an engine on all cores": (Cause.CORES_FULL, "client", "apply", lambda: engine(
        {"streams": 8, "threads": 8}, 7.8, client_end=end(0.99))),
    "a busy disk goes before the engine that waits for it": (Cause.DISK_BUSY, "client", None, lambda: engine(
        {}, 0.2, client_end=BUSY_DISK)),
    "a schedule that was kept": (Cause.SCHEDULE_KEPT, "client", "await_schedule", lambda: of(
        {"rate": 500.0}, client={"send": 0.1, "await_reply": 0.3, "await_schedule": 0.6})),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_cause(name: str) -> None:
    found_as_expected(CASES[name])


def test_the_words() -> None:
    words_are_kept("verdicts-upserts", CASES)


def test_a_sweep_tells_too_little_in_flight_from_a_lock() -> None:
    cells = summarise(sweep((4, 16)))
    few, many = verdicts(cells, ENVIRONMENT).values()
    assert few.kind == "server"
    assert (many.kind, many.title) == ("server", "server: a limit within it")
    assert "4 batches in flight did as much" in many.sentence and "as 16" in many.sentence
    assert "more connections" not in " | ".join(many.next)
    # Real: four connections to the same rows did 15 % more than two, each batch 1.7 times as long.
    lines = [*repeated({"streams": 2}, batch_ns=41.6e6, cpu=(0.1, 0.1)),
             *repeated({"streams": 4}, batch_ns=70.7e6, cpu=(0.1, 0.1))]  # fmt: skip
    _, queued = verdicts(summarise(lines), ENVIRONMENT).values()
    assert queued.cause is Cause.SERVER_LIMIT and 0.1 < queued.numbers["gain"] < 0.2
    assert "4 only 18 % more; each batch took 75.73 ms in place of 44.36 ms" in queued.sentence
    # Twice as many that do nearly twice as much do not queue.
    lines[5:] = repeated({"streams": 4}, batch_ns=44e6, cpu=(0.1, 0.1))
    _, free = verdicts(summarise(lines), ENVIRONMENT).values()
    assert free.cause is Cause.LITTLE_IN_FLIGHT
    # Without the cell beside it nobody could know.
    (alone,) = verdicts([c for c in cells if c.parameters["streams"] == 16], ENVIRONMENT).values()
    assert alone.title == "too little in flight"


@pytest.mark.parametrize("rows", [1, 10, 500])
def test_cassandra_is_not_asked_for_batches_that_it_refuses(rows: int) -> None:
    found = of({"target": "cassandra://local/venturi", "rows_per_batch": rows, "batch": "unlogged"})
    larger = [text for text in found.next if "larger batches" in text]
    assert bool(larger) == (rows < 500)
    assert all(int(text.rpartition(" ")[2]) <= 500 for text in larger)


def test_a_swept_knob_is_measured_not_proposed() -> None:
    cells = summarise(sweep((1, 4), (1, 500)))
    told = findings.findings(cells, verdicts(cells, ENVIRONMENT), ENVIRONMENT)
    said = " ".join(f.sentence for f in told)
    assert "fix: 1 -> 500 rows per batch, " in said and "times as fast" in said
    assert all(f.title.startswith("upsert") for f in told)


def test_kinds_are_those_that_are_documented() -> None:
    assert {"flow-control", "server", "stage", "disk"} <= set(get_args(types.Kind))
