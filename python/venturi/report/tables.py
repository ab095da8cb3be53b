"""The results of a run for other programs: tables as CSV and Parquet, and one JSON document.

Base units, in the column names; nothing is rounded. And the formats of published benchmarks, so that their
scripts read runs:

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

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from venturi.analysis import wording
from venturi.analysis.cells import cell_table, hosts, writes
from venturi.analysis.cells.figures import ENDS, is_good, per_second
from venturi.analysis.cells.machines import proof, unproven
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results, middle_trial
from venturi.analysis.verdict.types import Finding, Verdict
from venturi.common.errors import VenturiError
from venturi.common.units import Quantity
from venturi.engine.record import Failure, Trial
from venturi.report.document import fields, finite

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
_LOCAL_REMOTE = ("local", "remote")


def _margins(name: str, found: Quantity) -> Row:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _places(results: Results) -> Iterable[Row]:
    """One row a pair of cells."""
    for row in results.place_rows:
        for pair in row.pairs:
            sides = dict(zip(_LOCAL_REMOTE, (pair.local, pair.remote), strict=True))
            unit = "bytes" if pair.local.main.unit == "B/s" else "rows"
            verdicts = {side: results.verdicts.get(cell.name) for side, cell in sides.items()}
            yield {
                "operation": row.operation,
                **{f"{side}_cell": cell.name for side, cell in sides.items()},
                "streams": pair.local.parameters.get("streams"),
                "rows_per_stream": pair.local.parameters.get("rows_per_stream"),
                "counted": unit,
                **_margins("local_per_second", pair.local.main),
                **_margins("remote_per_second", pair.remote.main),
                **_margins("ratio", pair.ratio),
                **{f"{side}_{end}_cores": c.cpu[end].value for side, c in sides.items() for end in ENDS},
                **{f"{end}_cpu_cost_ratio": pair.cost(end).value for end in ENDS},
                **{f"{side}_verdict": v.title if v is not None else None for side, v in verdicts.items()},
            }


def _efficiency(results: Results) -> Iterable[Row]:
    """One row a number of hosts."""
    for one in results.efficiency:
        for step in one.steps:
            yield {
                "operation": one.operation,
                "cell": step.cell.name,
                "hosts": step.hosts,
                "streams": step.cell.parameters.get("streams"),
                "counted": "bytes" if step.each.unit == "B/s" else "rows",
                **_margins("per_second", step.cell.main),
                "per_host_per_second": step.each.value,
                **_margins("efficiency", step.efficiency),
                **_margins("per_core", step.per_core),
                "slowest_over_fastest": step.slowest,
            }


def _convergence(results: Results) -> Iterable[Row]:
    """One row a split."""
    for one in results.convergences:
        limit = one.limit.rate if one.limit else Quantity(None, unit="B/s")
        for split in one.splits:
            yield {
                "operation": one.operation,
                "place": one.where.get("place"),
                "total_rows": one.rows,
                "total_payload_bytes": one.payload_bytes,
                "streams": split.streams,
                "rows_per_stream": split.rows_per_stream,
                **_margins("foretold_bytes_per_second", split.predicted),
                **_margins("bytes_per_second", split.measured),
                "inside": split.inside,
                **_margins("limit_bytes_per_second", limit),
                "limit_streams": one.limit.at if one.limit else None,
                "near_streams": one.limit.near if one.limit else None,
                "refused": split.refused or one.refused or None,
            }


def _flows(results: Results) -> Iterable[Row]:
    """One row a way from a sender to a receiver, of every cell with several ends on a side."""
    for cell in results.cells:
        if (found := hosts.payload_flows(cell)) is None:
            continue
        for flow in found.flows:
            share = flow.payload_bytes / found.total if found.total else None
            yield {"cell": cell.name, **fields(flow, "sender", "receiver", "payload_bytes"), "share": share}


_MAKERS: dict[str, Callable[[Results], Iterable[Row]]] = {
    **{"places": _places, "efficiency": _efficiency, "convergence": _convergence, "flows": _flows}
}
DERIVED = tuple(_MAKERS)


def derived(results: Results, name: str) -> list[Row]:
    """The rows of one of `DERIVED`; empty if the run has one host and one place."""
    return list(_MAKERS[name](results))


TABLES = (
    *("cells", "trials", "streams", "stages", "latency", "errors", "resources", "hosts"),
    *("ceilings", "samples"),
    *DERIVED,
)


def table(results: Results, name: str) -> pa.Table:
    """One of `TABLES`."""
    if name == "cells":
        return with_verdicts(results)
    if name == "samples":
        return results.samples
    if name in DERIVED:
        import pyarrow as pa

        return pa.Table.from_pylist(derived(results, name))
    return results.directory.table(name)


def with_verdicts(results: Results) -> pa.Table:
    """One row a cell: its figures, then what its verdict says; of a run with proofs before it, whether they
    held. Without cells there are no columns of it."""
    import pyarrow as pa

    found = cell_table.table(results.cells)
    judged = [results.verdicts.get(c.name) for c in results.cells]
    for field in ("kind", "cause", "end", "stage", "title", "confidence", "sentence"):
        values = [None if v is None else getattr(v, field) for v in judged]
        texts = [None if value is None else str(value) for value in values]
        name = "verdict" if field == "title" else f"verdict_{field}"
        found = found.append_column(name, pa.array(texts, pa.string()))
    flags = [None if v is None else v.flagged for v in judged]
    found = found.append_column("verdict_flagged", pa.array(flags, pa.bool_()))
    if proof(results.environment) is None:
        return found
    proven = [not unproven(results.environment)] * len(results.cells)
    return found.append_column("proven", pa.array(proven, pa.bool_()))


def text(found: pa.Table) -> str:
    """A table as CSV (RFC 4180 with plain newlines). Lists are joined by spaces; null is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(found.column_names)
    for row in found.to_pylist():
        writer.writerow([" ".join(map(str, v)) if isinstance(v, list) else v for v in row.values()])
    return out.getvalue()


