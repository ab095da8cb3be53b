"""What must fit together in one cell: operation, data, address and options; and the defaults that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules import charrow as queries
from venturi.plan.rules import plugins, reads, tables
from venturi.plan.rules import timeseries as ingests
from venturi.plan.settings import Target
from venturi.plan.workload import Workload
from venturi.targets.handicap import CLIENT_STAGES, nanoseconds
from venturi.targets.system import REFERENCE, has_tables, is_charrow, is_plugin, is_readable, scheme_of

if TYPE_CHECKING:
    from venturi.plan.scenario import Scenario
from venturi.plan.rules.databases import check_upsert
from venturi.plan.rules.exec import check_exec
from venturi.plan.rules.flight import check_flight, names_something
from venturi.plan.rules.http import check_http
from venturi.plan.rules.options import check_values
from venturi.plan.rules.shared import check_tls, only_ingest

__all__ = ["check_cell"]


def check_cell(scenario: Scenario, workload: Workload, target: Target, chosen: dict[str, Any]) -> None:
    """Whether a cell can be measured at all. Raises ScenarioError."""

    def where(table: str, key: str) -> str:
        return scenario.where("matrix" if key in chosen else table, key)

    url = target.url
    if is_plugin(url):
        plugins.check(workload, url, where)
    elif workload.operation == "upsert":
        check_upsert(workload, target, where)
    elif workload.operation == "ingest":
        ingests.check(workload, target, where)
    elif is_charrow(url):
        only_ingest(workload, where)
        queries.check(workload, target, where)
    elif has_tables(url) and not is_readable(url):
        only_ingest(workload, where)
        tables.check_table(workload, target, where)
    elif scheme_of(url) == "http+arrow":
        check_http(workload, target, where)
    elif scheme_of(url) == "exec":
        check_exec(workload, target, where)
    elif workload.operation == "get" and is_readable(url):
        only_ingest(workload, where)
        reads.check_get(workload, target, where)
    else:
        check_flight(workload, url, where)
    check_values(target, where)
    # Endpoints of what a plain Flight server holds may be TLS's.
    if scheme_of(url) != "flight" or not names_something(url):
        check_tls(target, where)
    _check_handicap(workload, target, where)


def _check_handicap(workload: Workload, target: Target, where: Any) -> None:
    """Whether the client has the stages that shall be slowed down."""
    if target.handicap is None:
        return
    at = where("target", "handicap")
    if target.url.startswith("empty:"):
        raise ScenarioError(f"{at}: {target.url} moves nothing, so it has no stage to slow down")
    known = [s for s in CLIENT_STAGES[workload.operation] if s != "verify" or workload.verify == "checksum"]
    for stage in nanoseconds(target.handicap):
        if stage not in known:
            raise ScenarioError(
                f"{at}: the client of a {workload.operation} has no stage {stage} here; "
                f"it has {', '.join(known)}",
                hint=f"slow the other end down: venturi serve {REFERENCE.get(scheme_of(target.url))} "
                f"--handicap {target.handicap}",
            )
