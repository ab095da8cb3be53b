"""SQL over runs, or over a store of time series."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.common.errors import ExitCode, StoreError, VenturiError
from venturi.store.open import open_run

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_QUERY = re.compile(r"\s*(select|with|from|pivot|unpivot)\b", re.IGNORECASE)
_VIEWS = ("trials", "streams", "latency", "stages", "errors", "resources", "hosts", "samples", "ceilings")


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
    """Makes the views `points` and `series` of what a store, which may run, has sealed. DuckDB checks no
    checksum, so each file is read whole first and compared with its checksum. Returns the files that the
    views leave out. Raises StoreError if the directory cannot be read."""
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


def ask(runs: Sequence[str | Path], query: str) -> tuple[pa.Table, list[Damaged]]:
    """What DuckDB answers, and of a store the damaged files whose segments are left out of the answer.
    `runs`: run directories, `last` or `reference:NAME`, whose tables are one; or one store's directory.
    Raises VenturiError for a query that fails, and where there is no such run."""
    import duckdb

    paths = [Path(run) for run in runs]
    stores = [path for path in paths if is_store(path)]
    if stores and len(paths) > 1:
        raise VenturiError(f"{stores[0]} is a store of time series, which is asked by itself")
    with duckdb.connect() as connection:
        if stores:
            damaged = make_views(stores[0], connection)
            return _table(connection, query), damaged
        _register(connection, paths)
        # Only the run's tables: a copied query must not read or write other files.
        connection.execute("set enable_external_access = false")
        return _table(connection, query), []


def _register(connection: duckdb.DuckDBPyConnection, runs: Sequence[Path]) -> None:
    """The tables of the runs, each with all of them in it."""
    import pyarrow as pa

    directories = [open_run(path) for path in runs]
    for view in _VIEWS:
        parts = []
        for directory in directories:
            part = directory.table(view)
            if "run" not in part.column_names:
                part = part.add_column(0, "run", pa.array([directory.name] * part.num_rows, pa.string()))
            parts.append(part)
        connection.register(view, pa.concat_tables(parts, promote_options="default"))


def _answers(statement: Any) -> bool:
    """Whether a statement does nothing but answer. DuckDB makes several of a pivot."""
    from duckdb import StatementType, extract_statements

    if statement.type == StatementType.EXPLAIN:
        explained = re.sub(r"^\s*explain(\s+analyze|\s*\([^)]*\))?", "", statement.query, flags=re.IGNORECASE)
        return all(map(_answers, extract_statements(explained)))
    pivot = statement.type == StatementType.MULTI and _QUERY.match(statement.query) is not None
    return pivot or statement.type == StatementType.SELECT


def _table(connection: Any, query: str) -> pa.Table:
    import duckdb

    try:
        statements = connection.extract_statements(query)
        if len(statements) == 1 and _answers(statements[0]):
            return connection.sql(query).to_arrow_table()
    except duckdb.Error as error:
        raise VenturiError(f"the query fails: {' '.join(str(error).split())}", ExitCode.USAGE) from None
    raise VenturiError("expected one query that begins with SELECT or WITH")
