"""`venturi ceilings`: the physical limits of this machine, and of the way to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from venturi.cli import options, output
from venturi.cli.options import argument, flag
from venturi.common.errors import ExitCode
from venturi.common.texts import say
from venturi.targets.parameters import CREDENTIALS

if TYPE_CHECKING:
    from venturi.measure.limits import Ceilings

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi ceilings
  venturi ceilings flight://host:31337 --streams 1,2,4,8
  venturi ceilings --only memory,codec --data rows.parquet --compression zstd:9
  venturi ceilings --only disk --disk /mnt/data --format json
"""


@app.command(epilog=EPILOG)
@options.settings("columns", "values", *CREDENTIALS)
def ceilings(
    url: str | None = argument(
        "A `venturi serve` on another host, to measure the way there as well.", metavar="[URL]"
    ),
    only: str | None = flag("Kinds: memory, tcp, unix, pipe, disk, cipher, codec, engine."),
    streams: str = flag("Numbers of connections, as 1,2,4 or 1..8.", "1,2,4"),
    message_bytes: str | None = flag("Payload of a batch, as 128Ki. [default: 128Ki]"),
    rows_per_batch: str | None = flag("The same as rows of the data."),
    data: str = flag("What codecs work on: records, builtin:birdstrikes, or a file.", "records"),
    compression: str | None = flag("A codec besides lz4 and zstd, as zstd:9."),
    disk: Path = flag("Directory whose disk is written to.", Path()),
    repeats: int = flag("Times each is measured.", 5, min=1, max=100),
    duration: str | None = flag("Time of one repeat. [default: 100ms to 300ms by kind]"),
    format: options.Format = flag(
        "table for people; json: limits and single repeats, base units.", options.Format.table
    ),
    quiet: bool = options.QUIET,
    executor: str = options.EXECUTOR,
    *,
    settings: dict[str, Any],
) -> None:
    """Measure the limits of transfers here, each by itself: memory, sockets, disk, codecs, Venturi."""
    given = dict(locals()) | settings
    from venturi.cli.run import executed_by
    from venturi.measure import limits

    progress = _Progress(quiet)
    with executed_by(executor) as engine:
        found = limits.measure(given, engine, _unsaid if quiet else say, progress)
    progress.close()
    _print(found, format, url)
    raise typer.Exit(int(found.exit_code))


def _unsaid(level: str, text: str) -> None:
    pass


class _Progress(output.LiveLine):
    """What is being measured, on standard error: one line in place, or one a limit."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(not quiet)
        self._quiet = quiet
        self._printed: set[str] = set()

    def __call__(self, number: int, total: int, text: str) -> None:
        self.draw(f"{number} of {total}: {text}")
        if not (self.live or self._quiet or text in self._printed):
            self._printed.add(text)
            say("info", f"measuring {text}")


def _print(measured: Ceilings, format: options.Format, url: str | None) -> None:
    from venturi.measure.trial_targets import start_a_server
    from venturi.report import limits as shown
    from venturi.targets.urls import check_url

    found, last = measured.limits, measured.narrowest
    if format is options.Format.json:
        options.print_json(
            shown.machine(found, last, measured.packings, measured.lines, measured.interrupted)
        )
    else:
        options.print_document(shown.document(found, last, measured.packings))
    if measured.interrupted:
        say("warning", "interrupted; these are the limits measured until then" if found else "interrupted")
    for limit in found:
        if limit.error is not None:
            level = "error" if limit.fields["kind"] in ("tcp", "unix") else "warning"
            say(level, f"{limit.title}: {limit.error}")
    if measured.exit_code is ExitCode.UNREACHABLE and url is not None:
        say("hint", start_a_server(check_url(url)))
    elif measured.unsupported:
        say(
            "hint",
            "start one on that host, and name it: venturi serve flight --host 0.0.0.0 --port 31338 there, "
            "then venturi ceilings flight://HOST:31338",
        )
