"""The summary of a run as rows of text: one form for terminal, page and Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from venturi.analysis.cells import batches, ingest
from venturi.analysis.cells.figures import main_unit, numeric
from venturi.analysis.cells.summary import Cell, basis, best, by_operation, rows_a_batch, speed, varying
from venturi.analysis.results import Results
from venturi.analysis.statistics.intervals import RANGE_BELOW, range_coverage
from venturi.analysis.words import labels
from venturi.analysis.words.wording import listed, nouns_of
from venturi.common.errors import VenturiError
from venturi.common.texts import meant
from venturi.common.units import MISSING, Quantity, count, percent, pick_unit, plural
from venturi.report.marks import marked

SHORTEST = 14
"""Characters of a text below which it is left out rather than cut."""


@dataclass(frozen=True)
class Column:
    """`unit` stands under the head. Columns of a lower `rank` are the last to be left out where room is
    short."""

    head: str
    unit: str
    cells: list[str]
    rank: int = 0
    text: bool = False
    """Text is set to the left, numbers to the right."""
    yields: int | None = None
    """Its rank if a text of rank 1, such as the verdict, has no room otherwise."""


def _numbers(
    head: str, base: str, quantities: Sequence[Quantity], rank: int, unit: str | None = None
) -> Column:
    shown = unit if unit is not None else pick_unit(base, [q.value for q in quantities])
    return Column(head, shown, [q.number(shown) for q in quantities], rank)


def columns(
    cells: Sequence[Cell],
    every: bool = False,
    verdicts: Sequence[str] | None = None,
    unproven: bool = False,
) -> list[Column]:
    """The columns for cells of one operation. `every` adds the figures that only a wide page has room for;
    `verdicts` is the short title of each cell's, "" where there is none; `unproven` marks every row."""
    out = [
        Column(
            labels.head(n, nouns_of(cells[0])),
            "",
            [labels.value(n, c.parameters.get(n)) for c in cells],
            0,
            text=any(isinstance(c.parameters.get(n), str) for c in cells),
        )
        for n in varying(cells)
    ]
    # Bytes a second, or of results of other tools what they counted instead: rows, requests.
    measure = basis(cells)
    speeds: list[Quantity] = [getattr(c, measure) for c in cells]
    base = speeds[0].unit if speeds else "B/s"
    unit = pick_unit(base, [q.value for q in speeds])
    out.append(_numbers("median", base, speeds, 0, unit))
    out.append(Column(coverage(cells), unit, [q.margin(unit) for q in speeds], 0, yields=2))
    if unproven:
        out.append(Column("proven", "", ["no"] * len(cells), 0, text=True))
    out.append(_of_limit(cells))
    if verdicts is not None and any(verdicts):
        out.append(Column("verdict", "", [v or MISSING for v in verdicts], 1, text=True))
    in_rows = all(c.in_rows for c in cells)
    if every and cells:
        out.append(_numbers("steady", main_unit(cells[0].operation), [c.steady for c in cells], 6))
    if measure != "rows":
        out.append(_short_unit(_numbers("rows", "rows/s", [c.rows for c in cells], 5)))
    latencies = {p: [c.latency.get(p, Quantity(None, unit="ns")) for c in cells] for p in (50.0, 99.0, 100.0)}
    # One unit for the median and the tail, so that they compare at a glance.
    telling = latencies[50.0] if any(q.known for q in latencies[50.0]) else latencies[100.0]
    unit = pick_unit("ns", [q.value for q in telling])
    out.append(_numbers("p50", "ns", latencies[50.0], 4, unit))
    out.append(_numbers("p99", "ns", latencies[99.0], 3, unit))
    answered = all(c.answered for c in cells)
    if every or answered:
        out.append(_numbers("max", "ns", latencies[100.0], 7, unit))
    if every and answered:
        out += _latencies(cells, unit)
    both = any(c.cpu["server"].known for c in cells)
    out.append(
        Column("client+server" if both else "CPU client", "cores", [_cores(c, both) for c in cells], 4)
    )
    if every:
        for end in ("client", "server"):
            out.append(
                _numbers(
                    f"per {end} CPU\N{NON-BREAKING HYPHEN}s",
                    main_unit(cells[0].operation) if in_rows else "B/s",
                    [c.per_cpu[end] for c in cells],
                    7,
                    None if in_rows else "MB/s",
                )
            )
    if len({c.verification for c in cells if c.verified}) > 1:
        out.append(Column("verified", "", [c.verification for c in cells], 3, text=True))
    if in_rows and cells:
        out += _batches(cells, every) if answered else _points(cells, every)
    out.append(Column("ok", "", [f"{c.good}/{c.trials}" for c in cells], 0, yields=2))
    # If none failed, "ok" says so too.
    last = None if any(c.failed for c in cells) else 9
    out.append(Column("fail", "", [str(c.failed) for c in cells], 0, yields=last))
    # A figure that no trial has, such as the CPU of a foreign server, would be a column of dashes.
    return [c for c in out if c.rank == 0 or any(cell != MISSING for cell in c.cells)]


