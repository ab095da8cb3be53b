"""What must fit together in one cell: operation, data, address, options, threads and memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from venturi.common.environment import memory_limit
from venturi.common.suffixes import fitting, format_bytes
from venturi.inputs.files import MOST_BATCH_BYTES
from venturi.plan.rules import systems
from venturi.plan.rules.options import check_values, with_article
from venturi.plan.rules.systems import check_exec, check_flight, check_http, check_tls, names_something
from venturi.plan.scenario import Wrong
from venturi.plan.settings import Target
from venturi.plan.workload import OPERATIONS, Workload
from venturi.targets.system import (
    BY_SCHEME,
    CLIENT_STAGES,
    PLUGINS,
    REFERENCE,
    handicap_ns,
    has_tables,
    is_charrow,
    is_plugin,
    is_program,
    scheme_of,
)

if TYPE_CHECKING:
    from venturi.plan.cell import Cell
    from venturi.plan.scenario import Scenario


def check_cell(scenario: Scenario, workload: Workload, target: Target) -> None:
    """Whether a cell can be measured at all. Raises ScenarioError."""

    url, wrong = target.url, scenario.wrong
    _check_operation(workload.operation, url, wrong)
    _check_data(workload, url, wrong)
    check_values(target, wrong)
    if workload.operation == "upsert":
        systems.check_upsert(workload, target, wrong)
    elif workload.operation == "ingest":
        systems.check_ingest(workload, target, wrong)
    elif is_charrow(url):
        systems.check_query(workload, target, wrong)
    elif has_tables(url):
        systems.check_table(workload, target, wrong)
    elif scheme_of(url) == "http+arrow":
        check_http(workload, target, wrong)
    elif scheme_of(url) == "exec":
        check_exec(workload, target, wrong)
    elif not is_plugin(url):
        check_flight(workload, url, wrong)
    # Endpoints of what a plain Flight server holds may be TLS's.
    if scheme_of(url) != "flight" or not names_something(url):
        check_tls(target, wrong)
    _check_keys(workload, wrong)
    _check_handicap(workload, target, wrong)


_ELSEWHERE = {
    "upsert": "name a database: --target mysql://HOST/DATABASE, or sqlite://local for a first try",
    "ingest": "name a store of time series: --target akumuli://HOST, or akumuli://local for a first try",
}
"""Where an operation can go that a system does not take."""


def _check_operation(operation: str, url: str, wrong: Wrong) -> None:
    """Whether the system takes it."""
    scheme, plugin = scheme_of(url), PLUGINS.get(scheme_of(url))
    taken = plugin.operations if plugin is not None else BY_SCHEME[scheme].operations
    if operation in taken:
        return
    package, names = f" of {plugin.package}" if plugin is not None else "", sorted(taken)
    listed = " and ".join(f"{name}s" for name in names)
    hint = _ELSEWHERE.get(operation, f"leave the operation out, or set it to {' or '.join(names)}")
    if scheme == "exec" and operation == "ingest":
        hint = "give the program the points as rows: --operation put --data points.parquet"
    raise wrong(f"operation: {scheme}://{package} takes {listed}, no {operation}s", hint)


_DATA = {
    "get": ("records", "file", "remote"),
    "put": ("records", "file"),
    "upsert": ("usage", "file"),
    "ingest": ("metrics", "file"),
}
_OPERATION_OF = {"usage": "upsert", "metrics": "ingest", "archive": "ingest"}
_DATA_HINTS = {
    "upsert": 'leave data out for "usage", or name a file and its key: --data t.parquet --key a,b',
    "ingest": 'leave data out for "metrics", or name a file: --data t.parquet --time ts --tags host',
    "states": "name a server that turns states into columns: --target charrow://HOST, or charrow://local",
}
"""What to do, by operation or by what it does not take."""


def _check_data(workload: Workload, url: str, wrong: Wrong) -> None:
    """Whether the operation moves such data to or from the system."""
    operation, scheme = workload.operation, scheme_of(url)
    data = workload.data if isinstance(workload.data, str) else workload.data.source
    taken = _DATA[operation]
    if is_charrow(url):
        taken = (*taken, "states")
    elif scheme == "akumuli":
        taken = (*taken, "archive")
    elif is_plugin(url):
        taken = ("remote",) if systems.gets_own(workload, url) else _DATA["put"]
    elif scheme == "empty" and operation == "ingest":
        taken = ("metrics",)
    if data in taken:
        return
    hint = _DATA_HINTS.get(operation) or _DATA_HINTS.get(data, "leave data out")
    if operation not in _DATA_HINTS and (wanted := _OPERATION_OF.get(data)):
        offered = not is_plugin(url) and wanted in BY_SCHEME[scheme].operations
        apart = f"leave data out; that is for {wanted}s"
        hint = f"--operation {wanted}, or leave data out" if offered else apart
    has = f"{', '.join(taken[:-1])} or {taken[-1]}"
    if not taken[1:]:
        has = "rows of its own" if taken == ("remote",) else taken[0]
        hint = f'leave data out, or set it to "{taken[0]}"'
    raise wrong(f"data: {with_article(operation)} of {scheme}:// has {has}, not {data}", hint)


def _check_keys(workload: Workload, wrong: Wrong) -> None:
    """Whether each key that is set belongs to the operation."""
    operation = workload.operation
    for key, operations in OPERATIONS.items():
        if operation not in operations and getattr(workload, key) is not None:
            belongs = " and ".join(f"{name}s" for name in operations)
            raise wrong(f"{key}: is for {belongs}, and this is {with_article(operation)}")
    if operation != "ingest" and isinstance(workload.values, list):
        raise wrong(f"values: {', '.join(workload.values)!r} is not one of random, sequential")


def _check_handicap(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Whether the client has the stages that shall be slowed down."""
    if target.handicap is None:
        return
    if target.url.startswith("empty:"):
        raise wrong(f"handicap: {target.url} moves nothing, so it has no stage to slow down")
    stages = [s for s in CLIENT_STAGES[workload.operation] if s != "verify" or workload.verify == "checksum"]
    for stage in handicap_ns(target.handicap):
        if stage not in stages:
            raise wrong(
                f"handicap: the client of a {workload.operation} has no stage {stage} here; it has "
                f"{', '.join(stages)}",
                f"slow the other end down: venturi serve {REFERENCE.get(scheme_of(target.url))} "
                f"--handicap {target.handicap}",
            )


