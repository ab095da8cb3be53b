"""What a cell of ClickHouse, or of a database behind a driver, may ask for."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules import reads
from venturi.plan.settings import Target
from venturi.plan.workload import Workload

__all__ = ["check_tables"]


def check_tables(workload: Workload, target: Target, where: Any) -> None:
    """Whether a table there can be asked for, or given, such data. Raises ScenarioError."""
    reads.check_data(workload, target, where)
    if workload.operation == "get":
        reads.check_shares(workload, target, where)
        return
    if workload.data == "remote":
        at = where("workload", "data")
        raise ScenarioError(f"{at}: a put needs data of its own, records or a file, not remote")
    for key in ("query", "split", "split_by"):
        if getattr(target, key) is not None:
            raise ScenarioError(f"{where('target', key)}: is for gets, and this is a put")
