"""Three ways to a table: a Venturi or CHSpark server, any Flight server, ClickHouse over HTTP.

Arrow's types as Spark has them: it knows no unsigned integers, no nanoseconds and no dictionaries.
What it can hold without loss is widened (uint32 -> bigint); nanoseconds are cut to microseconds; the rest is
refused by name.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from venturi.common.errors import VenturiError
from venturi.common.runtime import load_core
from venturi.spark.options import Options

_TIMEOUT = 300.0  # seconds without a byte: a query may sort and sum before it has a row
_PORTS = {"clickhouse": 8123, "clickhouse+tls": 8443}
# DateTime without digits after the second, also Nullable and LowCardinality.
_DATE_TIME = re.compile(r"(?:(?:Nullable|LowCardinality)\()*DateTime(?:\('[^']*'\))?\)*")


class Transport(Protocol):
    """How the shares of one table are read. Batches have the columns of `schema`, in the server's types."""

    def schema(self) -> Any:
        """The Arrow schema of the whole answer."""

    def shares(self, columns: tuple[str, ...], partitions: int) -> list[Any]:
        """What each partition reads, picklable; all shares together are every row once."""

    def read(self, share: Any, run: str) -> Iterator[Any]:
        """The batches of a share. `run` is one for all shares of an action, and no other action's."""


def transport(options: Options) -> Transport:
    """The one that the URL names."""
    ways: dict[str, type[Charrow | Flight | ClickHouse]]
    ways = {"charrow": Charrow, "flight": Flight, "clickhouse": ClickHouse}
    return ways[options.scheme](options)


