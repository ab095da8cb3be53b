"""What a cell of a database, or of a store of time series, may ask for."""

from __future__ import annotations

from typing import Any

from venturi.plan.rules.services import check_query_amount
from venturi.plan.scenario import Wrong
from venturi.plan.settings import Target
from venturi.plan.workload import INGEST, FileData, Workload
from venturi.targets.options import VALUES
from venturi.targets.system import (
    ONE_AT_A_TIME,
    SERVERS,
    TIME_SERIES,
    in_process,
    is_flight_sql,
    is_local,
    is_ours,
    scheme_of,
)


def check_upsert(workload: Workload, target: Target, wrong: Wrong) -> None:
    data = workload.data
    if isinstance(data, FileData):
        if workload.key is None:
            raise wrong(
                "data: an upsert of a file needs its key: columns by which rows meet",
                "name them: --key a,b, and those that are added up: --add hits",
            )
        both = [name for name in workload.add or () if name in workload.key]
        if both:
            raise wrong(f"add: {both[0]} is a part of the key")
        if workload.working_set is not None:
            raise wrong("working_set: a file has the rows that it has")
    else:
        for key in ("key", "add"):
            if getattr(workload, key) is not None:
                raise wrong(
                    f"{key}: usage has its own key and sums",
                    "name the file that has these columns: --data t.parquet",
                )
    _check_writes(workload, target, wrong)


