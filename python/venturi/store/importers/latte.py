"""latte, the CQL load generator: its JSON report, and the text that it prints (pkolaczk/latte 0.26 and later,
scylladb/latte).

An operation of ours (a batch) is a request of latte's. Rows are rows that came back; a write has none, so its
rate is in requests.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from venturi.store.importers.record import (
    Draft,
    Format,
    Parsed,
    agree,
    latency,
    malformed,
    real,
    text_lines,
    whole,
)

PERCENTILES = (0.0, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.9, 99.99, 100.0)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SECTION = re.compile(r"^([A-Z][A-Z ]+?(?: for \S+)?)(?: \[ms\])?\s*═{3,}\s*$")
_LINE = re.compile(r"^\s{0,20}(\S.*?)(?:\s+\[([^\]]+)\])?(?:\s{2,}(\S.*?))?\s*$")
_SAMPLE = re.compile(r"^\s*\d+\.\d{3}(\s+[\d.]+){10,}\s*$")
_MOST = 1e17


def detect(text: str) -> bool:
    head = text.lstrip()[:1]
    if head == "{":
        return '"conf"' in text and '"result"' in text and "cycle_throughput" in text
    return "SUMMARY STATS ═" in _ANSI.sub("", text)


def parse(text: str, name: str) -> Parsed:
    return _json(text, name) if text.lstrip()[:1] == "{" else _text(_ANSI.sub("", text), name)


def _operation(functions: str) -> str:
    words = {w.split(":")[0].lower() for w in re.split(r"[,\s]+", functions) if w}
    if words and words <= {"read", "select", "get"}:
        return "get"
    if words and words <= {"write", "insert", "update", "load", "upsert"}:
        return "upsert"
    return "mixed"


# The JSON report


def _get(found: Any, *path: str) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _number(found: Any, *path: str) -> float | None:
    """A number, or the `value` of a mean with its error."""
    value = _get(found, *path)
    value = value.get("value") if isinstance(value, Mapping) else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if 0 <= value < _MOST else None


def _json(text: str, name: str) -> Parsed:
    expected = "latte's report, whole: conf, percentiles, result"
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) - 1
        what = "the JSON ends early" if cut else f"not JSON: {error.msg}"
        raise malformed(name, error.lineno, what, expected) from None
    except (RecursionError, ValueError):
        raise malformed(name, 1, "JSON out of all bounds", expected) from None
    conf, result = _get(document, "conf"), _get(document, "result")
    seconds, cycles = _number(result, "elapsed_time_s"), _number(result, "cycle_throughput")
    if not isinstance(conf, Mapping) or not seconds or cycles is None:
        raise malformed(name, 1, "no conf, result.elapsed_time_s and result.cycle_throughput", expected)
    functions = ", ".join(_function(f) for f in _items(_get(conf, "functions"))) or str(
        _get(conf, "function") or ""
    )
    counts = {
        k: int(v)
        for k, v in (("batches", _number(result, "request_count")), ("rows", _number(result, "row_count")))
        if v
    }
    rates = {
        k: v
        for k, v in (
            ("batches_per_second", _number(result, "req_throughput") or cycles),
            ("rows_per_second", _number(result, "row_throughput")),
        )
        if v
    }
    if not counts.get("batches") and (count := _number(result, "cycle_count")):
        counts["batches"] = int(count)
    printed, rows = _number(result, "row_throughput"), _number(result, "row_count")
    agree(name, 1, "rows/s, and rows by seconds", printed, None if rows is None else rows / seconds)
    started = _number(conf, "timestamp")
    times = {"interval_ns": round(seconds * 1e9)}
    if started and started < 1e10:
        times["started_unix_ns"] = int(started) * 10**9
    cpu = _number(result, "cpu_time_s")
    figures: dict[str, float | str] = {"cycles_per_second": cycles}
    if (spread := _number(result, "cycle_throughput", "std_err")) is not None:
        figures["cycles_per_second_std_err"] = spread
    errors = _number(result, "error_count") or _number(result, "errors_count")
    draft = Draft(
        _operation(functions),
        _conf_parameters(conf, functions),
        counts,
        times,
        rates,
        _json_latency(document, counts.get("batches")),
        # CPU of the process, user and system together.
        cpu={"client": {"user_ns": round(cpu * 1e9), "system_ns": None}, "server": None} if cpu else None,
        samples=_json_samples(result) if counts.get("rows") else None,
        figures=figures,
        line=1,
        note=f"{errors:,.0f} operations ended in errors" if errors else None,
    )
    cluster, version = _get(conf, "cluster_name"), _get(conf, "cass_version")
    server = {"cluster": cluster, "software": {"cassandra": version} if version else None}
    return Parsed(
        [draft],
        "latte",
        server={k: v for k, v in server.items() if isinstance(v, str | dict)},
        started_unix_ns=times.get("started_unix_ns"),
    )


def _items(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _function(found: Any) -> str:
    name = found if isinstance(found, str) else _get(found, "name")
    return name if isinstance(name, str) else ""


def _whole(found: Any, *path: str) -> int | None:
    value = _number(found, *path)
    return int(value) if value else None


def _conf_parameters(conf: Mapping[str, Any], functions: str) -> dict[str, Any]:
    connection = _get(conf, "connection") or conf
    addresses = _items(_get(connection, "addresses"))
    threads, connections = _whole(conf, "threads"), _whole(connection, "count") or _whole(conf, "connections")
    workload = _get(conf, "workload")
    consistency = _get(connection, "consistency")
    return {
        "target": f"cassandra://{','.join(map(str, addresses))}" if addresses else "cassandra",
        "data": workload.rsplit("/", 1)[-1] if isinstance(workload, str) else None,
        "statement": functions or None,
        "streams": connections,
        "threads": threads,
        "concurrency": _whole(conf, "concurrency"),
        "rate": _number(conf, "rate") or None,
        "consistency": consistency if isinstance(consistency, str) else None,
    }


def _json_latency(document: Mapping[str, Any], count: int | None) -> dict[str, Any] | None:
    result = _get(document, "result")
    found = _get(result, "request_latency") or _get(result, "cycle_latency")
    values = [_number({"v": v}, "v") for v in _items(_get(found, "percentiles"))]
    at = [_number({"v": p}, "v") for p in _items(_get(document, "percentiles"))]
    if len(at) != len(values):
        at = list(PERCENTILES) if len(values) == len(PERCENTILES) else []
    # 32-bit floats in the file: 99.9 stands there as 99.9000015.
    known = {
        round(p, 3): v * 1e6
        for p, v in zip(at, values, strict=False)
        if p is not None and v is not None and p <= 100.001
    }
    if not known:
        return None
    mean = _number(found, "mean")
    return latency(
        {p: v for p, v in known.items() if p > 0},
        count=count,
        mean=None if mean is None else mean * 1e6,
        low=known.get(0.0),
        high=known.get(100.0),
    )


def _json_samples(result: Any) -> dict[str, Any] | None:
    times: list[int] = []
    rows: list[int] = []
    for sample in _items(_get(result, "log")):
        start, duration, count = (_number(sample, k) for k in ("time_s", "duration_s", "row_count"))
        if start is None or duration is None or count is None:
            continue
        at = round((start + duration) * 1e9)
        if not times or at > times[-1]:
            times.append(at)
            rows.append((rows[-1] if rows else 0) + int(count))
    return {"client": {"t_ns": times, "rows": rows}, "server": None} if times else None


# The printed text


def _text(text: str, name: str) -> Parsed:
    expected = "what `latte run` prints, with its sections CONFIG and SUMMARY STATS"
    drafts: list[Draft] = []
    sections: dict[str, dict[str, str]] = {}
    current, parent, begun = "", "", 1
    started = server = None
    for at, line in enumerate([*text_lines(text, 200), "CONFIG ═══"], 1):
        section = _SECTION.match(line)
        if section:
            current, parent = section[1].strip(), ""
            if current == "CONFIG":
                if "SUMMARY STATS" in sections:
                    drafts.append(_text_draft(sections, begun, name))
                    server = server or _text_server(sections)
                sections, begun = {}, at
            sections.setdefault(current, {})
            continue
        if "─ A ─" in line:
            raise malformed(name, at, "a comparison of two runs", "one run; import the JSON reports of both")
        found = _LINE.match(line)
        if not current or not found or _SAMPLE.match(line):
            continue
        label, unit, value = found[1].strip(), found[2] or "", found[3] or ""
        if label in ("├─", "└─"):
            label = f"{parent}/"
        elif not label.startswith("─"):
            parent = label
        if (
            not value
            and (split := re.fullmatch(r"(\S+)\s+(\S.*)", found[1].strip()))
            and "LATENCY" in current
        ):
            label, value = split[1], split[2]
        sections[current].setdefault(f"{label}[{unit}]" if unit else label, value)
    if not drafts:
        raise malformed(name, None, "no section SUMMARY STATS after CONFIG", expected)
    return Parsed(drafts, "latte", server=server or {}, started_unix_ns=started)


def _first(text: str | None) -> float | None:
    words = (text or "").split()
    return real(words[0]) if words else None


def _text_server(sections: dict[str, dict[str, str]]) -> dict[str, Any]:
    conf = sections.get("CONFIG", {})
    out: dict[str, Any] = {"cluster": conf.get("Cluster") or None}
    if version := conf.get("Cass. version"):
        out["software"] = {"cassandra": version}
    return {k: v for k, v in out.items() if v}


def _text_draft(sections: dict[str, dict[str, str]], line: int, name: str) -> Draft:
    conf, stats = sections.get("CONFIG", {}), sections["SUMMARY STATS"]
    seconds, cycles = _first(stats.get("Elapsed time[s]")), _first(stats.get("Throughput[op/s]"))
    if not seconds or cycles is None or seconds >= _MOST / 1e9:
        raise malformed(
            name, line, "SUMMARY STATS without its times", "lines `Elapsed time [s]` and `Throughput [op/s]`"
        )
    counts = {
        k: v
        for k, v in (
            ("batches", whole(stats.get("Requests[req]", ""))),
            ("rows", whole(stats.get("Rows[row]", ""))),
        )
        if v
    }
    rates = {
        k: v
        for k, v in (
            ("batches_per_second", _first(stats.get("Throughput/[req/s]")) or cycles),
            ("rows_per_second", _first(stats.get("Throughput/[row/s]"))),
        )
        if v
    }
    shown = sections.get("RESPONSE LATENCY") or {}
    known: dict[float, float] = {}
    for label, text in shown.items():
        percent = {"Min": 0.0, "Max": 100.0}.get(label, real(label))
        if percent is not None and 0 <= percent <= 100 and (value := _first(text)) is not None:
            known[percent] = value * 1e6
    mean = _first(stats.get("Request latency[ms]"))
    spent = None
    if known:
        spent = latency(
            {p: v for p, v in known.items() if p > 0},
            count=counts.get("batches"),
            mean=None if mean is None else mean * 1e6,
            low=known.get(0.0),
            high=known.get(100.0),
        )
    cpu = _first(stats.get("CPU time[s]"))
    errors = _first(stats.get("Errors[op]"))
    functions = conf.get("Function(s)") or conf.get("Function") or ""

    def count(label: str) -> int | None:
        value = _first(conf.get(label))
        return int(value) if value else None

    parameters = {
        "target": "cassandra",
        "data": conf.get("Workload") or None,
        "statement": functions or None,
        "streams": count("Connections"),
        "threads": count("Threads"),
        "concurrency": count("Concurrency[req]"),
        "rate": _first(conf.get("Max rate[op/s]")) or None,
        "consistency": conf.get("Consistency") or None,
    }
    return Draft(
        _operation(functions),
        parameters,
        counts,
        {"interval_ns": round(seconds * 1e9)},
        rates,
        spent,
        cpu={"client": {"user_ns": round(cpu * 1e9), "system_ns": None}, "server": None} if cpu else None,
        figures={"cycles_per_second": cycles},
        line=line,
        note=f"{errors:,.0f} operations ended in errors" if errors else None,
    )


FORMAT = Format("latte", "latte's JSON report or the text that it prints", detect, parse)
