"""Raw TCP over the same hosts with the trials' own message sizes, measured when a run begins.

What a result is set against; docs/method.md. Only reference servers answer the probe: our own on this
machine, and on another host `venturi serve`, where that is what runs there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from venturi.endpoints import Endpoints, is_loopback
from venturi.matrix import is_local
from venturi.servers import ReferenceServer
from venturi.store import RunWriter
from venturi.trial import FORMAT_VERSION, Cell, Executor, TrialControl, run_with_progress

__all__ = ["REPEATS", "SECONDS", "Probe", "measure", "probes"]

REPEATS = 3
SECONDS = 0.3


class Probe(NamedTuple):
    """What is probed: `url` is the scenario's address, sizes are bytes."""

    place: str
    url: str
    direction: str
    streams: int
    message_bytes: int


def probes(found: list[Cell]) -> list[Probe]:
    """The distinct probes that these cells ask for."""
    distinct: dict[Probe, None] = {}
    for cell in found:
        p, size = cell.parameters, cell.message_bytes
        if size is not None and not str(p["target"]).startswith("empty:"):
            distinct[Probe(str(p["place"]), str(p["target"]), p["operation"], p["streams"], size)] = None
    return list(distinct)


def measure(
    endpoints: Endpoints,
    executor: Executor,
    writer: RunWriter,
    note: Callable[[str, str], None],
    guard: Callable[[TrialControl | None], bool],
) -> None:
    """Probes and stores. `guard` is told of each running probe, and answers whether to go on."""
    # A run that was interrupted while it probed goes on where it stopped.
    done = {_key(line) for line in writer.read().ceiling_records()}
    missing = [
        (repeat, probe)
        for repeat in range(REPEATS)
        for probe in probes(endpoints.cells)
        if (probe.place, probe.direction, probe.streams, probe.message_bytes, repeat) not in done
    ]
    if any(cell.message_bytes is None for cell in endpoints.cells):
        note("info", "no raw TCP ceiling for remote data: the size of its messages is not known before")
    dropped: set[str] = set()
    options = {str(cell.parameters["target"]): dict(cell.options) for cell in endpoints.cells}
    with contextlib.ExitStack() as stack:
        servers = {url: _server(url, endpoints, executor, stack) for url in {p.url for _, p in missing}}
        for repeat, probe in missing:
            if probe.url in dropped:
                continue
            control = executor.control()
            if not guard(control):
                return
            answer = _answer(executor, probe, servers[probe.url], options[probe.url], control)
            guard(None)
            if answer["outcome"] == "interrupted":
                return
            if answer["outcome"] != "ok":
                dropped.add(probe.url)
                note("info", f"{probe.url}: no raw TCP ceiling: {_reason(answer)}")
                if _foreign(probe.url):
                    continue
            # Our own server should have answered, so its failure is kept too.
            writer.append_ceiling(_line(probe, answer, repeat))


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line.get(n) for n in ("place", "direction", "streams", "message_bytes", "repeat"))


def _foreign(url: str) -> bool:
    """Whether the other end is another host, which answers the probe only if it runs `venturi serve`."""
    return not is_local(url) and not is_loopback(url)


def _line(probe: Probe, answer: dict[str, Any], repeat: int) -> dict[str, Any]:
    return {
        "format": FORMAT_VERSION,
        "kind": "tcp",
        "place": probe.place,
        "direction": probe.direction,
        "streams": probe.streams,
        "message_bytes": probe.message_bytes,
        **answer,
        "repeat": repeat,
    }


def _answer(
    executor: Executor, probe: Probe, server: str, options: dict[str, Any], control: TrialControl
) -> dict[str, Any]:
    spec = {
        "target": server,
        # Another host may ask for a token or a certificate; servers that are only ours do not.
        "options": options if _foreign(probe.url) else {},
        "direction": probe.direction,
        "streams": probe.streams,
        "message_bytes": probe.message_bytes,
        "duration_ns": int(SECONDS * 1e9),
    }
    try:
        found = run_with_progress(executor.probe_tcp, spec, control)
    except Exception as error:  # the run is worth more than its ceiling; the reason is told
        message = str(error) or type(error).__name__
        return {"bytes": 0, "interval_ns": 0, "outcome": "failed", "error": message}
    names = ("bytes", "interval_ns", "outcome", "error")
    return {name: found.get(name) for name in names}


def _reason(answer: dict[str, Any]) -> str:
    error = answer["error"]
    return str(error.get("message")) if isinstance(error, dict) else str(error)


def _server(url: str, endpoints: Endpoints, executor: Executor, stack: contextlib.ExitStack) -> str:
    """The reference server that stands for this address in a probe."""
    if not executor.needs_server:
        return url
    if is_local(url):
        assert endpoints.local_address is not None
        return endpoints.local_address
    if is_loopback(url):
        # A foreign server on this machine: the limit is the loopback's, so any server of ours shows it.
        if endpoints.local_address is not None:
            return endpoints.local_address
        return f"flight://{stack.enter_context(ReferenceServer()).address}"
    return urlsplit(url)._replace(path="", query="").geturl()
