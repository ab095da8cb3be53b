"""A comparison as text: its sentences, which every format shares, the terminal and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from venturi.analysis.cells.machines import Fact, in_words
from venturi.analysis.cells.summary import Cell, varying
from venturi.analysis.compare.runs import Comparison, Row
from venturi.analysis.words import labels
from venturi.analysis.words.wording import nouns_of
from venturi.common.units import FACTORS, MISSING, Quantity, percent, pick_unit, plural
from venturi.report.pipes import escape, table

if TYPE_CHECKING:
    from rich.console import Console

MOST_UNMATCHED = 10
MOST_ASIDE = 5
MOST_IN_SIGHT = 20
LEFT = (True, False, False, False, False, False, True)
"""Columns of text; the others are numbers and set to the right."""
_STYLES = {"worse": "red", "failed": "red", "better": "green", "unknown": "dim", "no-difference": ""}


def name(found: Comparison, row: Row) -> str:
    """A cell by what tells it from the others of its side."""
    text = labels.label(row.base, found.varying)
    several = len(found.operations) > 1 and found.varying
    return f"{labels.plain(row.base.operation)}, {text}" if several else text


def heads(found: Comparison, base: str = "base", run: str = "run") -> list[str]:
    """Of the table's columns, units included."""
    unit = _unit(found)
    shown = f" {unit}" if unit else ""
    return [
        "cell",
        f"{base}{shown}",
        f"{run}{shown}",
        "ratio",
        f"{found.confidence * 100:g} %",
        "p",
        "verdict",
    ]


def _unit(found: Comparison) -> str | None:
    """One unit for both columns; None where cells have different ones, which is written in each then."""
    units = {r.metric.unit for r in found.rows}
    if len(units) > 1:
        return None
    values = [q.value for r in found.rows for q in (r.before, r.after)]
    return pick_unit(units.pop(), values)


def cells(found: Comparison) -> list[list[str]]:
    """The table's rows."""
    unit = _unit(found)

    def figure(quantity: Quantity) -> str:
        if unit is None:
            shown = pick_unit(quantity.unit, [quantity.value])
            return f"{quantity.number(shown)} {shown}" if quantity.known else MISSING
        return quantity.number(unit) if unit in FACTORS else MISSING

    return [
        [
            name(found, row),
            figure(row.before),
            figure(row.after),
            row.ratio.number(),
            row.ratio.margin(),
            probability(row.difference.adjusted if row.difference else None),
            ("none seen" if row.verdict == "no-difference" else row.word)
            + ("!" if row.beyond or row.newly_failing else ""),
        ]
        for row in found.rows
    ]


def probability(p: float | None) -> str:
    """A p as one reads it; what is below 0.1 % is only said to be."""
    return MISSING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _cells(n: int) -> str:
    return f"{n} cell" if n == 1 else f"{n} cells"


def summary(found: Comparison) -> list[str]:
    """What to know, in sentences; the first one counts the verdicts."""
    metric = found.metric
    parts = [
        f"{n} {word}"
        for verdict, word in (
            ("failed", "failed"),
            ("worse", metric.worse),
            ("better", metric.better),
            ("no-difference", "without a significant difference"),
            ("unknown", "cannot be judged"),
        )
        if (n := found.count(verdict)) or verdict in ("worse", "better")  # type: ignore[arg-type]
    ]
    out = [f"of {_cells(len(found.rows))} {', '.join(parts)}"]
    span = found.detectable
    if span is not None:
        middle, least, most = (percent(s, 0 if s >= 0.0995 else 1) for s in span)
        spread = f" ({least} to {most})" if least != most else ""
        many = "a lone cell" if len(found.rows) > 1 else "the cell"
        out.append(f"detectable in {many} (80 % power): from {middle} {metric.worse} on{spread}")
    beyond = [r for r in found.rows if r.beyond]
    if beyond:
        out.append(f"beyond the threshold of {threshold(found)}: {_cells(len(beyond))}")
    failing = [r for r in found.rows if r.newly_failing]
    anew = sum(1 for r in failing if r.run.failed and not r.base.failed)
    if anew:
        out.append(f"trials of {_cells(anew)} fail that did not fail in the base")
    if empty := len(failing) - anew:
        have = "has" if empty == 1 else "have"
        out.append(f"{_cells(empty)} of the base {have} no good trial in this run")
    if found.gone:
        out.append(f"{_cells(len(found.gone))} of the base are missing; --force compares the others alone")
    return out + _shift(found)


def threshold(found: Comparison) -> str:
    """As it was asked for."""
    return f"{found.threshold * 100:g} %"


