"""Proof that CPUs are the narrow place: those of a host, those that an end may use, those of its group."""

from __future__ import annotations

from venturi.analysis.verdict.evidence import End, Evidence, Seen
from venturi.analysis.verdict.proof.hit import Hit, beyond
from venturi.analysis.words.wording import cores as all_cores
from venturi.analysis.words.wording import held_back, shares
from venturi.common.units import percent, plural

CORES = 0.95
"""Busy share of the usable cores from which they count as saturated. The last twentieth is never reached:
between two threads a core idles for the microseconds of a wake-up."""
HELD = ": others"
"""The end of the title where others than the two ends hold the cores."""
ELSEWHERE = 0.5
"""Where more than this share of the busy cores is neither end's own, others hold them."""
QUOTA_HELD = 0.05
"""Share of the interval that a control group held an end back. Less is a burst that touched it."""
QUOTA_USED = 0.8
"""A group's CPU time in terms of its quota: periods that ended early and the first ones are not full."""
QUOTA_ALONE = 0.5
"""Held back this long, an end is at its quota whatever its CPU time says: others may share the group."""


OTHERS = "other processes"


def full(end: End) -> bool:
    return end.busy is not None and end.busy >= CORES


def shared(seen: Seen) -> bool:
    """Whether both ends share the same CPUs; by the address where nobody compared the hosts."""
    return seen.same_machine is True or (seen.same_machine is None and seen.loopback is True)


def mix(seen: Seen, ends: tuple[End, ...]) -> dict[str, float]:
    """What the busy cores of these ends do: each stage's share of them; `other processes` where they show.

    An end's CPU time is given to its stages in proportion to the time that its workers spent in them: the
    clocks tell wall time, and where cores are short each stage waits for one in proportion to its need.
    """
    found: dict[str, float] = {}
    twice = set.intersection(*(set(e.work) for e in ends)) if len(ends) > 1 else set()
    for end in ends:
        work = sum(end.work.values())
        weight = end.cpu if end.cpu is not None else work * (end.workers or 1.0)
        for stage, share in end.work.items():
            name = f"{stage} ({end.name})" if stage in twice else stage
            found[name] = found.get(name, 0.0) + weight * share / work
        if not end.work and end.cpu:
            found[f"the {end.name}"] = end.cpu
    cpu = sum(e.cpu or 0.0 for e in ends)
    host = next((e for e in ends if e.busy is not None and e.cores), None)
    if host is not None and all(e.cpu is not None for e in ends):
        # Without what was stolen: nobody here used that.
        used = (host.busy or 0.0) * (host.cores or 0.0) * (1.0 - (host.steal or 0.0))
        if used - cpu > 0.05 * used:
            found[OTHERS] = used - cpu
    whole = sum(found.values())
    return {n: s / whole for n, s in sorted(found.items(), key=lambda i: -i[1])} if whole else {}


def crowded(seen: Seen) -> bool:
    """Whether the cores are full, but mostly of what neither end does."""
    filled = tuple(e for e in (seen.client, seen.server) if full(e))
    return bool(filled) and mix(seen, _ends(seen, filled)).get(OTHERS, 0.0) > ELSEWHERE


def _pinned(seen: Seen, filled: tuple[End, ...]) -> bool:
    """A pinned client that fills its own cores says nothing of the server's."""
    return filled == (seen.client,) and bool(seen.cell.records and seen.cell.records[0].get("pin"))


def embedded(seen: Seen) -> bool:
    """Whether the engine runs in the client's process, so that there is no other end."""
    return seen.cell.in_rows and "apply" in seen.client.stages and not seen.server.stages


def _ends(seen: Seen, filled: tuple[End, ...]) -> tuple[End, ...]:
    """The ends that use the cores which are full."""
    if embedded(seen):
        return (seen.client,)
    return (seen.client, seen.server) if shared(seen) and not _pinned(seen, filled) else filled


def cores(seen: Seen) -> Hit | None:
    """The CPUs of a side are saturated by the two ends, or the quota of its control group is used up."""
    held = _quota(seen)
    if held is not None or crowded(seen):
        return held
    filled = tuple(e for e in (seen.client, seen.server) if full(e))
    return _saturated(seen, filled) if filled else _one_core(seen)


