"""`venturi predict`: what a cell that was not measured would do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from venturi.cli import options
from venturi.cli.options import flag
from venturi.common.errors import VenturiError
from venturi.common.texts import say

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi predict last --streams 32
  venturi predict last --streams 32 --set rows_per_batch=4096 --set operation=get
  venturi predict last --set rows_per_stream=1G
  venturi predict last --link "25gbit 0.5ms"
  venturi predict reference:cartesius-remote --streams 16
"""


@app.command(epilog=EPILOG)
def predict(
    run: str = options.RUN,
    streams: int | None = flag("How many streams to predict.", min=1),
    link: str | None = flag(
        'A link to predict for, from others that were measured: "25gbit 0.5ms", or a name as wifi6.',
        metavar="LINK",
    ),
    settings: list[str] | None = flag(
        "A parameter of the cell: the one to predict along, or a measured value of another.",
        None,
        "--set",
        metavar="KEY=VALUE",
    ),
    repeats: int = flag(
        "The interval is for the median of so many new trials; over links, of as many as each has.", 5, min=1
    ),
    format: options.Format = options.FORMAT,
) -> None:
    """Predict the throughput of a cell that was not measured, with a 95 % prediction interval."""
    from venturi.analysis.models import predict as prediction
    from venturi.report.document import Bullets, Document, Section

    wanted = _wanted({"streams": streams, "link": link}, settings or [])
    if not wanted:
        raise VenturiError("nothing to predict: name a value", hint="venturi predict last --streams 32")
    left_out: list[str] = []
    made = prediction.predict(options.read(run).cells, wanted, repeats, left_out)
    for reason in left_out:
        say("warning", reason)
    if format is options.Format.json:
        rows = [asdict(one) | {"extrapolation": one.extrapolation, "text": one.sentence} for one in made]
        options.print_json({"predictions": rows})
        return
    options.print_document(
        Document(
            "Predictions",
            [Section(one.statements[0], [Bullets(one.statements[1:], "")], "strong") for one in made],
        )
    )


def _wanted(options: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """`--set KEY=VALUE` with numbers as the scenario language spells them: 10M, 2s."""
    from venturi.common.suffixes import parse_count

    wanted: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        key = key.strip().rpartition(".")[2]
        if not equals or not key:
            raise VenturiError(f"--set {text}: write KEY=VALUE, as in rows_per_batch=4096")
        if key in wanted:
            raise VenturiError(f"--set {key}: given twice")
        try:
            wanted[key] = parse_count(value.strip())
        except ValueError:
            wanted[key] = {"true": True, "false": False, "none": None}.get(value.strip(), value.strip())
    for name, value in options.items():
        if value is not None and name in wanted:
            raise VenturiError(f"--{name} and --set {name} both name the {name}; keep one")
        if value is not None:
            wanted[name] = value
    return wanted
