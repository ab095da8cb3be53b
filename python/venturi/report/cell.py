"""One cell explained: its figures, its limits, its pipeline, its verdict, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from venturi.analysis.advice import collect
from venturi.analysis.cells import hosts as loaders
from venturi.analysis.cells import writes
from venturi.analysis.cells.figures import ENDS, batches_timed
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.analysis.verdict.types import Evidence, Verdict
from venturi.common.hdr import batches_for
from venturi.common.units import Quantity, count, percent, pick_unit
from venturi.report import hosts, reason, run
from venturi.report.document import Block, Bullets, Document, Lines, Section, Table, Text
from venturi.report.figures import pipeline
from venturi.report.summary import marked, name_of


@dataclass(frozen=True)
class Limit:
    """A measured limit and the share of it that the cell reached."""

    name: str
    rate: Quantity
    share: Quantity
    binding: bool
    passed: bool
    """A reference, and no limit."""

    @property
    def margin(self) -> str:
        """The interval of the share: `[82..97]`, in percent."""
        low, high = self.share.low, self.share.high
        return "" if low is None or high is None else f"[{_share(low)}..{_share(high)}]"

    @property
    def mark(self) -> str:
        return "reference: passed" if self.passed else ""


def _share(value: float) -> str:
    return f"{100 * value:.2g}" if value < 0.005 else f"{100 * value:.0f}"


def figures(cell: Cell) -> list[tuple[str, str]]:
    """Name and text of each figure; what was not measured is left out."""
    counted = f"{cell.noun}s" if cell.in_rows else "payload"
    size: tuple[str, Quantity] = ("payload", cell.throughput) if cell.in_rows else ("rows", cell.rows)
    out: list[tuple[str, Quantity | str | None]] = [
        ("throughput", cell.rows if cell.in_rows else cell.throughput),
        ("steady", cell.steady),
        *(() if cell.noun == "point" else (size,)),
        ("batches", cell.batches),
        *(_upsert(cell) if cell.answered else _ingest(cell) if cell.in_rows else _latency(cell)),
        *((f"{end} CPU", cell.cpu[end]) for end in ENDS),
        *((f"{counted} per {end} CPU-second", cell.per_cpu[end]) for end in ENDS),
        *(writes.costs(cell) if cell.noun == "point" else ()),
        ("interval", cell.interval),
        ("loaders", evenness(cell)),
        ("trials", trials(cell)),
    ]
    return [(name, str(q)) for name, q in out if q is not None and (isinstance(q, str) or q.measured)]


def _ingest(cell: Cell) -> list[tuple[str, Quantity | str | None]]:
    """Totals, bytes on their way and at rest, and how evenly the streams were served."""
    return [
        ("points in total", writes.rows_total(cell)),
        ("wire", writes.wire(cell)),
        ("wire bytes a point", writes.wire_point(cell)),
        ("stored", writes.stored_bytes(cell)),
        ("stored bytes a point", writes.stored_row(cell)),
        ("disk, written", writes.disk(cell)),
        ("fairness", writes.fairness_text(cell)),
    ]


def _latency(cell: Cell) -> list[tuple[str, Quantity | str | None]]:
    return [
        ("batch latency p50", cell.latency.get(50.0)),
        ("batch latency p99", cell.latency.get(99.0)),
        ("longest batch", cell.latency.get(100.0)),
        ("batches timed", timed(cell)),
    ]


def timed(cell: Cell) -> str | None:
    """`34 a trial at least; p99 needs 100`: what stands behind latencies."""
    least = batches_timed(cell.records)
    if least is None:
        return None
    wanted = [p for p in (50.0, 99.0) if batches_for(p) > least]
    lacks = "".join(f"; p{p:g} needs {batches_for(p):,}" for p in wanted)
    return f"{least:,} a trial{' at least' if len(cell.records) > 1 else ''}{lacks}"


def _upsert(cell: Cell) -> list[tuple[str, Quantity | str | None]]:
    """Totals, latency of a batch by kind, what was stored, what went wrong."""
    out: list[tuple[str, Quantity | str | None]] = [("rows in total", writes.rows_total(cell))]
    for kind in reversed(writes.KINDS):
        found = writes.latencies(cell, kind)
        if found:
            unit = pick_unit("ns", [found.get("p50", found.get("max", Quantity(None, unit="ns"))).value])
            times = ", ".join(f"{name} {q.number(unit)}" for name, q in found.items())
            out.append((f"{kind} time of a batch", f"{times} {unit}"))
    out.append(("batches timed", timed(cell)))
    out.append(("schedule", schedule(cell)))
    out += [("stored", writes.stored_bytes(cell)), ("stored a row", writes.stored_row(cell))]
    wrong = writes.troubles(cell.records)
    out.append(("errors", "; ".join([*writes.trouble_phrases(wrong), *writes.error_lines(wrong)]) or None))
    return out


def schedule(cell: Cell) -> str | None:
    """How an open loop kept to its slots: `3k batches/s asked for; 12 % of the slots met late, by 9.8 s at
    most; 13,387 never`. None for a closed loop."""
    kept = [s for r in cell.records if (s := collect.slots(r)) is not None]
    if not kept:
        return None
    late, lag, unsent = (median(values) for values in zip(*kept, strict=True))
    text = f"{count(cell.parameters.get('rate'))} batches/s asked for"
    text += f"; {percent(late, 1)} of the slots met late"
    text += f", by {Quantity(lag, unit='ns')} at most" if late else ""
    return text + (f"; {unsent:,.0f} never" if unsent >= 1 else "")


def trials(cell: Cell) -> str:
    """`5 of 5 good, verified: checksum`."""
    text = f"{cell.good} of {cell.trials} good"
    for word, n in (("failed", cell.failed), ("interrupted", cell.interrupted)):
        text += f", {n} {word}" if n else ""
    return f"{text}, verified: {cell.verification}" if cell.good else text


def limits(cell: Cell) -> list[Limit]:
    """The limits of a cell, the lowest first: that of which most was reached."""
    nothing = Quantity(None, unit="fraction")
    found = []
    for name in (name for name, rate in cell.ceilings.items() if rate.value):
        rate, share = _counted(cell, cell.limit(name)), cell.shares.get(name, nothing)
        found.append(Limit(name, rate, share, name == cell.binding, name in cell.passed))
    return sorted(found, key=lambda limit: (-(limit.share.value or 0.0), limit.rate.value or 0.0))


def _counted(cell: Cell, rate: Quantity) -> Quantity:
    """A limit in what the cell is counted in; commits as they are."""
    width = cell.row_bytes
    if rate.unit != "B/s" or not cell.in_rows or not width or rate.value is None:
        return rate
    low, high = (None if v is None else v / width for v in (rate.low, rate.high))
    return Quantity(rate.value / width, low, high, f"{cell.noun}s/s")


def unit_of(cell: Cell, shown: Quantity) -> str:
    """The unit in which this limit of a cell is told: all of bytes or rows have the same."""
    if shown.unit == "commits/s":
        return shown.unit
    found = [limit.rate for limit in limits(cell) if limit.rate.unit != "commits/s"]
    unit = f"{cell.noun}s/s"
    if not cell.in_rows or any(rate.unit != unit for rate in found):
        return "MB/s"
    return pick_unit(unit, [rate.value for rate in found])


def evidence(cell: Cell, verdict: Verdict, drawn: pipeline.Pipeline | None) -> list[str]:
    """The evidence of the verdict without what limits and pipeline say beside it."""
    beside = {limit.name for limit in limits(cell)}
    beside |= {f"{side.end} workers" for side in drawn.sides} if drawn is not None else set()
    return [evidence_text(e) for e in verdict.evidence if e.name not in beside]


def evenness(cell: Cell) -> str | None:
    """`4: the slowest 94 % of the fastest`; None where one process ran all streams."""
    found = loaders.hosts(cell)
    text = loaders.evenness(found)
    return f"{len(found)}: {text}" if text else None


def _loaders(results: Results, cell: Cell) -> list[Block]:
    """A row per loader; of many the slowest and the fastest."""
    found = loaders.hosts(cell)
    if not found:
        return []
    shown, behind = hosts.few(found), results.stragglers.get(cell.name, [])
    out: list[Block] = [Table(hosts.columns(cell, shown, behind))]
    if len(shown) < len(found):
        out.append(Text(f"{len(found) - len(shown)} more between", "quiet"))
    return [*out, Bullets(hosts.marks(behind), "")]


def evidence_text(item: Evidence) -> str:
    """A fact in words; a bare number gets its name."""
    return item.text if len(item.text) > 30 or item.name in item.text else f"{item.name}: {item.text}"


_HIDDEN = {"steady", "payload", "interval", *(f"payload per {end} CPU-second" for end in ENDS)}
"""Figures that a terminal does not show."""
_JOINED = {
    "batches": "rows",
    "batch latency p99": "batch latency p50",
    "longest batch": "batch latency p50",
    "wire bytes a point": "wire",
    "stored a row": "stored",
    "stored bytes a point": "stored",
    "server CPU": "client CPU",
    "rows per server CPU-second": "rows per client CPU-second",
    "points per server CPU-second": "points per client CPU-second",
    "server CPU a point": "client CPU a point",
}
"""Those that share the line of another, if that is the line before."""


def _lines(found: Sequence[tuple[str, str]], mark: str) -> list[str]:
    lines: list[str] = []
    head = ""
    for name, text in found:
        if head and _JOINED.get(name) == head:
            lines[-1] += f"; {name} {text}"
        elif name not in _HIDDEN:
            head = name
            lines.append(f"{name} {text}{mark}")
    return lines


def document(results: Results, cell: Cell, width: int) -> Document:
    """One cell for a terminal of this width: one screen."""
    verdict = results.verdicts.get(cell.name)
    drawn, found, name = pipeline.of(cell, verdict), limits(cell), name_of(results, cell)
    blocks: list[Block] = [
        Text(f"cell {cell.name} of run {results.name}", "quiet"),
        Bullets(_lines(figures(cell), marked(results.environment)), ""),
        *_loaders(results, cell),
    ]
    if found:
        references = [limit.name for limit in found if limit.passed]
        passed = [f"{name} is a reference, not a limit: {cell.why_passed(name)}" for name in references]
        title = "Limits (share of each: median over the repeats)"
        blocks.append(Section(title, [Lines(_limit_lines(cell, found)), Bullets(passed, "")]))
    if drawn is not None:
        title = "Pipeline (share of each end's workers' time: median over the repeats)"
        blocks.append(Section(title, [Lines(pipeline.ascii_lines(drawn, width))]))
    if verdict is not None:
        why: list[Block] = [Bullets(verdict.lines, ""), Bullets(evidence(cell, verdict, drawn))]
        if verdict.flagged:
            why.insert(0, Text(reason.FLAG_NOTE, "bad"))
        title = f"Verdict: {reason.title(verdict)} ({verdict.confidence} confidence)"
        blocks.append(Section(title, why))
        if verdict.next:
            blocks.append(Section("Next", [Bullets(verdict.next)]))
    if spent := run.instrument_of(cell.records):
        blocks.append(Text(spent, "quiet"))
    return Document(name, [Section(name, blocks)])


def _limit_lines(cell: Cell, found: Sequence[Limit]) -> list[str]:
    wide = max(len(limit.name) for limit in found)
    out = []
    for limit in found:
        unit = unit_of(cell, limit.rate)
        marks = (limit.margin, "<- lowest" if limit.binding else "", limit.mark)
        share = pipeline.percent(limit.share.value) if limit.share.value is not None else ""
        line = f"  {limit.name:<{wide}}  {limit.rate.number(unit):>9} {unit}  {share:>6}"
        out.append(line + "".join(f"  {text}" for text in marks if text))
    return out
