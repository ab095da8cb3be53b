"""`venturi fit`, `predict`, `best`: the laws behind a run's figures, what they predict, the best setting."""

from __future__ import annotations

import enum
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import typer

from venturi.cli import options
from venturi.cli.options import flag, switch
from venturi.common.errors import VenturiError
from venturi.common.texts import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from venturi.analysis.cells.summary import Cell
    from venturi.analysis.models.batch_cost import BatchCost
    from venturi.analysis.models.fits import AxisFit, Fits
    from venturi.analysis.models.over_links import LinkFit
    from venturi.report.document import Block

app = typer.Typer(rich_markup_mode=None, add_completion=False)


MOST_SHOWN = 6

FIT = """\b
Examples:
  venturi fit last
  venturi fit last --over streams --where "rows_per_batch == 4096"
  venturi fit reference:cartesius-remote --over streams --hold-out 8
  venturi fit last --over link
  venturi fit last --format json
"""


@app.command("fit", epilog=FIT)
def fit(
    run: str = options.RUN,
    over: str | None = flag(
        "This parameter only, as streams, rows_per_batch, rows_per_stream, link.", metavar="AXIS"
    ),
    where: list[str] | None = options.WHERE,
    hold_out: str | None = flag(
        "Leave out these values of the axis (8, or 6,7,8), predict them, say how it came out.", metavar="N"
    ),
    format: options.Format = options.FORMAT,
    all: bool = switch("Every fit, not only the most telling ones.", "--all"),
) -> None:
    """Fit time over size (Hockney) and scaling laws over streams; say where more stops paying."""
    from venturi.analysis.models import fit_words, fits, over_links
    from venturi.analysis.models.batch_cost import AXIS, batch_costs
    from venturi.analysis.results import cells_where
    from venturi.report.document import Document

    found = options.read(run)
    cells = cells_where(found.cells, where, run) if where else found.cells
    if over is not None and not any(over in m.parameters for m in cells):
        names = sorted({n for m in cells for n in m.parameters})
        raise VenturiError(f"--over {over}: no such parameter", hint=f"parameters are: {', '.join(names)}")
    if over == over_links.AXIS:
        of_links = over_links.build(cells)
        wanted = held_links(cells, hold_out)
        options.print_answer(
            format,
            lambda: Document("Fits", link_sections(of_links, wanted)),
            lambda: {
                "links": fit_words.document(of_links, over_links.crossings(of_links), _held(of_links, wanted))
            },
        )
        return
    held = _numbers(hold_out) if hold_out is not None else []
    if held and over is None:
        over = "streams"
    kept = [m for m in cells if not held or m.parameters.get(over or "") not in held]
    if held and len(kept) == len(cells):
        raise VenturiError(f"--hold-out {hold_out}: no cell has that value of {over}")
    made = fits.build(kept, over) if over is not None or where or held else found.fits
    costs = batch_costs(kept) if over in (None, AXIS) else []
    of_links = over_links.build(kept) if over is None else []
    if format is options.Format.json:
        found_costs: dict[str, Any] = {"batch_cost": [_cost(one) for one in costs]}
        if of_links:
            found_costs["links"] = fit_words.document(of_links, over_links.crossings(of_links), {})
        options.print_json(document(made, _held_out(made, cells, over, held)) | found_costs)
        return
    own = made or made.notes or not of_links
    blocks = _blocks(made, _held_out(made, cells, over, held), all, costs) if own else []
    options.print_document(Document("Fits", [*blocks, *link_sections(of_links, ())]))


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise VenturiError(f"--hold-out {text}: write numbers, as in 8 or 6,7,8") from None


def _held_out(
    made: Fits, cells: Sequence[Cell], over: str | None, held: Sequence[float]
) -> list[dict[str, Any]]:
    """The values left out, with what the fits say of them and what was measured."""
    from statistics import median

    from venturi.analysis.cells.summary import by_operation
    from venturi.analysis.models import fit_words, fits
    from venturi.common.units import Quantity

    out = []
    for one in made.over(over) if over and held else ():
        if one.fit is None:
            continue
        every = by_operation(cells)[one.operation]
        like = [m for m in every if all(m.parameters.get(k) == v for k, v in one.where.items())]
        if one.pooled and one.pooled_from is not None:
            like = [m for m in like if (m.parameters.get(one.pooled) or 0) >= one.pooled_from]
        complete = fits.AxisFit(one.operation, one.axis, one.where, like, one.unit, one.pooled)
        values = fits.observations(complete)
        for n in held:
            if not values.get(n):
                continue
            measured = median(values[n])
            interval = one.fit.predict(n, 1 if one.pooled else len(values[n]))
            out.append(
                {
                    "fit": fit_words.head(one),
                    "value": n,
                    "predicted": interval.median,
                    "low": interval.low,
                    "high": interval.high,
                    "measured": measured,
                    "unit": one.unit,
                    "error": interval.median / measured - 1,
                    "inside": interval.low <= measured <= interval.high,
                    "text": f"{fit_words.several(one.axis, n)} left out: predicted "
                    f"{interval.quantity(one.unit)}, measured {Quantity(measured, unit=one.unit)}: "
                    f"{100 * (interval.median / measured - 1):+.1f} %",
                }
            )
    return out


