"""TOML in and out, and where a key stands in a file."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import tomli_w

from venturi.common.errors import ScenarioError

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=(?!=)")


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


@functools.lru_cache(maxsize=256)
def line_of(text: str, path: tuple[str, ...]) -> int | None:
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
    """Writes a document; None values are left out. Lists stand in one line."""
    text = tomli_w.dumps(_without_none(document), indent=0)
    # Within a list only, a line ends with a bracket that opens or with a comma.
    text = text.replace("[\n", "[").replace(",\n]", "]").replace(",\n", ", ")
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return head + text.rstrip("\n") + "\n"


def _without_none(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {key: _without_none(value) for key, value in found.items() if value is not None}
    return [_without_none(item) for item in found] if isinstance(found, list | tuple) else found
