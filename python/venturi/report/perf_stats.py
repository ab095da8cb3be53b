"""The lines of the Arrow Flight benchmark that published `macbook-*` and `cartesius-*`, so that their plot
scripts read our runs.

Eight columns, tab-separated, no head: test type (0 get, 1 put), streams, threads, records per stream,
records per batch, MiB transferred, seconds, MiB/s; `macbook-*` has them without the test type. The original
prints them by a C++ `ostream` with its
default format, six significant digits without trailing zeros, which is printf's %g (C++ standard,
[facet.num.put.virtuals]).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from venturi.analysis.cells.figures import get, is_good, numeric
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


def files(results: Results, columns: int = 8) -> dict[str, str]:
    """A file a number of streams, by its path: of eight columns `perf_stats_0_4.csv`, gets over 4 streams; of
    seven `get/perf_stats_04.csv`. Of several places each has a directory. Lines are those of good trials that
    are no warm-up, in the order of cells, as the original loops.

    Raises `VenturiError` where no trial makes a line.
    """
    found: dict[str, list[str]] = {}
    for cell in results.cells:
        place = quote(str(cell.parameters.get("place")), safe=" :") + "/"
        if not place.strip("./"):
            place = place.replace(".", "%2E")
        for record in filter(is_good, cell.records):
            if (whole := line(record)) is None:
                continue
            kind, rest = whole.split("\t", 1)
            streams = int(rest.split("\t", 1)[0])
            name = f"perf_stats_{kind}_{streams}.csv"
            if columns == 7:
                name, whole = f"{cell.operation}/perf_stats_{streams:02}.csv", rest
            found.setdefault((place if len(results.places) > 1 else "") + name, []).append(whole)
    if not found:
        raise VenturiError(
            f"{results.name}: no trial has what a perf_stats line says",
            hint="a get or put that succeeded, with streams, rows, bytes and time; else: --format csv",
        )
    return {name: "".join(f"{one}\n" for one in lines) for name, lines in found.items()}


def text(results: Results, columns: int = 8) -> str:
    """The lines of all files as one.

    Raises `VenturiError` as `files`, and where lines of two places, or of gets and puts, could not be told
    apart in it.
    """
    parts = files(results, columns)
    what = "place" if len(results.places) > 1 else "operation" if columns == 7 else ""
    if what and len({name.rpartition("/")[0] for name in parts}) > 1:
        raise VenturiError(
            f"perf_stats lines of {columns} columns have no column for the {what}, and this run has several",
            hint="name a directory, which gets a file for each: --out perf_stats",
        )
    return "".join(parts.values())


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
