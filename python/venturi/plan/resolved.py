"""A scenario as the text that reads back as an equal one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.common import toml_text
from venturi.common.suffixes import spell_duration, spell_time
from venturi.plan.rules.options import idle
from venturi.plan.scenario import Scenario
from venturi.plan.workload import FileData

__all__ = ["to_toml"]

_DURATIONS = ("duration", "timeout", "sample_interval", "tick")


def _plain(value: Any) -> Any:
    # A null has no TOML spelling inside a list, so the axis says "none".
    if value is None:
        return "none"
    return value.model_dump() if isinstance(value, FileData) else value


def _spelled(table: Mapping[str, Any]) -> dict[str, Any]:
    def spell(key: str, value: Any) -> Any:
        if key in _DURATIONS and isinstance(value, int):
            return spell_duration(value)
        if key == "adaptive" and value is not None:
            return f"{value:g}%"
        if key == "start" and value is not None:
            return spell_time(value)
        return None if value == {} else value

    return {key: spell(key, value) for key, value in table.items()}


def to_toml(scenario: Scenario) -> str:
    """The resolved scenario; reads back as an equal one."""
    tree: dict[str, Any] = {"name": scenario.name, "description": scenario.description or None, "format": 1}
    tree["reference"] = scenario.reference or None
    tables = {"target": scenario.target, "workload": scenario.workload, "run": scenario.run}
    for name, table in tables.items():
        # Defaults of options that mean nothing here would only puzzle the reader.
        tree[name] = _spelled(table.model_dump(exclude=idle(scenario)))
    tree["hosts"] = scenario.hosts.model_dump(exclude_defaults=True) or None
    tree["places"] = dict(scenario.places) or None
    matrix: dict[str, Any] = {
        axis: [_spelled({axis: _plain(value)})[axis] for value in values]
        for axis, values in scenario.axes.items()
    }
    matrix["zip"] = [list(group) for group in scenario.zips] or None
    matrix["exclude"] = list(scenario.exclude) or None
    matrix["also"] = [
        {axis: [_spelled({axis: value})[axis] for value in values] for axis, values in points.items()}
        for points in scenario.also
    ] or None
    tree["matrix"] = matrix if any(value is not None for value in matrix.values()) else None
    return toml_text.dump(tree, "The resolved scenario: defaults, file and flags merged.")
