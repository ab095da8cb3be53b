"""SQL over runs, or over a store of time series."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.common.errors import ExitCode, VenturiError
from venturi.servers import local_store
from venturi.store.open import open_run

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_QUERY = re.compile(r"\s*(select|with|from|pivot|unpivot)\b", re.IGNORECASE)
_VIEWS = ("trials", "streams", "latency", "stages", "errors", "resources", "hosts", "samples", "ceilings")


def ask(runs: Sequence[str | Path], query: str) -> tuple[pa.Table, list[local_store.Damaged]]:
    """What DuckDB answers, and of a store the damaged files whose segments are left out of the answer.

    `runs`: run directories, `last` or `reference:NAME`, whose tables are one; or one store's directory.

    Raises VenturiError for a query that fails, and where there is no such run.
    """
    import duckdb

    paths = [Path(run) for run in runs]
    stores = [path for path in paths if local_store.is_store(path)]
    if stores and len(paths) > 1:
        raise VenturiError(f"{stores[0]} is a store of time series, which is asked by itself")
    with duckdb.connect() as connection:
        if stores:
            damaged = local_store.make_views(stores[0], connection)
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
            part = getattr(directory, view)()
            if "run" not in part.column_names:
                part = part.add_column(0, "run", pa.array([directory.name] * part.num_rows, pa.string()))
            parts.append(part)
        connection.register(view, pa.concat_tables(parts, promote_options="default"))


def _answers(statement: Any) -> bool:
    """Whether a statement does nothing but answer. DuckDB makes several of a pivot."""
    from duckdb import StatementType, extract_statements

    if statement.type == StatementType.EXPLAIN:
        asked = re.sub(r"^\s*explain(\s+analyze|\s*\([^)]*\))?", "", statement.query, flags=re.IGNORECASE)
        return all(map(_answers, extract_statements(asked)))
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
