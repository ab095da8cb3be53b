"""A real pyarrow.flight client before Venturi's reference server, Venturi's client before a real
pyarrow.flight server, good and bad, and Venturi with itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
    Start,
    assert_same,
    failed,
    mixed,
    rare,
    records,
    repeated,
    run_trial,
    served,
    succeeded,
    varint,
    write_ipc,
)
from support.flight_peer import peer
from support.read import ONCE, ran

pytestmark = pytest.mark.usefixtures("core")
RECORDS = {"source": "records", "columns": 4}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served("flight") as address:
        yield address


@pytest.fixture
def client(server: str) -> Iterator[flight.FlightClient]:
    with flight.connect(f"grpc+tcp://{server}") as connected:
        yield connected


def put(client: flight.FlightClient, table: pa.Table, *path: str, **options: Any) -> None:
    descriptor = flight.FlightDescriptor.for_path(*path)
    call = flight.FlightCallOptions(**options)
    writer, _ = client.do_put(descriptor, table.schema, options=call)
    with writer:
        writer.write_table(table, max_chunksize=300)


def get(client: flight.FlightClient, *path: str) -> pa.Table:
    info = client.get_flight_info(flight.FlightDescriptor.for_path(*path))
    tables = [client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    return pa.concat_tables(tables)


# ---- tables -------------------------------------------------------------------------


TABLES: dict[str, Callable[[], pa.Table]] = {
    "every usual type": mixed,
    **{name: partial(rare, name) for name in RARE},
    "empty": lambda: mixed().slice(0, 0),
    "sliced": lambda: mixed().slice(13, 501),
    "metadata of the schema": lambda: records(10).replace_schema_metadata({"unit": "metres"}),
}


@pytest.mark.parametrize(("name", "codec"), [*((name, None) for name in TABLES), ("every usual type", "lz4"),
                                             ("every usual type", "zstd")])  # fmt: skip
def test_a_table_comes_back(client: flight.FlightClient, name: str, codec: str | None) -> None:
    table, path = TABLES[name](), (name, str(codec))
    options = {"write_options": pa.ipc.IpcWriteOptions(compression=codec)} if codec else {}
    put(client, table, *path, **options)
    found = get(client, *path)
    assert_same(found, table)
    assert found.schema.equals(table.schema, check_metadata=True)


def test_plan_schema_and_list(client: flight.FlightClient) -> None:
    put(client, mixed(), "catalogue", "one")
    descriptor = flight.FlightDescriptor.for_path("catalogue", "one")
    info = client.get_flight_info(descriptor)
    assert info.total_records == 1000
    assert info.schema.equals(mixed().schema)
    assert client.get_schema(descriptor).schema.equals(mixed().schema)
    listed = {tuple(found.descriptor.path): found for found in client.list_flights()}
    assert listed[(b"catalogue", b"one")].total_records == 1000


def test_what_is_dropped_or_never_was_is_a_clear_error(client: flight.FlightClient) -> None:
    put(client, records(10), "short-lived")
    list(client.do_action(flight.Action("drop", b"short-lived")))
    with pytest.raises(KeyError, match="short-lived"):
        get(client, "short-lived")
    with pytest.raises((flight.FlightError, pa.ArrowInvalid)):
        client.do_get(flight.Ticket(b"\xff\xff")).read_all()


def test_actions_are_listed_and_unknown_ones_refused(client: flight.FlightClient) -> None:
    names = {action.type for action in client.list_actions()}
    assert {"ping", "drop", "statistics"} <= names
    (pong,) = client.do_action("ping")
    assert pong.body.to_pybytes() == b"ok"
    with pytest.raises(NotImplementedError):
        list(client.do_action("fly"))


def test_many_clients_at_once_and_one_that_leaves_early(server: str, client: flight.FlightClient) -> None:
    reader = client.do_get(client.get_flight_info(perf_command(1, 10_000_000, 4096)).endpoints[0].ticket)
    reader.read_chunk()

    def one(number: int) -> bool:
        with flight.connect(f"grpc+tcp://{server}") as own:
            table = records(5000, start=number)
            put(own, table, "many", str(number))
            return bool(get(own, "many", str(number)).equals(table))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(12)))
        reader.cancel()
        assert all(pool.map(one, range(12, 24)))


def test_a_file_is_served_under_its_name_until_the_server_is_told_to_end(
    start_reference_server: Start, tmp_path: Path
) -> None:
    table = mixed(700).drop_columns(["lasts", "nothing"])
    pq.write_table(table, tmp_path / "mixed.parquet")
    # --data is what --table was called.
    files = ("--table", f"from/parquet={tmp_path / 'mixed.parquet'}", "--data", "old=builtin:birdstrikes")
    server = start_reference_server(*files)
    with flight.connect(f"grpc+tcp://{server.address}") as client:
        assert get(client, "old").num_rows == 10_000
        found = get(client, "from", "parquet")
        assert found.num_rows == 700
        assert found["name"].to_pylist() == table["name"].to_pylist()
        assert found["points"].to_pylist() == table["points"].to_pylist()
    status, stderr = server.stop()
    assert status == 0 and "Traceback" not in stderr and "panicked" not in stderr


def test_what_gets_read_from_is_within_memory() -> None:
    with (
        served("flight", memory_bytes=10_000_000) as address,
        flight.connect(f"grpc+tcp://{address}") as client,
    ):
        for more in range(8):
            client.get_flight_info(perf_command(1, 10, 190_000 + more))  # a batch of 6.1 MB each
            held = json.loads(next(client.do_action("statistics")).body.to_pybytes())["memory_used_bytes"]
            assert 6e6 < held < 10e6
        with pytest.raises((flight.FlightError, pa.ArrowException), match="memory of 10000000 bytes"):
            client.get_flight_info(perf_command(1, 10, 400_000))
        # What nobody reads from gives way to a table.
        put(client, records(200_000), "table")


# ---- the performance protocol -------------------------------------------------------


def perf_command(streams: int, rows: int, batch: int) -> flight.FlightDescriptor:
    """Perf { stream_count = 2, records_per_stream = 3, records_per_batch = 4 }."""
    return flight.FlightDescriptor.for_command(
        b"\x10" + varint(streams) + b"\x18" + varint(rows) + b"\x20" + varint(batch)
    )


def test_perf_plan_and_get(client: flight.FlightClient) -> None:
    info = client.get_flight_info(perf_command(3, 10_000, 4096))
    assert info.schema.names == ["a", "b", "c", "d"]
    assert info.schema.types == [pa.int64()] * 4
    assert all(field.nullable for field in info.schema)
    assert (info.total_records, info.total_bytes) == (30_000, -1)
    assert len(info.endpoints) == 3
    definition = b"\x10\x03\x18\x90\x4e\x20\x80\x20"
    first, second = info.endpoints[0].ticket.ticket, info.endpoints[1].ticket.ticket
    assert first == b"\x0a\x08" + definition + b"\x18\x90\x4e"
    assert second == b"\x0a\x08" + definition + b"\x10\x90\x4e\x18\xa0\x9c\x01"
    for endpoint in info.endpoints:
        batches = [chunk.data for chunk in client.do_get(endpoint.ticket)]
        assert [batch.num_rows for batch in batches] == [4096, 4096, 1808]
        assert all(column.null_count == 0 for batch in batches for column in batch.columns)


def test_perf_put_acknowledges_only_batches_with_metadata(client: flight.FlightClient) -> None:
    batch = records(100).to_batches()[0]
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(b""), batch.schema)
    writer.write_batch(batch)
    writer.write_with_metadata(batch, b"please")
    writer.write_batch(batch)
    writer.done_writing()
    assert reader.read().to_pybytes() == b"please"
    assert reader.read() is None
    writer.close()


# ---- statistics, TLS, token, end ----------------------------------------------------


def test_tls_and_client_certificates(certificates: Certificates) -> None:
    """What is refused by Venturi's own client, the behaviour `tls` of all systems holds."""
    keys = {"tls_certificate": str(certificates.server), "tls_key": str(certificates.server_key)}
    with served("flight", **keys, tls_client_ca=str(certificates.ca)) as address:
        where, trusted = f"grpc+tls://{address}", certificates.ca.read_bytes()
        chain, key = certificates.client.read_bytes(), certificates.client_key.read_bytes()
        own = {"cert_chain": chain, "private_key": key}
        with flight.connect(where, tls_root_certs=trusted, **own) as known:
            put(known, mixed(), "mixed")
            assert_same(get(known, "mixed"), mixed())
        for trusts, shows in ((trusted, {}), (certificates.other_ca.read_bytes(), own)):
            stranger = flight.connect(where, tls_root_certs=trusts, **shows)
            with stranger, pytest.raises(flight.FlightUnavailableError):
                list(stranger.do_action("ping"))


