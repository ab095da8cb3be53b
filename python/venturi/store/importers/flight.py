"""Results of Arrow Flight's benchmarks: perf_stats files, arrow-flight-benchmark, and TestPerf of Java.

What Arrow C++'s `arrow-flight-benchmark` prints, one or many runs of it in a file.

A run begins with `Testing method: DoGet` or `DoPut`. Its "MB/s" are MiB/s (cpp/src/arrow/flight/
flight_benchmark.cc: kMegabyte = 1 << 20).

`perf_stats` files of the modified Arrow C++ flight_benchmark: a line a trial, tab-separated, no head.

Eight columns: test type (0 get, 1 put), streams, threads, records per stream, records per batch, MiB ("MB" in
the tool's words), seconds, MiB/s. Older files have seven, without the type.

The line that Arrow Java's `TestPerf` prints for each of its runs.

`Transferred N records totaling B bytes at R MiB/s. R record/s. R batch/s.` (Arrow Java's
flight-core, TestPerf). Java formats numbers by the locale, so a decimal comma is read too.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from venturi.store.importers.record import (
    MIB,
    RECORD_BYTES,
    Draft,
    Format,
    Parsed,
    join_notes,
    latency,
    malformed,
    quoted,
    real,
    text_lines,
    whole,
)


def flight_parameters(
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


def flight_draft(
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
        flight_parameters(streams, threads, rows_per_stream, rows_per_batch, place),
        counts=counts,
        times={"interval_ns": round(seconds * 1e9)},
        rates={"bytes_per_second": mebibytes_per_second * MIB},
        line=line,
    )


COLUMNS = (
    "7 or 8 tab-separated numbers: [type 0 or 1,] streams, threads, records per stream, records per batch, "
    "MiB, seconds, MiB/s"
)
_PRINTED = 1e-4
"""Six significant digits, and some for the tool's own arithmetic."""


def detect_perf_stats(text: str) -> bool:
    first = next((line for line in text_lines(text) if line.strip()), "")
    fields = first.split()
    return len(fields) in (7, 8) and all(real(f) is not None and "," not in f for f in fields)


def parse_perf_stats(text: str, name: str) -> Parsed:
    """`name` is the file's path: a file of seven columns is told by it to be one of gets or of puts.

    Where it does not tell, operations are empty, for the caller to fill in.
    """
    of_name = _operation_of(name)
    drafts = [_line(line, at, name, of_name) for at, line in enumerate(text_lines(text), 1) if line.strip()]
    return Parsed(drafts, "Arrow C++ flight_benchmark (perf_stats file)")


def _operation_of(name: str) -> str:
    """`get` or `put` where the file's name, or else one of the two directories above it, has the word."""
    for part in PurePath(name).parts[:-4:-1]:
        words = set(re.findall(r"get|put", part.lower()))
        if len(words) == 1:
            return str(words.pop())
    return ""


def _line(line: str, at: int, name: str, of_name: str) -> Draft:
    fields = line.split()
    if len(fields) not in (7, 8):
        raise malformed(name, at, f"{len(fields)} columns in {quoted(line)}", COLUMNS)
    operation = of_name
    if len(fields) == 8:
        kind = fields.pop(0)
        if kind not in ("0", "1"):
            raise malformed(name, at, f"test type {quoted(kind)}", "0 (get) or 1 (put) in the first column")
        operation = "get" if kind == "0" else "put"
    counts = [whole(f) for f in fields[:4]]
    measured = [real(f) for f in fields[4:]]
    if any(not c for c in counts) or any(m is None or m <= 0 for m in measured):
        raise malformed(name, at, f"not such numbers: {quoted(line)}", COLUMNS + "; all above 0")
    streams, threads, rows, batch = (c or 0 for c in counts)
    mebibytes, seconds, rate = (m or 0.0 for m in measured)
    if not 1 <= round(seconds * 1e9) < 10**18:
        raise malformed(name, at, f"{quoted(fields[5])} seconds", "a time between 1 ns and 30 years")
    if streams * rows * RECORD_BYTES >= 2**63 or mebibytes * MIB >= 2**63:
        raise malformed(name, at, f"more bytes than can be counted: {quoted(line)}", "less than 2^63 bytes")
    draft = flight_draft(operation, streams, threads, rows, batch, seconds, rate, line=at)
    expected = streams * rows * RECORD_BYTES / MIB
    if abs(mebibytes / expected - 1) > _PRINTED:
        # Another record than 4 x int64, or a transfer that ended early: what was moved is what is printed.
        draft.counts["payload_bytes"] = round(mebibytes * MIB)
        draft.parameters["row_bytes"] = draft.parameters["columns"] = None
        draft.note = join_notes(
            draft.note,
            f"{mebibytes:g} MiB are not {streams * rows:,} records of {RECORD_BYTES} bytes; "
            "the printed MiB are kept",
        )
    return draft


