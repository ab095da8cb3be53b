"""What must fit together in one cell: operation, data, address and options; and the defaults that follow."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from venturi import ingests, queries
from venturi.errors import ScenarioError
from venturi.handicap import CLIENT_STAGES, nanoseconds
from venturi.options import APPLIES, DEFAULTS, ONLY_HERE, PARAMETERS, VALUES
from venturi.settings import INGEST, SIZES, UPSERT, FileData, Target, Workload
from venturi.urls import (
    DATABASES,
    TIME_SERIES,
    in_process,
    is_charrow,
    is_clickhouse,
    is_database,
    is_local,
    is_ours,
    is_time_series,
    scheme_of,
)

if TYPE_CHECKING:
    from venturi.scenario import Scenario

__all__ = [
    "UPSERT_NS",
    "amount",
    "check_cell",
    "check_options",
    "fitted",
    "given_with_address",
    "idle",
    "names_something",
    "option_parameters",
    "settled",
    "without_strangers",
]

UPSERT_NS = 10_000_000_000
"""How long a trial of upserts lasts where nothing says how much."""
_UPSERT_BATCH = 500
_INGEST_BATCH = 5000
_STORES = {*DATABASES, *TIME_SERIES}


def _addresses(scenario: Scenario) -> list[str]:
    if "place" in scenario.axes:
        return [scenario.places[place] for place in scenario.axes["place"]]
    return list(scenario.axes.get("target", [scenario.target.url]))


def settled(scenario: Scenario) -> Scenario:
    """Defaults that depend on where rows go: databases take upserts, and an upsert has rows with a key."""
    workload, axes = scenario.workload, scenario.axes
    update: dict[str, Any] = {}

    def open_(key: str) -> bool:
        return key not in workload.model_fields_set and key not in axes

    if open_("operation") and all(map(is_database, _addresses(scenario))):
        update["operation"] = "upsert"
    if open_("operation") and all(map(is_time_series, _addresses(scenario))):
        update["operation"] = "ingest"
    operations = axes.get("operation", [update.get("operation", workload.operation)])
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


def without_strangers(scenario: Scenario) -> Scenario:
    """Who names another address over a scenario does not mean its options that have no meaning there.

    Options that came with the address, or after it, stay: they are mistakes, and are named as such.
    """

    def given_before(name: str) -> bool:
        return given_with_address(scenario, "target", name) is False

    given = set(scenario.target.given()) | {name for name in scenario.axes if name in APPLIES}
    dropped = [n for n in APPLIES if n in given and given_before(n) and not _means_something(scenario, n)]
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


def given_with_address(scenario: Scenario, table: str, name: str) -> bool | None:
    """Whether a key, or its axis, was given by the layer that names the address or a later one; None: by
    none."""
    layers = scenario.layers
    paths = (("target", "url"), ("matrix", "target"), ("matrix", "place"), ("places",))
    address = max((n for n, layer in enumerate(layers) if any(map(layer.has, paths))), default=0)
    found = [n for n, x in enumerate(layers) if x.has((table, name)) or x.has(("matrix", name))]
    return found[-1] >= address if found else None


def _schemes(scenario: Scenario) -> str:
    return " and ".join(dict.fromkeys(f"{scheme_of(url)}://" for url in _addresses(scenario)))


def _means_something(scenario: Scenario, name: str) -> bool:
    """Whether any of the option's values is known at any of the addresses."""
    values = [v for v in scenario.axes.get(name, [getattr(scenario.target, name)]) if v is not None]
    return name not in _strangers(scenario) and any(
        not _unknown(name, value, url) for url in _addresses(scenario) for value in values
    )


def _unknown(name: str, value: Any, url: str) -> tuple[str, ...]:
    """The values that the option has there, where this is none of them."""
    known = VALUES.get((name, scheme_of(url)), ())
    return known if known and str(value).partition(":")[0] not in known else ()


