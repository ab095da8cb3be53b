"""Published figures, carried with the package so that a run can be laid over them.

The files beside this module are as published (README.md says where from), only put into one CSV a set. Units
are converted here, once: what the Flight tool calls MB/s is MiB/s.
"""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from venturi.common.errors import VenturiError

if TYPE_CHECKING:
    import pyarrow as pa

    from venturi.store.importers.record import Draft

RECORD_BYTES = 32
"""Four int64: the record of Arrow's Flight benchmark."""


@dataclass(frozen=True)
class ReferenceSet:
    """A published set of figures. `label` names the hardware wherever a figure of it is drawn."""

    name: str
    label: str
    hardware: str
    what: str
    operation: str
    place: str | None


SETS = {
    s.name: s
    for s in (
        ReferenceSet(
            "macbook-get",
            "MacBook Pro 2018",
            "2.3 GHz quad-core Intel Core i5, 16 GB LPDDR3-2133, macOS 10.15.1",
            "Arrow Flight DoGet, Arrow C++, one host, one repeat",
            "get",
            "local",
        ),
        ReferenceSet(
            "macbook-put",
            "MacBook Pro 2018",
            "2.3 GHz quad-core Intel Core i5, 16 GB LPDDR3-2133, macOS 10.15.1",
            "Arrow Flight DoPut, Arrow C++, one host, one repeat",
            "put",
            "local",
        ),
        ReferenceSet(
            "cartesius-localhost",
            "Cartesius node",
            "one bullx node of the Dutch national supercomputer Cartesius",
            "Arrow Flight DoGet, Arrow C++, one node, ten repeats",
            "get",
            "local",
        ),
        ReferenceSet(
            "cartesius-remote",
            "Cartesius, two nodes",
            "two bullx nodes of Cartesius, InfiniBand 4 x FDR (56 Gbit/s)",
            "Arrow Flight DoGet, Arrow C++, between two nodes, ten repeats",
            "get",
            "remote",
        ),
        ReferenceSet(
            "chspark",
            "CHSpark",
            "Intel Xeon E312xx, 16 cores, 2.4 GHz, 16 GB, CentOS 7.2",
            "ClickHouse's Arrow-over-TCP interface, partitions x decoders x encoders, one repeat",
            "get",
            None,
        ),
        *(
            ReferenceSet(
                name,
                f"{title}, m4.10xlarge",
                "AWS m4.10xlarge each: 40 vCPU of Intel Xeon E5-2676 v3, 2.4 GHz, 160 GB",
                f"upserts into {title} from all of 1, 5 and 10 hosts, 500 rows a batch, one repeat",
                "upsert",
                None,
            )
            for name, title in (("memsql", "MemSQL"), ("cassandra", "Cassandra"))
        ),
        ReferenceSet(
            "akumuli",
            "Akumuli, c3.8xlarge",
            "AWS c3.8xlarge: 32 vCPU of Intel Xeon E5-2680 v2, SSD; loaded by four m3.xlarge",
            "2.76 G points of 32,000 series into Akumuli over 32 connections, one repeat",
            "ingest",
            None,
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
    if name in GROUPS:
        return [SETS[member] for member in GROUPS[name]]
    if name in SETS:
        return [SETS[name]]
    raise VenturiError(f"there is no reference {name!r}", hint=f"choose one of: {', '.join(names())}")


def load(name: str) -> pa.Table:
    """One set as a table, a row a published trial, in base units (`_ns`, bytes, B/s).

    The published MiB and seconds have six significant digits, so payload is taken from the row counts, which
    are exact: rows x 32 bytes. The rate is the published one, x 2^20; `chspark` has it in B/s as published.
    Of upserts rows a second, of ingests points a second are known, and bytes are not.
    """
    import pyarrow as pa

    (one,) = sets(name) if name in SETS else (None,)
    if one is None:
        raise VenturiError(f"{name!r} is a group of sets", hint=f"load one of: {', '.join(GROUPS[name])}")
    if one.operation == "upsert":
        return pa.Table.from_pylist(_upserts(name))
    if one.operation == "ingest":
        return pa.Table.from_pylist(_ingests(name))
    rows: list[dict[str, Any]] = []
    for line in csv.DictReader(_text(f"{name}.csv").splitlines()):
        numbers = {k: int(v) for k, v in line.items() if v.isdigit()}
        if name == "chspark":
            rows.append({"reference": name, "operation": "get", **numbers})
            continue
        # Gets and puts alike move every stream's rows once.
        payload = numbers["streams"] * numbers["rows_per_stream"] * RECORD_BYTES
        rows.append(
            {
                "reference": name,
                "operation": line["operation"],
                "place": one.place,
                **{k: numbers[k] for k in ("streams", "threads", "rows_per_stream", "rows_per_batch")},
                "payload_bytes": payload,
                "interval_ns": round(float(line["seconds"]) * 1e9),
                "bytes_per_second": float(line["mebibytes_per_second"]) * 2**20,
            }
        )
    return pa.Table.from_pylist(rows)


def _ingests(name: str) -> list[dict[str, Any]]:
    """The one load whose connections are known."""
    from venturi.store.importers import akumuli

    drafts = akumuli.parse(_text("akumuli.txt"), "akumuli.txt").drafts
    return [_paced(name, d, ("hosts", "streams")) for d in drafts if "streams" in d.parameters]


def _upserts(system: str) -> list[dict[str, Any]]:
    from venturi.store.importers import memsql

    drafts = memsql.parse(_text("upsert.txt"), "upsert.txt").drafts
    kept = ("hosts", "rows_per_batch", "duration_ns")
    return [_paced(system, d, kept) for d in drafts if d.parameters["target"] == system]


def _text(file: str) -> str:
    return importlib.resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def _paced(name: str, draft: Draft, parameters: Sequence[str]) -> dict[str, Any]:
    return {
        "reference": name,
        "operation": draft.operation,
        **{k: draft.parameters[k] for k in parameters},
        "rows": draft.counts["rows"],
        "rows_per_second": draft.rates["rows_per_second"],
    }
