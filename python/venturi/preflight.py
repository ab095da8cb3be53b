"""What this machine must have before a run begins: variables, files, CPUs, room for messages.

Each of these would fail every trial of a cell in the same way, so it is said once, before
anything is started or written, and names the flag or the line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.environment import memory
from venturi.errors import ScenarioError
from venturi.suffixes import format_bytes

if TYPE_CHECKING:
    from venturi.scenario import Scenario
    from venturi.trial import Cell

__all__ = ["check"]

_FILES = ("tls_ca", "tls_certificate", "tls_key")
_MOST_THREADS = 4096
# What the engine makes at most for one batch.
_MOST_BATCH_BYTES = 2**32


def check(scenario: Scenario, cells: Sequence[Cell]) -> None:
    """Raises ScenarioError for the first thing that is missing here."""
    _variables(scenario)
    _tls(scenario, cells)
    _cpus(scenario)
    for cell in cells:
        _threads(scenario, cell)
        _messages(scenario, cell)


def _where(scenario: Scenario, table: str, key: str) -> str:
    return scenario.where("matrix" if key in scenario.axes else table, key)


def _values(scenario: Scenario, table: str, key: str) -> list[Any]:
    """All values that a key has in this scenario, without null."""
    found = scenario.axes.get(key, [getattr(getattr(scenario, table), key)])
    return [value for value in found if value is not None]


def _variables(scenario: Scenario) -> None:
    wanted = [
        (key, name) for key in ("token_env", "password_env") for name in _values(scenario, "target", key)
    ]
    wanted += [("header_env", name) for name in scenario.target.header_env.values()]
    for key, name in wanted:
        if not os.environ.get(name):
            raise ScenarioError(
                f"{_where(scenario, 'target', key)}: the environment variable {name} is not set",
                hint=f"set it in this shell: export {name}=…",
            )


def _tls(scenario: Scenario, cells: Sequence[Cell]) -> None:
    for key in _FILES:
        for path in _values(scenario, "target", key):
            if not Path(path).is_file():
                raise ScenarioError(f"{_where(scenario, 'target', key)}: {path}: no such file")
    for key, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        if _values(scenario, "target", key) and not _values(scenario, "target", other):
            raise ScenarioError(f"{_where(scenario, 'target', key)}: goes with {other}; give both")
    given = [key for key in (*_FILES, "tls_server_name") if _values(scenario, "target", key)]
    if given and not any(str(cell.parameters["target"]).startswith("flight+tls:") for cell in cells):
        # Without this the data would travel in the clear, and nothing would say so.
        raise ScenarioError(
            f"{_where(scenario, 'target', given[0])}: no address of this scenario uses TLS",
            hint="write the address as flight+tls://HOST:PORT",
        )


def _cpus(scenario: Scenario) -> None:
    if not hasattr(os, "sched_getaffinity"):
        return
    usable = sorted(os.sched_getaffinity(0))
    for cpus in _values(scenario, "workload", "pin"):
        missing = [cpu for cpu in cpus if cpu not in usable]
        if missing:
            raise ScenarioError(
                f"{_where(scenario, 'workload', 'pin')}: CPU {missing[0]} is not there; "
                f"this process may use {_spans(usable)}"
            )


def _spans(numbers: Sequence[int]) -> str:
    """0-3,6 for 0, 1, 2, 3, 6."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _threads(scenario: Scenario, cell: Cell) -> None:
    threads = cell.parameters["threads"]
    if threads > _MOST_THREADS:
        raise ScenarioError(
            f"{_where(scenario, 'workload', 'streams')}: {threads} streams would have as many threads; "
            f"the most are {_MOST_THREADS}",
            hint=f"let streams share threads: --threads {os.cpu_count() or 1}",
        )


def _messages(scenario: Scenario, cell: Cell) -> None:
    p = cell.parameters
    if p["row_bytes"] is None:
        return
    rows = min(p["rows_per_batch"], p["rows_per_stream"] or p["rows_per_batch"])
    size = int(rows * p["row_bytes"])
    head = f"{_where(scenario, 'workload', 'rows_per_batch')}: {p['rows_per_batch']:,} rows are a message of"
    if size > _MOST_BATCH_BYTES:
        raise ScenarioError(f"{head} {format_bytes(size)}; the most is {format_bytes(_MOST_BATCH_BYTES)}")
    limit = dict(cell.options).get("max_message_size", scenario.target.max_message_size)
    if p["operation"] == "get" and size > limit:
        raise ScenarioError(
            f"{head} {format_bytes(size)}, over the limit of {format_bytes(limit)}",
            hint="take fewer rows a batch, or raise --max-message-size",
        )
    total = memory()["total"]
    if total is not None and size * p["streams"] > total:
        raise ScenarioError(
            f"{head} {format_bytes(size)}, and {p['streams']} streams hold one each; "
            f"this machine has {format_bytes(total)} of memory",
            hint="take fewer rows a batch, or fewer streams",
        )
