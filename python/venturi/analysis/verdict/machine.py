"""The machine as the narrow place: cores, the quota of a control group, disks, memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from venturi.analysis.cells.ceilings import COMMITS
from venturi.analysis.verdict.evidence import CellEvidence, End
from venturi.analysis.verdict.types import Diagnosis, MissingEvidence, beyond, measured
from venturi.analysis.wording import cores as all_cores
from venturi.analysis.wording import held_back, nouns_of, rate, shares
from venturi.common.units import percent, plural

Lines = Iterator[str]

CORES = 0.95
"""Busy share of the usable cores from which they count as saturated. The last twentieth is never reached:
between two threads a core idles for the microseconds of a wake-up."""
ELSEWHERE = 0.5
"""If more than this share of the busy cores is neither end's own, others hold them."""
BESIDE = 0.1
"""From this share on others count if the two ends alone would have left cores free."""
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
DISK = 0.9
DISK_OURS = 0.1
"""A busy disk is the narrow place only if it moves at least this share of the payload."""
MEMORY = 0.8
"""Share of the memory-copy limit: every payload byte is copied at least once, and the kernel's own copies of
headers and the checksum's reads come on top."""
COMMITTED = 0.5
"""Share of the disk's commits from which these are the limit, if all of its margin is above."""
HELPERS = {"relay": "link's relay"}
"""What Venturi runs beside both ends, by role."""


class Work(NamedTuple):
    """What a core does: a stage of one end; all of an end if its stages are not known; a helper of Venturi's,
    whose role is its end."""

    stage: str | None
    end: str | None


OTHERS = Work(None, None)
"""Neither an end's nor a helper's."""


def full(end: End) -> bool:
    return end.busy is not None and end.busy >= CORES


def shared(seen: CellEvidence) -> bool:
    """Whether both ends share the same CPUs; by the address if nobody compared the hosts."""
    return seen.same_machine is True or (seen.same_machine is None and seen.loopback is True)


def mix(seen: CellEvidence, ends: tuple[End, ...]) -> dict[Work, float]:
    """What the busy cores of these ends do: each stage's share of them, and `OTHERS`. Helpers are on the
    client's host.

    An end's CPU time is given to its stages in proportion to the time that its workers spent in them: the
    clocks measure wall time, and if cores are short each stage waits for one in proportion to its need.
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
    """Share of the time on these cores that a server's process runs or could; None if nobody saw it."""
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
    """Share of its workers' time in which an end waits for a CPU; None if it is not known."""
    if end.cpu is None or end.run_delay is None:
        return None
    return (wanted(end) - end.cpu) / (end.workers or seen.streams)


def filled(seen: CellEvidence) -> tuple[End, ...]:
    """The ends whose cores are full."""
    return tuple(e for e in (seen.client, seen.server) if full(e))


def pinned(seen: CellEvidence) -> bool:
    """Whether the full cores are those that the client is pinned to, which says nothing of the server's."""
    return filled(seen) == (seen.client,) and bool(seen.cell.records and seen.cell.records[0].pin)


def embedded(seen: CellEvidence) -> bool:
    """Whether the engine runs in the client's process, so that there is no other end."""
    return seen.cell.in_rows and "apply" in seen.client.stages and not seen.server.stages


def busy_ends(seen: CellEvidence) -> tuple[End, ...]:
    """The ends that use the cores which are full."""
    found = filled(seen)
    if found and embedded(seen):
        return (seen.client,)
    return (seen.client, seen.server) if found and shared(seen) and not pinned(seen) else found


def quota(seen: CellEvidence) -> Diagnosis | None:
    """A control group's quota is used up. Of two the end that was held back for longer: it waits less for the
    other."""
    found = [place for end in (seen.server, seen.client) if (place := quota_of(end)) is not None]
    return max(found, key=lambda place: place.numbers["held_back_cpus"], default=None)


