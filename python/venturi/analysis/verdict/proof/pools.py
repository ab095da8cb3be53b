"""Proof that a pool of threads is the narrow place: the encoders of a server, the decoders of a client.

A pool has exactly as many threads as were asked for, whatever the number of partitions and of CPUs; so it can
be full while its end's other workers wait, and while cores are free.
"""

from __future__ import annotations

from venturi.analysis.verdict.causes import Cause, MissingEvidence
from venturi.analysis.verdict.evidence import OWN, CellEvidence, End, Pool
from venturi.analysis.verdict.proof.cores import crowded, full, held_up
from venturi.analysis.verdict.proof.ends import NEARLY, WORKERS
from venturi.analysis.verdict.proof.hit import Diagnosis, beyond

__all__ = ["busiest", "nearly", "pools", "within"]

_STAGES = {"encoders": ("generate", "encode", "verify"), "decoders": ("decode", "verify")}
"""What the threads of a pool do, of the stages that their end accounts for."""


def busiest(seen: CellEvidence) -> tuple[End, Pool] | None:
    """The pool that works most of its time, of both ends; None where there is none."""
    found = [(end, pool) for end in (seen.server, seen.client) for pool in end.pools.values()]
    return max(found, key=lambda pair: pair[1].busy, default=None)


def pools(seen: CellEvidence) -> Diagnosis | None:
    """A pool's threads work over 90 % of their time, or one of them always does what only one can."""
    return _pool(seen, WORKERS) or _turns(seen)


def nearly(seen: CellEvidence) -> Diagnosis | None:
    """As `pools`, where nothing is at its limit but a pool is not far from it."""
    return _pool(seen, NEARLY)


def _pool(seen: CellEvidence, threshold: float) -> Diagnosis | None:
    found = busiest(seen)
    if found is None or found[1].busy < threshold:
        return None
    end, pool = found
    if held_up(seen, end) or (full(end) and not crowded(seen)):
        return None
    stages = within(end, pool)
    stage = max(stages, key=lambda n: stages[n], default=None)
    full_time = threshold >= WORKERS
    cause = Cause.POOL_BUSY if full_time else Cause.POOL_BUSIEST
    if end is seen.client and stage in OWN:
        cause = Cause.POOL_OWN_WORK
    return Diagnosis(
        cause,
        end.name,
        stage,
        min(1.0, beyond(pool.busy, threshold) + 0.3) if full_time else 0.0,
        {"busy": pool.busy, "threads": pool.threads},
        ()
        if end.busy is not None
        else (MissingEvidence.CLIENT_HOST if end is seen.client else MissingEvidence.SERVER_HOST,),
        pool.name,
    )


def _turns(seen: CellEvidence) -> Diagnosis | None:
    """Encoders take rows out of the engine behind a lock (encode.rs of the charrow server): `generate` of all
    of them together is at most the interval."""
    end = seen.server
    pool = end.pools.get("encoders")
    busy = end.work.get("generate", 0.0) * (end.workers or 0.0)
    if pool is None or pool.threads < 2 or busy < WORKERS or held_up(seen, end):
        return None
    return Diagnosis(
        Cause.POOL_TAKES_TURNS,
        end.name,
        "generate",
        min(1.0, beyond(min(busy, 1.0), WORKERS) + 0.3),
        {"busy": min(busy, 1.0), "threads": pool.threads},
        () if end.busy is not None else (MissingEvidence.SERVER_HOST,),
        pool.name,
    )


def within(end: End, pool: Pool) -> dict[str, float]:
    """What a pool's threads do, of their own time; the shares of all are those of other workers too."""
    done = {n: s for n in _STAGES.get(pool.name, ()) if (s := end.work.get(n, 0.0)) > 0}
    whole = sum(done.values())
    return {n: pool.busy * s / whole for n, s in done.items()}
