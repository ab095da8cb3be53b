"""The part of `venturi fit` that is about links: laws, crossings, and each link left out in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from venturi.common.errors import VenturiError

if TYPE_CHECKING:
    from venturi.analysis.cells.summary import Cell
    from venturi.analysis.models.over_links import LinkFit

__all__ = ["document", "held_links", "lines"]

Held = dict[int, list[dict[str, Any]]]


def held_links(cells: Sequence[Cell], text: str | None) -> list[str]:
    """The links to leave out, as they stand in cells: those named, else all. Raises VenturiError."""
    from venturi.common.links import canonical

    known = list(dict.fromkeys(str(c.parameters["link"]) for c in cells if c.parameters.get("link")))
    if text is None:
        return known
    try:
        wanted = [canonical(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise VenturiError(f"--hold-out: {error}") from None
    for one in wanted:
        if one not in known:
            raise VenturiError(
                f"--hold-out {one}: no cell has that link", hint=f"links are: {', '.join(known) or 'none'}"
            )
    return wanted


def _held(made: Sequence[LinkFit], wanted: Sequence[str]) -> Held:
    """By the place in `made`: each link left out, predicted from the others."""
    from venturi.analysis.models import link_words

    out: Held = {}
    for i, one in enumerate(made):
        if one.law is None:
            continue
        for text, measured, found in one.left_out([t for t in wanted if t in one.links]):
            entry: dict[str, Any] = {"link": text, "measured": measured, "predicted": None}
            if found is not None:
                entry |= {"predicted": found.median, "low": found.low, "high": found.high}
                entry |= {"error": found.median / measured - 1, "inside": found.low <= measured <= found.high}
            entry["text"] = link_words.left_out(one, text, measured, found)
            out.setdefault(i, []).append(entry)
    return out


def document(made: Sequence[LinkFit], wanted: Sequence[str]) -> dict[str, Any]:
    """All laws over links for machines. `wanted`: links to leave out in turn."""
    from venturi.analysis.models import link_words, over_links

    found: dict[str, Any] = link_words.document(made, over_links.crossings(made), _held(made, wanted))
    return found


def lines(made: Sequence[LinkFit], wanted: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Titles with sentences, for people."""
    from venturi.analysis.models import link_words, over_links

    held = _held(made, wanted)
    out = []
    for i, one in enumerate(made):
        rows = held.get(i, [])
        told = [row for row in rows if row["predicted"] is not None]
        sentences = [*link_words.sentences(one), *(row["text"] for row in rows)]
        if len(told) > 1:
            inside = sum(row["inside"] for row in told)
            near = sum(abs(row["error"]) <= 0.1 for row in told)
            sentences.append(
                f"of the {len(told)} links that the others could predict, {inside} are inside the interval "
                f"and {near} within 10 % of what was measured"
            )
        out.append((link_words.head(one), sentences))
    passed = over_links.crossings(made)
    if passed:
        out.append((link_words.CROSSINGS, [link_words.crossing(one) for one in passed]))
    return out
