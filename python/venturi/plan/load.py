"""Layers -> scenario."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.axes import read
from venturi.plan.layers import Layer, merge, place_in, table_of
from venturi.plan.rules import link, options
from venturi.plan.scenario import MOST_NAME, Scenario, check_addresses, check_secrets, still_zipped
from venturi.plan.values import TABLES, check_keys, validate
from venturi.plan.workload import FileData
from venturi.targets.urls import check_url

__all__ = ["BUILTIN_DATA", "load"]

BUILTIN_DATA = {"builtin:birdstrikes": "birdstrikes.parquet"}


def load(layers: Sequence[Layer], stored: bool = False) -> Scenario:
    """Merges and validates; `stored`: what a run was made of, to go on with it. Raises ScenarioError for the
    first thing that is wrong."""
    # Each layer by itself first: a typing error is reported where it was made.
    from venturi.plan import aliases

    layers = [aliases.renamed(layer) for layer in layers]
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
    axes, zips, exclude, points = read(layers, dict(table_of(tree, "matrix")), places)
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
