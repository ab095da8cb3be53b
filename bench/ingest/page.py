"""From the bench's lines to its page."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from bench import goals, shared
from bench.page import Page

SCHEMES = {"resp": "akumuli", "opentsdb": "opentsdb", "influx": "influx"}
DATA = {
    "walk": "random walks of 17 digits, half of them cut to whole numbers",
    "gauges": "gauges of 101 levels, 51 % as before",
}
STORES = ("venturi-none", "venturi-os", "venturi-fsync", "victoria-metrics", "influxdb", "questdb")
OURS = "venturi-os"
CPU_MICROSECONDS = {"resp": 0.06, "influx": 0.10, "opentsdb": 0.15}
BYTES = {"walk": 3.0, "gauges": 1.37}
"""Most bytes per point; for gauges, what the authors of Gorilla published."""
LOADERS = ("cat", "venturi", "venturi --digits shortest", "venturi --generate ahead")


def page(source: Path) -> Page:
    head, *kept = map(json.loads, source.read_text().splitlines())
    lines = [line for line in kept if "error" not in line]
    out = [
        f"{DATA[head['data']]}, {head['hosts'] * 10:,} series; medians (least..most).",
        "",
        "## Stores",
        "Fed by `cat FILE > /dev/tcp/...`, until all points are counted. CPU: of the server, until its end.",
        "",
        "| protocol | store | what keeps a point | M points/s | CPU, µs per point | bytes per point |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    ]
    stores = [line for line in lines if line["kind"] == "store"]
    for protocol in SCHEMES:
        for name in STORES:
            mine = [s for s in stores if (s["name"], s["protocol"]) == (name, protocol)]
            if not mine:
                continue
            lost = [s for s in mine if s["points"] != s["expected"] or s["failed"]]
            note = f" ({len(lost)} of {len(mine)} not whole: {lost[0]['points']:,} points)" if lost else ""
            out.append(
                f"| {protocol} | {mine[0]['shown']}{note} | {mine[0]['durability']} | "
                f"{_spread([s['points'] / s['seconds'] / 1e6 for s in mine])} | "
                f"{_spread([s['cpu_seconds'] / max(s['points'], 1) * 1e6 for s in mine], 3)} | "
                f"{_spread([s['bytes'] / max(s['points'], 1) for s in mine])} |"
            )
    loaders = [line for line in lines if line["kind"] == "loader"]
    if loaders:
        out += ["", "## Loaders", "RESP rows into a sink that discards them.", ""]
        out += ["| loader | M points/s | CPU, µs per point | seconds |", "| --- | ---: | ---: | ---: |"]
    for name in LOADERS:
        mine = [s for s in loaders if s["name"] == name]
        if mine:
            shown = "`cat FILE > /dev/tcp`, ready-made" if name == "cat" else f"`{name}`"
            out.append(
                f"| {shown} | {_spread([s['points'] / s['seconds'] / 1e6 for s in mine])} | "
                f"{_spread([s['cpu_seconds'] / s['points'] * 1e6 for s in mine], 3)} | "
                f"{_spread([s['seconds'] for s in mine], 1)} |"
            )
    verdicts = [line for line in lines if line["kind"] == "verdict"]
    if verdicts:
        out += [
            "",
            "## What holds the peers back",
            "Fed by Venturi's loader for some seconds: its verdict.",
            "",
        ]
        out += [
            "| protocol | store | M points/s | loader's CPUs | verdict | times |",
            "| --- | --- | ---: | ---: | --- | ---: |",
        ]
    for name, protocol in ((n, p) for p in SCHEMES for n in STORES):
        mine = [s for s in verdicts if (s["name"], s["protocol"]) == (name, protocol)]
        for title in sorted({s["title"] for s in mine}):
            same = [s for s in mine if s["title"] == title]
            rates = [s["points"] / s["seconds"] / 1e6 for s in same]
            out.append(
                f"| {protocol} | {same[0]['shown']} | {_spread(rates)} | "
                f"{_spread([s['cpu_seconds'] / s['seconds'] for s in same])} | "
                f"{same[0]['sentence']} | {len(same)} of {len(mine)} |"
            )
    ours = [line for line in stores if line["name"] == OURS and line["points"]]
    sizes = [line["bytes"] / line["points"] for line in ours]
    return Page(
        "Ingest",
        "points per second, CPU time and bytes per point of Venturi's store and of others.",
        head,
        kept,
        out,
        _goals(head, stores),
        f"A point takes {median(sizes):.2f} bytes in Venturi's store." if ours else "",
        f"{head['rounds']} rounds of {head['points']:,} points over {head['streams']} connections",
        shared.failures(kept, "name", "protocol") + _failed(stores),
        [f"{line['name']}: {line['missing']}" for line in lines if line["kind"] == "missing"],
    )


def _goals(head: shared.Line, stores: list[shared.Line]) -> list[goals.Judged]:
    """Of Venturi's store with its log in the page cache: CPU beside fixed goals and beside peers, bytes."""
    found: list[goals.Judged] = []
    whole = [line for line in stores if not line["failed"] and line["points"] == line["expected"]]
    costs = shared.by_round(whole, "protocol", "name")
    for protocol, most in CPU_MICROSECONDS.items():
        own = costs.get((protocol, OURS), {})
        cost = [_cost(line) for line in own.values()]
        found += goals.judge(f"{protocol}: CPU per point", cost, most, most=True, unit="us")
        for peer in STORES:
            if not peer.startswith("venturi"):
                ratios = shared.ratios(costs.get((protocol, peer), {}), own, _cost)
                found += goals.judge(f"{protocol}: CPU per point of {peer}, over ours", ratios, 1)
    sizes = [line["bytes"] / line["points"] for line in whole if line["name"] == OURS]
    return found + goals.judge(
        f"{head['data']}: bytes per point", sizes, BYTES[head["data"]], most=True, unit="B"
    )


def _cost(line: shared.Line) -> float:
    """Microseconds of CPU per point."""
    return float(line["cpu_seconds"] / max(line["points"], 1) * 1e6)


def _failed(stores: list[shared.Line]) -> list[str]:
    """Of ours; if a peer loses points, the table shows it."""
    return [
        f"{line['shown']}, {line['protocol']}: {line['points']:,} of {line['expected']:,} points"
        for line in stores
        if line["name"].startswith("venturi") and (line["failed"] or line["points"] != line["expected"])
    ]


def _spread(values: list[float], places: int = 2) -> str:
    least, most = min(values), max(values)
    middle = f"{median(values):.{places}f}"
    return middle if len(values) == 1 else f"{middle} ({least:.{places}f}..{most:.{places}f})"
