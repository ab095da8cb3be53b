"""What must fit together in a cell whose partitions share the blocks of one query, and that query."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from venturi.common.errors import ScenarioError
from venturi.plan.cell import Cell
from venturi.plan.settings import Target
from venturi.plan.workload import SIZES, UPSERT, FileData, Workload
from venturi.targets.system import has_tables, is_charrow, is_local, is_shared
from venturi.targets.urls import split_url

__all__ = ["asked", "check", "check_amount", "is_file", "quoted", "text"]


def is_file(workload: Workload, url: str) -> bool:
    """Whether a server of ours is given this file as a table, whose rows a query moves once."""
    return is_charrow(url) and isinstance(workload.data, FileData)


def asked(target: Target, url: str) -> bool:
    """Whether the options name what the server shall give of its own."""
    tables = has_tables(url)
    return (target.query is not None and (is_charrow(url) or tables)) or (target.table is not None and tables)


def quoted(name: str) -> str:
    """A table's name as a query writes it."""
    return '"' + name.replace('"', '""') + '"'


def text(cell: Cell, table: str | None = None) -> str | None:
    """The query of a cell whose data are `states`, or the rows of this `table`; None for all other data."""
    p = cell.parameters
    if table is not None:
        return f"SELECT * FROM {quoted(table)}"
    if p["data"] != "states":
        return None
    rows = [f"rows = {p['rows_per_stream'] * p['streams']}"] if p["rows_per_stream"] is not None else []
    arguments = ", ".join([*rows, f"seed = {p['seed']}", f"block_rows = {p['rows_per_batch']}"])
    return f"SELECT * FROM state_rows({arguments})"


def check(workload: Workload, target: Target, where: Any) -> None:
    """Whether such data come by a query. Raises ScenarioError; `where` spells a key as its user wrote it."""
    url, at = target.url, where("workload", "data")
    asks = "query" in parse_qs(split_url(url).query)
    if workload.operation != "get":
        raise ScenarioError(
            f"{where('workload', 'operation')}: charrow:// gives the result of a query: it has gets, no "
            f"{workload.operation}s",
            hint="leave the operation out, or set it to get",
        )
    for key in ("key", "add", "working_set", *UPSERT):
        if getattr(workload, key) is not None:
            raise ScenarioError(f"{where('workload', key)}: is for upserts, and this is a get")
    if asks and target.query is not None:
        raise ScenarioError(f"{where('target', 'query')}: the URL has a query already; keep one of the two")
    if isinstance(workload.data, FileData):
        _check_file(workload, target, where, asks)
    elif workload.data not in ("records", "states", "remote"):
        raise ScenarioError(
            f"{at}: a get by a query has records, states, a file, or remote; not {workload.data}"
        )
    elif workload.data == "remote" and not asks and target.query is None:
        raise ScenarioError(
            f"{at}: {url} does not say what to get",
            hint='name it: --query "SELECT * FROM TABLE", or in the URL: charrow://HOST:9006?query=TEXT',
        )
    elif workload.data == "states" and (asks or target.query is not None):
        raise ScenarioError(f"{at}: states are asked for by a query of their own, and one is given")
    elif workload.data == "remote":
        check_amount(workload, where)
    if target.ring is not None and not is_shared(url):
        raise ScenarioError(
            f"{where('target', 'ring')}: is of shared memory, and {url} goes without",
            hint="write charrow+shm://, or leave it out",
        )
    if target.wire_version == "1.1" and is_shared(url):
        raise ScenarioError(
            f"{where('target', 'wire_version')}: version 1.1 of the protocol has no shared memory; 1.2 has"
        )
    if target.wire_version == "1.1":
        for key, given in (("compression", target.compression), ("block_checksum", target.block_checksum)):
            if given:
                raise ScenarioError(f"{where('target', key)}: version 1.1 of the protocol has none; 1.2 has")
    if target.compression is not None and ":" in target.compression:
        raise ScenarioError(
            f"{where('target', 'compression')}: {target.compression}: charrow:// has lz4 and zstd, no levels"
        )


def _check_file(workload: Workload, target: Target, where: Any, asks: bool) -> None:
    at = where("workload", "data")
    if not is_local(target.url):
        raise ScenarioError(
            f"{at}: {target.url} has tables of its own, no files from here",
            hint="serve it there: venturi serve charrow --table NAME=FILE, then --query 'SELECT * FROM NAME'",
        )
    if asks or target.query is not None:
        raise ScenarioError(f"{at}: all rows of the file are asked for, and a query is given; keep one")
    for size in SIZES:
        if getattr(workload, size) is not None:
            raise ScenarioError(
                f"{where('workload', size)}: a file's rows are moved once, over all partitions together"
            )


def check_amount(workload: Workload, where: Any) -> None:
    for size in ("rows_per_stream", "bytes_per_stream"):
        if getattr(workload, size) is not None:
            raise ScenarioError(
                f"{where('workload', size)}: how many rows there are is the query's affair",
                hint="--query 'SELECT * FROM trips LIMIT 1000000'",
            )
