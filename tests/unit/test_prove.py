"""The instrument proves itself: each proof holds on the real core, and each fails where what it guards is
broken."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import venturi
from support import redis as redis_support
from support.flight_peer import Tables
from support.needs import require_server
from venturi.analysis.cells import figures, summary
from venturi.analysis.statistics import intervals
from venturi.analysis.statistics.difference import differences
from venturi.common import hdr, suffixes, units
from venturi.engine.executor import CoreExecutor
from venturi.measure.prove import (
    answers,
    bottleneck,
    conservation,
    difference,
    headroom,
    lies,
    pause,
    rate,
    seed,
    stall,
)
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.framing import FRAMINGS
from venturi.measure.prove.outcome import Name, Outcome, Proof, Reason, What
from venturi.measure.prove.registry import proofs
from venturi.measure.prove.relay import Lie, Plan
from venturi.targets.system import FILES

Record = dict[str, Any]
Break = Callable[[Record, Record], None]


class Broken(CoreExecutor):
    """Measures, and then does something to the record that a fault of ours would do. `spec` before it."""

    def __init__(
        self, record: Break = lambda record, spec: None, spec: Callable[[Record], None] | None = None
    ):
        super().__init__()
        self._record, self._spec = record, spec

    def run_trial(self, spec: str, control: Any) -> str:
        asked = json.loads(spec)
        if self._spec is not None:
            self._spec(asked)
        record = json.loads(super().run_trial(json.dumps(asked), control))
        self._record(record, asked)
        return json.dumps(record)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """One for all that only look at what their own executor answers."""
    with Bench("flight://local") as made:
        yield made


@pytest.fixture
def broken(bench: Bench) -> Iterator[Callable[..., Bench]]:
    """The same bench with another executor."""
    before = bench.executor

    def make(*args: Any, **kwargs: Any) -> Bench:
        bench.executor = Broken(*args, **kwargs)
        bench.trials.clear()
        return bench

    yield make
    bench.executor = before
    bench.trials.clear()


def failed(proof: Proof) -> set[What]:
    assert proof.outcome is Outcome.FAILED, [c for c in proof.checks if not c.right]
    return {check.what for check in proof.failures}


# ---- each holds ---------------------------------------------------------------------------


def test_no_proof_fails_on_the_real_core() -> None:
    """However busy this machine is: then it cannot be told, which is no failure."""
    found = venturi.prove()
    assert [one.name for one in found] == [*Name]
    assert [one.failures for one in found] == [[]] * len(found)
    wrong = [check for one in found for check in one.checks if not check.right]
    assert all(check.timed for check in wrong), wrong


@pytest.mark.noisy
def test_on_a_quiet_machine_all_can_be_told_in_ten_seconds() -> None:
    began = time.monotonic()
    found = venturi.prove()
    assert {one.name: one.outcome for one in found} == dict.fromkeys(Name, Outcome.PASSED)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "url", ["charrow://local", "sqlite://local", "opentsdb://local", "influx://local", "duckdb://local"]
)
def test_other_targets_as_far_as_it_goes(url: str) -> None:
    found = {one.name: one for one in venturi.prove(url, only=("rate", "pause", "lies", "conservation"))}
    assert all(not one.failures for one in found.values()), [one.failures for one in found.values()]
    assert found[Name.RATE].outcome in (Outcome.PASSED, Outcome.UNTOLD)
    # What was not made is said with its reason.
    assert found[Name.LIES].checks or found[Name.LIES].missing
    assert bool(found[Name.PAUSE].checks) is (url.partition("://")[0] not in FILES)


def test_a_foreign_server_as_far_as_it_goes(tmp_path: Path) -> None:
    with Bench("flight://local") as ours:
        url = ours.url_of()
        found = {one.name: one for one in venturi.prove(url, only=("lies", "bottleneck", "conservation"))}
    assert all(not one.failures for one in found.values()), [one.failures for one in found.values()]
    # Its own stages cannot be slowed down from here.
    assert "server" in [part for part, _ in found[Name.BOTTLENECK].missing]
    assert {check.of["end"] for check in found[Name.BOTTLENECK].checks} == {"client"}
    assert found[Name.LIES].figures == {"lies": 5.0, "caught": 5.0}


@pytest.mark.parametrize(("table", "told"), [("t", True), ("empty", False)])
def test_a_table_that_is_there_already(table: str, told: bool) -> None:
    with Tables("grpc://127.0.0.1:0", "grpc") as server:
        threading.Thread(target=server.serve, daemon=True).start()
        url = f"flight://127.0.0.1:{server.port}/{table}"
        found = {one.name: one for one in venturi.prove(url, only=("difference", "conservation"))}
    assert all(not one.failures for one in found.values()), [one.failures for one in found.values()]
    assert (found[Name.DIFFERENCE].outcome is Outcome.IMPOSSIBLE) is not told
    assert bool(found[Name.CONSERVATION].checks) is told


def test_a_shared_connection_is_told_whole(bench: Bench) -> None:
    """Streams that end one after the other: what each is told adds up to what a relay saw."""
    for operation in ("get", "put"):
        for _ in range(5):
            plan = Plan(operation != "get", FRAMINGS["flight"], 10**9)
            trial = bench.trial(
                plan=plan, operation=operation, streams=4, threads=1, connections="shared",
                rows_per_batch=4096, rows_per_stream=4096 * 20,
            )  # fmt: skip
            assert trial.ok, trial.record["error"]
            carried = trial.relay.to_client + trial.relay.to_server
            wire, payload = (trial.record["counts"][name] for name in ("wire_bytes", "payload_bytes"))
            # Each stream was warmed by a batch, before the clock.
            least = carried - 4 * 4096 * trial.cell.parameters["row_bytes"]
            assert max(payload, 0.98 * least) <= wire <= carried, (operation, payload, wire, carried)


# ---- each fails where what it guards is broken ------------------------------------------------


def _rate(factor: float) -> Break:
    def change(record: Record, spec: Record) -> None:
        record["times"]["interval_ns"] = int(record["times"]["interval_ns"] / factor)

    return change


@pytest.mark.parametrize("factor", [1.02, 1.048576])
def test_a_rate_that_is_read_too_high_fails(broken: Callable[..., Bench], factor: float) -> None:
    assert {What.BYTES_RATE, What.ROWS_RATE} <= failed(rate.prove(broken(_rate(factor)), short=True))


def _lost_batch(record: Record, spec: Record) -> None:
    rows = spec["rows_per_batch"]
    for one in (record["counts"], record["streams"][-1]):
        one["payload_bytes"] -= one["payload_bytes"] // one["batches"]
        one["batches"] -= 1
        one["rows"] -= rows


def _skipped_slot(record: Record, spec: Record) -> None:
    if record["schedule"]:
        record["schedule"]["intended"] -= 1


def _no_wire(record: Record, spec: Record) -> None:
    record["counts"]["wire_bytes"] //= 2


def _twice_on_the_wire(record: Record, spec: Record) -> None:
    record["counts"]["wire_bytes"] *= 2


def _late_start(record: Record, spec: Record) -> None:
    record["times"]["started_unix_ns"] -= 10**9


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_lost_batch, What.BATCHES),
        (_skipped_slot, What.SCHEDULE),
        (_no_wire, What.WIRE),
        (_twice_on_the_wire, What.WIRE),
        (_late_start, What.CLOCK),
    ],
)
def test_what_is_counted_wrongly_at_a_known_rate_fails(
    broken: Callable[..., Bench], change: Break, what: What
) -> None:
    assert what in failed(rate.prove(broken(change), short=True))


def test_a_unit_that_means_something_else_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(units.FACTORS, "MB/s", ("B/s", 2.0**20))
    assert failed(rate.prove(bench, short=True)) == {What.PRINTED}


def _service_for_response(record: Record, spec: Record) -> None:
    record["latency"]["response"] = record["latency"]["service"]


def _a_rank_off(record: Record, spec: Record) -> None:
    """Each percentile is that of a few ranks below."""
    response = record["latency"]["response"]
    counts = hdr.decode(response["hdr"])
    response["percentiles"] = [
        [p, hdr.percentile(counts, max(p - 2.0, 0.0))] for p, _ in response["percentiles"]
    ]


@pytest.mark.parametrize("change", [_service_for_response, _a_rank_off])
def test_a_stall_that_is_hidden_fails(broken: Callable[..., Bench], change: Break) -> None:
    assert What.PERCENTILE in failed(stall.prove(broken(change)))


def test_a_stall_whose_late_slots_are_not_counted_fails(broken: Callable[..., Bench]) -> None:
    def change(record: Record, spec: Record) -> None:
        record["schedule"] |= {"late": 0, "max_lag_ns": 0}

    assert failed(stall.prove(broken(change))) == {What.SCHEDULE}


def _never_paused(record: Record, spec: Record) -> None:
    record.update(outcome="ok", error=None)
    record["resources"]["server"]["process"]["paused_ns"] = 0


def test_a_pause_that_is_not_noticed_fails(broken: Callable[..., Bench]) -> None:
    found = pause.prove(broken(_never_paused))
    wrong = [check for check in found.checks if not check.right]
    assert {check.what for check in wrong} == {What.PAUSE, What.OUTCOME}
    assert found.outcome is not Outcome.PASSED


def test_a_server_that_is_not_ours_is_never_stopped(bench: Bench) -> None:
    with Bench(bench.url_of()) as theirs:
        theirs.trial()
        assert pause.prove(theirs).missing == [("pause", Reason.NOT_OURS)]


def test_a_lie_that_is_let_by_fails(broken: Callable[..., Bench]) -> None:
    def change(record: Record, spec: Record) -> None:
        record.update(outcome="ok", error=None)

    proof = lies.prove(broken(change), short=True)
    assert failed(proof) == {What.LIE} and proof.figures == {"lies": 5.0, "caught": 0.0}


def test_what_fails_a_swap_that_is_no_lie_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checksum that depends on the order."""
    make = bench.trial

    def trial(**changes: Any) -> Trial:
        made = make(**changes)
        if changes.get("plan") and changes["plan"].lie is Lie.SWAP:
            made.record.update(
                outcome="failed", error={"kind": "verification", "message": "", "stream": None}
            )
        return made

    monkeypatch.setattr(bench, "trial", trial)
    proof = lies.prove(bench, short=True)
    assert failed(proof) == {What.OUTCOME}
    assert [check.of["lie"] for check in proof.failures] == ["swap", "swap"]