class Charrow:
    """One query of a charrow server, its blocks dealt among all partitions."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def schema(self) -> Any:
        # A run of its own, left before it gives a block.
        reader = self._reader(self._options.sql(), f"schema-{uuid.uuid4()}", {})
        schema = reader.schema
        reader.close()
        return schema

    def shares(self, columns: tuple[str, ...], partitions: int) -> list[Any]:
        query = self._options.sql(columns)
        common = {"query": query, "encoders": self._encoders(query), "partitions": partitions}
        return [{**common, "partition": i} for i in range(partitions)]

    def _encoders(self, query: str) -> int:
        if self._options.encoders != "auto":
            return int(self._options.encoders)
        reader = self._reader(query, f"cpus-{uuid.uuid4()}", {})
        reader.close()
        # A server of version 1.1 does not say.
        return int(reader.server.get("cpus", 1))

    def read(self, share: Any, run: str) -> Iterator[Any]:
        place = {name: share[name] for name in ("partition", "partitions", "encoders")}
        reader = self._reader(share["query"], run, place)
        try:
            yield from reader
        finally:
            # Spark may have had enough; the other tasks go on.
            reader.close()

    def _reader(self, query: str, run: str, place: dict[str, int]) -> Any:
        options = self._options
        settings: dict[str, Any] = {
            "query_id": run,
            "encoders": options.encoders if options.encoders == "auto" else int(options.encoders),
            "compression": options.compression,
            "checksum": options.checksum,
            "user": options.user,
            "password_env": options.password_env,
            "tls_ca": options.tls_ca,
            **place,
        }
        chosen = {name: value for name, value in settings.items() if value is not None}
        try:
            return load_core().charrow_reader(options.url, query, json.dumps(chosen))
        except (ValueError, RuntimeError) as error:
            raise VenturiError(str(error)) from None


class Flight:
    """Any Flight server: `query` is a command, `table` a path; an endpoint is a share."""

    def __init__(self, options: Options) -> None:
        self._options = options
        if options.query and options.columns:
            raise VenturiError("option 'columns' is for 'table' with flight://: name them in the query")

    def schema(self) -> Any:
        schema = self._info().schema
        return schema if not self._options.columns else pruned(schema, self._options.columns)

    def shares(self, columns: tuple[str, ...], partitions: int) -> list[Any]:
        # The server decides how many there are.
        shares = [
            {"ticket": end.ticket.ticket, "places": [place.uri.decode() for place in end.locations]}
            for end in self._info().endpoints
        ]
        wanted = columns or self._options.columns
        if self._options.limit is not None:
            # So many rows of all endpoints together: only one who reads them all can count.
            return [{"endpoints": shares, "columns": wanted}]
        return [{"endpoints": [share], "columns": wanted} for share in shares]

    def read(self, share: Any, run: str) -> Iterator[Any]:
        left = self._options.limit
        for end in share["endpoints"]:
            place = next((uri for uri in end["places"] if uri.startswith("grpc")), None)
            with self._connect(place) as client:
                import pyarrow.flight as flight

                stream = client.do_get(flight.Ticket(end["ticket"]), self._call())
                for chunk in stream:
                    batch = chunk.data
                    if share["columns"]:
                        batch = batch.select(list(share["columns"]))
                    if left is not None:
                        batch = batch.slice(0, left)
                        left -= batch.num_rows
                    yield batch
                    if left == 0:
                        stream.cancel()
                        return

    def _info(self) -> Any:
        import pyarrow.flight as flight

        options = self._options
        if options.query:
            descriptor = flight.FlightDescriptor.for_command(options.query)
        else:
            path = (unquote(part) for part in (options.table or "").strip("/").split("/"))
            descriptor = flight.FlightDescriptor.for_path(*path)
        with self._connect(None) as client:
            return client.get_flight_info(descriptor, self._call())

    def _connect(self, place: str | None) -> Any:
        import pyarrow.flight as flight

        parts = urlsplit(self._options.url)
        kind = "grpc+tls" if self._options.tls else "grpc+tcp"
        roots = _bytes(self._options.tls_ca)
        return flight.connect(place or f"{kind}://{parts.netloc}", tls_root_certs=roots)

    def _call(self) -> Any:
        import pyarrow.flight as flight

        headers = []
        if token := self._options.secret("token_env"):
            headers.append((b"authorization", f"Bearer {token}".encode()))
        elif self._options.user is not None:
            pair = f"{self._options.user}:{self._options.secret('password_env') or ''}"
            headers.append((b"authorization", b"Basic " + base64.b64encode(pair.encode())))
        return flight.FlightCallOptions(headers=headers)


class ClickHouse:
    """ClickHouse over HTTP, as a stream of Arrow batches; each partition asks for the rows of its hash."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def schema(self) -> Any:
        with self._ask(f"SELECT * FROM ({self._options.sql()}) LIMIT 0") as stream:
            schema = stream.schema
        if pa.uint32() not in schema.types:
            return schema
        # ClickHouse sends a DateTime as the number of its second; only its own word tells it from a number.
        with self._ask(f"DESCRIBE TABLE ({self._options.sql()})") as stream:
            described = stream.read_all().select(["name", "type"]).to_pylist()
        times = {column["name"] for column in described if _DATE_TIME.fullmatch(column["type"])}
        return pa.schema(
            [
                field.with_type(pa.timestamp("s", "UTC"))
                if field.name in times and field.type == pa.uint32()
                else field
                for field in schema
            ]
        )

    def shares(self, columns: tuple[str, ...], partitions: int) -> list[Any]:
        query = self._options.sql(columns)
        # Which rows a limit takes is another question each time it is asked.
        if partitions == 1 or self._options.limit is not None:
            return [query]
        by = self._options.split_by
        key = "*" if by is None else '"' + by.replace('"', '""') + '"'
        everything = self._options.sql()
        inner = query if by is None else everything
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in columns) or "*"
        # A tuple, for the hash of a null by itself is null, which no comparison holds for.
        return [
            f"SELECT {listed} FROM ({inner}) WHERE cityHash64(tuple({key})) % {partitions} = {share}"
            for share in range(partitions)
        ]

    def read(self, share: Any, run: str) -> Iterator[Any]:
        with self._ask(share) as stream:
            yield from stream

    def _ask(self, query: str) -> Any:
        import http.client

        parts = urlsplit(self._options.url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        if self._options.tls:
            trusted = ssl.create_default_context(cafile=self._options.tls_ca)
            connection: Any = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=trusted)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
        settings = {"default_format": "ArrowStream", "output_format_arrow_string_as_string": "1"}
        if database := parts.path.strip("/"):
            settings["database"] = unquote(database)
        headers = {}
        if self._options.compression != "none":
            settings["enable_http_compression"] = "1"
            headers["Accept-Encoding"] = self._options.compression
        if self._options.user is not None:
            headers["X-ClickHouse-User"] = self._options.user
            headers["X-ClickHouse-Key"] = self._options.secret("password_env") or ""
        settings |= {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            connection.request("POST", f"/?{urlencode(settings, quote_via=quote)}", query.encode(), headers)
            answer = connection.getresponse()
            if answer.status != 200:
                text = " ".join(answer.read(4096).decode(errors="replace").split())
                arrow = re.search("output_format_arrow|ArrowStream", text)
                hint = "Spark reads ClickHouse as ArrowStream, which this server does not know: it is too old"
                raise VenturiError(
                    f"{host}:{port} answers {answer.status}: {text}", hint=hint if arrow else None
                )
        except OSError as error:
            connection.close()
            raise VenturiError(f"{host}:{port} cannot be asked: {error}") from None
        except BaseException:
            connection.close()
            raise
        return pa.ipc.open_stream(_unpacked(answer, self._options.compression))


def _unpacked(answer: Any, compression: str) -> Any:
    stream = pa.PythonFile(answer, mode="r")
    packed = answer.getheader("Content-Encoding")
    return pa.CompressedInputStream(stream, compression) if packed else stream


def _bytes(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


_DIGITS = 38
"""Of Spark's longest decimal."""
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}
_AS_THEY_ARE = {
    *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.string(), pa.binary(), pa.date32()),
}


def spark_schema(schema: Any) -> StructType:
    """An Arrow schema as Spark's type. Raises VenturiError for a column that it has no type for."""
    widened = pa.schema([_field(field, field.name) for field in schema])
    return from_arrow_schema(widened, prefer_timestamp_ntz=True)


def pruned(schema: Any, columns: Sequence[str]) -> Any:
    """The schema with only these columns, in their order. Raises VenturiError for one that is not there."""
    for name in columns:
        if schema.names.count(name) != 1:
            names = ", ".join(schema.names)
            raise VenturiError(f"there is no one column {name!r}; the columns are {names}")
    return pa.schema([schema.field(name) for name in columns])


def _field(field: Any, path: str) -> Any:
    return pa.field(field.name, _type(field.type, path), field.nullable)


def _type(kind: Any, path: str) -> Any:
    if kind in _AS_THEY_ARE:
        return kind
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type, path)
    if pa.types.is_fixed_size_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    if kind == pa.string_view():
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pa.types.is_decimal(kind) and kind.precision <= _DIGITS and 0 <= kind.scale <= kind.precision:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_map(kind):
        return pa.map_(_type(kind.key_type, f"{path}.key"), _type(kind.item_type, f"{path}.value"))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_field(kind.value_field, f"{path}.item"))
    if pa.types.is_struct(kind):
        return pa.struct([_field(inner, f"{path}.{inner.name}") for inner in kind])
    raise VenturiError(
        f"column {path}: Spark has no type for Arrow's {kind}",
        hint="leave it out by the option columns, or cast it in the query",
    )
