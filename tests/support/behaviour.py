"""What each system declares of itself for support/judged.py: how a server of it is started, how
it is spoken to, what it can, and why not where it cannot.

A server of the tests demands a log-in and offers TLS wherever the system has these. One is up at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import shutil
import sqlite3
import ssl
import struct
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from support import clickhouse as clickhouse_support
from support import database as database_support
from support import firebird as firebird_support
from support import flightsql as flightsql_support
from support import redis as redis_support
from support.flight import Certificates, ServerProcess, write_ipc
from support.run import DATA as FILES
from support.run import command
from support.secret import HARD
from support.store import Store
from venturi.servers.throwaway import network

RIGHT_ENV, WRONG_ENV, UNSET_ENV = "VENTURI_TEST_RIGHT", "VENTURI_TEST_WRONG", "VENTURI_TEST_UNSET"
TABLE = "venturi_behaviour"
NEEDLE = 7_654_321
"""A value that is in the data once and has a form of its own on the wire."""
Rows = Sequence[Sequence[Any]]
TOLD: dict[str, dict[str, Any]] = tomllib.loads((FILES / "systems.toml").read_text())


@dataclass
class Server:
    """A running server of a system; `url` and `options` are what every trial needs."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    pid: int | None = None
    secure: Callable[[], AbstractContextManager[str]] | None = None
    """Its URL by TLS; None: the same server with another scheme."""
    ask: Callable[[str], Rows] | None = None
    """A statement by somebody else's client, while no trial runs."""
    tables: str = ""
    """The statement that lists what trials have left."""
    lose: Callable[[], object] | None = None
    """Takes rows out of the table while they are written."""
    alter: Callable[[], object] | None = None
    """Changes them; None where bytes can be changed on their way."""
    needle: tuple[str, Mapping[str, Any]] = ("", {})
    """What is behind the URL, and the options, of a get of what `needle` made."""

    @property
    def port(self) -> int:
        return int(re.findall(r":(\d+)", self.url)[-1])

    def on(self, port: int, url: str | None = None) -> str:
        """The URL with that port in the place of its own."""
        return re.sub(rf":{self.port}\b", f":{port}", url or self.url)

    @property
    def flags(self) -> list[str]:
        """The options, for the command."""
        given = self.options.items()
        return [word for name, value in given for word in (f"--{name.replace('_', '-')}", str(value))]

    def over_tls(self) -> AbstractContextManager[str]:
        if self.secure is not None:
            return self.secure()
        return contextlib.nullcontext(self.url.replace("://", "+tls://", 1))

    def left(self) -> list[str]:
        """What there is of trials."""
        found = [row[0] for row in self.ask(self.tables)] if self.ask is not None else []
        return [name for name in found if name.startswith("venturi")]

    def held(self) -> tuple[int, int]:
        """Rows, and the sum of the counter."""
        assert self.ask is not None
        hits = [row[0] for row in self.ask(f"SELECT hits FROM {TABLE}")]
        return len(hits), sum(hits)


Start = Callable[[Certificates, Path], AbstractContextManager[Server]]


@contextlib.contextmanager
def _ours(scheme: str, certificates: Certificates, place: Path) -> Iterator[Server]:
    """`venturi serve flight`, `charrow`, `http`; with TLS it speaks nothing else, so that is another one."""

    def start(*words: object) -> ServerProcess:
        common = ("--port", 0, "--json", "--exit-with-parent", "--token-env", RIGHT_ENV)
        return ServerProcess(command("serve", scheme.partition("+")[0], *common, *words))

    @contextlib.contextmanager
    def secure() -> Iterator[str]:
        files = ("--tls-certificate", certificates.server, "--tls-key", certificates.server_key)
        with start(*files) as process:
            yield f"{scheme}+tls://{process.address}"

    query = scheme == "charrow"
    pq.write_table(needle(), place / "needle.parquet")
    with start("--table", f"needle={place / 'needle.parquet'}") as process:
        yield Server(
            f"{scheme}://{process.address}",
            {"password_env" if query else "token_env": RIGHT_ENV},
            process.process.pid,
            secure,
            needle=("", {"query": "SELECT * FROM needle"}) if query else ("/needle", {}),
        )


