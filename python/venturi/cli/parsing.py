"""What several commands read alike: percentages, and conditions that choose cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from venturi.common.errors import VenturiError

if TYPE_CHECKING:
    from venturi.analysis.cells.summary import Cell


def share(flag: str, text: str, least: float = 0.0) -> float:
    """A percentage as a share; 0 is allowed where `least` is 0."""
    from venturi.common.suffixes import parse_percent

    if least == 0.0 and text.strip().rstrip("%").strip() in ("0", "0.0"):
        return 0.0
    try:
        found = parse_percent(text) / 100
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}", hint=f"as in {flag} 5%") from None
    if found < least:
        raise VenturiError(f"{flag}: {text!r} is under {least * 100:g}%", hint=f"as in {flag} 95%")
    return found


def chosen(cells: list[Cell], where: list[str] | None, run: str) -> list[Cell]:
    """The cells for which all conditions hold. Raises `VenturiError` for a condition that is none, and where
    no cell is left."""
    from venturi.common.conditions import Condition

    kept = cells
    for text in where or []:
        try:
            condition = Condition(text)
            kept = [c for c in kept if condition(c.parameters)]
        except ValueError as error:
            raise VenturiError(f"--where: {error}", hint='as in --where "streams <= 8"') from None
    if not kept:
        raise VenturiError(
            f"{run}: there are no trials" if not cells else f"{run}: --where leaves no cell",
            hint=f"see what was measured: venturi show {run}",
        )
    return kept
