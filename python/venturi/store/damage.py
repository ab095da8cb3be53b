"""Whether lines of trials.jsonl are what their schema says: asked after a fault, to tell whose it is.

Every value of every line is looked at, which takes longer than reading them; so nobody asks before something
has gone wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from venturi.targets.parameters import PARAMETERS

_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_NAMES = {int: "integer", float: "number", str: "string", bool: "boolean"}
_MOST_SHOWN = 40


def first(lines: Sequence[Mapping[str, Any]]) -> tuple[int, str] | None:
    """The number (from 0) of the first line that is not what it should be, and what is wrong there."""
    text = (resources.files("venturi") / "schema" / "trial.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    # The schema leaves parameters open; their list says of which kind each is.
    parameters = schema["properties"]["parameters"]["properties"]
    for name, kind in PARAMETERS.items():
        parameters.setdefault(name, {"type": [_NAMES.get(kind, "array"), "null"]})
    for number, line in enumerate(lines):
        for found in _wrong(line, schema, schema, ""):
            return number, found
    return None


def _wrong(value: Any, rule: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """What is wrong in a value: kinds and missing fields, not ranges."""
    if not isinstance(rule, Mapping):
        return
    if "$ref" in rule:
        name = str(rule["$ref"]).rpartition("/")[2]
        yield from _wrong(value, schema["$defs"][name], schema, path)
    if "anyOf" in rule:
        each = [list(_wrong(value, one, schema, path)) for one in rule["anyOf"]]
        if all(each):
            # For "null or an object" the object's faults say more.
            yield from max(each, key=lambda found: len(found[0]))
    kinds = rule.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if "enum" in rule:
        # Another version may have more members, but not of another type.
        kinds = list(dict.fromkeys("null" if one is None else _NAMES[type(one)] for one in rule["enum"]))
    if kinds and not _is(value, kinds):
        shown = json.dumps(value, default=str)
        shown = shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."
        yield f"{path or 'the line'} is {shown}, not {' or '.join(kinds)}"
        return
    if isinstance(value, dict):
        for key in rule.get("required", ()):
            if key not in value:
                yield f"{path or 'the line'} has no {key}"
        properties, others = rule.get("properties", {}), rule.get("additionalProperties")
        for key, inner in value.items():
            yield from _wrong(inner, properties.get(key, others), schema, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        each = rule.get("prefixItems", ())
        if len(value) < rule.get("minItems", 0):
            yield f"{path} has {len(value)} items, not {rule['minItems']}"
        for number, inner in enumerate(value):
            of = each[number] if number < len(each) else rule.get("items")
            yield from _wrong(inner, of, schema, f"{path}[{number}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path} is no finite number"
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield f"{path} is over 64 bits"


def _is(value: Any, kinds: Sequence[str]) -> bool:
    # A bool is an int in Python, not in JSON.
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _KINDS[kind]) for kind in kinds)