def _readable(source: Path, place: Path, owner: str | None) -> str:
    """A copy that the account which a server runs as for root may read; nobody else, where it is named."""
    copied = Path(shutil.copy(source, place))
    copied.chmod(0o600 if owner else 0o644)
    if owner and os.geteuid() == 0:
        shutil.chown(copied, owner)
    return str(copied)


LIKE = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'venturi%'"
KEY = (
    "timestamp_of_data",
    "customer_code",
    "subcustomer_id",
    "geographic_region",
    "billing_flag",
    "ip_address",
)
"""Of the rows that upserts generate."""
# By database: what lists tables, and what takes a row out while others write. One row, for who wants all of
# them waits for those who write, and they for him; PostgreSQL does not find again what was written meanwhile.
FREE = f"SELECT ctid FROM {TABLE} LIMIT 1 FOR UPDATE SKIP LOCKED"
NEEDLES = {
    "mariadb": f"SELECT seq AS id, CAST(IF(seq = 1000, {NEEDLE - 1} + 1, seq % 7) AS SIGNED) AS hits "
    "FROM seq_1_to_2000",
    "postgres": f"SELECT n AS id, CASE n WHEN 1000 THEN {NEEDLE} ELSE n % 7 END::bigint AS hits "
    "FROM generate_series(1, 2000) AS n",
}
STATEMENTS = {
    "mariadb": (LIKE, f"DELETE FROM {TABLE} LIMIT 1 RETURNING 1"),
    "postgres": (LIKE, f"DELETE FROM {TABLE} WHERE ctid = ({FREE}) RETURNING 1"),
    "cassandra": (
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'venturi'",
        f"TRUNCATE {TABLE}",
    ),
}


@contextlib.contextmanager
def _database(name: str, certificates: Certificates, place: Path) -> Iterator[Server]:
    """A database of `throwaway`, with one server for plain and secured connections; Cassandra is that of all
    tests."""
    if name == "cassandra":
        database = database_support.SHARED[name]
    else:
        owner = "postgres" if name == "postgres" else None  # it refuses a key that others may read
        files = [_readable(path, place, owner) for path in (certificates.server, certificates.server_key)]
        names = ("ssl_cert", "ssl_key") if name == "mariadb" else ("ssl_cert_file", "ssl_key_file")
        settings = dict(zip(names, files, strict=True)) | ({"ssl": "on"} if name == "postgres" else {})
        database = database_support.start(name, settings=settings, password_env=RIGHT_ENV)
    tables, lose = STATEMENTS[name]

    def ask(statement: str) -> Rows:
        if name == "cassandra":
            statement = re.sub(rf" ({TABLE}|sales)\b", r" venturi.\1", statement)
        return database.run_sql(statement)

    def lose_one() -> None:
        while not ask(lose) and name != "cassandra":
            pass

    try:
        login = {"password_env": RIGHT_ENV}
        needle = ("", {"query": NEEDLES[name]} if name in NEEDLES else {})
        if name == "cassandra":
            ask("CREATE TABLE IF NOT EXISTS venturi.trips (id int PRIMARY KEY, name text)")
            for n in range(1000):
                database.run_sql("INSERT INTO venturi.trips (id, name) VALUES (%s, %s)", n, f"n{n}")
        yield Server(
            database.url, login, database.pid, ask=ask, tables=tables, lose=lose_one, needle=needle
        )  # fmt: skip
    finally:
        if name not in database_support.SHARED:
            database.stop()