def _latencies(cells: Sequence[Cell], unit: str) -> list[Column]:
    """The other latency figures of an upsert's batch; of an open loop the service times beside the response
    times of the columns before."""
    nothing = Quantity(None, unit="ns")
    open_loop = any(c.parameters.get("rate") for c in cells)
    found = [batches.latencies(c, "response" if c.parameters.get("rate") else "service") for c in cells]
    service = [batches.latencies(c, "service") for c in cells]
    out = [
        _numbers(name, "ns", [f.get(name, nothing) for f in found], 7, unit)
        for name in ("min", "mean", "p95", "p99.9")
    ]
    if open_loop:
        out += [
            _numbers(f"service {name}", "ns", [f.get(name, nothing) for f in service], 7, unit)
            for name in ("p50", "p99")
        ]
    return out


def _batches(cells: Sequence[Cell], every: bool) -> list[Column]:
    """What was stored, and what went wrong in trials that were good all the same; none where nothing did."""
    out = []
    if every:
        out.append(_numbers("rows in total", "rows", [batches.rows_total(c) for c in cells], 7))
        out.append(_numbers("stored", "B", [batches.stored_bytes(c) for c in cells], 7))
        out.append(_numbers("a row", "B", [batches.stored_row(c) for c in cells], 7))
    wrong = [batches.troubles(c.records) for c in cells]
    for head, name in (("refused", "refused"), ("in doubt", "in_doubt"), ("retried", "retries")):
        counted = [getattr(w, name) for w in wrong]
        if any(counted):
            out.append(Column(head, "batches", [f"{n:,}" for n in counted], 1))
    return out


def _points(cells: Sequence[Cell], every: bool) -> list[Column]:
    """What points cost: bytes on their way and at rest, CPU time of both ends; how even the streams were."""
    out = [
        _numbers("stored", "B/point", [_plain(batches.stored_row(c)) for c in cells], 2, ""),
        _numbers("server", "ns/point", [ingest.cpu_point(c, "server") for c in cells], 3, "ns/point"),
    ]
    if every:
        out.append(
            _numbers("client", "ns/point", [ingest.cpu_point(c, "client") for c in cells], 7, "ns/point")
        )
        out.append(_numbers("points in total", "points", [batches.rows_total(c) for c in cells], 7))
        out.append(_numbers("wire", "B/s", [ingest.wire(c) for c in cells], 7))
        out.append(_numbers("wire", "B/point", [_plain(ingest.wire_point(c)) for c in cells], 7, ""))
        out.append(_numbers("stored", "B", [batches.stored_bytes(c) for c in cells], 7))
        out.append(_numbers("disk, written", "B/s", [ingest.disk(c) for c in cells], 7))
        out.append(_numbers("fairness", "fraction", [ingest.fairness(c) for c in cells], 7))
    return [replace(c, unit="B/point") if c.unit == "" else c for c in out]


def _plain(quantity: Quantity) -> Quantity:
    return replace(quantity, unit="")


