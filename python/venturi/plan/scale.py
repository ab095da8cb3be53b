"""A scenario made smaller by `--scale`: fewer points of its axes, and smaller sizes that still differ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from venturi.common.suffixes import format_count, spell_duration
from venturi.plan import layers
from venturi.plan.matrix import axis_groups, chosen_cells
from venturi.plan.rules import options
from venturi.plan.workload import SIZES, FileData

if TYPE_CHECKING:
    from venturi.plan.scenario import Scenario

_LEAST = 5
"""Points that an axis keeps: both ends, its middle, and one between each."""


def thin_axes(
    axes: Mapping[str, Sequence[Any]],
    groups: Sequence[Sequence[str]],
    cells: Iterable[Mapping[str, Any]],
    factor: float,
) -> dict[str, list[Any]]:
    """The axes with fewer points. `groups` are axes that advance together, or one alone; `cells` the values
    that each cell of the scenario has of its axes.

    Only a scale of numbers has points between its ends; a list of codecs stays as it is. Conditions may leave
    a value to few cells: what the ends and the middle of an axis need there is kept as well.
    """
    kept = [
        set(_spread(len(axes[group[0]]), factor))
        if _numeric(axes, group)
        else set(range(len(axes[group[0]])))
        for group in groups
    ]
    steps = [step for chosen in cells if (step := _step(axes, groups, chosen)) is not None]
    for at in range(len(groups)):
        present = sorted({step[at] for step in steps})
        for wanted in {present[i] for i in (0, len(present) // 2, -1)} if present else ():
            nearest = min((step for step in steps if step[at] == wanted), key=lambda s: _missing(s, kept))
            for index, points in zip(nearest, kept, strict=True):
                points.add(index)
    found = {axis: list(values) for axis, values in axes.items()}
    for group, indices in zip(groups, kept, strict=True):
        for axis in group:
            found[axis] = [axes[axis][i] for i in sorted(indices)]
    return found


def _missing(step: Sequence[int], kept: Sequence[set[int]]) -> int:
    """How many of a cell's values are not kept."""
    return sum(index not in points for index, points in zip(step, kept, strict=True))


def _numeric(axes: Mapping[str, Sequence[Any]], group: Sequence[str]) -> bool:
    return all(isinstance(v, int | float) for axis in group for v in axes[axis])


def _spread(count: int, factor: float) -> list[int]:
    """Indices of the points kept: both ends, the middle, and others evenly between; a few stay as they
    are."""
    keep = max(_LEAST, math.ceil(count * math.sqrt(factor))) | 1
    if keep >= count:
        return list(range(count))
    return sorted({math.floor(i * (count - 1) / (keep - 1) + 0.5) for i in range(keep)})


def _step(
    axes: Mapping[str, Sequence[Any]], groups: Sequence[Sequence[str]], chosen: Mapping[str, Any]
) -> list[int] | None:
    """Where a cell lies on each group of axes; None of a point beside the product."""
    found = []
    for group in groups:
        count = len(axes[group[0]])
        index = next((i for i in range(count) if all(axes[a][i] == chosen.get(a) for a in group)), None)
        if index is None:
            return None
        found.append(index)
    return found


def shrink_values(values: Iterable[int], factor: float, least: int) -> dict[int, int]:
    """Each size times `factor`; those that would end at `least` or below are made smaller by less, so that
    they still differ and keep their order."""
    found: dict[int, int] = {}
    previous = 0
    for value in sorted(set(values)):
        scaled = round(min(value * factor, 2**63))
        if scaled <= max(least, previous):
            scaled = max(scaled, min(value, previous + least))
        previous = found[value] = scaled
    return found


