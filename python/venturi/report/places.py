"""Places beside each other: two builds of a system, a local and a remote one, and one amount over streams."""

from __future__ import annotations

from venturi.analysis.cells import places
from venturi.analysis.cells.places import Pair, Row
from venturi.analysis.cells.summary import Cell
from venturi.analysis.compare.runs import Comparison, Side, compare_by
from venturi.analysis.models.splits import Convergence
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.analysis.words.wording import listed
from venturi.common.errors import VenturiError
from venturi.common.units import MISSING, count, percent, pick_unit, plural
from venturi.report import comparison, summary
from venturi.report.document import (
    Block,
    Bullets,
    Column,
    Section,
    Table,
    Text,
    known_columns,
    numbers,
    settings,
    without_notes,
)
from venturi.report.figures.convergence import convergence_name
from venturi.report.names import setting
from venturi.targets.system import scheme_of

__all__ = ["headline", "sections"]

ENDS = ("client", "server")


def sections(results: Results, brief: bool = False) -> list[Section]:
    """Builds beside each other, local beside remote, one amount over more and more streams."""
    found = [_builds(results), _local_remote(results), _convergence(results)]
    return [without_notes(one) if brief else one for one in found if one is not None]


def _comparisons(results: Results) -> list[Comparison]:
    """None of one place, of local beside remote, which has a section of its own, of unlike systems, of trials
    that did not take turns, and of places whose cells differ in more than the address."""
    named = {str(place) for cell in results.cells if (place := cell.parameters.get("place")) is not None}
    systems = {scheme_of(str(cell.parameters.get("target"))) for cell in results.cells}
    if len(named) < 2 or named == {places.LOCAL, places.REMOTE} or len(systems) > 1 or results.imported:
        return []
    try:
        found = compare_by(results, "place")
    except VenturiError:  # no cell of one is a cell of another
        return []
    return [one for one in found if all(_settings(row.base) == _settings(row.run) for row in one.rows)]


def _settings(cell: Cell) -> dict[str, object]:
    return {name: value for name, value in cell.parameters.items() if name not in ("place", "target")}


def headline(results: Results) -> list[str]:
    """`new against old: slower, ratio 0.958 [0.941..0.975]`; of several cells how many are slower."""
    out = []
    for one in _comparisons(results):
        told = comparison.summary(one)[0]
        if len(one.rows) == 1:
            told = f"{one.rows[0].word}, ratio {one.rows[0].ratio}"
        out.append(f"{_name(one.run)} against {_name(one.base)}: {told}")
    return out


def _builds(results: Results) -> Section | None:
    """A table a place but the first, a row a cell."""
    found = _comparisons(results)
    if not found:
        return None
    blocks: list[Block] = []
    for one in found:
        caption = f"{_name(one.run)} against {_name(one.base)}"
        columns = comparison.columns(one, _name(one.base), _name(one.run))
        blocks += [Table(columns, caption), Bullets(comparison.summary(one))]
    note = (
        "Trials of all places took turns, so the machine's drift hits them alike; ratio: of geometric means; "
        "p: how often chance alone would show such a difference, corrected for the number of cells"
    )
    return Section("Places side by side", [*blocks, Text(note, "quiet")])


def _name(side: Side) -> str:
    return labels.plain(side.cells[0].parameters["place"])


def _local_remote(results: Results) -> Section | None:
    """A table an operation, a row a setting of everything but the size; None without both places."""
    found = results.place_rows
    if not found:
        return None
    operations = list(dict.fromkeys(row.operation for row in found))
    blocks: list[Block] = []
    for operation in operations:
        own = [row for row in found if row.operation == operation]
        caption = labels.plain(operation) if len(operations) > 1 else ""
        blocks.append(Table(_columns(results, own), caption))
        blocks += [Bullets([text])] if (text := _sentence(own)) else []
    several = any(len(row.pairs) > 1 for row in found)
    note = "Rates are medians at the largest size; " if several else "Rates are medians; "
    note += (
        "remote/local is their quotient, its interval the one that both medians' intervals allow at their "
        "worst. CPU: cores of client + server; CPU cost: CPU time of what was moved, remote over local."
    )
    if several:
        note += " All sizes: median of the quotients of each size, the least and the most of them."
    return Section("Local and remote", [*blocks, Text(note, "quiet")])


