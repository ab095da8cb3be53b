"""Options of targets, a group for those that belong together, and which systems each applies to.

An option that is null leaves the matter to the target: its default is in docs/targets.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr

from venturi.credentials import environment_variable, is_secret
from venturi.handicap import normalised
from venturi.suffixes import parse_count
from venturi.urls import DATABASES, TIME_SERIES

__all__ = [
    "APPLIES",
    "DEFAULTS",
    "LISTS",
    "ONLY_HERE",
    "PARAMETERS",
    "VALUES",
    "Names",
    "Options",
    "Table",
    "null",
    "texts",
]


class Table(BaseModel):
    """A table of the scenario: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def null(value: Any) -> Any:
    """TOML has no null: "none" takes a default back."""
    return None if value in ("none", "null") else value


def texts(value: Any) -> Any:
    """Several texts: ["a", "b"], or "a,b"."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _statements(value: Any) -> Any:
    # A comma is part of SQL.
    return [value] if isinstance(value, str) else value


def _some(value: list[str] | None) -> list[str] | None:
    if value is not None and not value:
        raise ValueError("names no column")
    if value is not None and len(set(value)) < len(value):
        raise ValueError(f"names {next(v for v in value if value.count(v) > 1)} twice")
    return value


Names = Annotated[
    Annotated[list[StrictStr], BeforeValidator(texts)] | None, BeforeValidator(null), AfterValidator(_some)
]
"""Columns: ["a", "b"] or "a,b"."""
Counted = Annotated[
    Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_536)] | None, BeforeValidator(null)
]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def _identifier(value: Any) -> Any:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name: letters, digits and _, at most 63, no digit first")
    return value


Variable = Annotated[str, BeforeValidator(environment_variable)]


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if is_secret(name) or re.match(r"(?i)(basic|bearer|token)\s", text):
            raise ValueError(f"{name} would be stored with the run; name its variable by header_env")
    return value


def _user(value: str) -> str:
    if ":" in value:
        raise ValueError("must be a name alone; its password is in the variable that password_env names")
    return value


def _compression(value: Any) -> Any:
    """lz4, zstd (level 3, as everywhere), zstd:LEVEL; snappy for Cassandra."""
    known = "lz4, zstd, zstd:LEVEL with a level of 1 to 22, snappy, or none"
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not one of {known}")
    if value in ("lz4", "zstd", "snappy"):
        return value
    found = re.fullmatch(r"zstd:(\d{1,3})", value)
    if found is None or not 1 <= int(found.group(1)) <= 22:
        raise ValueError(f"{value!r} is not one of {known}")
    level = int(found.group(1))
    return "zstd" if level == 3 else f"zstd:{level}"


def _handicap(value: Any) -> Any:
    if isinstance(value, dict):
        value = "+".join(f"{stage}={time}" for stage, time in value.items())
    if not isinstance(value, str):
        raise ValueError('must be written "decode=200us"')
    return normalised(value)


class Login(Table):
    """Who we are. Secrets are names of environment variables."""

    user: Annotated[StrictStr, AfterValidator(_user)] | None = None
    password_env: Variable | None = None
    tls_ca: StrictStr | None = None
    tls_certificate: StrictStr | None = None
    tls_key: StrictStr | None = None
    tls_server_name: StrictStr | None = None
    tls_insecure: StrictBool = False


class Flight(Table):
    """Arrow Flight."""

    connections: Literal["per-stream", "shared"] = "per-stream"
    window: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)] | None, BeforeValidator(null)
    ] = None
    send_buffer: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=4096, le=2**30)] | None, BeforeValidator(null)
    ] = None
    max_message_size: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**32 - 1)] = 67_108_864
    protocol: Literal["auto", "perf", "path", "command", "ticket"] = "auto"
    ack: Literal["stream", "batch"] = "stream"
    handicap: Annotated[Annotated[str, BeforeValidator(_handicap)] | None, BeforeValidator(null)] = None
    token_env: Variable | None = None
    headers: Annotated[dict[str, StrictStr], AfterValidator(_headers)] = Field(default_factory=dict)
    header_env: dict[str, Variable] = Field(default_factory=dict)


class Database(Table):
    """All databases: the table, and how statements get there."""

    table: Annotated[StrictStr | None, BeforeValidator(_identifier), BeforeValidator(null)] = None
    setup: StrictBool | None = None
    keep: StrictBool | None = None
    init: Annotated[
        Annotated[list[StrictStr], BeforeValidator(_statements)] | None, BeforeValidator(null)
    ] = None
    statement: Annotated[Literal["text", "prepared"] | None, BeforeValidator(null)] = None


class MySql(Table):
    """MySQL, MariaDB, SingleStore."""

    storage: Annotated[StrictStr | None, BeforeValidator(_identifier), BeforeValidator(null)] = None
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


def _word(value: Any) -> Any:
    # TOML and YAML users write on and off without quotes.
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


def _digits(value: Any) -> Any:
    return 17 if value in ("17", "exact") else value


def _pool(value: Any) -> Any:
    from venturi.environment import usable_cores

    return usable_cores() if value in ("cpus", "cores") else parse_count(value)


class TimeSeries(Table):
    """Stores of time series."""

    digits: Annotated[Literal[17, "shortest"] | None, BeforeValidator(_digits), BeforeValidator(null)] = None
    http_port: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_535)] | None, BeforeValidator(null)
    ] = None
    # Of a store that is started for the run.
    durable: Literal["none", "os", "fsync"] | None = None
    pool: Annotated[
        Annotated[int, BeforeValidator(_pool), Field(ge=1, le=256)] | None, BeforeValidator(null)
    ] = None


class Akumuli(Table):
    """Akumuli's RESP."""

    messages: Annotated[Literal["rows", "values", "dictionary"] | None, BeforeValidator(null)] = None


