"""Which options a cell of a system may have, and what it measures where its scenario does not say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from venturi.plan.scenario import Wrong
from venturi.plan.settings import Target, usual
from venturi.plan.workload import SIZES, Workload
from venturi.targets.options import APPLIES, DEFAULTS, ONLY_HERE, PARAMETERS, SETTINGS, VALUES
from venturi.targets.system import (
    PLUGINS,
    is_database,
    is_driver,
    is_ours,
    is_program,
    is_readable,
    is_time_series,
    scheme_of,
)

if TYPE_CHECKING:
    from venturi.plan.scenario import Scenario


def addresses(scenario: Scenario) -> list[str]:
    if "place" in scenario.axes:
        return [scenario.places[place] for place in scenario.axes["place"]]
    return list(scenario.axes.get("target", [scenario.target.url]))


def without_inapplicable(scenario: Scenario) -> Scenario:
    """Without the scenario's options that mean nothing at the address that was named over it.

    Options that came with the address, or after it, stay: they are mistakes, and are named as such.
    """

    def set_before(name: str) -> bool:
        return set_with_address(scenario, "target", name) is False

    changed = set(scenario.target.changed()) | {name for name in scenario.axes if name in APPLIES}
    dropped = [n for n in APPLIES if n in changed and set_before(n) and not _means_something(scenario, n)]
    if not dropped:
        return scenario
    axes = {axis: values for axis, values in scenario.axes.items() if axis not in dropped}
    zips = [[axis for axis in group if axis not in dropped] for group in scenario.zips]
    defaults = Target()
    return replace(
        scenario,
        target=scenario.target.model_copy(update={name: getattr(defaults, name) for name in dropped}),
        axes=axes,
        zips=[group for group in zips if len(group) > 1],
        notes=(
            *scenario.notes,
            f"left out, as it means nothing to {_schemes(scenario)}: {', '.join(dropped)}",
        ),
    )


def set_with_address(scenario: Scenario, table: str, name: str) -> bool | None:
    """Whether a key, or its axis, was given by the layer that names the address or a later one; None: by
    none."""
    layers = scenario.layers
    paths = (("target", "url"), ("matrix", "target"), ("matrix", "place"), ("places",))
    address = max((n for n, layer in enumerate(layers) if any(map(layer.has, paths))), default=0)
    found = [n for n, x in enumerate(layers) if x.has((table, name)) or x.has(("matrix", name))]
    return found[-1] >= address if found else None


def _schemes(scenario: Scenario) -> str:
    return " and ".join(dict.fromkeys(f"{scheme_of(url)}://" for url in addresses(scenario)))


def _means_something(scenario: Scenario, name: str) -> bool:
    """Whether any of the option's values is known at any of the addresses."""
    values = [v for v in scenario.axes.get(name, [getattr(scenario.target, name)]) if v is not None]
    return name not in _inapplicable(scenario) and any(
        not _unknown(name, value, url) for url in addresses(scenario) for value in values
    )


def _unknown(name: str, value: Any, url: str) -> tuple[str, ...]:
    """The values that the option has there, where this is none of them."""
    choices = VALUES.get((name, scheme_of(url)), ())
    return choices if choices and str(value).partition(":")[0] not in choices else ()


def belongs_to_other_target(scenario: Scenario, chosen: Mapping[str, Any], url: str) -> bool:
    """Whether one of these values of axes is unknown to this address and known to another: of an axis each
    address has the values that it knows. Where it knows none, that is a mistake."""

    def takes(name: str, value: Any, at: str) -> bool:
        return scheme_of(at) in APPLIES[name] and (value is None or not _unknown(name, value, at))

    def is_left_out(name: str, value: Any) -> bool:
        applying = any(takes(name, other, url) for other in scenario.axes.get(name, ()))
        return applying and any(takes(name, value, other) for other in addresses(scenario))

    options = {name: value for name, value in chosen.items() if name in APPLIES and value is not None}
    return any(_unknown(name, value, url) and is_left_out(name, value) for name, value in options.items())


def idle(scenario: Scenario) -> set[str]:
    """Options that are at their default and mean nothing anywhere in the scenario."""
    urls = addresses(scenario)
    operations = scenario.axes.get("operation", [scenario.workload.operation])
    changed = scenario.target.changed()
    return {
        n for n in APPLIES if n not in changed and not any(applies(n, u, o) for u in urls for o in operations)
    }


