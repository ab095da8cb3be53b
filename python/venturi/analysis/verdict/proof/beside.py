"""Two places, equally narrow: what else is at its limit where a proof holds.

A place that works nine tenths of its time, or more, is the next limit as soon as the first is opened: that
alone gains a ninth at most. Full cores are not asked: they are the limit of all that runs on them.
"""

from __future__ import annotations

from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof import cores, ends, links, path, pools
from venturi.analysis.verdict.proof.hit import Diagnosis

_PLACES = ("load-generator", "stage", "link", "disk")


def beside(seen: CellEvidence, hit: Diagnosis) -> Diagnosis | None:
    """Another place that is proved narrow too; None where there is none."""
    if hit.kind not in _PLACES and hit.cause is not Cause.CPU_QUOTA:
        return None
    if hit.cause is Cause.LINK_RELAY:
        # It is between the others, and they wait for it.
        return None
    quotas = [cores.quota_of(end) for end in (seen.server, seen.client)]
    if any(quotas):
        # What is throttled is slow in every stage.
        found = quotas
    else:
        stages = [ends.stage_of(seen, end) for end in (seen.server, seen.client)]
        found = [pools.pools(seen), *stages, links.full(seen), path.link(seen), path.disk(seen)]
    return next((one for one in found if one is not None and not _same(one, hit)), None)


def _same(one: Diagnosis, other: Diagnosis) -> bool:
    # Whoever puts data away works as long as its disk does.
    stored = {one.kind, other.kind} == {"disk", "stage"} and "apply" in (one.stage, other.stage)
    return stored or _place(one) == _place(other)


def _place(hit: Diagnosis) -> str | None:
    """The end, or what lies between."""
    return hit.kind if hit.kind in ("link", "disk") else hit.end
