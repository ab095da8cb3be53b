"""The records of a run as Arrow tables: what `venturi sql` and the Python API read.

Columns keep their units in their names: `_ns` nanoseconds, `_bytes` bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from venturi.common.hdr import batches_for
from venturi.engine.record import Counts, ErrorKind, Group, Latency, Loader, PoolTime, Stream, Times, Trial
from venturi.store.samples import ENDS, RESOURCE, columns_of, resource_rows
from venturi.targets.parameters import PARAMETERS
from venturi.targets.system import is_plugin

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
    **columns_of(Counts),
    "errors_refused": _I,
    "errors_in_doubt": _I,
    "batches_retried": _I,
    **columns_of(Times),
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
_STREAM = columns_of(Stream)
_LATENCY = {"kind": _S, "percentile": _F, "ns": _F, "count": _I, "mean_ns": _F}
_ERROR = columns_of(ErrorKind)
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


def _fields(group: Group, names: Iterable[str]) -> dict[str, Any]:
    return {name: group[name] for name in names}


def _per_second(amount: int | None, interval_ns: int | None) -> float | None:
    return amount * 1e9 / interval_ns if amount is not None and interval_ns else None


def _percentiles(found: Latency) -> dict[float, float]:
    """Those that enough batches were timed for, as every command shows them; their number is not always
    known of imported ones."""
    return {at: ns for at, ns in found.percentiles if found.count is None or found.count >= batches_for(at)}


def _figures(record: Trial) -> dict[str, float | None]:
    """Latencies of batches by their column."""
    out: dict[str, float | None] = {}
    for kind in _LATENCIES:
        found: Latency = record.latency[kind]
        percentiles = _percentiles(found)
        for figure in _FIGURES:
            percent = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}.get(figure)
            value = percentiles.get(percent) if percent else found[figure]
            # Without batches there is no minimum and no mean, though the summary has zeros.
            out[f"{kind}_{figure}_ns"] = value if found.count != 0 else None
    return out


def _busy(pool: PoolTime) -> float | None:
    """The share of its threads' time that a pool worked."""
    return pool.busy_ns / pool.time_ns if pool.busy_ns is not None and pool.time_ns else None


def trials(records: Sequence[Trial]) -> pa.Table:
    """One row a trial, warm-up and failed ones included."""
    others = _others(records)

    def row(record: Trial) -> dict[str, Any]:
        counts, times, parameters = record.counts, record.times, record.parameters
        # Absent where nothing failed.
        known = 0 if parameters.get("operation") == "upsert" else None
        return {
            **_fields(record, _IDENTITY),
            **{name: parameters.get(name) for name in _PARAMETERS},
            **{name: _as(parameters.get(name), kind) for name, kind in others.items()},
            **msgspec.structs.asdict(counts),
            **msgspec.structs.asdict(times),
            "outcome": record.outcome,
            "error_kind": record.error.kind,
            "error_message": record.error.message,
            "bytes_per_second": record.rates.bytes_per_second
            or _per_second(counts.payload_bytes, times.interval_ns),
            "steady_bytes_per_second": _per_second(times.steady_payload_bytes, times.steady_ns),
            "rows_per_second": record.rates.rows_per_second or _per_second(counts.rows, times.interval_ns),
            "verified": record.verification.achieved,
            **{f"{end}_{kind}": record.cpu[end][kind] for end in ENDS for kind in ("user_ns", "system_ns")},
            **_figures(record),
            "errors_refused": record.errors.refused.batches or known,
            "errors_in_doubt": record.errors.in_doubt.batches or known,
            "batches_retried": record.errors.retries or known,
            "encoders_busy_share": _busy(record.pools.server.encoders),
            "decoders_busy_share": _busy(record.pools.client.decoders),
            "instrument_share": record.instrument.share,
            "server_software": record.target.software,
            "imported_from": record.imported.from_,
            "imported_format": record.imported.format,
            "note": record.imported.note,
        }

    return _table(map(row, records), {**_IDENTITY, **_PARAMETERS, **others, **_RESULT})


