"""What is said of a run that holds several things side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from venturi.analysis.results import Results
from venturi.report.sections import Section

__all__ = ["sections"]


def sections(results: Results, most: int | None = None) -> list[Section]:
    """In the order of the report; of more than `most` loaders of a cell the slowest and the fastest."""
    from venturi.report import hosts, places, versions

    found = [versions.section(results), places.section(results), places.convergence(results)]
    found += [hosts.efficiency(results), hosts.loaders(results, most)]
    return [section for section in found if section is not None]
