"""The names, values and axes that a scenario may have, and the errors about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from venturi.common.errors import ScenarioError
from venturi.common.links import LINK_SETTINGS
from venturi.common.suffixes import parse_range
from venturi.common.texts import meant
from venturi.plan.layers import Layer, Points, place_in
from venturi.plan.scenario import with_nul
from venturi.plan.settings import Hosts, Run, Target
from venturi.plan.workload import Workload
from venturi.targets.fields import Table, setting_of
from venturi.targets.urls import check_url

TABLES: dict[str, type[Table]] = {"target": Target, "workload": Workload, "hosts": Hosts, "run": Run}
TOP = ["name", "description", "format", "reference", "target", "places", "workload", "hosts", "matrix", "run"]
# `place` and `target` choose the address; every other axis is a key of [workload] or [target].
ADDRESS_AXES = ("place", "target")
_SETTINGS = {
    key: setting_of(field)
    for table in ("workload", "target", "hosts")
    for key, field in TABLES[table].model_fields.items()
}
LIST_VALUES = frozenset(key for key, it in _SETTINGS.items() if it.commas == "list" or it.kind is dict)
"""Keys whose value is a list, where others want an axis."""
COUNTS = frozenset(key for key, it in _SETTINGS.items() if it.kind in (int, float))
"""Keys whose value is a number, so that several of them may be a range."""


def check_keys(layer: Layer) -> None:
    if (path := with_nul(layer.tree)) is not None:
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


def suggest(key: str, names: Sequence[str] = (), home: str | None = None) -> str:
    """The end of an "unknown key" error: the right spelling, or the right table."""
    if home is not None:
        for table, model in TABLES.items():
            if key in model.model_fields and table != home:
                return f"; it belongs into [{table}]"
        names = list(TABLES[home].model_fields)
    return "; " + meant(key, names, f"known: {', '.join(names)}")


def validate(layers: Sequence[Layer], name: str, model: type[Table], values: Any) -> Table:
    for key, value in values.items():
        if isinstance(value, list) and name != "run" and key not in LIST_VALUES:
            where = place_in(layers, (name, key))
            raise ScenarioError(
                f"{where}: a list of values belongs into [matrix]", hint=f"[matrix] {key} = …"
            )
        if isinstance(value, str) and ".." in value and key in COUNTS and name != "run":
            where = place_in(layers, (name, key))
            raise ScenarioError(f"{where}: a range belongs into [matrix]", hint=f'[matrix] {key} = "{value}"')
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = (name, *(str(part) for part in first["loc"][:1]))
        raise ScenarioError(f"{place_in(layers, path)}: {explain(first)}") from None


def validate_value(model: type[Table], key: str, value: Any) -> Any:
    """One value of one key. Raises ValueError with a text for users."""
    if key == "url":
        return check_url(str(value))
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
        close = meant(str(value), allowed)
        return f"{value!r} is not one of {', '.join(allowed)}{f'; {close}' if close else ''}"
    if kind in ("greater_than_equal", "greater_than", "less_than_equal", "less_than"):
        bound = next(iter(context.values()))
        plain = kind in ("greater_than", "less_than") or isinstance(bound, float)
        limit = f"{bound:g}" if plain else bound
        words = {"g": "at least", "l": "at most"}[kind[0]] if kind.endswith("equal") else "above"
        written = isinstance(value, str) and any(c.isalpha() for c in value)
        if written and kind == "greater_than_equal" and bound <= 1:
            # A duration's least is one nanosecond, which nobody means.
            return f"{value} must be above 0"
        return f"{value} must be {words} {limit}" if value is not None else f"must be {words} {limit}"
    if kind in ("bool_type", "bool_parsing"):
        return f"{value!r} is not true or false"
    if kind == "string_type":
        return f"{value!r} is not a text in quotes"
    text = str(error["msg"])
    return f"{value!r}: {text[:1].lower()}{text[1:]}"


Axes = dict[str, list[Any]]


def read_axes(
    layers: Sequence[Layer], table: dict[str, Any], places: Mapping[str, str]
) -> tuple[Axes, list[list[str]], list[str], list[Points]]:
    """The table [matrix]: axes with validated values, zipped groups, conditions to exclude by, and points
    beside the axes."""

    def wrong(key: str, text: str, hint: str | None = None) -> ScenarioError:
        return ScenarioError(f"{place_in(layers, ('matrix', key))}: {text}", hint)

    zips, exclude, more = (table.pop(key, []) for key in ("zip", "exclude", "also"))
    axes: Axes = {}
    names = [*Workload.model_fields, *Target.model_fields, *ADDRESS_AXES, "loaders", *LINK_SETTINGS]
    for axis, values in table.items():
        name = "target" if axis == "url" else axis
        if axis in Run.model_fields and axis not in names:
            raise wrong(axis, "belongs into [run], it is the same for all cells")
        if axis not in names or axis in ("headers", "header_env", "driver_option_env"):
            raise wrong(axis, f"unknown key{suggest(axis, [*names, 'zip', 'exclude', 'also'])}")
        try:
            found = [_valid(name, value, places) for value in _spread(name, values)]
        except ValueError as error:
            raise wrong(axis, str(error)) from None
        # Twice the same is one cell; in a zipped axis it is a partner for another value.
        zipped = isinstance(zips, list) and any(axis in group for group in zips if isinstance(group, list))
        axes[name] = found if zipped else [v for i, v in enumerate(found) if v not in found[:i]]
        if not found:
            raise wrong(axis, "has no values")
    if "target" in axes and (places or "place" in axes):
        raise wrong("target", "addresses come from [places] already; use one of the two")
    if places and "place" not in axes:
        axes = {"place": list(places), **axes}
    if not isinstance(exclude, list) or not all(isinstance(text, str) for text in exclude):
        raise wrong("exclude", "must be a list of conditions in quotes")
    if not isinstance(zips, list) or not all(
        isinstance(group, list) and all(isinstance(axis, str) for axis in group) for group in zips
    ):
        raise wrong("zip", 'must be a list of lists of axes, as in [["streams", "rows_per_stream"]]')

    numbers = [axis for axis in axes if axis in COUNTS]
    return axes, _zips(zips, axes, wrong), exclude, _extra_points(more, numbers, places, wrong)


def _extra_points(
    tables: Any, axes: Sequence[str], places: Mapping[str, str], wrong: Callable[[str, str], ScenarioError]
) -> list[Points]:
    """The tables of `also` with validated values."""
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) and table for table in tables):
        raise wrong(
            "also", "must be a list of tables, as in [{ streams = [1, 2], rows_per_stream = [8, 4] }]"
        )
    found: list[Points] = []
    for table in tables:
        points = {}
        for axis, values in table.items():
            if axis not in axes:
                raise wrong("also", f"no axis of numbers is called {axis!r}; there are: {', '.join(axes)}")
            try:
                points[axis] = [_valid(axis, value, places) for value in _spread(axis, values)]
            except ValueError as error:
                raise wrong("also", f"{axis}: {error}") from None
        if len({len(values) for values in points.values()}) > 1:
            spelled = ", ".join(f"{axis} has {len(values)}" for axis, values in points.items())
            raise wrong("also", f"axes of a table advance together; {spelled} values")
        found.append(points)
    return found


def _zips(zips: list[Any], axes: Axes, wrong: Any) -> list[list[str]]:
    seen: set[str] = set()
    for group in zips:
        for axis in group:
            if axis not in axes:
                raise wrong("zip", f"no axis is called {axis!r}; axes are: {', '.join(axes) or 'none'}")
            if axis in seen:
                raise wrong("zip", f"{axis} is zipped twice")
            seen.add(axis)
        lengths = {axis: len(axes[axis]) for axis in group}
        if len(set(lengths.values())) > 1:
            spelled = ", ".join(f"{axis} has {length}" for axis, length in lengths.items())
            raise wrong(
                "zip",
                f"zipped axes must be of one length; {spelled} values",
                hint="give each as many, or make a product of them: --set matrix.zip=[]",
            )
    return [list(group) for group in zips]


def _spread(axis: str, values: Any) -> list[Any]:
    """Lists, ranges, lists with ranges in them, or a single value."""
    spread: list[Any] = []
    single = axis == "pin" and isinstance(values, list) and all(isinstance(value, int) for value in values)
    for value in values if isinstance(values, list) and not single else [values]:
        if axis in COUNTS and isinstance(value, str) and ".." in value:
            spread += parse_range(value)
        else:
            spread.append(value)
    return spread


def _valid(axis: str, value: Any, places: Mapping[str, str]) -> Any:

    if axis == "place":
        if value not in places:
            raise ValueError(f"no place is called {value!r}; [places] has: {', '.join(places) or 'nothing'}")
        return value
    if axis == "target":
        return check_url(str(value))
    tables = ("workload", "hosts", "target")
    return validate_value(next(TABLES[it] for it in tables if axis in TABLES[it].model_fields), axis, value)
