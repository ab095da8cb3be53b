"""Raw TCP towards an address that names several hosts: connections go to them in turn, as streams do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from venturi.targets.urls import each_host

__all__ = ["joined", "probe_tcp"]


def probe_tcp(core: Any, text: str, control: Any) -> str:
    """As the core's, whose probes have one host each. `first` in the spec: the number of the first stream."""
    spec = json.loads(text)
    first = int(spec.pop("first", 0))
    found = each_host(spec["target"])
    turns = [(first + n) % len(found) for n in range(int(spec["streams"]))]
    parts = [spec | {"target": url, "streams": turns.count(n)} for n, url in enumerate(found) if n in turns]
    if len(parts) == 1:
        return _text(core.probe_tcp(json.dumps(parts[0]), control))
    with ThreadPoolExecutor(len(parts), "venturi-probe") as pool:
        answers = pool.map(lambda part: _text(core.probe_tcp(json.dumps(part), control)), parts)
        return json.dumps(joined([json.loads(answer) for answer in answers]))


def joined(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several that ran at once, as one; the first that failed, where one did."""
    bad = next((answer for answer in answers if answer.get("outcome") != "ok"), None)
    if bad is not None:
        return bad
    return {
        **answers[0],
        "bytes": sum(answer["bytes"] for answer in answers),
        "interval_ns": max(answer["interval_ns"] for answer in answers),
    }


def _text(answer: object) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer)
