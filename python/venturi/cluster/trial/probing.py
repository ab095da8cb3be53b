"""Probes of what lies between loaders and servers, asked of loaders wherever they are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

from venturi.cluster.trial.handle import ClusterControl, Handle
from venturi.cluster.trial.shares import divide
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine.tcp_probe import joined

__all__ = ["answers", "probe_tcp"]

_SECONDS = 60.0


def probe_tcp(text: str, ready: Callable[[int | str], Sequence[Handle]], control: object) -> str:
    """Raw TCP by several loaders at once, with a share of the connections each, or by one alone.

    `from` in the spec says which: `loaders=4`, or `loader-2`; `first` is the number of the first stream whose
    way is meant, which says the server. `ready` gives so many loaders, or the one of that name. Raises
    VenturiError where one does not answer.
    """
    spec = json.loads(text)
    name, streams, first = str(spec.pop("from", "")), int(spec["streams"]), int(spec.pop("first", 0))
    handles = ready(min(int(name.partition("=")[2]), streams) if "=" in name else name or 1)
    shares = divide(streams, len(handles))
    calls = {
        handle.name: handle.call(
            "probe_tcp", json.dumps(spec | {"streams": share.count, "first": first + share.first})
        )
        for handle, share in zip(handles, shares, strict=True)
    }
    return json.dumps(joined(answers(handles, calls, control)))


def answers(
    handles: Sequence[Handle], calls: Mapping[str, Future[Any]], control: object
) -> list[dict[str, Any]]:
    """What probes have answered; all are ended where that is asked for meanwhile."""
    assert isinstance(control, ClusterControl)
    pending, told, deadline = set(calls.values()), False, time.monotonic() + _SECONDS
    while pending and time.monotonic() < deadline:
        pending = wait(pending, 0.1).not_done
        if control.cancelled and not told:
            told = True
            for handle in handles:
                handle.call("cancel")
    if pending:
        raise VenturiError(f"no answer of a probe within {_SECONDS:g} s", ExitCode.UNREACHABLE)
    return [json.loads(call.result()) for call in calls.values()]
