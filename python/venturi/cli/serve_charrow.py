"""`venturi serve charrow`: results of queries as Arrow blocks, shared among partitions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from venturi.cli import serve_flags as flags
from venturi.cli import serving
from venturi.common import runtime
from venturi.common.errors import VenturiError
from venturi.common.texts import say

__all__ = ["charrow"]

_STREAMS = {b"ARROW1": "Arrow IPC file", b"PAR1": "Parquet", b"\xff\xff\xff\xff": "Arrow IPC stream"}
_LEAST_MEMORY = 2**16


@flags.shared("block", "password", port=9006)
def charrow(
    shared: Callable[[], dict[str, Any]],
    table: Annotated[list[str] | None, flags.table("a Parquet, Arrow or CSV file to hold in memory")] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            "--stream",
            help="NAME=FILE: a Parquet or Arrow file to read from disk for every query. Repeatable.",
            show_default=False,
        ),
    ] = None,
    ready: Annotated[
        list[str] | None, typer.Option("--ready", help="NAME=FILE, an Arrow file made by a run.", hidden=True)
    ] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="builtin, or chdb: ClickHouse's engine, for any query of its SQL.")
    ] = "builtin",
    data: Annotated[
        Path | None,
        typer.Option("--data", help="chdb: its directory; without it nothing is kept.", show_default=False),
    ] = None,
    rows_per_block: Annotated[
        str, typer.Option("--rows-per-block", help="Rows of a block of --table, as 64Ki.")
    ] = "64Ki",
    query_memory: Annotated[
        str, typer.Option("--query-memory", help="Most bytes of a query that are encoded and not yet sent.")
    ] = "64MiB",
    ring_memory: Annotated[
        str,
        typer.Option(
            "--ring-memory",
            help="Most bytes of shared memory, of all connections by charrow+shm:// together; 0: none.",
        ),
    ] = "512MiB",
    max_queries: Annotated[int, typer.Option("--max-queries", min=1, help="Most queries at a time.")] = 64,
    patience: Annotated[
        str, typer.Option("--patience", help="For a client to end what it has begun to say.")
    ] = "10s",
    stall_timeout: Annotated[
        str, typer.Option("--stall-timeout", help="For a partition that does not read what it was dealt.")
    ] = "30s",
    as_json: flags.Json = False,
    exit_with_parent: flags.ExitWithParent = False,
) -> None:
    """Serve charrow: Arrow blocks of a query over TCP, each to one of the partitions that share it."""
    from venturi.common.runtime import load_core
    from venturi.inputs.files import DataStore

    memory_bytes = serving.count("--query-memory", query_memory)
    if memory_bytes < _LEAST_MEMORY:
        raise VenturiError(f"--query-memory {query_memory}: must be at least 64KiB")
    rows = serving.count("--rows-per-block", rows_per_block)
    spec = {
        "server": "charrow",
        "query_memory_bytes": memory_bytes,
        "max_queries": max_queries,
        "ring_memory_bytes": serving.count("--ring-memory", ring_memory, least=0),
        "patience_ns": serving.nanoseconds("--patience", patience),
        "stall_timeout_ns": serving.nanoseconds("--stall-timeout", stall_timeout),
        **shared(),
    }
    queries = _engine(engine, data, [*(table or []), *(stream or []), *(ready or [])])
    core = load_core()
    with DataStore() as store:
        tables = [_table(store, text, rows) for text in table or []]
        store.forget_tables()
        tables += [
            dict(zip(("name", "ipc"), serving.named("--ready", text), strict=True)) for text in ready or []
        ]
        streams = [_stream(text) for text in stream or []]
        _distinct([*tables, *streams])
        spec |= {
            "tables": tables,
            "streams": streams,
            "engine": "builtin" if queries is None else "outside",
        }
        with serving.started(core, spec, serving.asked(spec)) as server:
            # Who reads that it is ready may stop it at once.
            ending = runtime.Ending()
            if queries is not None:
                queries.start(server)
            try:
                names = [found["name"] for found in (*tables, *streams)]
                _announce(server, as_json, spec, names, queries)
                serving.wait(server, ending, exit_with_parent)
                server.stop()
            finally:
                if queries is not None:
                    queries.stop()
    if not as_json:
        _print_statistics(server)


def _engine(name: str, data: Path | None, tables: list[str]) -> Any:
    """What executes queries where the core does not; None for the core's own engine."""
    if name == "builtin":
        if data is not None:
            raise VenturiError(
                "--data is the directory of --engine chdb", hint="tables are: --table NAME=FILE"
            )
        return None
    if name != "chdb":
        raise VenturiError(f"--engine {name}: is not one of builtin, chdb")
    if tables:
        raise VenturiError(
            f"--engine chdb reads files by itself: {tables[0]} is for the built-in engine",
            hint="ask: SELECT * FROM file('trips.parquet'), or make tables in --data DIR",
        )
    from venturi.servers.charrow_engine import ChdbEngine

    return ChdbEngine(data)


def _table(store: Any, text: str, rows: int) -> dict[str, str]:
    name, file = serving.named("--table", text)
    return {"name": name, "ipc": str(store.prepare_values(file, rows).ipc)}


def _stream(text: str) -> dict[str, str]:
    """A file that the core reads while a query runs, so that it must be of a kind that the core knows."""
    name, place = serving.named("--stream", text)
    path = Path(place)
    try:
        with path.open("rb") as file:
            head = file.read(6)
    except FileNotFoundError:
        raise VenturiError(f"--stream {text}: {path}: no such file") from None
    except OSError as error:
        raise VenturiError(f"--stream {text}: {path}: cannot be read: {error.strerror}") from None
    if not any(head.startswith(mark) for mark in _STREAMS):
        raise VenturiError(
            f"--stream {text}: neither Parquet nor Arrow IPC, and no other file is read from disk",
            hint=f"hold it in memory: --table {text}",
        )
    return {"name": name, "path": str(path.absolute())}


def _distinct(found: list[dict[str, str]]) -> None:
    names = [one["name"] for one in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise VenturiError(f"two tables are called {twice}; names tell them apart")


def _announce(server: Any, as_json: bool, spec: dict[str, Any], tables: list[str], queries: Any) -> None:
    if as_json:
        hello = {"address": server.address, "pid": os.getpid(), "environment": spec["environment"]}
        print(json.dumps(hello | {"tables": tables}), flush=True)
        return
    what = (
        "queries of ClickHouse's SQL"
        if queries is not None
        else ", ".join(("records", "state_rows", *tables))
    )
    print(f"serving {serving.place('charrow', server, spec)}  (Ctrl-C stops)\n  {what}", flush=True)


def _print_statistics(server: Any) -> None:
    from venturi.common.suffixes import format_bytes, format_duration

    found = serving.statistics(server)
    after, sent = format_duration(found["uptime_ns"]), format_bytes(found["payload_bytes_sent"])
    say(
        "info",
        f"stopped after {after}: {found['connections']:,} connections, "
        f"{found['queries']:,} queries, {found['blocks_sent']:,} blocks ({sent})",
    )
