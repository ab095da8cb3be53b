"""Other words for keys of a scenario: rows of an ingest are points."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.layers import Layer, table_of
from venturi.targets.parameters import SETTINGS

__all__ = ["ALIASES", "renamed"]

ALIASES = {it.alias.removeprefix("--").replace("-", "_"): it.key for it in SETTINGS if it.alias is not None}
"""Of an ingest, whose rows are points."""


def renamed(layer: Layer) -> Layer:
    """The layer with `points_per_batch` and its like under their one name."""
    if not any(name in table_of(layer.tree, table) for table in ("workload", "matrix") for name in ALIASES):
        return layer
    tree = dict(layer.tree)
    for table in ("workload", "matrix"):
        found = table_of(tree, table)
        for alias, name in ALIASES.items():
            if alias in found and name in found:
                raise ScenarioError(
                    f"{layer.place((table, alias))}: is another word for {name}, which is given too; keep one"
                )
        if isinstance(tree.get(table), Mapping):
            tree[table] = {ALIASES.get(key, key): value for key, value in found.items()}
    for key in ("zip", "exclude"):
        if key in table_of(tree, "matrix"):
            tree["matrix"][key] = _one_name(tree["matrix"][key])
    spelled: dict[tuple[str, ...], str] = {
        (path[0], name): text
        for path, text in layer.flags.items()
        for name in [ALIASES.get(path[-1], path[-1])]
        if len(path) == 2
    }
    text = layer.text
    for alias, name in ALIASES.items():
        text = text.replace(alias, name) if text is not None else None
    return replace(layer, tree=tree, text=text, flags={**layer.flags, **spelled})


def _one_name(value: Any) -> Any:
    """The axes of `zip`, and the conditions of `exclude`, without aliases."""
    if isinstance(value, list):
        return [_one_name(item) for item in value]
    if isinstance(value, str):
        for alias, name in ALIASES.items():
            value = re.sub(rf"\b{alias}\b", name, value)
    return value
