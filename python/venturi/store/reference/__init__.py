"""Published figures, carried with the package so that a run can be laid over them.

The files beside this module are as published (README.md says where from), only put into one CSV a set.
"""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from venturi.common.errors import VenturiError
from venturi.store.importers import flight, published
from venturi.store.importers.record import Draft


@dataclass(frozen=True)
class ReferenceSet:
    """A published set of figures. `label` names the hardware wherever a figure of it is drawn; `client` and
    `server` hold what the publication tells of the machines, in the form of environment.json."""

    name: str
    label: str
    operation: str
    file: str
    format: str
    source: str
    parse: Callable[[str], list[Draft]] = field(repr=False)
    client: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    place: str | None = None
    said: str = ""
    """What its authors wrote as their result; empty where they let the figures speak."""
    axis: str | None = None
    """Over which parameter, where it is about one."""

    def drafts(self) -> list[Draft]:
        """Its trials as published."""
        return self.parse(
            importlib.resources.files(__package__).joinpath(self.file).read_text(encoding="utf-8")
        )

    def rows(self) -> list[dict[str, Any]]:
        """Parameters and figures of each published trial, in base units (`_ns`, bytes, per second)."""
        return [d.parameters | d.counts | d.times | d.rates for d in self.drafts()]


def _flight(place: str) -> Callable[[str], list[Draft]]:
    def drafts(text: str) -> list[Draft]:
        out = []
        for at, row in enumerate(csv.DictReader(text.splitlines()), 2):
            out.append(
                flight.flight_draft(
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
    return published.parse_chspark(text, "chspark.csv").drafts


def _akumuli(text: str) -> list[Draft]:
    return published.parse_akumuli(text, "akumuli.txt").drafts


def _upsert(system: str) -> Callable[[str], list[Draft]]:
    def drafts(text: str) -> list[Draft]:
        return [
            d for d in published.parse_memsql(text, "upsert.txt").drafts if d.parameters["target"] == system
        ]

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
# In MiB/s, as its tool prints.
_SATURATES = "more streams gain less and less; 4 million records in all come to about {} MiB/s"
_FLIGHT_TOOL = "Arrow C++ flight_benchmark"

SETS = {
    run.name: run
    for run in (
        *(
            ReferenceSet(
                f"macbook-{operation}",
                "MacBook Pro 2018",
                operation,
                f"macbook-{operation}.csv",
                "perf_stats",
                f"{_FLIGHT_TOOL} on a MacBook Pro 2018, published 2019",
                _flight("local"),
                _MACBOOK,
                _MACBOOK,
                "local",
                said,
                "streams",
            )
            for operation, said in (
                ("get", "below 5 streams speed increases linearly, with more than 5 it does not increase"),
                ("put", "speed keeps increasing with more streams"),
            )
        ),
        ReferenceSet(
            "cartesius-localhost",
            "Cartesius node",
            "get",
            "cartesius-localhost.csv",
            "perf_stats",
            f"{_FLIGHT_TOOL} within one node of Cartesius",
            _flight("local"),
            _CARTESIUS,
            _CARTESIUS,
            "local",
            _SATURATES.format("1,950"),
            "streams",
        ),
        ReferenceSet(
            "cartesius-remote",
            "Cartesius, two nodes",
            "get",
            "cartesius-remote.csv",
            "perf_stats",
            f"{_FLIGHT_TOOL} between two nodes of Cartesius, InfiniBand 4 x FDR (56 Gbit/s)",
            _flight("remote"),
            _CARTESIUS,
            _CARTESIUS,
            "remote",
            _SATURATES.format("1,600"),
            "streams",
        ),
        ReferenceSet(
            "chspark",
            "CHSpark",
            "get",
            "chspark.csv",
            "chspark",
            "CHSpark: ClickHouse's Arrow-over-TCP interface",
            _chspark,
            _CHSPARK,
            _CHSPARK,
            said="110 MB/s per encoder, nearly linear up to one encoder per CPU; 1 or 2 decoders are enough",
            axis="encoders",
        ),
        ReferenceSet(
            "akumuli",
            "Akumuli, c3.8xlarge",
            "ingest",
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
            said="2.76 billion points in under 3 minutes: above 16 million points/s, a database of 11 GB",
        ),
        *(
            ReferenceSet(
                system,
                f"{title}, m4.10xlarge",
                "upsert",
                "upsert.txt",
                "memsql",
                f"{title} on 1, 5 and 10 machines of AWS, published with MemSQL's benchmark.py",
                _upsert(system),
                _M4,
                _M4,
                axis="loaders",
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
"""Sets that belong together can be named at once."""


def names() -> list[str]:
    """Every name that `sets` takes."""
    return [*SETS, *GROUPS]


def sets(name: str) -> list[ReferenceSet]:
    """The set or the group of this name. Raises `VenturiError` (usage) for one that does not exist."""
    if name not in names():
        raise VenturiError(f"there is no reference {name!r}", hint=f"choose one of: {', '.join(names())}")
    return [SETS[member] for member in GROUPS.get(name, (name,))]
