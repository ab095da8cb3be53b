"""A scenario made smaller by `--scale`: fewer points of its axes, and smaller sizes that still differ."""

from __future__ import annotations

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
        if all(isinstance(value, int | float) for axis in group for value in axes[axis])
        else set(range(len(axes[group[0]])))
        for group in groups
    ]

    def missing(step: Sequence[int]) -> int:
        """How many of a cell's values are not kept."""
        return sum(index not in points for index, points in zip(step, kept, strict=True))

    steps = [step for chosen in cells if (step := _step(axes, groups, chosen)) is not None]
    for at in range(len(groups)):
        present = sorted({step[at] for step in steps})
        for wanted in {present[i] for i in (0, len(present) // 2, -1)} if present else ():
            nearest = min((step for step in steps if step[at] == wanted), key=missing)
            for index, points in zip(nearest, kept, strict=True):
                points.add(index)
    found = {axis: list(values) for axis, values in axes.items()}
    for group, indices in zip(groups, kept, strict=True):
        for axis in group:
            found[axis] = [axes[axis][i] for i in sorted(indices)]
    return found


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
    axes = {axis: list(values) for axis, values in scenario.axes.items()}
    if factor < 1:
        groups = axis_groups(scenario)
        axes = thin_axes(axes, groups, [chosen for chosen, _ in chosen_cells(scenario, {})], factor)
        for group in groups:
            kept, all_points = len(axes[group[0]]), len(scenario.axes[group[0]])
            if kept < all_points:
                notes.append(f"{' with '.join(group)}: {kept} of {all_points} points")
    batch = min([workload.rows_per_batch, *scenario.axes.get("rows_per_batch", [])])
    widest = 8 * max([workload.columns, *scenario.axes.get("columns", [])])
    least = {"rows_per_stream": batch, "bytes_per_stream": batch * widest, "duration": 200_000_000}
    sizes = {size: axes[size] if size in axes else [getattr(workload, size)] for size in SIZES}
    sizes = {size: values for size, values in sizes.items() if values != [None]}
    sources = scenario.axes.get("data", [workload.data])
    made = ("records", "states", "metrics", "archive")
    if not sizes and set(scenario.axes.get("operation", [workload.operation])) == {"upsert"}:
        sizes = {"duration": [options.UPSERT_NS]}
    elif not sizes and any(isinstance(source, FileData) or source in made for source in sources):
        sizes = {"rows_per_stream": [10_000_000]}
    zipped = {axis for group in scenario.zips for axis in group}
    scaled: dict[str, dict[int, int]] = {}
    update: dict[str, Any] = {}
    for size, before in sizes.items():
        spell = spell_duration if size == "duration" else format_count
        values = [*before, *(value for points in scenario.also for value in points.get(size, ()))]
        if max(values) * factor >= 2**63:
            raise ValueError(f"{size} {spell(max(values))} becomes too large")
        scaled[size] = shrink_values(values, factor, least[size])
        after = [scaled[size][value] for value in before]
        if size not in axes:
            update[size] = after[0]
        else:
            axes[size] = after if size in zipped else list(dict.fromkeys(after))
        ends = [dict.fromkeys((spell(values[0]), spell(values[-1]))) for values in (before, after)]
        note = f"{size} {'..'.join(ends[0])} became {'..'.join(ends[1])}"
        floors = [max(min(value, least[size]), round(value * factor)) for value in before]
        if len(before) > 1 and any(n > floor for n, floor in zip(after, floors, strict=True)):
            note += ", the smallest by less, so that they still differ"
        notes.append(note)
    run = scenario.run
    repeats = min(run.repeats, max(3, round(run.repeats * math.sqrt(factor)))) if factor < 1 else run.repeats
    if repeats != run.repeats:
        notes.append(f"repeats {run.repeats} became {repeats}")
    smaller = replace(
        scenario,
        axes=axes,
        also=layers.scale_extra_points(
            scenario.also, lambda axis, n: scaled[axis][n] if axis in scaled else n
        ),
        workload=workload.model_copy(update=update),
        run=run.model_copy(update={"repeats": repeats}),
    )
    return smaller, notes