def _cost(one: BatchCost) -> dict[str, Any]:
    """What a batch and a row cost, for machines: a in ns, rates in rows/s, the knee in rows."""
    from venturi.report.document import fields

    entry = fields(one, "operation", "where", "sentence", under_way="lanes") | {
        "refused": one.refused or None
    }
    if one.fit is not None:
        most = one.most
        a, half = one.fit.intervals["a"], one.fit.intervals["n_half"]
        parts = {"a_ns": a, "n_half_rows": half, "knee_rows": one.knee}
        entry |= {k: _interval(v) for k, v in parts.items()}
        entry["most_rows_per_second"] = fields(most, "value", "low", "high")
    return entry


def _blocks(
    made: Fits, held_out: Sequence[dict[str, Any]], every: bool, costs: Sequence[BatchCost] = ()
) -> list[Block]:
    from venturi.report import reason
    from venturi.report.document import Text

    if not made and not made.notes:
        return [Text("nothing to fit: no parameter was varied, or no trial succeeded")]
    shown = {(s.operation, s.axis) for s in made.main}
    refused = [s for s in made.scalings if (s.operation, s.axis) not in shown][:MOST_SHOWN]
    scalings = made.scalings if every else [*made.main, *refused]
    sizes = made.sizes if every else made.sizes[: 2 * MOST_SHOWN]
    shown_costs = costs if every else costs[:MOST_SHOWN]
    left_out: dict[str, list[str]] = {}
    for row in held_out:
        inside = "inside" if row["inside"] else "outside"
        left_out.setdefault(row["fit"], []).append(f"{row['text']}, {inside} the interval")
    out: list[Block] = [
        replace(one, style="strong") for one in reason.fits(scalings, sizes, shown_costs, left_out)
    ]
    out += [*map(Text, reason.effects(made)), *(Text(note, "quiet") for note in made.notes)]
    hidden = len(made.scalings) + len(made.sizes) + len(costs)
    hidden -= len(scalings) + len(sizes) + len(shown_costs)
    return [*out, *([Text(f"{hidden} more fits; --all has them", "quiet")] if hidden else ())]


