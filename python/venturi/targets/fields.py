"""Types that the options of several systems share."""

from __future__ import annotations

import re
from dataclasses import replace
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictStr
from pydantic.fields import FieldInfo

from venturi.common.credentials import environment_variable
from venturi.common.suffixes import parse_count, spell_duration
from venturi.targets.setting import Setting
from venturi.targets.system import STAGES, handicap_ns


class Table(BaseModel):
    """A table of the scenario: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def setting_of(field: FieldInfo) -> Setting:
    """What a field says beside its type. A field without it is a mistake of ours."""
    (found,) = (it for it in field.metadata if isinstance(it, Setting))
    kind = found.kind or _kind(field.annotation)
    form = "pairs" if kind is dict else found.form
    commas = "list" if get_origin(kind) is list else found.commas
    return replace(found, kind=kind, form=form, commas=commas)


def _kind(hint: Any) -> Any:
    """Of a value of this type: beside null and words, else a text."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _kind(inner[0])
    if origin in (Union, UnionType):
        kinds = [_kind(it) for it in inner if it is not NoneType and get_origin(it) is not Literal]
        return kinds[0] if kinds else str
    if origin is list:
        return GenericAlias(list, (_kind(inner[0]),))
    return dict if origin is dict else hint if hint in (int, float, bool) else str


def null(value: Any) -> Any:
    """TOML has no null: "none" takes a default back."""
    return None if value in ("none", "null") else value


def texts(value: Any) -> Any:
    """Several texts: ["a", "b"], or "a,b"."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def statements(value: Any) -> Any:
    # A comma is part of SQL.
    return [value] if isinstance(value, str) else value


def _some(value: list[str] | None) -> list[str] | None:
    if value is not None and not value:
        raise ValueError("names no column")
    if value is not None and len(set(value)) < len(value):
        raise ValueError(f"names {next(v for v in value if value.count(v) > 1)} twice")
    return value


T = TypeVar("T")
Nullable = Annotated[T | None, BeforeValidator(null)]
"""What may be null, which is written "none"."""
Names = Annotated[Nullable[Annotated[list[StrictStr], BeforeValidator(texts)]], AfterValidator(_some)]
"""Columns: ["a", "b"] or "a,b"."""
Counted = Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_536)]]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def identifier(value: Any) -> Any:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name: letters, digits and _, at most 63, no digit first")
    return value


Variable = Annotated[str, BeforeValidator(environment_variable)]


def user_name(value: str) -> str:
    if ":" in value:
        raise ValueError("must be a name alone; its password is in the variable that password_env names")
    return value


def compression_name(value: Any) -> Any:
    """lz4, zstd (level 3, as everywhere), zstd:LEVEL; snappy for Cassandra."""
    forms = "lz4, zstd, zstd:LEVEL with a level of 1 to 22, snappy, or none"
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not one of {forms}")
    if value in ("lz4", "zstd", "snappy"):
        return value
    found = re.fullmatch(r"zstd:(\d{1,3})", value)
    if found is None or not 1 <= int(found.group(1)) <= 22:
        raise ValueError(f"{value!r} is not one of {forms}")
    level = int(found.group(1))
    return "zstd" if level == 3 else f"zstd:{level}"


def handicap_text(value: Any) -> Any:
    """A handicap in one spelling: stages in the order of the pipeline, the shortest exact times."""
    if isinstance(value, dict):
        value = "+".join(f"{stage}={time}" for stage, time in value.items())
    if not isinstance(value, str):
        raise ValueError('must be written "decode=200us"')
    found = handicap_ns(value)
    return "+".join(f"{stage}={spell_duration(found[stage])}" for stage in STAGES if stage in found)


def lower_word(value: Any) -> Any:
    # TOML and YAML users write on and off without quotes.
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


def pool_size(value: Any) -> Any:
    from venturi.common.environment import usable_cores

    return usable_cores() if value in ("cpus", "cores") else parse_count(value)


def number_or_auto(value: Any) -> Any:
    from venturi.common.environment import usable_cores

    if value == "auto":
        return value
    return usable_cores() if value in ("cpus", "cores") else parse_count(value)
