"""Places, hosts and loaders beside each other: two builds of a system, a local and a remote one, one amount
over streams; efficiency over hosts, and what each loader of a cell did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from venturi.analysis import wording
from venturi.analysis.advice.stragglers import Straggler, describe
from venturi.analysis.cells import hosts
from venturi.analysis.cells.figures import ENDS, grouped
from venturi.analysis.cells.hosts import Host, Row, Scaled
from venturi.analysis.cells.summary import Cell
from venturi.analysis.compare.runs import Comparison, Side, compare_by
from venturi.analysis.models.splits import Convergence
from venturi.analysis.results import Results, fastest_of_places
from venturi.analysis.wording import listed
from venturi.common.errors import VenturiError
from venturi.common.units import FACTORS, MISSING, Quantity, count, percent, pick_unit, plural
from venturi.report import comparison, summary
from venturi.report.document import (
    Block,
    Bullets,
    Column,
    Section,
    Table,
    Text,
    filled_columns,
    intervals,
    numbers,
    settings,
    without_notes,
)
from venturi.report.figures.models import convergence_name
from venturi.report.summary import name_of, setting
from venturi.targets.system import scheme_of

MOST = 12
"""Loaders that a terminal shows of one cell."""
_MARK = "!"


def host_sections(results: Results, brief: bool = False, most: int | None = None) -> list[Section]:
    """Efficiency over hosts, and the loaders; of more than `most` of a cell the slowest and the fastest."""
    found = [efficiency(results), loaders(results, MOST if brief else most)]
    return [without_notes(one) if brief else one for one in found if one is not None]


def efficiency(results: Results) -> Section | None:
    """A table an operation, a row a number of hosts at a setting; None where there were no two numbers."""
    found = results.efficiency
    shown = [(caption, _scaled(own), [_efficiency_sentence(own)]) for caption, own in _by_operation(found)]
    one_machine = all(step.machines == 1 for one in found for step in one.steps)
    note = (
        "Efficiency: rate per host over that with the fewest hosts; with the interval that both medians' "
        "intervals allow at their worst. Per core: the same of what a CPU-second of the hosts moved. "
        "Slowest: the slowest one's rate over the fastest's, median over the trials."
    )
    if one_machine:
        note += (
            " All loaders ran on one machine, so this says what it has to give, not what more hosts would."
        )
    title = "Efficiency over loaders of one machine" if one_machine else "Efficiency over hosts"
    return _section(title, shown, note)


Shown = list[tuple[str, list[Column], list[str]]]
"""Tables by their captions, each with sentences."""


def _section(title: str, shown: Shown, note: str) -> Section | None:
    """Tables, and how they are read; None without any."""
    blocks: list[Block] = []
    for caption, columns, texts in shown:
        blocks += [Table(columns, caption), *([Bullets(texts)] if texts else ())]
    return Section(title, [*blocks, Text(note, "quiet")]) if shown else None


def _by_operation(rows: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """The rows of each operation, with its name if there are several."""
    groups = grouped(rows, lambda row: row.operation)
    return [(wording.plain(name) if len(groups) > 1 else "", own) for name, own in groups.items()]


def _scaled(found: Sequence[Scaled]) -> list[Column]:
    steps = [step for one in found for step in one.steps]
    cells = [step.cell for step in steps]
    base = cells[0].main.unit
    unit = pick_unit(base, [c.main.value for c in cells])
    each = pick_unit(base, [step.each.value for step in steps])
    out = settings([one.where for one in found for _ in one.steps])
    head = "loaders" if any(c.parameters.get("loaders") for c in cells) else "hosts"
    out.append(Column(head, "", [f"{step.hosts}" for step in steps], 0))
    if head == "loaders" and any(1 < step.machines < step.hosts for step in steps):
        out.append(Column("machines", "", [f"{step.machines}" for step in steps], 0))
    streams = [c.parameters.get("streams") for c in cells]
    # Streams that grow with the hosts are no setting of their own.
    if len(set(map(repr, streams))) > 1 and not any("streams" in one.where for one in found):
        out.append(Column("streams", "", [wording.value("streams", n) for n in streams], 0))
    out += [
        *intervals("median", [c.main for c in cells], summary.coverage(cells), unit, 2),
        numbers("each", [step.each for step in steps], 0, each),
        *intervals("efficiency", [step.efficiency for step in steps], "interval", "%"),
        numbers("per core", [step.per_core for step in steps], 3, "%"),
        Column("slowest", "%", [percent(step.slowest).removesuffix(" %") for step in steps], 3),
    ]
    return filled_columns(out)


def _efficiency_sentence(found: Sequence[Scaled]) -> str:
    """`each of 4 does 25 % of what one does alone`; of several settings the least and the most."""
    ranked = sorted(found, key=lambda one: one.steps[-1].efficiency.value or 0.0)
    least, most = ranked[0], ranked[-1]
    fewest = least.steps[0].hosts
    alone = "one does alone" if fewest == 1 else f"{fewest} do"
    reached = percent(least.steps[-1].efficiency.value)
    if least is most:
        return f"each of {least.steps[-1].hosts} does {reached} of what {alone}"
    highest = percent(most.steps[-1].efficiency.value)
    head = f"where there are most of them, each does {reached} to {highest} of what {alone}: "
    return f"{head}least with {setting(least.where)}, most with {setting(most.where)}"


def chosen(results: Results) -> list[Cell]:
    """The cells whose loaders are shown: of each operation and place the fastest that several ran."""
    return fastest_of_places([cell for cell in results.cells if hosts.has_several_hosts(cell)])


def loaders(results: Results, most: int | None = None) -> Section | None:
    """A table of the loaders of each `chosen` cell; None where one process ran all streams of every cell."""
    tables: Shown = []
    for cell in chosen(results):
        found = hosts.hosts(cell)
        shown = few(found, most) if most else found
        behind = results.stragglers.get(cell.name, [])
        even = evenness(found)
        if len(shown) < len(found):
            even += f"; {len(found) - len(shown)} more between those shown"
        texts = list(filter(None, [even, *marks(behind)]))
        tables.append((name_of(results, cell), columns(cell, shown, behind), texts))
    note = (
        "Medians over the good trials. Share: of what all moved. CPU: cores of the loader's process; host "
        "CPU: how busy its host's were. Late: how much later than agreed its last stream began, by its own "
        "clock; clock: that minus the driver's, and the most that this is wrong. !: a straggler, well behind "
        "the others in most trials."
    )
    return _section("Loaders", tables, note)


def evenness(found: Sequence[Host]) -> str:
    """`4 loaders: the slowest 94 % of the fastest`."""
    text = hosts.evenness(found)
    return f"{len(found)} loaders: {text}" if text else ""


def few(found: Sequence[Host], most: int = MOST) -> list[Host]:
    """All, or of many the slowest and the fastest ones, in their order."""
    if len(found) <= most:
        return list(found)
    ranked = sorted(found, key=lambda host: host.rate)
    kept = {host.name for host in (*ranked[: most // 2], *ranked[-(most - most // 2) :])}
    return [host for host in found if host.name in kept]


def marks(behind: Sequence[Straggler]) -> list[str]:
    """What a mark in the table says: `! loader-2 (10.77.0.3) is a straggler: ...`."""
    return [f"{_MARK} {wording.plain(describe(one))}" for one in behind]


def columns(cell: Cell, found: Sequence[Host], behind: Sequence[Straggler] = ()) -> list[Column]:
    """A row a loader, with a mark where it is a straggler."""
    marked = {name for one in behind for name in one.names}
    names = [wording.plain(host.name) + (f" {_MARK}" if host.name in marked else "") for host in found]
    counted = f"{cell.noun}s"
    speeds = [Quantity(host.rate, unit=f"{counted}/s" if cell.in_rows else "B/s") for host in found]
    rows = [Quantity(host.rows, unit=counted) for host in found]
    late = [Quantity(host.late_ns, unit="ns") for host in found]
    # A clock's offset and its error compare, so they have one unit.
    unit = pick_unit("ns", [max([*(abs(h.offset_ns) for h in found), *(h.uncertainty_ns for h in found)])])
    out = [
        Column("loader", "", names, 0, text=True),
        Column("address", "", [wording.plain(host.address or MISSING, 46) for host in found], 3, text=True),
        Column("host", "", [wording.plain(host.node or MISSING, 30) for host in found], 5, text=True),
        Column("streams", "", [f"{host.streams}" for host in found], 1),
        numbers(counted, rows, 2),
        numbers("rate", speeds, 0),
        Column("share", "%", [f"{100 * host.share:.1f}" for host in found], 0),
        Column("CPU", "cores", [MISSING if h.cores is None else f"{h.cores:.2f}" for h in found], 1),
        Column("host CPU", "%", [MISSING if h.busy is None else f"{100 * h.busy:.0f}" for h in found], 2),
        numbers("late", late, 1),
        Column("clock", unit, [_clock(host, unit) for host in found], 4),
    ]
    if not cell.in_rows:
        moved = [Quantity(host.payload_bytes, unit="B") for host in found]
        out.insert(5, numbers("payload", moved, 4))
    return filled_columns(out)


def _clock(host: Host, unit: str) -> str:
    """`-1.500 ±0.040`: the offset to two digits of its error; nothing where both have one clock."""
    if not host.offset_ns and not host.uncertainty_ns:
        return MISSING
    offset, error = (v / FACTORS[unit][1] for v in (host.offset_ns, host.uncertainty_ns))
    places = min(4, max(0, 1 - math.floor(math.log10(error)))) if error > 0 else 3
    return f"{offset:+,.{places}f} ±{error:,.{places}f}"


def place_sections(results: Results, brief: bool = False) -> list[Section]:
    """Builds beside each other, local beside remote, one amount over more and more streams."""
    found = [_builds(results), _local_remote(results), _convergence(results)]
    return [without_notes(one) if brief else one for one in found if one is not None]


def _comparisons(results: Results) -> list[Comparison]:
    """None of one place, of local beside remote, which has a section of its own, of unlike systems, of trials
    that did not take turns, and of places whose cells differ in more than the address."""
    named = {str(place) for cell in results.cells if (place := cell.parameters.get("place")) is not None}
    systems = {scheme_of(str(cell.parameters.get("target"))) for cell in results.cells}
    if len(named) < 2 or named == {hosts.LOCAL, hosts.REMOTE} or len(systems) > 1 or results.imported:
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
        text = comparison.summary(one)[0]
        if len(one.rows) == 1:
            text = f"{one.rows[0].word}, ratio {one.rows[0].ratio}"
        out.append(f"{_place_name(one.run)} against {_place_name(one.base)}: {text}")
    return out


def _builds(results: Results) -> Section | None:
    """A table a place but the first, a row a cell."""
    shown: Shown = []
    for one in _comparisons(results):
        base, run = _place_name(one.base), _place_name(one.run)
        shown.append((f"{run} against {base}", comparison.columns(one, base, run), comparison.summary(one)))
    note = (
        "Trials of all places took turns, so the machine's drift hits them alike; ratio: of geometric means; "
        "p: how often chance alone would show such a difference, corrected for the number of cells"
    )
    return _section("Places side by side", shown, note)


def _place_name(side: Side) -> str:
    return wording.plain(side.cells[0].parameters["place"])


def _local_remote(results: Results) -> Section | None:
    """A table an operation, a row a setting of everything but the size; None without both places."""
    found = results.place_rows
    shown: Shown = []
    for caption, own in _by_operation(found):
        text = _place_sentence(own)
        shown.append((caption, _place_columns(results, own), [text] if text else []))
    several = any(len(row.pairs) > 1 for row in found)
    note = "Rates are medians at the largest size; " if several else "Rates are medians; "
    note += (
        "remote/local is their quotient, its interval the one that both medians' intervals allow at their "
        "worst. CPU: cores of client + server; CPU cost: CPU time of what was moved, remote over local."
    )
    if several:
        note += " All sizes: median of the quotients of each size, the least and the most of them."
    return _section("Local and remote", shown, note)


def _place_columns(results: Results, rows: list[Row]) -> list[Column]:
    pairs = [row.largest for row in rows]
    cells = [pair.local for pair in pairs]
    out = settings([row.where for row in rows])
    if any(len(row.pairs) > 1 for row in rows):
        sizes = [wording.value("rows_per_stream", c.parameters.get("rows_per_stream")) for c in cells]
        out.append(Column("rows/stream", "", sizes, 6))
    speeds = [[getattr(pair, side).main for pair in pairs] for side in (hosts.LOCAL, hosts.REMOTE)]
    unit = pick_unit(speeds[0][0].unit, [q.value for side in speeds for q in side])
    ratios = [pair.ratio for pair in pairs]
    out += [numbers(side, q, 0, unit) for side, q in zip((hosts.LOCAL, hosts.REMOTE), speeds, strict=True)]
    coverage = summary.coverage([c for p in pairs for c in (p.local, p.remote)])
    out += intervals("remote/local", ratios, coverage, "%")
    if any(row.sizes for row in rows):
        out.append(Column("all sizes", "%", [_sizes(row) for row in rows], 3))
    for side in (hosts.LOCAL, hosts.REMOTE):
        texts = [summary.cores(getattr(pair, side), True) for pair in pairs]
        out.append(Column(f"CPU {side}", "cores", texts, 3))
    for end in ENDS:
        costs = [pair.cost(end).value for pair in pairs]
        texts = [MISSING if v is None else f"{100 * v:.0f}" for v in costs]
        out.append(Column(f"{end} CPU cost", "%", texts, 4))
    titles = [[_verdict(results, cell.name) for cell in side] for side in
            ([p.local for p in pairs], [p.remote for p in pairs])]  # fmt: skip
    if titles[0] == titles[1]:
        out.append(Column("both held back by", "", titles[0], 2, text=True))
    else:
        for side, texts in zip((hosts.LOCAL, hosts.REMOTE), titles, strict=True):
            out.append(Column(f"{side} held back by", "", texts, 2, text=True))
    return filled_columns(out)


def _sizes(row: Row) -> str:
    if row.sizes is None:
        return MISSING
    middle, least, most = (f"{100 * v:.0f}" for v in row.sizes)
    return f"{middle} [{least}..{most}]"


def _verdict(results: Results, name: str) -> str:
    found = results.verdicts.get(name)
    return MISSING if found is None or found.kind == "unknown" else wording.plain(found.title, 40)


def _place_sentence(rows: list[Row]) -> str:
    """`remote does 72 to 104 % of local: least with 3 streams, most with 1 stream`."""
    measured = [row for row in rows if row.largest.ratio.value is not None]
    if not measured:
        return ""
    ranked = sorted(measured, key=lambda row: row.largest.ratio.value or 0.0)
    least, most = ranked[0], ranked[-1]
    head = f"{rows[0].operation}: remote does"
    if least is most:
        return f"{head} {least.largest.ratio} of local"
    low, high = (percent(row.largest.ratio.value) for row in (least, most))
    first, last = (f" with {setting(row.where)}" if row.where else "" for row in (least, most))
    return f"{head} {low} to {high} of local: least{first}, most{last}"


def _convergence(results: Results) -> Section | None:
    """A table a setting: the amount over so many streams, predicted and measured. None where no amount was
    divided on purpose, or the run has one place and one host."""
    shown = [
        (f"{convergence_name(one)}, {count(one.rows)} rows in all", _splits(one), [_tends(one)])
        for one in results.convergences
    ]
    note = (
        "Predicted: by t = a + n/b, fitted at each number of streams to the other sizes of the sweep; with "
        "the 95 % prediction interval of a new median. What more streams tend to: from the same lines, "
        "start-up taken to grow by as much with every stream, b by its scaling law."
    )
    return _section("One amount over more and more streams", shown, note)


def _splits(one: Convergence) -> list[Column]:
    splits_ = one.splits
    unit = "MB/s"
    held = [MISSING if s.inside is None else "yes" if s.inside else "no" for s in splits_]
    errors = [MISSING if s.error is None else f"{100 * s.error:+.1f}" for s in splits_]
    return [
        Column("streams", "", [f"{s.streams}" for s in splits_], 0),
        Column("rows/stream", "", [wording.value("rows_per_stream", s.rows_per_stream) for s in splits_], 0),
        *intervals("predicted", [s.predicted for s in splits_], "95 %", unit),
        *intervals("measured", [s.measured for s in splits_], "interval", unit, 2),
        Column("off by", "%", errors, 0),
        Column("inside", "", held, 1, text=True),
    ]


def _tends(one: Convergence) -> str:
    refused = []
    for reason, splits in grouped((s for s in one.splits if s.refused), lambda split: split.refused).items():
        counts = [split.streams for split in splits]
        refused.append(f"{listed(map(str, counts))} stream{'' if counts == [1] else 's'}: {reason}")
    if one.limit is None:
        return "; ".join([f"no limit predicted: {one.refused}", *refused])
    limit = one.limit
    streams = plural(limit.near, "stream")
    text = f"converges at {limit.rate}, 95 % of it from {streams} on"
    if limit.startup.measured:
        text += f"; every stream adds {limit.startup} of start-up"
        text += f", so that more than {plural(limit.at, 'stream')} lose again" if limit.loses else ""
    if one.reached is not None:
        text += f"; the most that was measured is {percent(one.reached)} of it"
    return "; ".join([text, *refused])
