"""Options of targets, a group for those that belong together, and which systems each applies to.

An option that is null leaves the matter to the target: its default is in docs/targets.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from venturi.targets.charrow import Charrow
from venturi.targets.clickhouse import ClickHouse
from venturi.targets.databases import Cassandra, Database, Embedded, MySql
from venturi.targets.fields import Table, compression_name, lower_word, null
from venturi.targets.flight import Flight, Login
from venturi.targets.system import DATABASES, TIME_SERIES
from venturi.targets.timeseries import Akumuli, TimeSeries

__all__ = ["APPLIES", "DEFAULTS", "LISTS", "ONLY_HERE", "PARAMETERS", "VALUES", "Options"]


class Shared(Table):
    """What has a meaning in several systems, with values that differ."""

    compression: Annotated[
        Annotated[str, BeforeValidator(compression_name)] | None, BeforeValidator(null)
    ] = None
    method: Annotated[Literal["upsert", "copy"] | None, BeforeValidator(null)] = None
    synchronous: Annotated[
        Literal["off", "normal", "full", "extra", "on", "local", "remote_write", "remote_apply"] | None,
        BeforeValidator(lower_word),
        BeforeValidator(null),
    ] = None
    dialect: Annotated[
        Literal["mysql", "postgres", "sqlite", "duckdb", "akumuli", "opentsdb", "influx"] | None,
        BeforeValidator(null),
    ] = None


class Stored(Akumuli, TimeSeries, Embedded, Cassandra, MySql, Database):
    """Those of systems that keep rows or points."""


class Options(Shared, Stored, ClickHouse, Charrow, Flight, Login):
    """All of them, in one table."""


_NETWORK = frozenset({"flight", "charrow", "clickhouse", "mysql", "cassandra", "postgres"})
_GROUPS: dict[type[Table], frozenset[str]] = {
    Login: _NETWORK,
    Flight: frozenset({"flight"}),
    Charrow: frozenset({"charrow"}),
    ClickHouse: frozenset({"clickhouse"}),
    Database: frozenset(DATABASES),
    MySql: frozenset({"mysql"}),
    Cassandra: frozenset({"cassandra"}),
    Embedded: frozenset({"sqlite"}),
    TimeSeries: frozenset(TIME_SERIES),
    Akumuli: frozenset({"akumuli"}),
}
APPLIES: dict[str, frozenset[str]] = {
    **{name: schemes for group, schemes in _GROUPS.items() for name in group.model_fields},
    "compression": frozenset({"flight", "charrow", "clickhouse", "cassandra"}),
    **{name: frozenset({"charrow", "clickhouse"}) for name in ("query", "max_block_size")},
    **{name: frozenset({*DATABASES, "clickhouse"}) for name in ("table", "setup", "keep")},
    "storage": frozenset({"mysql", "clickhouse"}),
    "handicap": frozenset({"flight", "charrow"}),
    "method": frozenset({"postgres", "duckdb"}),
    "synchronous": frozenset({"postgres", "sqlite"}),
    "dialect": frozenset({"empty"}),
    **{name: _NETWORK | {"influx"} for name in ("user", "password_env")},
    "token_env": frozenset({"flight", "influx"}),
    "http_port": frozenset({"akumuli", "opentsdb", "influx"}),
}
"""The systems that an option has a meaning for."""
VALUES: dict[tuple[str, str], tuple[str, ...]] = {
    ("compression", "flight"): ("lz4", "zstd"),
    ("compression", "charrow"): ("lz4", "zstd"),
    ("compression", "clickhouse"): ("lz4", "zstd"),
    ("compression", "cassandra"): ("lz4", "snappy"),
    ("synchronous", "sqlite"): ("off", "normal", "full", "extra"),
    ("synchronous", "postgres"): ("on", "off", "local", "remote_write", "remote_apply"),
}
"""Values that an option may have in a system, where others have more (the part before a colon)."""
DEFAULTS: dict[str, dict[str, Any]] = {
    "charrow": {"encoders": "auto", "decoders": 1, "wire_version": "1.2"},
    "clickhouse": {"setup": True},
    "mysql": {"setup": True, "statement": "text"},
    "cassandra": {
        "setup": True,
        "statement": "prepared",
        "write": "counter",
        "batch": "unlogged",
        "batch_form": "message",
        "consistency": "local_one",
        "replication": 1,
        "token_aware": True,
    },
    "postgres": {"setup": True, "statement": "prepared", "method": "upsert"},
    "sqlite": {
        "setup": True,
        "statement": "prepared",
        "journal": "wal",
        "synchronous": "normal",
        "without_rowid": True,
    },
    "duckdb": {"setup": True, "statement": "prepared", "method": "upsert"},
    "akumuli": {"messages": "rows", "digits": 17},
    "opentsdb": {"digits": 17},
    "influx": {"digits": 17},
    "empty": {"dialect": "mysql"},
}
"""What the targets do where an option is null; parameters of a cell name it."""
PARAMETERS = (
    *("compression", "connections", "window", "send_buffer", "protocol", "ack", "handicap"),
    *("table", "setup", "init", "statement", "method", "storage", "shard_key", "partitions"),
    *("write", "batch", "batch_form", "consistency", "replication", "partition_key", "token_aware"),
    *("journal", "synchronous", "without_rowid", "dialect"),
    *("messages", "digits", "durable", "pool"),
    *("encoders", "decoders", "query", "wire_version", "block_checksum"),
    *("wire_format", "split", "split_by", "server_settings"),
)
"""Options that are parameters of a cell: all that may change a figure."""
ONLY_HERE = frozenset({"durable", "pool"})
"""Options of a store that is started for the run: the trial's spec does not have them."""
LISTS = ("init", "shard_key")
"""Options whose value is a list."""
