"""One cell explained: its figures, its limits, its pipeline, its verdict, what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from venturi.analysis.advice import load_advice
from venturi.analysis.cells import batches, ingest
from venturi.analysis.cells import hosts as loaders
from venturi.analysis.cells.figures import ENDS, batches_timed
from venturi.analysis.cells.summary import Cell, best, varying
from venturi.analysis.results import Results
from venturi.analysis.verdict.types import Evidence, Verdict
from venturi.analysis.words import labels
from venturi.common.errors import VenturiError
from venturi.common.hdr import batches_for
from venturi.common.units import Quantity, count, percent, pick_unit
from venturi.report.figures import pipeline
from venturi.report.marks import marked
from venturi.report.names import name_of
from venturi.report.text import hosts, reason, summary

BEST = "best"


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


@dataclass(frozen=True)
class Explained:
    """Everything that is known of a cell, as texts."""

    cell: Cell
    name: str
    figures: list[tuple[str, str]]
    limits: list[Limit]
    pipeline: pipeline.Pipeline | None
    verdict: Verdict | None


def explain(results: Results, cell: Cell) -> Explained:
    verdict = results.verdicts.get(cell.name)
    return Explained(
        cell,
        name_of(results, cell),
        figures(cell),
        limits(cell),
        pipeline.of(cell, verdict),
        verdict,
    )


def figures(cell: Cell) -> list[tuple[str, str]]:
    """Name and text of each figure; what was not measured is left out."""
    out: list[tuple[str, Quantity | str | None]] = [
        ("throughput", cell.rows if cell.in_rows else cell.throughput),
        ("steady", cell.steady),
        *(
            ()
            if cell.noun == "point"
            else (("payload", cell.throughput) if cell.in_rows else ("rows", cell.rows),)
        ),
        ("batches", cell.batches),
        *(_upsert(cell) if cell.answered else _ingest(cell) if cell.in_rows else _latency(cell)),
        *((f"{end} CPU", cell.cpu[end]) for end in ENDS),
        *((f"{_counted_in(cell)} per {end} CPU-second", cell.per_cpu[end]) for end in ENDS),
        *(ingest.costs(cell) if cell.noun == "point" else ()),
        ("interval", cell.interval),
        ("loaders", evenness(cell)),
        ("trials", trials(cell)),
    ]
    return [(name, str(q)) for name, q in out if q is not None and (isinstance(q, str) or q.known)]


def _counted_in(cell: Cell) -> str:
    return f"{cell.noun}s" if cell.in_rows else "payload"


def _ingest(cell: Cell) -> list[tuple[str, Quantity | str | None]]:
    """Totals, bytes on their way and at rest, and how evenly the streams were served."""
    return [
        ("points in total", batches.rows_total(cell)),
        ("wire", ingest.wire(cell)),
        ("wire bytes a point", ingest.wire_point(cell)),
        ("stored", batches.stored_bytes(cell)),
        ("stored bytes a point", batches.stored_row(cell)),
        ("disk, written", ingest.disk(cell)),
        ("fairness", ingest.fairness_text(cell)),
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
    out: list[tuple[str, Quantity | str | None]] = [("rows in total", batches.rows_total(cell))]
    for kind in reversed(batches.KINDS):
        found = batches.latencies(cell, kind)
        if found:
            unit = pick_unit("ns", [found.get("p50", found.get("max", Quantity(None, unit="ns"))).value])
            told = ", ".join(f"{name} {q.number(unit)}" for name, q in found.items())
            out.append((f"{kind} time of a batch", f"{told} {unit}"))
    out.append(("batches timed", timed(cell)))
    out.append(("schedule", schedule(cell)))
    out += [("stored", batches.stored_bytes(cell)), ("stored a row", batches.stored_row(cell))]
    wrong = batches.troubles(cell.records)
    out.append(("errors", "; ".join([*batches.words(wrong), *batches.told(wrong)]) or None))
    return out


def schedule(cell: Cell) -> str | None:
    """How an open loop kept to its slots: `3k batches/s asked for; 12 % of the slots met late, by 9.8 s at
    most; 13,387 never`. None for a closed loop."""
    kept = [s for r in cell.records if (s := load_advice.slots(r)) is not None]
    if not kept:
        return None
    late, lag, unsent = (median(values) for values in zip(*kept, strict=True))
    text = (
        f"{count(cell.parameters.get('rate'))} batches/s asked for; {percent(late, 1)} of the slots met late"
    )
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
    found = [
        Limit(
            name,
            _counted(cell, cell.limit(name)),
            cell.shares.get(name, nothing),
            name == cell.binding,
            name in cell.passed,
        )
        for name, rate in cell.ceilings.items()
        if rate.value
    ]
    return sorted(found, key=lambda limit: (-(limit.share.value or 0.0), limit.rate.value or 0.0))


def _counted(cell: Cell, rate: Quantity) -> Quantity:
    """A limit in what the cell is counted in; commits as they are."""
    width = cell.row_bytes
    if rate.unit != "B/s" or not cell.in_rows or not width or rate.value is None:
        return rate
    low, high = (None if v is None else v / width for v in (rate.low, rate.high))
    return Quantity(rate.value / width, low, high, f"{cell.noun}s/s")


def unit_of(cell: Cell, told: Quantity) -> str:
    """The unit in which this limit of a cell is told: all of bytes or rows have the same."""
    if told.unit == "commits/s":
        return told.unit
    found = [limit.rate for limit in limits(cell) if limit.rate.unit != "commits/s"]
    unit = f"{cell.noun}s/s"
    if not cell.in_rows or any(rate.unit != unit for rate in found):
        return "MB/s"
    return pick_unit(unit, [rate.value for rate in found])


def cost(cell: Cell) -> str:
    """What measuring cost in the median trial of this cell; empty where it was not accounted."""
    return summary.instrument_of(cell.records)


def find(results: Results, name: str) -> Cell:
    """The cell that `name` means: `best`, a cell's name or the begin of one, or PARAMETER=VALUE,...

    Raises `VenturiError` where it is none, or more than one.
    """
    if not results.cells:
        raise VenturiError(f"{results.name}: there are no cells in this run")
    if name == BEST:
        return best(results.cells) or results.cells[0]
    exact = [c for c in results.cells if c.name == name]
    begun = [c for c in results.cells if c.name.startswith(name)]
    found = exact or (_by_parameters(results, name) if "=" in name else begun)
    if len(found) == 1:
        return found[0]
    if not found:
        raise VenturiError(
            f"--cell {name}: there is no such cell in this run",
            hint=f"name one as {example(results.cells)}, or by its name: {_some(results.cells)}",
        )
    raise VenturiError(
        f"--cell {name}: {len(found)} cells fit",
        hint=f"name one of them: {_some(found)}; or add what tells it apart: {example(found)}",
    )


def _some(cells: Sequence[Cell], most: int = 4) -> str:
    rest = f", ... (venturi show RUN --format csv has all {len(cells)})" if len(cells) > most else ""
    return ", ".join(labels.plain(c.name) for c in cells[:most]) + rest


def example(cells: Sequence[Cell]) -> str:
    """The first of these cells by what tells it from the others, as `find` takes it; by its name where no
    parameters tell, or where they would need quotes."""
    one = cells[0]
    names = (["operation"] if len({c.operation for c in cells}) > 1 else []) + varying(cells)
    left, said = list(cells), list[str]()
    for name in names:
        value = one.parameters.get(name)
        rest = [c for c in left if c.parameters.get(name) == value]
        if len(rest) < len(left) and re.fullmatch(r"[\w.:/-]+", text := _typed(value)):
            left, said = rest, [*said, f"{name}={text}"]
    return ",".join(said) if len(left) == 1 else labels.plain(one.name)


def _typed(value: object) -> str:
    """A parameter's value as it is typed after `=`."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _by_parameters(results: Results, text: str) -> list[Cell]:
    wanted = []
    for part in text.split(","):
        key, separator, value = part.partition("=")
        if not separator or not any(key.strip() in c.parameters for c in results.cells):
            known = sorted({n for c in results.cells for n in c.parameters})
            raise VenturiError(
                f"--cell {text}: {part.strip()!r} names no parameter of this run",
                hint=f"PARAMETER=VALUE, parameters: {', '.join(known)}",
            )
        wanted.append((key.strip(), value.strip()))
    return [c for c in results.cells if all(_is(c.parameters.get(k), v) for k, v in wanted)]


