"""Fewer points of a scenario's axes, and sizes that still differ when all of them are made smaller."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["shrunk", "thinned"]

_LEAST = 5
"""Points that an axis keeps: both ends, its middle, and one between each."""


def thinned(
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
        there = sorted({step[at] for step in steps})
        for wanted in {there[i] for i in (0, len(there) // 2, -1)} if there else ():
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


def shrunk(values: Iterable[int], factor: float, least: int) -> dict[int, int]:
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
