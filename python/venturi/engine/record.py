"""The types of a trial's record, made from `schema/trial.schema.json`. record.pyi lists them.

What was not measured is None, or an empty group, tuple or mapping: imported results and foreign servers fill
only part of a record. Fields that this version does not know are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Any

import msgspec

_ALWAYS = {"run": "", "trial": "", "cell": "?", "outcome": "", "repeat": 0, "warmup": False}
"""Fields of a trial that are never None."""
_MOST = 2**63 - 1
_SCALARS: dict[str, Any] = {"number": float, "string": str, "boolean": bool}


class Group(msgspec.Struct, gc=False):
    """Fields that belong together. `record.cpu["client"]` is `record.cpu.client`."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, "from_" if name == "from" else name)


class _Filled(Group):
    """A group of groups, tuples or mappings, which are empty where the record has none."""

    def __post_init__(self) -> None:
        for name, empty in self._EMPTY:  # type: ignore[attr-defined]
            if getattr(self, name) is None:
                setattr(self, name, empty)


def _types() -> dict[str, type[Group]]:
    """All groups by the title that the schema gives them."""
    text = (resources.files("venturi") / "schema" / "trial.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    types: dict[str, type[Group]] = {}

    def typed(form: Mapping[str, Any]) -> tuple[Any, Any]:
        """The type of a value, and its place holder where nothing was measured."""
        if "$ref" in form:
            return typed(schema["$defs"][form["$ref"].rpartition("/")[2]])
        if "anyOf" in form:
            return typed(next(each for each in form["anyOf"] if each.get("type") != "null"))
        kind = form.get("type", "integer" if form.get("const") == 1 else "string")
        if isinstance(kind, list):
            kind, *more = (each for each in kind if each != "null")
            if more:
                return Any, None
        if kind == "array":
            least = form.get("minItems", 0)
            fixed = least == form.get("maxItems")
            forms = form.get("prefixItems") or [form["items"]] * (least if fixed else 1)
            items = tuple[(*(typed(each)[0] for each in forms), *(() if fixed else (...,)))]  # type: ignore[misc]
            return items if fixed else Annotated[items, msgspec.Meta(min_length=least)], ()
        if kind == "integer":
            return Annotated[int, msgspec.Meta(ge=form.get("minimum", -_MOST), le=_MOST)], None
        if kind != "object":
            return _SCALARS[kind], None
        if "title" in form:
            group = group_of(form["title"], form["properties"])
            return group, group()
        values = form["additionalProperties"]
        return dict[str, Any if values is True else typed(values)[0]], {}  # type: ignore[misc]

    def group_of(title: str, properties: Mapping[str, Any]) -> type[Group]:
        if title not in types:
            always = _ALWAYS if title == "Trial" else {}
            forms = {name: typed(form) for name, form in properties.items()}
            empty = tuple((name, value) for name, (_, value) in forms.items() if value is not None)
            fields: list[Any] = [
                (
                    f"{name}_" if name == "from" else name,
                    kind if name in always else kind | None,
                    always.get(name),
                )
                for name, (kind, _) in forms.items()
            ]
            base, own = (_Filled if empty else Group), {"_EMPTY": empty}
            types[title] = msgspec.defstruct(
                title, fields, bases=(base,), namespace=own, rename={"from_": "from"}
            )
        return types[title]

    group_of("Trial", schema["properties"])
    return types


TYPES = _types()
globals().update(TYPES)


def is_imported(trial: Any) -> bool:
    """Whether another tool measured it, also where the record does not say which."""
    return any(msgspec.structs.astuple(trial.imported))


def trial_of(line: Mapping[str, Any]) -> Any:
    """The record of a line that was parsed already."""
    return msgspec.convert(line, TYPES["Trial"])
