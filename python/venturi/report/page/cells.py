"""The cells of the page: their tables, and what the view of one cell shows, as data for the page's script."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from venturi.analysis import wording
from venturi.analysis.cells import hosts as loaders
from venturi.analysis.cells.machines import unproven
from venturi.analysis.cells.summary import Cell, best, by_operation
from venturi.analysis.results import Results, representative
from venturi.common.units import percent, plural
from venturi.report import cell as cells_text
from venturi.report import draw, hosts, reason, run, summary, terminal
from venturi.report.document import Column, begun, sentence
from venturi.report.figures import figure, pipeline, timeline
from venturi.report.figures.figure import Figure
from venturi.report.summary import name_of

MOST_ROWS = 200
"""Rows of a table in the page itself."""


def render(section: str, **values: Any) -> Markup:
    """The template of that name; empty where it wrote nothing."""
    return Markup(_environment().get_template(f"{section}.html.j2").render(values).strip())


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        finalize=_clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"begun": begun, "commands": commands, "formatted": format}
    made.filters |= {"in_parts": in_parts, "sentence": _sentence}
    made.globals |= {
        "evidence_text": cells_text.evidence_text,
        "form_of": lambda block: type(block).__name__,
        "most_rows": MOST_ROWS,
        "name_of": name_of,
        "percent": percent,
        "plural": plural,
        "role": lambda kind: figure.verdict_colour(kind).removeprefix("$"),
        "title_of": reason.title,
    }
    return made


def _clean(found: Any) -> Any:
    """What a template shows, before it is escaped: control characters are replaced, lines are kept."""
    if isinstance(found, Markup):
        return found
    text = str(found)
    return "\n".join(map(wording.plain, text.splitlines())) if "\n" in text else wording.plain(text)


def _sentence(text: str) -> Markup:
    """As it begins and ends a paragraph; no line breaks before a percent sign."""
    return escape(_clean(sentence(text))).replace(" %", Markup("&nbsp;%"))


def commands(text: str) -> Markup:
    """A sentence with its commands, which stand between backticks, set as code."""
    pieces = text.split("`")
    return in_parts([(piece, i % 2 == 1) for i, piece in enumerate(pieces)])


def in_parts(parts: Iterable[tuple[str, bool]]) -> Markup:
    """A sentence in parts, each with whether it is a command."""
    code = Markup("<code>%s</code>")
    return Markup().join(code % _clean(part) if is_code else _clean(part) for part, is_code in parts)


LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~"
"""Digits of base 85 as RFC 1924 has them, but for `<`: of these no tag can be made, and no comment."""


@dataclass(frozen=True)
class Packed:
    text: str
    bytes: int
    """How many of the decoded ones count; what follows fills a group of four."""
    letters: str = LETTERS


class Packer:
    """Scripts that run one after the other, and documents that become elements of their ids with their JSON.
    unpack.js is the other half.

    Vega's script takes as long to compress as all else of a small page to make, so that a thread does it
    meanwhile, and once a process.
    """

    def __init__(self, scripts: Sequence[str]) -> None:
        self._scripts = tuple(scripts)
        self._thread = threading.Thread(target=_begun, args=(self._scripts,), daemon=True)
        self._thread.start()

    def finish(self, documents: Mapping[str, Any]) -> Packed:
        """Both."""
        text = json.dumps(documents, separators=(",", ":"), allow_nan=False, default=str)
        self._thread.join()
        begun, first = _begun(self._scripts)
        stream = begun.copy()
        data = b"".join([first, stream.compress(f"{text}}}".encode()), stream.flush()])
        return Packed(letters(data), len(data))


@lru_cache(2)
def _begun(scripts: tuple[str, ...]) -> tuple[Any, bytes]:
    """What compresses a page, after its scripts, and what it has given."""
    # A higher level takes a third longer, and makes a page smaller by a fraction of a percent.
    stream = zlib.compressobj(6)
    return stream, stream.compress(f'{{"scripts":{json.dumps(scripts)},"documents":'.encode())


def letters(data: bytes) -> str:
    """In base 85: four bytes are five letters. `base64` takes a second for a large page."""
    import numpy as np

    words = np.frombuffer(data + bytes(-len(data) % 4), ">u4").astype(np.uint32)
    digits = np.empty((words.size, 5), np.uint8)
    for place in range(4, -1, -1):
        digits[:, place] = words % 85
        words //= 85
    return np.frombuffer(LETTERS.encode(), np.uint8)[digits].tobytes().decode()


BEST_ROWS = 30
"""What a longer table holds; the script has the others and keeps only those in sight in the page."""
MOST_LOADERS = 64
"""In the view of one cell, of which a page has thousands."""
MOST_LISTED = 100
"""Cells offered by the menu of the view; all others are opened from their table."""


Shown = list[tuple[str, list[Cell], list[Column]]]
"""Operations, each with its cells and their columns."""


def by_table(results: Results) -> Shown:
    doubtful = unproven(results.environment)
    return [
        (operation, cells, summary.columns(cells, True, reason.column(results, cells), doubtful))
        for operation, cells in by_operation(results.cells).items()
    ]


def tables(shown: Shown, numbers: dict[str, int]) -> Markup:
    """A table an operation. `numbers` are the cells' places in `documents`."""
    found = []
    for operation, cells, columns in shown:
        short = len(cells) <= MOST_ROWS
        chosen = {c.name for c in (cells if short else representative(cells, BEST_ROWS))}
        found.append(
            {
                "operation": operation,
                "columns": columns,
                "cells": cells,
                "rows": [i for i, c in enumerate(cells) if c.name in chosen],
                "note": "" if short else "the fastest of each stream count",
                "top": best(cells),
            }
        )
    return render("summary", tables=found, numbers=numbers, kind_of=kind_of)