def _inapplicable(scenario: Scenario) -> list[str]:
    """Options that are given and mean nothing anywhere in the scenario."""
    changed = set(scenario.target.changed()) | {name for name in scenario.axes if name in APPLIES}
    urls = addresses(scenario)
    operations = scenario.axes.get("operation", [scenario.workload.operation])
    return [
        n for n in APPLIES if n in changed and not any(applies(n, u, o) for u in urls for o in operations)
    ]


def applies(name: str, url: str, operation: str) -> bool:
    """Whether an option means something there."""
    return name in _applying((name,), url, operation)


def _applying(names: Iterable[str], url: str, operation: str) -> set[str]:
    """The options among these that mean something there."""
    scheme = scheme_of(url)
    if scheme == "empty":
        # Where nothing is sent, settings of the way mean nothing, but disturb nobody.
        if operation == "ingest":
            return {*names} & {"dialect", "messages", "digits"}
        return {name for name in names if (name == "dialect") == (operation == "upsert")}
    ours, database = is_ours(url), is_database(url)

    def applies_to_scheme(name: str) -> bool:
        if scheme not in APPLIES[name] or (name in ONLY_HERE and not ours):
            return False
        # A database may have the option for other operations than this one.
        having = SETTINGS[name].operations if database else ()
        return not having or operation in having

    return {name for name in names if applies_to_scheme(name)}


def fitted(target: Target, url: str, operation: str) -> Target:
    """The target of one cell: its own address, and no option that means nothing there."""
    defaults, applying = usual(Target), _applying(APPLIES, url, operation)
    update = {name: defaults[name] for name in APPLIES if name not in applying}
    return target.model_copy(update={**update, "url": url})


def option_parameters(target: Target, operation: str) -> dict[str, Any]:
    """The parameters of a cell that are options: what is in force, null where it means nothing."""
    usual = DEFAULTS.get(scheme_of(target.url), {})
    if operation == "ingest" and scheme_of(target.url) == "empty":
        usual = {**DEFAULTS["akumuli"], "dialect": "akumuli"}

    applying = _applying(PARAMETERS, target.url, operation)

    def value(name: str) -> Any:
        if name not in applying:
            return None
        found = getattr(target, name)
        if name == "digits":
            # 17, or a word; nothing where nothing is written.
            return str(found or usual[name]) if found or name in usual else None
        if name == "durable":
            return found or "os"
        if name == "encoders":
            # As many as the server says it has CPUs, which nobody knows before.
            return found if isinstance(found, int) else None
        return usual.get(name) if found is None or found == [] else found

    plugin_keys = {key for plugin in PLUGINS.values() for key in plugin.settings}
    return {n: value(n) for n in PARAMETERS if n not in plugin_keys or n in applying}


def with_article(operation: str) -> str:
    return f"{'an' if operation[0] in 'aeiou' else 'a'} {operation}"


def check_options(scenario: Scenario) -> None:
    """Whether every option means something somewhere in the scenario. Raises ScenarioError."""
    for name in _inapplicable(scenario):
        if name in ONLY_HERE and any(map(is_time_series, addresses(scenario))):
            flag = "threads" if name == "pool" else name
            raise scenario.wrong(
                f"{name}: is of a store that is started for the run, and {addresses(scenario)[0]} is there "
                "already",
                f"start one so: venturi serve timeseries --data DIR --{flag} ..., or use akumuli://local",
            )
        having = SETTINGS[name].operations
        if any(scheme_of(url) in APPLIES[name] for url in addresses(scenario)) and having:
            raise scenario.wrong(
                f"{name}: is for {' and '.join(f'{it}s' for it in having)}, and this is "
                f"{with_article(scenario.workload.operation)}",
                f"leave it out, or the operation is another: --operation {next(iter(having))}",
            )
        raise scenario.wrong(
            f"{name}: {_schemes(scenario)} has no option {name}",
            f"it belongs to {', '.join(f'{s}://' for s in sorted(APPLIES[name]))}",
        )


