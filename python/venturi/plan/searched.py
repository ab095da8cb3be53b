"""What a search tries at a URL where nothing else is said."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from venturi.plan.layers import Layer
from venturi.plan.rules.options import READING
from venturi.plan.rules.services import names_something
from venturi.targets.system import is_charrow, is_database

__all__ = ["DEFAULT_DURATION", "searched"]

DEFAULT_DURATION = "1s"
"""Of a trial where no amount is given: a search wants many short trials."""
_MESSAGES = [1024, 4096, 16384, 65536, 262144]
_UPSERTS = [1, 10, 100, 1000, 10_000]
"""Rows a batch that are searched where none are named."""


def _of_a_table(tree: Mapping[str, Any]) -> bool:
    """Whether the server's own table is read, whose batches are as it sends them."""

    return (
        names_something(str(tree.get("target", {}).get("url", "")))
        and tree.get("workload", {}).get("operation", "get") == "get"
    )


def _is_get(tree: Mapping[str, Any]) -> bool:
    """Whether a database that takes both is read."""
    asked = {**tree.get("target", {}), **tree.get("matrix", {})}
    return tree.get("workload", {}).get("operation") == "get" or bool(READING & set(asked))


def searched(tree: Mapping[str, Any], codecs: Sequence[str] = ()) -> Layer:
    """What is searched at a URL where nothing is said: streams up to twice the cores, or the next power of
    two, batch sizes, and these codecs beside none."""

    upserts = is_database(str(tree.get("target", {}).get("url", ""))) and not _is_get(tree)
    base: dict[str, Any] = {"name": "tune", "workload": {}, "matrix": {}}
    asked = {**tree.get("workload", {}), **tree.get("matrix", {})}
    if not {"rows_per_stream", "bytes_per_stream", "duration"} & set(asked):
        base["workload"]["duration"] = DEFAULT_DURATION
    if not tree.get("matrix"):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        most = 1 << max(2, (2 * cores - 1).bit_length())
        if "streams" not in asked:
            base["matrix"]["streams"] = [1 << k for k in range(most.bit_length())]
        if is_charrow(str(tree.get("target", {}).get("url", ""))):
            base["matrix"] |= {"encoders": [1 << k for k in range(most.bit_length())], "decoders": [1, 2]}
        elif "rows_per_batch" not in asked and not _of_a_table(tree):
            base["matrix"]["rows_per_batch"] = _UPSERTS if upserts else _MESSAGES
        if codecs:
            base["matrix"]["compression"] = ["none", *codecs]
    return Layer("the defaults of tune", base)
