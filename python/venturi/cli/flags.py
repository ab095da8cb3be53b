"""The flags of scenario settings, and their translation into the topmost layer of a scenario.

Values are passed on as they were typed and read by the same code as a file's, so that
"10M", "1..8" and "1,2,4" mean the same everywhere.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from venturi.common import toml_text
from venturi.common.credentials import without_passwords
from venturi.common.errors import VenturiError
from venturi.targets.parameters import SETTINGS
from venturi.targets.setting import Known
from venturi.targets.urls import printable

__all__ = ["CREDENTIALS", "command_line", "layer_tree", "settings"]

CREDENTIALS = tuple(it.keyword for it in SETTINGS if it.credential)
"""Flags by which a server is trusted and logged in to."""


def settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command these flags, all there are where none is named; it has them in a mapping, `settings`,
    with None for what was not typed."""
    known = {it.keyword: it for it in SETTINGS if it.flag}
    chosen = [known[name] for name in names] if names else list(known.values())

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [it for it in signature.parameters.values() if it.name != "settings"]

        @functools.wraps(command)
        def called(**given: Any) -> None:
            found = {it.keyword: given.pop(it.keyword) for it in chosen}
            command(**given, settings=found)

        called.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *map(_parameter, chosen)]
        )
        called.__annotations__ = {it.name: it.annotation for it in called.__signature__.parameters.values()}  # type: ignore[attr-defined]
        return called

    return decorated


def _parameter(it: Known) -> inspect.Parameter:
    """A setting as typer has parameters of a command."""
    names = [it.flag] if it.kind != "bool" else [f"{it.flag}/--no-{it.flag[2:]}"]
    names += [it.alias] if it.alias is not None else []
    kind: Any = bool if it.kind == "bool" else str if it.form == "once" else list[str]
    option = typer.Option(None, *names, help=it.help, rich_help_panel=it.panel, show_default=False)
    return inspect.Parameter(
        it.keyword, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None
    )


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


def command_line(argv: Sequence[str]) -> list[str]:
    """What was typed, to be stored with the run: without the values of headers, and without passwords. What
    only looks like a secret stays, as a header's variable or a comparison in a query: of these words advice
    makes the next command."""
    words = ["venturi"]
    masked = False
    for word in argv[1:]:
        flag, equals, text = word.partition("=")
        if flag == "--set" and equals:
            flag, equals, text = text.partition("=")
        if masked:
            word = _masked(word)
        elif flag == "--header" and equals:
            word = f"{flag}={_masked(text)}"
        elif flag.replace(" ", "") == "target.headers" or flag.startswith("target.headers."):
            word = f"{word.removesuffix(text)}***"
        masked = word == "--header"
        words.append(without_passwords(word))
    return words


def _masked(pair: str) -> str:
    name, equals, _ = pair.partition("=")
    return f"{name}=***" if equals else "***"


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