_TOKENS = "its rows lie by ranges of tokens: --split parts, or --split none: each reads all"
_SPLIT_HINTS = {
    ("flightsql", "parts"): "the streams share a result's endpoints where --split is left out; or share the "
    "rows: --split hash --split-by COLUMN",
    ("mysql", "parts"): "its tables do not say where rows lie: --split key --split-by COLUMN, or "
    "--split hash --split-by COLUMN",
    ("cassandra", "hash"): _TOKENS,
    ("cassandra", "key"): _TOKENS,
}
"""Why a system has no such way to share rows, and what to do."""


def check_values(target: Target, wrong: Wrong) -> None:
    """Values of an option that this system does not know, though another does."""
    scheme = scheme_of(target.url)
    for name in dict.fromkeys(name for name, _ in VALUES):
        value = getattr(target, name)
        choices = _unknown(name, value, target.url) if value is not None else ()
        if choices:
            raise wrong(
                f"{name}: {scheme}:// has no {name} {value}; it has {', '.join(choices)}",
                _SPLIT_HINTS.get((scheme, value)) if name == "split" else None,
            )


LINK_NS = 5_000_000_000
"""How long a trial over a link lasts where nothing says how much: nine round trips by a satellite."""
UPSERT_NS = 10_000_000_000
"""How long a trial of upserts lasts where nothing says how much."""
_UPSERT_BATCH = 500
READING = {"page_size", "query", "split", "split_by", "wire_format"}
"""Options of a database that only a get has."""
_INGEST_BATCH = 5000
_DRIVER_BATCH = 65_536
"""Rows that are asked of a driver at a time: the way to its thread and back shall cost little."""


def apply_defaults(scenario: Scenario) -> Scenario:
    """Defaults that depend on where rows go: databases take upserts, and an upsert has rows with a key."""
    workload, axes = scenario.workload, scenario.axes
    update: dict[str, Any] = {}

    def open_(key: str) -> bool:
        return key not in workload.model_fields_set and key not in axes

    if open_("operation") and all(map(is_database, addresses(scenario))):
        update["operation"] = "get" if _is_read(scenario) else "upsert"
    if open_("operation") and all(map(is_time_series, addresses(scenario))):
        update["operation"] = "ingest"
    plugins = [PLUGINS.get(scheme_of(url)) for url in addresses(scenario)]
    if open_("operation") and all(plugin is not None and plugin.operations == ["put"] for plugin in plugins):
        update["operation"] = "put"
    if open_("rows_per_batch") and all(map(is_driver, addresses(scenario))):
        update["rows_per_batch"] = _DRIVER_BATCH
    operations = axes.get("operation", [update.get("operation", workload.operation)])
    commands = axes.get("command", [scenario.target.command])
    programs = all(map(is_program, addresses(scenario))) and all(commands)
    if open_("data") and programs and set(operations) == {"get"}:
        # A user's program knows nothing of our records, unless they are named.
        update["data"] = "remote"
    if all(operation == "upsert" for operation in operations):
        if open_("data"):
            update["data"] = "usage"
        if open_("rows_per_batch"):
            update["rows_per_batch"] = _UPSERT_BATCH
    if all(operation == "ingest" for operation in operations):
        if open_("data"):
            update["data"] = "metrics"
        if open_("rows_per_batch"):
            update["rows_per_batch"] = _INGEST_BATCH
    return replace(scenario, workload=workload.model_copy(update=update)) if update else scenario


def _is_read(scenario: Scenario) -> bool:
    """Whether databases are asked for what only a get has."""
    changed = {*scenario.target.changed(), *scenario.axes}
    return bool(changed & READING) and all(map(is_readable, addresses(scenario)))


def amount(workload: Workload, width: float | None, over_link: bool = False) -> tuple[int | None, int | None]:
    """Rows per stream and time in ns of a cell; both None: whatever the server holds is as long as it is."""
    if workload.bytes_per_stream is not None:
        return max(1, math.ceil(workload.bytes_per_stream / width)) if width else None, None
    if any(getattr(workload, size) is not None for size in SIZES):
        return workload.rows_per_stream, workload.duration
    if workload.operation == "upsert":
        return None, UPSERT_NS
    if workload.operation == "ingest" and workload.data not in ("metrics", "archive"):
        # Files and archives are as long as they are.
        return None, None
    if over_link and workload.data != "remote":
        # What takes a moment here takes an hour over a slow link.
        return None, LINK_NS
    # As Arrow's own benchmark.
    return (None if workload.data == "remote" else 10_000_000), None