def _others(records: Sequence[Trial]) -> dict[str, pa.DataType]:
    """Parameters that only other tools or plugins have, and their types: of a column of several, text."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        if record.imported.source or is_plugin(str(record.parameters.get("target") or "")):
            for name, value in record.parameters.items():
                if name not in _PARAMETERS and name not in TAKEN:
                    kinds.setdefault(name, set()).update(() if value is None else (type(value),))
    types = {frozenset({int}): _I, frozenset({float}): _F, frozenset({int, float}): _F, frozenset({bool}): _B}
    return {name: types.get(frozenset(found), _S) for name, found in sorted(kinds.items())}


def _as(value: Any, kind: pa.DataType) -> Any:
    return value if value is None or kind != _S else str(value)


def streams(records: Sequence[Trial]) -> pa.Table:
    """One row a stream of a trial; times are relative to the start instant."""
    rows = (
        {**_fields(record, _IDENTITY), **_fields(stream, _STREAM)}
        for record in records
        for stream in record.streams
    )
    return _table(rows, {**_IDENTITY, **_STREAM})


def latency(records: Sequence[Trial]) -> pa.Table:
    """One row a percentile of a trial; `kind` is service or response."""
    rows = (
        {
            **_fields(record, _IDENTITY),
            "kind": kind,
            "percentile": percent,
            "ns": value,
            "count": found.count,
            "mean_ns": found.mean,
        }
        for record in records
        for kind in _LATENCIES
        for found in [record.latency[kind]]
        for percent, value in _percentiles(found).items()
    )
    return _table(rows, {**_IDENTITY, **_LATENCY})


def stages(records: Sequence[Trial]) -> pa.Table:
    """One row a stage of one end; `share` is of that end's whole accounted time."""
    rows = []
    for record in records:
        for end in ("client", "server"):
            found = record.stages[end]
            total = sum(found.values())
            rows += [
                {
                    **_fields(record, _IDENTITY),
                    "end": end,
                    "stage": stage,
                    "ns": value,
                    "share": value / total if total else None,
                }
                for stage, value in found.items()
            ]
    return _table(rows, {**_IDENTITY, **_STAGE})


def errors(records: Sequence[Trial]) -> pa.Table:
    """One row a kind of error that batches of a trial met, with the first one's message."""
    rows = (
        {**_fields(record, _IDENTITY), **_fields(found, _ERROR)}
        for record in records
        for found in record.errors.kinds
    )
    return _table(rows, {**_IDENTITY, **_ERROR})


def hosts(records: Sequence[Trial]) -> pa.Table:
    """One row a loader of a trial; trials of one process have none."""

    def row(record: Trial, found: Loader) -> dict[str, Any]:
        first, count = found.streams or (None, None)
        total = sum(host.payload_bytes or 0 for host in record.hosts)
        return {
            **_fields(record, _IDENTITY),
            **msgspec.structs.asdict(found),
            "first_stream": first,
            "streams": count,
            "bytes_per_second": _per_second(found.payload_bytes, found.interval_ns),
            "rows_per_second": _per_second(found.rows, found.interval_ns),
            "share": (found.payload_bytes or 0) / total if total else None,
            "host_cores": found.resources.host.cores,
            "host_busy_share": found.resources.host.busy_share,
            "clock_offset_ns": found.clock.offset_ns,
            "clock_uncertainty_ns": found.clock.uncertainty_ns,
            "user_ns": found.cpu.user_ns,
            "system_ns": found.cpu.system_ns,
        }

    rows = (row(record, found) for record in records for found in record.hosts)
    return _table(rows, {**_IDENTITY, **_LOADER})


def resources(records: Sequence[Trial]) -> pa.Table:
    """One row an end of a trial: what process, host, interface, disks and connections did meanwhile.

    Trials without samples have no row.
    """
    rows = ({**_fields(record, _IDENTITY), **row} for record in records for row in resource_rows(record))
    return _table(rows, {**_IDENTITY, **RESOURCE})


def ceilings(lines: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One row a probe."""

    def row(line: Mapping[str, Any]) -> dict[str, Any]:
        error = line.get("error")
        return {
            **{name: line.get(name) for name in _CEILING},
            "bytes_per_second": _per_second(line.get("bytes"), line.get("interval_ns")),
            "error": error.get("message") if isinstance(error, Mapping) else error,
        }

    return _table(map(row, lines), _CEILING)
