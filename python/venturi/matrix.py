"""From a scenario's matrix to its cells: axes, zipped axes, exclusions; and scaling a scenario down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from venturi import also, fitting, ingests, queries, thinning
from venturi.conditions import Condition
from venturi.errors import ScenarioError
from venturi.settings import (
    POINT_BYTES,
    SIZES,
    STATES_ROW_BYTES,
    UPSERT,
    USAGE_ROW_BYTES,
    WORKING_SET,
    FileData,
    Hosts,
    Run,
    Target,
    Workload,
    check_url,
    data_label,
)
from venturi.suffixes import format_count, parse_range, spell_duration
from venturi.trial import Cell
from venturi.urls import is_ours, place_of, scheme_of, servers_batches

if TYPE_CHECKING:
    from venturi.scenario import Layer, Scenario

__all__ = ["cells", "check", "read", "scale", "with_servers_batches"]

_MOST_CELLS = 100_000
_MOST_TRIALS = 10_000_000
_COUNTS = {
    *("rows_per_stream", "bytes_per_stream", "streams", "threads", "rows_per_batch"),
    *("columns", "window", "send_buffer", "seed", "rate", "max_message_size"),
    *("hosts", "pool", "encoders", "decoders", "max_block_size", "loaders"),
    *("working_set", "in_flight", "max_errors", "retries", "partitions", "replication", "partition_key"),
}
Axes = dict[str, list[Any]]


def read(
    layers: Sequence[Layer], table: dict[str, Any], places: Mapping[str, str]
) -> tuple[Axes, list[list[str]], list[str], list[also.Points]]:
    """The table [matrix]: axes with validated values, zipped groups, conditions to exclude by, and points
    beside the axes."""
    from venturi import scenario

    def wrong(key: str, text: str, hint: str | None = None) -> ScenarioError:
        return ScenarioError(f"{scenario._where(layers, ('matrix', key))}: {text}", hint)

    zips, exclude, more = (table.pop(key, []) for key in ("zip", "exclude", "also"))
    axes: Axes = {}
    known = [*Workload.model_fields, *Target.model_fields, *scenario.ADDRESS_AXES, "loaders"]
    for axis, values in table.items():
        name = "target" if axis == "url" else axis
        if axis in Run.model_fields and axis not in known:
            raise wrong(axis, "belongs into [run], it is the same for all cells")
        if axis not in known or axis in ("headers", "header_env"):
            raise wrong(axis, f"unknown key{scenario.suggest(axis, [*known, 'zip', 'exclude', 'also'])}")
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

    numbers = [axis for axis in axes if axis in _COUNTS or axis == "duration"]
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
        if axis in _COUNTS and isinstance(value, str) and ".." in value:
            spread += parse_range(value)
        else:
            spread.append(value)
    return spread


def _valid(axis: str, value: Any, places: Mapping[str, str]) -> Any:
    from venturi import scenario

    if axis == "place":
        if value not in places:
            raise ValueError(f"no place is called {value!r}; [places] has: {', '.join(places) or 'nothing'}")
        return value
    if axis == "target":
        return check_url(value) if isinstance(value, str) else check_url(str(value))
    models: tuple[type[Workload], type[Hosts], type[Target]] = (Workload, Hosts, Target)
    model = next(model for model in models if axis in model.model_fields)
    return scenario.validate_value(model, axis, value)


def check(scenario: Scenario) -> None:
    """What can only be said of whole cells. Raises ScenarioError."""
    sizes = [size for size in SIZES if getattr(scenario.workload, size) is not None or size in scenario.axes]
    fitting.check_options(scenario)
    if len(sizes) > 1:
        where = scenario.where("matrix" if sizes[1] in scenario.axes else "workload", sizes[1])
        raise ScenarioError(f"{where}: {' and '.join(sizes)} exclude one another; keep one")
    found = cells(scenario)
    if not found:
        raise ScenarioError(
            f"{scenario.where('matrix', 'exclude')}: every cell is excluded", hint="loosen a condition"
        )
    trials = len(found) * (scenario.run.repeats + scenario.run.warmup)
    if trials > _MOST_TRIALS:
        raise ScenarioError(
            f"{scenario.where('run', 'repeats')}: {trials:,} trials, warm-up included; "
            f"the most are {_MOST_TRIALS:,}"
        )
    _check_batches(scenario, found)


def _check_batches(scenario: Scenario, found: Sequence[Cell]) -> None:
    """Whether rows a batch, where some are asked for, are asked of anybody. Raises ScenarioError."""
    table = "matrix" if "rows_per_batch" in scenario.axes else "workload"
    # A run that goes on has one layer, its resolved scenario, in which every key stands.
    resumed = len(scenario.layers) == 1 and scenario.layers[0].text is not None
    given = not resumed and fitting.given_with_address(scenario, "workload", "rows_per_batch")
    if given and all(servers_batches(cell.parameters) for cell in found):
        raise ScenarioError(
            f"{scenario.where(table, 'rows_per_batch')}: how many rows a batch has is decided by "
            f"{found[0].parameters['target']}, which sends what it holds",
            hint="leave it out; records that a perf server makes come in the batches that are asked for",
        )


def with_servers_batches(scenario: Scenario) -> Scenario:
    """The scenario without the rows a batch that nobody is asked for: cells that differ in nothing else are
    one. Not for a run that goes on, whose cells are called as they were."""
    default = Workload().rows_per_batch
    asked = [scenario.workload.rows_per_batch, *scenario.axes.get("rows_per_batch", ())]
    if set(asked) == {default} or not all(servers_batches(cell.parameters) for cell in cells(scenario)):
        return scenario

    def settled(axis: str, value: Any) -> Any:
        return default if axis == "rows_per_batch" else value

    (axes,) = also.scaled([scenario.axes], settled)
    found = replace(
        scenario,
        workload=scenario.workload.model_copy(update={"rows_per_batch": default}),
        axes=axes,
        also=also.scaled(scenario.also, settled),
    )
    check(found)
    return found


def cells(scenario: Scenario, row_bytes: Mapping[str, float] | None = None) -> list[Cell]:
    """All cells in the order of their axes. `row_bytes` tells the width of each file's rows,
    by the path that the scenario names it with; without it, files have no size yet.
    """
    found: dict[str, Cell] = {}
    for _, cell in _chosen(scenario, row_bytes or {}):
        found.setdefault(cell.id, cell)
    return list(found.values())


def _chosen(scenario: Scenario, row_bytes: Mapping[str, float]) -> Iterator[tuple[dict[str, Any], Cell]]:
    """The cells that conditions leave, each with its values of the axes; one may come several times."""
    groups = _groups(scenario)
    products = also.products(scenario.axes, groups, scenario.also)
    count = sum(math.prod(len(step) for step in steps) for steps in products)
    if count > _MOST_CELLS:
        raise ScenarioError(f"the matrix has {count:,} cells; the most are {_MOST_CELLS:,}")
    conditions = [_condition(scenario, text) for text in scenario.exclude]
    for combination in itertools.chain.from_iterable(itertools.product(*steps) for steps in products):
        chosen = {axis: value for part in combination for axis, value in part.items()}
        for placed in (replace(scenario, on=None), scenario) if scenario.beside else (scenario,):
            cell = _cell(placed, chosen, row_bytes)
            if not any(_holds(scenario, condition, cell) for condition in conditions):
                _check_placement(scenario, cell)
                yield chosen, cell


def _groups(scenario: Scenario) -> list[list[str]]:
    """Axes that advance together, and each other one by itself."""
    groups = [list(group) for group in scenario.zips]
    zipped = {axis for group in groups for axis in group}
    groups += [[axis] for axis in scenario.axes if axis not in zipped]
    # A group stands where its first axis was written, so the order is the file's.
    order = list(scenario.axes)
    groups.sort(key=lambda group: min(order.index(axis) for axis in group))
    return groups


def _condition(scenario: Scenario, text: str) -> Condition:
    try:
        return Condition(text)
    except ValueError as error:
        raise ScenarioError(f"{scenario.where('matrix', 'exclude')}: {error}") from None


def _holds(scenario: Scenario, condition: Condition, cell: Cell) -> bool:
    # A condition speaks the scenario's language, where the time is called duration.
    names = {**cell.parameters, "duration": cell.parameters["duration_ns"]}
    try:
        return condition(names)
    except ValueError as error:
        raise ScenarioError(f"{scenario.where('matrix', 'exclude')}: {error}") from None


def _cell(scenario: Scenario, chosen: dict[str, Any], widths: Mapping[str, float]) -> Cell:
    place, url = _address(scenario, chosen)
    workload = scenario.workload.model_copy(
        update={axis: value for axis, value in chosen.items() if axis in Workload.model_fields}
    )
    target = scenario.target.model_copy(
        update={axis: value for axis, value in chosen.items() if axis in Target.model_fields}
    )
    asked = queries.asked(target, url)
    if workload.operation == "get" and workload.data == "records" and (asked or fitting.names_something(url)):
        # Made records are asked for by the perf protocol, or by a query of ours; a table's rows are the
        # server's.
        workload = workload.model_copy(update={"data": "remote"})
    target = fitting.fitted(target, url, workload.operation)
    fitting.check_cell(scenario, workload, target, chosen)
    label = data_label(workload.data)
    records, usage, states = (workload.data == name for name in ("records", "usage", "states"))
    ingest = workload.operation == "ingest"
    width = 8.0 * workload.columns if records else USAGE_ROW_BYTES if usage else widths.get(label)
    width = POINT_BYTES if ingest else STATES_ROW_BYTES if states else width
    rows, duration = fitting.amount(workload, width)
    if queries.is_file(workload, url):
        rows = None
    parameters = {
        "operation": workload.operation,
        "place": place,
        "target": url,
        "data": label,
        "columns": workload.columns if records else None,
        "values": ingests.values(workload) or (workload.values if records else None),
        "seed": workload.seed if records or states or usage or ingests.is_made(workload) else None,
        **ingests.parameters(workload),
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
        **{name: _of_upserts(workload, name) for name in UPSERT},
        "verify": workload.verify,
        "include_setup": workload.include_setup,
        "pin": workload.pin,
        **fitting.option_parameters(target, workload.operation),
        **_placement(scenario, workload, chosen),
    }
    if ingests.is_archive(workload.data):
        # Messages are as they were made.
        parameters |= {"messages": None, "digits": None, "generate": None}
    return Cell(parameters, target.options())


def _placement(scenario: Scenario, workload: Workload, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """How many processes share the streams, and by what they are placed; null where one runs all."""
    if scenario.on is None:
        return {"loaders": None, "on": None}
    loaders = chosen.get("loaders", scenario.hosts.loaders)
    if loaders is None and scenario.on == "spark":
        # As Spark itself would: a partition a task.
        loaders = workload.streams
    return {"loaders": loaders, "on": scenario.on}


def _check_placement(scenario: Scenario, cell: Cell) -> None:
    """Whether so many processes can share this cell's streams. Raises ScenarioError."""
    loaders, streams = cell.parameters["loaders"], cell.parameters["streams"]
    if loaders is not None and loaders > streams:
        raise ScenarioError(
            f"{scenario.where('matrix' if 'loaders' in scenario.axes else 'hosts', 'loaders')}: {loaders} "
            f"loaders for {streams} stream{'s' if streams > 1 else ''}: each of them needs one",
            hint=f"--streams {loaders} or more; or leave such cells out: exclude = ['loaders > streams']",
        )
    url = str(cell.parameters["target"])
    if loaders is not None and loaders > 1 and scheme_of(url) == "duckdb":
        raise ScenarioError(
            f"{scenario.where('target', 'url')}: {url} is a file that one process has open, not {loaders}",
            hint="name a server, or --loaders 1",
        )
    if scenario.on is not None and cell.parameters["include_setup"]:
        where = scenario.where("matrix" if "include_setup" in scenario.axes else "workload", "include_setup")
        raise ScenarioError(
            f"{where}: times the set-up of one process, and --on has several", hint="leave one of them out"
        )


