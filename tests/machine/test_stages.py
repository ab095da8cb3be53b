"""Stages of both ends add up over TLS, and a slow server looks at its client between batches.

Twin: crates/core/tests/stages, for everything but TLS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import venturi
from support.flight import Certificates, run_trial, succeeded

SCHEMA = json.loads((Path(venturi.__file__).parent / "schema" / "trial.schema.json").read_text())


def assert_gap_free(record: dict[str, Any]) -> None:
    known = SCHEMA["properties"]["stages"]["properties"]["client"]["propertyNames"]["enum"]
    for end in ("client", "server"):
        stages, workers = record["stages"][end], record["workers"][end]
        assert workers["workers"] == len(record["streams"])
        assert sum(stages.values()) == pytest.approx(workers["time_ns"], rel=0.02)
        assert set(stages) <= set(known) - {"wait"}
    assert record["workers"]["client"]["time_ns"] == sum(s["end_ns"] for s in record["streams"])


@pytest.mark.parametrize("operation", ["get", "put"])
def test_no_gaps_over_tls(start_reference_server: Any, certificates: Certificates, operation: str) -> None:
    server = start_reference_server(
        "--tls-certificate", certificates.server, "--tls-key", certificates.server_key
    )
    options = {"tls_ca": str(certificates.ca)}
    record = run_trial(
        f"flight+tls://{server.address}",
        operation,
        data={"source": "records"},
        rows_per_batch=4096,
        rows_per_stream=1_000_000,
        streams=4,
        threads=2,
        options=options,
    )
    assert_gap_free(succeeded(record))


def test_a_server_that_encodes_slowly_looks_at_its_client_between_batches(
    start_reference_server: Any,
) -> None:
    """Compressed batches are small: a quarter of a megabyte of them took seconds, in which nothing was sent
    and nobody noticed that the trial was over."""
    server = start_reference_server("--handicap", "encode=20ms")
    record = succeeded(
        run_trial(
            f"flight://{server.address}",
            "get",
            data={"source": "records", "values": "sequential"},
            rows_per_batch=4096,
            options={"compression": "zstd"},
            duration_ns=400_000_000,
        )
    )
    assert record["stages"]["server"]["encode"] < 2 * record["times"]["interval_ns"]
    assert record["counts"]["batches"] > 1
