"""A real pyarrow.flight client against Venturi's reference server, and Venturi with itself."""

from __future__ import annotations

import json
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
    run_trial,
    succeeded,
    write_ipc,
)

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]

Start = Callable[..., ServerProcess]


@pytest.fixture
def client(reference_server: ServerProcess) -> Iterator[flight.FlightClient]:
    with flight.connect(f"grpc+tcp://{reference_server.address}") as connected:
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


def test_a_table_of_every_usual_type_comes_back(client: flight.FlightClient) -> None:
    put(client, mixed(), "mixed")
    assert_same(get(client, "mixed"), mixed())


@pytest.mark.parametrize("name", RARE)
def test_a_table_of_a_rare_type_comes_back(client: flight.FlightClient, name: str) -> None:
    put(client, rare(name), "rare", name)
    assert_same(get(client, "rare", name), rare(name))


def test_an_empty_table_comes_back(client: flight.FlightClient) -> None:
    put(client, mixed().slice(0, 0), "empty")
    table = get(client, "empty")
    assert table.num_rows == 0
    assert table.schema.equals(mixed().schema)


def test_a_sliced_table_comes_back(client: flight.FlightClient) -> None:
    put(client, mixed().slice(13, 501), "sliced")
    assert_same(get(client, "sliced"), mixed().slice(13, 501))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_a_compressed_put_comes_back(client: flight.FlightClient, codec: str) -> None:
    put(client, mixed(), codec, write_options=pa.ipc.IpcWriteOptions(compression=codec))
    assert_same(get(client, codec), mixed())


def test_metadata_of_the_schema_comes_back(client: flight.FlightClient) -> None:
    table = records(10).replace_schema_metadata({"unit": "metres"})
    put(client, table, "metadata")
    assert get(client, "metadata").schema.metadata == {b"unit": b"metres"}


def test_plan_schema_and_list(client: flight.FlightClient) -> None:
    put(client, mixed(), "catalogue", "one")
    descriptor = flight.FlightDescriptor.for_path("catalogue", "one")
    info = client.get_flight_info(descriptor)
    assert info.total_records == 1000
    assert info.schema.equals(mixed().schema)
    assert client.get_schema(descriptor).schema.equals(mixed().schema)
    listed = {tuple(found.descriptor.path): found for found in client.list_flights()}
    assert listed[(b"catalogue", b"one")].total_records == 1000


def test_drop_by_action(client: flight.FlightClient) -> None:
    put(client, records(10), "short-lived")
    list(client.do_action(flight.Action("drop", b"short-lived")))
    with pytest.raises(KeyError, match="short-lived"):
        get(client, "short-lived")


def test_actions_are_listed_and_unknown_ones_refused(client: flight.FlightClient) -> None:
    names = {action.type for action in client.list_actions()}
    assert {"ping", "drop", "statistics"} <= names
    (pong,) = client.do_action("ping")
    assert pong.body.to_pybytes() == b"ok"
    with pytest.raises(NotImplementedError):
        list(client.do_action("fly"))


def test_unknown_path_and_bad_ticket_are_clear_errors(client: flight.FlightClient) -> None:
    with pytest.raises(KeyError, match="nowhere"):
        get(client, "nowhere")
    with pytest.raises((flight.FlightError, pa.ArrowInvalid)):
        client.do_get(flight.Ticket(b"\xff\xff")).read_all()


def test_many_clients_at_once(reference_server: ServerProcess) -> None:
    def one(number: int) -> bool:
        with flight.connect(f"grpc+tcp://{reference_server.address}") as own:
            table = records(5000, start=number)
            put(own, table, "many", str(number))
            return bool(get(own, "many", str(number)).equals(table))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(24)))


def test_a_client_that_leaves_early_disturbs_nobody(reference_server: ServerProcess) -> None:
    with flight.connect(f"grpc+tcp://{reference_server.address}") as leaving:
        info = leaving.get_flight_info(perf_command(1, 10_000_000, 4096))
        reader = leaving.do_get(info.endpoints[0].ticket)
        reader.read_chunk()
        reader.cancel()
    with flight.connect(f"grpc+tcp://{reference_server.address}") as staying:
        put(staying, records(10), "staying")
        assert get(staying, "staying").num_rows == 10


def test_a_file_is_served_under_its_name(start_reference_server: Start, tmp_path: Path) -> None:
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


