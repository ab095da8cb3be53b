"""Users' files, read before the clock starts and handed to Rust as Arrow IPC files.

Parquet, Arrow IPC (file or stream) and CSV, the latter also gzipped, told apart by what
is in them. What comes out is uncompressed, with one schema, one dictionary a column, and
batches of exactly the wanted rows.
"""

from __future__ import annotations

import errno
import io
import re
import stat
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.common import temporary
from venturi.common.environment import memory_limit
from venturi.common.errors import DataWarning, ScenarioError, StoreError
from venturi.common.suffixes import fitting, format_bytes
from venturi.inputs.tables import Columns, arranged, ipc_bytes, parquet_bytes, unpacked, values_bytes

if TYPE_CHECKING:
    import pyarrow as pa

# Unless asked otherwise, batches are of this many rows: what a typical Arrow reader hands out.
_USUAL_BATCH = 65_536
# What the engine makes at most for one batch.
MOST_BATCH_BYTES = 2**32
_CSV_PIECE = 1 << 22
_MOST_LOOKED = 10_000
"""Rows among which the largest is looked for."""
BUILTIN_DATA = {"builtin:birdstrikes": "birdstrikes.parquet"}


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
    if label in BUILTIN_DATA:
        return Path(__file__).parent / "data_files" / BUILTIN_DATA[label]
    return Path(label)


def _name(label: str) -> str:
    """A name that can be a path on a server."""
    stem = label.removeprefix("builtin:") if label in BUILTIN_DATA else Path(label).name.split(".")[0]
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in stem) or "table"


def read_table(label: str) -> pa.Table:
    """Reads a whole file. Raises ScenarioError naming it where it is missing, empty, corrupt or foreign."""
    import pyarrow as pa

    path = locate(label)
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            # A pipe would be read twice, and may never end.
            raise ScenarioError(f"{label}: is no file", hint="write what comes from a pipe into a file first")
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
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ScenarioError(f"{label}: not readable as {kind}: {reason}") from None
    if table.num_columns == 0:
        raise ScenarioError(f"{label}: has no columns")
    if table.num_rows == 0:
        raise ScenarioError(f"{label}: has no rows")
    if kind == "CSV" and (doubt := _doubt(table, "\\t" if _has_tabs(path) else ",")):
        warnings.warn(DataWarning(f"{label}: {doubt}"), stacklevel=2)
    return table


