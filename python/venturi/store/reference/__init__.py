"""Published figures, carried with the package so that a run can be laid over them, and as runs: every command
takes `reference:NAME` where it takes a run directory.

The files beside this module are as published (README.md says where from), only put into one file a set.
"""

from __future__ import annotations

import csv
import importlib.resources
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from venturi.common.errors import VenturiError
from venturi.common.texts import meant
from venturi.engine.record import Trial, trial_of
from venturi.store.directory import RunDirectory
from venturi.store.importers import flight, published
from venturi.store.importers.record import Draft, Origin, draft, integer, lines, real

PREFIX = "reference:"


@dataclass(frozen=True)
class ReferenceSet:
    """A published set of figures. `label` names the hardware wherever a figure of it is drawn; `client` and
    `server` hold what the publication says of the machines, in the form of environment.json."""

    name: str
    label: str
    operation: str
    file: str
    format: str
    source: str
    client: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    place: str | None = None
    said: str = ""
    """What its authors wrote as their result; empty where they let the figures speak."""
    axis: str | None = None
    """Over which parameter, where it is about one."""

    def drafts(self) -> list[Draft]:
        """Its trials as published."""
        text = importlib.resources.files(__package__).joinpath(self.file).read_text(encoding="utf-8")
        if self.format == "chspark":
            return published.CHSPARK.parse(text, self.file).drafts
        if self.format == "memsql":
            drafts = published.MEMSQL.parse(text, self.file).drafts
            return [it for it in drafts if it.parameters["target"] == self.name]
        rows = enumerate(csv.reader(text.splitlines()), 1)
        _, head = next(rows)
        if self.format == "perf_stats":
            return [flight.perf_stats_draft(row[0], row[1:], at, self.file, self.place) for at, row in rows]
        drafts = []
        for at, row in rows:
            columns = {name: _value(text) for name, text in zip(head, row, strict=True) if text}
            note, stored = columns.pop("note"), columns.pop("stored_bytes", None)
            made = draft(self.operation, columns, {"target": self.name}, line=at, note=note)
            made.figures |= {} if stored is None else {"stored_bytes": float(stored)}
            drafts.append(made)
        return drafts

    def rows(self) -> list[dict[str, Any]]:
        """Parameters and figures of each published trial, in base units (`_ns`, bytes, per second)."""
        return [d.parameters | d.counts | d.times | d.rates for d in self.drafts()]


def _value(text: str) -> Any:
    """The number that a text is, or else the text."""
    numbers = (integer(text), real(text))
    return next((number for number in numbers if number is not None), text)


_LINUX = {"system": "Linux", "architecture": "x86_64"}
_MACBOOK = {
    "host": "MacBook Pro (2018)",
    "system": "Darwin",
    "architecture": "x86_64",
    "cpu": "Intel Core i5, quad-core, 2.3 GHz",
    "cores": {"physical": 4},
    "memory": {"total": 16 * 2**30},
}
_CARTESIUS = {"host": "bullx node of Cartesius", **_LINUX}
# Published as one list for the benchmark: client and server shared this machine or had one like it each.
_CHSPARK = {
    **_LINUX,
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
_C3 = {"host": "c3.8xlarge", "system": "Linux", "cpu": "Intel Xeon E5-2680 v2", "cores": {"logical": 32}}


def _flight(
    name: str, label: str, operation: str, where: str, host: dict[str, Any], place: str, said: str
) -> ReferenceSet:
    return ReferenceSet(
        name=name, label=label, operation=operation, file=f"{name}.csv", format="perf_stats",
        source=f"Arrow C++ flight_benchmark {where}", client=host, server=host, place=place, said=said,
        axis="streams",
    )  # fmt: skip


def _upsert(name: str, title: str) -> ReferenceSet:
    return ReferenceSet(
        name=name, label=f"{title}, m4.10xlarge", operation="upsert", file="upsert.txt", format="memsql",
        source=f"{title} on 1, 5 and 10 machines of AWS, published with MemSQL's benchmark.py",
        client=_M4, server=_M4, axis="loaders",
    )  # fmt: skip


_MAC = "on a MacBook Pro 2018, published 2019"
_NODE = "within one node of Cartesius"
_NODES = "between two nodes of Cartesius, InfiniBand 4 x FDR (56 Gbit/s)"
_GETS = "below 5 streams speed increases linearly, with more than 5 it does not increase"
_PUTS = "speed keeps increasing with more streams"
_SATURATES = "more streams gain less and less; 4 million records in all come to about {} MiB/s"
_ALL = (
    _flight("macbook-get", "MacBook Pro 2018", "get", _MAC, _MACBOOK, "local", _GETS),
    _flight("macbook-put", "MacBook Pro 2018", "put", _MAC, _MACBOOK, "local", _PUTS),
    _flight(
        "cartesius-localhost", "Cartesius node", "get", _NODE, _CARTESIUS, "local", _SATURATES.format("1,950")
    ),
    _flight(
        "cartesius-remote", "Cartesius, two nodes", "get", _NODES, _CARTESIUS, "remote",
        _SATURATES.format("1,600"),
    ),
    ReferenceSet(
        name="chspark", label="CHSpark", operation="get", file="chspark.csv", format="chspark",
        source="CHSpark: ClickHouse's Arrow-over-TCP interface", client=_CHSPARK, server=_CHSPARK,
        said="110 MB/s per encoder, nearly linear up to one encoder per CPU; 1 or 2 decoders are enough",
        axis="encoders",
    ),
    ReferenceSet(
        name="akumuli", label="Akumuli, c3.8xlarge", operation="ingest", file="akumuli.csv", format="akumuli",
        source="Akumuli's ingest benchmark on AWS, published 2017", client={"host": "m3.xlarge"}, server=_C3,
        said="2.76 billion points in under 3 minutes: above 16 million points/s, a database of 11 GB",
    ),
    _upsert("memsql", "MemSQL"),
    _upsert("cassandra", "Cassandra"),
)  # fmt: skip
SETS = {one.name: one for one in _ALL}
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
        close = meant(name, names())
        raise VenturiError(
            f"there is no reference {name!r}" + (f"; {close}" if close else ""),
            hint=f"choose one of: {', '.join(names())}",
        )
    return [SETS[member] for member in GROUPS.get(name, (name,))]


class ReferenceRun(RunDirectory):
    """Published sets, read like a run directory; there is none on disk."""

    saved = False

    def __init__(self, name: str) -> None:
        """`name` with or without `reference:`. Raises `VenturiError` (usage) for one that does not exist."""
        short = name.removeprefix(PREFIX)
        self.sets = sets(short)
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

    def records(self) -> list[Trial]:
        out: list[dict[str, Any]] = []
        for one in self.sets:
            origin = Origin(one.file, one.format, one.source)
            out += lines(one.drafts(), self.name, origin, out)
        return [trial_of(line) for line in out]

    def ceiling_records(self) -> list[dict[str, Any]]:
        return []
