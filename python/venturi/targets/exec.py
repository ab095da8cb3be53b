"""Options of programs that write rows to their standard output, or read them from their standard input."""

from __future__ import annotations

import shlex
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, StrictStr

from venturi.common.credentials import INSTEAD, command_tells_secret
from venturi.targets.fields import Nullable, Table
from venturi.targets.setting import Setting

_exec = partial(Setting, panel="Programs", systems={"exec": None})


def words(command: str) -> list[str]:
    """The program and its arguments, as a shell would split them; no shell is asked. Raises ValueError where
    that cannot be done, or where nothing stands there."""
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{command!r}: {str(error).lower()}") from None
    if not found or not found[0]:
        raise ValueError("names no program")
    return found


def without_secret(value: str | None) -> str | None:
    """A command that may be stored. Raises ValueError where it has a secret in it, or is none."""
    if value is not None and command_tells_secret(words(value)):
        raise ValueError(f"a secret in it would be stored with the run; {INSTEAD}")
    return value


class Exec(Table):
    """A program a stream."""

    command: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(without_secret)]],
        _exec(
            'exec: the program of each stream and its arguments, as "cat part-{stream}.arrows".',
            commas="text",
            doc=(
                "the program of each stream, split into words as a shell would, without one; [placeholders]"
                "(targets/exec.md#what-a-program-is-told) as `{stream}` are filled in"
            ),
            default="Venturi's own",
        ),
    ] = None
    writes: Annotated[
        Nullable[Literal["arrow", "csv", "lines"]],
        _exec(
            "exec: what the program of a get writes: arrow, csv or lines.",
            systems={"exec": "arrow"},
            spec="format",
            doc=(
                "what the program of a get writes: `arrow`, an Arrow IPC stream; `csv`, rows below a line of "
                "names; `lines`. Text is counted, and not read"
            ),
        ),
    ] = None
