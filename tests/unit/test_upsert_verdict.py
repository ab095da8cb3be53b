"""Verdicts of databases on records whose narrow place is known, and what they propose."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from support.upsert import ENVIRONMENT, SECOND, end, process, repeated, sweep
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


def proposals(found: Verdict) -> str:
    return " | ".join(found.next)


def test_statements_built_inline_are_the_load_generators_own_work() -> None:
    found = of(
        {"generate": "inline"}, client={"generate": 0.35, "encode": 0.5, "send": 0.1, "await_reply": 0.05}
    )
    assert (found.kind, found.end, found.flagged) == ("load-generator", "client", True)
    assert "encode 50 %" in found.sentence and "--generate ahead" in proposals(found)


def test_too_few_threads_for_the_connections() -> None:
    shares = {"send": 0.235, "await_thread": 0.7, "await_reply": 0.065}
    found = of({"streams": 8, "threads": 2}, client=shares, cpu=(1.9, 0.4))
    assert (found.kind, found.stage, found.flagged) == ("load-generator", "await_thread", True)
    assert "2 client threads serve 8 streams" in found.sentence
    assert "--threads streams" in proposals(found)


def test_batches_in_flight_are_no_missing_threads() -> None:
    shares = {"send": 0.235, "await_thread": 0.7, "await_reply": 0.065}
    given = {"streams": 2, "threads": 2, "in_flight": 4, "target": "cassandra://local/venturi"}
    found = of(given, client=shares, cpu=(1.9, 0.4))
    assert (found.kind, found.end, found.stage) == ("stage", "client", "send")
    assert not found.flagged and "--streams 4" in proposals(found)


def test_cores_of_one_machine() -> None:
    full = end(0.99)
    found = of(client={"send": 0.3, "await_reply": 0.7}, client_end=full, cpu=(1.0, 6.5))
    assert (found.kind, found.end) == ("cores", None)
    assert "the server 8" in found.sentence
    assert "--rows-per-batch 2000" in proposals(found) and "mysql://HOST/venturi" in proposals(found)


def test_the_disk_of_the_server_on_this_machine() -> None:
    busy = end(disk={"busy_share": 0.97, "written_bytes": 900_000_000, "read_bytes": 0})
    found = of({"target": "postgres://local/venturi"}, client_end=busy)
    assert (found.kind, found.end, found.title) == ("disk", "server", "disk of the server")
    assert "--synchronous off" in proposals(found) and "--rows-per-batch" in proposals(found)


def test_a_server_whose_one_thread_is_full() -> None:
    found = of({"streams": 1, "threads": 1}, cpu=(0.1, 0.95), server_end=process(0.96), batch_ns=4e6)
    assert (found.kind, found.end, found.confidence) == ("server", "server", "high")
    assert "the server's busiest thread (mariadbd) fills 96 % of a core" in found.sentence
    # One connection has one thread there, so more connections come first.
    assert found.next[0].endswith("--streams 4")


def test_a_server_that_works_most_of_the_time() -> None:
    found = of(cpu=(0.2, 3.4))
    assert (
        found.kind == "server"
        and "uses 3.40 cores: it computes 92 % of the time that it has a batch" in found.sentence
    )


def test_a_server_elsewhere_is_not_seen() -> None:
    away = end(network={"loopback": False})
    found = of(cpu=(0.2, None), server_end={}, client_end=away, same_machine=False, round_trip=None)
    assert found.kind == "server" and found.confidence != "high"
    assert "not known: the server's CPU" in found.sentence


def test_too_little_in_flight() -> None:
    found = of(
        {"streams": 1, "threads": 1},
        cpu=(0.05, 0.15),
        batch_ns=10e6,
        client={"send": 0.03, "await_reply": 0.97},
    )
    assert (found.kind, found.title, found.stage) == ("flow-control", "too little in flight", "await_reply")
    assert (
        "1 batch of 500 rows is in flight at a time and one takes 10.4 ms, which makes 50.1" in found.sentence
    )
    assert "0.15 cores" in found.sentence
    assert "--streams 4" in proposals(found) and "--rows-per-batch 2000" in proposals(found)
    assert "in-flight" not in proposals(found)  # the MySQL protocol has one statement in flight


def test_too_little_in_flight_on_a_long_path() -> None:
    away = end(0.02, network={"loopback": False})
    found = of(
        {"streams": 1, "threads": 1, "target": "cassandra://far/venturi"},
        cpu=(0.05, None),
        server_end={},
        client_end=away,
        same_machine=False,
        round_trip=40_000_000,
        batch_ns=42e6,
    )
    assert found.title == "too little in flight" and found.confidence == "high"
    assert "of that is the round trip (40 ms)" in found.sentence
    assert "--in-flight 8" in proposals(found)


def test_commits_that_wait_for_the_disk_are_named() -> None:
    busy = end(disk={"busy_share": 0.6, "written_bytes": 10_000_000, "read_bytes": 0})
    found = of(
        {"target": "postgres://local/venturi", "streams": 1, "threads": 1}, cpu=(0.05, 0.2), client_end=busy
    )
    assert (
        found.title == "too little in flight"
        and "a disk is busy 60 %: commits may wait for it" in found.sentence
    )


def test_a_server_that_gets_no_cpu_is_not_idle() -> None:
    waiting = process(0.1)
    waiting["process"]["run_delay_ns"] = 30 * SECOND
    crowd = of(cpu=(0.05, 0.4), client_end=end(1.0), server_end=waiting)
    assert (crowd.kind, crowd.confidence) == ("cores", "low") and crowd.title.endswith(": others")
    alone = of(cpu=(0.05, 0.4), client_end=end(0.6), server_end=waiting)
    assert alone.kind == "server" and "it waited for a CPU 88 %" in alone.sentence


def test_a_sweep_tells_too_little_in_flight_from_a_lock() -> None:
    cells = summarise(sweep((4, 16)))
    few, many = verdicts(cells, ENVIRONMENT).values()
    assert few.kind == "server"
    assert (many.kind, many.title) == ("server", "server: a limit within it")
    assert "4 batches in flight did as much" in many.sentence and "as 16" in many.sentence
    assert "more connections" not in proposals(many)
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


SQLITE = {
    "target": "sqlite:///tmp/x.db",
    "streams": 1,
    "threads": 1,
    "journal": "wal",
    "synchronous": "normal",
}
APPLY = {"apply": 0.98, "generate": 0.02}


def test_an_engine_in_the_clients_process_computes() -> None:
    found = of(SQLITE, client=APPLY, cpu=(0.97, None), server_end={}, round_trip=None)
    assert (found.kind, found.end, found.stage, found.title) == (
        "stage",
        "client",
        "apply",
        "client: database engine",
    )
    assert "the engine runs in the client's process" in found.sentence and not found.flagged
    assert "--rows-per-batch 2000" in found.next[0]


def test_an_engine_that_waits_for_its_commits() -> None:
    durable = {**SQLITE, "synchronous": "full"}
    found = of(durable, client=APPLY, cpu=(0.2, None), server_end={}, round_trip=None)
    assert (
        found.title == "client: engine waits"
        and "it computes 20 % of that time, and waits 80 %" in found.sentence
    )
    assert "--synchronous off" in found.next[0]


def test_an_engine_with_one_writer() -> None:
    found = of(
        {**SQLITE, "streams": 4, "threads": 4}, client=APPLY, cpu=(1.0, None), server_end={}, round_trip=None
    )
    assert found.title == "client: one writer" and "--streams 1" in proposals(found)


def test_an_engine_beside_others_that_hold_the_cores() -> None:
    starved = end(1.0, process={"run_delay_ns": 6 * SECOND})
    few = of(SQLITE, client=APPLY, cpu=(0.4, None), server_end={}, client_end=starved, round_trip=None)
    assert (few.title, few.confidence) == ("client: apply", "medium")
    assert "other processes used 95 % of this host" in few.sentence and "not known" not in few.sentence
    own = of({**SQLITE, "streams": 8, "threads": 8}, client=APPLY, cpu=(7.8, None), server_end={},
             client_end=end(0.99), round_trip=None)  # fmt: skip
    assert (own.kind, own.title) == ("cores", "all 8 cores") and "apply 98 %" in own.sentence


def test_a_busy_disk_goes_before_the_engine_that_waits_for_it() -> None:
    busy = end(disk={"busy_share": 0.97, "written_bytes": 900_000_000, "read_bytes": 0})
    found = of(SQLITE, client=APPLY, cpu=(0.2, None), server_end={}, client_end=busy, round_trip=None)
    assert (found.kind, found.end) == ("disk", "client")


def test_a_schedule_that_was_kept() -> None:
    shares = {"send": 0.1, "await_reply": 0.3, "await_schedule": 0.6}
    found = of({"rate": 500.0}, client=shares)
    assert (found.kind, found.flagged) == ("schedule", True)


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
