"""Handicaps and compression: how they are asked for, and what is refused. That stages are gap-free, and that
each handicap shows in its own, is in crates/core/tests/stages."""

from __future__ import annotations

import pytest
from pyarrow import flight

from support.flight import ServerProcess, failed, records, run_trial, succeeded
from support.mistakes import check
from support.run import venturi
from venturi.targets import handicap


def test_a_schedule_is_waited_for_in_peace(reference_server: ServerProcess) -> None:
    """Streams that could not read, because others had not taken what was theirs, woke one another all the
    while: up to 100,000 readings of the clock a batch."""
    work = {"rows_per_batch": 4096, "streams": 4, "threads": 1, "rows_per_stream": 10 * 4096, "rate": 400.0}
    shared = {"data": {"source": "records"}, "options": {"connections": "shared"}}
    record = succeeded(run_trial(f"flight://{reference_server.address}", "get", **shared, **work))
    assert record["counts"]["batches"] == 40
    assert record["instrument"]["clock_reads"] <= 12 * record["counts"]["batches"]


def test_a_handicap_of_a_stage_that_is_not_there(reference_server: ServerProcess) -> None:
    target = f"flight://{reference_server.address}"
    options = {"handicap": {"encode": 1000}}
    record = run_trial(target, "get", data={"source": "records"}, rows_per_stream=10, options=options)
    assert "decode, verify" in failed(record, "usage")


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


def test_handicaps_are_read_and_normalised() -> None:
    assert handicap.nanoseconds("decode=200us") == {"decode": 200_000}
    assert handicap.normalised(" verify = 1500us+decode=1ms") == "decode=1ms+verify=1500us"

    def said(text: str) -> str:
        with pytest.raises(ValueError) as caught:
            handicap.nanoseconds(text)
        return str(caught.value)

    check("handicaps", said)


def test_a_scenario_with_a_handicap_and_a_level() -> None:
    planned = venturi(
        "run", "--operation", "get", "--handicap", "none,decode=1000us", "--compression", "zstd:9,zstd:3",
        "--dry-run",
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    assert "handicap=decode=1ms" in planned.stdout
    assert "zstd:9" in planned.stdout
    assert "not its true figures" in planned.stderr
