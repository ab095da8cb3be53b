"""Scenarios from layers, from a command line and for a search, and back to TOML.

What was typed behind `venturi run`, as a scenario.

Values are passed on as they were typed and read by the same code as a file's, so that
"10M", "1..8" and "1,2,4" mean the same everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from venturi.common import toml_text
from venturi.common.environment import usable_cores
from venturi.common.errors import ScenarioError, VenturiError
from venturi.common.suffixes import spell_duration, spell_time
from venturi.inputs.files import BUILTIN_DATA
from venturi.plan.layers import Layer, file_layer, merge, place_in, resolve_aliases, table_of
from venturi.plan.rules import link, options
from venturi.plan.rules.options import READING, idle
from venturi.plan.rules.systems import names_something
from venturi.plan.scenario import MOST_NAME, Scenario, check_addresses, check_secrets, still_zipped
from venturi.plan.validation import TABLES, check_keys, read_axes, validate
from venturi.plan.workload import SIZES, FileData
from venturi.targets.parameters import SETTINGS
from venturi.targets.setting import SettingRecord
from venturi.targets.system import is_charrow, is_database
from venturi.targets.urls import check_url, printable


def load(layers: Sequence[Layer], stored: bool = False) -> Scenario:
    """Merges and validates; `stored`: what a run was made of, to go on with it. Raises ScenarioError for the
    first thing that is wrong."""
    # Each layer by itself first: a typing error is reported where it was made.
    layers = [resolve_aliases(layer) for layer in layers]
    for layer in layers:
        check_keys(layer)
        check_addresses(layer)
    tree = merge(layers)
    tables: dict[str, Any] = {
        name: validate(layers, name, model, tree.get(name, {})) for name, model in TABLES.items()
    }
    target, workload, run = tables["target"], tables["workload"], tables["run"]
    from venturi.plan import matrix

    places = _places(layers, table_of(tree, "places"))
    axes, zips, exclude, points = read_axes(layers, dict(table_of(tree, "matrix")), places)
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
        notes=still_zipped(layers, zips),
    )
    scenario = options.without_inapplicable(options.apply_defaults(scenario))
    scenario = link.resolve_links(_resolve_files(scenario))
    cells = matrix.check(scenario)
    for layer in layers:
        check_secrets(layer, layer.tree, ())
    return scenario if stored else matrix.with_servers_batches(scenario, cells)


def _top(layers: Sequence[Layer], tree: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value = tree.get(key, default)
    if not isinstance(value, kind):
        wanted = {str: "a text", bool: "true or false"}[kind]
        raise ScenarioError(f"{place_in(layers, (key,))}: must be {wanted}")
    if key == "name" and isinstance(value, str):
        if not value or "/" in value or value.startswith(".") or not value.isprintable():
            raise ScenarioError(f"{place_in(layers, (key,))}: {value!r} cannot be part of a directory's name")
        if len(os.fsencode(value)) > MOST_NAME:
            raise ScenarioError(
                f"{place_in(layers, (key,))}: {len(value)} characters are too many for a part of a "
                f"directory's name; the most are {MOST_NAME}"
            )
    return value


def _places(layers: Sequence[Layer], table: Mapping[str, Any]) -> dict[str, str]:
    places: dict[str, str] = {}
    for label, url in table.items():
        where = place_in(layers, ("places", label))
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


def _resolve_files(scenario: Scenario) -> Scenario:
    """Makes paths absolute, so that the stored scenario can be run from anywhere."""

    def resolve(data: Any) -> Any:
        if not isinstance(data, FileData):
            return data
        if data.path.startswith("builtin:"):
            if data.path not in BUILTIN_DATA:
                raise scenario.wrong(
                    f"data: no built-in data is called {data.path}",
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


def scenario_of(flags: Mapping[str, Any]) -> Scenario:
    """The scenario that the flags, and the file before them, describe. Raises VenturiError."""
    return load(_layers(flags))


def _layers(flags: Mapping[str, Any]) -> list[Layer]:
    tree, spelled = layer_tree(flags)
    if flags.get("reference") is not None:
        tree["reference"] = flags["reference"]
    layers = [file_layer(flags["scenario"])] if flags.get("scenario") else []
    if not layers:
        tree.setdefault("name", "flags")
        if not set(tree) - {"name", "reference"}:
            raise VenturiError(
                "nothing to run: name a scenario or describe one by flags", hint="venturi run quick"
            )
    return [*layers, Layer("", tree, flags=spelled)]


def only_target(flags: Mapping[str, Any]) -> bool:
    """Whether it says where to measure, how to log in there, and perhaps how often, but not what."""
    tree, spelled = layer_tree(flags)
    typed = spelled.get(("target", "url")) == "--target"
    login = {it.key for it in SETTINGS if it.table == "target" and it.credential}
    alone = set(tree) <= {"target", "run", "hosts"} and set(tree.get("target", ())) - login == {"url"}
    return not flags.get("scenario") and typed and alone


def layer_tree(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[tuple[str, ...], str]]:
    """The tree of a scenario layer, and how each key was spelled on the command line."""
    tree: dict[str, Any] = {}
    spelled: dict[tuple[str, ...], str] = {}
    for it in SETTINGS:
        value = flags.get(it.keyword)
        if value is None or value == [] or not it.table:
            continue
        flag = f"--no-{it.flag[2:]}" if value is False else it.flag
        several = _several(it, value)
        place = (it.table, it.key) if several is None else ("matrix", "target" if it.key == "url" else it.key)
        if it.form == "pairs":
            value = dict(_pair(flag, text) for text in value)
        elif it.form == "repeated" and it.commas == "axis" and len(value) == 1:
            (value,) = value
        tree.setdefault(place[0], {})[place[1]] = value if several is None else several
        spelled[place] = flag
    for text in flags.get("place") or ():
        label, url = _pair("--place", text)
        tree.setdefault("places", {})[label] = url
        spelled["places", label] = f"--place {label}"
    for text in flags.get("set") or ():
        _set(tree, spelled, text)
    return tree, spelled


def _several(it: SettingRecord, value: Any) -> Any:
    """The values of an axis where a flag holds more than one; None where it holds one."""
    if isinstance(value, list):
        return value if it.form == "repeated" and it.commas == "axis" and len(value) > 1 else None
    if not isinstance(value, str) or it.table == "run":
        return None
    if it.key == "values" and set(value.split(",")) <= {"random", "sequential"}:
        return value.split(",") if "," in value else None
    if it.commas != "axis":
        return None
    if "," in value:
        return [part for text in value.split(",") if (part := text.strip())]
    return [value] if ".." in value and "/" not in value else None


def _pair(flag: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    # A URL alone may have an = as well, behind which there may be a secret.
    if not equals or not name.strip() or (flag == "--place" and re.search("[:/?#@]", name)):
        form = "LABEL=URL" if flag == "--place" else "NAME=VALUE"
        # What was meant for a header may be a secret, which does not belong on a screen.
        shown = "" if flag.startswith("--header") else f" {printable(text)}"
        raise VenturiError(f"{flag}{shown}: must be written {form}")
    return name.strip(), value.strip()


def _set(tree: dict[str, Any], spelled: dict[tuple[str, ...], str], text: str) -> None:
    name, value_text = _pair("--set", text)
    path = tuple(part.strip() for part in name.split("."))
    if len(path) == 1 and path[0] not in ("name", "description", "reference"):
        raise VenturiError(f"--set {name}: name the table too, as workload.{path[0]} or matrix.{path[0]}")
    found = tree
    for part in path[:-1]:
        inner = found.setdefault(part, {})
        if not isinstance(inner, dict):
            raise VenturiError(f"--set {name}: {part} is not a table")
        found = inner
    found[path[-1]] = toml_text.parse_value(value_text)
    spelled[path] = f"--set {name}"


DEFAULT_DURATION = "1s"
"""Of a trial where no amount is given: a search wants many short trials."""
_MESSAGES = [1024, 4096, 16384, 65536, 262144]
_UPSERTS = [1, 10, 100, 1000, 10_000]
"""Rows a batch that are searched where none are named."""


def tune_defaults(tree: Mapping[str, Any], codecs: Sequence[str] = ()) -> Layer:
    """What is searched at a URL if nothing is set: streams up to twice the cores, or the next power of two,
    batch sizes, and these codecs beside none."""
    target, workload, matrix = (tree.get(name, {}) for name in ("target", "workload", "matrix"))
    url, keys = str(target.get("url", "")), {*workload, *matrix}
    base: dict[str, Any] = {"name": "tune", "workload": {}, "matrix": {}}
    if not keys.intersection(SIZES):
        base["workload"]["duration"] = DEFAULT_DURATION
    if matrix:
        return Layer("the defaults of tune", base)
    powers = [1 << k for k in range(max(2, (2 * usable_cores() - 1).bit_length()) + 1)]
    if "streams" not in keys:
        base["matrix"]["streams"] = powers
    if is_charrow(url):
        base["matrix"] |= {"encoders": powers, "decoders": [1, 2]}
    # Of the server's own table, batches are as it sends them.
    elif "rows_per_batch" not in keys and not (
        names_something(url) and workload.get("operation", "get") == "get"
    ):
        reads = workload.get("operation") == "get" or READING.intersection(target)
        base["matrix"]["rows_per_batch"] = _UPSERTS if is_database(url) and not reads else _MESSAGES
    if codecs:
        base["matrix"]["compression"] = ["none", *codecs]
    return Layer("the defaults of tune", base)
