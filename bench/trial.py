"""Venturi's trial and its probes, in this process, as a bench's client runs them."""

from __future__ import annotations

import json
import uuid
from typing import Any

from venturi import _core

RECORDS = {"source": "records", "columns": 4, "values": "random", "seed": 1}


class TrialFailed(Exception):
    """With the reason."""


PROBE_NS = 500_000_000


def trial(**spec: Any) -> dict[str, Any]:
    """The record of a trial as `venturi run` executes it, stage clocks, latencies and samples included; rows
    are counted, which is all that its peers do. Raises TrialFailed."""
    whole = {"trial": uuid.uuid4().hex, "operation": "get", "data": RECORDS, "verify": "count", **spec}
    return _good(_core.run_trial(json.dumps(whole), _core.Control()))


def memory(threads: int) -> dict[str, Any]:
    """Bytes and time of copies in memory, by so many threads. Raises TrialFailed."""
    spec = {"kind": "memory", "threads": threads, "duration_ns": PROBE_NS}
    return _good(_core.probe(json.dumps(spec), _core.Control()))


def _good(text: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(text)
    if record["outcome"] != "ok":
        raise TrialFailed(str(record["error"]["message"]))
    return record


def probe(target: str, direction: str, streams: int) -> dict[str, Any]:
    """Bytes and time of raw TCP from or to a server of ours. Raises TrialFailed."""
    spec = {
        "target": target,
        "options": {},
        "direction": direction,
        "streams": streams,
        "duration_ns": PROBE_NS,
    }
    return _good(_core.probe_tcp(json.dumps(spec), _core.Control()))
