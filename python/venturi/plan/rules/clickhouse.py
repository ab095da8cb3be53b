"""What a cell of ClickHouse may ask for."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules.charrow import check_amount
from venturi.plan.settings import Target
from venturi.plan.workload import UPSERT, FileData, Workload

__all__ = ["check_clickhouse"]


def check_clickhouse(workload: Workload, target: Target, where: Any) -> None:
    """Whether a ClickHouse server can be asked for, or given, such data. Raises ScenarioError."""
    at, get = where("workload", "data"), workload.operation == "get"
    for key in ("key", "add", "working_set", *UPSERT):
        if getattr(workload, key) is not None:
            raise ScenarioError(
                f"{where('workload', key)}: is for upserts, and this is a {workload.operation}"
            )
    if workload.data not in ("records", "remote") and (
        not isinstance(workload.data, FileData) or workload.data.source != "file"
    ):
        raise ScenarioError(f"{at}: a {workload.operation} at clickhouse:// has records, a file, or remote")
    if target.table is not None and target.query is not None:
        raise ScenarioError(f"{where('target', 'query')}: a table is named as well; keep one of the two")
    if not get:
        if workload.data == "remote":
            raise ScenarioError(f"{at}: a put needs data of its own, records or a file, not remote")
        for key in ("query", "split", "split_by"):
            if getattr(target, key) is not None:
                raise ScenarioError(f"{where('target', key)}: is for gets, and this is a put")
        return
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
    if target.split == "parts" and target.query is not None:
        raise ScenarioError(f"{where('target', 'split')}: parts are a table's; a query has none")
    if workload.streams > 1 and target.split is None and target.split_by is None:
        raise ScenarioError(
            f"{where('workload', 'streams')}: how shall {workload.streams} streams share the rows?",
            hint="--split hash --split-by COLUMN, --split key --split-by COLUMN, --split parts, or "
            "--split none: each reads all",
        )
