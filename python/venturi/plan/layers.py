"""The layers of a scenario (built in, file, flags), one laid over the other; keys with a second name, and
the extra points of `also`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from venturi.common import toml_text
from venturi.common.errors import ScenarioError
from venturi.common.texts import meant
from venturi.plan.workload import SIZES
from venturi.targets.parameters import SETTINGS
from venturi.targets.urls import printable

Points = Mapping[str, Sequence[Any]]
"""Axes that advance together, in place of what the matrix says of them."""


def matrix_products(
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


def drop_displaced(tables: Any, axes: set[str]) -> list[Any]:
    """Those of a lower layer's tables that are left where a higher one sets these axes."""
    return [table for table in tables if not (isinstance(table, Mapping) and axes & set(table))]


def scale_extra_points(tables: Sequence[Points], shrink: Callable[[str, Any], Any]) -> list[Points]:
    """With every value as `shrink(axis, value)` makes it."""
    return [
        {axis: [shrink(axis, value) for value in values] for axis, values in points.items()}
        for points in tables
    ]


Path_ = tuple[str, ...]
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Layer:
    """One source of settings. A value of None takes the key back to its default.

    `text` is the TOML, to find lines in; a layer without one is made of flags.
    """

    name: str
    tree: Mapping[str, Any]
    text: str | None = None
    folder: Path | None = None
    # Spelling of a key on the command line, where it was given there.
    flags: Mapping[Path_, str] = field(default_factory=dict)

    def has(self, path: Path_) -> bool:
        found: Any = self.tree
        for part in path:
            if not isinstance(found, Mapping) or part not in found:
                return False
            found = found[part]
        return True

    def place(self, path: Path_) -> str:
        """Where a reader finds this key: "quick.toml:7: workload.streams" or "--streams"."""
        dotted = ".".join(path)
        if self.text is None:
            return self.flags.get(path) or self.flags.get(path[:2]) or f"{self.name} {dotted}".strip()
        line = toml_text.line_of(self.text, path)
        return f"{self.name}:{line}: {dotted}" if line else f"{self.name}: {dotted}"


def builtin_names() -> list[str]:
    """Names of the scenarios that come with Venturi."""
    return sorted(path.stem for path in (_FOLDER / "scenarios").glob("*.toml"))


def builtin_text(name: str) -> str:
    """The TOML of a built-in scenario. Raises ScenarioError for an unknown name."""
    if name not in builtin_names():
        names = builtin_names()
        raise ScenarioError(
            f"{printable(name)}: no such scenario, neither a file nor built in",
            hint=meant(name, names, f"built in are: {', '.join(names)}"),
        )
    return (_FOLDER / "scenarios" / f"{name}.toml").read_text(encoding="utf-8")


def file_layer(name: str) -> Layer:
    """A scenario file, or a built-in scenario by its name."""
    path = Path(name)
    if path.suffix != ".toml" and not os.path.exists(path):
        text = builtin_text(name)
        return Layer(f"{name}.toml", toml_text.parse(text, f"{name}.toml"), text, Path.cwd())
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ScenarioError(f"{name}: no such file", hint="venturi scenarios lists those built in") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{name}: not a text file in UTF-8") from None
    except OSError as error:
        raise ScenarioError(f"{name}: cannot be read: {error.strerror}") from None
    tree = toml_text.parse(text, name)
    tree.setdefault("name", path.stem)
    return Layer(name, tree, text, path.resolve().parent)


def merge(layers: Sequence[Layer]) -> dict[str, Any]:
    """One tree; a later layer wins, key by key, also over an axis of the same key."""
    merged: dict[str, Any] = {}
    for layer in layers:
        _displace(merged, layer.tree)
        _overlay(merged, layer.tree)
    return merged


def _overlay(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            _overlay(below[key], value)
        elif value is None:
            below.pop(key, None)
        else:
            below[key] = _copy(value)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items() if item is not None}
    return value


def _displace(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    """What a layer sets, as a value or an axis, takes the place of both below it.

    The sizes exclude one another, and so do the ways to give an address.
    """
    new = set(table_of(above, "workload")) | set(table_of(above, "matrix"))
    new |= set(table_of(above, "target")) | set(table_of(above, "hosts"))
    if new & set(SIZES):
        new |= set(SIZES)
    if "url" in new or "target" in new or "place" in new or table_of(above, "places"):
        new |= {"target", "place"}
    if "url" in table_of(above, "target") or "target" in table_of(above, "matrix"):
        below.pop("places", None)
    for table, keys in (("workload", SIZES), ("matrix", new - {"zip", "exclude", "also"})):
        if isinstance(below.get(table), dict):
            for key in new & set(keys):
                below[table].pop(key, None)
    matrix = below.get("matrix")
    if isinstance(matrix, dict) and isinstance(matrix.get("zip"), list):
        groups = [_rezipped(group, new, table_of(above, "matrix")) for group in matrix["zip"]]
        matrix["zip"] = [group for group in groups if not _are_names(group) or len(group) > 1]
    if isinstance(matrix, dict) and isinstance(matrix.get("also"), list):
        matrix["also"] = drop_displaced(matrix["also"], new)


def _rezipped(group: Any, new: set[str], above: Mapping[str, Any]) -> Any:
    """A zipped group when a higher layer sets `new`: its values take part, where it has several."""
    if not _are_names(group):
        return group
    size = next((axis for axis in above if axis in SIZES), None)
    kept = [axis if axis not in new or axis in above else size if axis in SIZES else None for axis in group]
    return list(dict.fromkeys(axis for axis in kept if axis is not None))


def _are_names(group: Any) -> bool:
    return isinstance(group, list) and all(isinstance(axis, str) for axis in group)


def table_of(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def place_in(layers: Sequence[Layer], path: Sequence[str]) -> str:
    for layer in reversed(layers):
        if layer.has(tuple(path)):
            return layer.place(tuple(path))
    return ".".join(path)


ALIASES = {it.alias.removeprefix("--").replace("-", "_"): it.key for it in SETTINGS if it.alias is not None}
"""Of an ingest, whose rows are points."""


def resolve_aliases(layer: Layer) -> Layer:
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
    matrix = tree.get("matrix")
    if isinstance(matrix, Mapping):
        tree["matrix"] = {k: _one_name(v) if k in ("zip", "exclude") else v for k, v in matrix.items()}
    flags = {(*path[:-1], ALIASES.get(path[-1], path[-1])): text for path, text in layer.flags.items()}
    text = layer.text
    for alias, name in ALIASES.items():
        text = text.replace(alias, name) if text is not None else None
    return replace(layer, tree=tree, text=text, flags={**layer.flags, **flags})


def _one_name(value: Any) -> Any:
    """The axes of `zip`, and the conditions of `exclude`, without aliases."""
    if isinstance(value, list):
        return [_one_name(item) for item in value]
    if isinstance(value, str):
        for alias, name in ALIASES.items():
            value = re.sub(rf"\b{alias}\b", name, value)
    return value
