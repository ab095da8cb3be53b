"""Stages of both ends on real trials: gap-free, with the names of docs/format.md, over TLS too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import flight

import venturi
from support.flight import Certificates, ServerProcess, failed, records, run_trial, succeeded
from support.run import venturi as venturi_command
from venturi.targets import handicap

pytestmark = [pytest.mark.slow, pytest.mark.noisy]

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
    instrument = record["instrument"]
    assert instrument["clock_reads"] <= 12 * record["counts"]["batches"]
    assert instrument["share"] < 0.01


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


def test_a_schedule_is_waited_for_in_peace(reference_server: ServerProcess) -> None:
    """Streams that could not read, because others had not taken what was theirs, woke one another all the
    while: up to 100,000 readings of the clock a batch."""
    record = trial(
        f"flight://{reference_server.address}",
        "get",
        streams=4,
        threads=1,
        rows_per_stream=None,
        duration_ns=1_000_000_000,
        rate=400.0,
        options={"connections": "shared"},
    )
    assert record["counts"]["batches"] > 100
    assert record["instrument"]["clock_reads"] <= 12 * record["counts"]["batches"]


def test_a_trial_that_does_not_begin_has_no_workers() -> None:
    from venturi.engine.spec import failed_record

    assert failed_record("io", "no")["workers"] is None


# ---- made-to-measure bottlenecks ------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "stage"), [("get", "decode"), ("get", "verify"), ("put", "encode"), ("put", "generate")]
)
def test_a_handicap_of_the_client(reference_server: ServerProcess, operation: str, stage: str) -> None:
    record = trial(
        f"flight://{reference_server.address}",
        operation,
        rows_per_stream=4096 * 100,
        options={"handicap": {stage: 1_000_000}},
    )
    assert_gap_free(record)
    assert record["stages"]["client"][stage] >= 100_000_000
    assert max(shares(record, "client").items(), key=lambda item: item[1])[0] == stage
    assert "handicap" not in record["target"]


@pytest.mark.parametrize(("operation", "stage"), [("get", "encode"), ("put", "decode")])
def test_a_handicap_of_the_server(start_reference_server: Any, operation: str, stage: str) -> None:
    server = start_reference_server("--handicap", "encode=1ms+decode=1ms")
    record = trial(f"flight://{server.address}", operation, rows_per_stream=4096 * 100)
    assert_gap_free(record)
    assert max(shares(record, "server").items(), key=lambda item: item[1])[0] == stage
    assert record["target"]["handicap"] == "encode 1ms, decode 1ms"


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


def test_a_handicap_of_a_stage_that_is_not_there(reference_server: ServerProcess) -> None:
    target = f"flight://{reference_server.address}"
    options = {"handicap": {"encode": 1000}}
    record = run_trial(target, "get", data={"source": "records"}, rows_per_stream=10, options=options)
    assert "decode, verify" in failed(record, "usage")


@pytest.mark.parametrize("operation", ["get", "put"])
def test_levels_of_zstd(reference_server: ServerProcess, operation: str) -> None:
    target = f"flight://{reference_server.address}"
    data = {"source": "records", "values": "sequential"}
    wire = {
        name: trial(target, operation, rows_per_stream=40_960, data=data, options={"compression": name})[
            "counts"
        ]["wire_bytes"]
        for name in ("none", "lz4", "zstd:1", "zstd", "zstd:19")
    }
    assert wire["zstd:19"] < wire["zstd"] < wire["none"]
    assert wire["lz4"] < wire["none"]


def test_a_table_comes_compressed(reference_server: ServerProcess) -> None:
    table = records(100_000)
    with flight.connect(f"grpc://{reference_server.address}") as client:
        writer, _ = client.do_put(flight.FlightDescriptor.for_path("squeezed"), table.schema)
        with writer:
            writer.write_table(table)
    target = f"flight://{reference_server.address}/squeezed"
    plain = succeeded(run_trial(target))
    small = succeeded(run_trial(target, options={"compression": "zstd:9"}))
    assert small["counts"]["rows"] == plain["counts"]["rows"] == 100_000
    assert small["counts"]["wire_bytes"] < 0.7 * plain["counts"]["wire_bytes"]


def test_an_independent_reader_of_every_level(pyarrow_server: ServerProcess) -> None:
    for name in ("zstd:1", "zstd:22", "lz4"):
        target = f"flight://{pyarrow_server.address}/level/{name.replace(':', '-')}"
        options = {"compression": name}
        record = run_trial(target, "put", rows_per_stream=5000, options=options)
        assert succeeded(record)["counts"]["rows"] == 5000
        with flight.connect(f"grpc://{pyarrow_server.address}") as client:
            path = flight.FlightDescriptor.for_path("level", name.replace(":", "-"))
            info = client.get_flight_info(path)
            assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 5000


def test_a_foreign_server_cannot_be_asked_to_compress(pyarrow_server: ServerProcess) -> None:
    record = run_trial(f"flight://{pyarrow_server.address}/empty", options={"compression": "zstd:9"})
    assert "only Venturi's own server" in failed(record, "usage")


@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_small_window_is_waited_for(start_reference_server: Any, operation: str) -> None:
    """On loopback the way is short, but a batch of 1 MB still has to be asked for sixteen times."""
    server = start_reference_server("--window", "64KiB")
    options = {"window": 65536} if operation == "get" else {}
    target = f"flight://{server.address}"
    record = trial(target, operation, rows_per_batch=32_768, rows_per_stream=3_276_800, options=options)
    assert_gap_free(record)
    end = "server" if operation == "get" else "client"
    assert shares(record, end).get("await_window", 0.0) > 0.05, record["stages"]


# ---- how they are asked for ------------------------------------------------------------


def test_handicaps_are_read_and_normalised() -> None:
    assert handicap.nanoseconds("decode=200us") == {"decode": 200_000}
    assert handicap.normalised(" verify = 1500us+decode=1ms") == "decode=1ms+verify=1500us"
    for text, words in [
        ("decode", "STAGE=TIME"),
        ("decod=1ms", "no stage is called"),
        ("decode=5", "needs a unit"),
        ("decode=11s", "1ns to 10s"),
        ("decode=0ms", "1ns to 10s"),
        ("decode=1ms+decode=2ms", "twice"),
        ("decode=1 fortnight", "no suffix"),
    ]:
        with pytest.raises(ValueError, match=words):
            handicap.nanoseconds(text)


def test_a_scenario_with_a_handicap_and_a_level() -> None:
    planned = venturi_command(
        "run", "--operation", "get", "--handicap", "none,decode=1000us", "--compression", "zstd:9,zstd:3",
        "--dry-run",
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    assert "handicap=decode=1ms" in planned.stdout
    assert "zstd:9" in planned.stdout
    assert "not its true figures" in planned.stderr
    wrong = venturi_command("run", "--operation", "get", "--handicap", "encode=1ms", "--dry-run")
    assert wrong.returncode != 0
    assert "--handicap" in wrong.stderr
    assert "decode, verify" in wrong.stderr
    level = venturi_command("run", "--operation", "get", "--compression", "zstd:23", "--dry-run")
    assert "1 to 22" in level.stderr


def test_a_handicapped_server_says_so() -> None:
    for flags, words in [
        (("--handicap", "encode"), "STAGE=TIME"),
        (("--window", "0"), "2147483647"),
    ]:
        wrong = venturi_command("serve", "flight", "--port", "0", *flags)
        assert wrong.returncode != 0
        assert words in wrong.stderr
        assert flags[0] in wrong.stderr