def _shift(found: Comparison) -> list[str]:
    """What all cells have in common, and what may be behind it."""
    if found.shift is None:
        return []
    moved = found.shift
    worse = (moved.ratio > 1) == found.metric.lower
    word = found.metric.worse if worse else found.metric.better
    size = abs(moved.ratio - 1)
    text = (
        f"the {moved.cells} cells together are {percent(size, 1)} {word} (ratio "
        f"{Quantity(moved.ratio, moved.low, moved.high).text()})"
    )
    if found.within:
        return [f"{text}; their trials were interleaved, so it is not the machine's drift"]
    aside = [r for r in found.rows if r.aside is not None and r.aside < 1 - found.confidence]
    apart = f" ({_duration(found.apart)})" if found.apart else ""
    out = [
        f"{text}: the machine, or the change? Runs made apart{apart} cannot tell; run the base again and "
        "compare it with itself, or interleave both in one run and compare it --by place"
    ]
    if len(aside) > MOST_ASIDE:
        out.append(f"{len(aside)} of {_cells(len(found.rows))} differ from what all have in common")
    elif aside:
        listed = "; ".join(f"{name(found, r)} (ratio {r.ratio.number()})" for r in aside)
        out.append(f"different from what all have in common: {listed}")
    return out


def _duration(seconds: float) -> str:
    for size, word in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= size:
            return plural(round(seconds / size), word)
    return f"{seconds:.0f} seconds"


def remarks(found: Comparison) -> list[str]:
    """What a cell's verdict needs to be read rightly; the same remark on many cells only once."""
    by_reason: dict[str, list[str]] = {}
    for row in found.rows:
        if row.reason:
            by_reason.setdefault(row.reason, []).append(name(found, row))
    return [
        f"{names[0]}: {reason}" if len(names) == 1 else f"{_cells(len(names))} ({names[0]}, ...): {reason}"
        for reason, names in by_reason.items()
    ]


def unmatched(found: Comparison) -> list[str]:
    """Cells without a partner, a line a side."""
    out = []
    for side, only in ((found.base, found.only_base), (found.run, found.only_run)):
        if only:
            listed = [label(c, side.cells) for c in only[:MOST_UNMATCHED]]
            more = f"; and {len(only) - MOST_UNMATCHED} more" if len(only) > MOST_UNMATCHED else ""
            out.append(f"only in {labels.plain(side.name)}: {'; '.join(listed)}{more}")
    return out


def label(cell: Cell, among: Sequence[Cell]) -> str:
    """A cell by what tells it from these."""
    names = varying(among)
    text = labels.label(cell, names)
    return f"{labels.plain(cell.operation)}, {text}" if names else text


def fact(found: Fact) -> tuple[str, str, str]:
    """Property, base's value, run's value."""

    def shown(value: object) -> str:
        if value is None:
            return "not known"
        if found.share and isinstance(value, int | float):
            return percent(value, 1)
        if found.end == "run" and found.name != "started":
            return labels.value(found.name, value)
        return labels.plain(in_words(found.name, value), 60)

    where = "" if found.end == "run" else f"{found.end}: "
    return f"{where}{found.name}", shown(found.base), shown(found.run)


def differing(found: Comparison) -> list[tuple[str, str, str, str]]:
    """What differs and matters: mark, property, base, run. `!!` is what makes runs unlike."""
    return [
        ("!!" if f.weight == "unlike" else "!", *fact(f))
        for f in (*found.settings, *found.facts)
        if f.differs and f.weight != "note"
    ]


def quiet(found: Comparison) -> tuple[list[str], list[str]]:
    """Names of facts that differ without weight, and of those that only one side knows."""
    facts = (*found.settings, *found.facts)
    idle = [fact(f)[0] for f in facts if f.differs and f.weight == "note"]
    return idle, [fact(f)[0] for f in facts if not f.known and f.weight != "note"]


