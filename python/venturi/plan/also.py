"""`also` of a scenario's matrix: points beside the product of its axes, as a total that is split in ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from venturi.common.errors import ScenarioError

__all__ = ["displaced", "products", "read", "scaled"]

Points = Mapping[str, Sequence[Any]]
"""Axes that advance together, in place of what the matrix says of them."""


def read(
    tables: Any,
    axes: Iterable[str],
    valid: Callable[[str, Any], list[Any]],
    wrong: Callable[[str, str], ScenarioError],
) -> list[Points]:
    """The tables with validated values. Raises ScenarioError."""
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) and table for table in tables):
        raise wrong(
            "also", "must be a list of tables, as in [{ streams = [1, 2], rows_per_stream = [8, 4] }]"
        )
    found: list[Points] = []
    for table in tables:
        for axis in table:
            if axis not in axes:
                raise wrong("also", f"no axis of numbers is called {axis!r}; there are: {', '.join(axes)}")
        points = {axis: valid(axis, values) for axis, values in table.items()}
        if len({len(values) for values in points.values()}) > 1:
            spelled = ", ".join(f"{axis} has {len(values)}" for axis, values in points.items())
            raise wrong("also", f"axes of a table advance together; {spelled} values")
        found.append(points)
    return found


def products(
    axes: Mapping[str, Sequence[Any]], groups: Sequence[Sequence[str]], tables: Sequence[Points]
) -> list[list[list[dict[str, Any]]]]:
    """The products whose combinations are the cells: of all groups of axes, and for each table of its points
    with the groups that are left. A product is the steps of each of its groups."""
    found = [[_steps(axes, group) for group in groups]]
    for points in tables:
        left = [[axis for axis in group if axis not in points] for group in groups]
        found.append([*(_steps(axes, group) for group in left if group), _steps(points, list(points))])
    return found


def _steps(axes: Mapping[str, Sequence[Any]], group: Sequence[str]) -> list[dict[str, Any]]:
    """Of axes that advance together their values, one after the other."""
    columns = zip(*(axes[axis] for axis in group), strict=True)
    return [dict(zip(group, values, strict=True)) for values in columns]


def displaced(tables: Any, axes: set[str]) -> list[Any]:
    """Those of a lower layer's tables that are left where a higher one sets these axes."""
    return [table for table in tables if not (isinstance(table, Mapping) and axes & set(table))]


def scaled(tables: Sequence[Points], shrink: Callable[[str, Any], Any]) -> list[Points]:
    """With every value as `shrink(axis, value)` makes it."""
    return [
        {axis: [shrink(axis, value) for value in values] for axis, values in points.items()}
        for points in tables
    ]
