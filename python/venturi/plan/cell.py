"""A cell: one combination of parameters; cells named by the parameters in which they differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One point of the matrix. `parameters` are flat and go into every trial's line."""

    parameters: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Readable, and the same in every run of the same cell: get-2x4096-1a2b3c4d."""
        # What is null is left out, so that a parameter added by a later version changes no id.
        identity = {
            name: value
            for name, value in self.parameters.items()
            if value is not None and name != "row_bytes"
        }
        text = json.dumps([identity, dict(self.options)], sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        p = self.parameters
        return f"{p['operation']}-{p['streams']}x{p['rows_per_batch']}-{digest}"

    @property
    def payload_bytes(self) -> int | None:
        """Bytes that one trial moves; None where that is not known before (fixed time, remote data)."""
        p = self.parameters
        if p.get("rows_per_stream") is None or p.get("row_bytes") is None:
            return None
        return int(p["rows_per_stream"] * p["row_bytes"] * p["streams"])

    @property
    def message_bytes(self) -> int | None:
        """Payload bytes of one batch."""
        p = self.parameters
        return None if p.get("row_bytes") is None else max(1, int(p["rows_per_batch"] * p["row_bytes"]))


def varying(found: Sequence[Cell]) -> list[str]:
    """The parameters that tell these cells apart, in their order."""
    derived = {"row_bytes", "target", "bytes_per_stream"}
    names = [name for name in (found[0].parameters if found else {}) if name not in derived]
    several = [name for name in names if len({repr(cell.parameters[name]) for cell in found}) > 1]
    if "threads" in several and all(c.parameters["threads"] == c.parameters["streams"] for c in found):
        several.remove("threads")
    if "rows_per_stream" in several and all(c.parameters["bytes_per_stream"] for c in found):
        # The rows follow from the bytes, which are what was asked for.
        amounts = {c.parameters["bytes_per_stream"] for c in found}
        several[several.index("rows_per_stream")] = "bytes_per_stream"
        if len(amounts) == 1:
            several.remove("bytes_per_stream")
    records = {name for name in ("columns", "values", "seed") if name in several}
    if records and len({repr([c.parameters[n] for n in sorted(records)]) for c in found}) <= 2:
        # These are null for files, so they vary with the data and say nothing of their own.
        several = [name for name in several if name not in records]
    return several


def cell_labels(found: Sequence[Cell]) -> dict[str, str]:
    """A short text a cell: what tells it from the others."""
    names = [name for name in varying(found) if name != "operation"]
    return {cell.id: _label(cell, names) for cell in found}


def _label(cell: Cell, names: list[str]) -> str:
    p = cell.parameters
    parts = [str(p["operation"])]
    for name in names:
        value = p[name]
        if value is not None:
            text = Path(value).name if name == "data" else value
            parts.append(f"{name}={text}")
    return " ".join(parts)
