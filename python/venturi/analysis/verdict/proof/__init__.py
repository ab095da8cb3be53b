"""The proofs of a verdict, one function each, in the order in which METHOD has them tried.

A proof looks at what was seen of a cell and answers a `Hit`, or None where its place is not the narrow one or
nothing is known of it. Thresholds stand with their reasons beside the proofs; docs/verdicts.md explains them.
"""

from __future__ import annotations

from collections.abc import Callable

from venturi.analysis.verdict.evidence import Seen
from venturi.analysis.verdict.proof import databases, pools
from venturi.analysis.verdict.proof.cores import cores, others
from venturi.analysis.verdict.proof.ends import load_generator, nearly, schedule, server, stage
from venturi.analysis.verdict.proof.hit import Hit
from venturi.analysis.verdict.proof.path import disk, flow_control, link, memory

__all__ = ["ORDER", "Hit", "first"]

ORDER: tuple[Callable[[Seen], Hit | None], ...] = (
    schedule,
    load_generator,
    cores,
    pools.pools,
    databases.engine,
    stage,
    link,
    disk,
    memory,
    databases.under_way,
    flow_control,
    databases.server,
    server,
    others,
    pools.nearly,
    nearly,
)


def first(seen: Seen) -> Hit | None:
    """The first proof that holds."""
    return next((hit for proof in ORDER if (hit := proof(seen)) is not None), None)