def _of_limit(cells: Sequence[Cell]) -> Column:
    """The share of the lowest limit; named in the head where it is the same one for all cells."""
    binding = {_named(c) for c in cells if c.share.known}
    if len(binding) <= 1:
        return Column(next(iter(binding), "limit"), "%", [_percent(c.share) for c in cells], 2)
    texts = [f"{_percent(c.share)} % {_named(c)}" if c.share.known else MISSING for c in cells]
    return Column("limit", "", texts, 2)


def _named(cell: Cell) -> str:
    return f"{cell.binding} (reference)" if cell.reference else str(cell.binding)


def coverage(cells: Sequence[Cell]) -> str:
    """How surely the margins hold the median: `95 % CI`, or what the range of few repeats covers."""
    counts = {cell.good for cell in cells if cell.good > 1}
    least = min(counts, default=RANGE_BELOW)
    if least >= RANGE_BELOW:
        return "95 % CI"
    sure = f"{range_coverage(least) * 100:.4g} % CI"
    return sure if len(counts) == 1 else f"from {sure}"


def _percent(share: Quantity) -> str:
    if share.value is None:
        return MISSING
    # A database comes nowhere near some limits: "0" would say that nothing was moved.
    return "<1" if 0 < share.value < 0.01 else f"{share.value * 100:.0f}"


def _cores(cell: Cell, both: bool) -> str:
    """Cores of client and server, `1.2+1.1`."""
    quantities = [cell.cpu["client"], cell.cpu["server"]] if both else [cell.cpu["client"]]
    parts = [f"{q.value:.1f}" if q.value is not None else MISSING for q in quantities]
    return "+".join(parts) if set(parts) != {MISSING} else MISSING


def _short_unit(column: Column) -> Column:
    """`Mrows/s` under the head "rows" says it twice: `M/s`."""
    return replace(column, unit=column.unit.replace(column.head, ""))


def headline(results: Results) -> list[str]:
    """One line an operation: `get: best 2,431 MB/s [2,390..2,470] with 2 streams, 78 % of raw TCP`."""
    groups = by_operation(results.cells).items()
    mark = marked(results.environment)
    out = [f"{labels.plain(operation)}: {fastest(cells)}{mark}" for operation, cells in groups]
    return out or ["no trial was measured"]


def fastest(cells: Sequence[Cell]) -> str:
    """`best 2,431 MB/s [2,390..2,470] with 2 streams, 78 % of raw TCP`."""
    top = best(cells)
    if top is None:
        return "no trial succeeded"
    names = varying(cells) or (["streams"] if top.parameters.get("streams") else [])
    text = f"{'best ' if len(cells) > 1 else ''}{speed(top, cells)}"
    text += f" with {labels.label(top, names)}" if names else ""
    # That a database does a thousandth of what memory could copy is no headline.
    if top.share.known and not (top.in_rows and (top.share.value or 0.0) < 0.01):
        text += f", {_percent(top.share)} % {top.of_limit}"
    return text


_OPERATIONS = {"get": "gets", "put": "puts", "upsert": "upserts", "ingest": "ingests"}
_MOST_VALUES = 6


def question(results: Results) -> str:
    """What a run asks, for somebody who was not there: `How fast are gets at flight://a:1, and what holds
    them back? Each with streams 1, 2 and 4.`"""
    cells = results.cells
    if not cells:
        return ""
    what = listed(_OPERATIONS.get(name, name) for name in by_operation(cells))
    targets = {str(c.parameters.get("target")) for c in cells if c.parameters.get("target")}
    at = f" at {next(iter(targets))}" if len(targets) == 1 else ""
    asked = f"How fast are {what}{at}, and what holds them back?"
    axes = []
    for name in dict.fromkeys(n for members in by_operation(cells).values() for n in varying(members)):
        values = dict.fromkeys(labels.value(name, c.parameters.get(name)) for c in cells)
        shown = listed(values) if len(values) <= _MOST_VALUES else f"{len(values)} values"
        axes.append(f"{labels.head(name, nouns_of(cells[0]))} {shown}")
    return f"{asked} Each with {'; '.join(axes)}." if axes else asked


