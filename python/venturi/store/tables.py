"""The records of a run as Arrow tables: what `venturi sql` and the Python API read.

Columns keep their units in their names: `_ns` nanoseconds, `_bytes` bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from venturi.common.hdr import batches_for
from venturi.store.samples import RESOURCE, resource_rows
from venturi.targets.parameters import PARAMETERS
from venturi.targets.system import is_plugin

Record = Mapping[str, Any]

_I, _F, _S, _B = pa.int64(), pa.float64(), pa.string(), pa.bool_()
_IDENTITY = {"run": _S, "trial": _S, "cell": _S, "repeat": _I, "warmup": _B, "order": _I}
_TYPES: dict[type, pa.DataType] = {
    **{int: _I, float: _F, str: _S, bool: _B},
    **{list[int]: pa.list_(_I), list[str]: pa.list_(_S)},
}
_PARAMETERS = {name: _TYPES[kind] for name, kind in PARAMETERS.items()}
_LATENCIES = ("service", "response")
_FIGURES = ("min", "mean", "p50", "p95", "p99", "p999", "max")
_RESULT = {
    "outcome": _S,
    "error_kind": _S,
    "error_message": _S,
    "rows": _I,
    "batches": _I,
    "payload_bytes": _I,
    "wire_bytes": _I,
    "stored_bytes": _I,
    "errors_refused": _I,
    "errors_in_doubt": _I,
    "batches_retried": _I,
    "started_unix_ns": _I,
    "setup_ns": _I,
    "interval_ns": _I,
    "verify_ns": _I,
    "start_skew_ns": _I,
    "steady_ns": _I,
    "steady_rows": _I,
    "steady_payload_bytes": _I,
    "bytes_per_second": _F,
    "steady_bytes_per_second": _F,
    "rows_per_second": _F,
    "verified": _S,
    "client_user_ns": _I,
    "client_system_ns": _I,
    "server_user_ns": _I,
    "server_system_ns": _I,
    **{f"{kind}_{figure}_ns": _F for kind in _LATENCIES for figure in _FIGURES},
    "encoders_busy_share": _F,
    "decoders_busy_share": _F,
    "instrument_share": _F,
    "server_software": _S,
    "imported_from": _S,
    "imported_format": _S,
    "note": _S,
}
TAKEN = frozenset(
    {*_IDENTITY, *_RESULT, "trials", "good", "failed", "interrupted", "warmups", "pin", "share_of_ceiling"}
)
"""Names of columns that no parameter may have."""
_STREAM = {
    "stream": _I,
    "thread": _I,
    "rows": _I,
    "batches": _I,
    "payload_bytes": _I,
    "start_ns": _I,
    "first_batch_ns": _I,
    "end_ns": _I,
    "connect_ns": _I,
}
_LATENCY = {"kind": _S, "percentile": _F, "ns": _F, "count": _I, "mean_ns": _F}
_ERROR = {"kind": _S, "code": _S, "count": _I, "message": _S, "stream": _I, "first_ns": _I}
_STAGE = {"end": _S, "stage": _S, "ns": _I, "share": _F}
_LOADER = {
    "host": _S,
    "address": _S,
    "node": _S,
    "role": _S,
    "lead": _B,
    "first_stream": _I,
    "streams": _I,
    "rows": _I,
    "batches": _I,
    "payload_bytes": _I,
    "interval_ns": _I,
    "bytes_per_second": _F,
    "rows_per_second": _F,
    "share": _F,
    "start_skew_ns": _I,
    "clock_offset_ns": _I,
    "clock_uncertainty_ns": _I,
    "user_ns": _I,
    "system_ns": _I,
    "host_cores": _I,
    "host_busy_share": _F,
    "outcome": _S,
    "error": _S,
}
_CEILING = {
    "kind": _S,
    "place": _S,
    "end": _S,
    "name": _S,
    "threads": _I,
    "pin": _S,
    "direction": _S,
    "streams": _I,
    "message_bytes": _I,
    "path": _S,
    "data": _S,
    "address": _S,
    "repeat": _I,
    "round": _I,
    "bytes": _I,
    "encoded_bytes": _I,
    "interval_ns": _I,
    "bytes_per_second": _F,
    "outcome": _S,
    "error": _S,
    "measured_unix_ns": _I,
    "cached": _B,
}


def _table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, pa.DataType]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=pa.schema(list(columns.items())))


def _identity(record: Record) -> dict[str, Any]:
    return {name: record.get(name) for name in _IDENTITY}


def _inner(record: Record, *path: str) -> Any:
    found: Any = record
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _per_second(amount: int | None, interval_ns: int | None) -> float | None:
    return amount * 1e9 / interval_ns if amount is not None and interval_ns else None


def _percentiles(latency_of: Any) -> dict[float, float]:
    """Those that enough batches were timed for, as every command shows them; their number is not always
    known of imported ones."""
    timed = _inner(latency_of, "count")
    found = _inner(latency_of, "percentiles") or []
    return {at: float(value) for at, value in found if timed is None or timed >= batches_for(at)}


def parameters_of(record: Record) -> Mapping[str, Any]:
    return record.get("parameters") or {}


def _figures(record: Record) -> dict[str, float | None]:
    """Latencies of batches by their column."""
    out: dict[str, float | None] = {}
    for kind in _LATENCIES:
        found = _inner(record, "latency", kind)
        percentiles = _percentiles(found)
        for figure in _FIGURES:
            percent = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}.get(figure)
            value = percentiles.get(percent) if percent else _inner(found, figure)
            # Without batches there is no minimum and no mean, though the summary has zeros.
            out[f"{kind}_{figure}_ns"] = value if found and found.get("count") != 0 else None
    return out


def _busy(pool: Any) -> float | None:
    """The share of its threads' time that a pool worked."""
    return pool["busy_ns"] / pool["time_ns"] if pool and pool.get("time_ns") else None