@contextlib.contextmanager
def _redis(certificates: Certificates, place: Path) -> Iterator[Server]:
    """It has a port for plain connections and one for secured ones."""
    port = network.free_port("127.0.0.1")
    settings = {
        "tls-port": str(port),
        "tls-cert-file": str(certificates.server),
        "tls-key-file": str(certificates.server_key),
        "tls-auth-clients": "no",
    }
    with redis_support.started(password_env=RIGHT_ENV, settings=settings) as started:
        server = Server(
            started.url,
            {"password_env": RIGHT_ENV},
            started.pid,
            ask=lambda statement: redis_support.rows(started, statement),
            tables=redis_support.TABLES,
            lose=lambda: redis_support.lose(started, TABLE),
        )
        server.secure = lambda: contextlib.nullcontext(server.on(port).replace("://", "+tls://", 1))
        yield server


@contextlib.contextmanager
def _firebird(certificates: Certificates, place: Path) -> Iterator[Server]:
    """Without encryption, so that a value can be changed on its way."""
    settings = {"WireCrypt": "Disabled"}
    with firebird_support.started(password_env=RIGHT_ENV, settings=settings) as started:

        def lose() -> None:
            firebird_support.rows(started, f"DELETE FROM {TABLE} ROWS 1")

        hits = f'SELECT id AS "id", CAST(IIF(id = 1000, {NEEDLE}, MOD(id, 7)) AS BIGINT) AS "hits" FROM s'
        yield Server(
            started.url,
            {"password_env": RIGHT_ENV},
            started.pid,
            ask=partial(firebird_support.rows, started),
            tables=firebird_support.TABLES,
            lose=lose,
            needle=("", {"query": firebird_support.MANY + hits}),
        )


@contextlib.contextmanager
def _tls_front(port: int, certificate: Path, key: Path) -> Iterator[int]:
    """The port of a server of TLS on this host that hands on to `port` what it decrypts, and back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def both_ways(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(one_way(reader, there[1]), one_way(there[0], writer))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        starting = asyncio.start_server(both_ways, "127.0.0.1", 0, ssl=context)
        front = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
        yield front.sockets[0].getsockname()[1]
        loop.call_soon_threadsafe(front.close)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def _clickhouse_server(engine: str, certificates: Certificates, place: Path) -> Iterator[Server]:
    hits = f"SELECT toInt64(if(number = 1000, {NEEDLE}, number % 7)) AS hits FROM system.numbers LIMIT 2000"
    with clickhouse_support.required(engine, RIGHT_ENV) as started:
        server = Server(
            started.url,
            {"password_env": RIGHT_ENV},
            started.pid,
            ask=lambda statement: [line.split("\t") for line in started.ask(statement).splitlines()],
            tables="SHOW TABLES",
            lose=lambda: started.ask(f"ALTER TABLE {TABLE} DROP PARTITION tuple()"),
            needle=("", {"query": hits}),
        )

        @contextlib.contextmanager
        def secure() -> Iterator[str]:
            with _tls_front(server.port, certificates.server, certificates.server_key) as port:
                yield server.on(port).replace("://", "+tls://", 1)

        server.secure = secure
        yield server


@contextlib.contextmanager
def _sqlite(certificates: Certificates, place: Path) -> Iterator[Server]:
    path = place / "x.db"

    def ask(statement: str) -> Rows:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            return database.execute(statement).fetchall()

    ask("PRAGMA user_version = 1")  # there is a file, as there is a server elsewhere

    def trigger(statement: str) -> Callable[[], object]:
        """Whatever is written again, this happens to it."""
        of = f"WHERE {' AND '.join(f'{name} = new.{name}' for name in KEY)}"
        return partial(
            ask, f"CREATE TRIGGER meddles AFTER UPDATE ON {TABLE} BEGIN {statement.format(of)}; END"
        )

    yield Server(
        f"sqlite://{path}", ask=ask, tables="SELECT name FROM sqlite_schema",
        lose=trigger(f"DELETE FROM {TABLE} {{}}"),
        alter=trigger(f"UPDATE {TABLE} SET hits = hits + 1 {{}}"),
    )  # fmt: skip


@contextlib.contextmanager
def _duckdb_file(certificates: Certificates, place: Path) -> Iterator[Server]:
    import _duckdb

    def ask(statement: str) -> Rows:
        with duckdb.connect(str(place / "x.duckdb")) as database:
            return database.execute(statement).fetchall()

    duckdb.connect(str(place / "x.duckdb")).close()
    library = {"library": _duckdb.__file__}
    yield Server(f"duckdb://{place / 'x.duckdb'}", library, ask=ask, tables=LIKE)


@contextlib.contextmanager
def _flightsql(certificates: Certificates, place: Path) -> Iterator[Server]:
    """Arrow's server for Go over SQLite, with a log-in; with TLS it is another one of the same file."""
    data, log_in = place / "x.db", ("-user", "me", "-ingest")

    @contextlib.contextmanager
    def secure() -> Iterator[str]:
        files = ("-certificate", str(certificates.server), "-key", str(certificates.server_key))
        with flightsql_support.serving(data, *log_in, *files, password=HARD) as server:
            yield server.url.replace("://", "+tls://")

    with flightsql_support.serving(data, *log_in, password=HARD) as server:
        server.ask("CREATE TABLE needle (id INTEGER, hits INTEGER)")
        server.ask(
            "INSERT INTO needle WITH RECURSIVE r(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM r "
            f"WHERE id < 2000) SELECT id - 1, CASE id - 1 WHEN 1000 THEN {NEEDLE} ELSE id % 7 END FROM r"
        )
        yield Server(
            server.url,
            {"user": "me", "password_env": RIGHT_ENV},
            server.process.pid,
            secure,
            ask=server.ask,
            tables="SELECT name FROM sqlite_schema WHERE name LIKE 'venturi%'",
            lose=lambda: server.ask("DELETE FROM venturi_put WHERE rowid = 1"),
            needle=("", {"table": "needle"}),
        )


