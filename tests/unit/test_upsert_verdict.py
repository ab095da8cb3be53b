"""Verdicts of databases on records whose narrow place is known (tests/data/verdicts/upserts.toml), and what
they propose. The words are in tests/data/golden/verdicts-upserts.txt."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from support.upsert import ENVIRONMENT, end, process, repeated, sweep
from support.verdict import check_table, with_ends
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


def case(server_process: dict[str, Any] | None = None, **given: Any) -> Verdict:
    seen = {"server_end": process(**server_process)} if server_process else {}
    return of(**with_ends(given, end), **seen)


def test_causes_and_words() -> None:
    check_table("upserts", case)


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