def test_rows_that_are_moved_and_not_counted_fail(broken: Callable[..., Bench]) -> None:
    """The batch that is in flight when the time is over."""

    def change(record: Record, spec: Record) -> None:
        rows = spec["rows_per_batch"]
        for one in (record["counts"], record["streams"][-1]):
            one["rows"] -= rows

    trial = broken(change).trial(operation="put", rows_per_stream=None, duration="50ms")
    wrong = [check for check in conservation.of_record(trial) if not check.right and check.what is What.ROWS]
    assert [check.of["part"] for check in wrong] == ["both"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["cassandra", "clickhouse", "mysql", "postgres", "redis"])
def test_databases_as_far_as_it_goes(scheme: str) -> None:
    """A connection that ends is lost, and leaves the upsert on its way in doubt."""
    with redis_support.found() if scheme == "redis" else contextlib.nullcontext():
        require_server(scheme)
        with Bench(f"{scheme}://local") as bench:
            found = {one.name: one for one in proofs(bench)}
    assert all(not one.failures for one in found.values()), [one.failures for one in found.values()]
    told = found[Name.LIES]
    assert told.outcome in (Outcome.PASSED, Outcome.UNTOLD)
    if told.outcome is Outcome.PASSED and scheme != "clickhouse":
        assert [check.found for check in told.checks if check.what is What.DOUBT] == [1]