def _columns(results: Results, rows: list[Row]) -> list[Column]:
    pairs = [row.largest for row in rows]
    cells = [pair.local for pair in pairs]
    out = settings([row.where for row in rows])
    if any(len(row.pairs) > 1 for row in rows):
        sizes = [labels.value("rows_per_stream", c.parameters.get("rows_per_stream")) for c in cells]
        out.append(Column("rows/stream", "", sizes, 6))
    speeds = [[getattr(pair, side).main for pair in pairs] for side in (places.LOCAL, places.REMOTE)]
    unit = pick_unit(speeds[0][0].unit, [q.value for side in speeds for q in side])
    ratios = [pair.ratio for pair in pairs]
    out += [numbers(side, q, 0, unit) for side, q in zip((places.LOCAL, places.REMOTE), speeds, strict=True)]
    out.append(numbers("remote/local", ratios, 0, "%"))
    out.append(Column(summary.coverage([c for p in pairs for c in (p.local, p.remote)]), "%",
                      [q.margin("%") for q in ratios], 1))  # fmt: skip
    if any(row.sizes for row in rows):
        out.append(Column("all sizes", "%", [_sizes(row) for row in rows], 3))
    for side in (places.LOCAL, places.REMOTE):
        out.append(Column(f"CPU {side}", "cores", [_cores(pair, side) for pair in pairs], 3))
    for end in ENDS:
        costs = [pair.cost(end).value for pair in pairs]
        texts = [MISSING if v is None else f"{100 * v:.0f}" for v in costs]
        out.append(Column(f"{end} CPU cost", "%", texts, 4))
    told = [[_verdict(results, cell.name) for cell in side] for side in
            ([p.local for p in pairs], [p.remote for p in pairs])]  # fmt: skip
    if told[0] == told[1]:
        out.append(Column("both held back by", "", told[0], 2, text=True))
    else:
        for side, texts in zip((places.LOCAL, places.REMOTE), told, strict=True):
            out.append(Column(f"{side} held back by", "", texts, 2, text=True))
    return known_columns(out)


def _sizes(row: Row) -> str:
    if row.sizes is None:
        return MISSING
    middle, least, most = (f"{100 * v:.0f}" for v in row.sizes)
    return f"{middle} [{least}..{most}]"


def _cores(pair: Pair, side: str) -> str:
    cell = getattr(pair, side)
    parts = [f"{q.value:.1f}" if (q := cell.cpu[end]).value is not None else MISSING for end in ENDS]
    return "+".join(parts) if set(parts) != {MISSING} else MISSING


def _verdict(results: Results, name: str) -> str:
    found = results.verdicts.get(name)
    return MISSING if found is None or found.kind == "unknown" else labels.plain(found.title, 40)


def _sentence(rows: list[Row]) -> str:
    """`remote does 72 to 104 % of local: least with 3 streams, most with 1 stream`."""
    known = [row for row in rows if row.largest.ratio.value is not None]
    if not known:
        return ""
    ranked = sorted(known, key=lambda row: row.largest.ratio.value or 0.0)
    least, most = ranked[0], ranked[-1]
    if least is most:
        return f"{rows[0].operation}: remote does {least.largest.ratio} of local"
    told = f"{rows[0].operation}: remote does {_share(least)} to {_share(most)} of local"
    return f"{told}: least{_with(least)}, most{_with(most)}"


def _share(row: Row) -> str:
    return percent(row.largest.ratio.value)


def _with(row: Row) -> str:
    return f" with {setting(row.where)}" if row.where else ""


def _convergence(results: Results) -> Section | None:
    """A table a setting: the amount over so many streams, predicted and measured. None where no amount was
    divided on purpose, or the run has one place and one host."""
    found = results.convergences
    if not found:
        return None
    blocks: list[Block] = []
    for one in found:
        caption = f"{convergence_name(one)}, {count(one.rows)} rows in all"
        blocks += [Table(_splits(one), caption), Bullets([_tends(one)])]
    note = (
        "Predicted: by t = a + n/b, fitted at each number of streams to the other sizes of the sweep; with "
        "the 95 % prediction interval of a new median. What more streams tend to: from the same lines, "
        "start-up taken to grow by as much with every stream, b by its scaling law."
    )
    return Section("One amount over more and more streams", [*blocks, Text(note, "quiet")])


def _splits(one: Convergence) -> list[Column]:
    splits_ = one.splits
    unit = "MB/s"
    margins = [s.predicted.margin(unit) for s in splits_]
    held = [MISSING if s.inside is None else "yes" if s.inside else "no" for s in splits_]
    errors = [MISSING if s.error is None else f"{100 * s.error:+.1f}" for s in splits_]
    return [
        Column("streams", "", [f"{s.streams}" for s in splits_], 0),
        Column("rows/stream", "", [labels.value("rows_per_stream", s.rows_per_stream) for s in splits_], 0),
        numbers("predicted", [s.predicted for s in splits_], 0, unit),
        Column("95 %", unit, margins, 1),
        numbers("measured", [s.measured for s in splits_], 0, unit),
        Column("interval", unit, [s.measured.margin(unit) for s in splits_], 2),
        Column("off by", "%", errors, 0),
        Column("inside", "", held, 1, text=True),
    ]


def _tends(one: Convergence) -> str:
    reasons: dict[str, list[int]] = {}
    for split in one.splits:
        if split.refused:
            reasons.setdefault(split.refused, []).append(split.streams)
    refused = [
        f"{listed(map(str, n))} stream{'' if n == [1] else 's'}: {reason}" for reason, n in reasons.items()
    ]
    if one.limit is None:
        return "; ".join([f"no limit predicted: {one.refused}", *refused])
    limit = one.limit
    streams = plural(limit.near, "stream")
    text = f"converges at {limit.rate}, 95 % of it from {streams} on"
    if limit.startup.known:
        text += f"; every stream adds {limit.startup} of start-up"
        text += f", so that more than {plural(limit.at, 'stream')} lose again" if limit.loses else ""
    if one.reached is not None:
        text += f"; the most that was measured is {percent(one.reached)} of it"
    return "; ".join([text, *refused])