def write(results: Results, folder: Path, kind: str) -> list[Path]:
    """Writes every table that has rows into `folder` as `cells.csv`, `trials.csv`, ... or `.parquet`.

    Raises `OSError` where a file cannot be written. `cells` and `trials` are written even when empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in TABLES:
        found = table(results, name)
        if found.num_rows == 0 and name not in ("cells", "trials"):
            continue
        written.append(folder / f"{name}.{kind}")
        write_table(found, written[-1])
    return written


def write_table(found: pa.Table, path: Path) -> None:
    """As CSV or Parquet, by the ending."""
    import pyarrow.parquet as pq

    if path.suffix == ".csv":
        path.write_text(text(found), encoding="utf-8")
    else:
        pq.write_table(found, path)


def machine(results: Results) -> dict[str, Any]:
    """Cells as in the CSV, each with its whole verdict; findings, failed trials, warnings. Where there were
    several hosts or places also what is derived of them: `places`, `efficiency`, `convergence`, `flows`.

    Base units; what was not measured is null.
    """
    rows = cell_table.table(results.cells).to_pylist()
    record = proof(results.environment)
    # Runs without proofs, as imported and older ones, have no word on it.
    proven = {"proven": not unproven(results.environment)} if record is not None else {}
    return {
        "run": results.name,
        **({"proof": dict(record)} if record is not None else {}),
        "cells": [
            finite(row)
            | proven
            | {"verdict": _reasons(v) if (v := results.verdicts.get(row["cell"])) is not None else None}
            for row in rows
        ],
        "findings": [_reasons(finding) for finding in results.findings],
        "failed": [
            {name: r[name] for name in ("trial", "cell", "repeat", "warmup", "outcome")}
            | {"error": msgspec.structs.asdict(r.error) if r.error != Failure() else None}
            for r in results.failures
        ],
        "warnings": [asdict(advice) for advice in results.advice],
    } | {name: rows for name in DERIVED if (rows := derived(results, name))}


def _reasons(found: Verdict | Finding) -> dict[str, Any]:
    """With its remedies as what they change, and in words."""
    kept = ("why", "changes", "run", "settings", "before", "command", "text")
    remedies = [fields(remedy, *kept) for remedy in found.remedies]
    document: dict[str, Any] = {}
    for name, value in asdict(found).items():
        document |= asdict(found.text) if isinstance(found, Verdict) and name == "write" else {name: value}
    return document | {"sentence": found.sentence, "remedies": remedies, "next": list(found.next)}


_NAMED = ("hosts", "streams", "rows_per_batch", "in_flight", "duration_ns")
TYPES = {"get": 0, "put": 1}


def ostream(value: float) -> str:
    """A number as `std::cout << value` prints it."""
    return f"{value:g}"


def perf_stats_line(record: Trial) -> str | None:
    """One trial's line, None where the trial does not have what a line says."""
    parameters = record.parameters
    kind, streams = TYPES.get(str(parameters.get("operation"))), parameters.get("streams")
    rows, payload = record.counts.rows, record.counts.payload_bytes
    interval = record.times.interval_ns
    if kind is None or not streams or rows is None or payload is None or not interval:
        return None
    # With fixed time no number of records was asked for; what was moved is the honest one.
    per_stream = parameters.get("rows_per_stream") or int(rows / streams)
    mebibytes, seconds = payload / 2**20, interval / 1e9
    threads, rows_per_batch = parameters.get("threads") or streams, parameters.get("rows_per_batch") or 0
    figures = map(ostream, (mebibytes, seconds, mebibytes / seconds))
    return "\t".join(map(str, (kind, streams, threads, per_stream, rows_per_batch, *figures)))


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
            if (row := perf_stats_line(record)) is None:
                continue
            kind, rest = row.split("\t", 1)
            streams = int(rest.split("\t", 1)[0])
            name = f"perf_stats_{kind}_{streams}.csv"
            if columns == 7:
                name, row = f"{cell.operation}/perf_stats_{streams:02}.csv", rest
            found.setdefault((place if len(results.places) > 1 else "") + name, []).append(row)
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
    blocks = [block(cell) for cell in results.cells if cell.answered and cell.rows.measured]
    if not blocks:
        raise VenturiError(
            f"--format seed: {results.name} has no upsert that succeeded",
            hint="it prints rows and query latency as the upsert benchmark does; --format table has the rest",
        )
    return "\n".join(blocks)


