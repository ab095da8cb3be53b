"""What must fit together in one cell: operation, data, address, options, threads and memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from venturi.common.environment import memory_limit
from venturi.common.errors import ScenarioError
from venturi.common.suffixes import fitting, format_bytes
from venturi.inputs.files import MOST_BATCH_BYTES
from venturi.plan.rules import databases, services
from venturi.plan.rules import timeseries as ingests
from venturi.plan.rules.databases import check_upsert
from venturi.plan.rules.options import check_values
from venturi.plan.rules.services import (
    check_exec,
    check_flight,
    check_http,
    check_tls,
    names_something,
    only_ingest,
)
from venturi.plan.settings import Target
from venturi.plan.workload import Workload
from venturi.targets.handicap import CLIENT_STAGES, nanoseconds
from venturi.targets.system import (
    REFERENCE,
    has_tables,
    is_charrow,
    is_plugin,
    is_program,
    is_readable,
    scheme_of,
)

if TYPE_CHECKING:
    from venturi.plan.cell import Cell
    from venturi.plan.scenario import Scenario

__all__ = ["check_cell", "check_room"]


def check_cell(scenario: Scenario, workload: Workload, target: Target, chosen: dict[str, Any]) -> None:
    """Whether a cell can be measured at all. Raises ScenarioError."""

    def where(table: str, key: str) -> str:
        return scenario.where("matrix" if key in chosen else table, key)

    url = target.url
    if is_plugin(url):
        services.check_plugin(workload, url, where)
    elif workload.operation == "upsert":
        check_upsert(workload, target, where)
    elif workload.operation == "ingest":
        ingests.check_ingest(workload, target, where)
    elif is_charrow(url):
        only_ingest(workload, where)
        services.check_query(workload, target, where)
    elif has_tables(url) and not is_readable(url):
        only_ingest(workload, where)
        databases.check_table(workload, target, where)
    elif scheme_of(url) == "http+arrow":
        check_http(workload, target, where)
    elif scheme_of(url) == "exec":
        check_exec(workload, target, where)
    elif workload.operation == "get" and is_readable(url):
        only_ingest(workload, where)
        databases.check_get(workload, target, where)
    else:
        check_flight(workload, url, where)
    check_values(target, where)
    # Endpoints of what a plain Flight server holds may be TLS's.
    if scheme_of(url) != "flight" or not names_something(url):
        check_tls(target, where)
    _check_handicap(workload, target, where)


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
                hint=f"slow the other end down: venturi serve {REFERENCE.get(scheme_of(target.url))} "
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
    """Raises ScenarioError where that is too much."""
    _threads(scenario, cell)
    _messages(scenario, cell)
    _working_set(scenario, cell)


def _where(scenario: Scenario, table: str, key: str) -> str:
    return scenario.where("matrix" if key in scenario.axes else table, key)


def _threads(scenario: Scenario, cell: Cell) -> None:
    threads = cell.parameters["threads"]
    if threads > _MOST_THREADS:
        raise ScenarioError(
            f"{_where(scenario, 'workload', 'streams')}: {threads} streams would have as many threads; "
            f"the most are {_MOST_THREADS}",
            hint=f"let streams share threads: --threads {os.cpu_count() or 1}",
        )


def _messages(scenario: Scenario, cell: Cell) -> None:
    p = cell.parameters
    if p["row_bytes"] is None:
        return
    rows = min(p["rows_per_batch"], p["rows_per_stream"] or p["rows_per_batch"])
    size = int(rows * p["row_bytes"])
    head = f"{_where(scenario, 'workload', 'rows_per_batch')}: {p['rows_per_batch']:,} rows are a message of"
    if size > MOST_BATCH_BYTES:
        raise ScenarioError(f"{head} {format_bytes(size)}; the most is {format_bytes(MOST_BATCH_BYTES)}")
    limit = dict(cell.options).get("max_message_size", scenario.target.max_message_size)
    url = str(p["target"])
    blocks = is_charrow(url) or has_tables(url) or is_program(url)
    if blocks:
        limit = dict(cell.options).get("max_block_bytes", 2**30)
    if p["operation"] == "get" and size > limit and not is_plugin(url):
        raise ScenarioError(
            f"{head} {format_bytes(size)}, over the limit of {format_bytes(limit)}",
            hint="take fewer rows per batch, or raise "
            + ("--max-block-size" if blocks else "--max-message-size"),
        )
    total = memory_limit()
    if total is not None and size * p["streams"] > total * _SHARE:
        fits = int(total * _SHARE / p["streams"] / p["row_bytes"])
        raise ScenarioError(
            f"{head} {format_bytes(size)}, and {p['streams']} streams hold one each; "
            f"they may take half of the {format_bytes(total)} of memory that there is",
            hint=(f"--rows-per-batch {fitting(fits)} fits; or " if fits else "") + "take fewer streams",
        )


def _working_set(scenario: Scenario, cell: Cell) -> None:
    """Statements of the whole working set, made ahead, take more room than its rows; so do points."""
    p = cell.parameters
    if p["operation"] == "ingest" and p["generate"] == "ahead" and p["rows_per_stream"] is not None:
        size = p["rows_per_stream"] * p["streams"] * _POINT_TEXT_BYTES
        if size > _MOST_POINTS_AHEAD:
            raise ScenarioError(
                f"{_where(scenario, 'workload', 'generate')}: so many points take "
                f"about {format_bytes(size)} as messages; the most that are made ahead are "
                f"{format_bytes(_MOST_POINTS_AHEAD)}",
                hint="take fewer points_per_stream, or --generate inline, or archives (venturi generate)",
            )
    if p["working_set"] is None or p["generate"] != "ahead":
        return
    size = int(p["working_set"] * p["row_bytes"])
    total = memory_limit()
    most = min(_MOST_AHEAD_BYTES, total or _MOST_AHEAD_BYTES)
    if size > most:
        raise ScenarioError(
            f"{_where(scenario, 'workload', 'working_set')}: statements of {p['working_set']:,} rows take "
            f"over {format_bytes(size)}; the most that are built ahead are {format_bytes(most)}",
            hint="take a smaller --working-set, or --generate inline",
        )
