"""Venturi's client against a real pyarrow.flight server, good and bad.

Values that are put are read back by pyarrow and compared; a get's rows are counted by
the record, its values are covered by the checksum tests against our own server.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest

from support.flight import (
    RARE,
    Certificates,
    ServerProcess,
    assert_same,
    failed,
    mixed,
    rare,
    records,
    repeated,
    run_trial,
    succeeded,
    write_ipc,
)
from support.flight_peer import peer
from support.measured import ONCE, measured

pytestmark = pytest.mark.usefixtures("core")


def read_back(server: ServerProcess, *path: str) -> pa.Table:
    with flight.connect(f"grpc+tcp://{server.address}") as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path(*path))
        return client.do_get(info.endpoints[0].ticket).read_all()


def file_data(path: Path) -> dict[str, str]:
    return {"source": "file", "path": str(path), "ipc": str(path)}


# ---- get ----------------------------------------------------------------------------


def test_get_by_path(pyarrow_server: ServerProcess) -> None:
    record = succeeded(run_trial(f"flight://{pyarrow_server.address}/mixed"))
    assert record["counts"]["rows"] == 1000
    assert record["counts"]["batches"] == 4  # 300 rows each, the last 100
    assert 0 < record["counts"]["payload_bytes"] < record["counts"]["wire_bytes"]
    assert record["target"]["protocol"] == "path"
    assert record["target"]["reference"] is False
    assert record["verification"]["achieved"] in ("count", "checksum")
    assert record["verification"]["expected_rows"] == 1000
    # Its process is found by the port it listens on; what it does inside stays its own.
    assert (record["cpu"]["server"] is not None) == sys.platform.startswith("linux")
    assert record["stages"]["server"] is None


def test_get_by_nested_path(pyarrow_server: ServerProcess) -> None:
    with flight.connect(f"grpc+tcp://{pyarrow_server.address}") as client:
        descriptor = flight.FlightDescriptor.for_path("a", "b c", "ü")
        writer, _ = client.do_put(descriptor, records(7).schema)
        with writer:
            writer.write_table(records(7))
    record = succeeded(run_trial(f"flight://{pyarrow_server.address}/a/b%20c/%C3%BC"))
    assert record["counts"]["rows"] == 7


@pytest.mark.parametrize("how", ["command", "ticket"])
def test_get_by_command_or_ticket(pyarrow_server: ServerProcess, how: str) -> None:
    record = succeeded(run_trial(f"flight://{pyarrow_server.address}?{how}=records"))
    assert record["counts"]["rows"] == 10_000
    assert record["counts"]["payload_bytes"] == 320_000
    assert record["target"]["protocol"] == how
    if how == "ticket":  # nothing planned, so nothing to compare with
        assert record["verification"]["note"]


@pytest.mark.parametrize(("endpoints", "streams"), [(1, 1), (4, 1), (7, 3)])
def test_get_all_endpoints_and_their_locations(
    pyarrow_server: ServerProcess, endpoints: int, streams: int
) -> None:
    target = f"flight://{pyarrow_server.address}/endpoints/{endpoints}"
    record = succeeded(run_trial(target, streams=streams))
    assert record["counts"]["rows"] == 1000
    assert sum(stream["rows"] for stream in record["streams"]) == 1000
    assert len(record["streams"]) == streams


@pytest.mark.parametrize(("path", "rows"), [("unknown-count/1234", 1234), ("metadata", 1000)])
def test_get_without_a_promised_count(pyarrow_server: ServerProcess, path: str, rows: int) -> None:
    """Also with application metadata in every batch."""
    record = succeeded(run_trial(f"flight://{pyarrow_server.address}/{path}"))
    assert record["counts"]["rows"] == rows and record["verification"]["note"]
    assert run_trial(f"flight://{pyarrow_server.address}/empty")["counts"]["rows"] == 0


def test_get_from_a_slow_server_waits(pyarrow_server: ServerProcess) -> None:
    record = succeeded(run_trial(f"flight://{pyarrow_server.address}/slow/100"))
    assert record["counts"]["rows"] == 1000
    assert record["times"]["interval_ns"] > 750_000_000
    client = record["stages"]["client"]
    assert max(client, key=client.get) == "await_input"


# ---- get, failing -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind", "said", "more"),
    [
        ("nowhere", "server", "there is no table nowhere", {}),
        ("breaks/5", "server", "the disk behind this table is gone", {}),
        ("wrong-count/1000", "verification", "990", {}),
        ("stalls", "timeout", "", {"timeout_ns": 300_000_000}),
        ("records", "protocol", "max_message_size", {"options": {"max_message_size": 1000}}),
    ],
)
def test_get_that_fails(
    pyarrow_server: ServerProcess, path: str, kind: str, said: str, more: dict[str, Any]
) -> None:
    record = run_trial(f"flight://{pyarrow_server.address}/{path}", **more)
    assert said in failed(record, kind)


# ---- put ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}, {"compression": "zstd"}])
def test_put_a_file_with_every_usual_type(
    pyarrow_server: ServerProcess, tmp_path: Path, options: dict[str, str]
) -> None:
    table = mixed(500)
    path = write_ipc(table, tmp_path / "mixed.arrow")
    name = f"mixed-{options.get('compression')}"
    work = {"data": file_data(path), "rows_per_batch": 120, "rows_per_stream": 1250, "options": options}
    record = succeeded(run_trial(f"flight://{pyarrow_server.address}/put/{name}", "put", **work))
    counts = record["counts"]
    assert counts["rows"] == 1250 and (counts["wire_bytes"] < counts["payload_bytes"]) == bool(options)
    assert record["verification"]["achieved"] in ("acknowledged", "count")
    assert_same(read_back(pyarrow_server, "put", name), repeated(table, 1250))


@pytest.mark.parametrize("name", RARE)
def test_rare_types_both_ways(pyarrow_server: ServerProcess, tmp_path: Path, name: str) -> None:
    table = rare(name)
    path = write_ipc(table, tmp_path / "rare.arrow")
    target = f"flight://{pyarrow_server.address}/rare/{name}"
    rows = table.num_rows
    succeeded(run_trial(target, "put", data=file_data(path), rows_per_batch=100, rows_per_stream=rows))
    assert_same(read_back(pyarrow_server, "rare", name), table)
    assert succeeded(run_trial(target))["counts"]["rows"] == rows


def test_put_records_on_several_streams(pyarrow_server: ServerProcess) -> None:
    target = f"flight://{pyarrow_server.address}/put/streams"
    data = {"source": "records", "columns": 4, "values": "sequential"}
    record = succeeded(run_trial(target, "put", data=data, rows_per_stream=2500, streams=3, threads=2))
    assert record["counts"]["rows"] == 7500
    assert record["counts"]["batches"] == 9
    assert [stream["rows"] for stream in record["streams"]] == [2500] * 3
    table = read_back(pyarrow_server, "put", "streams")
    assert table.num_rows == 7500
    assert table.schema.types == [pa.int64()] * 4


def test_put_acknowledged_batch_by_batch(pyarrow_server: ServerProcess) -> None:
    target = f"flight://{pyarrow_server.address}/put/acknowledged"
    record = succeeded(run_trial(target, "put", rows_per_stream=5000, options={"ack": "batch"}))
    assert record["latency"]["service"]["count"] == 5
    with flight.connect(f"grpc+tcp://{pyarrow_server.address}") as client:
        (answer,) = client.do_action("puts")
    puts = json.loads(answer.body.to_pybytes())
    assert {"name": "put/acknowledged", "rows": 5000, "acknowledged": 5} in puts


def test_refused_put_is_the_servers_error(pyarrow_server: ServerProcess) -> None:
    target = f"flight://{pyarrow_server.address}/refuses"
    assert "read-only" in failed(run_trial(target, "put", rows_per_stream=1_000_000), "server")


# ---- TLS and authentication: what Venturi's own server refuses, the behaviours of all systems hold


def test_tls_and_client_certificate(certificates: Certificates) -> None:
    keys = ("--tls-certificate", certificates.server, "--tls-key", certificates.server_key)
    known = {
        "tls_ca": str(certificates.ca),
        "tls_certificate": str(certificates.client),
        "tls_key": str(certificates.client_key),
    }
    with peer(*keys, "--client-ca", certificates.ca) as address:
        target = f"flight+tls://{address}/put/tls"
        record = succeeded(run_trial(target, "put", rows_per_stream=100_000, streams=2, options=known))
        assert record["counts"]["rows"] == 200_000
        succeeded(run_trial(target, options=known))
        # gRPC ends the connection without saying why, so the client cannot say "tls" either.
        failed(run_trial(target, options={"tls_ca": str(certificates.ca)}), "tls", "protocol", "lost")
        failed(run_trial(f"flight://{address}/mixed"), "protocol", "tls", "lost", "unreachable")
    keys = ("--tls-certificate", certificates.expired, "--tls-key", certificates.expired_key)
    with peer(*keys) as address:
        failed(run_trial(f"flight+tls://{address}/mixed", options={"tls_ca": str(certificates.ca)}), "tls")


def test_tls_client_to_a_plain_server(pyarrow_server: ServerProcess) -> None:
    target = f"flight+tls://{pyarrow_server.address}/mixed"
    failed(run_trial(target, options={"tls_insecure": True}), "tls")


def test_log_in_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PASSWORD": "s3cret", "TOKEN": "issued-token", "WRONG": "guessed"}.items():
        monkeypatch.setenv(name, value)
    with peer("--user", "ada", "--password", "s3cret") as address:
        # Basic, and then the token that the server has issued.
        options = {"user": "ada", "password_env": "PASSWORD"}
        target = f"flight://{address}/mixed"
        record = succeeded(run_trial(target, streams=2, options=options))
        assert record["counts"]["rows"] == 2000  # one endpoint, so both streams read it
        assert "s3cret" not in json.dumps(record)
        for operation in ("put", "get"):
            there, options = f"flight://{address}/put/token", {"token_env": "TOKEN"}
            succeeded(run_trial(there, operation, rows_per_stream=1000, options=options))
        wrongs: list[dict[str, str]] = [{}, {"token_env": "WRONG"}, {"user": "ada", "password_env": "WRONG"}]
        for wrong in wrongs:
            failed(run_trial(target, options=wrong), "auth")


def test_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENANT", "blue")
    with peer("--header", "x-tenant=blue") as address:
        target = f"flight://{address}/mixed"
        succeeded(run_trial(target, options={"headers": {"x-tenant": "blue"}}))
        succeeded(run_trial(target, options={"header_env": {"x-tenant": "TENANT"}}))
        failed(run_trial(target, options={"headers": {"x-tenant": "red"}}), "auth")


# ---- by the command


def test_a_run_puts_a_parquet_file(pyarrow_server: ServerProcess, tmp_path: Path) -> None:
    table = mixed(300).drop_columns(["lasts", "nothing"])  # Parquet keeps no duration of pyarrow's
    pq.write_table(table, tmp_path / "mixed.parquet")
    words = ("--data", tmp_path / "mixed.parquet", "--rows-per-stream", "1k", "--rows-per-batch", 100)
    target = f"flight://{pyarrow_server.address}/from-run"
    measured(tmp_path / "run", target, "--operation", "put", *words, "--streams", 2, *ONCE)
    assert read_back(pyarrow_server, "from-run").num_rows == 2000
