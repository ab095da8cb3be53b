"""What a cell of Arrow over HTTP may ask for."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules.flight import check_flight
from venturi.plan.settings import Target
from venturi.plan.workload import Workload

__all__ = ["check_http"]


def check_http(workload: Workload, target: Target, where: Any) -> None:
    """Whether a get or a put can go this way with these data. Raises ScenarioError."""
    check_flight(workload, target.url, where)
    if workload.operation == "put" and target.body == "length" and workload.duration is not None:
        raise ScenarioError(
            f"{where('target', 'body')}: the length is said before the body is sent, and a duration ends it "
            "at any row",
            hint="--rows-per-stream 10M instead of the duration, or --body chunked",
        )