def print_comparison(found: Comparison, console: Console) -> None:
    """Prints one comparison; readable at 80 columns. Nothing from the runs is taken for markup."""
    from rich.table import Table
    from rich.text import Text

    def say(text: str, style: str = "", indent: str = "") -> None:
        for i, line in enumerate(_wrap(text, console.width - len(indent) - 2)):
            console.print(Text(indent + ("  " if i and indent else "") + line, style=style))

    say(f"base: {labels.plain(found.base.name)}", "bold")
    say(f"run:  {labels.plain(found.run.name)}", "bold")
    say(f"{found.metric.title}; ratio = run / base", "dim")
    differ = differing(found)
    if differ:
        console.print()
        say("what differs", "bold cyan")
        for mark, what, before, after in differ:
            say(f"{mark:2} {what}: {before} -> {after}", "red" if mark == "!!" else "", "  ")
    idle, unknown = quiet(found)
    if idle:
        say(f"differs, but does not matter: {', '.join(idle)}", "dim", "  ")
    if unknown:
        say(f"told by one side only: {', '.join(unknown)}", "dim", "  ")
    console.print()
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    names, rows = heads(found), cells(found)
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    room = max(console.width - sum(width + 2 for width in widths[1:-1]) - 2 - widths[-1], 12)
    if widths[0] > room:
        first, *values = _short(found)
        names[0] = first
        rows = [[value, *row[1:]] for value, row in zip(values, rows, strict=True)]
    for i, (head, left) in enumerate(zip(names, LEFT, strict=True)):
        if i == 0:
            # Long names are folded: a cell that cannot be told from its neighbour is no use.
            grid.add_column(Text(head, style="bold"), max_width=room, overflow="fold")
            continue
        grid.add_column(Text(head, style="bold"), justify="left" if left else "right", no_wrap=True)
    for row, line in zip(found.rows, rows, strict=True):
        style = _STYLES[row.verdict]
        grid.add_row(*(Text(text, style=style if i == 6 else "") for i, text in enumerate(line)))
    console.print(grid)
    console.print()
    for i, sentence in enumerate(summary(found)):
        say(sentence, "bold" if i == 0 else "")
    for text in (*remarks(found), *unmatched(found)):
        say(f"- {text}", "", "  ")


def _short(found: Comparison) -> list[str]:
    """Parameters, for the head, then their values in each row: `streams, rows/stream`, `8, 3.3M`."""
    names = [*(["operation"] if len(found.operations) > 1 else []), *found.varying]
    nouns = nouns_of(found.rows[0].base)
    return [
        ", ".join(labels.head(name, nouns) for name in dict.fromkeys(names)),
        *(
            ", ".join(labels.value(name, row.base.parameters.get(name)) for name in dict.fromkeys(names))
            for row in found.rows
        ),
    ]


def _wrap(text: str, width: int) -> list[str]:
    import textwrap

    # A number and its percent sign stay on one line.
    glued = text.replace(" %", "\N{NO-BREAK SPACE}%")
    wrapped = textwrap.wrap(glued, max(width, 20), break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in wrapped] or [""]


def markdown(found: Comparison) -> str:
    """For a pull request: the sentences and what became worse or better in sight, the rest folded."""
    first, *more = summary(found)
    bad = found.exit_code != 0
    out = [
        f"### {'❌' if bad else '✅'} {escape(found.run.name)} against {escape(found.base.name)}",
        "",
        f"**{escape(found.metric.title)}**: {escape(first)}.",
        "",
        *(f"- {escape(sentence)}." for sentence in (*more, *unmatched(found))),
        "",
    ]
    lines = cells(found)
    loud = [
        line for row, line in zip(found.rows, lines, strict=True)
        if row.verdict in ("worse", "better", "failed") or row.newly_failing
    ]  # fmt: skip
    left = list(LEFT)
    if loud:
        out += table(heads(found), loud[:MOST_IN_SIGHT], left)
    if len(loud) > MOST_IN_SIGHT:
        out += [f"{len(loud) - MOST_IN_SIGHT} more differ; they are among all cells.", ""]
    if len(loud) < len(lines) or len(loud) > MOST_IN_SIGHT:
        out += [f"<details><summary>all {_cells(len(lines))}</summary>", ""]
        out += [*table(heads(found), lines, left), *(f"- {escape(r)}." for r in remarks(found)), ""]
        out += ["</details>", ""]
    differ = differing(found)
    facts = [fact(f) for f in found.facts]
    if facts or differ:
        count = f"{len(differ)} differ" if differ else "none that matters differs"
        out += [f"<details><summary>conditions: {count}</summary>", ""]
        marks = {what: mark for mark, what, _, _ in differ}
        shown = list(dict.fromkeys([(w, b, r) for _, w, b, r in differ] + facts))
        out += table(["", "", "base", "run"], [[marks.get(w, ""), w, b, r] for w, b, r in shown], [True] * 4)
        out += ["</details>", ""]
    level = f"{found.confidence * 100:g} %"
    out.append(
        f"<sub>Ratio = run / base, with its {level} interval; p corrected for {_cells(len(found.rows))}; "
        f"! = beyond the threshold of {threshold(found)}, or failing.</sub>"
    )
    return "\n".join(out) + "\n"
