"""Stages of both ends on real trials: gap-free, with the names of docs/format.md, over TLS too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import venturi
from flight_support import Certificates, ServerProcess, run_trial, succeeded

SCHEMA = json.loads((Path(venturi.__file__).parent / "schema" / "trial.schema.json").read_text())
WAITS = {"await_input", "await_output", "await_window", "await_reply", "await_schedule", "await_thread"}


def trial(target: str, operation: str, **changes: Any) -> dict[str, Any]:
    return succeeded(
        run_trial(
            target,
            operation,
            **{
                "data": {"source": "records"},
                "rows_per_batch": 4096,
                "rows_per_stream": 1_000_000,
                **changes,
            },
        )
    )


def shares(record: dict[str, Any], end: str) -> dict[str, float]:
    stages = record["stages"][end]
    total = sum(stages.values())
    return {name: ns / total for name, ns in stages.items()}


def assert_gap_free(record: dict[str, Any]) -> None:
    known = SCHEMA["properties"]["stages"]["properties"]["client"]["propertyNames"]["enum"]
    assert set(known) >= WAITS
    for end in ("client", "server"):
        stages, workers = record["stages"][end], record["workers"][end]
        assert workers["workers"] == len(record["streams"])
        assert sum(stages.values()) == pytest.approx(workers["time_ns"], rel=0.02)
        assert set(stages) <= set(known) - {"wait"}
    assert record["workers"]["client"]["time_ns"] == sum(s["end_ns"] for s in record["streams"])


@pytest.mark.parametrize("operation", ["get", "put"])
@pytest.mark.parametrize("connections", ["per-stream", "shared"])
@pytest.mark.parametrize(("streams", "threads"), [(1, 1), (4, 1), (4, 4)])
def test_no_gaps(
    reference_server: ServerProcess, operation: str, connections: str, streams: int, threads: int
) -> None:
    record = trial(
        f"flight://{reference_server.address}",
        operation,
        streams=streams,
        threads=threads,
        options={"connections": connections},
    )
    assert_gap_free(record)
    assert record["instrument"]["share"] < 0.01


@pytest.mark.parametrize("operation", ["get", "put"])
def test_no_gaps_over_tls(start_reference_server: Any, certificates: Certificates, operation: str) -> None:
    server = start_reference_server(
        "--tls-certificate", certificates.server, "--tls-key", certificates.server_key
    )
    options = {"tls_ca": str(certificates.ca)}
    record = trial(f"flight+tls://{server.address}", operation, streams=4, threads=2, options=options)
    assert_gap_free(record)


def test_a_rate_is_waited_for(reference_server: ServerProcess) -> None:
    record = trial(
        f"flight://{reference_server.address}", "put", streams=2, rows_per_stream=4096 * 50, rate=250.0
    )
    assert_gap_free(record)
    assert shares(record, "client")["await_schedule"] > 0.8
    assert shares(record, "server")["await_input"] > 0.8


def test_a_trial_that_does_not_begin_has_no_workers() -> None:
    from venturi.trial import failed_record

    assert failed_record("io", "no")["workers"] is None
