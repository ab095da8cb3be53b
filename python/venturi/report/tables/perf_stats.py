"""The lines of the Arrow Flight benchmark that published `cartesius-*`, so that its plot scripts read our
runs.

Eight columns, tab-separated, no head: test type (0 get, 1 put), streams, threads, records per stream,
records per batch, MiB transferred, seconds, MiB/s. The original prints them by a C++ `ostream` with its
default format, six significant digits without trailing zeros, which is printf's %g (C++ standard,
[facet.num.put.virtuals]).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.analysis.cells.summary import get, is_good, numeric
from venturi.analysis.results import Results
from venturi.common.errors import VenturiError

TYPES = {"get": 0, "put": 1}


def ostream(value: float) -> str:
    """A number as `std::cout << value` prints it."""
    return f"{value:g}"


def line(record: Mapping[str, Any]) -> str | None:
    """One trial's line, None where the trial does not have what a line says."""
    parameters = record.get("parameters") or {}
    kind, streams = TYPES.get(str(parameters.get("operation"))), parameters.get("streams")
    rows, payload = numeric(record, "counts", "rows"), numeric(record, "counts", "payload_bytes")
    interval = numeric(record, "times", "interval_ns")
    if kind is None or not streams or rows is None or payload is None or not interval:
        return None
    # With fixed time no number of records was asked for; what was moved is the honest one.
    per_stream = get(parameters, "rows_per_stream") or int(rows / streams)
    mebibytes, seconds = payload / 2**20, interval / 1e9
    fields = [
        str(kind),
        str(streams),
        str(parameters.get("threads") or streams),
        str(per_stream),
        str(parameters.get("rows_per_batch") or 0),
        ostream(mebibytes),
        ostream(seconds),
        ostream(mebibytes / seconds),
    ]
    return "\t".join(fields)


def text(results: Results) -> str:
    """One line a good trial that is no warm-up, in the order of cells, as the original loops.

    Raises `VenturiError` where the run has several places: the format has no column for one, and lines of two
    hosts would be read as one; and where no trial makes a line.
    """
    if len(results.places) > 1:
        raise VenturiError(
            "perf_stats lines have no column for the place, and this run has several",
            hint="run one place at a time, or use --format csv",
        )
    lines = [found for cell in results.cells for r in cell.records if is_good(r) and (found := line(r))]
    if not lines:
        raise VenturiError(
            f"{results.name}: no trial has what a perf_stats line says",
            hint="a get or put that succeeded, with streams, rows, bytes and time; else: --format csv",
        )
    return "".join(found + "\n" for found in lines)


def parse(text_of: str) -> list[dict[str, float]]:
    """Reads such lines, with eight columns, or seven as in the older files without the test type.

    Numbers as printed, in the format's own units. Raises `ValueError` that names the line.
    """
    heads = (
        "type",
        "streams",
        "threads",
        "rows_per_stream",
        "rows_per_batch",
        "mebibytes",
        "seconds",
        "mebibytes_per_second",
    )
    out = []
    for at, found in enumerate(text_of.splitlines(), 1):
        if not found.strip():
            continue
        fields = found.split("\t")
        if len(fields) not in (7, 8):
            raise ValueError(f"line {at}: {len(fields)} columns, expected 7 or 8")
        try:
            out.append(dict(zip(heads[8 - len(fields) :], map(float, fields), strict=True)))
        except ValueError:
            raise ValueError(f"line {at}: not a number among {fields}") from None
    return out
