"""Options of stores of time series."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from venturi.common.suffixes import parse_count
from venturi.targets.fields import Table, null, pool_size

__all__ = ["Akumuli", "TimeSeries"]


def _digits(value: Any) -> Any:
    return 17 if value in ("17", "exact") else value


class TimeSeries(Table):
    """Stores of time series."""

    digits: Annotated[Literal[17, "shortest"] | None, BeforeValidator(_digits), BeforeValidator(null)] = None
    http_port: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_535)] | None, BeforeValidator(null)
    ] = None
    # Of a store that is started for the run.
    durable: Literal["none", "os", "fsync"] | None = None
    pool: Annotated[
        Annotated[int, BeforeValidator(pool_size), Field(ge=1, le=256)] | None, BeforeValidator(null)
    ] = None


class Akumuli(Table):
    """Akumuli's RESP."""

    messages: Annotated[Literal["rows", "values", "dictionary"] | None, BeforeValidator(null)] = None
