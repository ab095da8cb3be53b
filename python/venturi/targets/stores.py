"""Options of what keeps rows or points: databases, ClickHouse, stores of time series."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.credentials import is_secret_setting
from venturi.common.suffixes import parse_count
from venturi.targets.fields import Counted, Names, Nullable, Table, identifier, null, pool_size, statements
from venturi.targets.setting import SEVERAL, Setting
from venturi.targets.system import DATABASES, STATEMENTS, TABLES, TIME_SERIES
from venturi.targets.transfers import GETS, QUERIES

DATABASE = "Databases"
_TABLES = dict.fromkeys((*DATABASES, *TABLES))
_UPSERTS = {"upsert": None}
"""Of an option that a database has for upserts alone."""
_database = partial(Setting, panel=DATABASE, systems=dict.fromkeys(DATABASES))
_mysql = partial(Setting, panel=DATABASE, systems={"mysql": None}, operations=_UPSERTS)


def _cassandra(help: str, usual: Any, **more: Any) -> Setting:
    return Setting(help, panel=DATABASE, systems={"cassandra": usual}, **more)


_writes = partial(_cassandra, operations=_UPSERTS)


class Database(Table):
    """All databases: the table, and how statements get there."""

    table: Annotated[
        Nullable[Annotated[StrictStr, BeforeValidator(identifier)]],
        _database(
            "The table written or read. [default: upserts venturi_usage or venturi_FILE, gets of data "
            "written before venturi_get, puts venturi_put]",
            systems=_TABLES,
            default=(
                "of upserts `venturi_usage`, or `venturi_` and the file's name; of gets of our own data "
                "`venturi_get`, of puts `venturi_put`"
            ),
            role="workload",
        ),
    ] = None
    setup: Annotated[
        StrictBool | None,
        _database(
            "Make database and table first; or upsert into the table as it is.",
            systems=dict.fromkeys(_TABLES, True),
            operations=_UPSERTS,
            doc=(
                "make database and table first. A table that is there is dropped only if its name begins "
                "with `venturi_`. `false` (`--no-setup`): upsert into the table as it is; sums and counts"
                " are compared before and after"
            ),
            role="workload",
        ),
    ] = None
    keep: Annotated[
        StrictBool | None,
        _database(
            "Leave the table when a trial ends, for a look into it.",
            cell=None,
            systems=_TABLES,
            default="`false`",
        ),
    ] = None
    init: Annotated[
        Nullable[Annotated[list[StrictStr], BeforeValidator(statements)]],
        _database(
            "A statement to run on every connection when it is opened. Repeatable.",
            systems=dict.fromkeys((*DATABASES, "adbc")),
            form="repeated",
        ),
    ] = None
    statement: Annotated[
        Nullable[Literal["text", "prepared"]],
        _database(
            "text, or prepared once and given values; flightsql: of a get too.",
            doc=(
                "`text`, or `prepared` once and given values. flightsql: a get's query by its text, or "
                "prepared; a put as an INSERT that is `prepared`, where its default is a bulk ingest"
            ),
            systems={**STATEMENTS, "flightsql": None},
            operations=_UPSERTS,
            foreign=True,
            default=(
                "`text` for MySQL, else `prepared`; flightsql: gets `text`, puts an ingest, or `prepared` "
                "where the server takes none"
            ),
        ),
    ] = None


class MySql(Table):
    """MySQL, MariaDB, SingleStore."""

    storage: Annotated[
        Nullable[Annotated[StrictStr, BeforeValidator(identifier)]],
        _mysql(
            "mysql: rowstore or columnstore of SingleStore, or an ENGINE; clickhouse: an ENGINE.",
            systems={"mysql": None, "clickhouse": None},
            default="the server's",
        ),
    ] = None
    shard_key: Annotated[
        Names, _mysql("SingleStore: columns that choose the partition.", default="the key")
    ] = None
    partitions: Annotated[
        Counted, _mysql("SingleStore: partitions of a new database.", default="the server's", role="parallel")
    ] = None


_CONSISTENCY = Literal[
    "any", "one", "two", "three", "quorum", "all", "local_one", "local_quorum", "each_quorum"
]


def _consistency(value: Any) -> Any:
    return value.lower().replace("-", "_") if isinstance(value, str) else value


class Cassandra(Table):
    """Cassandra, ScyllaDB."""

    write: Annotated[
        Nullable[Literal["counter", "insert"]],
        _writes(
            "cassandra: counter or insert.",
            "counter",
            doc="`counter`: counters that are added to; `insert`: plain columns that are overwritten",
        ),
    ] = None
    batch: Annotated[
        # Here "none" is a way to write: every row by itself.
        Literal["unlogged", "logged", "none"] | None,
        _writes(
            "cassandra: unlogged, logged, or none: row by row.",
            "unlogged",
            doc=(
                "`unlogged`, `logged`, or `none`: every row by itself, with `rows_per_batch = 1` and many"
                " in flight. Counters go in COUNTER batches"
            ),
        ),
    ] = None
    batch_form: Annotated[
        Nullable[Literal["message", "statement"]],
        _writes(
            "cassandra: message, or statement: BEGIN BATCH ... as one.",
            "message",
            doc="`message`: the protocol's BATCH; `statement`: one `BEGIN BATCH ... APPLY BATCH`",
        ),
    ] = None
    consistency: Annotated[
        Nullable[Annotated[_CONSISTENCY, BeforeValidator(_consistency)]],
        _cassandra(
            "cassandra: one, local_one, quorum, local_quorum, all ...",
            "local_one",
            foreign=True,
            doc="`any`, `one`, `two`, `three`, `quorum`, `all`, `local_one`, `local_quorum`, `each_quorum`",
        ),
    ] = None
    replication: Annotated[Counted, _cassandra("cassandra: copies of a row in a new keyspace.", 1)] = None
    partition_key: Annotated[
        Counted,
        _writes("cassandra: so many columns of the key choose the partition.", None, default="all of them"),
    ] = None
    page_size: Annotated[
        Counted,
        _cassandra(
            "cassandra: rows of one answer to a get at most.",
            None,
            operations={"get": None},
            default="the rows of a batch",
        ),
    ] = None
    token_aware: Annotated[
        StrictBool | None, _cassandra("cassandra: ask a node that holds the row, or any.", True)
    ] = None


class Embedded(Table):
    """SQLite."""

    journal: Annotated[
        Nullable[Literal["wal", "delete", "truncate", "persist", "memory", "off"]],
        Setting(
            "sqlite: wal, delete, truncate, persist, memory or off.",
            panel=DATABASE,
            systems={"sqlite": "wal"},
            operations=_UPSERTS,
        ),
    ] = None
    without_rowid: Annotated[
        StrictBool | None,
        Setting(
            "sqlite: a table that is its key's index, or not.",
            panel=DATABASE,
            systems={"sqlite": True},
            operations=_UPSERTS,
        ),
    ] = None


_clickhouse = partial(Setting, panel=QUERIES, systems={"clickhouse": None})
_tables = partial(Setting, panel=QUERIES, systems=dict.fromkeys(TABLES), operations=GETS)
_CLICKHOUSE = ("arrow", "native", "rowbinary", "parquet")
_POSTGRES = ("copy", "rows")
_MYSQL = ("binary", "text")
_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=([^,]*)")


def _settings(value: Any) -> Any:
    """ClickHouse's own, as "max_threads=4,max_block_size=8192", or a table; in the order of their names."""
    if isinstance(value, dict):
        words = [f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in value.items()]
    elif isinstance(value, str):
        words = [word.strip() for word in value.split(",") if word.strip()]
    else:
        raise ValueError('must be written "max_threads=4,max_block_size=8192"')
    for word in words:
        if not (found := _SETTING.fullmatch(word)):
            raise ValueError(f'{word!r} is no setting; write "max_threads=4,max_block_size=8192"')
        if is_secret_setting(found[1], found[2]):
            raise ValueError(
                f"{found[1]} would be stored with the run; ours is told by user and password_env"
            )
    return ",".join(sorted(words)) or None


