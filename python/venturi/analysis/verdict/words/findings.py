"""What a sweep says along an axis, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from venturi.analysis.cells.series import Series, figure
from venturi.analysis.cells.summary import Cell, rows_a_batch
from venturi.analysis.statistics.curve import Change, Shape
from venturi.analysis.verdict.causes import FindingKind
from venturi.analysis.verdict.evidence import Evidence
from venturi.analysis.verdict.types import Finding, ParameterEffect, Remedy, Verdict
from venturi.analysis.words import curves
from venturi.analysis.words.wording import Nouns, listed, nouns_of
from venturi.common.units import count, plural
from venturi.targets.parameters import AMOUNT, PARALLEL

__all__ = ["change", "told", "unmoved"]

_WORDS = {
    "streams": ("{stream}", "{stream}s"),
    "threads": ("thread", "threads"),
    "encoders": ("encoder", "encoders"),
    "decoders": ("decoder", "decoders"),
    "partitions": ("partition", "partitions"),
    "hosts": ("host", "hosts"),
    "loaders": ("loader", "loaders"),
    "rows_per_batch": ("{row} per batch", "{row}s per batch"),
    "rows_per_stream": ("{row} per {stream}", "{row}s per {stream}"),
    "window": ("byte of window", "bytes of window"),
    "rate": ("batch/s offered", "batches/s offered"),
    "columns": ("column", "columns"),
    "in_flight": ("batch in flight per {stream}", "batches in flight per {stream}"),
    "working_set": ("row of working set", "rows of working set"),
}


def told(
    series: Series, verdict: Verdict | None, levers: Sequence[ParameterEffect], remedies: Sequence[Remedy]
) -> Finding:
    """The finding of a series: its shape, the verdict at its place, what is faster, and what to try."""
    nouns = nouns_of(series.cells[0])
    amount = series.axis in AMOUNT
    where = [] if not (operation := series.cells[0].parameters.get("operation")) else [str(operation)]
    where += [spelled(n, v, nouns) for n, v in series.fixed if n != "operation" and v is not None]
    if amount:
        # What is moved in a trial is no setting that opens anything.
        late = series.shape is Shape.FLAT
        lines = (
            *_shape(series, nouns),
            *(["below that, starting takes a visible part of the trial"] if late else []),
        )
    else:
        lines = _lines(series, verdict, levers, nouns)
    ends = (series.cells[0], series.knee, series.place, series.peak, series.cells[-1])
    evidence = [
        Evidence(spelled(series.axis, c.parameters[series.axis], nouns), figure(c).text()) for c in ends
    ]
    evidence += [Evidence(change(lever, nouns), str(lever.gain)) for lever in levers[:4]]
    evidence += verdict.evidence if verdict is not None else ()
    return Finding(
        kind=FindingKind(series.shape.value),  # type: ignore[call-arg]
        axis=series.axis,
        at=series.claimed_at,
        cause=verdict.cause if verdict is not None and not amount else None,
        levers=tuple(levers),
        title=": ".join(filter(None, (", ".join(where), _title(series, nouns)))),
        lines=lines,
        evidence=tuple(dict.fromkeys(evidence)),
        remedies=tuple(remedies),
        cells=tuple(cell.name for cell in series.cells),
    )


def _lines(
    series: Series, verdict: Verdict | None, levers: Sequence[ParameterEffect], nouns: Nouns
) -> tuple[str, ...]:
    lines, curve = _shape(series, nouns), series.curve
    for cell in series.left_out:
        good = f"{cell.good} of {plural(cell.trials, 'trial')} went well"
        lines.append(f"{spelled(series.axis, series.at(cell), nouns)} left out: {good}")
    if series.pooled:
        lines.append(f"changes are those of {series.pooled} like sizes together, as each has few trials")
    level = series.shape.level
    if level and curve is not None:
        lines.append(f"more {_words(series.axis, nouns)[1]} {_gained(curve.rest)}")
    if verdict is not None:
        place = spelled(series.axis, series.at(series.place), nouns)
        known = verdict.kind != "unknown"
        why = f"why, {'from' if level else 'at'} {place}" if known else "why is not known"
        first, *rest = verdict.lines
        lines += [f"{why}: {first}", *rest]
    fixes = [f"fix: {change(lever, nouns)}, {lever.gain.factor}" for lever in levers if lever.opens]
    doubtful = [f"{change(lever, nouns)} ({lever.gain})" for lever in levers if lever.gain.value > 0]
    if fixes:
        lines += fixes[:2]
    elif doubtful:
        lines.append(f"perhaps faster, not surely: {listed(doubtful[:2])}")
    return tuple(lines)


def _gained(rest: Change | None) -> str:
    """What is beyond where it is flat, at most."""
    if rest is None or rest.value > 0:
        return f"gained {rest} at most"
    return f"lost ({rest})" if rest.high is not None and rest.high < 0 else f"gained nothing ({rest})"


def unmoved(series: Series) -> Finding:
    """Of batches that arrived alike whatever was asked for."""
    first, last, nouns = series.cells[0], series.cells[-1], nouns_of(series.cells[0])
    asked = f"{count(int(series.at(first)))} to {spelled(series.axis, last.parameters[series.axis], nouns)}"
    rows = [c.parameters.get("rows_per_stream") for c in series.cells]
    known = max((n for n in rows if isinstance(n, int)), default=0)
    if None not in rows and known <= series.at(first):
        kind, title = FindingKind.ONE_BATCH, f"a {nouns.stream} fits into one batch"
        only = f"a {nouns.stream} has only {known:,} {nouns.row}s"
        sentence = f"{asked} were asked for, but {only}, so no batch is larger"
    else:
        kind, title = FindingKind.BATCHES_NOT_OURS, f"{nouns.row}s per batch are not ours to choose"
        came = f"{rows_a_batch(first) or 0:,.0f} {nouns.row}s per batch"
        sentence = f"{asked} were asked for and {came} came each time"
    evidence = tuple(
        Evidence(spelled(series.axis, c.parameters[series.axis], nouns), f"{rows_a_batch(c) or 0:,.0f} came")
        for c in (first, last)
    )
    title, lines = f"{first.operation}: {title}", (f"{sentence}: nothing is compared",)
    return Finding(kind, series.axis, series.at(first), None, (), title, lines, evidence, ())


def _words(axis: str, nouns: Nouns) -> tuple[str, str]:
    """One and several of an axis."""
    known = _WORDS.get(axis)
    if known is None:
        own = {"stream": nouns.stream, "rows": f"{nouns.row}s"}
        known = (" ".join(own.get(part, part) for part in axis.split("_")),) * 2
    one, many = (text.format(row=nouns.row, stream=nouns.stream) for text in known)
    return one, many


def _number(value: float) -> str:
    return count(int(value) if float(value).is_integer() else value)


def spelled(axis: str, value: object, nouns: Nouns) -> str:
    """`4 streams`, `8,192 rows per batch`, `compression lz4`."""
    one, many = _words(axis, nouns)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{_number(value)} {one if value == 1 else many}"
    return f"{axis.replace('_', ' ')} {'none' if value is None else value}"


def change(lever: ParameterEffect, nouns: Nouns) -> str:
    """`1,024 -> 8,192 rows per batch`, `compression none -> lz4`."""
    name, before, after = lever.parameter, lever.before, lever.after
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in (before, after)):
        return f"{_number(before)} -> {spelled(name, after, nouns)}"
    return f"{name.replace('_', ' ')} {'none' if before is None else before} -> " + (
        "none" if after is None else str(after)
    )


def _shape(series: Series, nouns: Nouns) -> list[str]:
    """How throughput goes along the axis, in words; `_lines` says what more gained where it is flat."""
    axis, peak, knee, shape, curve = series.axis, series.peak, series.knee, series.shape, series.curve

    def spell(value: float) -> str:
        return spelled(axis, value, nouns)

    reached = f"90 % of the highest is reached with {spell(series.at(knee))} ({figure(knee).text()})"
    if below := [n for n in map(series.at, series.cells) if n < series.at(knee)]:
        reached += f", not with {_number(below[-1])}"
    if knee is peak:
        reached = _moved(series.at(peak), spell, peak)
    if curve is None:
        return [reached, "no repeat went well at every point, so nothing more can be told"]
    words = [curves.linear(curve, spell)] if axis in PARALLEL else []
    place = series.place
    if shape is Shape.FLAT:
        same = bool(words) and curve.linear == curve.flat
        moved = figure(place).text()
        words = [f"{words[0]} ({moved})"] if same else [*words, _moved(series.at(place), spell, place)]
    elif shape is Shape.FLAT_THROUGHOUT:
        verb = "moves" if series.at(place) == 1 else "move"
        words = [f"{spell(series.at(place))} already {verb} {_share(place, peak)} of the most"]
    elif shape is Shape.UNDECIDED:
        return [*filter(None, [*words, reached]), curves.undecided(curve, spell)]
    else:
        words.append(curves.end(curve, spell, figure(place).text()))
    return [", ".join(filter(None, words))]


def _moved(at: float, spell: Callable[[float], str], cell: Cell) -> str:
    """`5 streams move 2,859 MB/s`."""
    return f"{spell(at)} {'moves' if at == 1 else 'move'} {figure(cell).text()}"


def _share(cell: Cell, of: Cell) -> str:
    return f"{100 * (figure(cell).value or 0.0) / (figure(of).value or 1.0):.0f} %"


def _title(series: Series, nouns: Nouns) -> str:
    axis, shape = series.axis, series.shape
    place = spelled(axis, series.place.parameters[axis], nouns)
    if shape is Shape.RISING:
        return f"rising up to {place}"
    if shape is Shape.FLAT:
        return f"flat from {place}"
    if shape is Shape.FLAT_THROUGHOUT:
        return f"flat over {_words(axis, nouns)[1]}"
    if shape is Shape.FALLING:
        return f"falling beyond {place}"
    return f"highest with {place}"
