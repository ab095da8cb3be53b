"""Raw TCP over the same hosts with the trials' own message sizes, measured when a run begins.

What a result is set against; see METHOD in docs. Only reference servers answer the probe.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from venturi.endpoints import Endpoints, is_loopback
from venturi.matrix import is_local
from venturi.servers import ReferenceServer
from venturi.store import RunWriter
from venturi.trial import FORMAT_VERSION, Cell, Executor, TrialControl, run_with_progress

__all__ = ["REPEATS", "SECONDS", "measure", "probes"]

REPEATS = 3
SECONDS = 0.3
Probe = tuple[str, str, int, int]


def probes(found: list[Cell]) -> list[Probe]:
    """The distinct (place, direction, streams, message bytes) of these cells that can be probed."""
    distinct: dict[Probe, None] = {}
    for cell in found:
        url, size = cell.parameters["target"], cell.message_bytes
        if size is not None and (is_local(url) or (is_loopback(url))):
            place = str(cell.parameters["place"])
            distinct[place, cell.parameters["operation"], cell.parameters["streams"], size] = None
    return list(distinct)


def measure(
    endpoints: Endpoints,
    executor: Executor,
    writer: RunWriter,
    note: Callable[[str, str], None],
    guard: Callable[[TrialControl | None], bool],
) -> None:
    """Probes and stores. `guard` is told of each running probe, and answers whether to go on."""
    _explain_missing(endpoints.cells, note)
    wanted = probes(endpoints.cells)
    if not wanted:
        return
    with _probe_server(endpoints, executor) as target:
        for repeat in range(REPEATS):
            for place, direction, streams, size in wanted:
                control = executor.control()
                if not guard(control):
                    return
                spec = {
                    "target": target,
                    "direction": direction,
                    "streams": streams,
                    "message_bytes": size,
                    "duration_ns": int(SECONDS * 1e9),
                }
                answer = _answer(executor, spec, control)
                guard(None)
                line = {"format": FORMAT_VERSION, "kind": "tcp", "place": place, "direction": direction}
                line |= {"streams": streams, "message_bytes": size, **answer, "repeat": repeat}
                writer.append_ceiling(line)
                if answer["outcome"] != "ok":
                    note(
                        "warning",
                        f"raw TCP could not be measured: {_reason(answer)}; shares of it are missing",
                    )
                    return


def _answer(executor: Executor, spec: dict[str, Any], control: TrialControl) -> dict[str, Any]:
    try:
        found = run_with_progress(executor.probe_tcp, spec, control)
    except Exception as error:  # the run is worth more than its ceiling; the failure is a line too
        message = str(error) or type(error).__name__
        return {"bytes": 0, "interval_ns": 0, "outcome": "failed", "error": message}
    names = ("bytes", "interval_ns", "outcome", "error")
    return {name: found.get(name) for name in names}


def _reason(answer: dict[str, Any]) -> str:
    error = answer["error"]
    return str(error.get("message")) if isinstance(error, dict) else str(error)


@contextlib.contextmanager
def _probe_server(endpoints: Endpoints, executor: Executor) -> Iterator[str]:
    if endpoints.local_address is not None or not executor.needs_server:
        yield endpoints.local_address or "flight://local"
        return
    # A foreign server on this machine: the limit is the loopback's, so any server of ours shows it.
    with ReferenceServer() as server:
        yield f"flight://{server.address}"


def _explain_missing(found: list[Cell], note: Callable[[str, str], None]) -> None:
    urls = {str(cell.parameters["target"]) for cell in found}
    for url in sorted(url for url in urls if not is_local(url) and not is_loopback(url)):
        if not url.startswith("empty:"):
            note(
                "info",
                f"{url}: no raw TCP ceiling, its probe needs a reference server of this run at that end",
            )
    if any(cell.message_bytes is None for cell in found):
        note("info", "no raw TCP ceiling for remote data: the size of its messages is not known before")
