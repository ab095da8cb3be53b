"""`venturi ab`: two builds of a server in one run, trial by trial in turns."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from venturi.cli import forms
from venturi.common.errors import ExitCode

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi ab flight://127.0.0.1:4001 flight://127.0.0.1:4002 --operation get --streams 1,4
  venturi ab "old/server --port {port}" "new/server --port {port}" --operation get,put
  venturi ab "old/db -p {port}" "new/db -p {port}" --url postgres://me@127.0.0.1:{port}/test --duration 2s
"""
_REPEATS = 10
"""More than a run has by default: a difference of some percent is looked for."""


@app.command(epilog=EPILOG, context_settings={"ignore_unknown_options": True})
def ab(
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE",
            help="The old one: a URL, or a command that starts it at {port}.",
            show_default=False,
        ),
    ],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="The new one, likewise.", show_default=False)],
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OPTIONS OF RUN]...",
            help="What `venturi run` measures, of both alike.",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str, typer.Option("--url", help="Where a server that a command starts is found.")
    ] = "flight://127.0.0.1:{port}",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Run directory to make. [default: venturi-runs/TIME-ab]", show_default=False
        ),
    ] = None,
    threshold: forms.Threshold = "3%",
    confidence: forms.Confidence = "95%",
) -> None:
    """Is HEAD slower than BASE? Measures both in one run, whose trials take turns, and compares."""
    from venturi.cli.parsing import share

    at_most, level = share("--threshold", threshold), share("--confidence", confidence, 0.5)
    made = out or Path("venturi-runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-ab"
    words = list(run or [])
    planned = "--dry-run" in words
    if not any(word.partition("=")[0] == "--repeats" for word in words):
        words += ["--repeats", str(_REPEATS)]
    with contextlib.ExitStack() as servers:
        places = [
            word
            for name, where in (("base", base), ("head", head))
            for word in ("--place", f"{name}={_address(where, url, servers)}")
        ]
        # A process of its own: its options are those of `venturi run`, and so are its errors.
        code = subprocess.call(
            [sys.executable, "-m", "venturi", "run", *places, "--out", str(made), *words],
            stdout=None if planned else subprocess.DEVNULL,
        )
    if planned:
        raise typer.Exit(code)
    if code not in (ExitCode.OK, ExitCode.TRIALS_FAILED):
        raise typer.Exit(code)
    raise typer.Exit(_compared(made, level, at_most) or code)


def _address(where: str, url: str, servers: contextlib.ExitStack) -> str:
    if re.match(r"[\w+.-]+://", where):
        return where
    from venturi.servers.commanded import PORT, Commanded

    return url.replace(PORT, str(servers.enter_context(Commanded(where))))


def _compared(made: Path, confidence: float, threshold: float) -> int:
    """Prints the comparison; its exit code."""
    from rich.console import Console

    from venturi.analysis.compare.runs import compare_by, worst
    from venturi.analysis.results import load
    from venturi.report.text import comparison

    # One for HEAD, and one for each further --place.
    found = compare_by(load(str(made)), "place", "base", confidence=confidence, threshold=threshold)
    for one in found:
        comparison.print_comparison(one, Console())
        print()
    print(f"run: {made}; for a pull request: venturi compare {made} --by place=base --format markdown")
    return int(worst(found))
