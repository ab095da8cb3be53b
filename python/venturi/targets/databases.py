"""Options of databases."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, StrictBool, StrictStr

from venturi.targets.fields import Counted, Names, Table, identifier, null, statements

__all__ = ["Cassandra", "Database", "Embedded", "MySql"]


class Database(Table):
    """All databases: the table, and how statements get there."""

    table: Annotated[StrictStr | None, BeforeValidator(identifier), BeforeValidator(null)] = None
    setup: StrictBool | None = None
    keep: StrictBool | None = None
    init: Annotated[Annotated[list[StrictStr], BeforeValidator(statements)] | None, BeforeValidator(null)] = (
        None
    )
    statement: Annotated[Literal["text", "prepared"] | None, BeforeValidator(null)] = None


class MySql(Table):
    """MySQL, MariaDB, SingleStore."""

    storage: Annotated[StrictStr | None, BeforeValidator(identifier), BeforeValidator(null)] = None
    shard_key: Names = None
    partitions: Counted = None


_CONSISTENCY = Literal[
    "any", "one", "two", "three", "quorum", "all", "local_one", "local_quorum", "each_quorum"
]


def _consistency(value: Any) -> Any:
    return value.lower().replace("-", "_") if isinstance(value, str) else value


class Cassandra(Table):
    """Cassandra, ScyllaDB."""

    write: Annotated[Literal["counter", "insert"] | None, BeforeValidator(null)] = None
    # Here "none" is a way to write: every row by itself.
    batch: Literal["unlogged", "logged", "none"] | None = None
    batch_form: Annotated[Literal["message", "statement"] | None, BeforeValidator(null)] = None
    consistency: Annotated[_CONSISTENCY | None, BeforeValidator(_consistency), BeforeValidator(null)] = None
    replication: Counted = None
    partition_key: Counted = None
    token_aware: StrictBool | None = None


class Embedded(Table):
    """SQLite."""

    journal: Annotated[
        Literal["wal", "delete", "truncate", "persist", "memory", "off"] | None, BeforeValidator(null)
    ] = None
    without_rowid: StrictBool | None = None