def scale(scenario: Scenario, factor: float) -> tuple[Scenario, list[str]]:
    """The scenario with its sizes times `factor`, and what was done to it, in words.

    Below 1, long axes are thinned to their ends, their middle and a few points between, and repeats are
    reduced to 3 at the least. No stream gets less than one batch, no duration less than 200 ms; sizes that
    would all end there are made smaller by less, so that they still differ.

    Raises ValueError for a factor that is no positive number, or makes a size that nothing can have.
    """
    if not factor > 0:
        raise ValueError("must be above 0")
    if factor == math.inf:
        raise ValueError("must be a number")
    notes: list[str] = []
    workload = scenario.workload
    batch = min([workload.rows_per_batch, *scenario.axes.get("rows_per_batch", [])])
    widest = 8 * max([workload.columns, *scenario.axes.get("columns", [])])
    least = {"rows_per_stream": batch, "bytes_per_stream": batch * widest, "duration": 200_000_000}

    def shrink(size: str, value: int) -> int:
        if value * factor >= 2**63:
            raise ValueError(f"{size} {spell(size, value)} becomes too large")
        return sized.get(size, {}).get(value) or shrink_values([value], factor, least[size])[value]

    def spell(size: str, value: int) -> str:
        return spell_duration(value) if size == "duration" else format_count(value)

    axes = {axis: list(values) for axis, values in scenario.axes.items()}
    if factor < 1:
        groups = axis_groups(scenario)
        axes = thin_axes(axes, groups, [chosen for chosen, _ in chosen_cells(scenario, {})], factor)
        for group in groups:
            kept, present = len(axes[group[0]]), len(scenario.axes[group[0]])
            if kept < present:
                notes.append(f"{' with '.join(group)}: {kept} of {present} points")
    sized = {
        size: shrink_values(
            itertools.chain(axes[size], *(points.get(size, ()) for points in scenario.also)),
            factor,
            least[size],
        )
        for size in SIZES
        if size in axes
    }
    zipped = {axis for group in scenario.zips for axis in group}
    update: dict[str, Any] = {}
    for size in SIZES:
        if size in axes:
            before = axes[size]
            after = [shrink(size, value) for value in before]
            axes[size] = after if size in zipped else list(dict.fromkeys(after))
            ends = [spell(size, value) for value in (before[0], before[-1], after[0], after[-1])]
            note = f"{size} {ends[0]}..{ends[1]} became {ends[2]}..{ends[3]}"
            if any(
                n > max(min(value, least[size]), round(value * factor))
                for value, n in zip(before, after, strict=True)
            ):
                note += ", the smallest by less, so that they still differ"
            notes.append(note)
        elif (value := getattr(workload, size)) is not None:
            update[size] = shrink(size, value)
            notes.append(f"{size} {spell(size, value)} became {spell(size, update[size])}")
    defaulted = not update and not any(size in axes for size in SIZES)
    if defaulted and _all_upserts(scenario):
        update["duration"] = shrink("duration", options.UPSERT_NS)
        notes.append(
            f"duration {spell_duration(options.UPSERT_NS)} became {spell_duration(update['duration'])}"
        )
    elif defaulted and _has_own_data(scenario):
        update["rows_per_stream"] = shrink("rows_per_stream", 10_000_000)
        notes.append(f"rows_per_stream 10M became {format_count(update['rows_per_stream'])}")
    run = scenario.run
    repeats = min(run.repeats, max(3, round(run.repeats * math.sqrt(factor)))) if factor < 1 else run.repeats
    if repeats != run.repeats:
        notes.append(f"repeats {run.repeats} became {repeats}")
    scaled = replace(
        scenario,
        axes=axes,
        also=layers.scale_extra_points(
            scenario.also, lambda axis, n: shrink(axis, n) if axis in SIZES else n
        ),
        workload=workload.model_copy(update=update),
        run=run.model_copy(update={"repeats": repeats}),
    )
    return scaled, notes


def _all_upserts(scenario: Scenario) -> bool:
    operations = scenario.axes.get("operation", [scenario.workload.operation])
    return all(operation == "upsert" for operation in operations)


def _has_own_data(scenario: Scenario) -> bool:
    sources = scenario.axes.get("data", [scenario.workload.data])
    return any(
        isinstance(source, FileData) or source in ("records", "states", "metrics", "archive")
        for source in sources
    )
