"""What a cell measures where its scenario does not say: the size of a batch, the amount of work."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from venturi.plan.workload import SIZES, Workload
from venturi.targets.system import (
    PLUGINS,
    is_database,
    is_driver,
    is_program,
    is_readable,
    is_time_series,
    scheme_of,
)

if TYPE_CHECKING:
    from venturi.plan.scenario import Scenario
from venturi.plan.rules.options import addresses

__all__ = ["LINK_NS", "UPSERT_NS", "amount", "settled"]

LINK_NS = 5_000_000_000
"""How long a trial over a link lasts where nothing says how much: nine round trips by a satellite."""
UPSERT_NS = 10_000_000_000
"""How long a trial of upserts lasts where nothing says how much."""
_UPSERT_BATCH = 500
READING = {"page_size", "query", "split", "split_by", "wire_format"}
"""Options of a database that only a get has."""
_INGEST_BATCH = 5000
_DRIVER_BATCH = 65_536
"""Rows that are asked of a driver at a time: the way to its thread and back shall cost little."""


def settled(scenario: Scenario) -> Scenario:
    """Defaults that depend on where rows go: databases take upserts, and an upsert has rows with a key."""
    workload, axes = scenario.workload, scenario.axes
    update: dict[str, Any] = {}

    def open_(key: str) -> bool:
        return key not in workload.model_fields_set and key not in axes

    if open_("operation") and all(map(is_database, addresses(scenario))):
        update["operation"] = "get" if _is_read(scenario) else "upsert"
    if open_("operation") and all(map(is_time_series, addresses(scenario))):
        update["operation"] = "ingest"
    plugins = [PLUGINS.get(scheme_of(url)) for url in addresses(scenario)]
    if open_("operation") and all(plugin is not None and plugin.operations == ["put"] for plugin in plugins):
        update["operation"] = "put"
    if open_("rows_per_batch") and all(map(is_driver, addresses(scenario))):
        update["rows_per_batch"] = _DRIVER_BATCH
    operations = axes.get("operation", [update.get("operation", workload.operation)])
    commands = axes.get("command", [scenario.target.command])
    programs = all(map(is_program, addresses(scenario))) and all(commands)
    if open_("data") and programs and set(operations) == {"get"}:
        # A user's program knows nothing of our records, unless they are named.
        update["data"] = "remote"
    if all(operation == "upsert" for operation in operations):
        if open_("data"):
            update["data"] = "usage"
        if open_("rows_per_batch"):
            update["rows_per_batch"] = _UPSERT_BATCH
    if all(operation == "ingest" for operation in operations):
        if open_("data"):
            update["data"] = "metrics"
        if open_("rows_per_batch"):
            update["rows_per_batch"] = _INGEST_BATCH
    return replace(scenario, workload=workload.model_copy(update=update)) if update else scenario


def _is_read(scenario: Scenario) -> bool:
    """Whether databases are asked for what only a get has."""
    given = {*scenario.target.given(), *scenario.axes}
    return bool(given & READING) and all(map(is_readable, addresses(scenario)))


def amount(workload: Workload, width: float | None, over_link: bool = False) -> tuple[int | None, int | None]:
    """Rows per stream and time in ns of a cell; both None: whatever the server holds is as long as it is."""
    if workload.bytes_per_stream is not None:
        return max(1, math.ceil(workload.bytes_per_stream / width)) if width else None, None
    if any(getattr(workload, size) is not None for size in SIZES):
        return workload.rows_per_stream, workload.duration
    if workload.operation == "upsert":
        return None, UPSERT_NS
    if workload.operation == "ingest" and workload.data not in ("metrics", "archive"):
        # Files and archives are as long as they are.
        return None, None
    if over_link and workload.data != "remote":
        # What takes a moment here takes an hour over a slow link.
        return None, LINK_NS
    # As Arrow's own benchmark.
    return (None if workload.data == "remote" else 10_000_000), None
