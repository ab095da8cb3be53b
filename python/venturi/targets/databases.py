"""Options of databases."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, StrictBool, StrictStr

from venturi.targets.fields import Counted, Names, Nullable, Table, identifier, statements
from venturi.targets.setting import Setting
from venturi.targets.system import DATABASES, STATEMENTS, TABLES

DATABASE = "Databases"
_TABLES = dict.fromkeys((*DATABASES, *TABLES))
_UPSERTS = {"upsert": None}
"""Of an option that a database has for upserts alone."""
_database = partial(Setting, panel=DATABASE, systems=dict.fromkeys(DATABASES))
_mysql = partial(Setting, panel=DATABASE, systems={"mysql": None})


def _cassandra(help: str, usual: Any, kind: type = str, **more: Any) -> Setting:
    return Setting(help, kind, panel=DATABASE, systems={"cassandra": usual}, **more)


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
            bool,
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
            bool,
            cell=None,
            systems=_TABLES,
            default="`false`",
        ),
    ] = None
    init: Annotated[
        Nullable[Annotated[list[StrictStr], BeforeValidator(statements)]],
        _database(
            "A statement to run on every connection when it is opened. Repeatable.",
            list[str],
            systems=dict.fromkeys((*DATABASES, "adbc")),
            commas="list",
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
            operations=_UPSERTS,
            default="the server's",
        ),
    ] = None
    shard_key: Annotated[
        Names,
        _mysql(
            "SingleStore: columns that choose the partition.",
            list[str],
            operations=_UPSERTS,
            commas="list",
            default="the key",
        ),
    ] = None
    partitions: Annotated[
        Counted,
        _mysql(
            "SingleStore: partitions of a new database.",
            int,
            operations=_UPSERTS,
            default="the server's",
            role="parallel",
        ),
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
        _cassandra(
            "cassandra: counter or insert.",
            "counter",
            operations=_UPSERTS,
            doc="`counter`: counters that are added to; `insert`: plain columns that are overwritten",
        ),
    ] = None
    batch: Annotated[
        # Here "none" is a way to write: every row by itself.
        Literal["unlogged", "logged", "none"] | None,
        _cassandra(
            "cassandra: unlogged, logged, or none: row by row.",
            "unlogged",
            operations=_UPSERTS,
            doc=(
                "`unlogged`, `logged`, or `none`: every row by itself, with `rows_per_batch = 1` and many"
                " in flight. Counters go in COUNTER batches"
            ),
        ),
    ] = None
    batch_form: Annotated[
        Nullable[Literal["message", "statement"]],
        _cassandra(
            "cassandra: message, or statement: BEGIN BATCH ... as one.",
            "message",
            operations=_UPSERTS,
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
    replication: Annotated[Counted, _cassandra("cassandra: copies of a row in a new keyspace.", 1, int)] = (
        None
    )
    partition_key: Annotated[
        Counted,
        _cassandra(
            "cassandra: so many columns of the key choose the partition.",
            None,
            int,
            operations=_UPSERTS,
            default="all of them",
        ),
    ] = None
    page_size: Annotated[
        Counted,
        _cassandra(
            "cassandra: rows of one answer to a get at most.",
            None,
            int,
            operations={"get": None},
            default="the rows of a batch",
        ),
    ] = None
    token_aware: Annotated[
        StrictBool | None, _cassandra("cassandra: ask a node that holds the row, or any.", True, bool)
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
            bool,
            panel=DATABASE,
            systems={"sqlite": True},
            operations=_UPSERTS,
        ),
    ] = None
