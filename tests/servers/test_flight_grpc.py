"""grpcio's server (gRPC C++), with limits of the calls on a connection and of a connection's age."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

from support.flight import failed, records, run_trial, succeeded, varint
from support.wait import HANG_SECONDS

pytestmark = pytest.mark.usefixtures("core")
ROWS, PER_BATCH = 4000, 1000


def field(number: int, value: bytes) -> bytes:
    """A field of bytes, in protobuf."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def messages() -> list[bytes]:
    """`FlightData` of the schema and of each batch."""
    sink, table = pa.BufferOutputStream(), records(ROWS)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, PER_BATCH)
    parts = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return [field(2, part.metadata.to_pybytes()) + field(1000, part.body.to_pybytes()) for part in parts]


class Server(grpc.GenericRpcHandler):
    """A get's path says how many endpoints there are, all at the port `at`, or here."""

    def __init__(self, at: int = 0, **options: int) -> None:
        named = [(f"grpc.{name}", value) for name, value in options.items()]
        self.server = grpc.server(ThreadPoolExecutor(16), handlers=[self], options=named)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.at, self.ages = at or self.port, "max_connection_age_ms" in options
        self.peers: list[str] = []

    def service(self, details: Any) -> Any:
        return {
            "GetFlightInfo": grpc.unary_unary_rpc_method_handler(self.info),
            "DoGet": grpc.unary_stream_rpc_method_handler(self.get),
            "DoPut": grpc.stream_stream_rpc_method_handler(self.put),
        }.get(details.method.rpartition("/")[2])

    def info(self, request: bytes, _: object) -> Any:
        asked = flight.FlightDescriptor.deserialize(request)
        parts = range(int(asked.path[0]))
        ends = [flight.FlightEndpoint(str(part), [f"grpc://127.0.0.1:{self.at}"]) for part in parts]
        return flight.FlightInfo(records(0).schema, asked, ends, ROWS * len(ends), -1).serialize()

    def get(self, _: bytes, context: Any) -> Iterator[bytes]:
        self.peers.append(context.peer())
        first, *rest = messages()
        yield first
        if self.ages:
            self.outlive()
        yield from rest

    def put(self, requests: Iterator[bytes], _: object) -> Iterator[bytes]:
        yield field(1, str(sum(1 for _ in requests)).encode())

    def outlive(self) -> None:
        """Until all connections have had their GOAWAY: two later ones have, and ages differ by a tenth."""
        for _ in range(2):
            states: queue.Queue[Any] = queue.Queue()
            options = [("grpc.use_local_subchannel_pool", 1)]
            with grpc.insecure_channel(f"127.0.0.1:{self.port}", options) as channel:
                channel.subscribe(states.put, try_to_connect=True)
                while states.get(timeout=HANG_SECONDS) is not grpc.ChannelConnectivity.READY:
                    pass
                assert states.get(timeout=HANG_SECONDS) is grpc.ChannelConnectivity.IDLE


@contextlib.contextmanager
def started(*servers: Server) -> Iterator[str]:
    for server in servers:
        server.server.start()
    yield f"flight://127.0.0.1:{servers[0].port}"
    for server in servers:
        server.server.stop(None).wait()


@pytest.mark.parametrize("operation", ["get", "put"])
def test_no_more_calls_than_the_server_takes_on_a_connection(operation: str) -> None:
    size = {"rows_per_stream": ROWS} if operation == "put" else {}
    shared = {"options": {"connections": "shared"}}
    with started(Server(max_concurrent_streams=2)) as target:
        for streams, more in ((2, shared), (4, {})):
            record = succeeded(run_trial(f"{target}/4", operation, streams=streams, **size, **more))
            assert record["counts"]["rows"] == ROWS * (4 if operation == "get" else streams)
        refused = run_trial(f"{target}/4", operation, streams=4, **size, **shared)
    assert "takes 2 streams per connection" in failed(refused, "unsupported")


def test_calls_end_on_a_connection_that_has_its_age_and_the_next_ones_have_another() -> None:
    aging = Server(max_connection_age_ms=300)
    with started(Server(aging.port), aging) as target:
        record = succeeded(run_trial(f"{target}/2", "get"))
    assert (record["counts"]["rows"], len(set(aging.peers))) == (2 * ROWS, 2)
