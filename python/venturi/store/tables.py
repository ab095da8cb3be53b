"""The records of a run as Arrow tables: what `venturi sql` and the Python API read.

Columns keep their units in their names: `_ns` nanoseconds, `_bytes` bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import asdict

from venturi.common.hdr import batches_for
from venturi.engine.record import Latency, PoolTime, Trial
from venturi.store.samples import ENDS, RESOURCE, columns, resource_rows
from venturi.targets.parameters import PARAMETERS
from venturi.targets.system import is_plugin

_TYPES: dict[type, pa.DataType] = {
    **{int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()},
    **{list[int]: pa.list_(pa.int64()), list[str]: pa.list_(pa.string())},
}
_IDENTITY = columns("run:s trial:s cell:s repeat warmup:b order")
_PARAMETERS = {name: _TYPES[kind] for name, kind in PARAMETERS.items()}
_LATENCIES = ("service", "response")
_FIGURES = ("min", "mean", "p50", "p95", "p99", "p999", "max")
_RESULT = {
    **columns("""
        outcome:s error_kind:s error_message:s rows batches payload_bytes wire_bytes stored_bytes
        errors_refused errors_in_doubt batches_retried started_unix_ns setup_ns interval_ns verify_ns
        start_skew_ns steady_ns steady_rows steady_payload_bytes bytes_per_second:f steady_bytes_per_second:f
        rows_per_second:f verified:s client_user_ns client_system_ns server_user_ns server_system_ns
    """),
    **{f"{kind}_{figure}_ns": pa.float64() for kind in _LATENCIES for figure in _FIGURES},
    **columns("""
        encoders_busy_share:f decoders_busy_share:f instrument_share:f server_software:s imported_from:s
        imported_format:s note:s
    """),
}
TAKEN = frozenset(
    {*_IDENTITY, *_RESULT, "trials", "good", "failed", "interrupted", "warmups", "pin", "share_of_ceiling"}
)
"""Names of columns that no parameter may have."""
_STREAM = columns("stream thread rows batches payload_bytes start_ns first_batch_ns end_ns connect_ns")
_LATENCY = columns("kind:s percentile:f ns:f count mean_ns:f")
_ERROR = columns("kind:s code:s count message:s stream first_ns")
_STAGE = columns("end:s stage:s ns share:f")
_LOADER = columns("""
    host:s address:s node:s role:s lead:b first_stream streams rows batches payload_bytes interval_ns
    bytes_per_second:f rows_per_second:f share:f start_skew_ns clock_offset_ns clock_uncertainty_ns user_ns
    system_ns host_cores host_busy_share:f outcome:s error:s
""")
_CEILING = columns("""
    kind:s place:s end:s name:s threads pin:s direction:s streams message_bytes path:s data:s address:s repeat
    round bytes encoded_bytes interval_ns bytes_per_second:f outcome:s error:s measured_unix_ns cached:b
