"""The lines of trials.jsonl: written, read and explained where they are damaged."""

from __future__ import annotations

import contextlib
import errno
import json
import math
from collections.abc import Mapping
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


def _moved(line: Mapping[str, Any]) -> bool:
    counts = line.get("counts")
    return isinstance(counts, dict) and any(counts.values())


def _accept(line: dict[str, Any], path: Path, number: int, seen: dict[str, int]) -> None:
    """What every figure is made of is looked at in every line, for wrong counts and times make wrong figures
    without a word; `what_is_damaged` looks at all the rest when something has gone wrong. `seen` has each
    trial's id with its line: one that is run again has another."""

    def damaged(what: str) -> StoreError:
        return StoreError(f"{path}:{number}: {what}; the file is damaged", hint="take that line out")

    check_version(line, path)
    for name in ("counts", "times"):
        group = line.get(name)
        for key, value in group.items() if isinstance(group, dict) else ():
            if value is not None and (type(value) is not int or not 0 <= value < _MOST):
                shown = f"{json.dumps(value, default=str):.40}"
                raise damaged(f"{name}.{key} is {shown}, not a whole number from 0 to 2^63")
            if value == 0 and key == "interval_ns" and line.get("outcome") == "ok" and _moved(line):
                raise damaged("times.interval_ns is 0 in a good trial")
    trial = line.get("trial") if line.get("kind") == "trial" else None
    if isinstance(trial, str) and (before := seen.setdefault(trial, number)) != number:
        raise damaged(f"trial {trial:.40} is in line {before} already")
    if line.get("error") or line.get("errors"):
        shorten_errors(line)
