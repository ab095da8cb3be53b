"""`perf_stats` files of the modified Arrow C++ flight_benchmark: a line a trial, tab-separated, no head.

Eight columns: test type (0 get, 1 put), streams, threads, records per stream, records per batch, MiB ("MB" in
the tool's words), seconds, MiB/s. Older files have seven, without the type.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from venturi.store.importers import flight
from venturi.store.importers.record import (
    MIB,
    RECORD_BYTES,
    Draft,
    Parsed,
    join_notes,
    malformed,
    quoted,
    real,
    text_lines,
    whole,
)

NAME = "perf_stats"
ABOUT = "perf_stats lines of Arrow Flight's benchmark: 7 or 8 tab-separated numbers"
COLUMNS = (
    "7 or 8 tab-separated numbers: [type 0 or 1,] streams, threads, records per stream, records per batch, "
    "MiB, seconds, MiB/s"
)
_PRINTED = 1e-4
"""Six significant digits, and some for the tool's own arithmetic."""


def detect(text: str) -> bool:
    first = next((line for line in text_lines(text) if line.strip()), "")
    fields = first.split()
    return len(fields) in (7, 8) and all(real(f) is not None and "," not in f for f in fields)


def parse(text: str, name: str) -> Parsed:
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
    draft = flight.draft(operation, streams, threads, rows, batch, seconds, rate, line=at)
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
