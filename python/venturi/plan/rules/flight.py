"""What a cell of Flight may ask for."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules import timeseries as ingests
from venturi.plan.rules.shared import only_ingest
from venturi.plan.workload import UPSERT, Workload
from venturi.targets.system import (
    has_tables,
    is_charrow,
    is_database,
    is_plugin,
    is_readable,
    is_time_series,
    scheme_of,
)
from venturi.targets.urls import split_url

__all__ = ["check_flight", "check_rows", "names_something"]


def names_something(url: str) -> bool:
    """Whether the URL names a table, a command, a ticket or a query, and not only a server."""
    parts = split_url(url)
    if is_charrow(url):
        # Its path is the database that the query is asked in.
        return bool(parts.query)
    if has_tables(url) or is_plugin(url):
        return False
    return parts.scheme != "empty" and bool(parts.path.strip("/") or parts.query)


def check_rows(workload: Workload, url: str, where: Any) -> None:
    """Whether the data are rows that a get or a put moves. Raises ScenarioError."""
    operation = workload.operation
    if is_readable(url):
        raise ScenarioError(
            f"{where('workload', 'operation')}: {scheme_of(url)}:// takes gets and upserts, no {operation}s",
            hint="leave the operation out, or set it to get or upsert",
        )
    for found, taken in ((is_database(url), "upsert"), (is_time_series(url), "ingest")):
        if found:
            raise ScenarioError(
                f"{where('workload', 'operation')}: {scheme_of(url)}:// takes {taken}s, not a {operation}",
                hint=f"leave the operation out, or set it to {taken}",
            )
    for key in ("key", "add", "working_set", *UPSERT):
        if getattr(workload, key) is not None:
            raise ScenarioError(f"{where('workload', key)}: is for upserts, and this is a {operation}")
    only_ingest(workload, where)
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
    if operation == "put" and workload.data == "remote":
        raise ScenarioError(f"{at}: a put needs data of its own, records or a file, not remote")


def check_flight(workload: Workload, url: str, where: Any) -> None:
    """Whether a get or a put can go this way with these data."""
    check_rows(workload, url, where)
    at = where("workload", "data")
    if workload.operation == "put":
        return
    if workload.data == "remote":
        if not names_something(url) and not url.startswith("empty:"):
            raise ScenarioError(
                f"{at}: {url} does not say what to get",
                hint="name it in the URL: "
                + (
                    "flight://HOST:PORT/TABLE, ?command=TEXT or ?ticket=TEXT"
                    if scheme_of(url) != "http+arrow"
                    else "http+arrow://HOST:PORT/PATH"
                ),
            )
    elif workload.data != "records" and names_something(url):
        raise ScenarioError(
            f"{at}: a get from {url} moves what the server holds, not a file",
            hint='leave data out, or set it to "remote"',
        )