def quota_of(end: End) -> Diagnosis | None:
    """That end has used up the quota of its control group."""
    held, allowed = end.throttled or 0.0, end.quota
    if not allowed or held < QUOTA_HELD:
        return None
    used = (end.cpu or 0.0) / allowed
    if used < QUOTA_USED and held < QUOTA_ALONE:
        return None
    numbers = {"quota_cores": allowed, "used": used, "held_back_cpus": held}
    return Diagnosis("cpu-quota", end.name, end.first, beyond(held, QUOTA_HELD, 0.5), numbers)


def cores(seen: CellEvidence) -> Diagnosis | None:
    """The CPUs of a side are saturated by the two ends."""
    if crowded(seen):
        return None
    return _saturated(seen, "cores-full") if filled(seen) else _one_core(seen)


def foreign_load(seen: CellEvidence) -> Diagnosis | None:
    """The CPUs are saturated by something else; late, because it proves nothing of what else is narrow."""
    if not crowded(seen):
        return None
    waited = [_waited(seen, end) for end in busy_ends(seen)]
    if None not in waited and sum(filter(None, waited)) < WAITED:
        # An end that never had to wait for them lost nothing.
        return None
    return _saturated(seen, "cores-of-others")


def _saturated(seen: CellEvidence, cause: str) -> Diagnosis:
    ends, fullest = busy_ends(seen), filled(seen)
    busy, steal = max(e.busy or 0.0 for e in fullest), max(e.steal or 0.0 for e in fullest)
    work = mix(seen, ends)
    stages = [part.stage for part in work if part.stage is not None]
    elsewhere = cause == "cores-of-others"
    return Diagnosis(
        cause,
        None if len(ends) > 1 else ends[0].name,
        stages[0] if stages and not elsewhere else None,
        0.0 if elsewhere else beyond(busy, CORES - 0.01),
        measured(busy=busy, cores=fullest[0].cores, stolen=steal, others=work.get(OTHERS)),
        () if stages else (MissingEvidence.BOTH_STAGES,),
    )


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
    return Diagnosis("cores-full", None, client.first, 0.1, numbers)


# ---- disks and memory


def disk(seen: CellEvidence) -> Diagnosis | None:
    """A disk is busy all the time, and with this data; or the result is what it writes in order."""
    for end in (seen.server, seen.client):
        busy, moved = end.disk_busy or 0.0, end.disk_rate or 0.0
        if busy >= DISK and moved >= DISK_OURS * (seen.rate or 0.0):
            numbers = measured(busy=busy, disk_bytes_per_second=moved, tasks_waited=end.psi_io or None)
            return Diagnosis("disk-busy", writer(seen, end), None, beyond(busy, DISK - 0.01), numbers)
    share = seen.of("disk")
    if share is None or share < DISK:
        return None
    return Diagnosis("disk-busy", "server", None, beyond(share, DISK - 0.01), {"disk_share": share})


def writer(seen: CellEvidence, end: End) -> str:
    """Whose disk it is: on one machine both ends see the same, and a database's own process writes to it."""
    own = not seen.cell.in_rows or embedded(seen)
    return end.name if own or not shared(seen) else seen.server.name


def busiest_disk(seen: CellEvidence) -> float:
    """Busy share of the busiest disk that either end sees; 0 if none was looked at."""
    return max((e.disk_busy or 0.0 for e in (seen.client, seen.server)), default=0.0)


def commits(seen: CellEvidence) -> Diagnosis | None:
    """Batches wait for their commits: surely more than half of what the disk does of them one after another.
    A commit may take a database more than one, and the rest of a batch's time is other work."""
    share, limit = seen.cell.shares.get(COMMITS), seen.cell.ceilings.get(COMMITS)
    if share is None or limit is None or COMMITS in seen.cell.passed or (share.low or 0.0) < COMMITTED:
        return None
    batches, part = seen.cell.batches.value, share.value or 0.0
    each = seen.streams * float(seen.cell.parameters.get("in_flight") or 1)
    most = batches / part / each if batches and part else None
    end = writer(seen, seen.client if embedded(seen) else seen.server)
    numbers = measured(commit_share=part, commits_per_second=most)
    return Diagnosis("disk-commits", end, None, beyond(share.low or 0.0, COMMITTED), numbers)