PERF_STATS = Format(
    "perf_stats",
    "perf_stats lines of Arrow Flight's benchmark: 7 or 8 tab-separated numbers",
    detect_perf_stats,
    parse_perf_stats,
)


_METHOD = re.compile(r"^\s*Testing method: ?(.*)$")
_FIELD = re.compile(r"^\s*([A-Z][A-Za-z/ ]*?(?:=[\d.]+)?): ?(\S+)(?: (\S+))?\s*$")
_COMPRESSION = re.compile(r"^\s*Compression method: (\w+)(?:, level (\d{1,4}))?\s*$")
_NEEDED = ("Bytes", "Nanos", "Speed")
ROW_BYTES = 32


def detect_benchmark(text: str) -> bool:
    return any(_METHOD.match(line) for line in text_lines(text))


def parse_benchmark(text: str, name: str) -> Parsed:
    drafts: list[Draft] = []
    begun: int | None = None
    fields: dict[str, tuple[str, int]] = {}
    for at, line in enumerate(text_lines(text), 1):
        if found := _METHOD.match(line):
            if begun is not None:
                drafts.append(_run(fields, begun, name))
            begun, fields = at, {"method": (found[1].strip(), at)}
        elif begun is not None and line.strip().startswith("Failed with error"):
            fields["error"] = (line.strip(), at)
        elif begun is not None and (codec := _COMPRESSION.match(line)):
            fields["compression"] = (codec[1], at)
            if codec[2]:
                fields["level"] = (codec[2], at)
        elif begun is not None and (pair := _FIELD.match(line)):
            fields[pair[1]] = (pair[2], at)
    if begun is not None:
        drafts.append(_run(fields, begun, name))
    return Parsed(drafts, "Arrow C++ arrow-flight-benchmark")


def _run(fields: dict[str, tuple[str, int]], begun: int, name: str) -> Draft:
    method = fields["method"][0]
    if method not in ("DoGet", "DoPut"):
        raise malformed(name, begun, f"testing method {quoted(method)}", "DoGet or DoPut")
    operation = "get" if method == "DoGet" else "put"
    moved = "read" if operation == "get" else "written"

    def number(label: str) -> float | None:
        if label not in fields:
            return None
        text, at = fields[label]
        value = real(text)
        if value is None or value < 0:
            raise malformed(name, at, f"{label}: {quoted(text)}", "a number")
        return value

    threads, batches = number("Number of concurrent gets/puts"), number(f"Batches {moved}")
    parameters: dict[str, object] = {
        "data": "records",
        "include_setup": True,
        "connections": "per-stream",
        "protocol": "perf",
        # The tool has more endpoints than flows where its -num_streams is above its -num_threads; it prints
        # only the flows.
        "streams": int(threads) if threads else None,
        "threads": int(threads) if threads else None,
        "batch_bytes": int(size) if (size := number("Batch size")) else None,
        "compression": fields["compression"][0] if "compression" in fields else None,
        "compression_level": whole(fields["level"][0]) if "level" in fields else None,
    }
    if (runs := number("Number of perf runs")) and runs > 1:
        parameters["perf_runs"] = int(runs)
    host, port = fields.get("Server host"), fields.get("Server port")
    target = None
    if host:
        parameters["target"] = f"flight://{host[0]}" + (f":{port[0]}" if port else "")
        target = {"address": parameters["target"].removeprefix("flight://"), "software": None}  # type: ignore[attr-defined]
    if "error" in fields:
        return Draft(operation, parameters, target=target, line=begun, error=fields["error"][0])
    labels = {"Bytes": f"Bytes {moved}", "Nanos": "Nanos", "Speed": "Speed"}
    missing = [labels[n] for n in _NEEDED if labels[n] not in fields]
    if missing:
        return Draft(
            operation, parameters, target=target, line=begun,
            error=f"the output of this run ends early: no line {', '.join(missing)}",
        )  # fmt: skip
    payload, nanos = whole(fields[labels["Bytes"]][0]), whole(fields["Nanos"][0])
    speed = number("Speed")
    if payload is None or not nanos or speed is None:
        raise malformed(name, begun, "no whole numbers of bytes and nanoseconds", "Bytes and Nanos above 0")
    counts = {"payload_bytes": payload}
    if payload % ROW_BYTES == 0:
        counts["rows"] = payload // ROW_BYTES
    if batches:
        counts["batches"] = int(batches)
    rates = {"bytes_per_second": speed * MIB}
    if (per_second := number("Throughput")) is not None:
        rates["batches_per_second"] = per_second
    quantiles = {
        float(label.split("=")[1]) * 100: value * 1e3
        for label in fields
        if re.fullmatch(r"Latency quantile=[\d.]+", label)
        and real(label.split("=")[1]) is not None
        and (value := number(label)) is not None
    }
    mean, most = number("Latency mean"), number("Latency max")
    spent = None
    if quantiles or mean is not None or most is not None:
        spent = latency(
            quantiles,
            count=counts.get("batches"),
            mean=None if mean is None else mean * 1e3,
            high=None if most is None else most * 1e3,
        )
    return Draft(
        operation, parameters, counts, {"interval_ns": nanos}, rates, spent, target=target, line=begun
    )