def kind_of(column: Column, text: str) -> str:
    """The class of a table's cell; the script sets the same for rows that it makes."""
    if column.head == "fail" and text != "0":
        return "bad"
    if column.head == "verdict":
        return "t v flagged" if text.startswith(reason.FLAG) else "t v"
    return "t" if column.text else "main" if column.head == "median" else ""


def long_tables(shown: Shown, numbers: dict[str, int]) -> dict[str, Any]:
    """The rows of tables that are too long for the page itself, by the table's number."""
    out: dict[str, Any] = {}
    for index, (_, cells, columns) in enumerate(shown):
        if len(cells) > MOST_ROWS:
            out[str(index)] = {
                "columns": [[wording.plain(text) for text in c.cells] for c in columns],
                "kinds": [kind_of(c, "0") for c in columns],
                "cells": [numbers[c.name] for c in cells],
            }
    return out


def document(results: Results, cell: Cell) -> dict[str, Any]:
    """What the view of one cell shows. Texts are plain; the script sets them as text, never as HTML."""
    verdict = results.verdicts.get(cell.name)
    drawn = pipeline.of(cell, verdict)
    plain = wording.plain
    limits = []
    for one in cells_text.limits(cell):
        rate = one.rate.text(cells_text.unit_of(cell, one.rate))
        share = round(one.share.value, 4) if one.share.value is not None else None
        mark = " ".join(filter(None, (one.margin and f"{one.margin} %", one.mark)))
        limits.append([plain(one.name), rate, share, one.binding, mark])
    out: dict[str, Any] = {
        "name": plain(cell.name),
        "label": plain(name_of(results, cell)),
        "figures": [[name, plain(text)] for name, text in cells_text.figures(cell)],
        "limits": limits,
        "cost": run.instrument_of(cell.records),
    }
    if (listed := _loaders(results, cell)) is not None:
        out["loaders"] = listed
    if drawn is not None:
        out["pipeline"] = _pipeline(drawn)
    if (v := verdict) is not None:
        out["verdict"] = {
            "kind": v.kind,
            "title": plain(v.title),
            "lines": [plain(line) for line in v.lines],
            "confidence": v.confidence,
            "evidence": [plain(text) for text in cells_text.evidence(cell, v, drawn)],
            "next": [[(plain(text), is_code) for text, is_code in r.parts] for r in v.remedies],
            "flagged": v.flagged,
        }
    return out


def _loaders(results: Results, cell: Cell) -> dict[str, object] | None:
    """The loaders of a cell for the page's script: heads and rows as text. None of a cell of one process."""
    found = loaders.hosts(cell)
    if not found:
        return None
    behind = results.stragglers.get(cell.name, [])
    columns = hosts.columns(cell, hosts.few(found, MOST_LOADERS), behind)
    return {
        "heads": [[c.head, c.unit, c.text] for c in columns],
        "rows": [list(row) for row in zip(*(c.cells for c in columns), strict=True)],
        "more": max(0, len(found) - MOST_LOADERS),
    }


def _pipeline(found: pipeline.Pipeline) -> dict[str, Any]:
    def parts(these: Sequence[pipeline.Part]) -> list[list[Any]]:
        return [[wording.plain(p.stage), round(p.share, 4)] for p in these]

    return {
        "sides": [
            {
                "end": s.end,
                "workers": s.workers,
                "work": parts(s.work),
                "besides": parts(s.besides),
                "waiting": [[pipeline.WAITS[p.stage], round(p.share, 4), p.stage] for p in s.waiting],
            }
            for s in found.sides
        ],
        "missing": found.missing,
        "narrowest": found.narrowest,
        "words": pipeline.sentence(found),
    }


def timelines(results: Results, numbers: dict[str, int]) -> dict[str, Any]:
    """The timelines that the page holds, by the number of their cell."""
    out: dict[str, Any] = {}
    for cell in timeline.chosen(results):
        figure = timeline.timeline(results, cell)
        if figure is not None:
            out[str(numbers[cell.name])] = {
                "spec": draw.stack(figure),
                "height": 160 + 84 * (len(figure.panels) - 1),
                "caption": wording.plain(figure.caption),
                "legend": _legend(figure),
                "words": wording.plain(figure.title),
            }
    return out


def _legend(figure: Figure) -> list[list[str]]:
    return [[name, s.colour, s.mark, s.dash] for name, s in figure.names.items()]


def listed(results: Results, with_timeline: Sequence[str]) -> list[int]:
    """The cells that the menu offers: all, or those with a timeline and the best of the others."""
    cells = results.cells
    if len(cells) <= MOST_LISTED:
        return list(range(len(cells)))
    names = {c.name for c in representative(cells, MOST_LISTED)}
    wanted = {i for i, c in enumerate(cells) if c.name in names} | set(map(int, with_timeline))
    return sorted(wanted)[:MOST_LISTED]


def colours() -> dict[str, dict[str, str]]:
    """Roles of stages and of kinds of verdicts, for the script."""
    return {"stages": figure.STAGES, "verdicts": figure.VERDICTS}


def view(results: Results, listed_cells: Sequence[int]) -> Markup:
    """The frame of the view of one cell."""
    top = reason.leading(results) or (results.cells[0] if results.cells else None)
    if top is None:
        return Markup()
    chosen = results.cells.index(top)
    return render(
        "cell",
        results=results,
        chosen=chosen,
        listed=listed_cells,
        offered=sorted({*listed_cells, chosen}),
        words=terminal.text(cells_text.document(results, top, 96), 96).rstrip(),
    )
