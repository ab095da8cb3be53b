"""TOML in and out: where a key stands in a file, and a small writer.

The writer covers what scenarios hold (strings, numbers, booleans, lists, tables);
what it writes reads back equal.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from venturi.common.errors import ScenarioError

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same parser, from before it joined the standard library
    import tomli as tomllib

__all__ = ["dump", "line_of", "parse", "parse_value"]

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=(?!=)")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def parse(text: str, name: str) -> dict[str, Any]:
    """Reads TOML. Raises ScenarioError naming the file and the line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        line = found.group(1) if found else str(text.count("\n") + 1)
        reason = re.sub(r"\s*\(at [^)]*\)", "", str(error))
        raise ScenarioError(f"{name}:{line}: not valid TOML: {reason}") from None
    except RecursionError:
        raise ScenarioError(f"{name}:1: not valid TOML: nested too deeply") from None


def parse_value(text: str) -> Any:
    """The value of `--set key=value`: TOML where it is TOML, else the text itself."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return found["value"] if set(found) == {"value"} else text


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted)]


def line_of(text: str, path: Sequence[str]) -> int | None:
    """The line (from 1) on which the key `path` stands, or the closest thing above it that does."""
    table: list[str] = []
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header.group(1))
            found = table
        elif key := _KEY.match(line):
            found = table + _parts(key.group(1))
        else:
            continue
        if list(path[: len(found)]) == found and (best is None or len(found) > best[0]):
            best = (len(found), number)
    return best[1] if best else None


def dump(document: Mapping[str, Any], comment: str = "") -> str:
    """Writes a document; None values are left out."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    _dump_table(document, [], lines)
    return "\n".join(lines).strip("\n") + "\n"


def _dump_table(table: Mapping[str, Any], path: list[str], lines: list[str]) -> None:
    plain = {
        key: value for key, value in table.items() if not isinstance(value, Mapping) and value is not None
    }
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (plain or not tables):
        lines += ["", f"[{'.'.join(_key(part) for part in path)}]"]
    lines += [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    for key, value in tables.items():
        _dump_table(value, [*path, key], lines)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    out = []
    for character in text:
        if character in '"\\':
            out.append("\\" + character)
        elif character == "\n":
            out.append("\\n")
        elif character == "\t":
            out.append("\\t")
        elif ord(character) < 0x20 or ord(character) == 0x7F:
            out.append(f"\\u{ord(character):04x}")
        else:
            out.append(character)
    return '"' + "".join(out) + '"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
        text = repr(value)
        return text if any(mark in text for mark in ".e") else f"{text}.0"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"{type(value).__name__} has no TOML spelling")
