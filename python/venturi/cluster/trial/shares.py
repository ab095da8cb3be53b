"""How a trial's streams are dealt to loaders, and its threads with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from venturi.common.errors import ScenarioError
from venturi.common.units import plural

__all__ = ["Share", "divide", "spec_of", "threads_of"]


@dataclass(frozen=True)
class Share:
    """Streams first .. first + count of the whole trial."""

    first: int
    count: int


def divide(streams: int, loaders: int) -> list[Share]:
    """A share for each loader, in their order, as even as can be: earlier ones have one stream more.

    Raises ScenarioError where some would have none.
    """
    if loaders < 1:
        raise ScenarioError(f"{loaders} loaders: a trial needs at least one")
    if streams < loaders:
        raise ScenarioError(
            f"{plural(streams, 'stream')} cannot be shared by {loaders} loaders: each of them needs one",
            hint=f"--streams {loaders} or more, or --loaders {streams}",
        )
    least, more = divmod(streams, loaders)
    shares, first = [], 0
    for number in range(loaders):
        count = least + (number < more)
        shares.append(Share(first, count))
        first += count
    return shares


def threads_of(spec: Mapping[str, Any], share: Share) -> int:
    """A loader's threads: of the whole trial's as many as its part of the streams, at least one."""
    streams, threads = int(spec["streams"]), int(spec["threads"])
    return max(1, min(share.count, round(threads * share.count / streams)))


def spec_of(spec: Mapping[str, Any], share: Share, lead: bool) -> dict[str, Any]:
    """The spec of one loader, from that of the whole trial."""
    own = {name: value for name, value in spec.items() if name != "loaders"}
    return own | {
        "threads": threads_of(spec, share),
        "share": {"first": share.first, "count": share.count, "lead": lead},
    }
