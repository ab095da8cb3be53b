"""A cell: one combination of parameters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Cell"]


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