def test_memory_is_bounded(start_reference_server: Start) -> None:
    server = start_reference_server("--memory", "1MB")
    with flight.connect(f"grpc+tcp://{server.address}") as client:
        put(client, records(10_000), "fits")
        with pytest.raises((flight.FlightError, pa.ArrowException), match="memory"):
            put(client, records(100_000), "does-not-fit")
        assert get(client, "fits").num_rows == 10_000
        with pytest.raises(KeyError):
            get(client, "does-not-fit")


def resident(server: ServerProcess) -> int:
    """Bytes of memory that the server has touched and holds."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what is resident")
def test_what_gets_read_from_is_within_memory(start_reference_server: Start) -> None:
    server = start_reference_server("--memory", "100MB")
    with flight.connect(f"grpc+tcp://{server.address}") as client:
        before = resident(server)
        for more in range(8):
            client.get_flight_info(perf_command(1, 10, 1_900_000 + more))  # a batch of 61 MB each
            held = json.loads(next(client.do_action("statistics")).body.to_pybytes())["memory_used_bytes"]
            assert 60e6 < held < 100e6
        # All eight would be 486 MB; what was freed stays with the allocator for a while.
        assert resident(server) - before < 350e6
        with pytest.raises((flight.FlightError, pa.ArrowException), match="memory of 100000000 bytes"):
            client.get_flight_info(perf_command(1, 10, 4_000_000))
        # What nobody reads from gives way to a table.
        put(client, records(2_000_000), "table")


# ---- the performance protocol -------------------------------------------------------


def perf_command(streams: int, rows: int, batch: int) -> flight.FlightDescriptor:
    """Perf { stream_count = 2, records_per_stream = 3, records_per_batch = 4 }."""
    return flight.FlightDescriptor.for_command(
        b"\x10" + varint(streams) + b"\x18" + varint(rows) + b"\x20" + varint(batch)
    )


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_perf_command_is_coded_as_in_the_facts() -> None:
    assert perf_command(4, 10_000_000, 4096).command == bytes.fromhex("100418 80ade204 208020")


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


def test_statistics_by_action(client: flight.FlightClient) -> None:
    list(client.do_get(client.get_flight_info(perf_command(1, 1000, 100)).endpoints[0].ticket))
    (answer,) = client.do_action("statistics")
    assert isinstance(json.loads(answer.body.to_pybytes()), dict)


def test_tls(start_reference_server: Start, certificates: Certificates) -> None:
    server = start_reference_server(
        "--tls-certificate", certificates.server, "--tls-key", certificates.server_key
    )
    trusted = certificates.ca.read_bytes()
    with flight.connect(f"grpc+tls://{server.address}", tls_root_certs=trusted) as client:
        put(client, mixed(), "mixed")
        assert_same(get(client, "mixed"), mixed())
    options = {"tls_ca": str(certificates.ca)}
    for operation in ("get", "put"):
        record = run_trial(
            f"flight+tls://{server.address}",
            operation,
            data={"source": "records", "columns": 4},
            rows_per_stream=300_000,
            streams=2,
            options=options,
        )
        assert succeeded(record)["counts"]["rows"] == 600_000
        assert record["verification"]["achieved"] == "checksum"
    other = certificates.other_ca.read_bytes()
    stranger = flight.connect(f"grpc+tls://{server.address}", tls_root_certs=other)
    with stranger, pytest.raises(flight.FlightUnavailableError):
        list(stranger.do_action("ping"))


def test_client_certificates_are_demanded(start_reference_server: Start, certificates: Certificates) -> None:
    server = start_reference_server(
        "--tls-certificate", certificates.server, "--tls-key", certificates.server_key,
        "--tls-client-ca", certificates.ca,
    )  # fmt: skip
    where, trusted = f"grpc+tls://{server.address}", certificates.ca.read_bytes()
    own = {
        "cert_chain": certificates.client.read_bytes(),
        "private_key": certificates.client_key.read_bytes(),
    }
    with flight.connect(where, tls_root_certs=trusted, **own) as known:
        put(known, records(10), "known")
        assert get(known, "known").num_rows == 10
    stranger = flight.connect(where, tls_root_certs=trusted)
    with stranger, pytest.raises(flight.FlightUnavailableError):
        list(stranger.do_action("ping"))


def test_token(start_reference_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_reference_server("--token-env", "SERVER_TOKEN", SERVER_TOKEN="open-sesame")
    with flight.connect(f"grpc+tcp://{server.address}") as client:
        for headers in ([], [(b"authorization", b"Bearer wrong")]):
            call = flight.FlightCallOptions(headers=headers)
            with pytest.raises(flight.FlightUnauthenticatedError):
                list(client.do_action(flight.Action("ping", b""), options=call))
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.do_get(flight.Ticket(b"x"), options=call).read_all()
        call = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer open-sesame")])
        assert list(client.do_action(flight.Action("ping", b""), options=call))
    data = {"source": "records", "columns": 4}
    target = f"flight://{server.address}"
    failed(run_trial(target, data=data, rows_per_stream=1000), "auth")
    monkeypatch.setenv("CLIENT_TOKEN", "open-sesame")
    options = {"token_env": "CLIENT_TOKEN"}
    for operation in ("get", "put"):
        succeeded(run_trial(target, operation, data=data, rows_per_stream=1000, options=options))


def test_the_probe_s_port_is_for_those_with_the_token(
    start_reference_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    from venturi import _core

    server = start_reference_server("--token-env", "SERVER_TOKEN", SERVER_TOKEN="open-sesame")
    monkeypatch.setenv("CLIENT_TOKEN", "open-sesame")
    spec = {
        "target": f"flight://{server.address}",
        "options": {"token_env": "CLIENT_TOKEN"},
        "direction": "get",
        "streams": 2,
        "duration_ns": 100_000_000,
    }
    record = json.loads(_core.probe_tcp(json.dumps(spec), _core.Control()))
    assert record["outcome"] == "ok" and record["bytes"] > 0
    with flight.connect(f"grpc+tcp://{server.address}") as client:
        call = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer open-sesame")])
        answer = next(client.do_action("venturi.tcp", call)).body.to_pybytes().decode()
    port, ticket = answer.split()
    wanted = struct.pack("<QQ", 0, 1_000_000_000)
    for begin, served in ((b"VENTURI2", False), (bytes.fromhex(ticket), True)):
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as probe:
            probe.sendall(begin + wanted)
            assert bool(probe.recv(1)) is served


def test_a_wrong_token_for_the_server_itself_is_refused(start_reference_server: Start) -> None:
    with pytest.raises(AssertionError, match="NO_SUCH_VARIABLE"):
        start_reference_server("--token-env", "NO_SUCH_VARIABLE")


def test_it_ends_gracefully_when_told(start_reference_server: Start) -> None:
    status, stderr = start_reference_server().stop()
    assert status == 0
    assert "Traceback" not in stderr
    assert "panicked" not in stderr


# ---- Venturi with itself ------------------------------------------------------------


@pytest.mark.parametrize("operation", ["get", "put"])
@pytest.mark.parametrize(("streams", "threads"), [(1, 1), (4, 4), (5, 2)])
def test_records_are_verified_by_checksum(
    reference_server: ServerProcess, operation: str, streams: int, threads: int
) -> None:
    record = succeeded(
        run_trial(
            f"flight://{reference_server.address}",
            operation,
            data={"source": "records", "columns": 4, "values": "random", "seed": 7},
            rows_per_stream=1_000_001,
            rows_per_batch=4096,
            streams=streams,
            threads=threads,
        )
    )
    assert record["counts"] | {"wire_bytes": 0} == {
        "rows": 1_000_001 * streams,
        "batches": 245 * streams,
        "payload_bytes": 1_000_001 * streams * 32,
        "wire_bytes": 0,
        "stored_bytes": None,
    }
    assert record["verification"]["achieved"] == "checksum"
    assert record["target"]["reference"] is True
    assert record["cpu"]["server"]["user_ns"] + record["cpu"]["server"]["system_ns"] > 0


def test_a_file_goes_there_and_back(
    reference_server: ServerProcess, client: flight.FlightClient, tmp_path: Path
) -> None:
    path = write_ipc(mixed(), tmp_path / "mixed.arrow")
    data = {"source": "file", "path": str(path), "ipc": str(path)}
    target = f"flight://{reference_server.address}/from/file"
    record = succeeded(run_trial(target, "put", data=data, rows_per_batch=250, rows_per_stream=1000))
    assert record["verification"]["achieved"] == "checksum"
    assert_same(get(client, "from", "file"), mixed())
    record = succeeded(run_trial(target, "get", data={"source": "remote"}))
    assert record["counts"]["rows"] == 1000
