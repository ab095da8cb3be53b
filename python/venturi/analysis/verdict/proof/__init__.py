"""The proofs of a verdict, one function each, in the order in which METHOD has them tried.

A proof looks at a cell's evidence and answers a `Diagnosis`, or None if its place is not the narrow one.
"""

from __future__ import annotations

from collections.abc import Callable

from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof import cores, databases, ends, links, path, plugins, pools
from venturi.analysis.verdict.proof.hit import Diagnosis

__all__ = ["ORDER", "Diagnosis", "first"]

ORDER: tuple[Callable[[CellEvidence], Diagnosis | None], ...] = (
    ends.schedule,
    links.relay,
    ends.load_generator,
    cores.cores,
    pools.pools,
    databases.engine,
    plugins.plugin,
    ends.cipher,
    ends.stage,
    links.full,
    path.link,
    path.disk,
    path.memory,
    databases.commits,
    databases.little_in_flight,
    path.flow_control,
    links.held_back,
    databases.server,
    ends.server,
    cores.others,
    pools.nearly,
    ends.nearly,
)


def first(seen: CellEvidence) -> Diagnosis | None:
    """The first proof that holds."""
    return next((hit for proof in ORDER if (hit := proof(seen)) is not None), None)
