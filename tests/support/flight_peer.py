"""A Flight server on pyarrow, good and bad on demand, in this process or in one of its own.

Tables live under a path and can be put, read by path, by command (the path's words joined
by `/`) or by ticket (the same). `t` is what an engineer's own server would have: it comes in
batches of 4,096 rows, whatever is asked for. With `--one-table` it is the answer to every
descriptor, as of a server that has one table and never looks. Some first words of a path mean a behaviour:

| path | what happens |
|---|---|
| endpoints/N | the table `mixed` in N endpoints; the locations alternate between this server's and none |
| wrong-count/N | N rows are promised, ten fewer come |
| unknown-count/N | the plan says -1 rows and N come |
| breaks/N | an error after N batches |
| slow/MS | ten batches, MS milliseconds apart |
| stalls | one batch, then nothing |
| sleeps/US | each batch, got or put, takes so many microseconds of sleep; a get has 4,000 of them |
| burns/US | the same, of CPU time under the interpreter's lock |
| empty | a schema without batches |
| metadata | batches with app_metadata |
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight

from support.flight import mixed, records

TOKEN = "issued-token"
TAKES = ("sleeps", "burns")


def take(words: list[str]) -> None:
    """What a batch of `sleeps/US` or `burns/US` takes."""
    seconds = int(words[1]) / 1e6
    if words[0] == "sleeps":
        time.sleep(seconds)
        return
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Tables(flight.FlightServerBase):
    def __init__(self, location: str, scheme: str, one_table: bool = False, **options: Any) -> None:
        super().__init__(location, **options)
        self.one_table = one_table
        host = location.split("://")[-1].rsplit(":", 1)[0]
        self.here = f"{scheme}://{host}:{self.port}"
        self.tables: dict[str, pa.Table] = {
            "mixed": mixed(),
            "records": records(10_000),
            "t": records(20_000),
        }
        self.lock = threading.Lock()
        self.puts: list[dict[str, Any]] = []

    # -- planning --

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        words = ["t"] if self.one_table else key(descriptor).split("/")
        if words[0] == "endpoints":
            table = self.tables["mixed"]
            tickets = [f"part/{i}/{words[1]}" for i in range(int(words[1]))]
            ends = [
                flight.FlightEndpoint(ticket, [] if i % 2 else [self.here])
                for i, ticket in enumerate(tickets)
            ]
            return flight.FlightInfo(table.schema, descriptor, ends, table.num_rows, -1)
        schema, rows = self.describe(words)
        ends = [flight.FlightEndpoint("/".join(words), [self.here])]
        return flight.FlightInfo(schema, descriptor, ends, rows, -1)

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        for name in list(self.tables):
            descriptor = flight.FlightDescriptor.for_path(*name.split("/"))
            yield self.get_flight_info(context, descriptor)

    def describe(self, words: list[str]) -> tuple[pa.Schema, int]:
        if words[0] == "wrong-count":
            return records(1).schema, int(words[1])
        if words[0] in ("unknown-count", "breaks", "slow", "stalls", "metadata", *TAKES):
            return records(1).schema, -1
        if words[0] == "empty":
            return records(1).schema, 0
        table = self.table("/".join(words))
        return table.schema, table.num_rows

    def table(self, name: str) -> pa.Table:
        with self.lock:
            if name not in self.tables:
                raise flight.FlightServerError(f"there is no table {name}")
            return self.tables[name]

    # -- data --

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        words = ["t"] if self.one_table else ticket.ticket.decode().split("/")
        if words[0] == "part":
            part, parts = int(words[1]), int(words[2])
            table = self.tables["mixed"]
            size = -(-table.num_rows // parts)
            return flight.RecordBatchStream(table.slice(part * size, size))
        behaviour = getattr(self, "get_" + words[0].replace("-", "_"), None)
        if behaviour is None:
            size = 4096 if words == ["t"] else 300
            return flight.RecordBatchStream(self.table("/".join(words)).to_reader(max_chunksize=size))
        number = int(words[1]) if len(words) > 1 else 0
        return flight.GeneratorStream(records(1).schema, behaviour(number))

    def get_wrong_count(self, rows: int) -> Iterator[pa.RecordBatch]:
        yield from records(rows - 10).to_batches(max_chunksize=100)

    def get_unknown_count(self, rows: int) -> Iterator[pa.RecordBatch]:
        yield from records(rows).to_batches(max_chunksize=100)

    def get_breaks(self, batches: int) -> Iterator[pa.RecordBatch]:
        yield from records(batches * 100).to_batches(max_chunksize=100)
        raise flight.FlightServerError("the disk behind this table is gone")

    def get_slow(self, milliseconds: int) -> Iterator[pa.RecordBatch]:
        for batch in records(1000).to_batches(max_chunksize=100):
            time.sleep(milliseconds / 1000)
            yield batch

    def taken(self, how: str, microseconds: int) -> Iterator[pa.RecordBatch]:
        batch = records(4096).to_batches()[0]
        for _ in range(4000):
            take([how, str(microseconds)])
            yield batch

    get_sleeps, get_burns = partialmethod(taken, "sleeps"), partialmethod(taken, "burns")

    def get_stalls(self, _: int) -> Iterator[pa.RecordBatch]:
        yield records(100).to_batches()[0]
        time.sleep(60)

    def get_empty(self, _: int) -> Iterator[pa.RecordBatch]:
        yield from ()

    def get_metadata(self, _: int) -> Iterator[Any]:
        for number, batch in enumerate(records(1000).to_batches(max_chunksize=100)):
            yield batch, f"batch {number}".encode()

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        name = key(descriptor)
        batches = []
        acknowledged = 0
        words = name.split("/")
        for chunk in reader:
            if words[0] in TAKES:
                take(words)
            else:
                batches.append(chunk.data)
            if name == "refuses":
                raise flight.FlightServerError("this table is read-only")
            if chunk.app_metadata is not None:
                writer.write(chunk.app_metadata)
                acknowledged += 1
        table = pa.Table.from_batches(batches, reader.schema)
        with self.lock:
            self.puts.append({"name": name, "rows": table.num_rows, "acknowledged": acknowledged})
            if name in self.tables and name not in ("mixed", "records"):
                table = pa.concat_tables([self.tables[name], table])
            self.tables[name] = table

    # -- the rest --

    def do_action(self, context: Any, action: flight.Action) -> Iterator[bytes]:
        if action.type == "puts":
            yield json.dumps(self.puts).encode()
        else:
            raise NotImplementedError(action.type)


def key(descriptor: flight.FlightDescriptor) -> str:
    if descriptor.descriptor_type == flight.DescriptorType.PATH:
        return "/".join(word.decode() for word in descriptor.path)
    return (descriptor.command or b"").decode()


class Login(flight.ServerMiddlewareFactory):
    """Basic once for a bearer token, then the token; or a fixed header only."""

    def __init__(self, user: str | None, password: str | None, header: str | None) -> None:
        self.user, self.password, self.header = user, password, header

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> flight.ServerMiddleware | None:
        if self.header is not None:
            name, value = self.header.split("=")
            if headers.get(name) != [value]:
                raise flight.FlightUnauthorizedError(f"header {name} is missing or wrong")
        if self.user is None:
            return None
        scheme, _, credential = headers.get("authorization", [""])[0].partition(" ")
        if scheme == "Bearer" and credential == TOKEN:
            return None
        expected = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        if scheme == "Basic" and credential.rstrip("=") == expected.rstrip("="):
            return Issue()
        raise flight.FlightUnauthenticatedError("wrong user, password or token")


class Issue(flight.ServerMiddleware):
    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {TOKEN}"}


def end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


def made(arguments: Sequence[str]) -> tuple[str, Tables]:
    """A server as these arguments have it, and its host."""
    parser = argparse.ArgumentParser()
    for name in ("tls-certificate", "tls-key", "client-ca", "user", "password", "header"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--one-table", action="store_true")
    parser.add_argument("--host", default="127.0.0.1")
    options = parser.parse_args(arguments)
    more: dict[str, Any] = {}
    scheme = "grpc+tcp"
    if options.tls_certificate:
        scheme = "grpc+tls"
        certificate = Path(options.tls_certificate).read_bytes()
        more["tls_certificates"] = [(certificate, Path(options.tls_key).read_bytes())]
    if options.client_ca:
        more["verify_client"] = True
        more["root_certificates"] = Path(options.client_ca).read_bytes()
    if options.user or options.header:
        more["middleware"] = {"login": Login(options.user, options.password, options.header)}
    return options.host, Tables(f"{scheme}://{options.host}:0", scheme, options.one_table, **more)


@contextlib.contextmanager
def peer(*arguments: object) -> Iterator[str]:
    """The address of a server in this process."""
    host, server = made([str(argument) for argument in arguments])
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.port}"
    finally:
        server.shutdown()
        thread.join()


def main() -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    host, server = made(sys.argv[1:])
    print(json.dumps({"address": f"{host}:{server.port}"}), flush=True)
    server.serve()


if __name__ == "__main__":
    main()
