"""A directory of the reference store as tables: what `venturi sql DIR` asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from venturi.errors import StoreError

__all__ = ["VIEWS", "is_store", "views"]

VIEWS = ("points", "series")
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


def views(connection: Any, path: Path) -> None:
    """Makes the views `points` and `series` of a store, which may run meanwhile: what it has sealed by now.

    Raises StoreError for a segment that cannot be read.
    """
    import duckdb

    folder = path.resolve()
    # A segment counts from the moment its points are there; its series were written just before.
    sealed = [p for p in sorted((folder / "points").glob("*.parquet")) if p.stat().st_size]
    try:
        connection.execute("set TimeZone = 'UTC'")
        for name in VIEWS:
            files = [str(folder / name / p.name) for p in sealed if (folder / name / p.name).exists()]
            if not files:
                connection.execute(f"create view {name} as {_EMPTY[name]}")
                continue
            listed = ", ".join("'" + f.replace("'", "''") + "'" for f in files)
            connection.execute(f"create view {name} as {_QUERIES[name].format(files=f'[{listed}]')}")
        # Only these files: a query copied from somewhere must not read or write others.
        text = str(folder).replace("'", "''")
        connection.execute(f"set allowed_directories = ['{text}']")
        connection.execute("set enable_external_access = false")
    except duckdb.Error as error:
        raise StoreError(f"{path}: {' '.join(str(error).split())}") from None


_QUERIES = {
    "points": "select series, metric, time, value from read_parquet({files})",
    # A series has a line a segment.
    "series": "select series, any_value(metric) as metric, any_value(tags) as tags, "
    "sum(points)::bigint as points, min(first) as first, max(last) as last, min(min) as min, "
    "max(max) as max, sum(sum) as sum from read_parquet({files}) group by series",
}