def _of_upserts(workload: Workload, name: str) -> Any:
    """What only upserts have: as set, or its default; null in a get or put. An ingest has `generate`."""
    if workload.operation == "ingest" and name == "generate":
        # Archives and files are read meanwhile; so are points made, unless they shall be ready.
        return workload.generate or "inline"
    if workload.operation != "upsert":
        return None
    found = getattr(workload, name)
    return UPSERT[name] if found is None else found


def _address(scenario: Scenario, chosen: Mapping[str, Any]) -> tuple[str, str]:
    if "place" in chosen:
        return chosen["place"], scenario.places[chosen["place"]]
    url = chosen.get("target", scenario.target.url)
    others = {scheme_of(other) for other in scenario.axes.get("target", ()) if is_ours(other)}
    # Two systems that are both started here are two places.
    return (url if is_ours(url) and len(others) > 1 else place_of(url)), url


def scale(scenario: Scenario, factor: float) -> tuple[Scenario, list[str]]:
    """The scenario with its sizes times `factor`, and what was done to it, in words.

    Below 1, long axes are thinned to their ends, their middle and a few points between, and repeats are
    reduced to 3 at the least. No stream gets less than one batch, no duration less than 200 ms; sizes that
    would all end there are made smaller by less, so that they still differ.

    Raises ValueError for a factor that is no positive number, or makes a size that nothing can have.
    """
    if not factor > 0:
        raise ValueError("must be above 0")
    if factor == math.inf:
        raise ValueError("must be a number")
    notes: list[str] = []
    workload = scenario.workload
    batch = min([workload.rows_per_batch, *scenario.axes.get("rows_per_batch", [])])
    widest = 8 * max([workload.columns, *scenario.axes.get("columns", [])])
    least = {"rows_per_stream": batch, "bytes_per_stream": batch * widest, "duration": 200_000_000}

    def shrink(size: str, value: int) -> int:
        if value * factor >= 2**63:
            raise ValueError(f"{size} {spell(size, value)} becomes too large")
        return sized.get(size, {}).get(value) or thinning.shrunk([value], factor, least[size])[value]

    def spell(size: str, value: int) -> str:
        return spell_duration(value) if size == "duration" else format_count(value)

    axes = {axis: list(values) for axis, values in scenario.axes.items()}
    if factor < 1:
        groups = _groups(scenario)
        axes = thinning.thinned(axes, groups, [chosen for chosen, _ in _chosen(scenario, {})], factor)
        for group in groups:
            kept, there = len(axes[group[0]]), len(scenario.axes[group[0]])
            if kept < there:
                notes.append(f"{' with '.join(group)}: {kept} of {there} points")
    sized = {
        size: thinning.shrunk(
            itertools.chain(axes[size], *(points.get(size, ()) for points in scenario.also)),
            factor,
            least[size],
        )
        for size in SIZES
        if size in axes
    }
    zipped = {axis for group in scenario.zips for axis in group}
    update: dict[str, Any] = {}
    for size in SIZES:
        if size in axes:
            before = axes[size]
            after = [shrink(size, value) for value in before]
            axes[size] = after if size in zipped else list(dict.fromkeys(after))
            ends = [spell(size, value) for value in (before[0], before[-1], after[0], after[-1])]
            note = f"{size} {ends[0]}..{ends[1]} became {ends[2]}..{ends[3]}"
            if any(
                n > max(min(value, least[size]), round(value * factor))
                for value, n in zip(before, after, strict=True)
            ):
                note += ", the smallest by less, so that they still differ"
            notes.append(note)
        elif (value := getattr(workload, size)) is not None:
            update[size] = shrink(size, value)
            notes.append(f"{size} {spell(size, value)} became {spell(size, update[size])}")
    defaulted = not update and not any(size in axes for size in SIZES)
    if defaulted and _all_upserts(scenario):
        update["duration"] = shrink("duration", fitting.UPSERT_NS)
        notes.append(
            f"duration {spell_duration(fitting.UPSERT_NS)} became {spell_duration(update['duration'])}"
        )
    elif defaulted and _has_own_data(scenario):
        update["rows_per_stream"] = shrink("rows_per_stream", 10_000_000)
        notes.append(f"rows_per_stream 10M became {format_count(update['rows_per_stream'])}")
    run = scenario.run
    repeats = min(run.repeats, max(3, round(run.repeats * math.sqrt(factor)))) if factor < 1 else run.repeats
    if repeats != run.repeats:
        notes.append(f"repeats {run.repeats} became {repeats}")
    scaled = replace(
        scenario,
        axes=axes,
        also=also.scaled(scenario.also, lambda axis, n: shrink(axis, n) if axis in SIZES else n),
        workload=workload.model_copy(update=update),
        run=run.model_copy(update={"repeats": repeats}),
    )
    return scaled, notes


def _all_upserts(scenario: Scenario) -> bool:
    operations = scenario.axes.get("operation", [scenario.workload.operation])
    return all(operation == "upsert" for operation in operations)


def _has_own_data(scenario: Scenario) -> bool:
    sources = scenario.axes.get("data", [scenario.workload.data])
    return any(
        isinstance(source, FileData) or source in ("records", "states", "metrics", "archive")
        for source in sources
    )
