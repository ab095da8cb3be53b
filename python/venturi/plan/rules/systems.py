"""What a cell may ask of the system that its address names."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from venturi.plan.cell import Cell
from venturi.plan.scenario import Wrong
from venturi.plan.settings import Target
from venturi.plan.workload import INGEST, SIZES, FileData, Workload
from venturi.targets.options import VALUES
from venturi.targets.system import (
    NETWORK,
    ONE_AT_A_TIME,
    PLUGINS,
    SERVERS,
    TIME_SERIES,
    has_tables,
    in_process,
    is_charrow,
    is_flight_sql,
    is_local,
    is_ours,
    is_plugin,
    is_shared,
    is_unix,
    scheme_of,
)
from venturi.targets.urls import split_url


def check_tls(target: Target, wrong: Wrong) -> None:
    """Whether options of TLS go with an address that wants TLS: without it all would go in the clear."""
    scheme = scheme_of(target.url)
    if scheme not in NETWORK or target.url.startswith(f"{scheme}+tls:"):
        return
    for key in ("tls_insecure", "tls_ca", "tls_certificate", "tls_key", "tls_server_name"):
        if getattr(target, key):
            raise wrong(
                f"{key}: is for TLS, and {scheme}:// goes without it",
                "leave it out: a Unix socket has no TLS"
                if is_unix(target.url)
                else f"write {scheme}+tls://, or leave it out",
            )


def names_something(url: str) -> bool:
    """Whether the URL names a table, a command, a ticket or a query, and not only a server."""
    parts = split_url(url)
    if is_charrow(url):
        # Its path is the database that the query is asked in.
        return bool(parts.query)
    if has_tables(url) or is_plugin(url):
        return False
    return parts.scheme != "empty" and bool(parts.path.strip("/") or parts.query)


def check_flight(workload: Workload, url: str, wrong: Wrong) -> None:
    """Whether a get or a put can go this way with these data."""
    if workload.operation == "put":
        return
    if workload.data == "remote":
        if not names_something(url) and not url.startswith("empty:"):
            raise wrong(
                f"data: {url} does not say what to get",
                "name it in the URL: "
                + (
                    "flight://HOST:PORT/TABLE, ?command=TEXT or ?ticket=TEXT"
                    if scheme_of(url) != "http+arrow"
                    else "http+arrow://HOST:PORT/PATH"
                ),
            )
    elif workload.data != "records" and names_something(url):
        raise wrong(
            f"data: a get from {url} moves what the server holds, not a file",
            'leave data out, or set it to "remote"',
        )


def check_http(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Whether a get or a put can go this way with these data. Raises ScenarioError."""
    check_flight(workload, target.url, wrong)
    if workload.operation == "put" and target.body == "length" and workload.duration is not None:
        raise wrong(
            "body: the length is said before the body is sent, and a duration ends it at any row",
            "--rows-per-stream 10M instead of the duration, or --body chunked",
        )


def check_exec(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Whether a program can write, or be given, such rows. Raises ScenarioError."""
    text = target.writes in ("csv", "lines")
    if target.command is None and (text or workload.data == "remote"):
        raise wrong(
            f"{'writes' if text else 'data'}: Venturi's own program writes records or a file, in Arrow",
            'name one that writes rows: --command "cat rows.csv"',
        )
    if text and workload.operation == "put":
        raise wrong(f"writes: a put is an Arrow IPC stream; {target.writes} is for gets")
    if text and workload.data != "remote":
        raise wrong(
            f"data: rows of {target.writes} are counted, and cannot be held against {workload.data}",
            "leave data out",
        )


def gets_own(workload: Workload, url: str) -> bool:
    """Whether it is a get of rows that are the plugin's own."""
    return workload.operation == "get" and is_plugin(url) and PLUGINS[scheme_of(url)].gets_own


def is_file(workload: Workload, url: str) -> bool:
    """Whether a server of ours is given this file as a table, whose rows a query moves once."""
    return is_charrow(url) and isinstance(workload.data, FileData)


def asks_query(target: Target, url: str) -> bool:
    """Whether the options name what the server shall give of its own."""
    tables = has_tables(url)
    return (target.query is not None and (is_charrow(url) or tables)) or (target.table is not None and tables)


def query_text(cell: Cell, table: str | None = None) -> str | None:
    """The query of a cell whose data are `states`, or the rows of this `table`; None for all other data."""
    p = cell.parameters
    if table is not None:
        return 'SELECT * FROM "{}"'.format(table.replace('"', '""'))
    if p["data"] != "states":
        return None
    rows = [f"rows = {p['rows_per_stream'] * p['streams']}"] if p["rows_per_stream"] is not None else []
    arguments = ", ".join([*rows, f"seed = {p['seed']}", f"block_rows = {p['rows_per_batch']}"])
    return f"SELECT * FROM state_rows({arguments})"


def check_query(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Whether such data come by a query. Raises ScenarioError."""
    url = target.url
    asks = "query" in parse_qs(split_url(url).query)
    if asks and target.query is not None:
        raise wrong("query: the URL has a query already; keep one of the two")
    if isinstance(workload.data, FileData):
        _check_file(workload, target, wrong, asks)
    elif workload.data == "remote" and not asks and target.query is None:
        raise wrong(
            f"data: {url} does not say what to get",
            'name it: --query "SELECT * FROM TABLE", or in the URL: charrow://HOST:9006?query=TEXT',
        )
    elif workload.data == "states" and (asks or target.query is not None):
        raise wrong("data: states are asked for by a query of their own, and one is given")
    elif workload.data == "remote":
        _check_query_amount(workload, wrong)
    if target.ring is not None and not is_shared(url):
        raise wrong(
            f"ring: is of shared memory, and {url} goes without", "write charrow+shm://, or leave it out"
        )
    if target.wire_version == "1.1" and is_shared(url):
        raise wrong("wire_version: version 1.1 of the protocol has no shared memory; 1.2 has")
    if target.wire_version == "1.1":
        for key, value in (("compression", target.compression), ("block_checksum", target.block_checksum)):
            if value:
                raise wrong(f"{key}: version 1.1 of the protocol has none; 1.2 has")
    if target.compression is not None and ":" in target.compression:
        raise wrong(f"compression: {target.compression}: charrow:// has lz4 and zstd, no levels")


def _check_file(workload: Workload, target: Target, wrong: Wrong, asks: bool) -> None:
    if not is_local(target.url):
        raise wrong(
            f"data: {target.url} has tables of its own, no files from here",
            "serve it there: venturi serve charrow --table NAME=FILE, then --query 'SELECT * FROM NAME'",
        )
    if asks or target.query is not None:
        raise wrong("data: all rows of the file are asked for, and a query is given; keep one")
    for size in SIZES:
        if getattr(workload, size) is not None:
            raise wrong(f"{size}: a file's rows are moved once, over all partitions together")


def _check_query_amount(workload: Workload, wrong: Wrong) -> None:
    for size in ("rows_per_stream", "bytes_per_stream"):
        if getattr(workload, size) is not None:
            raise wrong(
                f"{size}: how many rows there are is the query's affair",
                "--query 'SELECT * FROM trips LIMIT 1000000'",
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
    _check_query_amount(workload, wrong)
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
