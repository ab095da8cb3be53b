"""What a cell of a database may ask for."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.rules import timeseries as ingests
from venturi.plan.rules.shared import only_ingest
from venturi.plan.settings import Target
from venturi.plan.workload import FileData, Workload
from venturi.targets.system import (
    ONE_AT_A_TIME,
    SERVERS,
    TIME_SERIES,
    in_process,
    is_local,
    is_time_series,
    scheme_of,
)

__all__ = ["check_upsert"]


def check_upsert(workload: Workload, target: Target, where: Any) -> None:
    url, data = target.url, workload.data
    transfers = ("flight", "flightsql", "http+arrow", "charrow", "clickhouse", "adbc", "exec", "pipe")
    if scheme_of(url) in transfers:
        takes = "gets" if scheme_of(url) == "charrow" else "gets and puts"
        raise ScenarioError(
            f"{where('workload', 'operation')}: {url} takes {takes}, no upserts",
            hint="name a database: --target mysql://HOST/DATABASE, or sqlite://local for a first try",
        )
    if is_time_series(url):
        raise ScenarioError(
            f"{where('workload', 'operation')}: {scheme_of(url)}:// takes ingests, no upserts",
            hint="leave the operation out, or set it to ingest",
        )
    only_ingest(workload, where)
    if ingests.is_points(data):
        raise ScenarioError(
            f"{where('workload', 'data')}: points are for ingests; an upsert has rows with a key"
        )
    if data != "usage" and not isinstance(data, FileData):
        raise ScenarioError(
            f"{where('workload', 'data')}: an upsert needs rows with a key, and {data} have none",
            hint='leave data out for "usage", or name a file and its key: --data t.parquet --key a,b',
        )
    if isinstance(data, FileData):
        if workload.key is None:
            raise ScenarioError(
                f"{where('workload', 'data')}: an upsert of a file needs its key: columns by which rows meet",
                hint="name them: --key a,b, and those that are added up: --add hits",
            )
        both = [name for name in workload.add or () if name in workload.key]
        if both:
            raise ScenarioError(f"{where('workload', 'add')}: {both[0]} is a part of the key")
        if workload.working_set is not None:
            raise ScenarioError(f"{where('workload', 'working_set')}: a file has the rows that it has")
    else:
        for key in ("key", "add"):
            if getattr(workload, key) is not None:
                raise ScenarioError(
                    f"{where('workload', key)}: usage has its own key and sums",
                    hint="name the file that has these columns: --data t.parquet",
                )
    _check_writes(workload, target, where)


def _check_writes(workload: Workload, target: Target, where: Any) -> None:
    """Ways of writing that exclude one another."""
    batch = workload.rows_per_batch
    if target.batch == "none" and batch != 1:
        raise ScenarioError(
            f"{where('workload', 'rows_per_batch')}: batch = none writes every row by itself, "
            f"which is 1 row per batch, not {batch:,}",
            hint="--rows-per-batch 1 --in-flight 256 keeps as many rows in flight",
        )
    if workload.in_flight not in (None, 1) and scheme_of(target.url) in ONE_AT_A_TIME:
        raise ScenarioError(
            f"{where('workload', 'in_flight')}: {scheme_of(target.url)}:// takes one batch at a time "
            "on a connection",
            hint=f"take more connections: --streams {workload.in_flight}",
        )
    if is_local(target.url) and target.setup is False:
        raise ScenarioError(
            f"{where('target', 'setup')}: {target.url} is new and empty, and needs its set-up",
            hint="name a database of yours to upsert into a table that is there",
        )
    if is_local(target.url) and target.keep:
        raise ScenarioError(
            f"{where('target', 'keep')}: {target.url} goes when the run ends, and the table with it",
            hint=_kept(target.url),
        )
    if target.partitions is not None and target.setup is False:
        raise ScenarioError(f"{where('target', 'partitions')}: is for set-up, which is switched off")
    if target.dialect in TIME_SERIES:
        raise ScenarioError(
            f"{where('target', 'dialect')}: {target.dialect} has no statements; it is for ingests"
        )
    if target.method == "copy" and target.statement is not None:
        raise ScenarioError(f"{where('target', 'statement')}: method = copy moves rows without statements")


def _kept(url: str) -> str:
    """How to have a database that outlives the run."""
    scheme = scheme_of(url)
    if in_process(url):
        return f"name a file: --target {scheme}:///path/to/file.db"
    return f"start one that stays: venturi serve {SERVERS[scheme]}"
