"""`venturi serve timeseries`: the reference store of time series."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from venturi.cli import serve_flags as flags
from venturi.cli import serving
from venturi.common import runtime, temporary
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say
from venturi.common.units import plural

__all__ = ["timeseries"]

_ADDRESSES = (
    ("resp", "akumuli", "RESP, as Akumuli"),
    ("udp", "akumuli+udp", "the same by UDP"),
    ("opentsdb", "opentsdb", "lines of OpenTSDB"),
    ("influx", "influx", "lines of Influx"),
    ("http", "influx+http", "lines of Influx, /api/stats, /api/stored"),
)
_SURVIVES = {
    "none": "no log: what is not in a sealed segment is lost with the process",
    "os": "a killed process loses nothing; a power cut, what the system had not yet written",
    "fsync": "what a flush acknowledged survives a power cut",
}
_LEAST_MEMORY = 16 * 2**20  # a thread


def _port(flag: str, what: str) -> Any:
    return typer.Option(flag, help=f"Port of {what}; 0 takes a free one, none serves none.")


def timeseries(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            help="Keep the points in this directory, and add to those there; without it they go at the end.",
            show_default=False,
        ),
    ] = None,
    host: flags.Host = "127.0.0.1",
    port: Annotated[str, _port("--port", "RESP, as Akumuli speaks it")] = "8282",
    opentsdb: Annotated[str, _port("--opentsdb", "OpenTSDB's lines")] = "4242",
    influx: Annotated[str, _port("--influx", "Influx's lines over TCP")] = "9009",
    http: Annotated[str, _port("--http", "HTTP: Influx's lines, and what is stored")] = "8181",
    udp: Annotated[str, _port("--udp", "RESP in datagrams")] = "none",
    durable: Annotated[
        str,
        typer.Option("--durable", help="What survives: none, os (a killed process), fsync (a power cut)."),
    ] = "os",
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", min=1, max=256, help="Reader threads; without it one a CPU.", show_default=False
        ),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            help="Bytes of points that are not in a segment yet, as 1GiB; 16MiB a thread at least.",
        ),
    ] = "2GiB",
    segment_points: Annotated[
        str, typer.Option("--segment-points", help="Points of a segment, which is one Parquet file.")
    ] = "4Mi",
    accept_late: Annotated[
        bool, typer.Option("--accept-late", help="Keep points older than the last one of their series.")
    ] = False,
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=1, help="Most connections at a time.")
    ] = 16_384,
    max_series: Annotated[str, typer.Option("--max-series", help="Most series; more are refused.")] = "16Mi",
    as_json: flags.Json = False,
    exit_with_parent: flags.ExitWithParent = False,
) -> None:
    """Serve the reference store of time series: RESP, OpenTSDB, Influx; segments are Parquet files."""
    from venturi.common.environment import describe, usable_cores
    from venturi.common.runtime import load_core
    from venturi.servers.throwaway import network

    if durable not in _SURVIVES:
        raise VenturiError(f"--durable {durable}: is not one of {', '.join(_SURVIVES)}")
    memory_bytes = serving.count("--memory", memory)
    readers = threads or usable_cores()
    if memory_bytes < readers * _LEAST_MEMORY:
        raise VenturiError(
            f"--memory {memory}: {readers} reader threads need at least {readers * 16}MiB",
            hint="give more, or fewer --threads",
        )
    ports = {
        name: _number(flag, text)
        for name, flag, text in (
            ("resp", "--port", port),
            ("opentsdb", "--opentsdb", opentsdb),
            ("influx", "--influx", influx),
            ("http", "--http", http),
            ("udp", "--udp", udp),
        )
    }
    settings = {
        "durable": durable,
        "threads": readers,
        "memory": memory_bytes,
        "segment_points": serving.count("--segment-points", segment_points),
        "accept_late": accept_late,
        "max_connections": max_connections,
        "max_series": serving.count("--max-series", max_series),
    }
    if not network.is_loopback(host):
        say("warning", f"{host} is reachable by other hosts, and the store asks nobody who they are")
        say("hint", "leave --host out, unless the network is yours alone")
    core = load_core()
    environment = describe()
    held = temporary.make("store") if data is None else None
    folder = held.path if held is not None else data
    assert folder is not None
    spec = {"server": "timeseries", "data": str(folder.absolute()), "host": host, **ports, **settings}
    try:
        with serving.started(core, spec, host) as server:
            # Who reads that it is ready may stop it at once.
            ending = runtime.Ending()
            found = serving.statistics(server)
            hello = {
                "address": server.address,
                "addresses": found.get("addresses") or {},
                "pid": os.getpid(),
                "data": str(folder.absolute()),
                "settings": settings,
                "recovered": found.get("recovered"),
                "environment": environment,
            }
            print(json.dumps(hello) if as_json else _described(hello, data is not None), flush=True)
            _wait(server, ending, exit_with_parent)
        found = serving.statistics(server)
        if not as_json:
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


def _number(flag: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdigit() or int(text) > 65535:
        raise VenturiError(f"{flag} {text}: must be a port (0 takes a free one), or none")
    return int(text)


def _described(hello: dict[str, Any], kept: bool) -> str:
    from venturi.common.suffixes import format_bytes

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
    lines = []
    if found.get("logs"):
        logs = int(found["logs"])
        lines.append(f"{int(found.get('points') or 0):,} points of {plural(logs, 'log')}")
    for one in found.get("damaged") or ():
        lost = f", {int(one['lost_bytes']):,} bytes from {int(one['offset']):,} on not read"
        lines.append(f"{one['file']}: {one['why']}{lost}")
    return lines


def _wait(server: Any, ending: runtime.Ending, exit_with_parent: bool) -> None:
    """Until a signal, or the end of standard input."""
    if exit_with_parent:
        serving.end_with_input()
    while not ending.wait(0.2):
        if server.wait(0):
            why = serving.statistics(server).get("failure")
            raise VenturiError(f"the store has ended{': ' + str(why) if why else ''}", ExitCode.UNREACHABLE)


def _print_end(found: dict[str, Any], data: Path | None) -> None:
    from venturi.common.suffixes import format_bytes

    points, stored = int(found.get("points") or 0), int(found.get("stored_bytes") or 0)
    text = f"stopped: {points:,} points of {int(found.get('series') or 0):,} series"
    if points and stored:
        text += f" in {format_bytes(stored)}, {stored / points:.2f} bytes a point"
    if late := int(found.get("late") or 0):
        text += f"; {late:,} late points were refused"
    say("info", text + (f"; they stay in {data}" if data is not None else ", removed now"))