def _is(value: object, text: str) -> bool:
    """Whether a parameter is what was typed: `4096` and `4,096` as well as `4k` for 4000; `none` for null."""
    if value is None:
        return text.lower() in ("none", "null", "-")
    if isinstance(value, bool):
        return text.lower() in (("yes", "true") if value else ("no", "false"))
    if isinstance(value, int | float):
        for suffix, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)):
            if text.endswith(suffix):
                try:
                    return float(text.removesuffix(suffix).replace("_", "")) * factor == float(value)
                except ValueError:
                    return False
    return str(value) == text


def evidence(found: Explained) -> list[str]:
    """The evidence of the verdict without what limits and pipeline say beside it."""
    if found.verdict is None:
        return []
    said = {limit.name for limit in found.limits}
    if found.pipeline is not None:
        said |= {f"{side.end} workers" for side in found.pipeline.sides}
    return [evidence_text(e) for e in found.verdict.evidence if e.name not in said]


def evenness(cell: Cell) -> str | None:
    """`4: the slowest 94 % of the fastest`; None where one process ran all streams."""
    found = loaders.hosts(cell)
    told = loaders.evenness(found)
    return f"{len(found)}: {told}" if told else None


def _loaders(results: Results, cell: Cell, width: int) -> list[tuple[str, str]]:
    """A line a loader; of many the slowest and the fastest."""
    found = loaders.hosts(cell)
    if not found:
        return []
    shown, behind = hosts.few(found), results.stragglers.get(cell.name, [])
    kept, _ = summary.fit(
        hosts.columns(cell, shown, behind), width - 2, lambda c: max(map(len, [c.head, c.unit, *c.cells])) + 2
    )
    wide = [max(map(len, [c.head, c.unit, *c.cells])) for c in kept]

    def line(texts: Sequence[str]) -> str:
        sides = (t.ljust(w) if c.text else t.rjust(w) for t, w, c in zip(texts, wide, kept, strict=True))
        return "  " + "  ".join(sides)

    out = [("bold", line([c.head for c in kept])), ("dim", line([c.unit for c in kept]))]
    out += [("", line([c.cells[i] for c in kept])) for i in range(len(shown))]
    if len(shown) < len(found):
        out.append(("dim", f"  {len(found) - len(shown)} more between"))
    return out


