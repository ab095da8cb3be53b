"""What must add up in every record, of each protocol: its parts are worked out again, or counted by a relay.

Twins: crates/engine/src/tests and crates/core/tests/it/stages.rs, for one protocol and one figure each."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import pytest

from venturi.analysis.cells.summary import summarise
from venturi.analysis.verdict.judge import judge
from venturi.common import hdr
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.relay import FRAMINGS, Plan


def assert_adds_up(trial: Trial) -> None:
    record, p = trial.record, trial.cell.parameters
    assert record["error"] is None
    streams, counts, times = record["streams"], record["counts"], record["times"]
    assert [stream["stream"] for stream in streams] == list(range(p["streams"]))
    for name in ("rows", "batches", "payload_bytes"):
        assert sum(stream[name] for stream in streams) == counts[name]
    assert counts["rows"] == p["streams"] * p["rows_per_stream"]
    # Of upserts, keys are verified.
    assert p["operation"] == "upsert" or record["verification"]["rows"] == counts["rows"]
    ends = [stream["end_ns"] for stream in streams]
    assert max(ends) == times["interval_ns"] <= trial.external.elapsed_ns
    assert all(one["start_ns"] <= one["first_batch_ns"] <= one["end_ns"] for one in streams)
    steady = max(0, min(ends) - max(stream["first_batch_ns"] for stream in streams))
    assert times["steady_ns"] == steady
    assert times["steady_rows"] <= counts["rows"] - p["rows_per_batch"] * (steady > 0)
    if p["operation"] in ("get", "put"):
        assert counts["wire_bytes"] >= counts["payload_bytes"] > 0
    for end in ("client", "server"):
        stages, workers = record["stages"][end], (record["workers"] or {}).get(end)
        if stages and workers:
            assert sum(stages.values()) == pytest.approx(workers["time_ns"], rel=0.02, abs=2e5)
    service = record["latency"]["service"]
    latencies = hdr.decode(service["hdr"])
    assert service["count"] == sum(latencies.values()) == counts["batches"]
    for percent, ns in service["percentiles"]:
        if percent in (50.0, 90.0, 99.0, 100.0):
            assert ns == pytest.approx(hdr.percentile(latencies, percent), rel=0.0011, abs=1)
    if p["operation"] == "get":
        # Little's law: each stream always has one batch in flight.
        lasted = sum(stream["end_ns"] - stream["start_ns"] for stream in streams)
        assert service["mean"] * counts["batches"] == pytest.approx(lasted, rel=0.01, abs=1e5)
    samples = record["samples"]["client"]
    assert samples["rows"][-1] == counts["rows"] and samples["t_ns"][-1] >= 0.999 * times["interval_ns"]
    assert all(after >= before for before, after in pairwise(samples["rows"]))


@pytest.mark.parametrize(
    ("scheme", "operation"),
    [("flight", "get"), ("flight", "put"), ("charrow", "get"), ("http+arrow", "put"), ("sqlite", "upsert"),
     ("opentsdb", "ingest")],
)  # fmt: skip
def test_every_record_adds_up(scheme: str, operation: str) -> None:
    with Bench(f"{scheme}://local") as bench:
        rows = 200 * int(bench.cell(operation=operation).parameters["rows_per_batch"])
        before = sum(os.times()[:2])
        trial = bench.trial(operation=operation, streams=bench.streams, rows_per_stream=rows)
        used_ns = (sum(os.times()[:2]) - before) * 1e9
        assert_adds_up(trial)
        # os.times counts in ticks.
        assert sum(trial.record["cpu"]["client"].values()) <= used_ns + 3e7
        # Twice the batches are twice the bytes: nothing of the set-up is in them.
        one, two = (bench.trial(operation=operation, rows_per_stream=rows // n) for n in (25, 12.5))
        few, many = (trial.record["counts"]["wire_bytes"] for trial in (one, two))
        if scheme in ("flight", "charrow"):
            assert abs(2 * few - many) <= (many - few) / 16


@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_shared_connection_is_told_whole(operation: str) -> None:
    """Streams that end one after the other: what each is told adds up to what a relay saw."""
    with Bench("flight://local") as bench:
        plan = Plan(operation != "get", FRAMINGS["flight"], 10**9)
        trial = bench.trial(
            plan=plan, operation=operation, streams=4, threads=1, connections="shared", rows_per_batch=4096,
            rows_per_stream=4096 * 20,
        )  # fmt: skip
    assert_adds_up(trial)
    carried = trial.relay.to_client + trial.relay.to_server
    # Each stream was warmed by a batch, before the clock.
    warmed = carried - 4 * 4096 * int(trial.cell.parameters["row_bytes"])
    assert 0.98 * warmed <= trial.record["counts"]["wire_bytes"] <= carried


@pytest.mark.parametrize(("operation", "stage"), [("get", "encode"), ("put", "decode")])
def test_a_servers_work_for_two_streams_is_reported_once(
    start_reference_server: Any, operation: str, stage: str
) -> None:
    """On one connection, whose thread burns 2 ms of CPU time for each batch of either stream."""
    server, burned = start_reference_server("--handicap", f"{stage}=2ms"), 40 * 2e6
    with Bench(f"flight://{server.address}") as bench:
        trial = bench.trial(operation=operation, streams=2, connections="shared", rows_per_stream=20 * 256)
    assert trial.record["error"] is None
    assert 0.999 * burned <= trial.record["stages"]["server"][stage] <= trial.record["times"]["interval_ns"]
    assert 0.95 * burned <= sum(trial.record["cpu"]["server"].values()) <= 1.5 * burned


def test_a_slowed_stage_is_the_verdict() -> None:
    slowed = (("get", "decode"), ("get", "verify"), ("put", "generate"), ("put", "encode"))
    with Bench("flight://local") as bench:
        for operation, stage in slowed:
            trial = bench.trial(
                operation=operation, rows_per_batch=8192, rows_per_stream=40 * 8192, handicap=f"{stage}=2ms"
            )
            (cell,) = summarise([trial.line()])
            # On a busy machine, the verdict may be that.
            assert trial.external.noisy or (judge(cell).end, judge(cell).stage) == ("client", stage)
