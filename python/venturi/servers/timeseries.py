"""A directory of the reference store as tables: what `venturi sql DIR` asks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venturi.common.errors import StoreError

__all__ = ["Damaged", "is_store", "make_views"]

_EMPTY = {
    "points": "select null::varchar as series, null::varchar as metric, null::timestamptz as time, "
    "null::double as value where false",
    "series": "select null::varchar as series, null::varchar as metric, null::varchar as tags, "
    "null::bigint as points, null::timestamptz as first, null::timestamptz as last, null::double as min, "
    "null::double as max, null::double as sum where false",
}


def is_store(path: Path) -> bool:
    """Whether a directory is one of `venturi serve timeseries --data`."""
    return path.is_dir() and (path / "points").is_dir() and not (path / "trials.jsonl").exists()


@dataclass(frozen=True)
class Damaged:
    """A file that is not what the store wrote; no answer has anything of its segment."""

    file: str
    """With the directory as it was named."""
    why: str


def make_views(path: Path, connection: Any) -> list[Damaged]:
    """Makes the views `points` and `series` of what a store, which may run, has sealed.

    DuckDB checks no checksum, so each file is read whole first and compared with its checksum. Returns the
    files that the views leave out. Raises StoreError if the directory cannot be read.
    """
    import duckdb

    from venturi.common.runtime import load_core

    try:
        found = json.loads(load_core().store_files(path.resolve()))
        connection.execute("set TimeZone = 'UTC'")
        for name, query in _QUERIES.items():
            files = ", ".join(_quoted(segment[name]) for segment in found["segments"])
            query = query.format(files=f"[{files}]") if files else _EMPTY[name]
            connection.execute(f"create view {name} as {query}")
        # Only these files: a query copied from somewhere must not read others.
        allowed = [_quoted(segment[name]) for segment in found["segments"] for name in _QUERIES]
        connection.execute(f"set allowed_paths = [{', '.join(allowed)}]")
        connection.execute("set enable_external_access = false")
    except (OSError, duckdb.Error) as error:
        raise StoreError(f"{path}: {' '.join(str(error).split())}") from None
    return [Damaged(str(path / one["file"]), one["why"]) for one in found["damaged"]]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_QUERIES = {
    "points": "select series, metric, time, value from read_parquet({files})",
    # A series has a line a segment.
    "series": "select series, any_value(metric) as metric, any_value(tags) as tags, "
    "sum(points)::bigint as points, min(first) as first, max(last) as last, min(min) as min, "
    "max(max) as max, sum(sum) as sum from read_parquet({files}) group by series",
}
