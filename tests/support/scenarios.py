"""Scenarios as text, and the cells that follow from them: tests/data/scenarios/WING.txt."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from typing import Any

from support.mistakes import check
from venturi.common import toml_text
from venturi.measure.ceiling_probes import probes
from venturi.plan import matrix
from venturi.plan.cell import Cell
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.plan.scenario import Scenario


def scenario(text: str, flags: dict[str, Any] | None = None, on: str | None = None) -> Scenario:
    layers = [Layer("my.toml", toml_text.parse(text, "my.toml"), text)]
    if flags is not None:
        layers.append(Layer("", flags, flags={("workload", "streams"): "--streams"}))
    return dataclasses.replace(load(layers), on=on)


def cells(text: str) -> list[Cell]:
    return matrix.cells(scenario(text))


def cell(text: str) -> Cell:
    (found,) = cells(text)
    return found


def target(url: str, more: str = "") -> str:
    return f"[target]\nurl = '{url}'\n{more}"


def same(one: Scenario, other: Scenario) -> bool:
    return dataclasses.replace(one, layers=()) == dataclasses.replace(other, layers=())


def check_cells(wing: str) -> None:
    """Compares the cells of each scenario with those in the table, which lists differences: of
    the first cell from an empty scenario's, of each other cell from the one before it."""
    check(wing, _listed, "scenarios")


def _listed(text: str) -> str:
    on = re.match(r"# --on (\S+)\n", text)
    before, lines = _facts(cell("")), []
    for one in matrix.cells(scenario(text, on=on[1] if on else None)):
        now = _facts(one)
        changed = [f"{name}={json.dumps(value)}" for name, value in now.items() if before.get(name) != value]
        lines.append(" ".join(changed) or "no difference")
        before = now
    return "\n".join(lines)


def _facts(one: Cell) -> dict[str, Any]:
    figures = {"payload_bytes": one.payload_bytes, "message_bytes": one.message_bytes}
    # Of probes of memory there are one or two, by the number of this machine's cores.
    places = {tempfile.gettempdir(): "TMPDIR", os.getcwd(): "HERE"}
    probed = [(p.kind, p.name, p.end, p.data, places.get(p.path or "", p.path)) for p in probes([one])]
    limits = {" ".join(filter(None, fields)) for fields in probed}
    return {**one.parameters, "options": dict(one.options), **figures, "limits": sorted(limits)}
