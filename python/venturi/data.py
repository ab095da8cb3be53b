"""Users' files, read before the clock starts and handed to Rust as Arrow IPC files.

Parquet, Arrow IPC (file or stream) and CSV, the latter also gzipped, told apart by what
is in them. What comes out is uncompressed, with one schema, one dictionary a column, and
batches of exactly the wanted rows.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi import temporary
from venturi.charrow_tables import unpacked
from venturi.errors import ScenarioError, StoreError
from venturi.points_file import Columns, arranged

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DataStore", "Prepared", "locate", "read_table"]

# Without a wish, batches are of this many rows: what a typical Arrow reader hands out.
_USUAL_BATCH = 65_536
_BUILTIN = {"builtin:birdstrikes": "birdstrikes.parquet"}


@dataclass(frozen=True)
class Prepared:
    """A file made ready. `row_bytes` is the mean payload of a row; `columns` are names and types, `nulls`
    the columns that have some."""

    path: str
    ipc: Path
    name: str
    rows: int
    rows_per_batch: int
    row_bytes: float
    columns: Mapping[str, pa.DataType]
    nulls: frozenset[str]
    points: Columns | None = None
    """Of an ingest: which columns are what."""


def locate(label: str) -> Path:
    """The file that a scenario names; `builtin:NAME` is one that comes with Venturi."""
    if label in _BUILTIN:
        return Path(__file__).parent / "data_files" / _BUILTIN[label]
    return Path(label)


def _name(label: str) -> str:
    """A name that can be a path on a server."""
    stem = label.removeprefix("builtin:") if label in _BUILTIN else Path(label).name.split(".")[0]
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in stem) or "table"


def read_table(label: str) -> pa.Table:
    """Reads a whole file. Raises ScenarioError naming it where it is missing, empty, corrupt or foreign."""
    import pyarrow as pa

    path = locate(label)
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except FileNotFoundError:
        raise ScenarioError(f"{label}: no such file") from None
    except OSError as error:
        raise ScenarioError(f"{label}: cannot be read: {error.strerror}") from None
    if not head:
        raise ScenarioError(f"{label}: the file is empty")
    kind, read = _reader(path, head)
    if read is None:
        raise ScenarioError(
            f"{label}: neither Parquet, Arrow IPC nor CSV",
            hint="name CSV files .csv, .tsv, .csv.gz or .tsv.gz",
        )
    try:
        table: pa.Table = read(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError, EOFError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ScenarioError(f"{label}: not readable as {kind}: {reason}") from None
    if table.num_columns == 0:
        raise ScenarioError(f"{label}: has no columns")
    if table.num_rows == 0:
        raise ScenarioError(f"{label}: has no rows")
    return table


def _reader(path: Path, head: bytes) -> tuple[str, Callable[[Path], Any] | None]:
    names = [suffix.lower() for suffix in path.suffixes]
    if head.startswith(b"PAR1"):
        return "Parquet", _read_parquet
    if head.startswith(b"ARROW1"):
        return "Arrow IPC", _read_ipc_file
    # A stream begins with a continuation mark and the length of its schema.
    if head.startswith(b"\xff\xff\xff\xff"):
        return "an Arrow IPC stream", _read_ipc_stream
    text = names[-2:-1] if names[-1:] == [".gz"] else names[-1:]
    if text in ([".csv"], [".tsv"], [".txt"]):
        return "CSV", lambda found: _read_csv(found, "\t" if text == [".tsv"] else ",")
    kinds: dict[str, tuple[str, Callable[[Path], Any]]] = {
        ".parquet": ("Parquet", _read_parquet),
        ".arrow": ("Arrow IPC", _read_ipc_file),
        ".feather": ("Arrow IPC", _read_ipc_file),
        ".arrows": ("an Arrow IPC stream", _read_ipc_stream),
    }
    return kinds.get(names[-1] if names else "", ("", None))


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path).read()


def _read_ipc_file(path: Path) -> Any:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def _read_ipc_stream(path: Path) -> Any:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()


def _read_csv(path: Path, delimiter: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    packed = path.suffix.lower() == ".gz"
    with pa.input_stream(str(path), compression="gzip" if packed else None) as file:
        return csv.read_csv(file, parse_options=csv.ParseOptions(delimiter=delimiter))


class DataStore:
    """A temporary folder with what has been prepared; gone when the block ends."""

    def __init__(self) -> None:
        self._held: temporary.Held | None = None
        self._made: dict[tuple[Any, ...], Prepared] = {}
        self._tables: dict[str, Any] = {}

    def __enter__(self) -> DataStore:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held is not None:
            self._held.remove()
            self._held = None

    def prepare(self, label: str, rows_per_batch: int | None = None) -> Prepared:
        """The IPC file of a source with batches of so many rows.

        All batches are full: rows from the beginning fill up the last one, so that every message of a
        trial has the same number of rows, also where the table is smaller than a batch. Without
        `rows_per_batch` the table is kept as it is, row for row.
        """
        key = (label, rows_per_batch)
        if key not in self._made:
            self._made[key] = self._write(label, self._table(label), rows_per_batch)
        return self._made[key]

    def prepare_values(self, label: str, rows_per_batch: int | None = None) -> Prepared:
        """The IPC file of a source row for row, with values in place of dictionaries; its last batch may be
        short."""
        key = (label, rows_per_batch, "values")
        if key not in self._made:
            table = unpacked(label, self._table(label))
            self._made[key] = self._write(label, table, rows_per_batch, filled=False)
        return self._made[key]

    def _table(self, label: str) -> Any:
        if label not in self._tables:
            self._tables[label] = read_table(label)
        return self._tables[label]

    def prepare_points(self, label: str, columns: Columns) -> Prepared:
        """The IPC file of a source whose columns are points of time series, sorted by time."""
        key = (label, columns)
        if key not in self._made:
            table, named = arranged(label, self._table(label), columns)
            self._made[key] = replace(self._write(label, table, None), points=named)
        return self._made[key]

    @property
    def folder(self) -> Path:
        """Where all of it lies."""
        if self._held is None:
            self._held = temporary.make("data")
        return self._held.path

    def forget_tables(self) -> None:
        """Frees the memory of what was read; call it when all is prepared."""
        self._tables.clear()

    def _write(self, label: str, table: Any, rows_per_batch: int | None, filled: bool = True) -> Prepared:
        import pyarrow as pa

        size = rows_per_batch or min(table.num_rows, _USUAL_BATCH)
        name = _name(label) if rows_per_batch is None else f"{_name(label)}-{rows_per_batch}"
        if any(name == made.name for made in self._made.values()):
            # Two files of one name in different folders, on one server.
            name = f"{name}-{len(self._made)}"
        ipc = self.folder / f"{len(self._made)}-{name}.arrow"
        moved = rows = 0
        try:
            # One dictionary for all batches: an IPC file may hold only one a column.
            whole = table.unify_dictionaries()
            if rows_per_batch is not None and filled:
                missing = -whole.num_rows % size
                while missing:
                    part = whole.slice(0, min(missing, table.num_rows))
                    whole = pa.concat_tables([whole, part])
                    missing -= part.num_rows
            with pa.ipc.new_file(str(ipc), whole.schema) as writer:
                for start in range(0, whole.num_rows, size):
                    chunk = whole.slice(start, size).combine_chunks()
                    batches = chunk.to_batches()
                    if len(batches) != 1:
                        raise ScenarioError(f"{label}: a batch of {size} rows is over 2 GiB; use fewer rows")
                    writer.write_batch(batches[0])
                    rows += batches[0].num_rows
                    moved += batches[0].nbytes
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreError(
                    f"{self.folder}: the disk is full while preparing {label}", hint="point TMPDIR elsewhere"
                ) from None
            reason = str(error).strip().splitlines()[0]
            raise ScenarioError(f"{label}: its schema cannot be carried as Arrow IPC: {reason}") from None
        columns = {field.name: field.type for field in table.schema}
        nulls = frozenset(n for n, c in zip(table.column_names, table.columns, strict=True) if c.null_count)
        return Prepared(label, ipc, name, rows, size, moved / rows, columns, nulls)