@contextlib.contextmanager
def _store_server(scheme: str, certificates: Certificates, place: Path) -> Iterator[Server]:
    with Store(place / "data") as store:
        web = scheme == "influx+http"
        http = {} if web else {"http_port": store.address("http")[1]}
        yield Server(store.url(scheme) + ("/db" if web else ""), http, store.process.pid)


# ---- what each is ----------------------------------------------------------------------


Bytes = Callable[[int], bytes]


def _little(value: int) -> bytes:
    return struct.pack("<q", value)


def _big(value: int) -> bytes:
    return struct.pack(">q", value)


def _text(value: int) -> bytes:
    return str(value).encode()


@dataclass(frozen=True)
class Way:
    """One way to speak to a system. `number`: how a value of the data looks on the wire. `more`: fields of
    the spec. `alike`: it differs from others only in what becomes of good rows."""

    operation: str
    options: Mapping[str, Any] = field(default_factory=dict)
    number: Bytes = _little
    more: Mapping[str, Any] = field(default_factory=dict)
    alike: bool = False
    endless: str = ""
    """Of a get of a database: a query without an end."""
    verified: str = ""
    """What its verification achieves, where that is not what the system's does."""

    @property
    def name(self) -> str:
        return "-".join((self.operation, *(str(value) for value in (self.options | self.more).values())))


@dataclass(frozen=True)
class Reads:
    """What gets of a database are judged by."""

    file: pa.Table
    """Rows of types that come back as they went in."""
    table: str
    """A query of 1,000 rows with columns `id` and `name`."""
    late: tuple[str, str] = ("", "")
    """A query that fails after many rows, and what the server says of it."""
    wrong: str = ""
    """What it says of `SELEC 1`."""
    nowhere: str = ""
    """What it says of a table that is not there."""
    splits: tuple[str, ...] = ("none", "hash", "key")
    rounded: tuple[str, ...] = ()
    """Forms whose texts round floats of 32 bits."""
    flags: tuple[str, ...] = ()
    """Options of its gets that the command is given."""