BENCHMARK = Format(
    "flight-benchmark", "the output of Arrow C++'s arrow-flight-benchmark", detect_benchmark, parse_benchmark
)


_TRANSFERRED = "Transferred "
_NUMBER = r"(\d[\d.,\u00a0\u202f]*?)"
_TESTPERF_LINE = re.compile(
    rf"Transferred {_NUMBER} records totaling {_NUMBER} bytes at {_NUMBER} MiB/s\."
    rf"(?: {_NUMBER} record/s\. {_NUMBER} batch/s\.)?"
)
_TESTPERF_EXPECTED = "Transferred N records totaling B bytes at R MiB/s. R record/s. R batch/s."


def detect_testperf(text: str) -> bool:
    return "records totaling" in text and any(_TESTPERF_LINE.search(line) for line in text_lines(text))


def _decimal(text: str) -> float | None:
    """%f has six decimals, so a lone comma before six digits is the decimal one."""
    return real(re.sub(r",(?=\d{6}$)", ".", text))


def parse_testperf(text: str, name: str) -> Parsed:
    drafts = []
    for at, line in enumerate(text_lines(text), 1):
        if "records totaling" not in line:
            continue
        found = _TESTPERF_LINE.search(line)
        if not found:
            raise malformed(name, at, f"{quoted(line)} is cut short or changed", _TESTPERF_EXPECTED)
        rows, payload, speed = whole(found[1]), whole(found[2]), _decimal(found[3])
        if rows is None or payload is None or not speed:
            raise malformed(name, at, f"not such numbers: {quoted(line)}", _TESTPERF_EXPECTED)
        rates = {"bytes_per_second": speed * MIB}
        for group, rate in ((4, "rows_per_second"), (5, "batches_per_second")):
            if found[group] and (value := _decimal(found[group])) is not None:
                rates[rate] = value
        # The time is not printed; it is what makes the printed rate of the printed bytes.
        interval = round(payload / rates["bytes_per_second"] * 1e9)
        counts = {"rows": rows, "payload_bytes": payload}
        drafts.append(
            Draft(
                "get",
                {
                    "data": "records",
                    "row_bytes": payload / rows if rows else None,
                    "include_setup": True,
                    "protocol": "perf",
                },
                counts,
                {"interval_ns": interval} if 0 < interval < 10**18 else {},
                rates,
                line=at,
            )
        )
    return Parsed(drafts, "Arrow Java TestPerf")


TESTPERF = Format(
    "testperf",
    "the output of Arrow Java's TestPerf: Transferred N records totaling B bytes at R MiB/s. ...",
    detect_testperf,
    parse_testperf,
)
