"""From what was seen of a cell to its verdict: the narrowest place, how sure that is, and what to try next.

METHOD's order of proof (`venturi.analysis.verdict.proof`); `docs/verdicts.md` says what each verdict means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from venturi.analysis.cells import servers
from venturi.analysis.cells.figures import get
from venturi.analysis.cells.summary import Cell
from venturi.analysis.models.packing import Packing
from venturi.analysis.verdict import crowding, evidence
from venturi.analysis.verdict.causes import Cause, RemedyKind
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof import Diagnosis, first
from venturi.analysis.verdict.proof.beside import beside
from venturi.analysis.verdict.proof.cores import embedded
from venturi.analysis.verdict.proof.ends import own_stages
from venturi.analysis.verdict.proof.unknown import unknown
from venturi.analysis.verdict.remedies import MOST, remedies
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.tried import Tried
from venturi.analysis.verdict.types import Confidence, Remedy, SecondBottleneck, Verdict, VerdictText
from venturi.analysis.verdict.words import ground, hits
from venturi.analysis.verdict.words.remedies import told
from venturi.analysis.words.wording import nouns_of
from venturi.common.units import percent

__all__ = ["judge", "verdicts"]

AGREE = 0.8
"""Share of the repeats that, each for itself, have to give the same verdict for it to be sure: one of five
may have been disturbed."""
DISAGREE = 0.6
CLOSE = 0.25
"""A margin under this lies so near the threshold that another run may fall on its other side."""
STOLEN = 0.05
"""Stolen CPU time from which everything that depends on CPUs is in doubt."""
OTHER_LOAD = 0.10
"""Share of all cores that neither end used. Less are the kernel's threads and daemons."""


def verdicts(
    cells: Sequence[Cell],
    environment: Mapping[str, Any] | None = None,
    packings: Sequence[Packing] = (),
) -> dict[str, Verdict]:
    """The verdict of each cell, by its name. `environment` is the run's environment.json; `packings` what
    codecs do to its data."""
    tried = Tried(cells)
    alone = {cell.name: judge(cell, environment, packings, tried) for cell in cells}
    return crowding.against_others(cells, alone)


def judge(
    cell: Cell,
    environment: Mapping[str, Any] | None = None,
    packings: Sequence[Packing] = (),
    tried: Tried | None = None,
) -> Verdict:
    """The narrowest place of one cell, from its good trials alone; `tried` settles what its run has measured
    beside it. Never raises for what is missing."""
    environment = environment or {}
    in_words = partial(_in_words, tried or Tried((cell,)), cell, environment)
    usable = {end: n for end in ("client", "server") if (n := _usable(cell, environment, end))}
    single = [evidence.facts(record, usable) for record in cell.records]
    control = get(environment, "client", "sysctls", "net.ipv4.tcp_congestion_control")
    seen = evidence.seen(cell, evidence.medians(single), len(single), control, packings)
    hit = first(seen)
    if hit is None:
        return _unknown(seen, in_words)
    other = beside(seen, hit)

    def tell() -> VerdictText:
        agreeing = len(single)
        if len(single) > 1:
            each = [first(evidence.seen(cell, f, 1, control)) for f in single]
            places = {(h.kind, h.end) for h in (hit, other) if h is not None}
            agreeing = sum(h is not None and (h.kind, h.end) in places for h in each)
        doubted = agreeing < AGREE * len(single)
        sure, doubts = _confidence(seen, hit, agreeing)
        to_try = _of_both(remedies(seen, hit), remedies(seen, other) if other else [])
        return VerdictText(
            lines=(*hits.lines(seen, hit), *(hits.as_narrow(seen, other) if other else ()), *doubts),
            evidence=tuple(ground.ground(seen, hit, None if doubted else agreeing)),
            confidence=sure,
            remedies=in_words(to_try),
        )

    return Verdict(
        kind=hit.kind,
        cause=hit.cause,
        end=hit.end,
        stage=hit.stage,
        title=hits.title(seen, hit) + (f", {hits.title(seen, other)}" if other else ""),
        tell=tell,
        flagged=hit.flagged,
        numbers=hit.numbers,
        also=SecondBottleneck(other.kind, other.cause, other.end, other.stage, other.numbers)
        if other
        else None,
    )


