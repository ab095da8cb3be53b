"""A whole run as a document: its answer, its tables, why, what failed, and how it was measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells import writes
from venturi.analysis.cells.machines import unproven
from venturi.analysis.cells.summary import Cell, by_operation, rows_a_batch, varying
from venturi.analysis.results import Results, representative
from venturi.analysis.wording import listed, nouns_of
from venturi.common.units import count, percent, plural
from venturi.engine.record import Trial
from venturi.report import hosts, proofs, reason
from venturi.report.document import ALL, Block, Bullets, Document, Item, Section, Table, Terms, Text
from venturi.report.summary import columns, fastest, marked, name_of
from venturi.report.terminal import MOST_ROWS, choose

MOST_FAILURES = 20
BEST_ROWS = 30
"""The best rows of a table that is too long for a terminal."""


def document(results: Results, brief: bool = False, names: Sequence[str] = ()) -> Document:
    """`brief`: as a terminal shows it. `names`: the columns to show there beside settings and medians.

    Raises `VenturiError` for a name that no column has.
    """
    blocks: list[Block] = [Text(text, "strong") for text in (*headline(results), *hosts.headline(results))]
    blocks.append(Text(facts(results), "quiet"))
    if proved := proofs.headline(results.environment):
        blocks.append(Text(proved, "bad" if unproven(results.environment) else "quiet"))
    blocks += tables(results, brief, names)
    blocks += sections(results, brief)
    blocks += reason.published(results)
    blocks += reason.sections(results, brief)
    if failed_trials := failed(results, MOST_FAILURES if brief else None):
        blocks.append(Section("Failed trials", failed_trials, "bad"))
    if results.advice:
        blocks.append(Section("Warnings", [Bullets([str(advice) for advice in results.advice])], "alert"))
    if not brief and (models := reason.models(results)):
        blocks.append(Section("Models", models))
    if cost := instrument(results):
        blocks.append(Text(cost, "quiet"))
    if not brief:
        blocks.append(Section("Method", [Terms(METHOD)]))
    return Document(f"Venturi: {results.name}", blocks)


def failed(results: Results, most: int | None = None) -> list[Block]:
    """The trials that failed, each with its error."""
    rows = failure_rows(results)
    items = [Item(f"{cell}, {trials}", [error]) for cell, trials, error in rows[:most]]
    more = f"{len(rows) - len(items)} more; venturi show --format json has all"
    return [Bullets(items, ""), *([Text(more, "quiet")] if len(items) < len(rows) else ())] if rows else []


def tables(results: Results, brief: bool = False, names: Sequence[str] = ()) -> list[Block]:
    """A table per operation."""
    groups = by_operation(results.cells)
    shown = {operation: _in_sight(cells) if brief else cells for operation, cells in groups.items()}
    mark = unproven(results.environment)
    every = bool(names) or not brief
    found = [columns(cells, every, reason.column(results, cells), mark) for cells in shown.values()]
    if names:
        found = choose(found, names)
    out: list[Block] = []
    for (operation, cells), chosen in zip(groups.items(), found, strict=True):
        hint = f"--columns NAMES chooses, {ALL.removeprefix('venturi show ')}"
        blocks: list[Block] = [Table(chosen, hint=hint)]
        if more := len(cells) - len(shown[operation]):
            text = f"the fastest of each stream count; {more:,} more cells: "
            text += "venturi show --format csv has all, venturi report opens each"
            blocks.append(Text(text, "quiet"))
        out.append(Section(wording.plain(operation), blocks))
    return out


def _in_sight(cells: list[Cell]) -> list[Cell]:
    if len(cells) <= MOST_ROWS:
        return cells
    best = {c.name for c in representative(cells, BEST_ROWS)}
    return [c for c in cells if c.name in best]


def sections(results: Results, brief: bool = False) -> list[Section]:
    """Places, hosts and loaders, if the run has several."""
    return [*hosts.place_sections(results, brief), *hosts.host_sections(results, brief)]


def facts(results: Results) -> str:
    """How much was measured, what all cells share, and how the data were verified."""
    return "; ".join(filter(None, (counts(results), common(results), verified(results))))


def headline(results: Results) -> list[str]:
    """One line an operation: `get: best 2,431 MB/s [2,390..2,470] with 2 streams, 78 % of raw TCP`."""
    groups = by_operation(results.cells).items()
    mark = marked(results.environment)
    out = [f"{wording.plain(operation)}: {fastest(cells)}{mark}" for operation, cells in groups]
    return out or ["no trial was measured"]


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
    text = f"How fast are {what}{at}, and what holds them back?"
    axes = []
    for name in dict.fromkeys(n for members in by_operation(cells).values() for n in varying(members)):
        values = dict.fromkeys(wording.value(name, c.parameters.get(name)) for c in cells)
        shown = listed(values) if len(values) <= _MOST_VALUES else f"{len(values)} values"
        axes.append(f"{wording.head(name, nouns_of(cells[0]))} {shown}")
    return f"{text} Each with {'; '.join(axes)}." if axes else text


def counts(results: Results) -> str:
    """`6 cells, 30 trials, 5 failed`: what the figures stand on."""
    cells = results.cells
    parts = [plural(len(cells), "cell"), plural(sum(c.trials for c in cells), "trial")]
    numbers = {word: sum(getattr(c, word) for c in cells) for word in ("failed", "interrupted")}
    return ", ".join([*parts, *(f"{number} {word}" for word, number in numbers.items() if number)])


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


def instrument_of(records: Sequence[Trial]) -> str:
    """The same of these trials; empty where it was not accounted."""
    parts = []
    for name, total, found in (
        ("sampling", "of the CPU time of both ends", [r.resources.sampler.share for r in records]),
        ("reading the clock", "of the workers' time", [r.instrument.share for r in records]),
    ):
        if shares := [share for share in found if share is not None]:
            middle, most = statistics.median(shares), max(shares)
            worst = f" (worst: {_small(most)})" if _small(most) != _small(middle) else ""
            parts.append(f"{name} took {_small(middle)} {total}{worst}")
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
        shared.append(wording.phrase(name, found, nouns_of(cells[0])))
    return ", ".join(shared)


def _batches_of(cells: Sequence[Cell]) -> list[str]:
    """`65,217 rows/batch`: the mean of what arrived, of several cells the least and the most."""
    sizes = sorted(round(mean) for c in cells if (mean := rows_a_batch(c)) is not None)
    if not sizes:
        return []
    least, most = count(sizes[0]), count(sizes[-1])
    return [f"{least if least == most else f'{least}..{most}'} rows/batch"]


def failure_rows(results: Results) -> list[tuple[str, str, str]]:
    """Cell, trials and error of all that did not end well; a cell's trials with the same error are one
    row."""
    names = {c.name: name_of(results, c) for c in results.cells if c.trials + c.warmups > c.good}
    groups: dict[tuple[str, str], list[Any]] = {}
    for record in results.failures:
        cell = record.cell
        error, stream = record.error, record.error.stream
        message = wording.plain(error.message or record.outcome)
        named = stream is None or message.startswith(f"stream {stream}")
        text = (f"{wording.plain(error.kind)}: " if error.kind else "") + message
        text += "" if named else f" (stream {stream})"
        if done := writes.acknowledged(record):
            text += f"; {done}"
        warm, repeat = record.warmup, record.repeat
        groups.setdefault((wording.plain(names.get(cell, cell)), text), []).append(None if warm else repeat)
    return [(cell, _repeats(which), error) for (cell, error), which in groups.items()]


def _repeats(which: list[Any]) -> str:
    """`warm-up, repeats 0 1 4`."""
    numbers = [str(r) for r in which if r is not None]
    parts = ["warm-up"] if None in which else []
    if numbers:
        parts.append(f"repeat{'' if len(numbers) == 1 else 's'} {' '.join(numbers)}")
    return ", ".join(parts)


METHOD = (
    ("payload", "The bytes of values: rows x width for columns of fixed width; for others offsets, data "
     "and validity that are used. Not what the sockets carried."),
    ("MB", "10^6 bytes. MiB is 2^20 bytes."),
    ("throughput", "Acknowledged (put) or decoded (get) payload over the interval."),
    ("interval", "From one start instant, when all streams are connected and warm, to the last stream's "
     "last batch. Planning, connecting and making the data are set-up. They count only with include_setup."),
    ("steady", "The same over the window in which every stream moves data: from the last stream's first "
     "batch to the first stream's end."),
    ("median, 95 % interval", "Median over the good trials, without warm-ups. With 6 repeats or more, the "
     "interval between two of them that covers 95 % for any distribution. With fewer, the range, which "
     "covers 93.75 % (5 repeats), 87.5 % (4), 75 % (3)."),
    ("limit", "The lowest limit that Venturi measured for these trials: raw TCP (bare sockets, the same "
     "direction, as many connections), copying of memory, the codec on the cores that use it, Venturi's "
     "engine. The interval of the share divides the ends of both intervals crosswise."),
    ("verdict", "What limits the configuration: the first proof that holds, in this order: schedule, load "
     "generator (the figure is flagged), cores, pools, engine, plugin, cipher, one stage, link, disk, "
     "memory, flow control, losses, server, CPUs that others hold, the busiest pool or end. If none holds, "
     "it is not known, and the verdict names what would settle it. docs/verdicts.md explains each."),
    ("latency", "Of one batch. Closed loop: service time. With a rate: response time from the batch's "
     "intended send time. Late sends are counted, never skipped."),
    ("stages", "Each worker's time without gaps. Those called await_... wait: for input, the socket, the "
     "HTTP/2 window, a reply, the schedule, a thread. verify is the instrument's checksum."),
    ("verified", "checksum: an order-independent 64-bit sum over all values agreed at both ends. count: "
     "rows agreed. acknowledged: the server confirmed. A mismatch makes the trial a failure."),
    ("samples", "Counters of both ends every 100 ms, on the client's clock. Their cost, and that of "
     "reading the clock, is measured and printed."),
    ("CPU", "User and system time of the process of that end over the interval, in cores."),
)  # fmt: skip
