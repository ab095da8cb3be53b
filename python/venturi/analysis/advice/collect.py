"""All advice about a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from venturi.analysis.advice import Advice, load_advice, straggler_advice
from venturi.analysis.cells import machines
from venturi.analysis.cells.figures import get
from venturi.analysis.cells.machines import common, in_words, properties
from venturi.analysis.cells.summary import Cell
from venturi.analysis.wording import listed

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

__all__ = ["advise", "several_servers"]


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


# ---- several servers

_NAMED = 3
"""More properties, or servers with a value, are counted and not named."""


def several_servers(environment: Mapping[str, Any]) -> list[Advice]:
    """Warnings about each place with several servers: hosts that differ, servers that report nothing."""
    found = []
    for place, told in machines.servers_by_place(environment).items():
        found += [a for a in (_unlike(place, told), _silent(place, told)) if a is not None]
    return found


def _unlike(place: str, told: Mapping[str, Mapping[str, Any] | None]) -> Advice | None:
    known = {address: one for address, one in told.items() if one}
    differing = []
    for name, path, weight in _properties(list(known.values())):
        values = [(address, v) for address, one in known.items() if (v := get(one, *path)) is not None]
        if weight == "note" or not isinstance(common(name, [value for _, value in values]), tuple):
            continue
        groups: dict[str, list[str]] = {}
        for address, value in values:
            groups.setdefault(in_words(name, value), []).append(address)
        differing.append(f"{name} " + ", ".join(f"{value} ({_few(at)})" for value, at in groups.items()))
    if not differing:
        return None
    more = len(differing) - _NAMED
    shown = differing[:_NAMED] + ([f"and {more} more"] if more > 0 else [])
    return Advice(
        "unlike-servers",
        f"the servers of {place} differ: {'; '.join(shown)}",
        "streams take them in turn, so each has as many, whatever its host can do",
        "Read such figures as those of unlike hosts, or run it again with servers on hosts that are alike",
    )


def _properties(known: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...], str]]:
    """What is compared: as of two runs, and the settings that servers were started with."""
    settings = dict.fromkeys(name for one in known for name in one.get("settings") or {})
    return [*properties(known), *((name, ("settings", name), "matters") for name in settings)]


def _silent(place: str, told: Mapping[str, Mapping[str, Any] | None]) -> Advice | None:
    silent = [address for address, one in told.items() if not one]
    if not silent:
        return None
    tell = "tells nothing of itself" if len(silent) == 1 else "tell nothing of themselves"
    return Advice(
        "silent-servers",
        f"{len(silent)} of {len(told)} servers of {place} {tell} ({_few(silent)})",
        "no `venturi serve` answered there when the run began",
        "What the servers' CPUs and stages did is known only where all of them tell it: "
        "start `venturi serve` on each",
    )


def _few(addresses: Sequence[str]) -> str:
    return listed(addresses) if len(addresses) <= _NAMED else f"{len(addresses)} servers"