def block(cell: Cell) -> str:
    """One cell: a heading that says which trial this is, and its lines; latencies where there are any."""
    trial = middle_trial(cell)
    target = urlsplit(str(cell.parameters.get("target") or ""))
    facts: dict[str, object] = {"target": target.scheme or target.path}
    facts |= {n: v for n in _NAMED if (v := cell.parameters.get(n)) is not None}
    if interval := trial.times.interval_ns:
        facts["interval_ns"] = interval
    texts = {n: f"{v:.0f}" if isinstance(v, float) else wording.plain(v) for n, v in facts.items()}
    settings = " ".join(f"{name}={text}" for name, text in texts.items())
    repeat = trial.repeat
    # Of an even number there is no trial in the middle.
    middle = "the median" if cell.good % 2 else "the lower of the middle two"
    which = f"repeat {repeat} of {cell.trials}, {middle} by rows a second" if cell.trials > 1 else "one trial"
    lines = [f"### cell {wording.plain(cell.name)}: {settings}; {which}"]
    rows, rate = trial.counts.rows, per_second(trial, "rows")
    lines += [f"{rows or 0:,.0f} rows in total", f"{rate or 0:,.0f} rows per second"]
    for word, figure in (("Min", "min"), ("Max", "max")):
        spent = writes.latency(trial, "service", figure)
        if spent is not None:
            lines.append(f"{word} query latency: {spent / 1e6:.3f} ms")
    return "\n".join(lines) + "\n"
