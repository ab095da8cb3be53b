"""What run.py has measured, as a table in Markdown."""

from __future__ import annotations

from statistics import median
from typing import Any

SCHEMES = {"resp": "akumuli", "opentsdb": "opentsdb", "influx": "influx"}
DATA = {
    "walk": "random walks of 17 digits, half of them cut to whole numbers",
    "gauges": "gauges of 101 levels, 51 % as before",
}
STORES = ("venturi-none", "venturi-os", "venturi-fsync", "victoria-metrics", "influxdb", "questdb")
LOADERS = ("cat", "venturi", "venturi --digits shortest", "venturi --generate ahead")


def summary(lines: list[dict[str, Any]]) -> str:
    head = next(line for line in lines if line["kind"] == "head")
    out = [
        f"# Ingest, {head['date']}",
        "",
        f"{head['host']}; {head['points']:,} points of {head['hosts'] * 10:,} series "
        f"({DATA[head.get('data', 'walk')]}) over {head['streams']} "
        f"connections; medians of {head['rounds']} rounds (least..most). Load before: {head['load']:.2f}.",
        "",
        "## Stores",
        "Fed by `cat FILE > /dev/tcp/...`, until all points are counted. CPU: of the server, until its end.",
        "",
        "| protocol | store | what keeps a point | M points/s | CPU, µs a point | bytes a point |",
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
        out += ["| loader | M points/s | CPU, µs a point | seconds |", "| --- | ---: | ---: | ---: |"]
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
    return "\n".join(out) + "\n"


def _spread(values: list[float], places: int = 2) -> str:
    least, most = min(values), max(values)
    middle = f"{median(values):.{places}f}"
    return middle if len(values) == 1 else f"{middle} ({least:.{places}f}..{most:.{places}f})"