def test_token_also_of_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    from venturi import _core

    monkeypatch.setenv("TOKEN", "open-sesame")
    call = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer open-sesame")])
    with served("flight", token_env="TOKEN") as address, flight.connect(f"grpc+tcp://{address}") as client:
        for headers in ([], [(b"authorization", b"Bearer wrong")]):
            wrong = flight.FlightCallOptions(headers=headers)
            with pytest.raises(flight.FlightUnauthenticatedError):
                list(client.do_action(flight.Action("ping", b""), options=wrong))
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.do_get(flight.Ticket(b"x"), options=wrong).read_all()
        assert list(client.do_action(flight.Action("ping", b""), options=call))
        spec = {
            "target": f"flight://{address}", "options": {"token_env": "TOKEN"}, "direction": "get",
            "streams": 2, "duration_ns": 100_000_000,
        }  # fmt: skip
        record = json.loads(_core.probe_tcp(json.dumps(spec), _core.Control()))
        assert record["outcome"] == "ok" and record["bytes"] > 0


# ---- Venturi with itself ------------------------------------------------------------


@pytest.mark.parametrize("operation", ["get", "put"])
def test_batches_that_do_not_divide_the_rows(server: str, operation: str) -> None:
    data = {**RECORDS, "values": "random", "seed": 7}
    record = succeeded(
        run_trial(
            f"flight://{server}", operation, data=data, rows_per_stream=1_000_001, rows_per_batch=4096,
            streams=5, threads=2,
        )
    )  # fmt: skip
    counts = {"rows": 1_000_001 * 5, "batches": 245 * 5, "payload_bytes": 1_000_001 * 5 * 32}
    assert record["counts"] | {"wire_bytes": 0} == counts | {"wire_bytes": 0, "stored_bytes": None}
    assert record["verification"]["achieved"] == "checksum"
    assert record["target"]["reference"] is True
    assert record["cpu"]["server"]["user_ns"] + record["cpu"]["server"]["system_ns"] > 0


