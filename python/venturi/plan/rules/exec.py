"""What a cell of a program may ask for."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules.flight import check_rows
from venturi.plan.settings import Target
from venturi.plan.workload import Workload

__all__ = ["check_exec"]


def check_exec(workload: Workload, target: Target, where: Any) -> None:
    """Whether a program can write, or be given, such rows. Raises ScenarioError."""
    check_rows(workload, target.url, where)
    at, text = where("workload", "data"), target.writes in ("csv", "lines")
    if target.command is None and (text or workload.data == "remote"):
        raise ScenarioError(
            f"{where('target', 'writes') if text else at}: Venturi's own program writes records or a file, "
            "in Arrow",
            hint='name one that writes rows: --command "cat rows.csv"',
        )
    if text and workload.operation == "put":
        raise ScenarioError(
            f"{where('target', 'writes')}: a put is an Arrow IPC stream; {target.writes} is for gets"
        )
    if text and workload.data != "remote":
        raise ScenarioError(
            f"{at}: rows of {target.writes} are counted, and cannot be held against {workload.data}",
            hint="leave data out",
        )