class ClickHouse(Table):
    """ClickHouse over HTTP."""

    wire_format: Annotated[
        Nullable[Literal["arrow", "native", "rowbinary", "parquet", "copy", "rows", "binary", "text"]],
        Setting(
            "clickhouse: arrow, native, rowbinary, parquet; postgres: copy, rows; mysql: binary, text."
            f"{SEVERAL}",
            panel=QUERIES,
            systems={"clickhouse": None, "postgres": "copy", "mysql": "binary"},
            values={"clickhouse": _CLICKHOUSE, "postgres": _POSTGRES, "mysql": _MYSQL},
            operations=GETS,
            spec="format",
            doc=(
                "in what form rows travel. clickhouse: `arrow`, `native`, `rowbinary`, `parquet`; postgres: "
                "`copy` (COPY in binary) or `rows` (of the extended protocol); mysql: `binary` (of a "
                "prepared statement) or `text`"
            ),
            default=(
                "clickhouse: `arrow`, or `native` where the server has no Arrow; postgres: `copy`; "
                "mysql: `binary`"
            ),
        ),
    ] = None
    split: Annotated[
        # Here "none" is a way to share: every stream reads all.
        Literal["hash", "key", "parts", "none"] | None,
        _tables(
            "How streams share rows: hash, key, parts, or none: each reads all.",
            doc=(
                "how the streams of a get share the rows: `hash` or `key` (ranges) of a column, `parts` of "
                "the table, `none`: each reads all"
            ),
            values={
                **dict.fromkeys(("adbc", "mysql", "flightsql"), ("hash", "key", "none")),
                "cassandra": ("parts", "none"),
            },
            default=(
                "for several streams of the server's own data none, say one (`split_by` alone means "
                "`hash`), but flightsql's streams share the endpoints of the result; for rows that Venturi "
                "wrote `hash` of the first column of mysql, clickhouse, flightsql (where it has too few "
                "endpoints) and adbc (`key` where its hash is not known), `parts` of others"
            ),
        ),
    ] = None
    split_by: Annotated[
        Nullable[StrictStr],
        _tables(
            "The column of split hash and key.",
            # Cassandra's streams share rows by ranges of tokens alone.
            systems={scheme: None for scheme in TABLES if scheme != "cassandra"},
        ),
    ] = None
    server_settings: Annotated[
        Nullable[Annotated[StrictStr, BeforeValidator(_settings)]],
        _clickhouse(
            "clickhouse: settings of its own, as max_threads=4,max_memory_usage=0.",
            commas="text",
            spec="settings",
        ),
    ] = None