def others(seen: Seen) -> Hit | None:
    """The CPUs are saturated by something else; late, because it proves nothing of what else is narrow."""
    return (
        _saturated(seen, tuple(e for e in (seen.client, seen.server) if full(e))) if crowded(seen) else None
    )


def _saturated(seen: Seen, filled: tuple[End, ...]) -> Hit:
    ends, pinned = _ends(seen, filled), _pinned(seen, filled)
    end = None if len(ends) > 1 else ends[0].name
    busy, steal = max(e.busy or 0.0 for e in filled), max(e.steal or 0.0 for e in filled)
    whose = (
        ""
        if pinned or embedded(seen) or ends != filled or (len(ends) > 1 and shared(seen))
        else (" of the " + " and of the ".join(e.name for e in filled))
    )
    which, verb = all_cores(filled[0].cores)
    if pinned:
        number = filled[0].cores or 1
        which = "the core" if number == 1 else f"the {plural(number, 'core')}"
        which, verb = f"{which} that the client is pinned to", "is" if number == 1 else "are"
    stages = mix(seen, ends)
    text = f"{which}{whose} {verb} busy {percent(busy)}"
    if steal > 0.01:
        text += f" of the time that was not stolen ({percent(steal)} was)"
    text += f": {shares(stages)}" if stages else ""
    named = [n for n in stages if n != OTHERS and not n.startswith("the ")]
    elsewhere = stages.get(OTHERS, 0.0) > ELSEWHERE
    if elsewhere:
        text += "; others hold them, so this says little of either end"
    return Hit(
        "cores",
        end,
        named[0].split(" ")[0] if named and not elsewhere else None,
        f"cores{whose}{HELD}" if elsewhere else f"{which}{whose}",
        text,
        0.0 if elsewhere else beyond(busy, CORES - 0.01),
        evidence=tuple(
            Evidence(
                f"{e.name} run delay",
                f"the {e.name}'s threads waited for a CPU {percent(e.run_delay)} of the time that they "
                "could run",
            )
            for e in ends
            if e.run_delay is not None and e.run_delay > 0.01
        ),
        lacks=() if named else ("the stages of both ends",),
    )


def _quota(seen: Seen) -> Hit | None:
    for end in (seen.server, seen.client):
        held, quota = end.throttled or 0.0, end.quota
        if not quota or held < QUOTA_HELD:
            continue
        used = (end.cpu or 0.0) / quota
        if used < QUOTA_USED and held < QUOTA_ALONE:
            continue
        evidence = (Evidence(
            f"{end.name} quota",
            f"{end.name}: its control group allows {plural(quota, 'core')}, of which it used "
            f"{percent(min(used, 1.0))}; {held_back(held)}",
        ),)  # fmt: skip
        margin = beyond(held, QUOTA_HELD, 0.5)
        stages = mix(seen, (end,))
        if quota < 1.0:
            # Not even one worker gets a whole core, so the group makes every stage slow rather than many
            # workers share what there is.
            stage = end.first
            return Hit(
                "stage", end.name, stage, f"{end.name}: {stage or 'its CPU quota'}, throttled",
                f"the {end.name} may use {quota:g} of a core (its control group's quota) and has used it up: "
                + held_back(held)
                + (f"; of its work: {shares(end.work)}" if end.work else ""),
                margin, evidence,
            )  # fmt: skip
        return Hit(
            "cores", end.name, end.first, f"{end.name}: CPU quota",
            f"the {plural(quota, 'core')} that the {end.name}'s control group allows are used up"
            + (f": {shares(stages)}" if stages else ""),
            margin, evidence,
        )  # fmt: skip
    return None


def _one_core(seen: Seen) -> Hit | None:
    """Both ends were scheduled onto one core while another is free."""
    client, server = seen.client, seen.server
    if not seen.same_machine or client.busiest is None or client.busiest < CORES:
        return None
    delays = [e.run_delay or 0.0 for e in (client, server)]
    used = (client.cpu or 0.0) + (server.cpu or 0.0)
    if max(delays) < 0.1 or not 0.5 < used < 1.1 or min(client.cpu or 0.0, server.cpu or 0.0) < 0.2:
        return None
    return Hit(
        "cores",
        None,
        client.first,
        "one core for both ends",
        f"the scheduler keeps both ends on one core, busy {percent(client.busiest)}, while the others have "
        f"time to spare: {shares(mix(seen, (client, server)))}",
        0.1,
    )