def idle(scenario: Scenario) -> set[str]:
    """Options that are at their default and mean nothing anywhere in the scenario."""
    urls = _addresses(scenario)
    operations = scenario.axes.get("operation", [scenario.workload.operation])
    given = scenario.target.given()
    return {
        n for n in APPLIES if n not in given and not any(applies(n, u, o) for u in urls for o in operations)
    }


def _strangers(scenario: Scenario) -> list[str]:
    """Options that are given and mean nothing anywhere in the scenario."""
    given = set(scenario.target.given()) | {name for name in scenario.axes if name in APPLIES}
    urls = _addresses(scenario)
    operations = scenario.axes.get("operation", [scenario.workload.operation])
    return [n for n in APPLIES if n in given and not any(applies(n, u, o) for u in urls for o in operations)]


def applies(name: str, url: str, operation: str) -> bool:
    """Whether an option means something there."""
    scheme = scheme_of(url)
    if scheme == "empty":
        # Where nothing is sent, settings of the way mean nothing, but disturb nobody.
        if operation == "ingest":
            return name in ("dialect", "messages", "digits")
        return (name == "dialect") == (operation == "upsert")
    if name in ONLY_HERE and not is_ours(url):
        return False
    return scheme in APPLIES[name]


def fitted(target: Target, url: str, operation: str) -> Target:
    """The target of one cell: its own address, and no option that means nothing there."""
    defaults = Target()
    update = {name: getattr(defaults, name) for name in APPLIES if not applies(name, url, operation)}
    return target.model_copy(update={**update, "url": url})


def option_parameters(target: Target, operation: str) -> dict[str, Any]:
    """The parameters of a cell that are options: what is in force, null where it means nothing."""
    usual = DEFAULTS.get(scheme_of(target.url), {})
    if operation == "ingest" and scheme_of(target.url) == "empty":
        usual = {**DEFAULTS["akumuli"], "dialect": "akumuli"}

    def value(name: str) -> Any:
        if not applies(name, target.url, operation):
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

    return {name: value(name) for name in PARAMETERS}


def check_options(scenario: Scenario) -> None:
    """Whether every option means something somewhere in the scenario. Raises ScenarioError."""
    for name in _strangers(scenario):
        where = scenario.where("matrix" if name in scenario.axes else "target", name)
        if name in ONLY_HERE and any(map(is_time_series, _addresses(scenario))):
            flag = "threads" if name == "pool" else name
            raise ScenarioError(
                f"{where}: is of a store that is started for the run, and {_addresses(scenario)[0]} is there "
                "already",
                hint=f"start one so: venturi serve timeseries --data DIR --{flag} ..., or use akumuli://local",
            )
        raise ScenarioError(
            f"{where}: {_schemes(scenario)} has no option {name}",
            hint=f"it belongs to {', '.join(f'{s}://' for s in sorted(APPLIES[name]))}",
        )


def names_something(url: str) -> bool:
    """Whether the URL names a table, a command, a ticket or a query, and not only a server."""
    parts = urlsplit(url)
    if is_charrow(url):
        # Its path is the database that the query is asked in.
        return bool(parts.query)
    if is_clickhouse(url):
        return False
    return parts.scheme != "empty" and bool(parts.path.strip("/") or parts.query)


def check_cell(scenario: Scenario, workload: Workload, target: Target, chosen: dict[str, Any]) -> None:
    """Whether a cell can be measured at all. Raises ScenarioError."""

    def where(table: str, key: str) -> str:
        return scenario.where("matrix" if key in chosen else table, key)

    url = target.url
    if workload.operation == "upsert":
        _check_upsert(workload, target, where)
    elif workload.operation == "ingest":
        ingests.check(workload, target, where)
    elif is_charrow(url):
        _only_ingest(workload, where)
        queries.check(workload, target, where)
    elif is_clickhouse(url):
        _only_ingest(workload, where)
        queries.check_clickhouse(workload, target, where)
    else:
        _check_flight(workload, url, where)
    _check_values(target, where)
    _check_handicap(workload, target, where)


