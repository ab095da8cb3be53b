"""Options of ClickHouse."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, StrictStr

from venturi.common.credentials import is_secret_setting
from venturi.targets.charrow import GETS, QUERIES
from venturi.targets.fields import Nullable, Table
from venturi.targets.setting import SEVERAL, Setting
from venturi.targets.system import TABLES

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
            values={"adbc": ("hash", "key", "none")},
            doc=(
                "how the streams of a get share the rows: `hash` or `key` (ranges) of a column, `parts` "
                "of the table, `none`: each reads all"
            ),
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
