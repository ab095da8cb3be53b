"""Proof that CPUs are the narrow place: those of a host, those that an end may use, those of its group."""

from __future__ import annotations

from typing import NamedTuple

from venturi.analysis.verdict.causes import Cause, MissingEvidence
from venturi.analysis.verdict.evidence import CellEvidence, End
from venturi.analysis.verdict.proof.hit import Diagnosis, beyond, known

CORES = 0.95
"""Busy share of the usable cores from which they count as saturated. The last twentieth is never reached:
between two threads a core idles for the microseconds of a wake-up."""
ELSEWHERE = 0.5
"""Where more than this share of the busy cores is neither end's own, others hold them."""
BESIDE = 0.1
"""From this share on others count where the two ends alone would have left cores free."""
DELAYED = 0.5
"""Share of its workers' time in which an end waits for a CPU. Below, what they do for longer is something
else, whoever fills the cores."""
WAITED = 0.1
"""The same of both ends together, from which others are a reason at all."""
COMPUTES = 0.75
"""CPU time over the time that it could use, from which an engine or a server computes rather than waits."""
IDLE = 0.5
"""The same of a server's process, which ran or could have: that batches were with it, on no more cores than
there are. Below, they mostly waited for something that is no CPU, or were on their way."""
ONE_CORE = (0.85, 1.5)
"""Cores of CPU time of a server that does one thing at a time: its other threads receive and send."""
QUOTA_HELD = 0.05
"""Share of the interval that a control group held an end back. Less is a burst that touched it."""
QUOTA_USED = 0.8
"""A group's CPU time in terms of its quota: periods that ended early and the first ones are not full."""
QUOTA_ALONE = 0.5
"""Held back this long, an end is at its quota whatever its CPU time says: others may share the group."""


class Work(NamedTuple):
    """What a core does: a stage of one end; all of an end where its stages are not known; a helper of
    Venturi's, whose role is its end."""

    stage: str | None
    end: str | None


OTHERS = Work(None, None)
"""Neither an end's nor a helper's."""


def full(end: End) -> bool:
    return end.busy is not None and end.busy >= CORES


def shared(seen: CellEvidence) -> bool:
    """Whether both ends share the same CPUs; by the address where nobody compared the hosts."""
    return seen.same_machine is True or (seen.same_machine is None and seen.loopback is True)


def mix(seen: CellEvidence, ends: tuple[End, ...]) -> dict[Work, float]:
    """What the busy cores of these ends do: each stage's share of them; `OTHERS` where they show. Helpers
    are on the client's host.

    An end's CPU time is given to its stages in proportion to the time that its workers spent in them: the
    clocks tell wall time, and where cores are short each stage waits for one in proportion to its need.
    """
    found: dict[Work, float] = {}
    ends += _helpers(seen, ends)
    for end in ends:
        work = sum(end.work.values())
        weight = end.cpu if end.cpu is not None else work * (end.workers or 1.0)
        found |= {Work(stage, end.name): weight * share / work for stage, share in end.work.items()}
        if not end.work and end.cpu:
            found[Work(None, end.name)] = end.cpu
    cpu = sum(e.cpu or 0.0 for e in ends)
    host = next((e for e in ends if e.busy is not None and e.cores), None)
    if host is not None and all(e.cpu is not None for e in ends):
        # Without what was stolen: nobody here used that.
        used = (host.busy or 0.0) * (host.cores or 0.0) * (1.0 - (host.steal or 0.0))
        if used - cpu > 0.05 * used:
            found[OTHERS] = used - cpu
    whole = sum(found.values())
    return {n: s / whole for n, s in sorted(found.items(), key=lambda i: -i[1])} if whole else {}


def _helpers(seen: CellEvidence, ends: tuple[End, ...]) -> tuple[End, ...]:
    """Venturi's helpers on the hosts of these ends."""
    return tuple(seen.helpers.values()) if seen.client in ends else ()


def wanted(end: End) -> float:
    """Cores that an end's process used or was ready to use: waiting for a CPU is no idling."""
    return (end.cpu or 0.0) / max(0.05, 1.0 - (end.run_delay or 0.0))


def usable(seen: CellEvidence, lanes: float) -> float:
    """Cores that a server can use at most, which has so many batches at a time."""
    cores = seen.server.cores or (seen.client.cores if shared(seen) else None)
    return min(lanes, cores or lanes)


def computes(seen: CellEvidence, lanes: float) -> float | None:
    """Share of the time on these cores that a server's process runs or could; None where nobody saw it."""
    return None if seen.server.cpu is None else wanted(seen.server) / usable(seen, lanes)


def crowded(seen: CellEvidence) -> bool:
    """Whether the cores are full, but mostly of what is not the run's; or would not be full without that."""
    ends = busy_ends(seen)
    elsewhere = mix(seen, ends).get(OTHERS, 0.0) if ends else 0.0
    if elsewhere <= BESIDE or elsewhere > ELSEWHERE:
        return elsewhere > ELSEWHERE
    if any(e.cpu is None or e.run_delay is None for e in ends):
        return False
    return sum(map(wanted, ends + _helpers(seen, ends))) < CORES * (ends[0].cores or 0.0)


