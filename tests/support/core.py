"""Trials of upserts straight through the core, without a command."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.wait import HANG_SECONDS


def spec(
    target: str,
    *,
    rows: int | None = None,
    duration_s: float | None = None,
    streams: int = 1,
    working_set: int = 1000,
    rows_per_batch: int = 100,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A trial of `usage`; `rows` are those of every stream."""
    document = {
        "trial": "t",
        "target": target,
        "operation": "upsert",
        "options": options or {},
        "data": {"source": "usage", "working_set": working_set, "seed": 7, "loaded_unix_s": 1_790_000_000},
        "rows_per_batch": rows_per_batch,
        "rows_per_stream": rows,
        "duration_ns": None if duration_s is None else int(duration_s * 1e9),
        "streams": streams,
        "threads": streams,
    }
    return document | more


def run(document: dict[str, Any]) -> dict[str, Any]:
    """The record of the trial of a spec, as JSON says it."""
    from venturi import _core

    record: dict[str, Any] = json.loads(_core.run_trial(json.dumps(document), _core.Control()))
    return record


def run_trial(target: str, **choices: Any) -> dict[str, Any]:
    """The record of a trial of `usage`."""
    return run(spec(target, **choices))


def refused(target: str, **choices: Any) -> tuple[str, str]:
    """Kind and line of the error of a trial that must fail."""
    record = run_trial(target, **{"rows": 1000, **choices})
    assert record["outcome"] == "failed", record
    message = record["error"]["message"]
    assert "\n" not in message and len(message) < 600, message
    return record["error"]["kind"], message


@contextmanager
def connecting_all_the_time() -> Iterator[None]:
    """Another part of this process opens connections, as Ray does, for as long as a trial runs."""
    ended, opened = threading.Event(), threading.Event()

    def connect() -> None:
        while not ended.wait(0.002):
            with socket.create_connection(server.getsockname()), server.accept()[0]:
                opened.set()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=connect)
        thread.start()
        try:
            assert opened.wait(HANG_SECONDS)
            yield
        finally:
            ended.set()
            thread.join()
