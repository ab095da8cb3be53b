"""`venturi serve`: a reference server, or a throw-away database, as the other end of a measurement."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import typer

from venturi.cli import serve_databases, serving
from venturi.cli.serving import ACCESS, Flag, count, nanoseconds
from venturi.common import runtime, temporary
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.suffixes import format_bytes, format_duration
from venturi.common.texts import say
from venturi.common.units import plural

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="Serve as the other end of a measurement.",
)
ENDS = ("json", "exit_with_parent")
LISTENS = ("max_connections", "send_buffer", "handicap", *ACCESS)
_STREAMS = {b"ARROW1": "Arrow IPC file", b"PAR1": "Parquet", b"\xff\xff\xff\xff": "Arrow IPC stream"}
_ADDRESSES = (
    ("resp", "akumuli", "RESP, as Akumuli"),
    ("udp", "akumuli+udp", "the same by UDP"),
    ("opentsdb", "opentsdb", "lines of OpenTSDB"),
    ("influx", "influx", "lines of Influx"),
    ("http", "influx+http", "lines of Influx, /api/stats"),
)
_SURVIVES = {
    "none": "no log: what is not in a sealed segment is lost with the process",
    "os": "a killed process loses nothing; a power cut, what the system had not yet written",
    "fsync": "what a flush acknowledged survives a power cut",
}
_LEAST_MEMORY = 16 * 2**20  # a thread


@app.callback()
def serve() -> None:
    """Serve as the other end of a measurement."""


@app.command()
@serving.command(
    *("host", "port", "unix", *LISTENS, "memory", "max_message_size", "window", "table", "data", *ENDS),
    port=serving.port(31337),
    handicap=serving.handicap("batch"),
    token_env=serving.token("bearer token"),
    window=Flag(
        "HTTP/2 window granted to clients in bytes, as 64KiB; bounds puts. Without it: no limit.",
        # HTTP/2's largest.
        read=partial(count, most=2**31 - 1),
    ),
    data=Flag("Another word for --table.", kind=list[str], hidden=True),
)
def flight(flags: dict[str, Any]) -> None:
    """Serve Arrow Flight: Arrow's perf protocol, and tables under a path."""
    spec = {"window": flags["window"], **_bounds(flags), **serving.common(flags)}
    files = [(f"--{flag}", text) for flag in ("table", "data") for text in flags[flag] or []]
    _tables("flight", spec, files, flags)


