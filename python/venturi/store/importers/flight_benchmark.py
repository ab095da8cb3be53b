"""What Arrow C++'s `arrow-flight-benchmark` prints, one or many runs of it in a file.

A run begins with `Testing method: DoGet` or `DoPut`. Its "MB/s" are MiB/s (cpp/src/arrow/flight/
flight_benchmark.cc: kMegabyte = 1 << 20).
"""

from __future__ import annotations

import re

from venturi.store.importers.record import (
    MIB,
    Draft,
    Parsed,
    latency,
    malformed,
    quoted,
    real,
    text_lines,
    whole,
)

NAME = "flight-benchmark"
ABOUT = "the output of Arrow C++'s arrow-flight-benchmark"
_START = re.compile(r"^\s*Testing method: ?(.*)$")
_FIELD = re.compile(r"^\s*([A-Z][A-Za-z/ ]*?(?:=[\d.]+)?): ?(\S+)(?: (\S+))?\s*$")
_COMPRESSION = re.compile(r"^\s*Compression method: (\w+)(?:, level (\d{1,4}))?\s*$")
_NEEDED = ("Bytes", "Nanos", "Speed")
ROW_BYTES = 32


def detect(text: str) -> bool:
    return any(_START.match(line) for line in text_lines(text))


def parse(text: str, name: str) -> Parsed:
    drafts: list[Draft] = []
    begun: int | None = None
    fields: dict[str, tuple[str, int]] = {}
    for at, line in enumerate(text_lines(text), 1):
        if found := _START.match(line):
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