def _file(*left_out: str, **more: Any) -> pa.Table:
    """What most databases hold, with nulls."""
    columns = {
        "n": pa.array([2**63 - 1, None, -(2**63)]), "s": ["a string of more than twelve bytes", None, "ü"],
        "b": [b"\0", b"", None], "f": pa.array([0.1, None, -1e300]),
        "d": pa.array([-1, 20_000, None], pa.date32()), "t": pa.array([1, -2, None], pa.timestamp("us")),
        "o": pa.array([True, None, False]), "u": pa.array([2**64 - 1, None, 0], pa.uint64()),
        "f32": pa.array([0.12345679, None, 1.5], pa.float32()), "i32": pa.array([-1, 2, None], pa.int32()),
        "p": pa.array([Decimal("-12345.678"), Decimal("0.001"), None], pa.decimal128(12, 3)), **more,
    }  # fmt: skip
    return pa.table({name: column for name, column in columns.items() if name not in left_out})


def _ways(operation: str, *options: Mapping[str, Any], **more: Any) -> tuple[Way, ...]:
    return tuple(Way(operation, given, **more) for given in options or ({},))


def _gets(system: str, *forms: str, **more: Any) -> tuple[Way, ...]:
    """Gets of a database, by each form of its rows on the wire."""
    options = [{"format": form} if form else {} for form in forms]
    return _ways("get", *options, endless=TOLD[system]["endless"], verified="checksum", **more)


SIZES = {"upsert": ("--working-set", "1k"), "ingest": ("--hosts", "10")}


@dataclass(frozen=True)
class System:
    start: Start
    ways: tuple[Way, ...]
    software: str = "venturi "
    """How its server calls itself."""
    verified: str = "sums"
    """What verification by checksum achieves at best."""
    stranger: str = ""
    """What is said where something else answers on its port, as a pattern."""
    blocks: bool = False
    """Of a get the server decides how many rows a batch has."""
    quotes: bool = False
    """What such a one says is quoted as it came, lines and all."""
    password: str = HARD
    denied: str = ""
    """What is said of a wrong one, as a pattern."""
    gone: str = ""
    """What is said where it was killed, as a pattern."""
    message: bytes | None = None
    """What a value is a part of on the wire and can be left out, as a pattern with the value; None: rows are
    taken out of the table."""
    rows: int | None = None
    """Rows per stream of a trial that is long enough to be ended; None: it has a minute."""
    without: Mapping[str, str] = field(default_factory=dict)
    """Behaviours that it cannot have, and why."""
    ours: bool = False
    """Its server is Venturi's, or it is a file."""
    reads: Reads | None = None
    theirs: tuple[str, ...] = (
        "CREATE TABLE sales (hits int PRIMARY KEY)",
        "INSERT INTO sales (hits) VALUES (7)",
    )
    """Statements that make a table of somebody else's, with one row."""
    shared: bool = False
    """Others use its server too, so its connections are cut where it would be killed."""

    @property
    def long(self) -> dict[str, Any]:
        """Fields of the spec of a trial that is long enough."""
        if self.rows is not None:
            return {"rows_per_stream": self.rows, "verify": "none"}
        return {"duration_ns": 60_000_000_000}

    @property
    def flags(self) -> tuple[str, ...]:
        """The same for the command, which takes longer."""
        length = ("--rows-per-stream", str(5 * self.rows)) if self.rows else ("--duration", "60s")
        return (*length, *SIZES.get(self.ways[0].operation, ()))

    @property
    def amount(self) -> int:
        """Bytes after which such a trial is in the middle of it."""
        return 20_000_000 if self.ours else 300_000

    @property
    def has_tables(self) -> bool:
        return self.ways[0].operation == "upsert" or self.blocks


