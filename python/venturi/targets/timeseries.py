"""Options of stores of time series."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from venturi.common.suffixes import parse_count
from venturi.targets.fields import Nullable, Table, null, pool_size
from venturi.targets.setting import SEVERAL, Setting
from venturi.targets.system import TIME_SERIES

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
            doc=(
                "`17` significant digits, as `%.17g`, or the `shortest` text that reads back as the same "
                "number"
            ),
        ),
    ] = None
    http_port: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_535)]],
        _series(
            "Port where the store tells what it holds. [default: 8181]", int, cell=None, default="`8181`"
        ),
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
        _series(f"X://local: the store's reader threads.{SEVERAL}", int, ours=True, default="one a CPU"),
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