def evidence_text(item: Evidence) -> str:
    """A fact in words; a bare number gets its name."""
    return item.text if len(item.text) > 30 or item.name in item.text else f"{item.name}: {item.text}"


def lines(results: Results, cell: Cell, width: int) -> list[tuple[str, str]]:
    """Style and text of each line, for a terminal of this width: one screen."""
    from venturi.report.text.wrap import wrap

    found = explain(results, cell)
    out: list[tuple[str, str]] = []

    def say(text: str, style: str = "", indent: str = "  ") -> None:
        first, *rest = wrap(labels.plain(text), width - len(indent) - 2) or [""]
        out.append((style, indent + first))
        out.extend((style, indent + "  " + line) for line in rest)

    say(found.name, "bold cyan", "")
    say(f"cell {cell.name} of run {results.name}", "dim", "")
    shown = dict(found.figures)
    for pair in (("throughput",), ("rows", "batches"), ("batch latency p50", "batch latency p99",
                  "longest batch"),
                 ("rows in total",), ("points in total",),
                 ("wire", "wire bytes a point"), ("response time of a batch",), ("service time of a batch",),
                 ("batches timed",),
                 ("schedule",),
                 ("client CPU", "server CPU"),
                 ("rows per client CPU-second", "rows per server CPU-second"),
                 ("points per client CPU-second", "points per server CPU-second"),
                 ("client CPU a point", "server CPU a point"),
                 ("stored", "stored a row", "stored bytes a point"), ("disk, written",),
                 ("fairness",), ("loaders",),
                 ("errors",), ("trials",)):  # fmt: skip
        known = [f"{name} {shown[name]}" for name in pair if name in shown]
        if known:
            known[0] += marked(results.environment)
            say("; ".join(known), "bold" if pair[0] == "throughput" else "")
    out += _loaders(results, cell, width)
    for text in hosts.marks(results.stragglers.get(cell.name, [])):
        say(text)
    if found.limits:
        out.append(("bold", "limits (share of each: median over the repeats)"))
        wide = max(len(limit.name) for limit in found.limits)
        for limit in found.limits:
            unit = unit_of(cell, limit.rate)
            lowest = "<- lowest" if limit.binding else ""
            mark = "".join(f"  {text}" for text in (limit.margin, lowest, limit.mark) if text)
            share = pipeline.percent(limit.share.value) if limit.share.value is not None else ""
            out.append(
                ("", f"  {limit.name:<{wide}}  {limit.rate.number(unit):>9} {unit}  {share:>6}{mark}"[:width])
            )
        for limit in found.limits:
            if limit.passed:
                say(f"{limit.name} is a reference, not a limit: {cell.why_passed(limit.name)}")
    if found.pipeline is not None:
        out.append(("bold", "pipeline (share of each end's workers' time: median over the repeats)"))
        out += [("", line[:width]) for line in pipeline.ascii_lines(found.pipeline, width)]
    if found.verdict is not None:
        verdict = found.verdict
        out.append(("bold", f"verdict: {reason.title(verdict)} ({verdict.confidence} confidence)"))
        if verdict.flagged:
            say(reason.FLAG_NOTE, "red")
        for line in verdict.lines:
            say(line)
        for told in evidence(found):
            say(f"- {told}")
        if verdict.next:
            out.append(("bold", "next"))
            for step in verdict.next:
                say(f"- {step}")
    if spent := cost(cell):
        say(spent, "dim", "")
    return out
