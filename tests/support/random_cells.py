"""Cells by chance, of every system, whose trials make every cause and every remedy come up: what the tests of
suggested commands judge. The same in every process, as all chance comes from the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from support import upsert as upsert_support
from support import verdict as verdict_support
from support.verdict import summarise
from venturi.analysis.cells.summary import Cell
from venturi.common.links import parse

SECOND = 1_000_000_000
SHARES = (
    {"await_input": 0.6, "receive": 0.4},
    {"receive": 0.7, "decode": 0.05, "verify": 0.2, "await_input": 0.05},
    {"decode": 0.95, "receive": 0.04, "await_input": 0.01},
    {"encode": 0.97, "send": 0.03},
    {"generate": 0.35, "encode": 0.5, "send": 0.1, "await_reply": 0.05},
    {"verify": 0.6, "receive": 0.38, "await_input": 0.02},
    {"await_thread": 0.74, "send": 0.235, "await_reply": 0.025},
    {"send": 0.6, "encode": 0.02, "await_output": 0.38},
    {"await_output": 0.93, "send": 0.07},
    {"await_window": 0.95, "send": 0.05},
    {"await_reply": 0.95, "send": 0.05},
    {"await_input": 0.97, "receive": 0.03},
    {"await_schedule": 0.8, "send": 0.2},
    {"apply": 0.98, "generate": 0.02},
    {"send": 0.8, "await_reply": 0.2},
    {},
)
GETS = ("flight://10.0.0.2:31337", "flight://10.0.0.2:31337/t", "charrow://10.0.0.2:9006", "flight://local")
DATABASES = ("mysql", "cassandra", "postgres", "sqlite", "duckdb")
LINKS = {"100mbit 10ms": 10, "100mbit 200ms": 200, "200mbit 20ms loss 1% reno": 20, "2gbit": 0}
"""With their round trips in ms."""
STORES = ("akumuli", "opentsdb", "influx")


def _end(chance: random.Random) -> dict[str, Any]:
    found = verdict_support.end(
        chance.choice((0.1, 0.3, 0.6, 0.97, 0.99)),
        chance.choice((1, 2, 8)),
        network={"loopback": chance.random() < 0.5},
        sockets={
            "send_buffer_limited_share": chance.choice((0.0, 0.0, 0.9)),
            "receive_window_limited_share": chance.choice((0.0, 0.0, 0.9)),
            "min_rtt_ns": chance.choice((40_000, 50_000_000)),
        },
        disk={"busy_share": chance.choice((0.0, 0.6, 0.97)), "written_bytes": SECOND},
    )
    if chance.random() < 0.15:
        quota = chance.choice((0.1, 2.0))
        found["cgroup"] = {"quota_cores": quota, "throttled_ns": chance.choice((SECOND // 2, 9 * SECOND))}
    if chance.random() < 0.1:
        found["host"] = None
    return found


def _size(chance: random.Random) -> dict[str, Any]:
    name, value = chance.choice(
        (("rows_per_stream", 10_000_000), ("duration_ns", 2 * SECOND), ("bytes_per_stream", 10**9))
    )
    sizes = {"rows_per_stream": None, "bytes_per_stream": None, "duration_ns": None, name: value}
    return sizes | ({"rows_per_stream": 10**9 // 32} if name == "bytes_per_stream" else {})


def _shared(chance: random.Random) -> dict[str, Any]:
    streams = chance.choice((1, 2, 4, 8, 32, 64, 200))
    return {
        **_size(chance),
        "streams": streams,
        "threads": chance.choice((streams, streams, max(1, streams // 2))),
        "rows_per_batch": chance.choice((1, 10, 500, 1024, 4096, 10_000, 65_536)),
        "rate": chance.choice((None, None, None, 1000.0)),
        "verify": chance.choice(("checksum", "checksum", "count", "none")),
    }


def _transfer(chance: random.Random) -> dict[str, Any]:
    target = chance.choice(GETS)
    get = target.startswith("charrow") or target.endswith("/t") or chance.random() < 0.6
    found = {
        **_shared(chance),
        "operation": "get" if get else "put",
        "target": target,
        "data": "remote" if target.endswith("/t") else "records",
        "columns": None if target.endswith("/t") else 4,
        "row_bytes": None if target.endswith("/t") else 32.0,
        "compression": chance.choice((None, "lz4", "zstd", "zstd:19"))
        if not target.startswith("charrow")
        else chance.choice((None, "lz4", "zstd")),
    }
    if target.startswith("charrow"):
        return found | {
            "encoders": chance.choice((1, 4, 8)),
            "decoders": chance.choice((1, 2)),
            "wire_version": "1.2",
        }
    found |= {
        "window": chance.choice((None, 65536)),
        "ack": chance.choice(("stream", "batch")) if not get else "stream",
    }
    if target == "flight://local" and chance.random() < 0.6:
        found |= {"link": chance.choice(tuple(LINKS)), "cross": chance.choice((None, None, 30.0))}
    stage = "encode" if not get else "decode"
    return found | ({"handicap": f"{stage}=2ms"} if chance.random() < 0.1 else {})


def _upsert(chance: random.Random) -> dict[str, Any]:
    system = chance.choice(DATABASES)
    found = {
        **_shared(chance),
        "operation": "upsert",
        "target": f"{system}://local" + ("" if system in ("sqlite", "duckdb") else "/venturi"),
        "statement": chance.choice(("text", "prepared")) if system != "duckdb" else "prepared",
        "generate": chance.choice(("ahead", "inline")),
        "working_set": chance.choice((1_000_000, 100_000_000)),
    }
    found |= {"verify": "checksum"}
    if system in ("cassandra", "postgres"):
        found["in_flight"] = chance.choice((1, 4, 32))
    if system == "cassandra":
        found |= {"statement": "prepared", "batch": chance.choice(("unlogged", "none")), "write": "counter"}
    if system == "sqlite":
        found |= {
            "journal": chance.choice(("wal", "delete")),
            "synchronous": chance.choice(("off", "normal", "full")),
        }
    if system == "postgres":
        found |= {"synchronous": chance.choice(("off", "on")), "method": chance.choice(("upsert", "copy"))}
    if system == "duckdb":
        found["method"] = chance.choice(("upsert", "copy"))
    return found


def _ingest(chance: random.Random) -> dict[str, Any]:
    system, made = chance.choice(STORES), chance.random() < 0.7
    found = {
        **_shared(chance),
        "operation": "ingest",
        "target": f"{system}://" + chance.choice(("local", "10.0.0.2")),
        "data": "metrics",
        "hosts": chance.choice((200, 1000)),
        "tick_ns": SECOND,
        "generate": "inline" if made else "ahead",
        "row_bytes": 16.0,
        "bytes_per_stream": None,
        "working_set": None,
    }
    found |= {"rows_per_stream": 1_000_000, "duration_ns": None} if not made or chance.random() < 0.5 else {}
    found |= {"duration_ns": None if found["rows_per_stream"] else SECOND}
    found["messages"] = chance.choice(("rows", "values")) if system == "akumuli" else None
    found["durable"] = chance.choice(("os", "fsync", "none")) if found["target"].endswith("local") else None
    return found | {"verify": "checksum", "statement": None}


def _trials(chance: random.Random, name: str) -> list[dict[str, Any]]:
    shape = chance.choice(("transfer", "transfer", "upsert", "ingest"))
    shares = dict(chance.choice(SHARES))
    cores = (chance.choice((0.1, 0.5, 1.0, 3.0)), chance.choice((0.1, 0.5, 0.95, 3.0)))
    trip = chance.choice((None, 50_000, 10_000_000))
    machine = chance.choice((True, True, False, None))
    if shape == "upsert":
        far = chance.random() < 0.2
        process = upsert_support.process(chance.choice((None, 0.3, 0.96)))
        settings: dict[str, Any] = {
            "client": shares, "cpu": (cores[0], None if far else cores[1]), "client_end": _end(chance),
            "server_end": {} if far else process, "same_machine": machine, "round_trip": trip,
        }  # fmt: skip
        return [
            upsert_support.trial(_upsert(chance), repeat=r, **settings) | {"cell": name} for r in range(2)
        ]
    given = _transfer(chance) if shape == "transfer" else _ingest(chance)
    server = dict(chance.choice(SHARES)) if shape == "transfer" else {}
    more: dict[str, Any] = {}
    if given.get("encoders"):
        busy = [chance.choice((0.2, 0.8, 0.97)) for _ in range(2)]
        pools = {
            name: {"threads": n, "busy_ns": int(b * n * SECOND), "time_ns": n * SECOND}
            for name, n, b in zip(
                ("encoders", "decoders"), (given["encoders"], given["decoders"]), busy, strict=True
            )
        }
        more["pools"] = {"client": {"decoders": pools["decoders"]}, "server": {"encoders": pools["encoders"]}}
    if chance.random() < 0.1:
        more["pin"] = [0]
    if given["rate"] and chance.random() < 0.7:
        more["schedule"] = {"rate": given["rate"], "intended": 1000, "late": 3}
    if chance.random() < 0.05:
        more["instrument"] = {"share": 0.2, "clock_read_ns": 1000.0}
    if chance.random() < 0.05:
        more["resources"] = None
    rate = chance.choice((6.2e6, 118e6, 1e9))
    if (link := given.get("link")) is not None:
        bits = {f"{way}_bits_per_second": (parse(link).rate or (1e9, 1e9))[0] for way in ("up", "down")}
        more["link"] = {"asked": link, "round_trip_ns": LINKS[link] * 1_000_000 or 50_000, **bits}
        rate = chance.choice((0.9e6, 6.2e6, 11.5e6))
    made = [
        verdict_support.trial(
            shares, server, parameters=given, rate=rate, repeat=r, cell=name, same_machine=machine, cpu=cores,
            client_end=_end(chance) if not r else None, server_end=_end(chance) if not r else None,
            round_trip=trip, **more,
        )
        for r in range(2)
    ]  # fmt: skip
    if made[1].get("resources"):
        made[1]["resources"] = made[0]["resources"]
    return made


def groups(number: int, size: int = 4, seed: int = 1) -> Iterator[tuple[str, list[Cell], dict[str, Any]]]:
    """So many cells in sweeps of `size`, each with a name and the environment of its run: cells that
    differ in streams or rows per batch alone."""
    chance = random.Random(seed)
    for at in range(number // size):
        first = _trials(chance, f"{at}-0")
        axis, rate = chance.choice(("streams", "rows_per_batch")), chance.choice((1.0, 1.05, 1.9))
        lines = list(first)
        for step in range(1, size):
            for record in first:
                parameters = dict(record["parameters"])
                parameters[axis] = max(1, parameters[axis] // 2) + 3 * step
                if axis == "streams":
                    parameters["threads"] = parameters["streams"]
                counts = {n: int(v * rate**step) if v else v for n, v in record["counts"].items()}
                outcome = "failed" if step == size - 1 and chance.random() < 0.1 else "ok"
                lines.append(
                    record
                    | {"parameters": parameters, "counts": counts, "cell": f"{at}-{step}", "outcome": outcome}
                )
        probes: list[dict[str, Any]] = []
        if chance.random() < 0.3:
            probes += verdict_support.raw_tcp(
                chance.choice((119e6, 1.3e9)), first[0]["parameters"]["streams"]
            )
        if chance.random() < 0.3:
            probes += [
                {"kind": "memory", "name": "copy", "end": "client", "threads": n, "bytes": int(1.1e9),
                 "interval_ns": SECOND, "repeat": i, "outcome": "ok"}
                for n in (1, 8) for i in range(3)
            ]  # fmt: skip
        yield f"group-{at}", summarise(lines, probes), {}