def counts(results: Results) -> str:
    """`6 cells, 30 trials, 5 failed`: what the figures stand on."""
    cells = results.cells
    parts = [plural(len(cells), "cell"), plural(sum(c.trials for c in cells), "trial")]
    for word, number in (
        ("failed", sum(c.failed for c in cells)),
        ("interrupted", sum(c.interrupted for c in cells)),
    ):
        if number:
            parts.append(f"{number} {word}")
    return ", ".join(parts)


def verified(results: Results) -> str:
    """How the data of the good trials were checked, in one sentence; empty without a good trial."""
    how: dict[str, int] = {}
    for cell in results.cells:
        for name, n in cell.verified.items():
            how[name] = how.get(name, 0) + n
    if not how:
        return ""
    if results.imported:
        return "imported, verification not known"
    if len(how) == 1:
        return f"verified: {next(iter(how))}, every trial"
    return "verified: " + ", ".join(f"{name} {plural(n, 'trial')}" for name, n in sorted(how.items()))


def instrument(results: Results) -> str:
    """What measuring cost: `sampling took 0.06 % of the CPU time of both ends; reading the clock ...`."""
    return instrument_of([r for c in results.cells for r in c.records])


def instrument_of(records: Sequence[Any]) -> str:
    """The same of these trials; empty where it was not accounted."""
    parts = []
    for name, whole, path in (
        ("sampling", "of the CPU time of both ends", ("resources", "sampler", "share")),
        ("reading the clock", "of the workers' time", ("instrument", "share")),
    ):
        shares = [s for r in records if (s := numeric(r, *path)) is not None]
        if shares:
            middle, most = statistics.median(shares), max(shares)
            worst = f" (worst: {_small(most)})" if _small(most) != _small(middle) else ""
            parts.append(f"{name} took {_small(middle)} {whole}{worst}")
    return ("in the median trial " if parts and len(records) > 1 else "") + "; ".join(parts)


def _small(part: float) -> str:
    """A small share with two digits: `0.06 %`."""
    return "0 %" if part <= 0 else percent(part, 3 if part < 1e-4 else 2 if part < 0.01 else 1)


def common(results: Results) -> str:
    """The parameters that all cells share and that a reader must know: data, rows per batch, target."""
    cells = results.cells
    if not cells:
        return ""
    differing = {n for members in by_operation(cells).values() for n in varying(members)}
    names = (
        *("target", "data", "rows_per_batch", "rows_per_stream", "duration_ns", "rate", "compression"),
        *("pin", "connections", "window", "send_buffer"),
    )
    usual = {"connections": "per-stream"}
    shared = []
    for name in names:
        values = {repr(c.parameters.get(name)) for c in cells}
        found = cells[0].parameters.get(name)
        if len(values) != 1 or found in (None, usual.get(name)) or name in differing:
            continue
        if name == "rows_per_batch" and any(c.parameters.get("data") == "remote" for c in cells):
            # The server cuts its own data as it likes, whatever was asked for.
            shared += _batches_of(cells)
            continue
        shared.append(labels.phrase(name, found, nouns_of(cells[0])))
    return ", ".join(shared)


def _batches_of(cells: Sequence[Cell]) -> list[str]:
    """`65,217 rows/batch`: the mean of what arrived, of several cells the least and the most."""
    sizes = sorted(round(mean) for c in cells if (mean := rows_a_batch(c)) is not None)
    if not sizes:
        return []
    least, most = count(sizes[0]), count(sizes[-1])
    return [f"{least if least == most else f'{least}..{most}'} rows/batch"]


def named(tables: Sequence[Sequence[Column]], names: Sequence[str]) -> list[list[Column]]:
    """Of each table settings, medians and counts, which are always there, and the columns with these heads.
    Raises `VenturiError` for a head that no table has."""
    wanted = {name.strip().casefold() for name in names} - {""}
    heads = list(dict.fromkeys(_typed(c) for table in tables for c in table))
    if unknown := sorted(wanted - set(heads)):
        raise VenturiError(
            f"--columns: no column of this run is called {unknown[0]}",
            hint=meant(unknown[0], heads, f"there are: {', '.join(heads)}"),
        )
    return [[c for c in table if c.rank == 0 or _typed(c) in wanted] for table in tables]


