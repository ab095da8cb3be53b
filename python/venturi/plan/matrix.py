"""From a scenario's matrix to its cells: axes, zipped axes, exclusions; and scaling a scenario down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from venturi.common.conditions import Condition
from venturi.common.errors import ScenarioError
from venturi.common.links import LINK_SETTINGS
from venturi.common.units import plural
from venturi.plan import layers
from venturi.plan.cell import Cell
from venturi.plan.rules import cells as fitting
from venturi.plan.rules import link, options, systems
from venturi.plan.settings import Target
from venturi.plan.workload import (
    OPERATIONS,
    POINT_BYTES,
    SIZES,
    STATES_ROW_BYTES,
    UPSERT,
    USAGE_ROW_BYTES,
    WORKING_SET,
    Workload,
    data_label,
)
from venturi.targets.system import is_driver, is_ours, is_plugin, is_program, scheme_of, servers_batches
from venturi.targets.urls import place_of

if TYPE_CHECKING:
    from venturi.plan.scenario import Scenario

_MOST_CELLS = 100_000
_MOST_TRIALS = 10_000_000


def check(scenario: Scenario) -> list[Cell]:
    """The cells, after what can only be said of whole ones. Raises ScenarioError."""
    sizes = [size for size in SIZES if getattr(scenario.workload, size) is not None or size in scenario.axes]
    options.check_options(scenario)
    if len(sizes) > 1:
        raise scenario.wrong(f"{sizes[1]}: {' and '.join(sizes)} exclude one another; keep one")
    found = cells(scenario)
    if not found:
        raise scenario.wrong(
            f"exclude: every cell is excluded, by {_excluding(scenario)}",
            "other values, or without conditions: --set matrix.exclude=[]",
        )
    trials = len(found) * (scenario.run.repeats + scenario.run.warmup)
    if trials > _MOST_TRIALS:
        raise scenario.wrong(f"repeats: {trials:,} trials, warm-up included; the most are {_MOST_TRIALS:,}")
    _check_sizes(scenario, found)
    link.check_all(scenario, found)
    return found


def _check_sizes(scenario: Scenario, found: Sequence[Cell]) -> None:
    """Whether the sizes that are asked for are asked of anybody: a server that sends what it holds hears of
    them by the placeholders of its address alone. Raises ScenarioError."""
    # A run that goes on has one layer, its resolved scenario, in which every key stands.
    if len(scenario.layers) == 1 and scenario.layers[0].text is not None:
        return
    url = found[0].parameters["target"]
    flight = all(scheme_of(cell.parameters["target"]) == "flight" for cell in found)
    batches = "; records that a perf server makes come in the batches that are asked for" if flight else ""
    rows = "" if flight else ", or have the address ask for them: ?rows={rows}"
    for key, token, what, hint in (
        ("rows_per_batch", "{rows_per_batch}", "a batch has", batches),
        ("rows_per_stream", "{rows}", "there are", rows),
        ("bytes_per_stream", "", "there are", ""),
    ):
        if not options.set_with_address(scenario, "workload", key):
            continue
        asks = any(token and token in cell.parameters["target"] for cell in found)
        if not asks and all(servers_batches(cell.parameters) for cell in found):
            raise scenario.wrong(
                f"{key}: how many rows {what} is decided by {url}, which sends what it holds",
                f"leave it out{hint}",
            )


def with_servers_batches(scenario: Scenario, found: list[Cell]) -> Scenario:
    """The scenario, whose cells are `found`, without the rows per batch that no server is asked for: cells
    that differ in nothing else are one. Not for a run that goes on, whose cells are called as they were."""
    default = Workload().rows_per_batch
    asks = [scenario.workload.rows_per_batch, *scenario.axes.get("rows_per_batch", ())]
    if set(asks) == {default} or not all(servers_batches(cell.parameters) for cell in found):
        return scenario

    def settled(axis: str, value: Any) -> Any:
        return default if axis == "rows_per_batch" else value

    (axes,) = layers.scale_extra_points([scenario.axes], settled)
    fewer = replace(
        scenario,
        workload=scenario.workload.model_copy(update={"rows_per_batch": default}),
        axes=axes,
        also=layers.scale_extra_points(scenario.also, settled),
    )
    check(fewer)
    return fewer


def cells(scenario: Scenario, row_bytes: Mapping[str, float] | None = None) -> list[Cell]:
    """All cells in the order of their axes. `row_bytes` tells the width of each file's rows,
    by the path that the scenario names it with; without it, files have no size yet.
    """
    made = [cell for _, cell in chosen_cells(scenario, row_bytes or {})]
    if len(made) < 2:
        return made
    found: dict[str, Cell] = {}
    for cell in made:
        found.setdefault(cell.id, cell)
    return list(found.values())


def chosen_cells(scenario: Scenario, row_bytes: Mapping[str, float]) -> Iterator[tuple[dict[str, Any], Cell]]:
    """The cells that conditions leave, each with its values of the axes; one may come several times."""
    groups = axis_groups(scenario)
    products = layers.matrix_products(scenario.axes, groups, scenario.also)
    count = sum(math.prod(len(step) for step in steps) for steps in products)
    if count > _MOST_CELLS:
        raise ScenarioError(f"the matrix has {count:,} cells; the most are {_MOST_CELLS:,}")
    conditions = _conditions(scenario)
    for combination in itertools.chain.from_iterable(itertools.product(*steps) for steps in products):
        chosen = {axis: value for part in combination for axis, value in part.items()}
        if options.belongs_to_other_target(scenario, chosen, _address(scenario, chosen)[1]):
            continue
        for placed in (replace(scenario, on=None), scenario) if scenario.beside else (scenario,):
            cell = _cell(placed, chosen, row_bytes)
            if not any(_holds(scenario, condition, cell) for condition in conditions):
                _check_placement(scenario, cell)
                link.check(scenario, cell)
                yield chosen, cell


def axis_groups(scenario: Scenario) -> list[list[str]]:
    """Axes that advance together, and each other one by itself."""
    groups = [list(group) for group in scenario.zips]
    zipped = {axis for group in groups for axis in group}
    groups += [[axis] for axis in scenario.axes if axis not in zipped]
    # A group stands where its first axis was written, so the order is the file's.
    order = list(scenario.axes)
    groups.sort(key=lambda group: min(order.index(axis) for axis in group))
    return groups


def _conditions(scenario: Scenario) -> list[Condition]:
    try:
        return [Condition(text) for text in scenario.exclude]
    except ValueError as error:
        raise scenario.wrong(f"exclude: {error}") from None


def _excluding(scenario: Scenario) -> str:
    """The conditions that hold for some cell, in quotes."""
    every = cells(replace(scenario, exclude=()))
    conditions = zip(scenario.exclude, _conditions(scenario), strict=True)
    return " and ".join(
        f"'{text}'" for text, one in conditions if any(_holds(scenario, one, c) for c in every)
    )


def _holds(scenario: Scenario, condition: Condition, cell: Cell) -> bool:
    # A condition speaks the scenario's language, where the time is called duration.
    names = {**cell.parameters, "duration": cell.parameters["duration_ns"]}
    try:
        return condition(names)
    except ValueError as error:
        raise scenario.wrong(f"exclude: {error}") from None


def _cell(scenario: Scenario, chosen: dict[str, Any], widths: Mapping[str, float]) -> Cell:
    place, url = _address(scenario, chosen)
    workload = scenario.workload.model_copy(
        update={axis: value for axis, value in chosen.items() if axis in Workload.model_fields}
    )
    target = scenario.target.model_copy(
        update={axis: value for axis, value in chosen.items() if axis in Target.model_fields}
    )
    asks = systems.asks_query(target, url)
    own = systems.gets_own(workload, url) or systems.names_something(url)
    if workload.operation == "get" and workload.data == "records" and (asks or own):
        # Made records are asked for by the perf protocol, or by a query of ours; a table's rows are the
        # server's.
        workload = workload.model_copy(update={"data": "remote"})
    target = options.fitted(target, url, workload.operation)
    fitting.check_cell(scenario, workload, target)
    label = data_label(workload.data)
    records, usage, states = (workload.data == name for name in ("records", "usage", "states"))
    ingest = workload.operation == "ingest"
    width = 8.0 * workload.columns if records else USAGE_ROW_BYTES if usage else widths.get(label)
    width = POINT_BYTES if ingest else STATES_ROW_BYTES if states else width
    rows, duration = options.amount(workload, width, scenario.over_link)
    if systems.is_file(workload, url):
        rows = None
    values: Any = workload.values if records else None
    if isinstance(workload.values, list):
        # An ingest's columns of a file.
        values = ",".join(workload.values)
    parameters = {
        "operation": workload.operation,
        "place": place,
        "target": url,
        "data": label,
        "columns": workload.columns if records else None,
        "values": values,
        "seed": workload.seed if records or states or usage or systems.is_made(workload) else None,
        **systems.ingest_parameters(workload),
        "key": workload.key,
        "add": workload.add,
        "working_set": (workload.working_set or WORKING_SET) if usage else None,
        "row_bytes": width,
        "rows_per_batch": workload.rows_per_batch,
        "rows_per_stream": rows,
        "bytes_per_stream": workload.bytes_per_stream,
        "duration_ns": duration,
        "streams": workload.streams,
        "threads": workload.streams if workload.threads == "streams" else workload.threads,
        "rate": workload.rate,
        **{name: _of_operation(workload, name) for name in UPSERT},
        "verify": workload.verify,
        "include_setup": workload.include_setup,
        "pin": workload.pin,
        **options.option_parameters(target, workload.operation),
        **_placement(scenario, workload, url, chosen),
    }
    if systems.is_archive(workload.data):
        # Messages are as they were made.
        parameters |= {"messages": None, "digits": None, "generate": None}
    return Cell(parameters, target.options())


def _placement(scenario: Scenario, workload: Workload, url: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """How many processes share the streams, by what they are placed, and behind which links; null where one
    runs all."""
    settings = {name: chosen.get(name, getattr(scenario.hosts, name)) for name in LINK_SETTINGS}
    links = dict.fromkeys(LINK_SETTINGS) if link.is_beside(scenario, url) else settings
    loaders = chosen.get("loaders", scenario.hosts.loaders)
    if scenario.on is None:
        return {"loaders": loaders if scenario.over_link else None, "on": None, **links}
    if loaders is None and scenario.on == "spark":
        # As Spark itself would: a partition a task.
        loaders = workload.streams
    return {"loaders": loaders, "on": scenario.on, **links}


def _check_placement(scenario: Scenario, cell: Cell) -> None:
    """Whether so many processes can share this cell's streams. Raises ScenarioError."""
    loaders, streams = cell.parameters["loaders"], cell.parameters["streams"]
    if loaders is not None and loaders > streams:
        raise scenario.wrong(
            f"loaders: {loaders} loaders for {plural(streams, 'stream')}: each of them needs one",
            f"--streams {loaders} or more; or leave such cells out: exclude = ['loaders > streams']",
        )
    url = str(cell.parameters["target"])
    if is_plugin(url) or is_program(url) or is_driver(url):
        does = f"{scheme_of(url)}:// is Python code of this process"
        if is_program(url):
            does = f"{scheme_of(url)}:// runs a program on this host"
        elif is_driver(url):
            does = f"{scheme_of(url)}:// loads a driver into this process"
        if scenario.on is not None:
            raise scenario.wrong(
                f"url: {does}, and --on names other hosts", "leave --on out, and run venturi on each host"
            )
        if loaders is not None:
            raise scenario.wrong(f"loaders: {does}, which loaders do not share", "leave --loaders out")
    if loaders is not None and loaders > 1 and scheme_of(url) == "duckdb":
        raise scenario.wrong(
            f"url: {url} is a file that one process has open, not {loaders}", "name a server, or --loaders 1"
        )
    if (scenario.on is not None or loaders is not None) and cell.parameters["include_setup"]:
        raise scenario.wrong(
            "include_setup: times the set-up of one process, and loaders are several", "leave one of them out"
        )


def _of_operation(workload: Workload, name: str) -> Any:
    """As set, or the operation's default; null where the operation does not have it."""
    usual, found = OPERATIONS[name], getattr(workload, name)
    return usual.get(workload.operation) if found is None else found


def _address(scenario: Scenario, chosen: Mapping[str, Any]) -> tuple[str, str]:
    if "place" in chosen:
        return chosen["place"], scenario.places[chosen["place"]]
    url = chosen.get("target", scenario.target.url)
    schemes = {other.partition("://")[0] for other in scenario.axes.get("target", ()) if is_ours(other)}
    # Two systems that are both started here are two places, and so are all ways to one.
    return (url if is_ours(url) and len(schemes) > 1 else place_of(url)), url