def trials(records: Sequence[Record]) -> pa.Table:
    """One row a trial, warm-up and failed ones included."""
    others = _others(records)

    def row(record: Record) -> dict[str, Any]:
        counts, times = record.get("counts") or {}, record.get("times") or {}
        cpu = {end: _inner(record, "cpu", end) or {} for end in ("client", "server")}
        # Absent where nothing failed.
        known = 0 if parameters_of(record).get("operation") == "upsert" else None
        parameters = parameters_of(record)
        return {
            **_identity(record),
            **{name: parameters.get(name) for name in _PARAMETERS},
            **{name: _as(parameters.get(name), kind) for name, kind in others.items()},
            **counts,
            **times,
            "outcome": record.get("outcome"),
            "error_kind": _inner(record, "error", "kind"),
            "error_message": _inner(record, "error", "message"),
            "bytes_per_second": _inner(record, "rates", "bytes_per_second")
            or _per_second(counts.get("payload_bytes"), times.get("interval_ns")),
            "steady_bytes_per_second": _per_second(times.get("steady_payload_bytes"), times.get("steady_ns")),
            "rows_per_second": _inner(record, "rates", "rows_per_second")
            or _per_second(counts.get("rows"), times.get("interval_ns")),
            "verified": _inner(record, "verification", "achieved"),
            **{f"{end}_{kind}": cpu[end].get(kind) for end in cpu for kind in ("user_ns", "system_ns")},
            **_figures(record),
            "errors_refused": _inner(record, "errors", "refused", "batches") or known,
            "errors_in_doubt": _inner(record, "errors", "in_doubt", "batches") or known,
            "batches_retried": _inner(record, "errors", "retries") or known,
            "encoders_busy_share": _busy(_inner(record, "pools", "server", "encoders")),
            "decoders_busy_share": _busy(_inner(record, "pools", "client", "decoders")),
            "instrument_share": _inner(record, "instrument", "share"),
            "server_software": _inner(record, "target", "software"),
            "imported_from": _inner(record, "imported", "from"),
            "imported_format": _inner(record, "imported", "format"),
            "note": _inner(record, "imported", "note"),
        }

    return _table(map(row, records), {**_IDENTITY, **_PARAMETERS, **others, **_RESULT})


