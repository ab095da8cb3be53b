"""Proof that a pool of threads is the narrow place: the encoders of a server, the decoders of a client.

A pool has exactly as many threads as were asked for, whatever the number of partitions and of CPUs; so it can
be full while its end's other workers wait, and while cores are free.
"""

from __future__ import annotations

from venturi.analysis.verdict.evidence import OWN, End, Pool, Seen
from venturi.analysis.verdict.proof.cores import crowded, full
from venturi.analysis.verdict.proof.ends import NEARLY, WORKERS, handicapped
from venturi.analysis.verdict.proof.hit import Hit, beyond
from venturi.analysis.words.wording import milliseconds, shares, waiting
from venturi.common.units import percent, plural

__all__ = ["busiest", "nearly", "pools"]

_STAGES = {"encoders": ("generate", "encode", "verify"), "decoders": ("decode", "verify")}
"""What the threads of a pool do, of the stages that their end accounts for."""


def busiest(seen: Seen) -> tuple[End, Pool] | None:
    """The pool that works most of its time, of both ends; None where there is none."""
    found = [(end, pool) for end in (seen.server, seen.client) for pool in end.pools.values()]
    return max(found, key=lambda pair: pair[1].busy, default=None)


def pools(seen: Seen) -> Hit | None:
    """A pool's threads work over 90 % of their time."""
    return _pool(seen, WORKERS)


def nearly(seen: Seen) -> Hit | None:
    """As `pools`, where nothing is at its limit but a pool is not far from it."""
    return _pool(seen, NEARLY)


def _pool(seen: Seen, threshold: float) -> Hit | None:
    found = busiest(seen)
    if found is None or found[1].busy < threshold or full(found[0]) or crowded(seen):
        return None
    end, pool = found
    one = pool.name.removesuffix("s")
    done = {n: s for n in _STAGES.get(pool.name, ()) if (s := end.work.get(n, 0.0)) > 0}
    whole = sum(done.values())
    # Of the pool's own time: its end's other workers are in the shares of all of them.
    within = {n: pool.busy * s / whole for n, s in done.items()} if whole else {}
    stage = max(within, key=lambda n: within[n], default=None)
    detail = f": {shares(within)}" if within else ""
    if stage is not None and stage in (slowed := handicapped(seen, end.name)):
        detail += f" ({milliseconds(slowed[stage])} a block were added on purpose)"
    other = seen.other(end)
    rest = f"; the {other.name} {waiting(other.waiting)}" if other.waiting else ""
    verb = ("is" if pool.threads == 1 else "are") + (" busy" if threshold >= WORKERS else " the busiest, at")
    lacks = () if end.busy is not None else (f"whether the {end.name}'s host had a core to spare",)
    text = f"the {end.name}'s {plural(pool.threads, one)} {verb} {percent(pool.busy)}{detail}{rest}"
    margin = min(1.0, beyond(pool.busy, threshold) + 0.3) if threshold >= WORKERS else 0.0
    if end is seen.client and stage in OWN:
        title = f"load generator: {pool.name}"
        return Hit("load-generator", end.name, stage, title, text, margin, lacks=lacks, flagged=True)
    return Hit("stage", end.name, stage, f"{end.name}: {pool.name}", text, margin, lacks=lacks)
