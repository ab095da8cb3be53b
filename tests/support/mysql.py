"""Trials of `mysql://` by spec: 20,000 rows on two streams, unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from support import core


def spec(url: str, table: str, **more: Any) -> dict[str, Any]:
    options = {"table": table, **more.pop("options", {})}
    usual = {"rows": 10_000, "rows_per_batch": 500, "streams": 2, "working_set": 20_000}
    return core.spec(url, options=options, **{**usual, **more})


def run(url: str, table: str, **more: Any) -> dict[str, Any]:
    return core.run(spec(url, table, **more))


def refusal(url: str, table: str, **more: Any) -> str:
    """The line of a trial that must fail."""
    return core.refused(url, options={"table": table, **more.pop("options", {})}, **more)[1]
