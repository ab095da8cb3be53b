"""A scenario: TOML file and flags, merged and validated. The language is docs/scenarios.md.

Defaults < file < flags: each is a `Layer`, a tree of tables, and `merge` is the one
place where a later layer wins. Errors name the layer's own spelling: file, line and
field, or the flag.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from venturi import also, toml_text
from venturi.credentials import carries_secret
from venturi.errors import ScenarioError
from venturi.settings import LISTS, SIZES, FileData, Hosts, Run, Table, Target, Workload, check_url
from venturi.suffixes import spell_duration
from venturi.times import spell_time
from venturi.urls import printable

__all__ = ["BUILTIN_DATA", "Layer", "Scenario", "builtin_names", "builtin_text", "file_layer", "load"]

Path_ = tuple[str, ...]
TABLES: dict[str, type[Table]] = {"target": Target, "workload": Workload, "hosts": Hosts, "run": Run}
TOP = (
    *("name", "description", "format", "reference", "target", "places", "workload", "hosts", "matrix", "run"),
)
# `place` and `target` choose the address; every other axis is a key of [workload] or [target].
ADDRESS_AXES = ("place", "target")
BUILTIN_DATA = {"builtin:birdstrikes": "birdstrikes.parquet"}
_HERE = Path(__file__).parent
# Keys whose value is a list, where others want an axis.
LIST_VALUES = ("pin", "headers", "key", "add", "tags", "values", *LISTS)
# A file system takes 255 bytes; the run's directory has the time in its name too.
_MOST_NAME = 200
_DURATIONS = ("duration", "timeout", "sample_interval", "tick")


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


@dataclass(frozen=True)
class Scenario:
    """A validated scenario; its cells are made by `venturi.matrix.cells`."""

    name: str
    target: Target
    workload: Workload
    run: Run
    hosts: Hosts = field(default_factory=Hosts)
    # By what its streams are placed on several hosts, ray or spark; None: this process runs all.
    on: str | None = None
    # Each cell in this process too.
    beside: bool = False
    places: Mapping[str, str] = field(default_factory=dict)
    # Axis -> its values, validated, in the order they were written.
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    zips: Sequence[Sequence[str]] = ()
    exclude: Sequence[str] = ()
    # Points beside the product of the axes: tables of axes that advance together.
    also: Sequence[Mapping[str, Sequence[Any]]] = ()
    description: str = ""
    reference: bool = False
    layers: Sequence[Layer] = ()
    # What was done to it that its author may not expect, for the user to read.
    notes: Sequence[str] = field(default=(), compare=False)

    def where(self, *path: str) -> str:
        """The last layer's spelling of a key, for errors."""
        return _where(self.layers, path)

    def to_toml(self) -> str:
        """The resolved scenario; reads back as an equal one."""
        tree: dict[str, Any] = {"name": self.name, "description": self.description or None, "format": 1}
        tree["reference"] = self.reference or None
        from venturi.fitting import idle

        for name, table in (("target", self.target), ("workload", self.workload), ("run", self.run)):
            # Defaults of options that mean nothing here would only puzzle the reader.
            tree[name] = _spelled(table.model_dump(exclude=idle(self)))
        tree["hosts"] = self.hosts.model_dump(exclude_defaults=True) or None
        tree["places"] = dict(self.places) or None
        matrix: dict[str, Any] = {
            axis: [_spelled({axis: _plain(value)})[axis] for value in values]
            for axis, values in self.axes.items()
        }
        matrix["zip"] = [list(group) for group in self.zips] or None
        matrix["exclude"] = list(self.exclude) or None
        matrix["also"] = [
            {axis: [_spelled({axis: value})[axis] for value in values] for axis, values in points.items()}
            for points in self.also
        ] or None
        tree["matrix"] = matrix if any(value is not None for value in matrix.values()) else None
        return toml_text.dump(tree, "The resolved scenario: defaults, file and flags merged.")


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


def builtin_names() -> list[str]:
    """Names of the scenarios that come with Venturi."""
    return sorted(path.stem for path in (_HERE / "scenarios").glob("*.toml"))


