"""Venturi measures how fast data really moves.

    run = venturi.run("quick", streams=[1, 2, 4])
    run.cells.to_pandas()
    run.figure("throughput-streams")
    run.report("report.html")

`docs/python-api.md` has the whole of it.
"""

from typing import TYPE_CHECKING, Any

from venturi.common.errors import ScenarioError, StoreError, VenturiError

if TYPE_CHECKING:
    from venturi.api.machine import ceilings, doctor, links
    from venturi.api.measuring import Event, dry_run, prove, resume, run, tune
    from venturi.api.reading import compare, import_, sql
    from venturi.api.result import Run, open
    from venturi.common.units import Quantity

    __version__: str

__all__ = [
    "Event",
    "Quantity",
    "Run",
    "ScenarioError",
    "StoreError",
    "VenturiError",
    "ceilings",
    "compare",
    "doctor",
    "dry_run",
    "import_",
    "links",
    "open",
    "prove",
    "resume",
    "run",
    "sql",
    "tune",
]

_LAZY = {
    **dict.fromkeys(("ceilings", "doctor", "links"), "venturi.api.machine"),
    **dict.fromkeys(("Event", "dry_run", "prove", "resume", "run", "tune"), "venturi.api.measuring"),
    **dict.fromkeys(("compare", "import_", "sql"), "venturi.api.reading"),
    **dict.fromkeys(("Run", "open"), "venturi.api.result"),
    "Quantity": "venturi.common.units",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from venturi.common.environment import version

        return version("venturi") or "unknown"
    # Imported when asked for, so that `venturi --help` does not pay for the tables and figures of a notebook.
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