def _check_writes(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Ways of writing that exclude one another."""
    batch = workload.rows_per_batch
    if target.batch == "none" and batch != 1:
        raise wrong(
            "rows_per_batch: batch = none writes every row by itself, which is 1 row per batch, not "
            f"{batch:,}",
            "--rows-per-batch 1 --in-flight 256 keeps as many rows in flight",
        )
    if workload.in_flight not in (None, 1) and scheme_of(target.url) in ONE_AT_A_TIME:
        raise wrong(
            f"in_flight: {scheme_of(target.url)}:// takes one batch at a time on a connection",
            f"take more connections: --streams {workload.in_flight}",
        )
    if is_local(target.url) and target.setup is False:
        raise wrong(
            f"setup: {target.url} is new and empty, and needs its set-up",
            "name a database of yours to upsert into a table that is there",
        )
    if is_local(target.url) and target.keep:
        raise wrong(f"keep: {target.url} goes when the run ends, and the table with it", _kept(target.url))
    if target.partitions is not None and target.setup is False:
        raise wrong("partitions: is for set-up, which is switched off")
    if target.dialect in TIME_SERIES:
        raise wrong(f"dialect: {target.dialect} has no statements; it is for ingests")
    if target.method == "copy" and target.statement is not None:
        raise wrong("statement: method = copy moves rows without statements")


def _kept(url: str) -> str:
    """How to have a database that outlives the run."""
    scheme = scheme_of(url)
    if in_process(url):
        return f"name a file: --target {scheme}:///path/to/file.db"
    return f"start one that stays: venturi serve {SERVERS[scheme]}"


def _check_shares(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Whether it is said what is read, and how the streams share it."""
    if workload.data == "remote":
        _check_remote(workload, target, wrong)
    elif workload.duration is not None:
        raise wrong(
            "duration: a get of our own data writes them into a table first, and must know how many",
            "give --rows-per-stream, or read a table of the server's: --table NAME",
        )
    elif target.query is not None:
        raise wrong("data: a query is about the server's own data", "leave data out")
    if target.split in ("none", "parts") and target.split_by is not None:
        raise wrong("split_by: is for split = hash and key")


def _check_remote(workload: Workload, target: Target, wrong: Wrong) -> None:
    if target.query is None and target.table is None:
        raise wrong(
            f"data: {target.url} does not say what to get",
            'name it: --table trips, or --query "SELECT a, b FROM trips"',
        )
    check_query_amount(workload, wrong)
    if target.split in ("hash", "key") and target.split_by is None:
        raise wrong(f"split: {target.split} of which column?", "name it: --split-by id")
    if target.split == "parts" and target.query is not None and not _has_tokens(target):
        raise wrong("split: parts are a table's; a query has none", "--split hash --split-by COLUMN")
    shared = target.split is not None or target.split_by is not None or is_flight_sql(target.url)
    if workload.streams > 1 and not shared:
        raise wrong(
            f"streams: how shall {workload.streams} streams share the rows?",
            ("" if _has_tokens(target) else "--split hash --split-by COLUMN, --split key --split-by COLUMN, ")
            + ("--split parts, " if _has_parts(target) else "")
            + "or --split none: each reads all",
        )


def _has_parts(target: Target) -> bool:
    """Whether what is read lies in parts that streams can be dealt."""
    ways = VALUES.get(("split", scheme_of(target.url)), ("parts",))
    return "parts" in ways and (_has_tokens(target) or target.query is None)


def _has_tokens(target: Target) -> bool:
    """Whether rows lie on a ring of tokens, of which a query too can name a range."""
    return scheme_of(target.url) == "cassandra"


def check_table(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Whether such a server can be asked for, or given, such data. Raises ScenarioError."""
    if target.table is not None and target.query is not None:
        raise wrong("query: a table is named as well; keep one of the two")
    if workload.operation == "get":
        if is_flight_sql(target.url) and target.compression is not None:
            raise wrong("compression: is for puts: what a Flight SQL server sends is its own choice")
        _check_shares(workload, target, wrong)
        return
    for key in ("query", "split", "split_by"):
        if getattr(target, key) is not None:
            raise wrong(f"{key}: is for gets, and this is a put")
    if is_flight_sql(target.url) and target.statement == "text":
        raise wrong(
            "statement: a put is a bulk ingest, or an INSERT that is prepared",
            "leave it out, or --statement prepared",
        )


METRICS = 10
"""Metrics of a host of `metrics`, all in one row."""


def is_archive(data: object) -> bool:
    """Whether these points come as archives, made before or for the run."""
    return data == "archive" or (isinstance(data, FileData) and data.source == "archive")


def is_made(workload: Workload) -> bool:
    """Whether Venturi makes the points, from a seed."""
    return workload.operation == "ingest" and workload.data in ("metrics", "archive")


def check_ingest(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Whether such points can go there. Raises ScenarioError."""
    if target.dialect is not None and target.dialect not in TIME_SERIES:
        raise wrong(f"dialect: an ingest has no dialect {target.dialect}; it has {', '.join(TIME_SERIES)}")
    for key in ("messages", "digits") if is_archive(workload.data) else ():
        if getattr(target, key) is not None:
            raise wrong(f"{key}: archives hold their messages as they were made")
    columns = [key for key in ("time", "tags", "metric") if getattr(workload, key) is not None]
    columns += ["values"] if isinstance(workload.values, list) else []
    if columns and not (isinstance(workload.data, FileData) and workload.data.source == "file"):
        raise wrong(f"{columns[0]}: is for the columns of a file, and this has none")
    for key in ("hosts", "tick", "start") if not is_made(workload) else ():
        if getattr(workload, key) is not None:
            raise wrong(f"{key}: is for metrics; these data have their own")
    hosts = workload.hosts or INGEST["hosts"]
    if is_made(workload) and workload.streams > hosts:
        raise wrong(
            f"streams: {workload.streams} streams share {hosts} hosts, and a series belongs to one stream",
            f"take more hosts: --hosts {workload.streams}",
        )
    if workload.data == "archive" and workload.duration is not None:
        raise wrong(
            "duration: archives are made for the run, and must know how long to be",
            "give points_per_stream or bytes_per_stream instead of a duration",
        )
    if workload.generate == "ahead" and workload.duration is not None:
        raise wrong(
            "generate: nobody knows ahead how many points a duration takes",
            "give points_per_stream instead of a duration, or generate inline",
        )
    if target.http_port is not None and is_ours(target.url):
        raise wrong(f"http_port: {target.url} is on free ports")
    if target.http_port is not None and target.url.startswith("influx+http://"):
        raise wrong(f"http_port: the port of {target.url} is the one in the URL")


def ingest_parameters(workload: Workload) -> dict[str, Any]:
    """The parameters that only ingests have; null elsewhere and where they mean nothing."""
    made = is_made(workload)
    file = workload.operation == "ingest" and isinstance(workload.data, FileData)
    return {
        "hosts": (workload.hosts or INGEST["hosts"]) if made else None,
        "tick_ns": (workload.tick or INGEST["tick"]) if made else None,
        "start_unix_ns": workload.start if made else None,
        **{name: getattr(workload, name) if file else None for name in ("time", "tags", "metric")},
    }
