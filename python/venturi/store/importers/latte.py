"""latte, the CQL load generator: its JSON report, and the text that it prints (pkolaczk/latte 0.26 and later,
scylladb/latte).

An operation of ours (a batch) is a request of latte's. Rows are rows that came back; a write has none, so its
rate is in requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from venturi.store.importers.record import (
    Draft,
    Format,
    Parsed,
    agree,
    draft,
    get,
    integer,
    items,
    latency,
    malformed,
    number,
    reading_json,
    real,
    text_lines,
)

_PERCENTILES = (0.0, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.9, 99.99, 100.0)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SECTION = re.compile(r"^([A-Z][A-Z ]+?(?: for \S+)?)(?: \[ms\])?\s*═{3,}\s*$")
_LINE = re.compile(r"^\s{0,20}(\S.*?)(?:\s+\[([^\]]+)\])?(?:\s{2,}(\S.*?))?\s*$")
_SAMPLE = re.compile(r"^\s*\d+\.\d{3}(\s+[\d.]+){10,}\s*$")
_MOST_SECONDS = 1e8
_WORDS = {"get": {"read", "select", "get"}, "upsert": {"write", "insert", "update", "load", "upsert"}}


def _detect(text: str) -> bool:
    if text.lstrip()[:1] == "{":
        return '"conf"' in text and '"result"' in text and "cycle_throughput" in text
    return "SUMMARY STATS ═" in _ANSI.sub("", text)


def _parse(text: str, name: str) -> Parsed:
    return _parse_json(text, name) if text.lstrip()[:1] == "{" else _parse_text(_ANSI.sub("", text), name)


def _draft(
    functions: str,
    seconds: float,
    cycles: float,
    columns: Mapping[str, float | None],
    parameters: Mapping[str, Any],
    percentiles: Mapping[float, float],
    mean: float | None,
    cpu: float | None,
    errors: float | None,
    **rest: Any,
) -> Draft:
    """A run, of both outputs. What is 0 was not counted; requests that are not printed are cycles."""
    words = {word.split(":")[0].lower() for word in re.split(r"[,\s]+", functions) if word}
    operation = next((it for it, stated in _WORDS.items() if words and words <= stated), "mixed")
    counted = {name: value or None for name, value in columns.items()}
    counted["batches_per_second"] = counted["batches_per_second"] or cycles
    figures = {"cycles_per_second": cycles, **rest.pop("figures", {})}
    return draft(
        operation,
        counted | {"seconds": seconds},
        {**parameters, "statement": functions or None},
        latency=latency(
            {p: value for p, value in percentiles.items() if p > 0},
            1e6,
            mean=mean,
            min=percentiles.get(0.0),
            max=percentiles.get(100.0),
        ),
        # CPU of the process, user and system together.
        cpu={"client": {"user_ns": round(cpu * 1e9), "system_ns": None}, "server": None} if cpu else None,
        figures=figures,
        note=f"{errors:,.0f} operations ended in errors" if errors else None,
        **rest,
    )


# ---- the JSON report


def _parse_json(text: str, name: str) -> Parsed:
    expected = "latte's report, whole: conf, percentiles, result"
    with reading_json(text, name, 1, expected):
        document = json.loads(text)
    conf, result = get(document, "conf"), get(document, "result")
    seconds, cycles = number(result, "elapsed_time_s"), number(result, "cycle_throughput")
    if not isinstance(conf, Mapping) or not seconds or seconds > _MOST_SECONDS or cycles is None:
        raise malformed(name, 1, "no conf, result.elapsed_time_s and result.cycle_throughput", expected)
    functions = ", ".join(_function(f) for f in items(conf, "functions")) or str(get(conf, "function") or "")
    columns = {
        "batches": number(result, "request_count") or number(result, "cycle_count"),
        "rows": number(result, "row_count"),
        "batches_per_second": number(result, "req_throughput"),
        "rows_per_second": number(result, "row_throughput"),
    }
    rows = columns["rows"]
    computed = None if rows is None else rows / seconds
    agree(name, 1, "rows/s, and rows by seconds", columns["rows_per_second"], computed)
    started = number(conf, "timestamp")
    started_ns = int(started) * 10**9 if started and started < 1e10 else None
    spread = number(result, "cycle_throughput", "std_err")
    found = get(result, "request_latency") or get(result, "cycle_latency")
    made = _draft(
        functions,
        seconds,
        cycles,
        columns | {"started_unix_ns": started_ns},
        _conf_parameters(conf),
        _percentiles_of(document, found),
        number(found, "mean"),
        number(result, "cpu_time_s"),
        number(result, "error_count") or number(result, "errors_count"),
        figures={} if spread is None else {"cycles_per_second_std_err": spread},
        samples=_json_samples(result) if rows else None,
        line=1,
    )
    cluster, version = get(conf, "cluster_name"), get(conf, "cass_version")
    server = {"cluster": cluster, "software": {"cassandra": version} if version else None}
    stated = {k: v for k, v in server.items() if isinstance(v, str | dict)}
    return Parsed([made], "latte", server=stated, started_unix_ns=started_ns)


def _function(found: Any) -> str:
    name = found if isinstance(found, str) else get(found, "name")
    return name if isinstance(name, str) else ""


def _conf_parameters(conf: Mapping[str, Any]) -> dict[str, Any]:
    connection = get(conf, "connection") or conf
    addresses = items(connection, "addresses")
    workload, consistency = get(conf, "workload"), get(connection, "consistency")

    def count(document: Any, name: str) -> int | None:
        return int(number(document, name) or 0) or None

    return {
        "target": f"cassandra://{','.join(map(str, addresses))}" if addresses else "cassandra",
        "data": workload.rsplit("/", 1)[-1] if isinstance(workload, str) else None,
        "streams": count(connection, "count") or count(conf, "connections"),
        "threads": count(conf, "threads"),
        "concurrency": count(conf, "concurrency"),
        "rate": number(conf, "rate") or None,
        "consistency": consistency if isinstance(consistency, str) else None,
    }


def _percentiles_of(document: Mapping[str, Any], found: Any) -> dict[float, float]:
    values = [number(value) for value in items(found, "percentiles")]
    percents = [number(value) for value in items(document, "percentiles")]
    if len(percents) != len(values):
        percents = list(_PERCENTILES) if len(values) == len(_PERCENTILES) else [None] * len(values)
    # 32-bit floats in the file: 99.9 stands there as 99.9000015.
    return {
        round(percent, 3): value
        for percent, value in zip(percents, values, strict=True)
        if percent is not None and value is not None and percent <= 100.001
    }


def _json_samples(result: Any) -> dict[str, Any] | None:
    times: list[int] = []
    rows: list[int] = []
    for sample in items(result, "log"):
        start, duration, count = (number(sample, k) for k in ("time_s", "duration_s", "row_count"))
        if start is None or duration is None or count is None:
            continue
        at = round((start + duration) * 1e9)
        if not times or at > times[-1]:
            times.append(at)
            rows.append((rows[-1] if rows else 0) + int(count))
    return {"client": {"t_ns": times, "rows": rows}, "server": None} if times else None


# ---- the printed text


def _parse_text(text: str, name: str) -> Parsed:
    drafts: list[Draft] = []
    sections: dict[str, dict[str, str]] = {}
    current, parent, begun = "", "", 1
    server: dict[str, Any] = {}
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
        split = re.fullmatch(r"(\S+)\s+(\S.*)", label)
        if not value and split and "LATENCY" in current:
            label, value = split[1], split[2]
        sections[current].setdefault(f"{label}[{unit}]" if unit else label, value)
    if not drafts:
        expected = "what `latte run` prints, with its sections CONFIG and SUMMARY STATS"
        raise malformed(name, None, "no section SUMMARY STATS after CONFIG", expected)
    return Parsed(drafts, "latte", server=server)


def _text_server(sections: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    conf = sections.get("CONFIG", {})
    version = conf.get("Cass. version")
    server = {"cluster": conf.get("Cluster"), "software": {"cassandra": version} if version else None}
    return {k: v for k, v in server.items() if v}


def _text_draft(sections: Mapping[str, Mapping[str, str]], line: int, name: str) -> Draft:
    conf, stats = sections.get("CONFIG", {}), sections["SUMMARY STATS"]

    def first(text: str | None) -> float | None:
        words = (text or "").split()
        return real(words[0]) if words else None

    def count(label: str) -> int | None:
        value = first(conf.get(label))
        return int(value) if value else None

    seconds, cycles = first(stats.get("Elapsed time[s]")), first(stats.get("Throughput[op/s]"))
    if not seconds or not 0 < seconds < _MOST_SECONDS or cycles is None:
        raise malformed(
            name, line, "SUMMARY STATS without its times", "lines `Elapsed time [s]` and `Throughput [op/s]`"
        )
    percentiles: dict[float, float] = {}
    for label, text in (sections.get("RESPONSE LATENCY") or {}).items():
        percent = {"Min": 0.0, "Max": 100.0}.get(label, real(label))
        if percent is not None and 0 <= percent <= 100 and (value := first(text)) is not None:
            percentiles[percent] = value
    return _draft(
        conf.get("Function(s)") or conf.get("Function") or "",
        seconds,
        cycles,
        {
            "batches": integer(stats.get("Requests[req]", "")),
            "rows": integer(stats.get("Rows[row]", "")),
            "batches_per_second": first(stats.get("Throughput/[req/s]")),
            "rows_per_second": first(stats.get("Throughput/[row/s]")),
        },
        {
            "target": "cassandra",
            "data": conf.get("Workload") or None,
            "streams": count("Connections"),
            "threads": count("Threads"),
            "concurrency": count("Concurrency[req]"),
            "rate": first(conf.get("Max rate[op/s]")) or None,
            "consistency": conf.get("Consistency") or None,
        },
        percentiles,
        first(stats.get("Request latency[ms]")),
        first(stats.get("CPU time[s]")),
        first(stats.get("Errors[op]")),
        line=line,
    )


FORMAT = Format("latte", "latte's JSON report or the text that it prints", _detect, _parse)
