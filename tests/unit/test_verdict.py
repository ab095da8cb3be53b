"""Each verdict on records made to measure (tests/data/verdicts/transfers.toml), the borders between them, and
what is missing. The words are in tests/data/golden/verdicts-transfers.txt."""

from __future__ import annotations

import pickle
import shlex
from typing import Any, get_args

import pytest

from support.synthetic import imported, lines, make_run, without_server
from support.verdict import (
    BLOCKED_SERVER,
    ENVIRONMENT,
    IDLE_CLIENT,
    RECEIVING,
    SECOND,
    SENDING,
    cell_of,
    check_table,
    end,
    far,
    trial,
    verdict,
    with_ends,
    with_probes,
)
from venturi.analysis.advice.trials import stood_still
from venturi.analysis.results import load
from venturi.analysis.verdict import crowding, types
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.judge import judge
from venturi.analysis.verdict.proof import ORDER, unknown
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.types import Verdict


def busy_with_others() -> dict[str, Any]:
    """Two full cores; the process waits for one for 2 % of the second that it could run."""
    return end(1.0, 2, process={"run_delay_ns": SECOND // 49, "threads": []})


def case(two_of_five: dict[str, Any] | None = None, **given: Any) -> Verdict:
    """The verdict of five trials, of which two may differ."""
    given = with_probes(with_ends(given))
    if two_of_five is None:
        return verdict(**given)
    return judge(cell_of(*[trial(**given)] * 3, *[trial(**given | two_of_five)] * 2))


def test_causes_and_words() -> None:
    check_table("transfers", case)


def test_a_verdict_can_be_sent_to_another_process() -> None:
    found = verdict(RECEIVING, SENDING)
    sent = pickle.loads(pickle.dumps(found))
    assert (sent.sentence, sent.next, sent.confidence) == (found.sentence, found.next, found.confidence)


def test_a_server_that_accounts_for_no_cpu_time_is_known_by_its_process() -> None:
    # Real: a store of time series idles while a compiler has both cores.
    record = trial({"await_output": 0.9, "send": 0.1}, {}, cpu=(0.05, 0.0), client_end=busy_with_others(),
                   server_end=busy_with_others(), parameters={"operation": "put"})  # fmt: skip
    record["cpu"]["server"] = None
    found = judge(cell_of(record), ENVIRONMENT)
    assert found.cause is not Cause.CORES_FULL, found


# Borders, doubts, what is missing


def test_what_would_show_the_link_can_be_asked_there() -> None:
    def next_of(server: dict[str, float], **parameters: Any) -> str:
        ends = {"client_end": far(), "server_end": far(rtt_ns=30_000_000, min_rtt_ns=200_000)}
        return "; ".join(
            verdict(IDLE_CLIENT, server, rate=118e6, same_machine=False, parameters=parameters, **ends).next
        )

    # Random numbers get no smaller.
    assert "--compression" not in next_of(BLOCKED_SERVER, data="records", values="random")
    ours = next_of(BLOCKED_SERVER, data="records", values="sequential")
    assert "--compression lz4" in ours and "venturi ceilings flight://10.0.0.2:31337" in ours
    assert "--compression" not in next_of(BLOCKED_SERVER, http_compression="gzip")
    # Its protocol has none here.
    assert "--compression" not in next_of(BLOCKED_SERVER, target="postgres://h/db", table="rows")
    assert "--compression lz4" in next_of(BLOCKED_SERVER, target="cassandra://h/db", table="rows")
    for url in ("clickhouse://h/db", "flightsql://h:1"):
        theirs = next_of(BLOCKED_SERVER, target=url)
        assert "venturi ceilings flight://HOST:31338" in theirs and f"ceilings {url}" not in theirs, theirs


@pytest.mark.parametrize(
    "edit", [None, imported, without_server, lambda line: {"cell": "x", "outcome": "ok"}]
)
def test_runs_of_every_completeness(tmp_path: Any, edit: Any) -> None:
    results = load(make_run(tmp_path / "run", repeats=2, edit=edit))
    assert set(results.verdicts) == {c.name for c in results.cells}
    for found in results.verdicts.values():
        assert found.sentence
        assert found.next or found.kind != "unknown" or edit is not None
    # Streams are the run's one axis of numbers, so each operation has one finding; of trials without any
    # figure there is nothing to say.
    assert len(results.findings) == (2 if results.cells[0].throughput.known else 0)
    assert (edit is None or edit in (imported, without_server)) == results.cells[0].throughput.known


@pytest.mark.parametrize("field", ["stages", "workers", "resources", "cpu", "counts", "times", "streams",
                                   "schedule", "instrument", "target", "parameters"])  # fmt: skip
@pytest.mark.parametrize("empty", [None, {}, [], "text"])
def test_any_field_may_be_missing_or_odd(field: str, empty: Any) -> None:
    record = trial(RECEIVING, SENDING)
    found = judge(cell_of({**record, field: empty if field != "parameters" else {}}), ENVIRONMENT)
    assert found.kind in get_args(types.Kind)


@pytest.mark.parametrize("name", ["macbook-get", "macbook-put", "cartesius-localhost", "chspark"])
def test_published_runs_are_not_known_and_say_so(name: str) -> None:
    results = load(f"reference:{name}")
    assert {v.kind for v in results.verdicts.values()} == {"unknown"}
    assert results.findings


def test_every_cause_is_found_by_a_proof_and_every_kind_is_one_of_the_contract() -> None:
    """By the names in the modules of the proofs: a cause that nothing finds would be documented in vain."""
    import ast
    import inspect

    found = set()
    for module in {inspect.getmodule(proof) for proof in ORDER} | {unknown, crowding}:
        assert module is not None
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "Cause":
                found.add(Cause[node.attr])
    assert found == set(Cause)
    assert {cause.kind for cause in Cause} == set(get_args(types.Kind))


def test_lines_of_a_run_are_judged_as_written(tmp_path: Any) -> None:
    path = make_run(tmp_path / "run", repeats=1)
    assert lines(path)
    assert all(v.confidence in get_args(types.Confidence) for v in load(path).verdicts.values())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("run quick --streams 1,2 --out x", "run quick --streams 8"),
        ("run quick --streams=1 --rate 5", "run quick --rate 5 --streams 8"),
        ("run quick --duration 1s --duration 2s", "run quick --duration 2s --streams 8"),
        ("run quick --set a.b=1 --set c.d=2 -q", "run quick --set a.b=1 --set c.d=2 --streams 8"),
        ("run --resume last", "run --target flight://10.0.0.2:31337 --operation get --rows-per-batch 4096 "
         "--streams 8"),
    ],
)  # fmt: skip
def test_a_command_repeats_what_was_typed_with_one_change(typed: str, expected: str) -> None:
    rerun = Rerun.of(cell_of(trial()), {"command": ["venturi", *shlex.split(typed)]})
    assert rerun.but(streams=8) == f"venturi {expected}"


# ---- an end that stood still


def test_a_short_pause_is_a_warning() -> None:
    """It names the end that stood still longest, and in how many trials one did."""
    still, short = (end(process={"paused_ns": ns}) for ns in (30_000_000, 20_000_000))
    cell = cell_of(trial(client_end=short), trial(server_end=still, repeat=1), trial(repeat=2))
    advice = stood_still([cell])
    assert advice is not None and advice.kind == "paused"
    assert advice.finding == "the server did not run for 0.03 s of 1 s (2 of 3 trials had a pause)"


def test_where_nothing_stood_still_there_is_none() -> None:
    assert stood_still([cell_of(trial())]) is None