def _check_flight(workload: Workload, url: str, where: Any) -> None:
    """Whether a get or a put can go this way with these data."""
    operation = workload.operation
    for found, taken in ((is_database(url), "upsert"), (is_time_series(url), "ingest")):
        if found:
            raise ScenarioError(
                f"{where('workload', 'operation')}: {scheme_of(url)}:// takes {taken}s, not a {operation}",
                hint=f"leave the operation out, or set it to {taken}",
            )
    for key in ("key", "add", "working_set", *UPSERT):
        if getattr(workload, key) is not None:
            raise ScenarioError(f"{where('workload', key)}: is for upserts, and this is a {operation}")
    _only_ingest(workload, where)
    at = where("workload", "data")
    if workload.data == "usage":
        raise ScenarioError(f"{at}: usage is for upserts; a {operation} has records or a file")
    if workload.data == "states":
        raise ScenarioError(
            f"{at}: states are rows of a server of charrow://, which turns them into columns",
            hint="name one: --target charrow://HOST, or charrow://local for a first try",
        )
    if ingests.is_points(workload.data):
        raise ScenarioError(f"{at}: points are for ingests; a {operation} has records or a file")
    if operation == "put":
        if workload.data == "remote":
            raise ScenarioError(f"{at}: a put needs data of its own, records or a file, not remote")
    elif workload.data == "remote":
        if not names_something(url) and not url.startswith("empty:"):
            raise ScenarioError(
                f"{at}: {url} does not say what to get",
                hint="name it in the URL: flight://HOST:PORT/TABLE, ?command=TEXT or ?ticket=TEXT",
            )
    elif workload.data != "records" and names_something(url):
        raise ScenarioError(
            f"{at}: a get from {url} moves what the server holds, not a file",
            hint='leave data out, or set it to "remote"',
        )


def _only_ingest(workload: Workload, where: Any) -> None:
    for key in INGEST:
        if getattr(workload, key) is not None:
            raise ScenarioError(
                f"{where('workload', key)}: is for ingests, and this is an {workload.operation}"
                if workload.operation == "upsert"
                else f"{where('workload', key)}: is for ingests, and this is a {workload.operation}"
            )
    if isinstance(workload.values, list):
        raise ScenarioError(
            f"{where('workload', 'values')}: {', '.join(workload.values)!r} is not one of random, sequential"
        )


def _check_upsert(workload: Workload, target: Target, where: Any) -> None:
    url, data = target.url, workload.data
    if scheme_of(url) in ("flight", "charrow", "clickhouse"):
        takes = "gets" if scheme_of(url) == "charrow" else "gets and puts"
        raise ScenarioError(
            f"{where('workload', 'operation')}: {url} takes {takes}, no upserts",
            hint="name a database: --target mysql://HOST/DATABASE, or sqlite://local for a first try",
        )
    if is_time_series(url):
        raise ScenarioError(
            f"{where('workload', 'operation')}: {scheme_of(url)}:// takes ingests, no upserts",
            hint="leave the operation out, or set it to ingest",
        )
    _only_ingest(workload, where)
    if ingests.is_points(data):
        raise ScenarioError(
            f"{where('workload', 'data')}: points are for ingests; an upsert has rows with a key"
        )
    if data != "usage" and not isinstance(data, FileData):
        raise ScenarioError(
            f"{where('workload', 'data')}: an upsert needs rows with a key, and {data} have none",
            hint='leave data out for "usage", or name a file and its key: --data t.parquet --key a,b',
        )
    if isinstance(data, FileData):
        if workload.key is None:
            raise ScenarioError(
                f"{where('workload', 'data')}: an upsert of a file needs its key: columns by which rows meet",
                hint="name them: --key a,b, and those that are added up: --add hits",
            )
        both = [name for name in workload.add or () if name in workload.key]
        if both:
            raise ScenarioError(f"{where('workload', 'add')}: {both[0]} is a part of the key")
        if workload.working_set is not None:
            raise ScenarioError(f"{where('workload', 'working_set')}: a file has the rows that it has")
    else:
        for key in ("key", "add"):
            if getattr(workload, key) is not None:
                raise ScenarioError(
                    f"{where('workload', key)}: usage has its own key and sums",
                    hint="name the file that has these columns: --data t.parquet",
                )
    _check_writes(workload, target, where)