def _neighbours(one: str, other: str) -> Break:
    def change(record: Record, spec: Record) -> None:
        for stages in (record["stages"]["client"], record["stages"]["server"] or {}):
            stages[one], stages[other] = stages.get(other, 0), stages.get(one, 0)

    return change


@pytest.mark.parametrize(
    "pair", [("decode", "receive"), ("decode", "verify"), ("generate", "encode"), ("apply", "verify")]
)
def test_a_stage_booked_on_its_neighbour_fails(broken: Callable[..., Bench], pair: tuple[str, str]) -> None:
    assert What.HANDICAP in failed(bottleneck.prove(broken(_neighbours(*pair))))


@pytest.mark.parametrize(
    ("place", "broken", "parts"),
    [
        (suffixes._COUNTS, {"M": 2**20}, {"spelled-7M", "spelled-7MB"}),
        (units.FACTORS, {"krows": ("rows", 1024.0)}, {"printed-rows-4"}),
        (summary, {"is_good": lambda record: True}, {"good", "highest", "median"}),
        (figures, {"cpu_ns": lambda record, end: record["cpu"][end]["user_ns"]}, {"client-cores"}),
        (hdr, {"percentile": lambda counts, percent: min(counts)}, {"middle-of-a-histogram"}),
        (intervals, {"RANGE_BELOW": 4}, set()),
    ],
    ids=["suffix", "unit", "failed-trials", "user-time", "rank", "nothing"],
)
def test_what_sums_up_wrongly_fails_by_arithmetic(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, place: Any, broken: dict[str, Any], parts: set[str]
) -> None:
    for name, value in broken.items():
        if isinstance(place, dict):
            monkeypatch.setitem(place, name, value)
        else:
            monkeypatch.setattr(place, name, value)
    wrong = {check.of["part"] for check in answers.prove(bench).failures}
    assert parts <= wrong and bool(parts) == bool(wrong)