def held_up(seen: CellEvidence, end: End) -> bool:
    """Whether others fill the cores, and this end's workers, or the thread that all depends on, wait for one
    most of their time."""
    if not crowded(seen):
        return False
    waited = _waited(seen, end)
    return waited is None or max(waited, end.thread_delay or 0.0) > DELAYED


def _waited(seen: CellEvidence, end: End) -> float | None:
    """Share of its workers' time in which an end waits for a CPU; None where it is not known."""
    if end.cpu is None or end.run_delay is None:
        return None
    return (wanted(end) - end.cpu) / (end.workers or seen.streams)


def filled(seen: CellEvidence) -> tuple[End, ...]:
    """The ends whose cores are full."""
    return tuple(e for e in (seen.client, seen.server) if full(e))


def pinned(seen: CellEvidence) -> bool:
    """A pinned client that fills its own cores says nothing of the server's."""
    return filled(seen) == (seen.client,) and bool(seen.cell.records and seen.cell.records[0].get("pin"))


def embedded(seen: CellEvidence) -> bool:
    """Whether the engine runs in the client's process, so that there is no other end."""
    return seen.cell.in_rows and "apply" in seen.client.stages and not seen.server.stages


def busy_ends(seen: CellEvidence) -> tuple[End, ...]:
    """The ends that use the cores which are full."""
    found = filled(seen)
    if found and embedded(seen):
        return (seen.client,)
    return (seen.client, seen.server) if found and shared(seen) and not pinned(seen) else found


def cores(seen: CellEvidence) -> Diagnosis | None:
    """The CPUs of a side are saturated by the two ends, or the quota of its control group is used up."""
    held = _quota(seen)
    if held is not None or crowded(seen):
        return held
    return _saturated(seen, Cause.CORES_FULL) if filled(seen) else _one_core(seen)


def others(seen: CellEvidence) -> Diagnosis | None:
    """The CPUs are saturated by something else; late, because it proves nothing of what else is narrow."""
    if not crowded(seen):
        return None
    waited = [_waited(seen, end) for end in busy_ends(seen)]
    if None not in waited and sum(filter(None, waited)) < WAITED:
        # Who never had to wait for them lost nothing.
        return None
    return _saturated(seen, Cause.CORES_OF_OTHERS)


def _saturated(seen: CellEvidence, cause: Cause) -> Diagnosis:
    ends, found = busy_ends(seen), filled(seen)
    busy, steal = max(e.busy or 0.0 for e in found), max(e.steal or 0.0 for e in found)
    work = mix(seen, ends)
    stages = [part.stage for part in work if part.stage is not None]
    elsewhere = cause is Cause.CORES_OF_OTHERS
    return Diagnosis(
        cause,
        None if len(ends) > 1 else ends[0].name,
        stages[0] if stages and not elsewhere else None,
        0.0 if elsewhere else beyond(busy, CORES - 0.01),
        known(busy=busy, cores=found[0].cores, stolen=steal, others=work.get(OTHERS)),
        () if stages else (MissingEvidence.BOTH_STAGES,),
    )


def _quota(seen: CellEvidence) -> Diagnosis | None:
    """Of two ends at their quotas the one that was held back for longer waits less for the other."""
    found = [hit for end in (seen.server, seen.client) if (hit := quota_of(end)) is not None]
    return max(found, key=lambda hit: hit.numbers["held_back_cpus"], default=None)


def quota_of(end: End) -> Diagnosis | None:
    """That end has used up the quota of its control group."""
    held, quota = end.throttled or 0.0, end.quota
    if not quota or held < QUOTA_HELD:
        return None
    used = (end.cpu or 0.0) / quota
    if used < QUOTA_USED and held < QUOTA_ALONE:
        return None
    # Of less than one core not even one worker gets a whole one: the group makes every stage slow.
    cause = Cause.CPU_QUOTA if quota >= 1.0 else Cause.CPU_QUOTA_UNDER_ONE_CORE
    numbers = {"quota_cores": quota, "used": used, "held_back_cpus": held}
    return Diagnosis(cause, end.name, end.first, beyond(held, QUOTA_HELD, 0.5), numbers)


def _one_core(seen: CellEvidence) -> Diagnosis | None:
    """Both ends were scheduled onto one core while another is free."""
    client, server = seen.client, seen.server
    if not seen.same_machine or client.busiest is None or client.busiest < CORES:
        return None
    delay = max(e.run_delay or 0.0 for e in (client, server))
    used = (client.cpu or 0.0) + (server.cpu or 0.0)
    if delay < 0.1 or not 0.5 < used < 1.1 or min(client.cpu or 0.0, server.cpu or 0.0) < 0.2:
        return None
    numbers = {"busy": client.busiest, "run_delay": delay}
    return Diagnosis(Cause.ONE_CORE_FOR_BOTH, None, client.first, 0.1, numbers)