def document(made: Fits, held_out: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """All fits for machines: base units, intervals of 95 %."""
    from venturi.analysis.models import fit_words
    from venturi.report.document import fields

    sizes = []
    for size in made.sizes:
        entry = fields(size, "operation", "where") | {"refused": size.refused or None}
        if size.fit is not None:
            entry |= {k: _interval(v) for k, v in size.fit.intervals.items()}
            entry |= fields(size.fit, "unit", "r_squared")
        sizes.append(entry)
    effects = [
        fields(e, "operation", "parameter")
        | {"levels": list(e.effect.levels), "text": fit_words.effect_sentence(e)}
        | fields(e.effect, "p", "significant")
        for e in made.effects
    ]
    scalings = list(map(_scaling, made.scalings))
    found = {"scaling": scalings, "hockney": sizes, "effects": effects}
    return found | {"hold_out": list(held_out), "notes": made.notes}


def _interval(found: Any) -> dict[str, float]:
    return {"value": found.median, "low": found.low, "high": found.high}


def _scaling(one: AxisFit) -> dict[str, Any]:
    from venturi.report.document import fields

    curve = one.curve
    entry: dict[str, Any] = {
        **fields(one, "operation", "axis", "where", "pooled_from", "unit", "knee_between"),
        "pooled": one.pooled or None,
        "pooled_rule": one.rule or None,
        "refused": one.refused or None,
        "medians": [[n, v] for n, v in one.medians.items()],
        "linear_until": curve.linear if curve is not None else None,
        "step": asdict(curve.step) if curve is not None else None,
        "rising": curve is not None and curve.rising,
        "level_from": curve.flat if curve is not None else None,
    }
    if one.fit is None:
        return entry
    fitted, held = one.fit, one.fit.held_out
    left_out = None
    if held is not None:
        left_out = fields(held, "measured", "error", "inside", value="n")
        left_out["predicted"] = _interval(held.predicted)
    return entry | {
        "law": fitted.chosen.name,
        "parameters": {k: _interval(v) for k, v in fitted.intervals.items()},
        "laws": [fields(v, "aicc", "weight", "parameters", law="name") for v in fitted.laws],
        "knee": _interval(fitted.knee),
        "peak": _interval(fitted.peak) | {"at": fitted.peak_at},
        **fields(fitted, "limit", "deviation"),
        "r_squared": fitted.r_squared if fitted.r_squared == fitted.r_squared else None,
        "doubt": fitted.doubt if fitted.doubt == fitted.doubt else None,
        "doubtful": fitted.doubtful or None,
        "held_out": left_out,
    }


Held = dict[int, list[dict[str, Any]]]


def held_links(cells: Sequence[Cell], text: str | None) -> list[str]:
    """The links to leave out, as they stand in cells: those named, else all. Raises VenturiError."""
    from venturi.common.links import canonical

    links = list(dict.fromkeys(str(c.parameters["link"]) for c in cells if c.parameters.get("link")))
    if text is None:
        return links
    try:
        wanted = [canonical(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise VenturiError(f"--hold-out: {error}") from None
    for one in wanted:
        if one not in links:
            raise VenturiError(
                f"--hold-out {one}: no cell has that link", hint=f"links are: {', '.join(links) or 'none'}"
            )
    return wanted


def _held(made: Sequence[LinkFit], wanted: Sequence[str]) -> Held:
    """By the place in `made`: each link left out, predicted from the others."""
    from venturi.analysis.models import fit_words

    out: Held = {}
    for i, one in enumerate(made):
        if one.law is None:
            continue
        for text, measured, found in one.left_out([t for t in wanted if t in one.links]):
            entry: dict[str, Any] = {"link": text, "measured": measured, "predicted": None}
            if found is not None:
                entry |= {"predicted": found.median, "low": found.low, "high": found.high}
                entry |= {"error": found.median / measured - 1, "inside": found.low <= measured <= found.high}
            entry["text"] = fit_words.left_out(one, text, measured, found)
            out.setdefault(i, []).append(entry)
    return out


def link_sections(made: Sequence[LinkFit], wanted: Sequence[str]) -> list[Block]:
    """A section per law, for people."""
    from venturi.analysis.models import fit_words, over_links
    from venturi.report.document import Bullets, Section

    held = _held(made, wanted)
    out: list[Block] = []
    for i, one in enumerate(made):
        rows = held.get(i, [])
        predicted = [row for row in rows if row["predicted"] is not None]
        sentences = [*fit_words.link_sentences(one), *(row["text"] for row in rows)]
        if len(predicted) > 1:
            inside = sum(row["inside"] for row in predicted)
            near = sum(abs(row["error"]) <= 0.1 for row in predicted)
            text = f"of the {len(predicted)} links that the others could predict, {inside} are inside"
            sentences.append(f"{text} the interval and {near} within 10 % of what was measured")
        out.append(Section(fit_words.link_head(one), [Bullets(sentences)], "strong"))
    passed = over_links.crossings(made)
    if passed:
        texts = [fit_words.crossing_sentence(one) for one in passed]
        out.append(Section(fit_words.CROSSINGS, [Bullets(texts)], "strong"))
    return out


PREDICT = """\b
Examples:
  venturi predict last --streams 32
  venturi predict last --streams 32 --set rows_per_batch=4096 --set operation=get
  venturi predict last --set rows_per_stream=1G
  venturi predict last --link "25gbit 0.5ms"
  venturi predict reference:cartesius-remote --streams 16
"""


@app.command("predict", epilog=PREDICT)
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
    rows = [asdict(one) | {"extrapolation": one.extrapolation, "text": one.sentence} for one in made]
    sections = [Section(one.statements[0], [Bullets(one.statements[1:], "")], "strong") for one in made]
    options.print_answer(format, lambda: Document("Predictions", sections), lambda: {"predictions": rows})


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


BEST = """\b
Examples:
  venturi best last
  venturi best last --within 2% --where "operation == 'get'"
  venturi best last --p99 50ms
  venturi best reference:chspark
"""


Format = enum.StrEnum("Format", ["table", "markdown", "json"])
"""How the answer is printed."""


@app.command("best", epilog=BEST)
def best(
    run: str = options.RUN,
    within: str = flag("How far below the fastest a cheaper setting may lie.", "5%"),
    where: list[str] | None = options.WHERE,
    p99: str | None = flag(
        "Only cells of which 99 % of the batches surely took no longer, as 50ms.", metavar="TIME"
    ),
    all: bool = switch("Every size by itself, not only the largest of each workload.", "--all"),
    format: Format = flag("table for people; markdown; json.", Format.table),
) -> None:
    """Name the fastest setting, the cheapest near it, and how much of each setting is enough."""
    from venturi.analysis.compare import best as analysis
    from venturi.analysis.results import cells_where
    from venturi.common.texts import say
    from venturi.report import best as report

    at_most = options.share("--within", within)
    bound = None if p99 is None else options.time("--p99", p99)
    loaded = options.read(run)
    cells = cells_where(loaded.cells, where, run)
    found = analysis.find(cells, at_most, every=all, cores=analysis.cores(loaded.environment), p99_ns=bound)
    groups = [] if bound is None else analysis.too_slow(cells, all, bound)
    slow = [report.too_slow(group, bound or 0, cells) for group in groups]
    if slow and not found:
        hint = "a longer time; or smaller batches, which take less time each"
        raise VenturiError(f"{run}: {'; '.join(slow)}", hint=hint)
    for text in slow:
        say("warning", text)
    if not found:
        raise VenturiError(
            f"{run}: no trial succeeded, so no setting can be named", hint=f"venturi show {run}"
        )
    options.print_answer(format, lambda: report.document(found), lambda: report.machine(found), level=2)
