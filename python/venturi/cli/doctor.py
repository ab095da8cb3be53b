"""`venturi doctor`: what on this machine would spoil a measurement."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from venturi.cli.options import switch

app = typer.Typer(rich_markup_mode=None)


@app.command()
def doctor(
    as_json: bool = switch("A JSON array of the findings.", "--json"),
) -> None:
    """Look for what would spoil a measurement here. Ends with 1 where something would."""
    from venturi.measure import doctor as measure

    findings = measure.doctor()
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            advice = f"; {finding.advice}" if finding.advice else ""
            print(f"{finding.state:<8} {finding.check:<{width}}  {finding.text}{advice}")
    raise typer.Exit(1 if any(finding.state == "warning" for finding in findings) else 0)