def _doubt(table: Any, delimiter: str) -> str | None:
    """Why a table of a CSV file may not be the one that its author means."""
    names = table.column_names
    if len(names) == 1 and (mark := next((m for m in ";\t|,:" if m in names[0]), None)):
        return (
            f"one column, named {names[0]!r}; values are separated by commas in .csv, by tabs in .tsv; "
            f"rewrite the file: duckdb -c \"copy (from read_csv('FILE', delim='{mark}')) to 'FILE.parquet'\""
        )
    if all(re.fullmatch(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", n, re.IGNORECASE) for n in names):
        return (
            f"the first line names the columns: {', '.join(names[:5])}; if it is a row, put a line of names "
            f"before it: sed -i '1i {delimiter.join(f'c{i}' for i in range(len(names)))}' FILE"
        )
    return None


def _has_tabs(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(".tsv")


def _reader(path: Path, head: bytes) -> tuple[str, Callable[[Path], Any] | None]:
    names = [suffix.lower() for suffix in path.suffixes]
    if head.startswith(b"PAR1"):
        return "Parquet", _read_parquet
    if head.startswith(b"ARROW1"):
        return "Arrow IPC", _read_ipc_file
    # A stream begins with a continuation mark and the length of its schema.
    if head.startswith(b"\xff\xff\xff\xff"):
        return "an Arrow IPC stream", _read_ipc_stream
    if (names[-2:-1] if names[-1:] == [".gz"] else names[-1:]) in ([".csv"], [".tsv"], [".txt"]):
        return "CSV", lambda found: _read_csv(found, "\t" if _has_tabs(found) else ",")
    kinds: dict[str, tuple[str, Callable[[Path], Any]]] = {
        ".parquet": ("Parquet", _read_parquet),
        ".arrow": ("Arrow IPC", _read_ipc_file),
        ".feather": ("Arrow IPC", _read_ipc_file),
        ".arrows": ("an Arrow IPC stream", _read_ipc_stream),
    }
    return kinds.get(names[-1] if names else "", ("", None))


def _read_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    for size in parquet_bytes(path, _check_table(str(path), 0)):
        _check_table(str(path), size)
    return pq.ParquetFile(path).read()


def _read_ipc_file(path: Path) -> Any:
    import pyarrow as pa

    for size in ipc_bytes(path, 8):  # behind "ARROW1" it has the same messages
        _check_table(str(path), size)
    with pa.OSFile(str(path)) as file:
        return _sound(pa.ipc.open_file(file).read_all())


def _read_ipc_stream(path: Path) -> Any:
    import pyarrow as pa

    for size in ipc_bytes(path, 0):
        _check_table(str(path), size)
    with pa.OSFile(str(path)) as file:
        return _sound(pa.ipc.open_stream(file).read_all())


def _sound(table: Any) -> Any:
    """The table, whose offsets, indices and texts no reader of Arrow looks at. Raises ArrowInvalid."""
    table.validate(full=True)
    return table


def _read_csv(path: Path, delimiter: str) -> Any:
    """Raises ValueError for what the parser takes without a word: an open quote, bytes that are no UTF-8."""
    import pyarrow as pa
    from pyarrow import csv, types

    def opened() -> Any:
        packed = path.suffix.lower() == ".gz"
        return pa.input_stream(str(path), compression="gzip" if packed else None)

    quotes = size = cells = 0
    with opened() as file:
        while piece := file.read(_CSV_PIECE):
            quotes += piece.count(b'"')
            size += len(piece)
            cells += piece.count(delimiter.encode()) + piece.count(b"\n")
            # A number takes 8 bytes, however short its text.
            _check_table(str(path), max(size, 8 * cells))
    # Line ends inside of quotes keep the parser from cutting a file wherever a line ends, which is quicker.
    options = csv.ParseOptions(delimiter=delimiter, newlines_in_values=quotes > 0)
    with opened() as file:
        table = csv.read_csv(file, parse_options=options)
    for name, column in zip(table.column_names, table.columns, strict=True):
        # Such bytes make the column binary, which no text is else.
        if types.is_binary(column.type) or types.is_large_binary(column.type):
            raise ValueError(_not_utf8(name, column))
    # What an open quote swallows has a line end in it, or is the end of the file.
    if quotes % 2 or (quotes and _has_line_end(table)):
        with opened() as file:
            _check_quotes(file, delimiter)
    return table


def _has_line_end(table: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = (column for column in table.columns if column.type == pa.string())
    return any(pc.any(pc.match_substring(column, "\n")).as_py() for column in texts)


def _not_utf8(name: str, column: Any) -> str:
    for row, value in enumerate(column, 1):
        try:
            (value.as_py() or b"").decode()
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            return (
                f"row {row}, column {name}: byte 0x{byte:02x} is no UTF-8; "
                "if it is Latin-1: iconv -f latin1 -t utf-8"
            )
    return f"column {name} holds bytes and no text"


def _check_quotes(file: Any, delimiter: str) -> None:
    """Raises ValueError naming the line where a quoted value begins that does not end where it should.

    The parser would take all up to the next quote, or to the end of the file, for one value.
    """
    import csv

    line = 1
    before = csv.field_size_limit(2**31 - 1)
    try:
        rows = csv.reader(io.TextIOWrapper(file, "utf-8", newline=""), delimiter=delimiter, strict=True)
        for _ in rows:
            line = rows.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line}: a quoted value does not end as it should: {error}") from None
    finally:
        csv.field_size_limit(before)


def _check_table(label: str, size: int) -> int:
    """What a table may have in bytes, which this one has not passed: the engine copies its batches into one
    piece. Raises ScenarioError."""
    limit = (memory_limit() or sys.maxsize) // 2
    if size > limit:
        raise ScenarioError(
            f"{label}: its rows are {format_bytes(size)}, and are held twice; "
            f"this process may take {format_bytes(2 * limit)} of memory",
            hint="give --data a file with fewer rows",
        )
    return limit


def _check_room(label: str, table: Any, size: int, missing: int) -> None:
    """Whether batches of `size` rows, and the table with `missing` of its rows once more, have room in
    memory. Raises ScenarioError."""
    row = table.nbytes / table.num_rows
    batch, total = size * row, (table.num_rows + missing) * row
    limit = _check_table(label, table.nbytes)
    if batch <= MOST_BATCH_BYTES and total <= limit:
        return
    # To slice a row takes microseconds, and a table may have many millions of them.
    looked = min(table.num_rows, _MOST_LOOKED)
    sizes = [table.slice(at, 1).nbytes for at in range(looked)]
    largest = max(range(looked), key=sizes.__getitem__)
    among = f" of the first {looked:,}" if looked < table.num_rows else ""
    most = min(MOST_BATCH_BYTES, limit)
    # A column of text ends at 2 GiB.
    fits = int(min(most, 2**31 - 1) / row)
    raise ScenarioError(
        f"{label}: a batch of {size:,} rows would be {format_bytes(batch)}; "
        f"the most is {format_bytes(most)}; "
        f"the largest row{among} is number {largest + 1}, of {format_bytes(sizes[largest])}",
        hint=f"take fewer rows per batch: --rows-per-batch {fitting(fits)}" if fits else "take smaller rows",
    )


class DataStore:
    """A temporary folder with what has been prepared; gone when the block ends."""

    def __init__(self) -> None:
        self._held: temporary.LockedTempDir | None = None
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
            table = self._table(label)
            _check_table(label, table.nbytes + values_bytes(table))
            table = unpacked(label, table)
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
        missing = -table.num_rows % size if rows_per_batch is not None and filled else 0
        _check_room(label, table, size, missing)
        try:
            # One dictionary for all batches: an IPC file may hold only one a column.
            total = table.unify_dictionaries()
            while missing:
                part = total.slice(0, min(missing, table.num_rows))
                total = pa.concat_tables([total, part])
                missing -= part.num_rows
            with pa.ipc.new_file(str(ipc), total.schema) as writer:
                for start in range(0, total.num_rows, size):
                    chunk = total.slice(start, size).combine_chunks()
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