def _number_or_auto(value: Any) -> Any:
    from venturi.environment import usable_cores

    if value == "auto":
        return value
    return usable_cores() if value in ("cpus", "cores") else parse_count(value)


def _version(value: Any) -> Any:
    # TOML users leave the quotes out.
    return str(value) if isinstance(value, float) else value


class Charrow(Table):
    """Arrow blocks over TCP, one query shared by its partitions."""

    encoders: Annotated[
        Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] | None,
        BeforeValidator(_number_or_auto),
        BeforeValidator(null),
    ] = None
    decoders: Annotated[
        Annotated[int, BeforeValidator(_pool), Field(ge=0, le=256)] | None, BeforeValidator(null)
    ] = None
    query: Annotated[StrictStr | None, BeforeValidator(null)] = None
    wire_version: Annotated[
        Literal["1.1", "1.2"] | None, BeforeValidator(_version), BeforeValidator(null)
    ] = None
    block_checksum: StrictBool = False
    max_block_size: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**40)] | None, BeforeValidator(null)
    ] = None


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
        if is_secret(found[1]):
            raise ValueError(
                f"{found[1]} would be stored with the run; ours is told by user and password_env"
            )
    return ",".join(sorted(words)) or None


class ClickHouse(Table):
    """ClickHouse over HTTP."""

    wire_format: Annotated[
        Literal["arrow", "native", "rowbinary", "parquet"] | None, BeforeValidator(null)
    ] = None
    # Here "none" is a way to share: every stream reads all.
    split: Literal["hash", "key", "parts", "none"] | None = None
    split_by: Annotated[StrictStr | None, BeforeValidator(null)] = None
    server_settings: Annotated[
        Annotated[StrictStr, BeforeValidator(_settings)] | None, BeforeValidator(null)
    ] = None


class Shared(Table):
    """What has a meaning in several systems, with values that differ."""

    compression: Annotated[Annotated[str, BeforeValidator(_compression)] | None, BeforeValidator(null)] = None
    method: Annotated[Literal["upsert", "copy"] | None, BeforeValidator(null)] = None
    synchronous: Annotated[
        Literal["off", "normal", "full", "extra", "on", "local", "remote_write", "remote_apply"] | None,
        BeforeValidator(_word),
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
