"""Rules that several systems share."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.workload import INGEST, Workload

__all__ = ["only_ingest"]


def only_ingest(workload: Workload, where: Any) -> None:
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