@app.command()
@serving.command(
    *("host", "port", "unix", *LISTENS, "table", "stream", "ready", "engine", "data", "rows_per_block"),
    *("query_memory", "ring_memory", "max_queries", "patience", "stall_timeout", *ENDS),
    port=serving.port(9006),
    handicap=serving.handicap("block"),
    token_env=serving.token("password"),
    table=Flag("NAME=FILE: a Parquet, Arrow or CSV file to hold in memory. Repeatable.", kind=list[str]),
    stream=Flag(
        "NAME=FILE: a Parquet or Arrow file to read from disk for every query. Repeatable.", kind=list[str]
    ),
    ready=Flag("NAME=FILE, an Arrow file made by a run.", kind=list[str], hidden=True),
    engine=Flag("builtin, or chdb: ClickHouse's engine, for any query of its SQL.", "builtin"),
    data=Flag("chdb: its directory; without it nothing is kept.", kind=Path),
    rows_per_block=Flag("Rows of a block of --table, as 64Ki.", "64Ki", read=count),
    query_memory=Flag("Most bytes of a query that are encoded and not yet sent.", "64MiB"),
    ring_memory=Flag(
        "Most bytes of shared memory, of all connections by charrow+shm:// together; 0: none.",
        "512MiB",
        read=partial(count, least=0),
    ),
    max_queries=Flag("Most queries at a time.", 64, least=1),
    patience=Flag("For a client to end what it has begun to say.", "10s", read=nanoseconds),
    stall_timeout=Flag("For a partition that does not read what it was dealt.", "30s", read=nanoseconds),
)
def charrow(flags: dict[str, Any]) -> None:
    """Serve charrow: Arrow blocks of a query over TCP, each to one of the partitions that share it."""
    from venturi.inputs.files import DataStore

    query_memory = count("--query-memory", flags["query_memory"])
    if query_memory < 2**16:
        raise VenturiError(f"--query-memory {flags['query_memory']}: must be at least 64KiB")
    spec = {
        "server": "charrow",
        "query_memory_bytes": query_memory,
        "max_queries": flags["max_queries"],
        "ring_memory_bytes": flags["ring_memory"],
        "patience_ns": flags["patience"],
        "stall_timeout_ns": flags["stall_timeout"],
        **serving.common(flags),
    }
    tables, streams, ready = (flags[name] or [] for name in ("table", "stream", "ready"))
    queries = _engine(flags["engine"], flags["data"], [*tables, *streams, *ready])
    with DataStore() as store:
        held = []
        for text in tables:
            name, file = serving.named("--table", text)
            held.append({"name": name, "ipc": str(store.prepare_values(file, flags["rows_per_block"]).ipc)})
        store.forget_tables()
        held += [dict(zip(("name", "ipc"), serving.named("--ready", text), strict=True)) for text in ready]
        read = [_stream(text) for text in streams]
        names = [one["name"] for one in (*held, *read)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise VenturiError(f"two tables are called {twice}; names tell them apart")
        spec |= {"tables": held, "streams": read, "engine": "builtin" if queries is None else "outside"}
        what = (
            ", ".join(("records", "state_rows", *names)) if queries is None else "queries of ClickHouse's SQL"
        )
        found = _run("charrow", spec, flags, {"tables": names}, f"\n  {what}", queries)
    sent = format_bytes(found.get("payload_bytes_sent", 0))
    calls = f"{found.get('queries', 0):,} queries, {found.get('blocks_sent', 0):,} blocks ({sent})"
    _say_end(flags, found, calls)


@app.command()
@serving.command(
    *("host", "port", *LISTENS, "memory", "max_message_size", "table", *ENDS),
    port=serving.port(8080),
    handicap=serving.handicap("batch"),
    token_env=serving.token("bearer token, or password,"),
)
def http(flags: dict[str, Any]) -> None:
    """Serve Arrow IPC streams over HTTP: records, and tables under a path."""
    spec = {"server": "http", **_bounds(flags), **serving.common(flags)}
    _tables("http+arrow", spec, [("--table", text) for text in flags["table"] or []], flags)


def _bounds(flags: dict[str, Any]) -> dict[str, Any]:
    return {"memory_bytes": flags["memory"], "max_message_size": flags["max_message_size"]}


def _tables(
    scheme: str, spec: dict[str, Any], files: Sequence[tuple[str, str]], flags: dict[str, Any]
) -> None:
    """Serves rows at URLs of this scheme, these files (each with its flag, as NAME=FILE) as tables."""
    from venturi.inputs.files import DataStore

    with DataStore() as store:
        spec["tables"] = []
        for flag, text in files:
            name, file = serving.named(flag, text)
            spec["tables"].append({"name": name.strip("/"), "ipc": str(store.prepare(file).ipc)})
        store.forget_tables()
        found = _run(scheme, spec, flags)
    ways = (("gets", "payload_bytes_sent"), ("puts", "payload_bytes_received"))
    calls = [f"{found.get(name, 0):,} {name} ({format_bytes(found.get(moved, 0))})" for name, moved in ways]
    _say_end(flags, found, ", ".join(calls))


def _run(
    scheme: str,
    spec: dict[str, Any],
    flags: dict[str, Any],
    more: dict[str, Any] | None = None,
    text: str = "",
    queries: Any = None,
) -> dict[str, Any]:
    """Serves until it is told to end; what the server has counted."""
    from venturi.common.runtime import load_core

    with serving.started(load_core(), spec, serving.listen_address(spec)) as server:
        ending = runtime.Ending()
        if queries is not None:
            queries.start(server)
        try:
            place = serving.place(scheme, server, spec)
            hello = {"address": server.address, "url": place, "pid": os.getpid()}
            hello["environment"] = spec["environment"]
            serving.announce(flags["json"], hello | (more or {}), f"serving {place}  (Ctrl-C stops){text}")
            serving.wait(server, ending, flags["exit_with_parent"])
            server.stop()
        finally:
            if queries is not None:
                queries.stop()
    return serving.statistics(server)


def _say_end(flags: dict[str, Any], found: dict[str, Any], calls: str) -> None:
    if not flags["json"]:
        after = format_duration(found.get("uptime_ns", 0))
        say("info", f"stopped after {after}: {found.get('connections', 0):,} connections, {calls}")


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


def _stream(text: str) -> dict[str, str]:
    """A file that the core reads while a query runs, so that it must be of a kind that the core knows."""
    name, place = serving.named("--stream", text)
    path = Path(place)
    try:
        with path.open("rb") as file:
            head = file.read(6)
    except OSError as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        raise VenturiError(f"--stream {text}: {path}: {why}") from None
    if not any(head.startswith(mark) for mark in _STREAMS):
        raise VenturiError(
            f"--stream {text}: neither Parquet nor Arrow IPC, and no other file is read from disk",
            hint=f"hold it in memory: --table {text}",
        )
    return {"name": name, "path": str(path.absolute())}


def _port(what: str, number: str) -> Flag:
    return Flag(f"Port of {what}; 0 takes a free one, none serves none.", number, read=_number)


def _number(flag: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdigit() or int(text) > 65535:
        raise VenturiError(f"{flag} {text}: must be a port (0 takes a free one), or none")
    return int(text)


@app.command()
@serving.command(
    *("data", "host", "port", "opentsdb", "influx", "http", "udp", "durable", "threads", "memory"),
    *("segment_points", "accept_late", "max_connections", "max_series", *ENDS),
    data=Flag(
        "Keep the points in this directory, and add to those there; without it they go at the end.", kind=Path
    ),
    port=_port("RESP, as Akumuli speaks it", "8282"),
    opentsdb=_port("OpenTSDB's lines", "4242"),
    influx=_port("Influx's lines over TCP", "9009"),
    http=_port("HTTP: Influx's lines, and what is stored", "8181"),
    udp=_port("RESP in datagrams", "none"),
    durable=Flag("What survives: none, os (a killed process), fsync (a power cut).", "os"),
    threads=Flag("Reader threads; without it one a CPU.", kind=int, least=1, most=256),
    memory=Flag("Bytes of points that are not in a segment yet, as 1GiB; 16MiB a thread at least.", "2GiB"),
    segment_points=Flag("Points of a segment, which is one Parquet file.", "4Mi", read=count),
    accept_late=Flag("Keep points older than the last one of their series.", False),
    max_connections=Flag("Most connections at a time.", 16_384, least=1),
    max_series=Flag("Most series; more are refused.", "16Mi", read=count),
)
def timeseries(flags: dict[str, Any]) -> None:
    """Serve the reference store of time series: RESP, OpenTSDB, Influx; segments are Parquet files."""
    from venturi.common.environment import describe, usable_cores
    from venturi.common.runtime import load_core
    from venturi.servers.throwaway import network

    host, data, durable = flags["host"], flags["data"], flags["durable"]
    if durable not in _SURVIVES:
        raise VenturiError(f"--durable {durable}: is not one of {', '.join(_SURVIVES)}")
    memory = count("--memory", flags["memory"])
    readers = flags["threads"] or usable_cores()
    if memory < readers * _LEAST_MEMORY:
        raise VenturiError(
            f"--memory {flags['memory']}: {readers} reader threads need at least {readers * 16}MiB",
            hint="give more, or fewer --threads",
        )
    kept = ("durable", "segment_points", "accept_late", "max_connections", "max_series")
    settings = {"threads": readers, "memory": memory} | {name: flags[name] for name in kept}
    ports = {name: flags["port" if name == "resp" else name] for name, *_ in _ADDRESSES}
    if not network.is_loopback(host):
        say("warning", f"{host} is reachable by other hosts, and the store asks nobody who they are")
        say("hint", "leave --host out, unless the network is yours alone")
    core, environment = load_core(), describe()
    held = temporary.make("store") if data is None else None
    folder = held.path if held is not None else data
    spec = {"server": "timeseries", "data": str(folder.absolute()), "host": host, **ports, **settings}
    try:
        with serving.started(core, spec, host) as server:
            ending = runtime.Ending()
            found = serving.statistics(server)
            hello = {
                "address": server.address,
                "url": f"akumuli://{server.address}",
                "addresses": found.get("addresses") or {},
                "pid": os.getpid(),
                "data": spec["data"],
                "settings": settings,
                "recovered": found.get("recovered"),
                "environment": environment,
            }
            serving.announce(flags["json"], hello, _described(hello, data is not None))
            serving.wait(server, ending, flags["exit_with_parent"])
            if not ending.wait(0):
                why = serving.statistics(server).get("failure")
                raise VenturiError(f"the store has ended{f': {why}' if why else ''}", ExitCode.UNREACHABLE)
        found = serving.statistics(server)
        if not flags["json"]:
            _print_end(found, data)
        if failure := found.get("failure"):
            raise VenturiError(
                f"points were refused: {failure}",
                ExitCode.STORE,
                hint="what a flush acknowledged is kept" if data is not None else None,
            )
    finally:
        if held is not None:
            held.remove()


def _described(hello: dict[str, Any], kept: bool) -> str:
    addresses, settings = hello["addresses"], hello["settings"]
    served = [(f"{scheme}://{addresses[n]}", what) for n, scheme, what in _ADDRESSES if addresses.get(n)]
    width = max((len(url) for url, _ in served), default=0)
    threads = settings["threads"]
    lines = [
        f"serving time series in {hello['data']}{'' if kept else ', removed at the end'}  (Ctrl-C stops)",
        *(f"  {url:<{width}}  {what}" for url, what in served),
        f"  durable = {settings['durable']}: {_SURVIVES[settings['durable']]}",
        f"  {plural(threads, 'reader thread')}, {format_bytes(settings['memory'])} memory"
        f", segments of {settings['segment_points']:,} points, late points are "
        f"{'kept' if settings['accept_late'] else 'refused'}",
    ]
    lines += [f"  recovered: {text}" for text in _recovered(hello.get("recovered"))]
    first = served[0][0] if served else "akumuli://HOST"
    return "\n".join([*lines, f"try: venturi run ingest-quick --target {first}"])


def _recovered(found: Any) -> list[str]:
    """What a restart found that a clean stop would not have left, and what it made of it."""
    if not isinstance(found, dict):
        return []
    logs, points = int(found.get("logs") or 0), int(found.get("points") or 0)
    lines = [f"{points:,} points of {plural(logs, 'log')}"] if logs else []
    for one in found.get("damaged") or ():
        lost = f"{int(one['lost_bytes']):,} bytes from {int(one['offset']):,} on not read"
        lines.append(f"{one['file']}: {one['why']}, {lost}")
    return lines


def _print_end(found: dict[str, Any], data: Path | None) -> None:
    points, stored = int(found.get("points") or 0), int(found.get("stored_bytes") or 0)
    text = f"stopped: {points:,} points of {int(found.get('series') or 0):,} series"
    if points and stored:
        text += f" in {format_bytes(stored)}, {stored / points:.2f} bytes a point"
    if late := int(found.get("late") or 0):
        text += f"; {late:,} late points were refused"
    say("info", text + (f"; they stay in {data}" if data is not None else ", removed now"))


for _database in serve_databases.COMMANDS:
    app.command()(_database)