def _typed(column: Column) -> str:
    """A head as it is typed."""
    return column.head.replace("\N{NON-BREAKING HYPHEN}", "-").casefold()


def fit(
    offered: list[Column], room: int, width: Callable[[Column], int]
) -> tuple[list[Column], list[Column]]:
    """As many columns as `room` characters hold, and those left out.

    The lowest ranks come first, of the lowest those to the left. A text that is too long for what is left is
    cut, if a word or two of it can stay.
    """

    def lost(columns: list[Column]) -> bool:
        return any(c.rank == 1 and c.text for c in columns)

    found = _fitted(offered, room, width)
    if not lost(found[1]):
        return found
    again = _fitted([c if c.yields is None else replace(c, rank=c.yields) for c in offered], room, width)
    if not lost(again[1]):
        return again
    # Numbers that matter less than the text are not shown in its place.
    kept, left_out = _fitted([c for c in offered if c.rank <= 2], room, width)
    return kept, [c for c in offered if c.rank > 2 or c in left_out]


def _fitted(
    offered: list[Column], room: int, width: Callable[[Column], int]
) -> tuple[list[Column], list[Column]]:
    fitted = {i: c for i, c in enumerate(offered) if c.rank == 0}
    free = room - sum(width(c) for c in fitted.values())
    left_out: dict[int, Column] = {}
    while free < 0 and len(fitted) > 1:
        i, column = fitted.popitem()
        left_out[i] = column
        free += width(column)

    def take(i: int, column: Column) -> None:
        nonlocal free
        fitted[i] = column
        free -= width(column)

    wanted = sorted((i for i, c in enumerate(offered) if c.rank > 0), key=lambda i: (offered[i].rank, -i))
    for at, i in enumerate(wanted):
        column = offered[i]
        if width(column) <= free:
            take(i, column)
            continue
        if not column.text:
            left_out[i] = column
            continue
        # Numbers of the next rank are short: they go before the end of a text.
        beside = [offered[j] for j in wanted[at + 1 :] if offered[j].rank == column.rank + 1]
        alone = len(max(column.cells, key=len)) - (width(column) - free)
        most = alone - sum(width(c) for c in beside)
        if most < SHORTEST <= alone:
            most = alone  # rather the text without the numbers than neither
        if most < SHORTEST:
            left_out[i] = column
            continue
        take(i, replace(column, cells=[_cut(c, most) for c in column.cells]))
    return [fitted[i] for i in sorted(fitted)], [left_out[i] for i in sorted(left_out)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(" ,:") + "…"


def failure_rows(results: Results) -> list[tuple[str, str, str]]:
    """Cell, trials and error of all that did not end well; a cell's trials with the same error are one
    row."""
    names = {
        c.name: ", ".join(dict.fromkeys([c.operation, labels.label(c, results.telling[c.operation])]))
        for c in results.cells
        if c.trials + c.warmups > c.good
    }
    groups: dict[tuple[str, str], list[Any]] = {}
    for record in results.failures:
        cell = str(record.get("cell", "?"))
        raw = record.get("error")
        error = raw if isinstance(raw, dict) else {"message": raw or record.get("outcome")}
        message = labels.plain(error.get("message") or "no message")
        stream = error.get("stream")
        said = stream is None or message.startswith(f"stream {stream}")
        text = (f"{labels.plain(error['kind'])}: " if error.get("kind") else "") + message
        text += "" if said else f" (stream {stream})"
        if done := batches.acknowledged(record):
            text += f"; {done}"
        warm, repeat = record.get("warmup"), record.get("repeat", "?")
        groups.setdefault((labels.plain(names.get(cell, cell)), text), []).append(None if warm else repeat)
    return [(cell, _repeats(which), error) for (cell, error), which in groups.items()]


def _repeats(which: list[Any]) -> str:
    """`warm-up, repeats 0 1 4`."""
    numbers = [str(r) for r in which if r is not None]
    parts = ["warm-up"] if None in which else []
    if numbers:
        parts.append(f"repeat{'' if len(numbers) == 1 else 's'} {' '.join(numbers)}")
    return ", ".join(parts)