def memory(seen: CellEvidence) -> Diagnosis | None:
    """Payload moves nearly as fast as memory can be copied."""
    share = seen.of("memory copy")
    if share is None or "memory copy" not in seen.cell.ceilings or share < MEMORY:
        return None
    numbers = measured(memory_copy_share=share, payload_bytes_per_second=seen.rate)
    return Diagnosis("memory-bandwidth", None, None, beyond(share, MEMORY), numbers)


# ---- in words


def cores_title(seen: CellEvidence, place: Diagnosis) -> str:
    return f"{_which(seen)[0]}{_whose(seen)}" if filled(seen) else "one core for both ends"


def foreign_load_title(seen: CellEvidence, place: Diagnosis) -> str:
    return f"cores{_whose(seen)}: others"


def _which(seen: CellEvidence) -> tuple[str, str]:
    """The cores that are full, and their verb."""
    number = filled(seen)[0].cores
    if not pinned(seen):
        return all_cores(number)
    which = "the core" if (number or 1) == 1 else f"the {plural(number or 1, 'core')}"
    return f"{which} that the client is pinned to", "is" if (number or 1) == 1 else "are"


def _whose(seen: CellEvidence) -> str:
    ends, fullest = busy_ends(seen), filled(seen)
    if pinned(seen) or embedded(seen) or ends != fullest or (len(ends) > 1 and shared(seen)):
        return ""
    return " of the " + " and of the ".join(e.name for e in fullest)


def mix_words(seen: CellEvidence, ends: tuple[End, ...]) -> str:
    """`: send 41 %, receive 35 %`; a stage that both ends have, with its end; empty if nothing is known."""
    found = mix(seen, ends)
    own = {"server": nouns_of(seen.cell).server, **HELPERS}
    stages = [part.stage for part in found]
    named = {
        "other processes"
        if part == OTHERS
        else f"the {own.get(str(part.end), part.end)}"
        if part.stage is None
        else f"{part.stage} ({part.end})"
        if stages.count(part.stage) > 1
        else part.stage: share
        for part, share in found.items()
    }
    return f": {shares(named)}" if named else ""


def cores_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    busy = percent(place.numbers["busy"])
    if not filled(seen):
        both = mix_words(seen, (seen.client, seen.server))
        yield f"both ends share one core, busy {busy}, while other cores are free{both}"
        return
    which, verb = _which(seen)
    text = f"{which}{_whose(seen)} {verb} busy {busy}"
    steal = place.numbers.get("stolen", 0.0)
    if steal > 0.01:
        text += f" of the time that was not stolen ({percent(steal)} was)"
    yield text + mix_words(seen, busy_ends(seen))
    if place.numbers.get("others", 0.0) > ELSEWHERE:
        yield "most of that is other processes: stop them and measure again"


def quota_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    end = seen.client if place.end == "client" else seen.server
    allowed = place.numbers["quota_cores"]
    cores = f"{allowed:g} of a core" if allowed < 1 else plural(allowed, "core")
    yield (
        f"the {end.name}'s control group allows {cores}, and that is used up: "
        f"{held_back(place.numbers['held_back_cpus'])}"
    )
    if end.work:
        yield f"the {end.name}'s work: {shares(end.work)}"


def disk_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    numbers = place.numbers
    if "disk_share" in numbers:
        yield f"{percent(numbers['disk_share'])} of what the disk writes in order"
        return
    moved = rate(numbers["disk_bytes_per_second"])
    yield f"a disk of the {place.end} is busy {percent(numbers['busy'])} at {moved}"
    if pressed := numbers.get("tasks_waited"):
        yield f"tasks waited for it {percent(pressed)} of the time"


def commits_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    share, most = percent(place.numbers["commit_share"]), place.numbers.get("commits_per_second")
    possible = f"the {most:,.0f} commits a second" if most else "the commits"
    yield f"a batch waits for its commit: a connection does {share} of {possible} that the disk can do"


def memory_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    limit, share = seen.cell.ceilings["memory copy"], percent(place.numbers["memory_copy_share"])
    copied = f"what all cores copy in memory ({rate(limit.value or 0.0)})"
    yield f"{rate(seen.rate or 0.0)} is {share} of {copied}; no stage and no core is at its limit"