def builtin_text(name: str) -> str:
    """The TOML of a built-in scenario. Raises ScenarioError for an unknown name."""
    if name not in builtin_names():
        known = builtin_names()
        close = difflib.get_close_matches(name, known, n=1)
        raise ScenarioError(
            f"{printable(name)}: no such scenario, neither a file nor built in",
            hint=f"did you mean {close[0]}?" if close else f"built in are: {', '.join(known)}",
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
    new = set(_table(above, "workload")) | set(_table(above, "matrix"))
    new |= set(_table(above, "target")) | set(_table(above, "hosts"))
    if new & set(SIZES):
        new |= set(SIZES)
    if "url" in new or "target" in new or "place" in new or _table(above, "places"):
        new |= {"target", "place"}
    if "url" in _table(above, "target") or "target" in _table(above, "matrix"):
        below.pop("places", None)
    for table, keys in (("workload", SIZES), ("matrix", new - {"zip", "exclude", "also"})):
        if isinstance(below.get(table), dict):
            for key in new & set(keys):
                below[table].pop(key, None)
    matrix = below.get("matrix")
    if isinstance(matrix, dict) and isinstance(matrix.get("zip"), list):
        groups = [_rezipped(group, new, _table(above, "matrix")) for group in matrix["zip"]]
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


def _still_zipped(layers: Sequence[Layer], zips: Sequence[Sequence[str]]) -> list[str]:
    """Which axes of a higher layer advance with others because a lower one zipped them."""
    notes = []
    for number, layer in reversed(list(enumerate(layers))):
        if layer.has(("matrix", "zip")):
            for group in zips:
                if any(above.has(("matrix", axis)) for above in layers[number + 1 :] for axis in group):
                    notes.append(
                        f"{' and '.join(group)} advance together, as {layer.place(('matrix', 'zip'))} says; "
                        "--set matrix.zip=[] makes a product of them"
                    )
            break
    return notes


def _table(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tree.get(name)
    return found if isinstance(found, Mapping) else {}


def load(layers: Sequence[Layer], stored: bool = False) -> Scenario:
    """Merges and validates; `stored`: what a run was made of, to go on with it. Raises ScenarioError for the
    first thing that is wrong."""
    # Each layer by itself first: a typing error is reported where it was made.
    from venturi import aliases

    layers = [aliases.renamed(layer) for layer in layers]
    for layer in layers:
        _check_keys(layer)
        _check_addresses(layer)
    tree = merge(layers)
    tables: dict[str, Any] = {
        name: _validate(layers, name, model, tree.get(name, {})) for name, model in TABLES.items()
    }
    target, workload, run = tables["target"], tables["workload"], tables["run"]
    from venturi import fitting, matrix

    places = _places(layers, _table(tree, "places"))
    axes, zips, exclude, points = matrix.read(layers, dict(_table(tree, "matrix")), places)
    scenario = Scenario(
        name=_top(layers, tree, "name", str, "scenario"),
        description=_top(layers, tree, "description", str, ""),
        reference=_top(layers, tree, "reference", bool, False),
        target=target,
        workload=workload,
        run=run,
        hosts=tables["hosts"],
        places=places,
        axes=axes,
        zips=zips,
        exclude=exclude,
        also=points,
        layers=tuple(layers),
        notes=_still_zipped(layers, zips),
    )
    scenario = fitting.without_strangers(fitting.settled(scenario))
    scenario = _resolve_files(scenario)
    matrix.check(scenario)
    for layer in layers:
        _check_secrets(layer, layer.tree, ())
    return scenario if stored else matrix.with_servers_batches(scenario)


def _check_secrets(layer: Layer, found: Any, path: Path_) -> None:
    """Whether a text of any key, as a description or a statement, has a URL with a password in it."""
    if isinstance(found, Mapping):
        for key, value in found.items():
            _check_secrets(layer, key, path)
            _check_secrets(layer, value, (*path, str(key)))
    elif isinstance(found, list | tuple):
        for value in found:
            _check_secrets(layer, value, path)
    elif isinstance(found, str) and carries_secret(found):
        raise ScenarioError(
            f"{layer.place(path)}: has a password in it, which would be stored with the run",
            hint="ours is told by user and password_env; leave others to the server's own configuration",
        )


def _top(layers: Sequence[Layer], tree: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value = tree.get(key, default)
    if not isinstance(value, kind):
        wanted = {str: "a text", bool: "true or false"}[kind]
        raise ScenarioError(f"{_where(layers, (key,))}: must be {wanted}")
    if key == "name" and isinstance(value, str):
        if not value or "/" in value or value.startswith(".") or not value.isprintable():
            raise ScenarioError(f"{_where(layers, (key,))}: {value!r} cannot be part of a directory's name")
        if len(os.fsencode(value)) > _MOST_NAME:
            raise ScenarioError(
                f"{_where(layers, (key,))}: {len(value)} characters are too many for a part of a directory's "
                f"name; the most are {_MOST_NAME}"
            )
    return value


def _places(layers: Sequence[Layer], table: Mapping[str, Any]) -> dict[str, str]:
    places: dict[str, str] = {}
    for label, url in table.items():
        where = _where(layers, ("places", label))
        if url == "":
            raise ScenarioError(
                f"{where}: no address is given", hint=f"name it: --place {label}=flight://HOST:31337"
            )
        if not isinstance(url, str):
            raise ScenarioError(f"{where}: must be a URL, as in flight://HOST:31337")
        try:
            places[label] = check_url(url)
        except ValueError as error:
            raise ScenarioError(f"{where}: {error}") from None
    return places


def _check_addresses(layer: Layer) -> None:
    """Whether flags or keywords name the addresses in one way."""
    label = next(iter(_table(layer.tree, "places")), None)
    # A resolved scenario, a file or a tree, has both, of which the places count.
    typed = layer.text is None and layer.name != "scenario"
    if typed and label is not None and "url" in _table(layer.tree, "target"):
        one, other = layer.place(("places", label)), layer.place(("target", "url"))
        raise ScenarioError(
            f"{one} and {other}: both say where trials go; keep one of them",
            hint=f"to compare addresses give each a place: {one}=URL --place NAME=URL",
        )


def _check_keys(layer: Layer) -> None:
    if (path := _with_nul(layer.tree)) is not None:
        raise ScenarioError(f"{layer.place(path)}: has a NUL character in it")
    for key, value in layer.tree.items():
        if key not in TOP:
            raise ScenarioError(f"{layer.place((key,))}: unknown key{suggest(key, TOP)}")
        if key in (*TABLES, "places", "matrix") and not isinstance(value, Mapping | None):
            raise ScenarioError(f"{layer.place((key,))}: must be a table, [{key}]")
        for inner in value if key in TABLES and isinstance(value, Mapping) else ():
            if inner not in TABLES[key].model_fields:
                raise ScenarioError(f"{layer.place((key, inner))}: unknown key{suggest(inner, home=key)}")
    version = layer.tree.get("format", 1)
    if not isinstance(version, int) or version > 1:
        raise ScenarioError(
            f"{layer.place(('format',))}: written in format {version}, this Venturi reads 1",
            hint="install a newer Venturi",
        )


def _with_nul(tree: Any) -> Path_ | None:
    """Where a text has a NUL, which no path, URL or name can have."""
    if isinstance(tree, str):
        return () if "\0" in tree else None
    if isinstance(tree, list):
        return next((() for inner in tree if _with_nul(inner) is not None), None)
    for key, inner in tree.items() if isinstance(tree, Mapping) else ():
        below = () if "\0" in str(key) else _with_nul(inner)
        if below is not None:
            return (str(key), *below)
    return None


def suggest(key: str, known: Sequence[str] = (), home: str | None = None) -> str:
    """The end of an "unknown key" error: the right spelling, or the right table."""
    if home is not None:
        for table, model in TABLES.items():
            if key in model.model_fields and table != home:
                return f"; it belongs into [{table}]"
        known = list(TABLES[home].model_fields)
    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"


def _where(layers: Sequence[Layer], path: Sequence[str]) -> str:
    for layer in reversed(layers):
        if layer.has(tuple(path)):
            return layer.place(tuple(path))
    return ".".join(path)


def _validate(layers: Sequence[Layer], name: str, model: type[Table], values: Any) -> Table:
    for key, value in values.items():
        if isinstance(value, list) and name != "run" and key not in LIST_VALUES:
            where = _where(layers, (name, key))
            raise ScenarioError(
                f"{where}: a list of values belongs into [matrix]", hint=f"[matrix] {key} = …"
            )
        if (
            isinstance(value, str)
            and ".." in value
            and key in (*SIZES, "streams", "threads", "rows_per_batch", "in_flight", "working_set", "loaders")
        ):
            where = _where(layers, (name, key))
            raise ScenarioError(f"{where}: a range belongs into [matrix]", hint=f'[matrix] {key} = "{value}"')
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = (name, *(str(part) for part in first["loc"][:1]))
        raise ScenarioError(f"{_where(layers, path)}: {explain(first)}") from None


def validate_value(model: type[Table], key: str, value: Any) -> Any:
    """One value of one key. Raises ValueError with a text for users."""
    if key == "url":
        return check_url(value) if isinstance(value, str) else check_url(str(value))
    try:
        return getattr(model.model_validate({key: value}), key)
    except ValidationError as error:
        raise ValueError(explain(error.errors()[0])) from None


def explain(error: Any) -> str:
    """Pydantic's finding in the words of the scenario's language."""
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    if kind == "value_error":
        return str(context["error"])
    if isinstance(value, Mapping | list):
        # What is in there may be long, or a secret.
        return f"a {'table' if isinstance(value, Mapping) else 'list'} cannot stand there"
    if kind == "literal_error":
        allowed = [part.strip().strip("'") for part in context["expected"].replace(" or ", ",").split(",")]
        close = difflib.get_close_matches(str(value), allowed, n=1)
        end = f"; did you mean {close[0]}?" if close else ""
        return f"{value!r} is not one of {', '.join(allowed)}{end}"
    if kind in ("greater_than_equal", "greater_than", "less_than_equal", "less_than"):
        bound = next(iter(context.values()))
        plain = kind in ("greater_than", "less_than") or isinstance(bound, float)
        limit = f"{bound:g}" if plain else bound
        words = {"g": "at least", "l": "at most"}[kind[0]] if kind.endswith("equal") else "above"
        if isinstance(value, str) and any(c.isalpha() for c in value) and kind == "greater_than_equal":
            # A duration's least is one nanosecond, which nobody means.
            return f"{value} must be above 0"
        return f"{value} must be {words} {limit}" if value is not None else f"must be {words} {limit}"
    if kind in ("bool_type", "bool_parsing"):
        return f"{value!r} is not true or false"
    if kind == "string_type":
        return f"{value!r} is not a text in quotes"
    text = str(error["msg"])
    return f"{value!r}: {text[:1].lower()}{text[1:]}"


def _resolve_files(scenario: Scenario) -> Scenario:
    """Makes paths absolute, so that the stored scenario can be run from anywhere."""

    def resolve(data: Any) -> Any:
        if not isinstance(data, FileData):
            return data
        if data.path.startswith("builtin:"):
            if data.path not in BUILTIN_DATA:
                raise ScenarioError(
                    f"{scenario.where('workload', 'data')}: no built-in data is called {data.path}",
                    hint=f"built in are: {', '.join(BUILTIN_DATA)}",
                )
            return data
        folder = Path.cwd()
        for layer in scenario.layers:
            if layer.folder is not None and (
                layer.has(("workload", "data")) or layer.has(("matrix", "data"))
            ):
                folder = layer.folder
            elif layer.has(("workload", "data")) or layer.has(("matrix", "data")):
                folder = Path.cwd()
        return FileData(source=data.source, path=str((folder / Path(data.path).expanduser()).resolve()))

    axes = dict(scenario.axes)
    if "data" in axes:
        axes["data"] = [resolve(value) for value in axes["data"]]
    workload = scenario.workload.model_copy(update={"data": resolve(scenario.workload.data)})
    return replace(scenario, workload=workload, axes=axes)
