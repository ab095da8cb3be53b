"""What comes before a measurement: a machine's limits, what would spoil it, servers, archives of points."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from venturi.common.errors import VenturiError
from venturi.common.runtime import load_core
from venturi.common.texts import log
from venturi.measure import doctor as checks
from venturi.measure import limits, placement, trial_targets
from venturi.measure import links as laboratory
from venturi.measure.limits import Ceilings, Progress
from venturi.servers.reference import ReferenceServer as Server
from venturi.targets.parameters import CREDENTIALS, SETTINGS

if TYPE_CHECKING:
    from venturi.api.keywords import Credentials

__all__ = ["Server", "ceilings", "doctor", "generate", "links", "serve"]


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
    **credentials: Unpack[Credentials],
) -> Ceilings:
    """The limits of transfers here, each measured by itself: memory, TCP, disk, codecs, and Venturi; as
    `venturi ceilings`, whose options these are.

    Args:
        url: A `venturi serve` on another host, to measure the way there as well.
        progress: Called before each probe with its number, of how many, and what it is called.
        credentials: By which that server is trusted and logged in to, as for `run`.

    Raises `VenturiError` for an argument that is wrong. A probe that fails is a limit with an `error`.
    """
    names = {name: it.keyword for it in SETTINGS if it.credential for name in (it.key, it.keyword)}
    if unknown := sorted(credentials.keys() - names.keys()):
        raise VenturiError(f"there is no setting {unknown[0]!r} here", hint=f"known: {', '.join(names)}")
    if repeats < 1:
        raise VenturiError(f"repeats={repeats}: must be at least 1")
    settings = {
        "url": url, "only": _typed(only), "streams": _typed(streams), "message_bytes": _typed(message_bytes),
        "rows_per_batch": _typed(rows_per_batch), "columns": _typed(columns), "values": values,
        "data": os.fspath(data), "compression": compression, "disk": disk, "repeats": repeats,
        "duration": duration, **dict.fromkeys(CREDENTIALS),
    }  # fmt: skip
    for name, value in credentials.items():
        settings[names[name]] = (
            [f"{k}={v}" for k, v in value.items()] if isinstance(value, Mapping) else value
        )
    with placement.local_executor() as engine:
        return limits.measure(settings, engine, log, progress)


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


_PORTS_OF_A_STORE = {"opentsdb": 0, "influx": 0, "http": 0}


def serve(kind: str = "flight", **flags: Any) -> Server:
    """Starts a server to measure, in a process beside this one, as `venturi serve KIND`; its `url` is a
    target. It ends with the `with` block, by `stop()`, or with this process.

    Args:
        kind: flight, charrow, http, timeseries, or a throw-away database: mariadb, postgres, ...
        flags: Those of the command, for example `table={"trips": "trips.parquet"}` or `memory="8GiB"`. By
            default it takes a free port.

    Raises `VenturiError` if it does not start.

    >>> with venturi.serve("flight") as server:
    ...     run = venturi.run(target=server.url, operation="get", streams=1, rows_per_stream="1M")
    >>> server.running
    False
    """
    words = []
    for name, value in ((_PORTS_OF_A_STORE if kind == "timeseries" else {}) | flags).items():
        several = [f"{k}={v}" for k, v in value.items()] if isinstance(value, Mapping) else value
        for one in several if isinstance(several, list | tuple) else [several]:
            if one is not None and one is not False:
                words += [f"--{name.replace('_', '-')}", *([str(one)] if one is not True else ())]
    patience = 20.0 if kind in ("flight", "charrow", "http", "timeseries") else 300.0
    return Server(*words, kind=kind, patience=patience).start()


def generate(
    path: str | os.PathLike[str],
    *,
    archives: str | int = 4,
    hosts: str | int = 100,
    steps: str | int = 1000,
    tick: str = "1s",
    start: str = "2017-01-01",
    seed: int = 1,
    digits: str | int = 17,
    level: int = 6,
    threads: str | int = "cpus",
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Makes gzip archives of points in a new directory, as `venturi generate`, for `data="archive:PATH"`, and
    answers their manifest. `progress` is called with the points made and their total.

    >>> made = venturi.generate("points", archives=2, hosts=2, steps=10)
    >>> made["points"], len(made["archives"])
    (200, 2)
    """
    settings = {"archives": archives, "hosts": hosts, "steps": steps, "tick": tick, "start": start}
    settings |= {"seed": seed, "digits": digits, "level": level, "threads": threads}
    plan = trial_targets.plan_archives(Path(path), settings)
    return trial_targets.make_archives(load_core(), plan, progress)