def test_a_thing_that_differs_from_itself_fails(broken: Callable[..., Bench]) -> None:
    done = []

    def change(record: Record, spec: Record) -> None:
        # Trials of the second side: the order is 0 1 2, 2 1 0, so its place in each round is the same.
        done.append(0)
        if len(done) % 3 == 2:
            record["times"]["interval_ns"] //= 1000
        else:
            record["times"]["interval_ns"] = 10**9

    proof = difference.prove(broken(change), short=True)
    (alike,) = (check for check in proof.checks if check.what is What.ALIKE)
    assert not alike.right and alike.of["ratio"] > 2


@pytest.mark.parametrize(("noisy", "outcome"), [(False, Outcome.FAILED), (True, Outcome.UNTOLD)])
def test_other_work_makes_a_difference_too(noisy: bool, outcome: Outcome) -> None:
    """A fifth less where a twentieth was added is a fault, unless others used the machine."""
    base, more = [100.0, 101.0, 99.0, 100.5, 99.5], [80.0, 81.0, 79.0, 80.5, 79.5]
    assert difference._more(differences([(base, more)])[0], noisy).outcome is outcome


def test_a_seed_that_is_not_heeded_fails(broken: Callable[..., Bench]) -> None:
    def same(spec: Record) -> None:
        spec["data"]["seed"] = 1

    assert What.SEED in failed(seed.prove(broken(spec=same)))


def test_an_engine_without_headroom_does_not_pass(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"outcome": "ok", "batches": 1, "bytes": 1, "interval_ns": 10**9}
    monkeypatch.setattr(Bench, "engine_alone", lambda self, cell: slow)
    proof = headroom.prove(bench)
    assert proof.outcome in (Outcome.FAILED, Outcome.UNTOLD)
    assert all(check.right is False for check in proof.checks if check.what is What.HEADROOM)


def _cpu_twice(record: Record, spec: Record) -> None:
    for name in ("user_ns", "system_ns"):
        record["cpu"]["client"][name] = 50_000_000 + 2 * record["cpu"]["client"][name]


def _first_stream_ends_it(record: Record, spec: Record) -> None:
    ends = [one["end_ns"] for one in record["streams"]]
    record["times"]["interval_ns"] = min(ends) - (min(ends) == max(ends))


def _stage_twice(record: Record, spec: Record) -> None:
    stages = record["stages"]["client"]
    longest = max(stages, key=lambda name: stages[name])
    stages[longest] *= 2


def _a_stream_twice(record: Record, spec: Record) -> None:
    record["streams"].append(record["streams"][-1])


def _latency_lost(record: Record, spec: Record) -> None:
    record["latency"]["service"]["count"] -= 1


def _percentile_off(record: Record, spec: Record) -> None:
    service = record["latency"]["service"]
    service["percentiles"] = [[p, int(ns * 1.05) + 10] for p, ns in service["percentiles"]]


def _mean_off(record: Record, spec: Record) -> None:
    record["latency"]["service"]["mean"] *= 1.05


def _steady_off(record: Record, spec: Record) -> None:
    record["times"]["steady_ns"] = record["times"]["interval_ns"] + 1


def _sample_lost(record: Record, spec: Record) -> None:
    if record["samples"]:
        record["samples"]["client"]["rows"][-1] -= 1


def _retry_counted(record: Record, spec: Record) -> None:
    record["counts"]["batches"] += 1


def _other_interface(record: Record, spec: Record) -> None:
    network = ((record["resources"] or {}).get("client") or {}).get("network")
    if network:
        network["rx_bytes"] = 10**12


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_cpu_twice, What.CPU),
        (_first_stream_ends_it, What.INTERVAL),
        (_stage_twice, What.STAGES),
        (_a_stream_twice, What.STREAMS),
        (_latency_lost, What.LATENCIES),
        (_percentile_off, What.PERCENTILE),
        (_mean_off, What.LATENCIES),
        (_steady_off, What.STEADY),
        (_sample_lost, What.SAMPLES),
        (_retry_counted, What.STREAMS),
        (_no_wire, What.WIRE),
        (_other_interface, What.INTERFACE),
        (_lost_batch, What.BATCHES),
    ],
)
def test_what_does_not_add_up_fails(broken: Callable[..., Bench], change: Break, what: What) -> None:
    assert what in failed(conservation.prove(broken(change)))


def test_loaders_that_are_merged_wrongly_fail(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from venturi.cluster.trial import merge

    real = merge._counts
    monkeypatch.setattr(merge, "_counts", lambda records, first: real(records[:1], first))
    assert failed(conservation.prove(bench)) == {What.MERGED}
