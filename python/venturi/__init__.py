"""Venturi measures how fast data really moves.

    run = venturi.run("quick", streams=[1, 2, 4])
    for cell in run:
        print(cell.name, cell.throughput, run.verdicts[cell.name].title)
    run.figure("throughput-streams")
    run.report("report.html")

`docs/python-api.md` has the whole of it.
"""

from typing import TYPE_CHECKING, Any

from venturi.common.errors import ScenarioError, StoreError, VenturiError

if TYPE_CHECKING:
    from venturi.analysis.advice import Advice
    from venturi.analysis.cells.summary import Cell
    from venturi.analysis.compare.best import Best
    from venturi.analysis.compare.history import Series
    from venturi.analysis.compare.runs import Comparison
    from venturi.analysis.models.fits import Fits
    from venturi.analysis.models.predict import Prediction
    from venturi.analysis.verdict.types import Finding, Verdict
    from venturi.api.machine import Server, ceilings, doctor, generate, links, serve
    from venturi.api.measuring import Event, ab, dry_run, prove, resume, run, tune
    from venturi.api.result import Run, compare, history, import_, open, scenarios, sql
    from venturi.common.units import Quantity
    from venturi.measure.limits import Ceilings
    from venturi.measure.prove.outcome import Proof
    from venturi.measure.runner import Estimate
    from venturi.measure.tune import Tuned
    from venturi.report.draw import Drawing

    __version__: str

_NAMES = {
    "api.machine": ("Server", "ceilings", "doctor", "generate", "links", "serve"),
    "api.measuring": ("Event", "ab", "dry_run", "prove", "resume", "run", "tune"),
    "api.result": ("Run", "compare", "history", "import_", "open", "scenarios", "sql"),
    "analysis.advice": ("Advice",),
    "analysis.cells.summary": ("Cell",),
    "analysis.compare.history": ("Series",),
    "analysis.compare.runs": ("Comparison",),
    "analysis.models.fits": ("Fits",),
    "analysis.models.predict": ("Prediction",),
    "analysis.compare.best": ("Best",),
    "analysis.verdict.types": ("Finding", "Verdict"),
    "common.units": ("Quantity",),
    "measure.limits": ("Ceilings",),
    "measure.prove.outcome": ("Proof",),
    "measure.runner": ("Estimate",),
    "measure.tune": ("Tuned",),
    "report.draw": ("Drawing",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "Advice", "Best", "Ceilings", "Cell", "Comparison", "Drawing", "Estimate", "Event", "Finding", "Fits",
    "Prediction", "Proof", "Quantity", "Run", "ScenarioError", "Series", "Server", "StoreError",
    "Tuned", "VenturiError", "Verdict", "ab", "ceilings", "compare", "doctor", "dry_run", "generate",
    "history", "import_", "links", "open", "prove", "resume", "run", "scenarios", "serve", "sql", "tune",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from venturi.common.environment import version

        return version("venturi") or "unknown"
    # Imported when asked for, so that `venturi --help` does not pay for the tables and figures of a notebook.
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(f"venturi.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