def _of_both(one: Sequence[Remedy], other: Sequence[Remedy]) -> list[Remedy]:
    """The first of each in turn: opening one place alone gains little."""
    found: list[Remedy] = []
    for remedy in (r for pair in zip_longest(one, other) for r in pair):
        if remedy is not None and remedy not in found:
            found.append(remedy)
    return found


def _in_words(
    tried: Tried, cell: Cell, environment: Mapping[str, Any], found: Sequence[Remedy]
) -> tuple[Remedy, ...]:
    """The remedies with their commands and in words; those that were tried are settled, what was measured
    comes first."""
    rerun = Rerun.of(cell, environment)
    left: list[Remedy] = []
    for remedy in found:
        # Two that ask for different values may have been measured as one.
        if (settled := tried.settled(remedy, cell)) is not None and settled not in left:
            left.append(settled)
    left.sort(key=lambda r: r.why is not RemedyKind.MEASURED)
    return tuple(
        told(r if r.why is RemedyKind.MEASURED else replace(r, command=rerun.proposed(r)), nouns_of(cell))
        for r in left[:MOST]
    )


def _usable(cell: Cell, environment: Mapping[str, Any], end: str) -> int | None:
    """How many CPUs that end's process may use, as it said when the run began."""
    described, place = environment.get(end), str(cell.parameters.get("place"))
    if end == "server":
        described = get(environment, "servers", place) or described
        told_by = servers.several(environment).get(place, {}).values()
        each = [get(one, "cores", "usable") for one in told_by if one]
        if len(set(each)) > 1:
            # Which of them was watched is not recorded.
            return None
    found = get(described, "cores", "usable")
    return found if isinstance(found, int) and found > 0 else None


def _others(seen: CellEvidence) -> float | None:
    """Share of the client's host that neither the ends nor Venturi's helpers used."""
    client, server = seen.client, seen.server
    if client.cpu is None or not client.cores or "client.host.busy_share" not in seen.facts:
        return None
    own = client.cpu + sum(helper.cpu or 0.0 for helper in seen.helpers.values())
    if seen.same_machine is not False and not embedded(seen):
        if server.cpu is None:
            return None
        own += server.cpu
    total = seen.facts.get("client.host.cores") or client.cores
    return max(0.0, seen.facts["client.host.busy_share"] - own / total)


def _confidence(seen: CellEvidence, hit: Diagnosis, agreeing: int) -> tuple[Confidence, list[str]]:
    """How far the verdict can be trusted, and what takes from that, in words."""
    points = 2 - (hit.margin < CLOSE) - (hit.margin <= 0.0) - bool(hit.lacks) - (seen.trials == 1)
    share = agreeing / seen.trials if seen.trials > 1 else 1.0
    points -= 2 if share < DISAGREE else share < AGREE
    unwatched = seen.servers > 1 and hit.kind in ("cores", "disk") and hit.end != "client"
    steal = max(seen.client.steal or 0.0, seen.server.steal or 0.0)
    others = _others(seen)
    if others is not None and (others <= OTHER_LOAD or hit.cause is Cause.CORES_OF_OTHERS):
        others = None
    points -= unwatched + (steal > STOLEN) + (others is not None)
    levels: tuple[Confidence, ...] = ("low", "medium", "high")
    return levels[max(0, min(2, points))], ground.doubts(
        hit,
        seen.trials,
        agreeing if share < AGREE else None,
        seen.servers if unwatched else 1,
        steal if steal > STOLEN else None,
        others,
    )


def _unknown(seen: CellEvidence, in_words: Callable[[Sequence[Remedy]], tuple[Remedy, ...]]) -> Verdict:
    """What is missing for a verdict, and what would settle it."""
    found = unknown(seen)

    def tell() -> VerdictText:
        lines = [line for hit in found for line in hits.lines(seen, hit)]
        own = own_stages(seen)
        if own and sum(own.values()) > 0.3:
            lines.append(f"the client's own work takes {percent(sum(own.values()))} of its time")
        return VerdictText(
            lines=tuple(lines),
            evidence=tuple(ground.ground(seen, None, None)),
            confidence="low",
            remedies=in_words([r for hit in found for r in remedies(seen, hit)]),
        )

    return Verdict(
        kind="unknown",
        cause=found[0].cause,
        end=None,
        stage=None,
        title=hits.title(seen, found[0]),
        tell=tell,
        flagged=False,
        numbers={name: value for hit in found for name, value in hit.numbers.items()},
    )
