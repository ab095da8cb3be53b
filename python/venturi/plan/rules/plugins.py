"""What a cell of a target in Python may ask for."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules.shared import only_ingest
from venturi.plan.workload import UPSERT, Workload
from venturi.targets.system import PLUGINS, is_plugin, scheme_of

__all__ = ["check", "gets_own"]


def gets_own(workload: Workload, url: str) -> bool:
    """Whether it is a get of rows that are the plugin's own."""
    return workload.operation == "get" and is_plugin(url) and PLUGINS[scheme_of(url)].gets_own


def check(workload: Workload, url: str, where: Any) -> None:
    """Raises ScenarioError."""
    operation, plugin = workload.operation, PLUGINS[scheme_of(url)]
    if operation not in plugin.operations:
        raise ScenarioError(
            f"{where('workload', 'operation')}: {plugin.scheme}:// of {plugin.package} has no {operation}; "
            f"it has {' and '.join(plugin.operations)}"
        )
    for key in ("key", "add", "working_set", *UPSERT):
        if getattr(workload, key) is not None:
            raise ScenarioError(f"{where('workload', key)}: is for upserts, and this is a {operation}")
    only_ingest(workload, where)
    own, remote = gets_own(workload, url), workload.data == "remote"
    if own == remote and workload.data not in ("usage", "states", "metrics", "archive"):
        return
    at = where("workload", "data")
    if own:
        raise ScenarioError(
            f"{at}: a get from {plugin.scheme}:// moves rows of its own, not {workload.data}",
            hint='leave data out, or set it to "remote"',
        )
    raise ScenarioError(
        f"{at}: a {operation} of {plugin.scheme}:// has records or a file, not {workload.data}"
    )
