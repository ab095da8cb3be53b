"""What the run's hosts said of themselves, both ends beside each other."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from venturi.analysis.cells import servers
from venturi.analysis.results import Results
from venturi.common.units import MISSING, percent
from venturi.report.page.markup import render

_TOLD = {"client", "server", "servers", "server_hosts", "imported"}
_TOLD |= {"format", "run", "started_unix_ns", "command", "proof"}
"""What stands in the table of both ends, or elsewhere on the page."""


def section(results: Results) -> Markup:
    environment = results.environment
    ends = {end: _flat(found) for end, found in servers.ends(environment).items()}
    described = {end for end, found in ends.items() if found}
    imported = environment.get("imported")
    rows = [
        (
            key,
            [found.get(key, MISSING) for found in ends.values()],
            len({ends[end].get(key) for end in described}) > 1,
        )
        for key in dict.fromkeys(key for found in ends.values() for key in found)
    ]
    return render(
        "environment",
        results=results,
        imported=[e for e in imported if isinstance(e, dict)] if isinstance(imported, list) else [],
        ends=list(ends),
        rows=rows,
        alone=described <= {"client"} and not results.imported,
        rest=_flat({k: v for k, v in environment.items() if k not in _TOLD}),
        missing=MISSING,
    )


def _flat(found: Any, prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted names; lists in one line, bytes and shares readable, what is not there left
    out."""
    out: dict[str, str] = {}
    if not isinstance(found, dict):
        return out
    for key, item in found.items():
        name = f"{prefix}{key}"
        if isinstance(item, dict):
            out |= _flat(item, name + ".")
        elif isinstance(item, list):
            out[name] = "; ".join(
                ", ".join(f"{k} {v}" for k, v in x.items()) if isinstance(x, dict) else str(x) for x in item
            )
        elif item is not None:
            out[name] = _readable(name, item)
    return out


def _readable(name: str, item: Any) -> str:
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, int) and name.startswith("memory."):
        return f"{item / 2**30:,.1f} GiB"
    if isinstance(item, float) and "share" in name:
        return percent(item, 2)
    if isinstance(item, int) and name.endswith("_khz"):
        return f"{item / 1e6:,.2f} GHz"
    return f"{item:,}" if isinstance(item, int) and abs(item) >= 10_000 else str(item)
