"""Published sets as runs: every command takes `reference:NAME` where it takes a run directory."""

from __future__ import annotations

import csv
import difflib
import importlib.resources
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from venturi.common.errors import VenturiError
from venturi.store.directory import RunDirectory
from venturi.store.importers import akumuli, chspark, flight, memsql
from venturi.store.importers.record import Draft, Origin, lines

PREFIX = "reference:"


@dataclass(frozen=True)
class PublishedRun:
    """A set as a run. `client` and `server` hold what the publication tells of the machines, in the form of
    environment.json."""

    name: str
    file: str
    format: str
    source: str
    drafts: Callable[[str], list[Draft]] = field(repr=False)
    client: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    place: str | None = None


def _flight(place: str) -> Callable[[str], list[Draft]]:
    def drafts(text: str) -> list[Draft]:
        out = []
        for at, row in enumerate(csv.DictReader(text.splitlines()), 2):
            out.append(
                flight.draft(
                    row["operation"],
                    int(row["streams"]),
                    int(row["threads"]),
                    int(row["rows_per_stream"]),
                    int(row["rows_per_batch"]),
                    float(row["seconds"]),
                    float(row["mebibytes_per_second"]),
                    place=place,
                    line=at,
                )
            )
        return out

    return drafts


def _chspark(text: str) -> list[Draft]:
    return chspark.parse(text, "chspark.csv").drafts


def _akumuli(text: str) -> list[Draft]:
    return akumuli.parse(text, "akumuli.txt").drafts


def _upsert(system: str) -> Callable[[str], list[Draft]]:
    def drafts(text: str) -> list[Draft]:
        return [d for d in memsql.parse(text, "upsert.txt").drafts if d.parameters["target"] == system]

    return drafts


_MACBOOK = {
    "host": "MacBook Pro (2018)",
    "system": "Darwin",
    "architecture": "x86_64",
    "cpu": "Intel Core i5, quad-core, 2.3 GHz",
    "cores": {"physical": 4},
    "memory": {"total": 16 * 2**30},
}
_CARTESIUS = {
    "host": "bullx node of Cartesius",
    "system": "Linux",
    "architecture": "x86_64",
}
# Published as one list for the benchmark: client and server shared this machine or had one like it each.
_CHSPARK = {
    "system": "Linux",
    "architecture": "x86_64",
    "cpu": "Intel Xeon E312xx, 2.4 GHz",
    "cores": {"logical": 16},
    "memory": {"total": 16 * 2**30},
}
# Each host ran both the benchmark and its share of the database.
_M4 = {
    "host": "m4.10xlarge",
    "system": "Linux",
    "cpu": "Intel Xeon E5-2676 v3, 2.4 GHz",
    "cores": {"logical": 40},
    "memory": {"total": 160 * 2**30},
}
_FLIGHT_TOOL = "Arrow C++ flight_benchmark"

RUNS = {
    run.name: run
    for run in (
        *(
            PublishedRun(
                f"macbook-{operation}",
                f"macbook-{operation}.csv",
                "perf_stats",
                f"{_FLIGHT_TOOL} on a MacBook Pro 2018, published 2019",
                _flight("local"),
                _MACBOOK,
                _MACBOOK,
                "local",
            )
            for operation in ("get", "put")
        ),
        PublishedRun(
            "cartesius-localhost",
            "cartesius-localhost.csv",
            "perf_stats",
            f"{_FLIGHT_TOOL} within one node of Cartesius",
            _flight("local"),
            _CARTESIUS,
            _CARTESIUS,
            "local",
        ),
        PublishedRun(
            "cartesius-remote",
            "cartesius-remote.csv",
            "perf_stats",
            f"{_FLIGHT_TOOL} between two nodes of Cartesius, InfiniBand 4 x FDR (56 Gbit/s)",
            _flight("remote"),
            _CARTESIUS,
            _CARTESIUS,
            "remote",
        ),
        PublishedRun(
            "chspark",
            "chspark.csv",
            "chspark",
            "CHSpark: ClickHouse's Arrow-over-TCP interface",
            _chspark,
            _CHSPARK,
            _CHSPARK,
        ),
        PublishedRun(
            "akumuli",
            "akumuli.txt",
            "akumuli",
            "Akumuli's ingest benchmark on AWS, published 2017",
            _akumuli,
            {"host": "m3.xlarge"},
            {
                "host": "c3.8xlarge",
                "system": "Linux",
                "cpu": "Intel Xeon E5-2680 v2",
                "cores": {"logical": 32},
            },
        ),
        *(
            PublishedRun(
                system,
                "upsert.txt",
                "memsql",
                f"{title} on 1, 5 and 10 machines of AWS, published with MemSQL's benchmark.py",
                _upsert(system),
                _M4,
                _M4,
            )
            for system, title in (("memsql", "MemSQL"), ("cassandra", "Cassandra"))
        ),
    )
}
GROUPS = {
    "macbook": ("macbook-get", "macbook-put"),
    "cartesius": ("cartesius-localhost", "cartesius-remote"),
    "upsert": ("memsql", "cassandra"),
}
"""Sets that can be taken as one run."""


def names() -> list[str]:
    """Every NAME of `reference:NAME`."""
    return [*RUNS, *GROUPS]


class ReferenceRun(RunDirectory):
    """Published sets, read like a run directory; there is none on disk."""

    def __init__(self, name: str) -> None:
        """`name` with or without `reference:`. Raises `VenturiError` (usage) for one that does not exist."""
        short = name.removeprefix(PREFIX)
        if short not in names():
            close = difflib.get_close_matches(short, names(), n=1)
            raise VenturiError(
                f"there is no reference run {short!r}" + (f"; did you mean {close[0]}?" if close else ""),
                hint=f"choose one of: {', '.join(names())}",
            )
        self.sets = [RUNS[member] for member in GROUPS.get(short, (short,))]
        self.path = Path(PREFIX + short)
        first = self.sets[0]
        self.environment = {
            "format": 1,
            "run": PREFIX + short,
            "started_unix_ns": None,
            "command": None,
            "client": dict(first.client) or None,
            "server": dict(first.server) or None,
            "servers": {},
            "imported": [{"from": s.file, "format": s.format, "source": s.source} for s in self.sets],
        }

    @property
    def saved(self) -> bool:
        return False

    def records(self) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for one in self.sets:
            text = importlib.resources.files(__package__).joinpath(one.file).read_text(encoding="utf-8")
            origin = Origin(one.file, one.format, one.source)
            out += lines(one.drafts(text), self.name, origin, out)
        return out

    def ceiling_records(self) -> list[dict[str, Any]]:
        return []