""")


def _table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, pa.DataType]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=pa.schema(list(columns.items())))


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
    foreign = _foreign_parameters(records)

    def row(record: Trial) -> dict[str, Any]:
        counts, times, parameters = record.counts, record.times, record.parameters
        # Absent where nothing failed.
        unfailed = 0 if parameters.get("operation") == "upsert" else None
        return {
            **{name: parameters.get(name) for name in _PARAMETERS},
            **{
                name: str(value) if kind == pa.string() and value is not None else value
                for name, kind in foreign.items()
                for value in (parameters.get(name),)
            },
            **asdict(counts),
            **asdict(times),
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
            "errors_refused": record.errors.refused.batches or unfailed,
            "errors_in_doubt": record.errors.in_doubt.batches or unfailed,
            "batches_retried": record.errors.retries or unfailed,
            "encoders_busy_share": _busy(record.pools.server.encoders),
            "decoders_busy_share": _busy(record.pools.client.decoders),
            "instrument_share": record.instrument.share,
            "server_software": record.target.software,
            "imported_from": record.imported.from_,
            "imported_format": record.imported.format,
            "note": record.imported.note,
        }

    return _inner_rows(records, {**_PARAMETERS, **foreign, **_RESULT}, lambda record: [row(record)])


def _foreign_parameters(records: Sequence[Trial]) -> dict[str, pa.DataType]:
    """Parameters that only other tools or plugins have, and their types: of a column of several, text."""
    kinds: dict[str, set[type]] = {}
    for record in records:
        if record.imported.source or is_plugin(str(record.parameters.get("target") or "")):
            for name, value in record.parameters.items():
                if name not in _PARAMETERS and name not in TAKEN:
                    kinds.setdefault(name, set()).update(() if value is None else (type(value),))
    types: dict[Any, pa.DataType] = {frozenset({kind}): _TYPES[kind] for kind in (int, float, bool)}
    types[frozenset({int, float})] = pa.float64()
    return {name: types.get(frozenset(found), pa.string()) for name, found in sorted(kinds.items())}


def streams(records: Sequence[Trial]) -> pa.Table:
    """One row a stream of a trial; times are relative to the start instant."""
    return _inner_rows(records, _STREAM, lambda record: map(asdict, record.streams))


def _inner_rows(
    records: Sequence[Trial], kinds: Mapping[str, pa.DataType], rows: Callable[[Trial], Iterable[Any]]
) -> pa.Table:
    """A table with some rows a trial, and the trial's identity in each."""
    each = (
        {**{name: record[name] for name in _IDENTITY}, **row} for record in records for row in rows(record)
    )
    return _table(each, {**_IDENTITY, **kinds})


def latency(records: Sequence[Trial]) -> pa.Table:
    """One row a percentile of a trial; `kind` is service or response."""

    def rows(record: Trial) -> Iterator[dict[str, Any]]:
        for kind in _LATENCIES:
            found: Latency = record.latency[kind]
            common = {"kind": kind, "count": found.count, "mean_ns": found.mean}
            for percent, value in _percentiles(found).items():
                yield {**common, "percentile": percent, "ns": value}

    return _inner_rows(records, _LATENCY, rows)


def stages(records: Sequence[Trial]) -> pa.Table:
    """One row a stage of one end; `share` is of that end's whole accounted time."""

    def rows(record: Trial) -> Iterator[dict[str, Any]]:
        for end in ENDS:
            found = record.stages[end]
            total = sum(found.values())
            for stage, value in found.items():
                yield {"end": end, "stage": stage, "ns": value, "share": value / total if total else None}

    return _inner_rows(records, _STAGE, rows)


def errors(records: Sequence[Trial]) -> pa.Table:
    """One row a kind of error that batches of a trial met, with the first one's message."""
    return _inner_rows(records, _ERROR, lambda record: map(asdict, record.errors.kinds))


def hosts(records: Sequence[Trial]) -> pa.Table:
    """One row a loader of a trial; trials of one process have none."""

    def rows(record: Trial) -> Iterator[dict[str, Any]]:
        total = sum(host.payload_bytes or 0 for host in record.hosts)
        for host in record.hosts:
            yield {
                **asdict(host),
                **asdict(host.cpu),
                **{f"clock_{name}": value for name, value in asdict(host.clock).items()},
                **dict(zip(("first_stream", "streams"), host.streams or (None, None), strict=True)),
                "bytes_per_second": _per_second(host.payload_bytes, host.interval_ns),
                "rows_per_second": _per_second(host.rows, host.interval_ns),
                "share": (host.payload_bytes or 0) / total if total else None,
                "host_cores": host.resources.host.cores,
                "host_busy_share": host.resources.host.busy_share,
            }

    return _inner_rows(records, _LOADER, rows)


def resources(records: Sequence[Trial]) -> pa.Table:
    """One row an end of a trial: what process, host, interface, disks and connections did. Trials without
    samples have no row."""
    return _inner_rows(records, RESOURCE, resource_rows)


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


TABLES: dict[str, Callable[[Any], pa.Table]] = {
    make.__name__: make for make in (trials, streams, latency, stages, errors, resources, hosts, ceilings)
}
"""What makes each table of a run, but `samples`."""
