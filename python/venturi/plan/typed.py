"""What was typed behind `venturi run`, as a scenario.

Values are passed on as they were typed and read by the same code as a file's, so that
"10M", "1..8" and "1,2,4" mean the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from venturi.common import toml_text
from venturi.common.errors import VenturiError
from venturi.plan.layers import Layer, file_layer
from venturi.plan.load import load
from venturi.plan.scenario import Scenario
from venturi.targets.parameters import SETTINGS
from venturi.targets.setting import Known
from venturi.targets.urls import printable

__all__ = ["layer_tree", "only_target", "scenario_of"]


def scenario_of(given: Mapping[str, Any]) -> Scenario:
    """The scenario that the flags, and the file before them, describe. Raises VenturiError."""
    return load(_layers(given))


def _layers(given: Mapping[str, Any]) -> list[Layer]:
    tree, spelled = layer_tree(given)
    if given.get("reference") is not None:
        tree["reference"] = given["reference"]
    layers = [file_layer(given["scenario"])] if given.get("scenario") else []
    if not layers:
        tree.setdefault("name", "flags")
        if not set(tree) - {"name", "reference"}:
            raise VenturiError(
                "nothing to run: name a scenario or describe one by flags", hint="venturi run quick"
            )
    return [*layers, Layer("", tree, flags=spelled)]


def only_target(given: Mapping[str, Any]) -> bool:
    """Whether it says where to measure, how to log in there, and perhaps how often, but not what."""
    tree, spelled = layer_tree(given)
    typed = spelled.get(("target", "url")) == "--target"
    login = {it.key for it in SETTINGS if it.table == "target" and it.credential}
    alone = set(tree) <= {"target", "run", "hosts"} and set(tree.get("target", ())) - login == {"url"}
    return not given.get("scenario") and typed and alone


def layer_tree(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[tuple[str, ...], str]]:
    """The tree of a scenario layer, and how each key was spelled on the command line."""
    tree: dict[str, Any] = {}
    spelled: dict[tuple[str, ...], str] = {}
    for it in SETTINGS:
        value = given.get(it.keyword)
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
    for text in given.get("place") or ():
        label, url = _pair("--place", text)
        tree.setdefault("places", {})[label] = url
        spelled["places", label] = f"--place {label}"
    for text in given.get("set") or ():
        _set(tree, spelled, text)
    return tree, spelled


def _several(it: Known, value: Any) -> Any:
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
