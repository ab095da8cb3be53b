"""What `venturi tune` searches at a URL where nothing is said: compression too, where that may pay."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from venturi.analysis.cells.probed import data_label
from venturi.analysis.models.packing import LEAST
from venturi.common.errors import ScenarioError
from venturi.common.links import SERVER_END
from venturi.engine import peers
from venturi.engine.executor import Executor
from venturi.measure.ceiling_probes import SECONDS, Probe, Prober, foreign
from venturi.measure.trial_targets import Endpoints, Note
from venturi.plan.cell import Cell
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.plan.rules.options import applies
from venturi.plan.scenario import Scenario
from venturi.plan.searched import searched
from venturi.store.writer import RunWriter
from venturi.targets.system import REFERENCE, scheme_of

__all__ = ["space"]

CODECS = ("lz4", "zstd")


def space(
    tree: Mapping[str, Any], asked: Layer, executor: Executor, note: Note, out: Path | None = None
) -> Scenario:
    """The scenario whose matrix is searched at the URL of `tree`, which is what `asked` says.

    `note` is told why compression is left out where only the data speak against it. `out`: where the run is
    to be kept. Raises ScenarioError, and StoreError where a run is there already.
    """
    found = load([searched(tree), asked])
    if tree.get("matrix") or asked.has(("target", "compression")):
        return found
    try:
        load([searched(tree, CODECS), asked])
    except ScenarioError:
        # Another setting that is asked for goes without, as charrow's older wire_version.
        return found
    if out is not None:
        RunWriter.check(out)  # before data are made ready
    codecs = _codecs(found, executor, note)
    return load([searched(tree, codecs), asked]) if codecs else found


def _codecs(found: Scenario, executor: Executor, note: Note) -> list[str]:
    """Those that may pay: on the way to another host, or over a link as one has it, where the other end
    compresses or unpacks; of data that get smaller."""
    url, operation = found.target.url, found.workload.operation
    away = foreign(url, found.over_link)
    if (
        not (away or found.over_link)
        or operation not in ("get", "put")
        or scheme_of(url) not in REFERENCE
        or not applies("compression", url, operation)
        or (SERVER_END in url and operation == "get")
    ):
        return []
    # A file is made ready for each batch size: one of them is sample enough.
    first = replace(found, axes={axis: values[:1] for axis, values in found.axes.items()})
    with Endpoints(first, executor.needs_server, note) as endpoints:
        cell = endpoints.cells[0]
        if away and operation == "get" and executor.needs_server:
            # What another server than ours sends is its own choice.
            told = peers.ask(url, cell.options, found.run.timeout / 1e9)
            if any(described is None for described in told.values()):
                return []
        if data_label(cell.parameters) is None:
            return list(CODECS)
        smaller = _ratios(cell, executor, endpoints)
    kept = [codec for codec, ratio in smaller.items() if ratio is None or ratio >= LEAST]
    if vain := [f"{codec} {ratio:.2f} times" for codec, ratio in smaller.items() if codec not in kept]:
        note(
            "info",
            f"compression is not searched where it hardly makes the data smaller: {', '.join(vain)}; to "
            "search it all the same, name what is searched, as --compression none,lz4 --streams 1,2,4",
        )
    return kept


def _ratios(cell: Cell, executor: Executor, endpoints: Endpoints) -> dict[str, float | None]:
    """How many times smaller each codec makes a sample of the cell's data; None where that was not told."""
    found: dict[str, float | None] = {}
    with contextlib.ExitStack() as stack:
        prober = Prober(executor, endpoints, stack)
        for codec in CODECS:
            probe = Probe("codec", end="client", name=f"{codec}-encode", threads=1, cell=cell)
            line = prober.line(probe, 0, executor.control(), SECONDS["codec"] / 2)
            encoded = line.get("encoded_bytes")
            found[codec] = line["bytes"] / encoded if encoded else None
    return found
