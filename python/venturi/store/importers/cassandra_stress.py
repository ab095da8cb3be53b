"""Logs of cassandra-stress: its settings, interval lines and `Results:`, one or many runs in a file.

A run begins with `Running WRITE with 10 threads ...`; with `-rate auto` there is one for each number of
threads. Latencies are milliseconds with one decimal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from venturi.store.importers.record import (
    Draft,
    Format,
    Parsed,
    agree,
    contradiction,
    draft,
    integer,
    latency,
    malformed,
    quoted,
    real,
    text_lines,
)

_RUNNING = re.compile(r"^\s*Running (?:([A-Z_]+)|\[(.+?)\]) with (\d{1,6}) threads\b(.*)$")
_RESULT = re.compile(
    r"^\s*((?:op|partition|row) rate|latency (?:mean|median|max|[\d.]+th percentile)|total partitions|"
    r"total errors|total operation time)\s*:\s*([^\[]*?)\s*(?:\[([^\]:]*):(?:([^\]:]*)\]|.*))?$",
    re.IGNORECASE,
)
# Java prints in the language of its host. A latency has one decimal, which shows the decimal mark.
_LATENCY = re.compile(r"^\s*latency [^:]+:\s*\d[^\[]*?([.,])\d\b", re.IGNORECASE)
_GROUPS = {
    mark: re.compile(rf"(?<=\d)[{other}'\u2019\u00a0\u202f](?=\d{{3}}(?!\d))") for mark, other in (".,", ",.")
}
# Rates and totals are whole numbers: whatever is before three digits parts groups.
_GROUP = re.compile(r"(?<=\d)[.,'\u2019\u00a0\u202f](?=\d{3}(?!\d))")
_HEAD = re.compile(r"^(?:\s*type\b)?[\s,]*total ops\s*,")
_SETTING = re.compile(r"^\s+([A-Z][A-Za-z ()]*?): (.+?)\s*$")
_LINE = (
    "total, operations, op/s, pk/s, row/s, mean, med, .95, .99, .999, max, time, ... as the head line has it"
)
_OPERATIONS = {
    "WRITE": "upsert",
    "COUNTER_WRITE": "upsert",
    "INSERT": "upsert",
    "READ": "get",
    "COUNTER_READ": "get",
}
_MOST_SECONDS = 1e8


@dataclass
class _Run:
    line: int
    statement: str | None = None
    threads: int | None = None
    amount: str = ""
    columns: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)
    results: dict[str, str] = field(default_factory=dict)


def detect(text: str) -> bool:
    lower = text.lower()
    if "latency 99th percentile" in lower and ("op rate" in lower or "row rate" in lower):
        return True
    return "total ops," in lower or "* Stress Settings *" in text


def parse(text: str, name: str) -> Parsed:
    runs: list[_Run] = []
    settings: dict[str, str] = {}
    hosts: list[str] = []
    version = cluster = None
    found_lines = text_lines(text)
    marks = {found[1]: at for at, line in enumerate(found_lines, 1) if (found := _LATENCY.match(line))}
    if len(marks) > 1:
        what = "latencies with a decimal comma, and others with a decimal point"
        raise malformed(name, max(marks.values()), what, "one convention in one file; cut the file up")
    mark = next(iter(marks), ".")
    for at, line in enumerate(found_lines, 1):
        if found := _RUNNING.match(line):
            runs.append(_Run(at, found[1] or found[2], int(found[3]), found[4]))
        elif _HEAD.match(line):
            if not runs or runs[-1].columns or runs[-1].results:
                runs.append(_Run(at))
            # "type" and "total ops" stand under one head.
            runs[-1].columns = ["type", *(c.strip() for c in line.replace("type", "", 1).split(","))]
        elif line.strip().startswith("total,"):
            if not runs or not runs[-1].columns:
                raise malformed(
                    name, at, "an interval line before any head line", "type, total ops, op/s, ..."
                )
            _interval(runs[-1], line, mark, at, name)
        elif line.strip() == "Results:":
            if not runs or runs[-1].results:
                runs.append(_Run(at))
        elif (result := _RESULT.match(line)) and not (
            runs and line.lstrip() != line and not runs[-1].columns
        ):
            if not runs:
                runs.append(_Run(at))
            if result[4] is not None and result[4].split() != result[2].split():
                raise contradiction(
                    name, at, f"{result[2]!r} in all, {result[4].strip()!r} of the only operation"
                )
            label = result[1].lower()
            text = _plain(result[2], mark) if "latency" in label else _GROUP.sub("", result[2])
            runs[-1].results.setdefault(label, text)
            runs[-1].statement = runs[-1].statement or result[3]
        elif not runs and (setting := _SETTING.match(line)):
            settings.setdefault(setting[1], setting[2])
        elif found := re.search(r"Connected to cluster: ([^,]+),", line):
            cluster = found[1].strip()
        elif (found := re.search(r"Host: (\S+);", line)) and len(hosts) < 1000:
            hosts.append(found[1].rsplit("/", 1)[-1])  # name/address, or /address
        elif found := re.search(r"(DataStax Java driver \S+)", line):
            version = found[1]
    drafts = [_draft(run, settings, hosts, name) for run in runs]
    server = {"cluster": cluster, "hosts": len(set(hosts)) or None}
    return Parsed(
        drafts,
        "cassandra-stress",
        client={"software": {"cassandra-stress": None, "driver": version}} if version else {},
        server={k: v for k, v in server.items() if v is not None},
    )


def _plain(text: str, mark: str) -> str:
    """The text with a decimal point and without marks of groups."""
    return _GROUPS[mark].sub("", text).replace(mark, ".")


def _interval(run: _Run, line: str, mark: str, at: int, name: str) -> None:
    parts = [_plain(f.strip(), mark) for f in re.split(r",\s+" if mark == "," else ",", line)]
    fields = dict(zip(run.columns, parts, strict=False))
    if len(parts) != len(run.columns):
        raise malformed(name, at, f"{len(parts)} columns in {quoted(line)}", _LINE)
    done, when, rate = (
        integer(fields.get("total ops", "")),
        real(fields.get("time", "")),
        real(fields.get("row/s", "")),
    )
    if done is None or when is None or not 0 <= when < _MOST_SECONDS:
        raise malformed(name, at, f"not such numbers: {quoted(line)}", _LINE)
    if run.times and when <= run.times[-1]:
        return  # the last interval of a run is printed twice where it had just ended
    run.times.append(when)
    run.done.append(done)
    run.rows.append(rate or 0.0)


def _seconds(text: str) -> float | None:
    found = re.fullmatch(r"(\d{1,6}):(\d\d):(\d\d)", text.strip())
    return None if not found else int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])


def _figure(run: _Run, label: str) -> float | None:
    """`15,545 op/s`, `0.6 ms` or `46751`: the number before the unit."""
    words = run.results.get(label, "").split()
    return real(words[0]) if words else None


def _draft(run: _Run, settings: dict[str, str], hosts: list[str], name: str) -> Draft:
    statement = (run.statement or settings.get("Type") or "mixed").strip()
    operation = _OPERATIONS.get(statement.upper(), "mixed")
    nodes = settings.get("Nodes", "").strip("[]") or (hosts[0] if hosts else "")
    threads = run.threads or integer(settings.get("Thread Count", ""))
    parameters: dict[str, Any] = {
        "target": f"cassandra://{nodes}" if nodes else "cassandra",
        "hosts": len(set(hosts)) or None,
        "streams": threads,
        "threads": threads,
        "statement": statement.lower(),
        "consistency": settings.get("Consistency Level"),
        "driver_compression": None
        if settings.get("Compression") in (None, "NONE")
        else settings["Compression"].lower(),
    }
    if amount := re.search(r"for (\d{1,18}) iteration", run.amount):
        parameters["operations"] = int(amount[1])
    elif amount := re.search(r"(\d{1,8}) (second|minute|hour)", run.amount):
        parameters["duration_ns"] = (
            int(amount[1]) * {"second": 1, "minute": 60, "hour": 3600}[amount[2]] * 10**9
        )
    limit = real(settings.get("OpsPer Sec", ""))
    parameters["rate"] = limit if limit else None
    # The last number of a log that ends may be cut; from the second on they are held against each other.
    if "op rate" not in run.results or len(run.results) < 2:
        return Draft(
            operation, parameters, line=run.line, error="the log ends before the results of this run"
        )
    operations, partitions, rows = (_figure(run, f"{kind} rate") for kind in ("op", "partition", "row"))
    if operations is None or operations <= 0:
        raise malformed(name, run.line, "the results of this run have no op rate", "Op rate : N op/s")
    total = integer((run.results.get("total partitions") or "").split(" ")[0])
    if operation != "mixed" and statement.upper() != "INSERT":  # an operation is a row, which is a partition
        for kind, rate in (("partitions", partitions), ("rows", rows)):
            agree(name, run.line, f"operations and {kind} a second", operations, rate)
    # A row per partition.
    counted = total if rows is not None and partitions == rows else None
    # Tenths of a second, whole ones without interval lines; the tool's rate leaves out its start.
    within = 0.1 if run.times else 1.0
    seconds = run.times[-1] if run.times else _seconds(run.results.get("total operation time", ""))
    if seconds and total and partitions and abs(total / partitions - seconds) > within:
        agree(name, run.line, "seconds, and partitions by their rate", seconds, total / partitions)
    errors = integer((run.results.get("total errors") or "").split(" ")[0])
    percentiles = {
        percent: value
        for percent in (50.0, 95.0, 99.0, 99.9)
        if (value := _figure(run, "latency median" if percent == 50 else f"latency {percent:g}th percentile"))
        is not None
    }
    return draft(
        operation,
        {
            "batches": run.done[-1] if run.done else None,
            "rows": counted,
            "seconds": seconds or None,
            "batches_per_second": operations,
            "rows_per_second": rows or None,
        },
        parameters,
        latency=latency(percentiles, 1e6, mean=_figure(run, "latency mean"), max=_figure(run, "latency max")),
        samples=_samples(run, counted),
        figures={} if errors is None else {"errors": errors},
        line=run.line,
        interval_within_ns=round(within * 1e9),
        note=f"{errors:,} operations ended in errors" if errors else None,
    )


def _samples(run: _Run, rows: int | None) -> dict[str, Any] | None:
    """The interval lines; rows so far are the operations so far where an operation is a row."""
    if not run.times or rows is None or run.done != sorted(run.done) or run.done[-1] != rows:
        return None
    return {"client": {"t_ns": [round(t * 1e9) for t in run.times], "rows": run.done}, "server": None}


FORMAT = Format("cassandra-stress", "a log of cassandra-stress: interval lines and Results:", detect, parse)
