"""Standard output and standard error where they cannot be written as usual.

A reader may leave (`| head`), a disk be full, a terminal closed, an encoding lack a letter. Standard error
is for the eyes: where nobody sees it, it goes nowhere. Of standard output the first failure ends a command
that only prints, and `outcome` says how; a command that measures calls `go_on` and is told once. What is
written later, as Python's buffers at the end, goes nowhere.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from venturi.common.errors import StoreError

_ESCAPES = "venturi-escapes"


class _Stream(io.FileIO):
    """A descriptor that takes everything once it has failed; `on_error` hears of it, or the writer does."""

    def __init__(self, descriptor: int, on_error: Callable[[OSError], None] | None = None) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.on_error = on_error
        self.trouble: OSError | None = None

    def write(self, data: Any) -> int:
        if self.trouble is None:
            try:
                return super().write(data)
            except OSError as error:
                self.trouble = error
                if self.on_error is None:
                    raise
                self.on_error(error)
        return memoryview(data).nbytes


_output: _Stream | None = None


def prepare() -> None:
    """Puts our streams in place of Python's; where a program has put its own there, they stay."""
    global _output
    codecs.register_error(_ESCAPES, _escaped)
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started us
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if sys.stdout is sys.__stdout__:
        _output = _Stream(1)
        sys.stdout = _text(_output, sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(_Stream(2, on_error=lambda error: None), sys.stderr)


def _text(raw: _Stream, before: Any) -> io.TextIOWrapper:
    before.flush()
    errors = before.errors if before.errors not in ("strict", "surrogateescape") else _ESCAPES
    return io.TextIOWrapper(
        # As `python -u` has it, and PYTHONUNBUFFERED.
        raw if before.write_through else io.BufferedWriter(raw),
        before.encoding,
        errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )


def _escaped(error: UnicodeError) -> tuple[str, int]:
    r"""Letters that the encoding lacks, as \u00e9: what JSON takes for the letter itself."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(json.dumps(letter)[1:-1] for letter in error.object[error.start : error.end]), error.end


def go_on(note: Callable[[str, str], None] | None, kept: object = None) -> None:
    """From now on standard output may fail: the command goes on, and `note` is told once, with the place
    where its results are kept. Without `note` there is nothing left to go on with."""

    def warn(error: OSError) -> None:
        why = "its reader has left" if isinstance(error, BrokenPipeError) else error.strerror
        if note is not None:
            note("warning", f"standard output: {why}; the run goes on, and {kept} has its results")

    if _output is not None:
        _output.on_error = warn


def trouble() -> OSError | None:
    """What standard output has failed with."""
    return _output.trouble if _output is not None else None


def outcome(found: BaseException | None) -> BaseException | None:
    """What a command ends with that has ended with `found` (None: well), when what became of standard output
    is known too. None again: well."""
    failed = trouble()
    if failed is None or _output is None:
        return found
    if _output.on_error is None:
        # The first write that failed has ended it, whatever was made of that error on its way.
        found = None
    well = found is None or (isinstance(found, SystemExit) and not found.code)
    if isinstance(failed, BrokenPipeError) or not well:
        return found
    return StoreError(
        f"standard output cannot be written: {failed.strerror}", hint="make room there, or write elsewhere"
    )


class LiveLine:
    """A line on standard error that is drawn again in place; nothing if that is no terminal."""

    def __init__(self, wanted: bool = True) -> None:
        self.live = wanted and sys.stderr.isatty()

    def draw(self, text: str) -> None:
        if self.live:
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        self.draw("")
