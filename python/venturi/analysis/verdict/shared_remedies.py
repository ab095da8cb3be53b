"""What to try whatever is moved: cores, quotas, disks."""

from __future__ import annotations

from venturi.analysis.verdict.causes import Cause, RemedyKind
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof import Diagnosis
from venturi.analysis.verdict.types import Remedy

ONLY_OVER_LINKS = ("link", "cross")
"""Parameters that mean nothing to a server on another host, which has a path of its own."""


def stop_others() -> Remedy:
    """For cores that others hold."""
    return Remedy(RemedyKind.STOP_OTHERS, again=True)


def without_pin(seen: CellEvidence) -> list[Remedy]:
    """For a client that keeps to some of the cores."""
    pinned = seen.cell.records and seen.cell.records[0].get("pin")
    return [Remedy(RemedyKind.WITHOUT_PIN, {"pin": None})] if pinned else []


def larger_quota(hit: Diagnosis) -> list[Remedy]:
    """For a control group's quota that is used up."""
    if hit.cause is not Cause.CPU_QUOTA:
        return []
    return [quota(RemedyKind.LARGER_QUOTA, hit)]


def quota(why: RemedyKind, hit: Diagnosis) -> Remedy:
    """A larger quota for the control group of the hit's end."""
    told = {"end": hit.end, "quota": hit.numbers["quota_cores"]}
    return Remedy(why, settings={f"{hit.end}.cpu_quota": "more"}, numbers=told)


def more_cores(hit: Diagnosis) -> list[Remedy]:
    """For one end whose cores are full."""
    if hit.end is None:
        return []
    return [Remedy(RemedyKind.MORE_CORES, settings={f"{hit.end}.cores": "more"}, numbers={"end": hit.end})]


def faster_disk(hit: Diagnosis) -> Remedy:
    """For a disk that is full."""
    return Remedy(RemedyKind.FASTER_DISK, settings={f"{hit.end}.disk": "faster"}, numbers={"end": hit.end})


def more_connections(seen: CellEvidence, why: RemedyKind, streams: int) -> Remedy:
    """So many streams, each with a thread of its own."""
    threads = seen.cell.parameters.get("threads")
    own = {"threads": "streams"} if threads not in (None, seen.cell.parameters.get("streams")) else {}
    return Remedy(why, {"streams": streams, **own})
