"""Options of ClickHouse."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, StrictStr

from venturi.common.credentials import is_secret
from venturi.targets.charrow import QUERIES
from venturi.targets.fields import Nullable, Table
from venturi.targets.setting import SEVERAL, Setting

__all__ = ["ClickHouse"]

_clickhouse = partial(Setting, panel=QUERIES, systems={"clickhouse": None})
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
        Nullable[Literal["arrow", "native", "rowbinary", "parquet"]],
        _clickhouse(
            f"clickhouse: arrow, native, rowbinary or parquet.{SEVERAL}",
            spec="format",
            doc="in what form rows travel: `arrow`, `native`, `rowbinary`, `parquet`",
            default="`arrow`; `native` where the server has no Arrow",
        ),
    ] = None
    split: Annotated[
        # Here "none" is a way to share: every stream reads all.
        Literal["hash", "key", "parts", "none"] | None,
        _clickhouse(
            "clickhouse: how streams share rows: hash, key, parts, or none: each reads all.",
            doc=(
                "how the streams of a get share the rows: `hash` or `key` (ranges) of a column, `parts` "
                "of the table, `none`: each reads all"
            ),
            default="must be given for several streams of `remote` data; else `hash` of the first column",
        ),
    ] = None
    split_by: Annotated[
        Nullable[StrictStr],
        _clickhouse(
            "clickhouse: the column of split hash and key.",
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
