"""Arguments and options that several commands have alike."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

TYPED = "VENTURI_TYPED"
"""The variable with what was typed, and the command that resumes the run, if that is not `venturi run`."""
AnyRun = Annotated[
    str, typer.Argument(metavar="RUN", help="A run directory, last, or reference:NAME for published figures.")
]
NewestRun = Annotated[
    str, typer.Argument(metavar="RUN", help="A run directory, last (the newest), or reference:NAME.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help='Only cells for which this holds, as in "streams <= 8"; may be repeated.',
        show_default=False,
    ),
]
Threshold = Annotated[
    str, typer.Option("--threshold", help="How much slower a cell may become before the exit code is 8.")
]
Confidence = Annotated[
    str, typer.Option("--confidence", help="Of intervals, and of a difference that is called one.")
]
Unproven = Annotated[
    bool,
    typer.Option("--unproven", help="Go on if the self-test fails, and mark every figure as unproven."),
]
Executor = Annotated[str, typer.Option("--executor", hidden=True, help="core, or a module of tests.")]


class TableOrJson(str, enum.Enum):
    """A table for people, JSON for programs."""

    table = "table"
    json = "json"
