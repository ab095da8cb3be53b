"""The layers of a scenario (built in, file, flags), and one laid over the other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from venturi.common import toml_text
from venturi.common.errors import ScenarioError
from venturi.common.texts import meant
from venturi.plan import also
from venturi.plan.workload import SIZES
from venturi.targets.urls import printable

__all__ = ["Layer", "Path_", "builtin_names", "builtin_text", "file_layer", "merge", "place_in", "table_of"]

Path_ = tuple[str, ...]
_HERE = Path(__file__).parent


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
    return sorted(path.stem for path in (_HERE / "scenarios").glob("*.toml"))


def builtin_text(name: str) -> str:
    """The TOML of a built-in scenario. Raises ScenarioError for an unknown name."""
    if name not in builtin_names():
        known = builtin_names()
        raise ScenarioError(
            f"{printable(name)}: no such scenario, neither a file nor built in",
            hint=meant(name, known, f"built in are: {', '.join(known)}"),
        )
    return (_HERE / "scenarios" / f"{name}.toml").read_text(encoding="utf-8")


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
        matrix["also"] = also.displaced(matrix["also"], new)


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
