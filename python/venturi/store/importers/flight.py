"""Results of Arrow Flight's benchmarks.

- `perf_stats` files of the modified Arrow C++ flight_benchmark: a line a trial, tab-separated, no head. Eight
  columns: test type (0 get, 1 put), streams, threads, records per stream, records per batch, MiB ("MB" in the
  tool's words), seconds, MiB/s. Older files have seven, without the type.
- What Arrow C++'s `arrow-flight-benchmark` prints, one or many runs of it in a file, each from `Testing
  method: DoGet` or `DoPut`. Its "MB/s" are MiB/s (flight_benchmark.cc: kMegabyte = 1 << 20).
- The line that Arrow Java's `TestPerf` prints for each run. Java formats numbers by the locale, so a decimal
  comma is read too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from venturi.store.importers.record import (
    MIB,
    RECORD_BYTES,
    Draft,
    Format,
    Parsed,
    draft,
    integer,
    latency,
    malformed,
    quoted,
    real,
    text_lines,
)

# The tools connect once an endpoint, and time planning and connecting.
_ALWAYS = {"data": "records", "include_setup": True, "connections": "per-stream", "protocol": "perf"}

# ---- perf_stats

_COLUMNS = ("streams", "threads", "rows_per_stream", "rows_per_batch")
_EXPECTED = (
    "7 or 8 tab-separated numbers: [type 0 or 1,] streams, threads, records per stream, records per batch, "
    "MiB, seconds, MiB/s"
)
_PRINTED = 1e-4
"""Six significant digits, and some for the tool's own arithmetic."""
_OPERATIONS = {"0": "get", "1": "put"}


def _is_perf_stats(text: str) -> bool:
    first = next((line for line in text_lines(text) if line.strip()), "")
    fields = first.split()
    return len(fields) in (7, 8) and all(real(f) is not None and "," not in f for f in fields)


def _parse_perf_stats(text: str, name: str) -> Parsed:
    """`name` is the file's path, which says of seven columns whether they are gets or puts. If it does not,
    operations are empty, for the caller to fill in."""
    of_name = _operation_of(name)
    drafts = []
    for at, line in enumerate(text_lines(text), 1):
        if not line.strip():
            continue
        fields = line.split()
        if len(fields) not in (7, 8):
            raise malformed(name, at, f"{len(fields)} columns in {quoted(line)}", _EXPECTED)
        if len(fields) == 8 and fields[0] not in _OPERATIONS:
            expected = "0 (get) or 1 (put) in the first column"
            raise malformed(name, at, f"test type {quoted(fields[0])}", expected)
        operation = _OPERATIONS[fields[0]] if len(fields) == 8 else of_name
        drafts.append(perf_stats_draft(operation, fields, at, name))
    return Parsed(drafts, "Arrow C++ flight_benchmark (perf_stats file)")


def _operation_of(name: str) -> str:
    """`get` or `put` where the file's name, or else one of the two directories above it, has the word."""
    for part in PurePath(name).parts[:-4:-1]:
        words = set(re.findall(r"get|put", part.lower()))
        if len(words) == 1:
            return str(words.pop())
    return ""


