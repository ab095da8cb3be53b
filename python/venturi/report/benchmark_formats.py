"""Runs in the formats of published benchmarks, so that their scripts read them.

`perf_stats` are the lines of the Arrow Flight benchmark that published `macbook-*` and `cartesius-*`. Eight
columns, tab-separated, no head: test type (0 get, 1 put), streams, threads, records per stream, records per
batch, MiB transferred, seconds, MiB/s; `macbook-*` has them without the test type. The original prints them
by a C++ `ostream` with its default format, six significant digits without trailing zeros, which is printf's
%g (C++ standard, [facet.num.put.virtuals]).

`upsert_benchmark` are the four lines of the published MemSQL and Cassandra benchmark, one block per cell, of
the trial in the middle by rows/s; a query is a batch. `venturi import` reads them.

    51,983,500 rows in total
    5,198,350 rows per second
    Min query latency: 0.055 ms
    Max query latency: 172.780 ms
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from venturi.analysis.cells import batches
from venturi.analysis.cells.choice import middle_trial
from venturi.analysis.cells.figures import get, is_good, numeric, per_second
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.errors import VenturiError

_TOLD = ("hosts", "streams", "rows_per_batch", "in_flight", "duration_ns")
TYPES = {"get": 0, "put": 1}


def ostream(value: float) -> str:
    """A number as `std::cout << value` prints it."""
    return f"{value:g}"


def perf_stats_line(record: Mapping[str, Any]) -> str | None:
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


def perf_stats_files(results: Results, columns: int = 8) -> dict[str, str]:
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
            if (whole := perf_stats_line(record)) is None:
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


def perf_stats(results: Results, columns: int = 8) -> str:
    """The lines of all files as one.

    Raises `VenturiError` as `perf_stats_files`, and if lines of two places, or of gets and puts, would look
    alike in it.
    """
    parts = perf_stats_files(results, columns)
    what = "place" if len(results.places) > 1 else "operation" if columns == 7 else ""
    if what and len({name.rpartition("/")[0] for name in parts}) > 1:
        raise VenturiError(
            f"perf_stats lines of {columns} columns have no column for the {what}, and this run has several",
            hint="name a directory, which gets a file for each: --out perf_stats",
        )
    return "".join(parts.values())


def upsert_benchmark(results: Results) -> str:
    """All cells that upsert. Raises `VenturiError` (usage) for a run without any that succeeded."""
    blocks = [block(cell) for cell in results.cells if cell.answered and cell.rows.known]
    if not blocks:
        raise VenturiError(
            f"--format seed: {results.name} has no upsert that succeeded",
            hint="it prints rows and query latency as the upsert benchmark does; --format table has the rest",
        )
    return "\n".join(blocks)


def _word(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else labels.plain(value)


def block(cell: Cell) -> str:
    """One cell: a heading that says which trial this is, and its lines; latencies where there are any."""
    trial = middle_trial(cell)
    target = urlsplit(str(cell.parameters.get("target") or ""))
    facts: dict[str, object] = {"target": target.scheme or target.path}
    facts |= {n: v for n in _TOLD if (v := cell.parameters.get(n)) is not None}
    if interval := numeric(trial, "times", "interval_ns"):
        facts["interval_ns"] = interval
    told = " ".join(f"{name}={_word(value)}" for name, value in facts.items())
    repeat = trial.get("repeat")
    # Of an even number there is no trial in the middle.
    middle = "the median" if cell.good % 2 else "the lower of the middle two"
    which = f"repeat {repeat} of {cell.trials}, {middle} by rows a second" if cell.trials > 1 else "one trial"
    lines = [f"### cell {labels.plain(cell.name)}: {told}; {which}"]
    rows, rate = numeric(trial, "counts", "rows"), per_second(trial, "rows")
    lines += [f"{rows or 0:,.0f} rows in total", f"{rate or 0:,.0f} rows per second"]
    for word, figure in (("Min", "min"), ("Max", "max")):
        spent = batches.latency(trial, "service", figure)
        if spent is not None:
            lines.append(f"{word} query latency: {spent / 1e6:.3f} ms")
    return "\n".join(lines) + "\n"