def _others(records: Sequence[Record]) -> dict[str, pa.DataType]:
    """Parameters that only other tools or plugins have, and their types: of a column of several, text."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        if record.get("imported") or is_plugin(str(parameters_of(record).get("target") or "")):
            for name, value in (record.get("parameters") or {}).items():
                if name not in _PARAMETERS and name not in TAKEN:
                    kinds.setdefault(name, set()).update(() if value is None else (type(value),))
    types = {frozenset({int}): _I, frozenset({float}): _F, frozenset({int, float}): _F, frozenset({bool}): _B}
    return {name: types.get(frozenset(found), _S) for name, found in sorted(kinds.items())}


def _as(value: Any, kind: pa.DataType) -> Any:
    return value if value is None or kind != _S else str(value)


def streams(records: Sequence[Record]) -> pa.Table:
    """One row a stream of a trial; times are relative to the start instant."""
    rows = (
        {**_identity(record), **{name: stream.get(name) for name in _STREAM}}
        for record in records
        for stream in record.get("streams") or []
    )
    return _table(rows, {**_IDENTITY, **_STREAM})


def latency(records: Sequence[Record]) -> pa.Table:
    """One row a percentile of a trial; `kind` is service or response."""
    rows = (
        {
            **_identity(record),
            "kind": kind,
            "percentile": percent,
            "ns": value,
            "count": found.get("count"),
            "mean_ns": found.get("mean"),
        }
        for record in records
        for kind in ("service", "response")
        if (found := _inner(record, "latency", kind))
        for percent, value in _percentiles(found).items()
    )
    return _table(rows, {**_IDENTITY, **_LATENCY})


def stages(records: Sequence[Record]) -> pa.Table:
    """One row a stage of one end; `share` is of that end's whole accounted time."""
    rows = []
    for record in records:
        for end in ("client", "server"):
            found = _inner(record, "stages", end) or {}
            total = sum(found.values())
            rows += [
                {
                    **_identity(record),
                    "end": end,
                    "stage": stage,
                    "ns": value,
                    "share": value / total if total else None,
                }
                for stage, value in found.items()
            ]
    return _table(rows, {**_IDENTITY, **_STAGE})


def errors(records: Sequence[Record]) -> pa.Table:
    """One row a kind of error that batches of a trial met, with the first one's message."""
    rows = (
        {**_identity(record), **{name: found.get(name) for name in _ERROR}}
        for record in records
        for found in _inner(record, "errors", "kinds") or []
    )
    return _table(rows, {**_IDENTITY, **_ERROR})


def hosts(records: Sequence[Record]) -> pa.Table:
    """One row a loader of a trial; trials of one process have none."""

    def row(record: Record, found: Mapping[str, Any]) -> dict[str, Any]:
        first, count = found.get("streams") or (None, None)
        interval = found.get("interval_ns")
        machine = (found.get("resources") or {}).get("host") or {}
        return {
            **_identity(record),
            **{name: found.get(name) for name in _LOADER},
            "first_stream": first,
            "streams": count,
            "bytes_per_second": _per_second(found.get("payload_bytes"), interval),
            "rows_per_second": _per_second(found.get("rows"), interval),
            "share": _share(found, record),
            "host_cores": machine.get("cores"),
            "host_busy_share": machine.get("busy_share"),
            **{f"clock_{name}": _inner(found, "clock", name) for name in ("offset_ns", "uncertainty_ns")},
            **{name: _inner(found, "cpu", name) for name in ("user_ns", "system_ns")},
        }

    rows = (row(record, found) for record in records for found in record.get("hosts") or [])
    return _table(rows, {**_IDENTITY, **_LOADER})


def _share(found: Mapping[str, Any], record: Mapping[str, Any]) -> float | None:
    """Share of the payload that all loaders moved; null where nothing was."""
    total = sum(host.get("payload_bytes") or 0 for host in record["hosts"])
    return (found.get("payload_bytes") or 0) / total if total else None


def resources(records: Sequence[Record]) -> pa.Table:
    """One row an end of a trial: what process, host, interface, disks and connections did meanwhile.

    Trials without samples have no row.
    """
    rows = ({**_identity(record), **row} for record in records for row in resource_rows(record))
    return _table(rows, {**_IDENTITY, **RESOURCE})


def ceilings(records: Sequence[Record]) -> pa.Table:
    """One row a probe."""

    def row(record: Record) -> dict[str, Any]:
        error = record.get("error")
        return {
            **{name: record.get(name) for name in _CEILING},
            "bytes_per_second": _per_second(record.get("bytes"), record.get("interval_ns")),
            "error": error.get("message") if isinstance(error, Mapping) else error,
        }

    return _table(map(row, records), _CEILING)