def _system(name: str, start: Start, *ways: Way, file: pa.Table = None, **more: Any) -> System:
    """By its table in tests/data/systems.toml."""
    told = {key: value for key, value in TOLD[name].items() if key != "endless"} | more
    told["without"] = {one: why for why, names in told.get("without", {}).items() for one in names}
    if "message" in told:
        told["message"] = told["message"].encode()
    if file is not None:
        told["reads"] = Reads(file, **{key: _fixed(value) for key, value in told["reads"].items()})
    return System(start, ways, **{key: _fixed(value) for key, value in told.items()})


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _store(scheme: str, *options: Mapping[str, Any]) -> System:
    return _system(scheme, partial(_store_server, scheme), *_ways("ingest", *options, number=_text))


def _clickhouse(name: str, engine: str, *forms: str) -> System:
    options = [{"format": form} for form in forms]
    return _system(
        name, partial(_clickhouse_server, engine),
        *_ways("put", *options), *_ways("get", *options, endless=TOLD[name]["endless"]),
        Way("get", {"format": "rowbinary", "split": "key"}, alike=True),
    )  # fmt: skip


SMALL: dict[str, pa.Array] = {
    "i8": pa.array([-1, 2, None], pa.int8()),
    "i16": pa.array([-1, 2, None], pa.int16()),
    "at": pa.array([0, 86_399_999_999_999, None], pa.time64("ns")),
}
TEXT, PREPARED = {"statement": "text"}, {"statement": "prepared"}
COPY, INSERT, COUNTER = {"method": "copy"}, {"write": "insert"}, {"write": "counter"}
KINDS = [kind | form for kind in (COUNTER, INSERT) for form in ({}, TEXT)]
SYSTEMS: dict[str, System] = {
    "flight": _system(
        "flight",
        partial(_ours, "flight"),
        *_ways("get", {}, {"connections": "shared"}),
        *_ways("put", {}, {"ack": "batch"}),
    ),
    "flightsql": _system(
        "flightsql",
        _flightsql,
        Way("put"),
        *_ways("get", TEXT, PREPARED, endless=TOLD["flightsql"]["endless"], verified="checksum"),
        file=_file("d", "t", "o", "u", "f32", "i32", "p", "b"),
    ),
    "http+arrow": _system(
        "http+arrow",
        partial(_ours, "http+arrow"),
        *_ways("get", {}),
        *_ways("put", {}, {"http_method": "PUT"}),
    ),
    "charrow": _system(
        "charrow",
        partial(_ours, "charrow"),
        *_ways("get", {}, {"decoders": 0}, {"encoders": 2, "decoders": 2}),
    ),
    "mysql": _system(
        "mysql",
        partial(_database, "mariadb"),
        *_ways("upsert", TEXT, number=_text),
        *_ways("upsert", PREPARED),
        *_gets("mysql", "binary"),
        *_gets("mysql", "text", number=_text),
        file=_file("o"),
        password=f"{HARD} ö",
    ),
    "postgres": _system(
        "postgres",
        partial(_database, "postgres"),
        *_ways("upsert", {}, COPY, number=_big),
        *_ways("upsert", TEXT, number=_text),
        Way("upsert", {"synchronous": "off"}, alike=True),
        Way("upsert", {}, more={"in_flight": 4}, alike=True),
        *_gets("postgres", "copy", "rows", number=_big),
        file=_file("u", "f32", "p", z=pa.array([1, 2, None], pa.timestamp("us", "UTC"))),
    ),
    "cassandra": _system(
        "cassandra",
        partial(_database, "cassandra"),
        *_ways("upsert", COUNTER, INSERT, number=_big),
        *_ways("upsert", INSERT | TEXT, number=_text),
        *_ways(
            "upsert",
            *(INSERT | form | {"batch": "logged"} for form in ({}, TEXT)),
            *(kind | {"batch_form": "statement"} for kind in KINDS),
            *({"compression": name} for name in ("lz4", "snappy")),
            {"token_aware": False},
            {"partition_key": 1},
            {"partition_key": 3, "consistency": "all"},
            {"init": ["SELECT key FROM system.local"]},
            alike=True,
        ),
        *_ways(
            "upsert",
            *(kind | {"batch": "none"} for kind in KINDS),
            more={"rows_per_batch": 1, "in_flight": 64},
            alike=True,
        ),
        Way("get", alike=True, verified="checksum"),
        file=_file("t", "u", "p", t_ms=pa.array([-1, None, 5], pa.timestamp("ms", "UTC")), **SMALL),
    ),
    "firebird": _system(
        "firebird",
        _firebird,
        Way("upsert", number=_big),
        *_gets("firebird", "", number=_big),
        file=_file("u", "p", t=pa.array([100, -200, None], pa.timestamp("us"))),
    ),
    "redis": _system("redis", _redis, *_ways("upsert", number=_text)),
    "clickhouse": _clickhouse("clickhouse", "chdb", "arrow", "native", "rowbinary"),
    "clickhouse-2018": _clickhouse("clickhouse-2018", "server", "native", "rowbinary"),
    "sqlite": _system(
        "sqlite",
        _sqlite,
        *_ways("upsert", {}, TEXT),
        *_gets("sqlite", ""),
        file=_file("d", "t", "o", "u", "f32", "i32", "p"),
    ),
    "duckdb": _system(
        "duckdb", _duckdb_file, *_ways("upsert", {}, TEXT, COPY), *_gets("duckdb", ""), file=_file()
    ),
    "akumuli": _store("akumuli", *({"format": form} for form in ("rows", "values", "dictionary"))),
    **{scheme: _store(scheme) for scheme in ("opentsdb", "influx", "influx+http")},
}
NOT_JUDGED = {
    "empty": "it moves nothing anywhere",
    "adbc": "its connections are the driver's own: tests/unit/test_adbc.py",
    "exec": "a pipe is between its ends, where nobody comes: tests/unit/test_exec.py",
    "pipe": "both its ends are in one process, where nobody comes between them",
    "akumuli+udp": "nobody answers a datagram: tests/unit/test_ingest_run.py counts what arrived",
}


