"""What must fit together in a cell that sends points of time series."""

from __future__ import annotations

from typing import Any

from venturi.plan.scenario import Wrong
from venturi.plan.settings import Target
from venturi.plan.workload import INGEST, FileData, Workload
from venturi.targets.system import TIME_SERIES, is_ours

METRICS = 10
"""Metrics of a host of `metrics`, all in one row."""


def is_points(data: object) -> bool:
    """Whether these data are points already: made ones, or archives of them."""
    return data == "metrics" or is_archive(data)


def is_archive(data: object) -> bool:
    """Whether these points come as archives, made before or for the run."""
    return data == "archive" or (isinstance(data, FileData) and data.source == "archive")


def is_made(workload: Workload) -> bool:
    """Whether Venturi makes the points, from a seed."""
    return workload.operation == "ingest" and _made(workload)


def _made(workload: Workload) -> bool:
    return workload.data in ("metrics", "archive")


def check_ingest(workload: Workload, target: Target, wrong: Wrong) -> None:
    """Whether such points can go there. Raises ScenarioError."""
    if target.dialect is not None and target.dialect not in TIME_SERIES:
        raise wrong(f"dialect: an ingest has no dialect {target.dialect}; it has {', '.join(TIME_SERIES)}")
    if is_archive(workload.data):
        for key in ("messages", "digits"):
            if getattr(target, key) is not None:
                raise wrong(f"{key}: archives hold their messages as they were made")
    _columns(workload, wrong)
    _amount(workload, wrong)
    _options(target, wrong)


def _columns(workload: Workload, wrong: Wrong) -> None:
    file = isinstance(workload.data, FileData) and workload.data.source == "file"
    given = [key for key in ("time", "tags", "metric") if getattr(workload, key) is not None]
    given += ["values"] if isinstance(workload.values, list) else []
    if given and not file:
        raise wrong(f"{given[0]}: is for the columns of a file, and this has none")
    for key in ("hosts", "tick", "start"):
        if getattr(workload, key) is not None and not _made(workload):
            raise wrong(f"{key}: is for metrics; these data have their own")


def _amount(workload: Workload, wrong: Wrong) -> None:
    if _made(workload):
        hosts = workload.hosts or INGEST["hosts"]
        if workload.streams > hosts:
            raise wrong(
                f"streams: {workload.streams} streams share {hosts} hosts, and a series belongs to one "
                "stream",
                f"take more hosts: --hosts {workload.streams}",
            )
    if workload.data == "archive" and workload.duration is not None:
        raise wrong(
            "duration: archives are made for the run, and must know how long to be",
            "give points_per_stream or bytes_per_stream instead of a duration",
        )
    if workload.generate == "ahead" and workload.duration is not None:
        raise wrong(
            "generate: nobody knows ahead how many points a duration takes",
            "give points_per_stream instead of a duration, or generate inline",
        )


def _options(target: Target, wrong: Wrong) -> None:
    if target.http_port is not None and is_ours(target.url):
        raise wrong(f"http_port: {target.url} is on free ports")
    if target.http_port is not None and target.url.startswith("influx+http://"):
        raise wrong(f"http_port: the port of {target.url} is the one in the URL")


def values(workload: Workload) -> str | None:
    """The columns of a file that hold values, as one parameter; None where they are not named."""
    return ",".join(workload.values) if isinstance(workload.values, list) else None


def ingest_parameters(workload: Workload) -> dict[str, Any]:
    """The parameters that only ingests have; null elsewhere and where they mean nothing."""
    made = workload.operation == "ingest" and _made(workload)
    file = workload.operation == "ingest" and isinstance(workload.data, FileData)
    return {
        "hosts": (workload.hosts or INGEST["hosts"]) if made else None,
        "tick_ns": (workload.tick or INGEST["tick"]) if made else None,
        "start_unix_ns": workload.start if made else None,
        "time": workload.time if file else None,
        "tags": workload.tags if file else None,
        "metric": workload.metric if file else None,
    }