def _check_writes(workload: Workload, target: Target, where: Any) -> None:
    """Ways of writing that exclude one another."""
    batch = workload.rows_per_batch
    if target.batch == "none" and batch != 1:
        raise ScenarioError(
            f"{where('workload', 'rows_per_batch')}: batch = none writes every row by itself, "
            f"which is 1 row a batch, not {batch:,}",
            hint="--rows-per-batch 1 --in-flight 256 keeps as many rows under way",
        )
    if workload.in_flight not in (None, 1) and scheme_of(target.url) in ("sqlite", "duckdb", "mysql"):
        raise ScenarioError(
            f"{where('workload', 'in_flight')}: {scheme_of(target.url)}:// takes one statement at a time "
            "on a connection",
            hint=f"take more connections: --streams {workload.in_flight}",
        )
    if is_local(target.url) and target.setup is False:
        raise ScenarioError(
            f"{where('target', 'setup')}: {target.url} is new and empty, and needs its set-up",
            hint="name a database of yours to upsert into a table that is there",
        )
    if is_local(target.url) and target.keep:
        raise ScenarioError(
            f"{where('target', 'keep')}: {target.url} goes when the run ends, and the table with it",
            hint=_kept(target.url),
        )
    if target.partitions is not None and target.setup is False:
        raise ScenarioError(f"{where('target', 'partitions')}: is for set-up, which is switched off")
    if target.dialect in TIME_SERIES:
        raise ScenarioError(
            f"{where('target', 'dialect')}: {target.dialect} has no statements; it is for ingests"
        )
    if target.method == "copy" and target.statement is not None:
        raise ScenarioError(f"{where('target', 'statement')}: method = copy moves rows without statements")


def _kept(url: str) -> str:
    """How to have a database that outlives the run."""
    scheme = scheme_of(url)
    if in_process(url):
        return f"name a file: --target {scheme}:///path/to/file.db"
    name = "mariadb" if scheme == "mysql" else scheme
    return f"start one that stays: venturi serve {name}"


def _check_values(target: Target, where: Any) -> None:
    """Values of an option that this system does not know, though another does."""
    scheme = scheme_of(target.url)
    for name in dict.fromkeys(name for name, _ in VALUES):
        value = getattr(target, name)
        known = _unknown(name, value, target.url) if value is not None else ()
        if known:
            raise ScenarioError(
                f"{where('target', name)}: {scheme}:// has no {name} {value}; it has {', '.join(known)}"
            )


def _check_handicap(workload: Workload, target: Target, where: Any) -> None:
    """Whether the client has the stages that shall be slowed down."""
    if target.handicap is None:
        return
    at = where("target", "handicap")
    if target.url.startswith("empty:"):
        raise ScenarioError(f"{at}: {target.url} moves nothing, so it has no stage to slow down")
    known = [s for s in CLIENT_STAGES[workload.operation] if s != "verify" or workload.verify == "checksum"]
    for stage in nanoseconds(target.handicap):
        if stage not in known:
            raise ScenarioError(
                f"{at}: the client of a {workload.operation} has no stage {stage} here; "
                f"it has {', '.join(known)}",
                hint=f"slow the other end down: venturi serve {scheme_of(target.url)} "
                f"--handicap {target.handicap}",
            )


def amount(workload: Workload, width: float | None) -> tuple[int | None, int | None]:
    """Rows a stream and time in ns of a cell; both None: whatever the server holds is as long as it is."""
    if workload.bytes_per_stream is not None:
        return max(1, math.ceil(workload.bytes_per_stream / width)) if width else None, None
    if any(getattr(workload, size) is not None for size in SIZES):
        return workload.rows_per_stream, workload.duration
    if workload.operation == "upsert":
        return None, UPSERT_NS
    if workload.operation == "ingest" and workload.data not in ("metrics", "archive"):
        # Files and archives are as long as they are.
        return None, None
    # As Arrow's own benchmark.
    return (None if workload.data == "remote" else 10_000_000), None
