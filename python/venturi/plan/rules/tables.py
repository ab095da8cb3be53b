"""What a cell of a server that takes gets and puts of tables may ask for: ClickHouse, Flight SQL, ADBC."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules import reads
from venturi.plan.settings import Target
from venturi.plan.workload import Workload
from venturi.targets.system import is_flight_sql

__all__ = ["check_table"]


def check_table(workload: Workload, target: Target, where: Any) -> None:
    """Whether such a server can be asked for, or given, such data. Raises ScenarioError."""
    reads.check_data(workload, target, where)
    if is_flight_sql(target.url):
        _check_flight_sql(workload, target, where)
    if workload.operation == "get":
        reads.check_shares(workload, target, where)
        return
    if workload.data == "remote":
        at = where("workload", "data")
        raise ScenarioError(f"{at}: a put needs data of its own, records or a file, not remote")
    for key in ("query", "split", "split_by"):
        if getattr(target, key) is not None:
            raise ScenarioError(f"{where('target', key)}: is for gets, and this is a put")


def _check_flight_sql(workload: Workload, target: Target, where: Any) -> None:
    """Whether SQL over Flight has what is asked for."""
    if target.split == "parts":
        raise ScenarioError(
            f"{where('target', 'split')}: the parts of a result are its endpoints here, which the streams "
            "share where nothing is said",
            hint="leave --split out, or share the rows: --split hash --split-by COLUMN",
        )
    if workload.operation == "get" and target.compression is not None:
        raise ScenarioError(
            f"{where('target', 'compression')}: is for puts: what a Flight SQL server sends is its own choice"
        )
    if workload.operation == "put" and target.statement == "text":
        raise ScenarioError(
            f"{where('target', 'statement')}: a put is a bulk ingest, or an INSERT that is prepared",
            hint="leave it out, or --statement prepared",
        )