# ---- data ---------------------------------------------------------------------------------


STARTS = itertools.count(1_483_228_800_000_000_000, 10**16)
"""When points begin: each trial's after those of all before it."""


def needle(operation: str = "get") -> pa.Table:
    """2,000 rows with NEEDLE among them, once."""
    rows = range(2000)
    hits = pa.array([NEEDLE if n == 1000 else n % 7 for n in rows], pa.int64())
    if operation != "ingest":
        return pa.table({"id": pa.array(rows, pa.int64()), "hits": hits})
    start = next(STARTS)
    at = pa.array([start + n for n in rows], pa.timestamp("ns"))
    return pa.table({"at": at, "id": [f"h{n % 10}" for n in rows], "hits": hits.cast(pa.float64())})


def needle_spec(place: Path, operation: str) -> dict[str, Any]:
    """Fields of a spec that write it."""
    path = write_ipc(needle(operation), place / f"{operation}.arrow")
    roles = {"time": "at", "tags": ["id"], "values": ["hits"], "metric": "web"}
    more = {"upsert": {"upsert": {"key": ["id"], "add": ["hits"]}}, "ingest": {"ingest": roles}}
    data = {"source": "file", "path": "needle.parquet", "ipc": str(path)}
    return {"data": data, **more.get(operation, {})}


DATA: dict[str, dict[str, Any]] = {
    "get": {"source": "records", "columns": 2, "values": "random", "seed": 1},
    "put": {"source": "records", "columns": 2, "values": "random", "seed": 1},
    "upsert": {"source": "usage", "working_set": 1000, "seed": 7, "loaded_unix_s": 1_790_000_000},
    "ingest": {
        **{"source": "metrics", "hosts": 10, "seed": 1, "tick_ns": 10**9, "steps": None},
        "start_unix_ns": 1_483_228_800_000_000_000,
    },
}
