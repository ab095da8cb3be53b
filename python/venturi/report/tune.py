"""A search as text: the answer, how sure it is, and what was learned of each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from venturi.analysis import wording
from venturi.analysis.results import evenly
from venturi.common.units import Quantity, percent, plural
from venturi.report.document import Block, Document, Section, Terms, Text

if TYPE_CHECKING:
    from venturi.analysis.models.explore import Answer, Search
    from venturi.measure.tune import Tuned

MOST_VALUES = 12
LEAST_HEADROOM = 0.005
"""What counts as no gain at all, as in the search itself."""


def setting(parameters: Mapping[str, Any], names: Sequence[str]) -> str:
    """`8 streams, 16,384 rows/batch`."""
    return ", ".join(wording.phrase(n, parameters.get(n)) for n in names)


def speed(answer: Answer, unit: str = "B/s") -> str:
    """The best's believed throughput with its 95 % interval, and where another trial of it would lie."""
    mean = Quantity(math.exp(answer.mean), math.exp(answer.low), math.exp(answer.high), unit).text()
    if not math.isfinite(answer.trial_low):
        return mean
    least, most = (Quantity(math.exp(end), unit=unit).text() for end in (answer.trial_low, answer.trial_high))
    return f"{mean} on average, single trials {least} to {most}"


def news(
    search: Search, candidates: Sequence[Mapping[str, Any]], names: Sequence[str], unit: str = "B/s"
) -> str:
    """Where the search stands, in a line; empty before it can say anything."""
    found = search.answer()
    if found is None or not math.isfinite(found.headroom):
        return ""
    return f"best so far: {setting(candidates[found.best], names)}: {speed(found, unit)}; " + (
        _beaten(found) if found.headroom >= LEAST_HEADROOM else "no other is expected to be faster"
    )


def step(
    search: Search, candidates: Sequence[Mapping[str, Any]], names: Sequence[str], unit: str = "B/s"
) -> str:
    """The last trial, and where the search stands after it."""
    if search.last is None:
        return ""
    at, value = search.last
    text = f"{setting(candidates[at], names)}: {Quantity(value, unit=unit).text()}"
    return "; ".join(filter(None, (text, news(search, candidates, names, unit))))


def _beaten(found: Answer) -> str:
    return f"another may be up to {percent(found.headroom)} faster (95 %)"


def document(tuned: Tuned, unit: str = "B/s") -> Document:
    """The answer, most important first, and what was learned of each setting."""
    blocks: list[Block] = [Text(line) for line in sentences(tuned, unit)]
    if found := learned(tuned):
        title = "learned (others as in the best, share of its throughput; in brackets what is only predicted)"
        blocks.append(Section(title, [Terms(found)]))
    return Document("Best found", blocks)


def sentences(tuned: Tuned, unit: str = "B/s") -> list[str]:
    """The answer, most important first."""
    found = tuned.answer
    if found is None:
        return ["no trial succeeded, so no setting can be named"]
    times = tuned.search.count(found.best)
    best = setting(tuned.candidates[found.best], tuned.names)
    out = [f"best found: {best}: {speed(found, unit)} ({plural(times, 'trial')} of it)"]
    ends = {"budget": "the budget is used up", "settled": "no further trial is worth its time"}
    ended = ends.get(tuned.reason, tuned.reason)
    out.append(f"{found.tried} of {len(tuned.candidates)} settings tried in {tuned.trials} trials; {ended}")
    if math.isfinite(found.headroom):
        more = found.headroom >= LEAST_HEADROOM
        expected = "no other setting is expected to be faster (95 %)"
        out.append(f"{_beaten(found)}: {_how(tuned)}" if more else expected)
    return out


def _how(tuned: Tuned) -> str:
    """How to narrow that down."""
    if tuned.reason == "settled":
        return "repeats scatter too much for this search" if tuned.run else "the run has no more trials"
    if tuned.run is None:
        return "more --trials tell"
    return f"venturi tune --resume {tuned.run.path} --trials {2 * tuned.trials}"


def learned(tuned: Tuned) -> list[tuple[str, str]]:
    """Each setting, and its values with all others as in the best: share of the best's throughput. Brackets
    hold what was not tried but is only believed."""
    out = []
    for name, rows in tuned.search.effects(tuned.candidates).items():
        if len(rows) < 2:
            # A recorded run need not have every combination.
            out.append((wording.head(name), "no other value was measured with the others as in the best"))
            continue
        shown = []
        for value, share, half, tried in evenly(rows, MOST_VALUES):
            text = wording.value(name, value) if value is not None else "none"
            figure = f"{percent(share)}"
            if half >= 0.005:
                figure += f" ±{percent(share * half)}"
            shown.append(f"{text}: {figure}" if tried else f"({text}: {figure})")
        out.append((wording.head(name), "  ".join(shown)))
    return out


def machine(tuned: Tuned, unit: str = "B/s") -> dict[str, Any]:
    """For machines: base units."""
    found = tuned.answer
    effects = tuned.search.effects(tuned.candidates)
    return {
        "best": None
        if found is None
        else {
            "settings": {n: tuned.candidates[found.best].get(n) for n in tuned.names},
            "throughput": {
                "value": math.exp(found.mean),
                "low": math.exp(found.low),
                "high": math.exp(found.high),
                "trial_low": math.exp(found.trial_low),
                "trial_high": math.exp(found.trial_high) if math.isfinite(found.trial_high) else None,
                "unit": unit,
            },
            "trials": tuned.search.count(found.best),
            "headroom": found.headroom if math.isfinite(found.headroom) else None,
        },
        "tried": found.tried if found else 0,
        "candidates": len(tuned.candidates),
        "trials": tuned.trials,
        "ended": tuned.reason,
        "run": str(tuned.run.path) if tuned.run else None,
        "learned": {
            name: [
                {"value": v, "share_of_best": share, "half_width": half, "tried": tried}
                for v, share, half, tried in rows
            ]
            for name, rows in effects.items()
        },
    }
