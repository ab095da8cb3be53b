"""A run on the terminal: headline, a table an operation, failed trials, warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from venturi.analysis.cells.choice import representative
from venturi.analysis.cells.summary import Cell, by_operation
from venturi.analysis.proven import unproven
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.report import hosts, proofs, published, reason, several, summary, versions
from venturi.report import models as fits
from venturi.report.cell import example

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
from venturi.report.wrap import wrap

GAP = 2
"""Spaces between columns."""
MOST_FAILURES = 20
MOST_FINDINGS = 6
MOST_ROWS, BEST_ROWS = 60, 30
"""Rows of a table that are printed, and how many of the best where there are more."""


def print_results(results: Results, console: Console, names: Sequence[str] = ()) -> None:
    """Prints a run.

    Readable at 80 columns: figures that find no room are left out and named, unless `names` says which
    columns to show. Colours and rules disappear where `console` is no terminal; nothing from the run is taken
    for markup. Raises `VenturiError` for a name that no column has.
    """
    from rich.text import Text

    def say(text: str, style: str = "") -> None:
        for line in wrap(text, console.width):
            console.print(Text(line, style=style))

    groups = by_operation(results.cells)
    shown = {operation: _in_sight(cells) for operation, cells in groups.items()}
    tables = [
        summary.columns(cells, bool(names), reason.column(results, cells), unproven(results.environment))
        for cells in shown.values()
    ]
    tables = summary.named(tables, names) if names else tables
    for line in (*summary.headline(results), *versions.headline(results)):
        say(line, "bold")
    facts = [summary.counts(results), summary.common(results), summary.verified(results)]
    say("; ".join(f for f in facts if f), "dim")
    if told := proofs.headline(results.environment):
        say(told, "bold red" if unproven(results.environment) else "dim")
    for (operation, cells), offered in zip(groups.items(), tables, strict=True):
        kept, left_out = offered, list[summary.Column]()
        if not names:
            kept, left_out = summary.fit(offered, console.width + GAP, lambda c: _width(c) + GAP)
        console.print()
        say(operation, "bold cyan")
        console.print(_table(kept))
        if left_out:
            heads = ", ".join(c.head for c in left_out)
            say(f"no room here for: {heads}; --columns NAMES chooses, --format markdown has all", "dim")
        if len(cells) > len(shown[operation]):
            say(
                f"the fastest of each stream count; {len(cells) - len(shown[operation]):,} more cells: "
                "venturi show --format csv has all, venturi report opens each",
                "dim",
            )
    _sections(results, console, say)
    _published(results, console, say)
    _reason(results, console, say)
    failures = summary.failure_rows(results)
    if failures:
        console.print()
        say("failed trials", "bold red")
        for cell, trials, error in failures[:MOST_FAILURES]:
            say(f"  {cell}, {trials}")
            for line in wrap(error, console.width - 4):
                say("    " + line, "red")
        if len(failures) > MOST_FAILURES:
            say(f"  {len(failures) - MOST_FAILURES} more; venturi show --format json has all", "dim")
    if results.advice:
        console.print()
        say("warnings", "bold yellow")
        for advice in results.advice:
            _item(console, str(advice))
    if cost := summary.instrument(results):
        console.print()
        say(f"{cost}.", "dim")


def _in_sight(cells: list[Cell]) -> list[Cell]:
    if len(cells) <= MOST_ROWS:
        return cells
    best = {c.name for c in representative(cells, BEST_ROWS)}
    return [c for c in cells if c.name in best]


def _sections(results: Results, console: Console, say: Callable[..., None]) -> None:
    """Places, hosts and loaders, where the run has several."""
    for section in several.sections(results, hosts.MOST):
        console.print()
        say(section.title, "bold cyan")
        for table in section.tables:
            if len(section.tables) > 1 or section.captioned:
                say(table.caption, "bold")
            shown = [replace(c, cells=c.cells[:MOST_ROWS]) for c in table.columns]
            kept, left_out = summary.fit(shown, console.width + GAP, lambda c: _width(c) + GAP)
            console.print(_table(kept))
            if left_out:
                heads = ", ".join(c.head for c in left_out)
                say(f"no room here for: {heads}; venturi show --format markdown has all", "dim")
            if table.rows > MOST_ROWS:
                say(f"{table.rows - MOST_ROWS} more rows: venturi show --format markdown has all", "dim")
            for text in filter(None, table.sentences):
                _item(console, f"{text}.")


def print_cell(results: Results, cell: Cell, console: Console) -> None:
    """One cell on one screen."""
    from rich.text import Text

    from venturi.report import cell as cells

    for style, line in cells.lines(results, cell, console.width):
        console.print(Text(line, style=style), no_wrap=True, crop=False)


def _published(results: Results, console: Console, say: Callable[..., None]) -> None:
    """What a published benchmark said, and this run of the same."""
    for one in published.beside(results):
        console.print()
        say(f"published: {one.label}", "bold cyan")
        _item(console, one.said)
        say("here", "bold cyan")
        for text in one.here:
            _item(console, text)


def _item(console: Console, text: str, first: str = "  - ") -> None:
    from rich.text import Text

    for i, line in enumerate(wrap(text, console.width - len(first))):
        console.print(Text((first if i == 0 else " " * len(first)) + line))


def _reason(results: Results, console: Console, say: Callable[..., None]) -> None:
    """Findings of the sweep, or the verdict of its fastest cell; what to do next."""
    found = reason.told(results)
    if not found:
        return
    console.print()
    say("the reason", "bold green")

    for title, lines in found[:MOST_FINDINGS]:
        _item(console, title)
        for line in lines:
            _item(console, line, "    . ")
    if len(found) > MOST_FINDINGS:
        say(f"  {len(found) - MOST_FINDINGS} more; venturi show --format markdown has all", "dim")
    if len(results.cells) > 1 and (told := reason.spread(results)):
        _item(console, f"{told}.")
    if any(v.flagged for v in results.verdicts.values()):
        say(f"  {reason.FLAG_NOTE}", "red")
    models = fits.lines(results)
    if models:
        say("models", "bold green")
        for text in models:
            _item(console, f"{text}.")
    steps = reason.next_steps(results)
    if steps:
        say("next", "bold green")
        for step in steps:
            _item(console, labels.plain(step.text))
    if len(results.cells) > 1:
        say(f"one cell on one screen: venturi show RUN --cell best, or {example(results.cells)}", "dim")


def _width(column: summary.Column) -> int:
    return max(map(len, [column.head, column.unit, *column.cells]))


def _table(columns: list[summary.Column]) -> RenderableType:
    """Heads with units under them, a rule, the rows."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        head = Text(column.head + "\n", style="bold")
        head.append(column.unit, style="dim")
        table.add_column(
            head, justify="left" if column.text else "right", no_wrap=True, min_width=_width(column)
        )
    for cells in zip(*(c.cells for c in columns), strict=True):
        table.add_row(
            *(
                Text(
                    cell,
                    style="bold" if c.head == "median" else "red" if c.head == "fail" and cell != "0" else "",
                )
                for c, cell in zip(columns, cells, strict=True)
            )
        )
    return table
