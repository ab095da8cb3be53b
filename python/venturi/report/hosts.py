"""Efficiency over hosts, and what each loader of a cell did."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

from venturi.analysis.advice import straggler_advice
from venturi.analysis.advice.stragglers import Straggler
from venturi.analysis.cells import hosts as analysis
from venturi.analysis.cells.efficiency import Scaled
from venturi.analysis.cells.hosts import Host
from venturi.analysis.cells.summary import Cell, best, by_operation
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.units import FACTORS, MISSING, Quantity, percent, pick_unit
from venturi.report import names, summary
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
from venturi.report.names import setting

__all__ = ["MOST", "chosen", "columns", "efficiency", "evenness", "few", "loaders", "marks", "sections"]

MOST = 12
"""Loaders that a terminal shows of one cell."""
_MARK = "!"


def sections(results: Results, brief: bool = False, most: int | None = None) -> list[Section]:
    """Efficiency over hosts, and the loaders; of more than `most` of a cell the slowest and the fastest."""
    found = [efficiency(results), loaders(results, MOST if brief else most)]
    return [without_notes(one) if brief else one for one in found if one is not None]


def efficiency(results: Results) -> Section | None:
    """A table an operation, a row a number of hosts at a setting; None where there were no two numbers."""
    found = results.efficiency
    if not found:
        return None
    operations = list(dict.fromkeys(one.operation for one in found))
    blocks: list[Block] = []
    for operation in operations:
        own = [one for one in found if one.operation == operation]
        caption = labels.plain(operation) if len(operations) > 1 else ""
        blocks += [Table(_scaled(own), caption), Bullets([_sentence(own)])]
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
    return Section(title, [*blocks, Text(note, "quiet")])


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
        out.append(Column("streams", "", [labels.value("streams", n) for n in streams], 0))
    out += [
        numbers("median", [c.main for c in cells], 0, unit),
        Column(summary.coverage(cells), unit, [c.main.margin(unit) for c in cells], 2),
        numbers("each", [step.each for step in steps], 0, each),
        numbers("efficiency", [step.efficiency for step in steps], 0, "%"),
        Column("interval", "%", [step.efficiency.margin("%") for step in steps], 1),
        numbers("per core", [step.per_core for step in steps], 3, "%"),
        Column("slowest", "%", [percent(step.slowest).removesuffix(" %") for step in steps], 3),
    ]
    return known_columns(out)


def _sentence(found: Sequence[Scaled]) -> str:
    """`each of 4 does 25 % of what one does alone`; of several settings the least and the most."""
    ranked = sorted(found, key=lambda one: one.steps[-1].efficiency.value or 0.0)
    least, most = ranked[0], ranked[-1]
    fewest = least.steps[0].hosts
    alone = "one does alone" if fewest == 1 else f"{fewest} do"
    reached = percent(least.steps[-1].efficiency.value)
    if least is most:
        return f"each of {least.steps[-1].hosts} does {reached} of what {alone}"
    highest = percent(most.steps[-1].efficiency.value)
    told = f"where there are most of them, each does {reached} to {highest} of what {alone}: "
    return f"{told}least with {setting(least.where)}, most with {setting(most.where)}"


def chosen(results: Results) -> list[Cell]:
    """The cells whose loaders are shown: of each operation and place the fastest that several ran."""
    out = []
    for members in by_operation(results.cells).values():
        places: dict[object, list[Cell]] = {}
        for cell in members:
            if analysis.several(cell):
                places.setdefault(cell.parameters.get("place"), []).append(cell)
        out += [top for same in places.values() if (top := best(same)) is not None]
    return out


def loaders(results: Results, most: int | None = None) -> Section | None:
    """A table of the loaders of each `chosen` cell; None where one process ran all streams of every cell."""
    blocks: list[Block] = []
    for cell in chosen(results):
        found = analysis.hosts(cell)
        shown = few(found, most) if most else found
        behind = results.stragglers.get(cell.name, [])
        said = evenness(found)
        if len(shown) < len(found):
            said += f"; {len(found) - len(shown)} more between those shown"
        told = [said, *marks(behind)]
        blocks += [
            Table(columns(cell, shown, behind), names.name_of(results, cell)),
            Bullets(list(filter(None, told))),
        ]
    if not blocks:
        return None
    note = (
        "Medians over the good trials. Share: of what all moved. CPU: cores of the loader's process; host "
        "CPU: how busy its host's were. Late: how much later than agreed its last stream began, by its own "
        "clock; clock: that minus the driver's, and the most that this is wrong. !: a straggler, well behind "
        "the others in most trials."
    )
    return Section("Loaders", [*blocks, Text(note, "quiet")])


def evenness(found: Sequence[Host]) -> str:
    """`4 loaders: the slowest 94 % of the fastest`."""
    told = analysis.evenness(found)
    return f"{len(found)} loaders: {told}" if told else ""


def few(found: Sequence[Host], most: int = MOST) -> list[Host]:
    """All, or of many the slowest and the fastest ones, in their order."""
    if len(found) <= most:
        return list(found)
    ranked = sorted(found, key=lambda host: host.rate)
    kept = {host.name for host in (*ranked[: most // 2], *ranked[-(most - most // 2) :])}
    return [host for host in found if host.name in kept]


def marks(behind: Sequence[Straggler]) -> list[str]:
    """What a mark in the table says: `! loader-2 (10.77.0.3) is a straggler: ...`."""
    return [f"{_MARK} {labels.plain(straggler_advice.told(one))}" for one in behind]


def columns(cell: Cell, found: Sequence[Host], behind: Sequence[Straggler] = ()) -> list[Column]:
    """A row a loader, with a mark where it is a straggler."""
    marked = {name for one in behind for name in one.names}
    counted = f"{cell.noun}s"
    speeds = [Quantity(host.rate, unit=f"{counted}/s" if cell.in_rows else "B/s") for host in found]
    rows = [Quantity(host.rows, unit=counted) for host in found]
    late = [Quantity(host.late_ns, unit="ns") for host in found]
    # A clock's offset and its error compare, so they have one unit.
    unit = pick_unit("ns", [max([*(abs(h.offset_ns) for h in found), *(h.uncertainty_ns for h in found)])])
    out = [
        Column("loader", "", [_name(host, marked) for host in found], 0, text=True),
        Column("address", "", [labels.plain(host.address or MISSING, 46) for host in found], 3, text=True),
        Column("host", "", [labels.plain(host.node or MISSING, 30) for host in found], 5, text=True),
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
    return known_columns(out)


def _name(host: Host, marked: Container[str]) -> str:
    return labels.plain(host.name) + (f" {_MARK}" if host.name in marked else "")


def _clock(host: Host, unit: str) -> str:
    """`-1.500 ±0.040`: the offset to two digits of its error; nothing where both have one clock."""
    if not host.offset_ns and not host.uncertainty_ns:
        return MISSING
    offset, error = (v / FACTORS[unit][1] for v in (host.offset_ns, host.uncertainty_ns))
    places = min(4, max(0, 1 - math.floor(math.log10(error)))) if error > 0 else 3
    return f"{offset:+,.{places}f} ±{error:,.{places}f}"
