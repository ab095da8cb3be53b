"""`venturi ab`: two builds of a server in one run, trial by trial in turns."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from venturi.cli import options
from venturi.cli.options import argument, flag
from venturi.common import runtime
from venturi.common.errors import ExitCode, VenturiError
from venturi.servers.throwaway.guard import die_with

app = typer.Typer(rich_markup_mode=None, add_completion=False)

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
    base: str = argument("The old one: a URL, or a command that starts it at {port}.", ..., metavar="BASE"),
    head: str = argument("The new one, likewise.", ..., metavar="HEAD"),
    run: list[str] | None = argument("What `venturi run` measures, of both alike.", metavar="OPTIONS OF RUN"),
    url: str = flag("Where a server that a command starts is found.", "flight://127.0.0.1:{port}"),
    out: Path | None = flag("Run directory to make. [default: venturi-runs/TIME-ab]"),
    resume: Path | None = flag("Go on with this run; BASE and HEAD as before."),
    threshold: str = options.THRESHOLD,
    confidence: str = options.CONFIDENCE,
) -> None:
    """Is HEAD slower than BASE? Measures both in one run, whose trials take turns, and compares."""
    from venturi.servers.commanded import address

    at_most, level = options.share("--threshold", threshold), options.share("--confidence", confidence, 0.5)
    made = resume or out or Path("venturi-runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-ab"
    words = list(run or [])
    planned = "--dry-run" in words
    sides, places = {"base": base, "head": head}, {} if resume is None else _places(resume)
    with runtime.interrupting(), contextlib.ExitStack() as servers:
        found = {name: address(where, places.get(name, url), servers) for name, where in sides.items()}
        if resume is not None:
            words = ["--resume", str(resume), *words]
        else:
            words = ["--out", str(made), *words]
            words += [word for name, at in found.items() for word in ("--place", f"{name}={at}")]
            if not any(word.partition("=")[0] == "--repeats" for word in words):
                words += ["--repeats", str(_REPEATS)]
        again = shlex.join(["venturi", "ab", base, head, "--resume", str(made)])
        code = _measured(words, planned, again)
    if planned:
        raise typer.Exit(code)
    if code not in (ExitCode.OK, ExitCode.TRIALS_FAILED):
        raise typer.Exit(code)
    raise typer.Exit(_compared(made, level, at_most) or code)


def _places(run: Path) -> dict[str, str]:
    """Where the servers of a run of `ab` are. Raises VenturiError where it is none."""
    from venturi.measure.run_events import scenario_of
    from venturi.store.directory import RunDirectory

    found = dict(scenario_of(RunDirectory(run)).places)
    if not {"base", "head"} <= set(found):
        raise VenturiError(f"--resume {run}: is not a run of ab", hint=f"venturi run --resume {run}")
    return found


def _measured(words: Sequence[str], planned: bool, again: str) -> int:
    """The exit code of `venturi run`, a process of its own: its options are those of that, and so are its
    errors. It ends with this one: without its servers each trial would fail, and be kept."""
    with subprocess.Popen(
        [sys.executable, "-m", "venturi", "run", *words],
        stdout=None if planned else subprocess.DEVNULL,
        env={**os.environ, options.TYPED: json.dumps([sys.argv, again])},
        start_new_session=True,
        preexec_fn=die_with(os.getpid(), signal.SIGKILL),
    ) as child:
        for number in runtime.ending():
            signal.signal(number, lambda number, _: child.send_signal(number))
        return child.wait()


def _compared(made: Path, confidence: float, threshold: float) -> int:
    """Prints the comparison; its exit code."""
    from rich.console import Console

    from venturi.analysis.compare.runs import compare_by, worst
    from venturi.analysis.results import load
    from venturi.report import comparison

    # One for HEAD, and one for each further --place.
    found = compare_by(load(str(made)), "place", "base", confidence=confidence, threshold=threshold)
    for one in found:
        options.print_document(comparison.document(one, Console().width))
        print()
    print(f"run: {made}; for a pull request: venturi compare {made} --by place=base --format markdown")
    return int(worst(found))
