"""Probes of physical limits, here and now. Twin: tests/unit/test_ceilings.py judges given ones."""

from __future__ import annotations

import json
from typing import Any

from venturi.common.environment import usable_cores


def rate(core: Any, **spec: Any) -> float:
    answer = json.loads(core.probe(json.dumps({"duration_ns": 100_000_000} | spec), core.Control()))
    assert answer["outcome"] == "ok", answer
    found: float = answer["bytes"] * 1e9 / answer["interval_ns"]
    return found


def test_memory(core: Any) -> None:
    one, every = (rate(core, kind="memory", threads=n) for n in (1, usable_cores()))
    assert 1e8 < one < 1e12
    # Between two measurements of a shared machine its neighbours may wake up.
    assert every >= 0.5 * one


def test_codecs(core: Any) -> None:
    data = {"source": "records", "columns": 4, "values": "sequential", "seed": 1}

    def codec(name: str) -> float:
        return rate(core, kind="codec", name=name, data=data, rows_per_batch=4096)

    assert codec("ipc-encode") > codec("lz4-encode") > codec("zstd:9-encode")
    assert codec("lz4-decode") > codec("zstd-encode")
