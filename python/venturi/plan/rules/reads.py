"""What a get of a table or a query may ask for, which ClickHouse and the databases share."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules.charrow import check_amount
from venturi.plan.settings import Target
from venturi.plan.workload import UPSERT, FileData, Workload
from venturi.targets.system import is_flight_sql, scheme_of

__all__ = ["check_data", "check_get", "check_shares"]

_NO_PARTS = ("adbc", "mysql")


def check_get(workload: Workload, target: Target, where: Any) -> None:
    """Whether a database can be asked for such data. Raises ScenarioError."""
    check_data(workload, target, where)
    if target.split == "parts" and scheme_of(target.url) == "mysql":
        raise ScenarioError(
            f"{where('target', 'split')}: mysql:// has no parts: its tables do not say where rows lie",
            hint="--split key --split-by COLUMN, or --split hash --split-by COLUMN",
        )
    if _has_tokens(target) and target.split not in (None, "parts", "none"):
        raise ScenarioError(
            f"{where('target', 'split')}: streams share rows of cassandra:// by ranges of tokens",
            hint="--split parts, or --split none: each reads all",
        )
    check_shares(workload, target, where)


def check_data(workload: Workload, target: Target, where: Any) -> None:
    """Whether such rows can be read, or put, there."""
    for key in ("key", "add", "working_set", *UPSERT):
        if getattr(workload, key) is not None:
            raise ScenarioError(
                f"{where('workload', key)}: is for upserts, and this is a {workload.operation}"
            )
    if workload.data not in ("records", "remote") and (
        not isinstance(workload.data, FileData) or workload.data.source != "file"
    ):
        raise ScenarioError(
            f"{where('workload', 'data')}: a {workload.operation} at {scheme_of(target.url)}:// has records, "
            "a file, or remote"
        )
    if target.table is not None and target.query is not None:
        raise ScenarioError(f"{where('target', 'query')}: a table is named as well; keep one of the two")


def check_shares(workload: Workload, target: Target, where: Any) -> None:
    """Whether it is said what is read, and how the streams share it."""
    at = where("workload", "data")
    if workload.data == "remote":
        _check_remote(workload, target, where)
    elif workload.duration is not None:
        raise ScenarioError(
            f"{where('workload', 'duration')}: a get of our own data writes them into a table "
            "first, and must know how many",
            hint="give --rows-per-stream, or read a table of the server's: --table NAME",
        )
    elif target.query is not None:
        raise ScenarioError(f"{at}: a query is about the server's own data", hint="leave data out")
    if target.split in ("none", "parts") and target.split_by is not None:
        raise ScenarioError(f"{where('target', 'split_by')}: is for split = hash and key")


def _check_remote(workload: Workload, target: Target, where: Any) -> None:
    if target.query is None and target.table is None:
        raise ScenarioError(
            f"{where('workload', 'data')}: {target.url} does not say what to get",
            hint='name it: --table trips, or --query "SELECT a, b FROM trips"',
        )
    check_amount(workload, where)
    if target.split in ("hash", "key") and target.split_by is None:
        raise ScenarioError(
            f"{where('target', 'split')}: {target.split} of which column?", hint="name it: --split-by id"
        )
    if target.split == "parts" and target.query is not None and not _has_tokens(target):
        raise ScenarioError(
            f"{where('target', 'split')}: parts are a table's; a query has none",
            hint="--split hash --split-by COLUMN",
        )
    shared = target.split is not None or target.split_by is not None or is_flight_sql(target.url)
    if workload.streams > 1 and not shared:
        raise ScenarioError(
            f"{where('workload', 'streams')}: how shall {workload.streams} streams share the rows?",
            hint=(
                ""
                if _has_tokens(target)
                else "--split hash --split-by COLUMN, --split key --split-by COLUMN, "
            )
            + ("--split parts, " if _has_parts(target) else "")
            + "or --split none: each reads all",
        )


def _has_parts(target: Target) -> bool:
    """Whether what is read lies in parts that streams can be dealt."""
    return _has_tokens(target) or (target.query is None and scheme_of(target.url) not in _NO_PARTS)


def _has_tokens(target: Target) -> bool:
    """Whether rows lie on a ring of tokens, of which a query too can name a range."""
    return scheme_of(target.url) == "cassandra"
