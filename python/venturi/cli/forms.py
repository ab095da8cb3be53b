"""Arguments and options that several commands have alike."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

AnyRun = Annotated[
    str, typer.Argument(metavar="RUN", help="A run directory, last, or reference:NAME for published figures.")
]
NewestRun = Annotated[
    str, typer.Argument(metavar="RUN", help="A run directory, last (the newest), or reference:NAME.")
]
Executor = Annotated[str, typer.Option("--executor", hidden=True, help="core, or model for tests.")]


class TableOrJson(str, enum.Enum):
    """A table for people, JSON for programs."""

    table = "table"
    json = "json"
