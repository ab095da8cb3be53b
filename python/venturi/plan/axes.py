"""The axes of a scenario's matrix: read, and checked value by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from venturi.common.errors import ScenarioError
from venturi.common.links import LINK_SETTINGS
from venturi.common.suffixes import parse_range
from venturi.plan import also
from venturi.plan.layers import place_in
from venturi.plan.settings import Hosts, Run, Target
from venturi.plan.values import ADDRESS_AXES, COUNTS, suggest, validate_value
from venturi.plan.workload import Workload
from venturi.targets.urls import check_url

if TYPE_CHECKING:
    from venturi.plan.layers import Layer

__all__ = ["read"]

Axes = dict[str, list[Any]]


def read(
    layers: Sequence[Layer], table: dict[str, Any], places: Mapping[str, str]
) -> tuple[Axes, list[list[str]], list[str], list[also.Points]]:
    """The table [matrix]: axes with validated values, zipped groups, conditions to exclude by, and points
    beside the axes."""

    def wrong(key: str, text: str, hint: str | None = None) -> ScenarioError:
        return ScenarioError(f"{place_in(layers, ('matrix', key))}: {text}", hint)

    zips, exclude, more = (table.pop(key, []) for key in ("zip", "exclude", "also"))
    axes: Axes = {}
    known = [*Workload.model_fields, *Target.model_fields, *ADDRESS_AXES, "loaders", *LINK_SETTINGS]
    for axis, values in table.items():
        name = "target" if axis == "url" else axis
        if axis in Run.model_fields and axis not in known:
            raise wrong(axis, "belongs into [run], it is the same for all cells")
        if axis not in known or axis in ("headers", "header_env", "driver_option_env"):
            raise wrong(axis, f"unknown key{suggest(axis, [*known, 'zip', 'exclude', 'also'])}")
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

    def valid(axis: str, values: Any) -> list[Any]:
        try:
            return [_valid(axis, value, places) for value in _spread(axis, values)]
        except ValueError as error:
            raise wrong("also", f"{axis}: {error}") from None

    numbers = [axis for axis in axes if axis in COUNTS]
    return axes, _zips(zips, axes, wrong), exclude, also.read(more, numbers, valid, wrong)


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
        return check_url(value) if isinstance(value, str) else check_url(str(value))
    models: tuple[type[Workload], type[Hosts], type[Target]] = (Workload, Hosts, Target)
    model = next(model for model in models if axis in model.model_fields)
    return validate_value(model, axis, value)
