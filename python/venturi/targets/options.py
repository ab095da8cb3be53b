"""Options of targets: which systems each applies to, and what holds there where nothing is said.

An option that is null leaves the matter to the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model

from venturi.targets.adbc import Adbc
from venturi.targets.charrow import Charrow
from venturi.targets.clickhouse import ClickHouse
from venturi.targets.databases import DATABASE, Cassandra, Database, Embedded, MySql
from venturi.targets.exec import Exec
from venturi.targets.fields import Nullable, Table, compression_name, lower_word, setting_of
from venturi.targets.flight import Flight, Login
from venturi.targets.http import Http
from venturi.targets.setting import Setting
from venturi.targets.system import PLUGINS
from venturi.targets.timeseries import Akumuli, TimeSeries

_POSTGRES = ("on", "off", "local", "remote_write", "remote_apply")
_SQLITE = ("off", "normal", "full", "extra")

_BATCHES = ("flight", "flightsql", "http+arrow", "charrow", "clickhouse")
"""Systems whose rows travel as Arrow batches, which may be compressed."""


class Shared(Table):
    """What has a meaning in several systems, with values that differ."""

    compression: Annotated[
        Nullable[
            Annotated[
                str,
                BeforeValidator(compression_name),
                Field(pattern="^(snappy|lz4|zstd(:([1-9]|1[0-9]|2[0-2]))?)$"),
            ]
        ],
        Setting(
            "Of the batches: lz4, zstd, zstd:LEVEL (1-22; zstd is 3) or none; cassandra: lz4, snappy.",
            systems=dict.fromkeys((*_BATCHES, "cassandra")),
            values={**dict.fromkeys(_BATCHES, ("lz4", "zstd")), "cassandra": ("lz4", "snappy")},
            doc=(
                "Flight and Arrow over HTTP, of the batches' bodies: `lz4`, `zstd` (level 3), `zstd:LEVEL` "
                "(1 quick to 22 small) or none. A put compresses at the client; a get at the server, which "
                "must be Venturi's own (of flightsql puts alone). Cassandra, of the protocol's frames: "
                "`lz4`, `snappy` or none"
            ),
        ),
    ] = None
    method: Annotated[
        Nullable[Literal["upsert", "copy"]],
        Setting(
            "postgres, duckdb: upsert, or copy into a staging table and merge.",
            panel=DATABASE,
            systems={"postgres": "upsert", "duckdb": "upsert"},
            operations={"upsert": None},
        ),
    ] = None
    synchronous: Annotated[
        Nullable[
            Annotated[
                Literal["off", "normal", "full", "extra", "on", "local", "remote_write", "remote_apply"],
                BeforeValidator(lower_word),
            ]
        ],
        Setting(
            "sqlite: off, normal, full or extra; postgres: on, off, local ...",
            panel=DATABASE,
            systems={"postgres": None, "sqlite": "normal"},
            operations={"upsert": None},
            values={"sqlite": _SQLITE, "postgres": _POSTGRES},
            doc=(
                "sqlite: `off`, `normal`, `full`, `extra`: what is waited for; postgres: "
                "`synchronous_commit`: `on`, `off`, `local`, `remote_write`, `remote_apply`"
            ),
            default="`normal`; the server's",
        ),
    ] = None
    dialect: Annotated[
        Nullable[Literal["mysql", "postgres", "sqlite", "duckdb", "akumuli", "opentsdb", "influx"]],
        Setting(
            "empty: statements of mysql, postgres, sqlite or duckdb; points of akumuli, opentsdb or influx. "
            "flightsql: the SQL of its sums and tables.",
            panel=DATABASE,
            systems={"empty": "mysql", "flightsql": None},
            values={"flightsql": ("mysql", "postgres", "sqlite", "duckdb")},
            default="empty: `mysql`; flightsql: by what the server calls itself, else `postgres`",
        ),
    ] = None


class Stored(Akumuli, TimeSeries, Embedded, Cassandra, MySql, Database):
    """Those of systems that keep rows or points."""


class _Own(Shared, Stored, Adbc, Exec, ClickHouse, Charrow, Http, Flight, Login):
    """Those of Venturi's own systems."""


if TYPE_CHECKING:
    Options = _Own
else:
    _PLUGGED = {key: it for plugin in PLUGINS.values() for key, it in plugin.fields.items()}
    Options = create_model("Options", __base__=_Own, **_PLUGGED) if _PLUGGED else _Own
    """All of them, in one table, with those of plugins."""


SETTINGS: dict[str, Setting] = {name: setting_of(field) for name, field in Options.model_fields.items()}
APPLIES: dict[str, frozenset[str]] = {name: frozenset(it.systems) for name, it in SETTINGS.items()}
"""The systems that an option has a meaning for."""
VALUES: dict[tuple[str, str], tuple[str, ...]] = {
    (name, scheme): known for name, it in SETTINGS.items() for scheme, known in it.values.items()
}
"""Values that an option may have in a system, where others have more (the part before a colon)."""
DEFAULTS: dict[str, dict[str, Any]] = {
    scheme: {n: it.systems[scheme] for n, it in SETTINGS.items() if it.systems.get(scheme) is not None}
    for scheme in dict.fromkeys(
        scheme for it in SETTINGS.values() for scheme, usual in it.systems.items() if usual is not None
    )
}
"""What the targets do where an option is null; parameters of a cell name it."""
PARAMETERS = tuple(name for name, it in SETTINGS.items() if it.cell is not None)
"""Options that are parameters of a cell: all that may change a figure."""
ONLY_HERE = frozenset(name for name, it in SETTINGS.items() if it.ours)
"""Options of a store that is started for the run: the trial's spec does not have them."""