SERIES = "Time series"
_series = partial(Setting, panel=SERIES, systems=dict.fromkeys(TIME_SERIES))


def _digits(value: Any) -> Any:
    return 17 if value in ("17", "exact") else value


class TimeSeries(Table):
    """Stores of time series."""

    digits: Annotated[
        Literal[17, "shortest"] | None,
        BeforeValidator(_digits),
        BeforeValidator(null),
        _series(
            "Digits of a value: 17, or shortest that reads back the same.",
            systems=dict.fromkeys(TIME_SERIES, 17),
        ),
    ] = None
    http_port: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_535)]],
        _series("Port where the store tells what it holds. [default: 8181]", cell=None, default="`8181`"),
    ] = None
    durable: Annotated[
        Literal["none", "os", "fsync"] | None,
        _series(
            f"X://local: none, os or fsync; what the store's log survives.{SEVERAL}",
            ours=True,
            doc=(
                "of the store that is started: `none`, `os`, `fsync` ([what survives](timeseries-"
                "store.md#what-survives))"
            ),
            default="`os`",
        ),
    ] = None
    pool: Annotated[
        Nullable[Annotated[int, BeforeValidator(pool_size), Field(ge=1, le=256)]],
        _series(f"X://local: the store's reader threads.{SEVERAL}", ours=True, default="one a CPU"),
    ] = None


class Akumuli(Table):
    """Akumuli's RESP."""

    messages: Annotated[
        Nullable[Literal["rows", "values", "dictionary"]],
        _series(
            "akumuli: rows of all metrics, values one by one, or dictionary ids.",
            systems={"akumuli": "rows"},
            spec="format",
            doc=(
                "`rows`: all metrics of a host in one message; `values`: one message a point; "
                "`dictionary`: rows whose series have numbers"
            ),
        ),
    ] = None
