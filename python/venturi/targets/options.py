"""Options of targets: which systems each applies to, and what holds there where nothing is said.

An option that is null leaves the matter to the target.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictStr, create_model

from venturi.common.credentials import is_secret, named, storable_command, tells_secret, without_secrets
from venturi.targets.fields import Nullable, Table, Variable, compression_name, lower_word, setting_of
from venturi.targets.setting import Setting
from venturi.targets.stores import (
    DATABASE,
    Akumuli,
    Cassandra,
    ClickHouse,
    Database,
    Embedded,
    MySql,
    TimeSeries,
)
from venturi.targets.system import PLUGINS
from venturi.targets.transfers import Charrow, Flight, Http, Login

_POSTGRES = ("on", "off", "local", "remote_write", "remote_apply")
_SQLITE = ("off", "normal", "full", "extra")

_BATCHES = ("flight", "flightsql", "http+arrow", "charrow", "clickhouse")
"""Systems whose rows travel as Arrow batches, which may be compressed."""


_exec = partial(Setting, panel="Programs", systems={"exec": None})


class Exec(Table):
    """A program a stream."""

    command: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(storable_command)]],
        _exec(
            'exec: the program of each stream and its arguments, as "cat part-{stream}.arrows".',
            commas="text",
            doc=(
                "the program of each stream, split into words as a shell would, without one; [placeholders]"
                "(targets/exec.md#what-a-program-is-told) as `{stream}` are filled in"
            ),
            default="Venturi's own",
        ),
    ] = None
    writes: Annotated[
        Nullable[Literal["arrow", "csv", "lines"]],
        _exec(
            "exec: what the program of a get writes: arrow, csv or lines.",
            systems={"exec": "arrow"},
            spec="format",
            doc=(
                "what the program of a get writes: `arrow`, an Arrow IPC stream; `csv`, rows below a line of "
                "names; `lines`. Text is counted, and not read"
            ),
        ),
    ] = None


_adbc = partial(Setting, panel="ADBC drivers", systems={"adbc": None})
# Names of options have a secret's word in their middle as well; a header's value says what it is.
_SECRET_NAME = re.compile(r"(?i)authorization|private_?key")
_CREDENTIALS = re.compile(r"(?i)(bearer|basic)\s")


def _words(value: Any) -> Any:
    """Options as a table, or as texts of the form KEY=VALUE."""
    if isinstance(value, dict):
        return [f"{key}={_text(it)}" for key, it in value.items()]
    return [value] if isinstance(value, str) else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _options(value: list[str] | None) -> list[str] | None:
    found: dict[str, str] = {}
    for word in value or ():
        key, equals, text = word.partition("=")
        if not equals or not key.strip():
            # It may be a URI with a password.
            raise ValueError("an option of a driver is written KEY=VALUE, as uri=file.db")
        secret = is_secret(key) or _SECRET_NAME.search(key) or _CREDENTIALS.match(text)
        if tells_secret(text, "") or without_secrets(text) != text or (secret and not named(text)):
            raise ValueError(
                f"the value of {key} would be stored with the run; put it into an environment variable, and "
                "name that by driver_option_env (--driver-option-env KEY=VARIABLE)"
            )
        if key in found:
            raise ValueError(f"{key} is given twice")
        found[key] = text
    return value or None


class Adbc(Table):
    """A driver that is loaded into the client."""

    driver_options: Annotated[
        Nullable[Annotated[list[StrictStr], BeforeValidator(_words), AfterValidator(_options)]],
        _adbc(
            "adbc: KEY=VALUE, an option of the driver; statement:KEY=VALUE, of its statements. Repeatable.",
            flag="--driver-option",
            form="repeated",
            doc=(
                "options of the driver, each `KEY=VALUE`, or a table of them: of its database, as `uri`; of "
                "each connection, `connection:KEY`; of each statement, `statement:KEY`"
            ),
        ),
    ] = None
    driver_option_env: Annotated[
        dict[str, Variable],
        _adbc(
            "adbc: KEY=VARIABLE: an option whose value is in an environment variable. Repeatable.",
            cell=None,
            credential=True,
            doc="the same, of options whose value is in an environment variable: `KEY=VARIABLE`",
            default="none",
        ),
    ] = Field(default_factory=dict)
    driver_entrypoint: Annotated[
        Nullable[Annotated[StrictStr, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]],
        _adbc(
            "adbc: the function of the shared library that makes the driver.",
            cell=None,
            default="by the library's name, or `AdbcDriverInit`",
        ),
    ] = None


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
    (name, scheme): choices for name, it in SETTINGS.items() for scheme, choices in it.values.items()
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
