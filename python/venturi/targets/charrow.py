"""Options of charrow."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.suffixes import parse_count
from venturi.targets.fields import Table, null, number_or_auto, pool_size

__all__ = ["Charrow"]


def _version(value: Any) -> Any:
    # TOML users leave the quotes out.
    return str(value) if isinstance(value, float) else value


class Charrow(Table):
    """Arrow blocks over TCP, one query shared by its partitions."""

    encoders: Annotated[
        Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] | None,
        BeforeValidator(number_or_auto),
        BeforeValidator(null),
    ] = None
    decoders: Annotated[
        Annotated[int, BeforeValidator(pool_size), Field(ge=0, le=256)] | None, BeforeValidator(null)
    ] = None
    query: Annotated[StrictStr | None, BeforeValidator(null)] = None
    wire_version: Annotated[
        Literal["1.1", "1.2"] | None, BeforeValidator(_version), BeforeValidator(null)
    ] = None
    block_checksum: StrictBool = False
    max_block_size: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**40)] | None, BeforeValidator(null)
    ] = None
