"""What is asked of a machine before anything is measured: its limits, and what would spoil a measurement."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from venturi.common.errors import VenturiError
from venturi.common.texts import log
from venturi.measure import doctor as checks
from venturi.measure import limits, placement
from venturi.measure import links as laboratory
from venturi.measure.limits import Ceilings, Progress
from venturi.targets.parameters import CREDENTIALS, SETTINGS

__all__ = ["ceilings", "doctor", "links"]


def ceilings(
    url: str | None = None,
    *,
    only: str | Sequence[str] | None = None,
    streams: str | int | Sequence[int] = (1, 2, 4),
    message_bytes: str | int | None = None,
    rows_per_batch: str | int | None = None,
    columns: int | None = None,
    values: str | None = None,
    data: str | os.PathLike[str] = "records",
    compression: str | None = None,
    disk: str | os.PathLike[str] = ".",
    repeats: int = 5,
    duration: str | None = None,
    progress: Progress | None = None,
    **credentials: Any,
) -> Ceilings:
    """The limits of transfers here, each measured by itself: memory, TCP, disk, codecs, and Venturi; as
    `venturi ceilings`, whose options these are.

    Args:
        url: A `venturi serve` on another host, to measure the way there as well.
        progress: Called before each probe with its number, of how many, and what it is called.
        credentials: By which that server is trusted and logged in to, as for `run`.

    Raises `VenturiError` for an argument that is wrong. A probe that fails is a limit with an `error`.
    """
    known = {name: it.keyword for it in SETTINGS if it.credential for name in (it.key, it.keyword)}
    if unknown := sorted(credentials.keys() - known.keys()):
        raise VenturiError(f"there is no setting {unknown[0]!r} here", hint=f"known: {', '.join(known)}")
    if repeats < 1:
        raise VenturiError(f"repeats={repeats}: must be at least 1")
    given = {
        "url": url, "only": _typed(only), "streams": _typed(streams), "message_bytes": _typed(message_bytes),
        "rows_per_batch": _typed(rows_per_batch), "columns": _typed(columns), "values": values,
        "data": os.fspath(data), "compression": compression, "disk": disk, "repeats": repeats,
        "duration": duration, **dict.fromkeys(CREDENTIALS),
    }  # fmt: skip
    for name, value in credentials.items():
        given[known[name]] = [f"{k}={v}" for k, v in value.items()] if isinstance(value, Mapping) else value
    with placement.local_executor() as engine:
        return limits.measure(given, engine, log, progress)


def _typed(value: object) -> str | None:
    """As it is typed on the command line."""
    if value is None or isinstance(value, str):
        return value
    return ",".join(map(str, value)) if isinstance(value, Sequence | range) else str(value)


def doctor() -> list[checks.Finding]:
    """What on this machine would spoil a measurement, as `venturi doctor`: a finding a check, whose `state`
    is ok, warning or unknown. Takes a second."""
    return checks.doctor()


def links(*texts: str, repeats: int = 3) -> list[laboratory.Looked]:
    """Makes each of these links on this host, looks at it and sends raw TCP over it, as `venturi links`: of
    one that is not as asked `wrong` says why.

    Raises `VenturiError` where a text is no link, or where this host can make none.
    """
    if repeats < 1:
        raise VenturiError(f"repeats={repeats}: must be at least 1")
    return list(laboratory.survey(laboratory.named(texts), repeats))
