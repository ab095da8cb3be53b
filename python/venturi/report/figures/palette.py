"""Colours by role. Figures name a role (`$c0`, `$ink`, `$c0/0.2` with an opacity); a theme gives the colour.

So one figure serves light, dark and print. The hues keep apart for readers with colour-deficient sight
(blue and orange first, lightness differing along the list), and each has a contrast of 3:1 or more against
its paper.
"""

from __future__ import annotations

LIGHT = {
    "ink": "#1c2733",
    "muted": "#5b6773",
    "grid": "#e4e8ec",
    "paper": "#ffffff",
    "ceiling": "#7a838d",
    "reference": "#a0713a",
    "wait": "#d3d8de",
    "w1": "#c3cbd4",
    "w2": "#e6d7ae",
    "w3": "#c9d9e8",
    "w4": "#dccfe3",
    "w5": "#e8cdc0",
    "other": "#9aa3ad",
    "c0": "#1f6fb4",
    "c1": "#d2591f",
    "c2": "#21856a",
    "c3": "#8450ab",
    "c4": "#a67c00",
    "c5": "#bd3f78",
    "c6": "#2b8aa3",
    "c7": "#66707b",
}
DARK = {
    "ink": "#e3e8ed",
    "muted": "#97a2ad",
    "grid": "#2b343d",
    "paper": "#161c22",
    "ceiling": "#8f99a3",
    "reference": "#d3a56c",
    "wait": "#3c4650",
    "w1": "#4c5763",
    "w2": "#5b5132",
    "w3": "#324a60",
    "w4": "#4d3f57",
    "w5": "#5c443a",
    "other": "#6b7580",
    "c0": "#63abee",
    "c1": "#f0905b",
    "c2": "#58c79f",
    "c3": "#bb92e5",
    "c4": "#dcb54a",
    "c5": "#ec82b0",
    "c6": "#69c8de",
    "c7": "#a3acb7",
}
SERIES = tuple(f"$c{i}" for i in range(8))
STAGES = {
    "generate": "$c4",
    "encode": "$c3",
    "send": "$c0",
    "receive": "$c2",
    "unpack": "$c7",
    "decode": "$c6",
    "apply": "$c1",
    "plugin": "$c7",
    "driver": "$c7",
    "verify": "$c5",
    "await_input": "$wait",
    "await_output": "$w1",
    "await_window": "$w2",
    "await_reply": "$w3",
    "await_schedule": "$w4",
    "await_thread": "$w5",
    "wait": "$wait",
}
"""One colour a stage, in the order of the pipeline. Those that wait are pale: no work was done in them."""

VERDICTS = {
    "load-generator": "$c1",
    "cores": "$c0",
    "stage": "$c3",
    "link": "$c2",
    "disk": "$c4",
    "memory": "$c6",
    "flow-control": "$c5",
    "server": "$c7",
    "schedule": "$w3",
    "unknown": "$other",
}
"""One colour a kind of verdict."""


def series_colour(index: int) -> str:
    return SERIES[index % len(SERIES)]


def stage_colour(stage: str) -> str:
    return STAGES.get(stage, "$other")


def verdict_colour(kind: str) -> str:
    return VERDICTS.get(kind, "$other")
