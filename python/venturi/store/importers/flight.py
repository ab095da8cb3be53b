"""What Arrow Flight's benchmarks have in common, whichever way their results were written."""

from __future__ import annotations

from typing import Any

from venturi.store.importers.record import MIB, RECORD_BYTES, Draft


def parameters(
    streams: int, threads: int, rows_per_stream: int, rows_per_batch: int, place: str | None = None
) -> dict[str, Any]:
    """As a run of ours against the same server has them (shared names, shared meaning).

    The tool connects once an endpoint, and times planning and connecting: `include_setup`.
    """
    return {
        "place": place,
        "data": "records",
        "columns": 4,
        "row_bytes": float(RECORD_BYTES),
        "rows_per_batch": rows_per_batch,
        "rows_per_stream": rows_per_stream,
        "streams": streams,
        "threads": threads,
        "include_setup": True,
        "connections": "per-stream",
        "protocol": "perf",
    }


def draft(
    operation: str,
    streams: int,
    threads: int,
    rows_per_stream: int,
    rows_per_batch: int,
    seconds: float,
    mebibytes_per_second: float,
    *,
    place: str | None = None,
    line: int | None = None,
) -> Draft:
    """One line of a perf_stats file.

    Printed MiB have six significant digits; the rows are exact, and so are rows x 32 bytes, for get and put
    alike: each moves every stream's rows once. The rate is the printed one, MiB/s ("MB/s" in the tool's
    words).
    """
    rows = streams * rows_per_stream
    batches = streams * -(-rows_per_stream // rows_per_batch) if rows_per_batch > 0 else None
    counts = {"rows": rows, "payload_bytes": rows * RECORD_BYTES}
    if batches is not None:
        counts["batches"] = batches
    return Draft(
        operation,
        parameters(streams, threads, rows_per_stream, rows_per_batch, place),
        counts=counts,
        times={"interval_ns": round(seconds * 1e9)},
        rates={"bytes_per_second": mebibytes_per_second * MIB},
        line=line,
    )