def test_a_file_goes_there_and_back(server: str, client: flight.FlightClient, tmp_path: Path) -> None:
    path = write_ipc(mixed(), tmp_path / "mixed.arrow")
    target = f"flight://{server}/from/file"
    data = file_data(path)
    record = succeeded(run_trial(target, "put", data=data, rows_per_batch=250, rows_per_stream=1000))
    assert record["verification"]["achieved"] == "checksum"
    assert_same(get(client, "from", "file"), mixed())
    record = succeeded(run_trial(target, "get", data={"source": "remote"}))
    assert record["counts"]["rows"] == 1000


# ---- Venturi's client


def read_back(server: ServerProcess, *path: str) -> pa.Table:
    with flight.connect(f"grpc+tcp://{server.address}") as client:
        return get(client, *path)


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
        put(client, records(7), "a", "b c", "ü")
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


def test_put_acknowledged_batch_by_batch_or_refused(pyarrow_server: ServerProcess) -> None:
    target = f"flight://{pyarrow_server.address}/put/acknowledged"
    record = succeeded(run_trial(target, "put", rows_per_stream=5000, options={"ack": "batch"}))
    assert record["latency"]["service"]["count"] == 5
    with flight.connect(f"grpc+tcp://{pyarrow_server.address}") as client:
        (answer,) = client.do_action("puts")
    puts = json.loads(answer.body.to_pybytes())
    assert {"name": "put/acknowledged", "rows": 5000, "acknowledged": 5} in puts
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


def test_log_in_token_and_headers(pyarrow_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"PASSWORD": "s3cret", "TOKEN": "issued-token", "WRONG": "guessed", "TENANT": "blue"}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    plain = f"flight+tls://{pyarrow_server.address}/mixed"
    failed(run_trial(plain, options={"tls_insecure": True}), "tls")
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
    ran(tmp_path / "run", "--target", target, "--operation", "put", *words, "--streams", 2, *ONCE)
    assert read_back(pyarrow_server, "from-run").num_rows == 2000
