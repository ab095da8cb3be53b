"""All advice about a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from venturi.analysis.advice import load_advice, straggler_advice
from venturi.analysis.advice.warning import Advice
from venturi.analysis.cells.summary import Cell

if TYPE_CHECKING:
    import pyarrow as pa

    from venturi.analysis.advice.stragglers import Straggler
from venturi.analysis.advice.trials import (
    cut_short,
    disturbances,
    failures,
    few,
    instrument,
    no_ceiling,
    over_ceiling,
    skew,
    steady,
    too_short,
    too_wide,
    two_speeds,
    unbalanced,
    unverified,
    weaker,
)

__all__ = ["advise"]


def advise(
    cells: Sequence[Cell],
    records: Sequence[Mapping[str, Any]],
    probes: Sequence[Mapping[str, Any]],
    samples: Callable[[str], pa.Table] | None = None,
    stragglers: Sequence[Straggler] = (),
    command: Sequence[str] | None = None,
) -> list[Advice]:
    """All warnings of a run that `command` made, the gravest first.

    `samples` reads the counters of a trial; it is asked only where the records hold no summary of them.
    """
    measured = [r for r in records if not r.get("warmup")]
    if measured and all(r.get("imported") for r in measured):
        from venturi.analysis.advice import imported

        return imported.advise(cells, measured)
    found = [
        *failures(measured, command),
        load_advice.errors(cells),
        load_advice.stalled(cells),
        unverified(cells),
        weaker(cells),
        *disturbances(cells, measured, samples),
        unbalanced(measured),
        instrument(cells),
        over_ceiling(cells),
        straggler_advice.advise(stragglers, cells, probes),
        steady(cells),
        too_short(cells),
        cut_short(cells),
        skew(cells),
        two_speeds(cells),
        too_wide(cells),
        load_advice.backlog(cells) or load_advice.late(measured),
        no_ceiling(cells, probes),
        few(cells),
    ]
    return [advice for advice in found if advice is not None]
