"""`venturi prove`: the self-test of this instrument, on this machine, now."""

from __future__ import annotations

import time
from typing import Any

import typer

from venturi.cli import options
from venturi.cli.options import argument, flag
from venturi.common.errors import ExitCode, ScenarioError, VenturiError
from venturi.common.texts import say
from venturi.targets.parameters import CREDENTIALS

app = typer.Typer(rich_markup_mode=None)

EXAMPLES = """\b
Examples:
  venturi prove
  venturi prove charrow://local --only rate,lies
  venturi prove flight://192.0.2.7:31337 --format json
"""


@app.command(epilog=EXAMPLES)
@options.settings(*CREDENTIALS)
def prove(
    target: str = argument("A URL as for venturi run --target.", "flight://local", metavar="[TARGET]"),
    only: str | None = flag("Parts to make, with commas between them."),
    format: options.Format = flag(
        "table for people; json: every comparison, base units.", options.Format.table
    ),
    quiet: bool = options.QUIET,
    *,
    settings: dict[str, Any],
) -> None:
    """Test this instrument, on this machine, now: it must find a known rate, injected faults, a known
    difference and known answers."""
    from venturi.measure.prove import prove as made
    from venturi.measure.prove.outcome import Outcome, Proof, ProofName, worst
    from venturi.report import proofs as words
    from venturi.targets.urls import check_url

    try:
        url = check_url(target)
    except ValueError as error:
        raise ScenarioError(f"TARGET: {error}") from None
    wanted = _names(only, [name.value for name in ProofName])
    note = (lambda level, text: None) if quiet else say
    found: list[Proof] = []
    began = time.monotonic()
    table = format is options.Format.table
    for proof in made(url, settings, [ProofName(name) for name in wanted], note):
        found.append(proof)
        if table:
            print("\n".join(words.lines(proof)))
    seconds = time.monotonic() - began
    outcome = worst(proof.outcome for proof in found)
    if table:
        print(f"{words.verdict(found)}; {seconds:.1f} s")
    else:
        document = {
            "format": 1,
            "target": url,
            "outcome": outcome.value,
            "seconds": round(seconds, 3),
            "proofs": [proof.document() for proof in found],
        }
        options.print_json(document)
    raise typer.Exit(int(ExitCode.UNPROVEN if outcome is Outcome.FAILED else ExitCode.OK))


def _names(only: str | None, known: list[str]) -> list[str]:
    if only is None:
        return known
    wanted = [name for text in only.split(",") if (name := text.strip())]
    for name in wanted:
        if name not in known:
            raise VenturiError(
                f"--only {name}: no such part of the self-test", hint=f"known: {', '.join(known)}"
            )
    if not wanted:
        raise VenturiError("--only: names nothing", hint=f"known: {', '.join(known)}")
    return wanted
