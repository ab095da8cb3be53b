"""The lines of trials.jsonl: written, read and explained where they are damaged."""

from __future__ import annotations

import contextlib
import errno
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from venturi.common.errors import StoreError
from venturi.common.runtime import without_collector
from venturi.engine.spec import FORMAT_VERSION, shorten_errors

_FULL = (errno.ENOSPC, errno.EDQUOT)


def line_text(line: Mapping[str, Any]) -> str:
    """A line as stored, and as `--json` prints it. JSON has no infinity and no NaN."""
    try:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(line), ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


@contextlib.contextmanager
def explained(path: Path) -> Any:
    """Turns what the operating system says into an error for users."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreError(
                f"{path}: the disk is full; trials stored before are safe",
                hint="make room, then go on with --resume",
            ) from None
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from None


def check_version(document: Mapping[str, Any], path: Path) -> None:
    version = document.get("format", FORMAT_VERSION)
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise StoreError(
            f"{path}: written in format {version}, this Venturi reads up to {FORMAT_VERSION}",
            hint="install a newer Venturi: pip install --upgrade venturi",
        )


_CHUNK = 1 << 20
"""Bytes of lines that are parsed at once."""


def read_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The lines of a file, and how many bytes of a torn last one follow them."""
    lines: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    number = 0
    try:
        # The collector would repeatedly scan millions of objects without a cycle.
        with without_collector(), path.open("rb") as file:
            while chunk := file.readlines(_CHUNK):
                found = _parsed(chunk)
                if found is None:
                    return _with_torn_end(path, lines, seen, number, chunk + file.readlines())
                for at, line in enumerate(found, number + 1):
                    _accept(line, path, at, seen)
                lines += found
                number += len(chunk)
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from None
    return lines, 0


class _NoNumber(ValueError):
    """JSON that Python takes and that no number of ours can be."""


def _refuse(name: str) -> Any:
    raise _NoNumber(f"{name} is no number")


_JSON = json.JSONDecoder(parse_constant=_refuse)
"""Says what is wrong, and reads what only Python takes for JSON; both are rare."""
_MOST = 2**63


def _parsed(chunk: list[bytes]) -> list[dict[str, Any]] | None:
    """Whole lines as objects; None where any of them is not exactly one object."""
    if not chunk[-1].endswith(b"\n"):
        return None
    try:
        found: list[dict[str, Any]] = orjson.loads(b"[%b]" % b",".join(chunk))
    except ValueError:
        return None
    # Invalid lines can be valid when joined: "{" and "}", or "{},{}".
    if len(found) != len(chunk) or not all(isinstance(line, dict) for line in found):
        return None
    if not all(line.startswith(b"{") and line.endswith(b"}\n") for line in chunk):
        return None
    return found


def _with_torn_end(
    path: Path, lines: list[dict[str, Any]], seen: dict[str, int], number: int, rest: list[bytes]
) -> tuple[list[dict[str, Any]], int]:
    """Goes on line by line; only the very last one may be torn."""
    for at, text in enumerate(rest):
        line: Any = None
        try:
            line = _JSON.decode(text.decode())
        except _NoNumber as error:
            raise StoreError(f"{path}:{number + at + 1}: {error}; the file is damaged") from None
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict) or not text.endswith(b"\n"):
            # After a power cut a line's place may hold zeros: torn as well, if it is the last.
            if at == len(rest) - 1:
                return lines, len(text)
            raise StoreError(f"{path}:{number + at + 1}: not a JSON object; the file is damaged")
        _accept(line, path, number + at + 1, seen)
        lines.append(line)
    return lines, 0


def _accept(line: dict[str, Any], path: Path, number: int, seen: dict[str, int]) -> None:
    """What every figure is made of is looked at in every line, for wrong counts and times make wrong figures
    without a word; `what_is_damaged` looks at all the rest when something has gone wrong. `seen` has each
    trial's id with its line: one that is run again has another."""

    def damaged(what: str) -> StoreError:
        return StoreError(f"{path}:{number}: {what}; the file is damaged", hint="take that line out")

    check_version(line, path)
    counts = line.get("counts")
    for name in ("counts", "times"):
        group = line.get(name)
        for key, value in group.items() if isinstance(group, dict) else ():
            if value is not None and (type(value) is not int or not 0 <= value < _MOST):
                shown = f"{json.dumps(value, default=str):.40}"
                raise damaged(f"{name}.{key} is {shown}, not a whole number from 0 to 2^63")
            if value == 0 and key == "interval_ns" and line.get("outcome") == "ok":
                if not isinstance(counts, dict) or not any(counts.values()):
                    continue
                raise damaged("times.interval_ns is 0 in a good trial")
    trial = line.get("trial") if line.get("kind") == "trial" else None
    if isinstance(trial, str) and (before := seen.setdefault(trial, number)) != number:
        raise damaged(f"trial {trial:.40} is in line {before} already")
    if line.get("error") or line.get("errors"):
        shorten_errors(line)


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


def first_damage(lines: Sequence[Mapping[str, Any]]) -> tuple[int, str] | None:
    """The number (from 0) of the first line that is not what its schema says, and what is wrong there: asked
    after a fault, to tell whose it is. Every value is looked at, which takes longer than reading them."""
    from venturi.targets.parameters import PARAMETERS

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
        properties, rest = rule.get("properties", {}), rule.get("additionalProperties")
        for key, inner in value.items():
            yield from _wrong(inner, properties.get(key, rest), schema, f"{path}.{key}" if path else key)
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
