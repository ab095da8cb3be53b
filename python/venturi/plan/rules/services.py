"""What a cell of Flight, Arrow over HTTP, a program, a Python target or a partitioned query may ask for."""

from __future__ import annotations

from urllib.parse import parse_qs

from venturi.plan.cell import Cell
from venturi.plan.scenario import Wrong
from venturi.plan.settings import Target
from venturi.plan.workload import SIZES, FileData, Workload
from venturi.targets.system import (
    NETWORK,
    PLUGINS,
    has_tables,
    is_charrow,
    is_local,
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


def quote_identifier(name: str) -> str:
    """A table's name as a query writes it."""
    return '"' + name.replace('"', '""') + '"'


def query_text(cell: Cell, table: str | None = None) -> str | None:
    """The query of a cell whose data are `states`, or the rows of this `table`; None for all other data."""
    p = cell.parameters
    if table is not None:
        return f"SELECT * FROM {quote_identifier(table)}"
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
        check_query_amount(workload, wrong)
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


def check_query_amount(workload: Workload, wrong: Wrong) -> None:
    for size in ("rows_per_stream", "bytes_per_stream"):
        if getattr(workload, size) is not None:
            raise wrong(
                f"{size}: how many rows there are is the query's affair",
                "--query 'SELECT * FROM trips LIMIT 1000000'",
            )
