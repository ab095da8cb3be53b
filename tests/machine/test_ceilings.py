"""Probes of physical limits, here and now. Twin: tests/unit/test_ceilings.py judges given ones."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from support.hosts import hosts
from support.read import ran
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


def test_raw_tcp_counts_every_connection() -> None:
    """Another host's interface received what the probe reports; one connection's bytes would be a quarter."""
    with hosts(2) as two, two[1].server() as serving:
        words = ("--only", "tcp", "--streams", "4", "--repeats", "1", "--duration", "100ms", "-q")
        read = ("cat", "/sys/class/net/eth0/statistics/rx_bytes")
        before = int(two[0].run(*read, check=True).stdout)
        done = two[0].venturi("ceilings", f"flight://{serving.address}", *words, "--format", "json")
        received = int(two[0].run(*read, check=True).stdout) - before
    (line,) = (
        line
        for line in json.loads(done.stdout)["lines"]
        if (line["direction"], line["place"]) == ("get", serving.address)
    )
    assert received / 2 < line["bytes"] < received


def test_limits_are_measured_with_the_same_statements(tmp_path: Path) -> None:
    """Twin: tests/unit/test_scenario.py, for which limits a cell has."""
    ran(
        tmp_path / "r",
        *("--target", "sqlite://local", "--synchronous", "full", "--generate", "ahead,inline"),
        *("--duration", "100ms", "--working-set", "2k", "--repeats", "1", "--warmup", "0", "--no-report"),
        *("--ceilings", "once", "--fresh-ceilings"),
    )
    text = (tmp_path / "r" / "ceilings.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in text]
    assert {line["kind"] for line in found} == {"memory", "disk", "engine"}
    assert {line["path"] for line in found if line["kind"] == "disk"} == {tempfile.gettempdir()}
    engine = {line["data"]: line for line in found if line["kind"] == "engine"}
    assert set(engine) == {"usage, statements built ahead", "usage, statements of sqlite built inline"}
    assert all(line["outcome"] == "ok" and line["bytes"] for line in engine.values())
