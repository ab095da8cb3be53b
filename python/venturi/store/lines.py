"""The lines of trials.jsonl: written, read and explained where they are damaged."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from venturi.common.errors import StoreError
from venturi.common.runtime import without_collector
from venturi.engine.record import Trial
from venturi.engine.spec import FORMAT_VERSION, shortened

T = TypeVar("T")

_WORDS = {
    "Expected": "expected", r" \|": " or", "`": "", r"\bint\b": "a whole number", r"\bstr\b": "text",
    r"\bfloat\b": "a number", r"\bbool\b": "true or false", r"\barray\b": "a list",
    r"\bobject\b": "an object", r" >= (-?\d+)": r" from \1 on", r" <= (\d+)": r" up to \1",
}  # fmt: skip
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


def check_version(version: object, path: Path) -> None:
    if version is not None and (not isinstance(version, int) or version > FORMAT_VERSION):
        raise StoreError(
            f"{path}: written in format {version}, this Venturi reads up to {FORMAT_VERSION}",
            hint="install a newer Venturi: pip install --upgrade venturi",
        )


def read_lines(path: Path, kind: type[T]) -> tuple[list[T], int]:
    """The lines of a file, and how many bytes of a torn last one follow them."""
    decoder = msgspec.json.Decoder(kind)
    lines: list[T] = []
    try:
        # The collector would repeatedly scan millions of objects without a cycle.
        with without_collector(), path.open("rb") as file:
            for number, text in enumerate(file, 1):
                # After a power cut a line's place may hold zeros.
                if (not text.endswith(b"\n") or b"\0" in text) and not file.read(1):
                    return lines, len(text)
                try:
                    lines.append(decoder.decode(text))
                except (msgspec.DecodeError, ValueError, RecursionError) as error:
                    with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
                        check_version(msgspec.json.decode(text, type=_Version).format, path)
                    if not isinstance(error, msgspec.ValidationError) and not file.read(1):
                        return lines, len(text)
                    raise damaged(path, number, in_words(error)) from None
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from None
    return lines, 0


class _Version(msgspec.Struct):
    format: Any = None


def damaged(path: Path, number: int, what: str) -> StoreError:
    hint = "take that line out; if Venturi itself has written it so, please report it"
    return StoreError(f"{path}:{number}: {what}; the file is damaged", hint=hint)


def in_words(error: Exception, field: str = "") -> str:
    """What is wrong in a line, its field first."""
    what, _, place = str(error).partition(" - at ")
    if not isinstance(error, msgspec.ValidationError):
        return f"not JSON: {what.removeprefix('JSON is malformed: ')}"
    for kind, word in _WORDS.items():
        what = re.sub(kind, word, what)
    field += place.strip("`$") if field else place.strip("`$.")
    return f"{field or 'the line'}: {what}"


def read_trials(path: Path) -> list[Trial]:
    """The trials of a run, those included that were run again. Counts and times that cannot be are refused:
    they would make wrong figures without a word."""
    trials = read_lines(path, Trial)[0]
    seen: dict[str, int] = {}
    for number, trial in enumerate(trials, 1):
        check_version(trial.format, path)
        failures: list[Any] = [trial.error, *trial.errors.kinds]
        for failure in failures:
            failure.message = shortened(failure.message)
        moved = trial.outcome == "ok" and any(msgspec.structs.astuple(trial.counts))
        if moved and trial.times.interval_ns == 0:
            raise damaged(path, number, "times.interval_ns is 0 in a good trial")
        if trial.trial and (before := seen.setdefault(trial.trial, number)) != number:
            raise damaged(path, number, f"trial {trial.trial:.40} is in line {before} already")
    return trials