def perf_stats_draft(
    operation: str, fields: Sequence[str], line: int, name: str, place: str | None = None
) -> Draft:
    """One line: the seven columns at its end. The rows are exact, and so are rows x 32 bytes, for get and put
    alike: each moves every stream's rows once. The rate is the printed one."""
    shown = quoted(" ".join(fields))
    counts = [integer(f) for f in fields[-7:-3]]
    measured = [real(f) for f in fields[-3:]]
    if any(not c for c in counts) or any(m is None or m <= 0 for m in measured):
        raise malformed(name, line, f"not such numbers: {shown}", _EXPECTED + "; all above 0")
    streams, _, rows_per_stream, rows_per_batch = (c or 0 for c in counts)
    mebibytes, seconds, rate = (m or 0.0 for m in measured)
    rows = streams * rows_per_stream
    payload = rows * RECORD_BYTES
    if not 1 <= round(seconds * 1e9) < 10**18:
        raise malformed(name, line, f"{quoted(fields[-2])} seconds", "a time between 1 ns and 30 years")
    if payload >= 2**63 or mebibytes * MIB >= 2**63:
        raise malformed(name, line, f"more bytes than can be counted: {shown}", "less than 2^63 bytes")
    columns: dict[str, Any] = {
        "place": place,
        "columns": 4,
        "row_bytes": float(RECORD_BYTES),
        **dict(zip(_COLUMNS, counts, strict=True)),
        "rows": rows,
        "batches": streams * -(-rows_per_stream // rows_per_batch),
        "payload_bytes": payload,
        "seconds": seconds,
        "mebibytes_per_second": rate,
    }
    note = None
    if abs(mebibytes * MIB / payload - 1) > _PRINTED:
        # Another record than 4 x int64, or a transfer that ended early: what was moved is what is printed.
        columns |= {"payload_bytes": mebibytes * MIB, "row_bytes": None, "columns": None}
        note = f"{mebibytes:g} MiB are not {rows:,} records of {RECORD_BYTES} bytes; the printed MiB are kept"
    return draft(operation, columns, _ALWAYS, line=line, note=note)


PERF_STATS = Format(
    "perf_stats",
    "perf_stats lines of Arrow Flight's benchmark: 7 or 8 tab-separated numbers",
    _is_perf_stats,
    _parse_perf_stats,
)

# ---- arrow-flight-benchmark

_METHOD = re.compile(r"^\s*Testing method: ?(.*)$")
_FIELD = re.compile(r"^\s*([A-Z][A-Za-z/ ]*?(?:=[\d.]+)?): ?(\S+)(?: (\S+))?\s*$")
_COMPRESSION = re.compile(r"^\s*Compression method: (\w+)(?:, level (\d{1,4}))?\s*$")
_METHODS = {"DoGet": ("get", "read"), "DoPut": ("put", "written")}


def _is_benchmark(text: str) -> bool:
    return any(_METHOD.match(line) for line in text_lines(text))


def _parse_benchmark(text: str, name: str) -> Parsed:
    runs: list[dict[str, tuple[str, int]]] = []
    for at, line in enumerate(text_lines(text), 1):
        if found := _METHOD.match(line):
            runs.append({"method": (found[1].strip(), at)})
        elif runs and line.strip().startswith("Failed with error"):
            runs[-1]["error"] = (line.strip(), at)
        elif runs and (codec := _COMPRESSION.match(line)):
            runs[-1] |= {"compression": (codec[1], at), **({"level": (codec[2], at)} if codec[2] else {})}
        elif runs and (pair := _FIELD.match(line)):
            runs[-1][pair[1]] = (pair[2], at)
    return Parsed([_benchmark_draft(run, name) for run in runs], "Arrow C++ arrow-flight-benchmark")


def _benchmark_draft(fields: dict[str, tuple[str, int]], name: str) -> Draft:
    method, begun = fields["method"]
    if method not in _METHODS:
        raise malformed(name, begun, f"testing method {quoted(method)}", "DoGet or DoPut")
    operation, moved = _METHODS[method]

    def text(label: str) -> str | None:
        return fields[label][0] if label in fields else None

    def number(label: str) -> float | None:
        if label not in fields:
            return None
        value = real(fields[label][0])
        if value is None or value < 0:
            raise malformed(name, fields[label][1], f"{label}: {quoted(fields[label][0])}", "a number")
        return value

    # The tool has more endpoints than flows where its -num_streams is above its -num_threads; it prints only
    # the flows.
    flows = int(number("Number of concurrent gets/puts") or 0) or None
    runs = int(number("Number of perf runs") or 0)
    address = ":".join(part for label in ("Server host", "Server port") if (part := text(label)))
    parameters = {
        **_ALWAYS,
        "streams": flows,
        "threads": flows,
        "batch_bytes": int(number("Batch size") or 0) or None,
        "compression": text("compression"),
        "compression_level": integer(text("level") or ""),
        "perf_runs": runs if runs > 1 else None,
        "target": f"flight://{address}" if "Server host" in fields else None,
    }
    target = {"address": address, "software": None} if "Server host" in fields else None
    needed = (f"Bytes {moved}", "Nanos", "Speed")
    missing = [label for label in needed if label not in fields]
    if "error" in fields or missing:
        error = text("error") or f"the output of this run ends early: no line {', '.join(missing)}"
        return Draft(operation, parameters, target=target, line=begun, error=error)
    payload, nanos = (integer(text(label) or "") for label in needed[:2])
    if payload is None or not nanos:
        raise malformed(name, begun, "no whole numbers of bytes and nanoseconds", "Bytes and Nanos above 0")
    percentiles = {
        quantile * 100: value
        for label in fields
        if label.startswith("Latency quantile=") and (quantile := real(label.partition("=")[2])) is not None
        if (value := number(label)) is not None
    }
    return draft(
        operation,
        {
            "payload_bytes": payload,
            "rows": payload // RECORD_BYTES if payload % RECORD_BYTES == 0 else None,
            "batches": number(f"Batches {moved}") or None,
            "interval_ns": nanos,
            "mebibytes_per_second": number("Speed"),
            "batches_per_second": number("Throughput"),
        },
        parameters,
        latency=latency(percentiles, 1e3, mean=number("Latency mean"), max=number("Latency max")),
        target=target,
        line=begun,
    )


BENCHMARK = Format(
    "flight-benchmark", "the output of Arrow C++'s arrow-flight-benchmark", _is_benchmark, _parse_benchmark
)

# ---- TestPerf

_NUMBER = r"(\d[\d.,\u00a0\u202f]*?)"
_TESTPERF = re.compile(
    rf"Transferred {_NUMBER} records totaling {_NUMBER} bytes at {_NUMBER} MiB/s\."
    rf"(?: {_NUMBER} record/s\. {_NUMBER} batch/s\.)?"
)
_TESTPERF_EXPECTED = "Transferred N records totaling B bytes at R MiB/s. R record/s. R batch/s."


def _is_testperf(text: str) -> bool:
    return "records totaling" in text and any(_TESTPERF.search(line) for line in text_lines(text))


def _decimal(text: str | None) -> float | None:
    """%f has six decimals, so a lone comma before six digits is the decimal one."""
    return None if text is None else real(re.sub(r",(?=\d{6}$)", ".", text))


def _parse_testperf(text: str, name: str) -> Parsed:
    drafts = []
    for at, line in enumerate(text_lines(text), 1):
        if "records totaling" not in line:
            continue
        found = _TESTPERF.search(line)
        if not found:
            raise malformed(name, at, f"{quoted(line)} is cut short or changed", _TESTPERF_EXPECTED)
        rows, payload, speed = integer(found[1]), integer(found[2]), _decimal(found[3])
        if rows is None or payload is None or not speed:
            raise malformed(name, at, f"not such numbers: {quoted(line)}", _TESTPERF_EXPECTED)
        # The time is not printed; it is what makes the printed rate of the printed bytes.
        interval = round(payload / (speed * MIB) * 1e9)
        columns = {
            "row_bytes": payload / rows if rows else None,
            "rows": rows,
            "payload_bytes": payload,
            "interval_ns": interval if 0 < interval < 10**18 else None,
            "mebibytes_per_second": speed,
            "rows_per_second": _decimal(found[4]),
            "batches_per_second": _decimal(found[5]),
        }
        always = {name: value for name, value in _ALWAYS.items() if name != "connections"}
        drafts.append(draft("get", columns, always, line=at))
    return Parsed(drafts, "Arrow Java TestPerf")


TESTPERF = Format(
    "testperf",
    "the output of Arrow Java's TestPerf: Transferred N records totaling B bytes at R MiB/s. ...",
    _is_testperf,
    _parse_testperf,
)