_MOST_THREADS = 4096
# Of the memory, what messages may take: the program itself and a server beside it need some as well.
_SHARE = 0.5
# What it holds at most of statements that are built ahead.
_MOST_AHEAD_BYTES = 2**33
_MOST_POINTS_AHEAD = 2**31
# Of RESP rows with 17 digits; the core counts exactly.
_POINT_TEXT_BYTES = 36


def check_room(scenario: Scenario, cell: Cell) -> None:
    """Whether threads, messages and statements have room on this machine. Raises ScenarioError."""
    threads = cell.parameters["threads"]
    if threads > _MOST_THREADS:
        raise scenario.wrong(
            f"streams: {threads} streams would have as many threads; the most are {_MOST_THREADS}",
            f"let streams share threads: --threads {os.cpu_count() or 1}",
        )
    _messages(scenario, cell)
    _working_set(scenario, cell)


def _messages(scenario: Scenario, cell: Cell) -> None:
    p = cell.parameters
    if p["row_bytes"] is None:
        return
    rows = min(p["rows_per_batch"], p["rows_per_stream"] or p["rows_per_batch"])
    size = int(rows * p["row_bytes"])
    head = f"rows_per_batch: {p['rows_per_batch']:,} rows are a message of"
    if size > MOST_BATCH_BYTES:
        raise scenario.wrong(f"{head} {format_bytes(size)}; the most is {format_bytes(MOST_BATCH_BYTES)}")
    limit = dict(cell.options).get("max_message_size", scenario.target.max_message_size)
    url = str(p["target"])
    blocks = is_charrow(url) or has_tables(url) or is_program(url)
    if blocks:
        limit = dict(cell.options).get("max_block_bytes", 2**30)
    if p["operation"] == "get" and size > limit and not is_plugin(url):
        raise scenario.wrong(
            f"{head} {format_bytes(size)}, over the limit of {format_bytes(limit)}",
            "take fewer rows per batch, or raise " + ("--max-block-size" if blocks else "--max-message-size"),
        )
    total = memory_limit()
    if total is not None and size * p["streams"] > total * _SHARE:
        fits = int(total * _SHARE / p["streams"] / p["row_bytes"])
        raise scenario.wrong(
            f"{head} {format_bytes(size)}, and {p['streams']} streams hold one each; "
            f"they may take half of the {format_bytes(total)} of memory that there is",
            (f"--rows-per-batch {fitting(fits)} fits; or " if fits else "") + "take fewer streams",
        )


def _working_set(scenario: Scenario, cell: Cell) -> None:
    """Statements of the whole working set, made ahead, take more room than its rows; so do points."""
    p = cell.parameters
    if p["operation"] == "ingest" and p["generate"] == "ahead" and p["rows_per_stream"] is not None:
        size = p["rows_per_stream"] * p["streams"] * _POINT_TEXT_BYTES
        if size > _MOST_POINTS_AHEAD:
            raise scenario.wrong(
                f"generate: so many points take "
                f"about {format_bytes(size)} as messages; the most that are made ahead are "
                f"{format_bytes(_MOST_POINTS_AHEAD)}",
                "take fewer points_per_stream, or --generate inline, or archives (venturi generate)",
            )
    if p["working_set"] is None or p["generate"] != "ahead":
        return
    size = int(p["working_set"] * p["row_bytes"])
    total = memory_limit()
    most = min(_MOST_AHEAD_BYTES, total or _MOST_AHEAD_BYTES)
    if size > most:
        raise scenario.wrong(
            f"working_set: statements of {p['working_set']:,} rows take "
            f"over {format_bytes(size)}; the most that are built ahead are {format_bytes(most)}",
            "take a smaller --working-set, or --generate inline",
        )
