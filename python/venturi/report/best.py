"""The best setting: its sentences, as a document, and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.summary import Cell, varying
from venturi.analysis.compare.best import Advised, Best, Choice, Level
from venturi.analysis.statistics.curve import Curve
from venturi.analysis.statistics.difference import Gain
from venturi.analysis.wording import NOUNS, Nouns, nouns_of
from venturi.common.suffixes import format_duration
from venturi.common.units import MISSING, count, p_value, percent, pick_unit
from venturi.report import summary
from venturi.report.document import Block, Bullets, Column, Document, Section, Table, Text, fields

MOST_FRONT = 12
MOST_TIED = 8


def setting(found: Best, one: Choice) -> str:
    """A cell by its settings: `4 streams, 8,192 rows/batch`."""
    return wording.label(one.cell, found.settings)


def title(found: Best) -> str:
    """The workload in a few words."""
    sizes = ("rows_per_stream", "bytes_per_stream", "duration_ns", "rate")
    names = ("operation", "place", "data", "system", *sizes)
    nouns = nouns_of(found.fastest.cell)
    words = [wording.phrase(n, found.workload[n], nouns) for n in names if n in found.workload]
    target = str(found.workload.get("target") or "")
    if target and "://" not in target:
        # Of imported runs: what was asked. A URL is what the place already names.
        words.insert(1, wording.phrase("target", target))
    return ", ".join(words) or "all cells"


def sentences(found: Best) -> list[str]:
    """The answer, most important first."""
    fastest, cheapest, nouns = found.fastest, found.cheapest, nouns_of(found.fastest.cell)
    if not found.settings:
        only = f"one setting was measured: {fastest.speed.text()}"
        more = "" if _imported(found) else "; give settings several values, as in --streams 1,2,4,8"
        return [only, f"there is nothing to choose from{more}"]
    top = "fastest" if found.is_surely_fastest else "highest"
    took = f", p99 {fastest.cell.latency[99.0]}" if found.p99_ns is not None else ""
    out = [f"{top}: {setting(found, fastest)}: {fastest.speed.text()}{took}"]
    if cheapest is fastest or not _cheaper(cheapest, fastest):
        if fastest.cost.known:
            less = "" if cheapest is fastest else " by 1 % or more"
            near, cost = percent(found.within), _cost(found, fastest)
            out.append(f"no cell within {near} of it costs less{less} ({cost})")
    else:
        share = percent((cheapest.speed.value or 0.0) / (fastest.speed.value or 1.0))
        less = percent((cheapest.cost.value or 0.0) / fastest.cost.value) if fastest.cost.value else MISSING
        per = fastest.cost.unit.removeprefix("ns/") if fastest.cost.unit != "ns/B" else "GB"
        cost = f"its CPU time per {per}" if fastest.cost.unit else f"its {_counted(found)}"
        out.append(
            f"cheapest near it: {setting(found, cheapest)}: {cheapest.speed.text()}, {share} of the {top} "
            f"for {less} of {cost} ({_paid(cheapest)} against {_paid(fastest)})"
        )
    if found.tied:
        names = "; ".join(setting(found, c) for c in found.tied[:MOST_TIED])
        more = f" and {len(found.tied) - MOST_TIED} more" if len(found.tied) > MOST_TIED else ""
        out.append(f"not told apart from the highest: {names}{more}")
    elif found.idle and found.cells > 1:
        out.append("not told apart from the others: a trial of the highest moved nothing")
    elif not found.judged and found.cells > 1:
        how = "" if _imported(found) else " (--repeats 5)"
        out.append(f"cells have too few repeats to be told apart one by one; five of each would do{how}")
    return [*out, *(advice(one, nouns) for one in found.advised), *rule(found, nouns)]


def _cheaper(one: Choice, fastest: Choice) -> bool:
    """By 1 % at least, as it is printed."""
    return not fastest.cost.value or (one.cost.value or 0.0) < 0.99 * fastest.cost.value


def has_front(one: Best) -> bool:
    """Whether the front has a cell that is not told already, as the highest or the cheapest near it."""
    named = [one.fastest, one.cheapest] if _cheaper(one.cheapest, one.fastest) else [one.fastest]
    return any(choice not in named for choice in one.front)


def _counted(found: Best) -> str:
    """What stands for a cost where no CPU time is known: `partitions x encoders`."""
    nouns = nouns_of(found.fastest.cell)
    return " x ".join(wording.head(n, nouns) for n in found.cost_name.split(" x ") if n)


def rule(found: Best, nouns: Nouns) -> list[str]:
    """The whole advice in a line: `in short: encoders 16 (as many as CPUs), decoders 1, any partitions`."""
    parts = []
    for one in found.advised:
        name = wording.head(one.name, nouns)
        value = _shown(one, one.enough)
        if one.undecided:
            parts.append(f"{name} undecided")
        elif one.alike:
            parts.append(f"any {name}")
        elif one.rising:
            parts.append(f"{name} {value} or more")
        else:
            parts.append(f"{name} {value}{' (as many as CPUs)' if one.cores else ''}")
    short = "in short" if all(map(_certain, found.advised)) else "in short, as far as so few trials tell"
    return [f"{short}: {', '.join(parts)}"] if len(parts) > 1 else []


def _certain(one: Advised) -> bool:
    """Whether what is said of a setting rests on an interval or on a test, or says that it is undecided."""
    if one.numeric:
        return one.conclusive is not None or one.sure or one.indifferent
    return one.indifferent or all(v.gain is not None for v in one.levels if v.value != one.best)


def _shown(one: Advised, value: object) -> str:
    return "none" if value is None else wording.value(one.name, value)


def advice(one: Advised, nouns: Nouns = NOUNS) -> str:
    """What to set, in a sentence: `encoders: 16 is enough, as many as CPUs ...`."""
    name = wording.head(one.name, nouns)
    shown = partial(_shown, one)
    matters = one.effect
    if one.conclusive is not None and (one.indifferent or not one.sure):
        return f"{name}: {_curve_text(one, one.conclusive)}"
    if one.conclusive is None and one.indifferent and matters is not None:
        span = f"{shown(one.levels[0].value)} to {shown(one.levels[-1].value)}"
        text = (
            f"{name}: no significant difference from {span} ({p_value(matters.p)} over {matters.pairs} "
            f"settings of the others, means within {percent(matters.spread, 1)}); "
        )
        return text + (
            "repeats scatter too much to tell" if one.undecided else f"{shown(one.enough)} will do"
        )
    if not one.numeric:
        rest = [v for v in one.levels if v.value != one.best]
        against = ", ".join(f"{shown(v.value)} {_step(v.ratio - 1, v.gain)}" for v in rest)
        sure = all(v.gain is not None and v.gain.significant for v in rest)
        place = "without it" if one.best is None else f"with {shown(one.best)}"
        return f"{name}: {'fastest' if sure else 'highest'} {place}; {against}"
    enough = one.level(one.enough)
    cores = ", as many as the machine has CPUs" if one.cores else ""
    share = "the best measured"
    if one.enough != one.best:
        share = f"{percent(enough.ratio)} of the best ({shown(one.best)})"
    # Without an interval it is a figure and no claim.
    claim = f"{',' if cores else ''} is enough" if one.sure else ""
    text = f"{name}: {shown(one.enough)}{cores}{claim}: {share}"
    if one.enough != one.best:
        text += f"; the rest gives {_step(1 / enough.ratio - 1, enough.gain)}"
    smaller = [v for v in one.levels if v.value != one.enough and _below(v.value, one.enough)]
    if smaller:
        text += f"; {shown(smaller[-1].value)} gives {_reached(smaller[-1])}"
    most = one.levels[-1]
    if most.value != one.enough and most.gain is not None and most.gain.significant and most.worse:
        text += f"; more costs: {shown(most.value)} gives {_reached(most)}"
    if one.conclusive is None and one.curve is not None and one.enough == most.value:
        text += f"; {wording.undecided_part(one.curve, partial(_spelled, one))}"
    return text


def _curve_text(one: Advised, curve: Curve) -> str:
    """Of a setting of which no value is enough, or any: by the same rules as the findings."""
    if one.indifferent:
        span = f"{_shown(one, one.levels[0].value)} to {_shown(one, one.levels[-1].value)}"
        return f"from {span} gains {curve.beyond(curve.ns[0])} at most; {_shown(one, one.enough)} will do"
    text = wording.curve_end(curve, partial(_spelled, one))
    if one.rising:
        return f"{text}; more was not measured"
    return text


def _spelled(one: Advised, value: float) -> str:
    return _shown(one, int(value) if value == int(value) else value)


def _imported(found: Best) -> bool:
    return any(record.imported.source for record in found.fastest.cell.records)


def _reached(level: Level) -> str:
    """`82 % [79..85] of it`; the interval is that of the best over it, turned round."""
    if level.gain is None:
        return f"{percent(level.ratio)} of it (too few pairs to test)"
    low, high = (100 / (1 + change) for change in (level.gain.high, level.gain.low))
    certain = "" if low > 100 or high < 100 else ", not significant"
    return f"{percent(level.ratio)} [{low:.0f}..{high:.0f}] of it{certain}"


def _below(value: object, other: object) -> bool:
    return isinstance(value, int | float) and isinstance(other, int | float) and value < other


def _step(change: float, gain: Gain | None) -> str:
    """`+4.8 % [+2.0..+7.7]`, and whether that is more than chance."""
    if gain is None:
        return f"{100 * change:+.1f} % (too few pairs to test)"
    low, high = 100 * gain.low, 100 * gain.high
    if change < 0:  # the gain is that of the best over this one; turned round
        low, high = 100 * (1 / (1 + gain.high) - 1), 100 * (1 / (1 + gain.low) - 1)
    certain = "" if low > 0 or high < 0 else ", not significant"
    return f"{100 * change:+.1f} % [{low:+.1f}..{high:+.1f}]{certain}"


def too_slow(cells: Sequence[Cell], p99_ns: float, among: Sequence[Cell]) -> str:
    """Of a workload in which no cell surely stays within the bound: the least p99 there is; `among` are the
    cells that its name has to tell it from."""
    timed = [c for c in cells if 99.0 in c.latency and c.latency[99.0].known]
    if not timed:
        return f"{cells[0].operation}: too few batches were timed to know 99 % of them"
    least = min(timed, key=lambda c: c.latency[99.0].value or 0.0)
    name = wording.label(least, varying(among))
    return (
        f"{least.operation}: in no cell did 99 % of the batches surely take no longer than "
        f"{format_duration(p99_ns)}; the lowest p99 was {least.latency[99.0]} ({name})"
    )


def _paid(one: Choice) -> str:
    return one.cost.text() if one.cost.unit else count(one.cost.value)


def _cost(found: Best, one: Choice) -> str:
    return _paid(one) if one.cost.unit else f"{_counted(found)}: {_paid(one)}"


def front(found: Best) -> Table:
    """The Pareto front."""
    shown = found.front[:MOST_FRONT]
    speeds, costs = [c.speed for c in shown], [c.cost for c in shown]
    unit = pick_unit(speeds[0].unit, [q.value for q in speeds])
    paid = pick_unit(costs[0].unit, [q.value for q in costs]) if costs[0].unit else ""
    columns = [
        Column("setting", "", [setting(found, c) for c in shown], text=True, folds=True),
        Column(unit, "", [q.number(unit) for q in speeds]),
        Column(summary.coverage([c.cell for c in found.front]), "", [q.margin(unit) for q in speeds]),
        Column(paid or "cost", "", [q.number(paid) if paid else count(q.value) for q in costs]),
    ]
    return Table(columns, f"Pareto front: throughput against {found.cost_name}")


def notes(found: Best) -> list[str]:
    """What is not shown, and what the cost is."""
    out = []
    if found.p99_ns is not None and found.slow:
        bound, one = format_duration(found.p99_ns), len(found.slow) == 1
        left = "1 cell is left out: its" if one else f"{len(found.slow)} cells are left out: their"
        out.append(f"{left} p99 may be over {bound}, or is not known")
    if found.failed:
        out.append(f"{len(found.failed)} cells have no good trial and are left out")
    if found.skipped:
        out.append(f"{found.skipped} smaller sizes are not shown: --all shows each")
    if len(found.front) > MOST_FRONT:
        out.append(f"{len(found.front) - MOST_FRONT} more on the front: --format json has all")
    return out


def document(found: Sequence[Best]) -> Document:
    """All workloads."""
    out = []
    for one in found:
        blocks: list[Block] = [Bullets(sentences(one))]
        if has_front(one):
            blocks.append(front(one))
        out.append(Section(title(one), [*blocks, *(Text(note, "quiet") for note in notes(one))]))
    return Document("Best setting", out)


def machine(found: Sequence[Best]) -> list[dict[str, Any]]:
    """For scripts: base units, everything."""
    return [
        {
            **fields(one, "workload", "p99_ns", cost="cost_name"),
            "slow": [cell.name for cell in one.slow],
            "fastest": _choice(one, one.fastest),
            "cheapest": _choice(one, one.cheapest),
            "tied": [_choice(one, c) for c in one.tied],
            "front": [_choice(one, c) for c in one.front],
            "settings": [
                fields(a, "name", "best", "enough")
                | {
                    "p": a.effect.p if a.effect else None,
                    "levels": [_level(v) for v in a.levels],
                    "sentence": advice(a, nouns_of(one.fastest.cell)),
                }
                for a in one.advised
            ],
            "sentences": sentences(one),
        }
        for one in found
    ]


def _choice(found: Best, one: Choice) -> dict[str, Any]:
    behind = one.behind
    return {
        "cell": one.cell.name,
        "settings": {n: one.cell.parameters.get(n) for n in found.settings},
        "throughput": asdict(one.speed),
        "cost": asdict(one.cost),
        "over_fastest": None if behind is None else fields(behind, "ratio", "low", "high", p="adjusted"),
    }


def _level(one: Level) -> dict[str, Any]:
    gain = None if one.gain is None else fields(one.gain, "change", "low", "high", "p")
    return fields(one, "value", "pairs", ratio_to_best="ratio") | {"gain_of_best": gain}
