"""What becomes of tables: bytes of a packed file once it is decoded, values for dictionaries, and points of
time series: columns of time, tags and values, sorted by time."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.common.errors import ScenarioError
from venturi.common.texts import listed, similar

_WIDTHS = {"BOOLEAN": 1, "INT32": 32, "INT64": 64, "INT96": 64, "FLOAT": 32, "DOUBLE": 64}
"""Bits of a value by its physical type."""
# Of Arrow's Message.fbs: fields of a message and of a record batch, and kinds of messages.
_KIND, _HEADER = 1, 2
_DATA, _BUFFERS, _COMPRESSION = 1, 2, 3
_DICTIONARY, _BATCH = 2, 3


def parquet_bytes(path: Path, limit: int) -> Iterator[int]:
    """Bytes of the values, a growing sum. Texts that are given by dictionaries are counted one by one only if
    the file could pass `limit` with them."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    meta = file.metadata
    chunks = [(g, c) for g in range(meta.num_row_groups) for c in range(meta.num_columns)]
    size, worst, texts = 0, 0, []
    for group, at in chunks:
        chunk, column = meta.row_group(group).column(at), file.schema.column(at)
        if chunk.physical_type != "BYTE_ARRAY":
            width = 8 * column.length or _WIDTHS[chunk.physical_type]
            size += chunk.num_values * json.loads(column.logical_type.to_json()).get("bitWidth", width) // 8
            continue
        size += 4 * chunk.num_values + chunk.total_uncompressed_size
        if any("DICTIONARY" in encoding for encoding in chunk.encodings):
            worst += chunk.num_values * chunk.total_uncompressed_size
            texts.append((group, chunk.path_in_schema))
    yield size
    if size + worst > limit:
        file = pq.ParquetFile(path, read_dictionary=list({name for _, name in texts}))
        for group, name in texts:
            size += _text_bytes(file, group, name)
            yield size


def _text_bytes(file: Any, group: int, name: str) -> int:
    import pyarrow as pa

    try:
        return values_bytes(file.read_row_group(group, columns=[name]))
    except pa.ArrowException:  # too many for a dictionary: each is there once, and counted
        return 0


def values_bytes(table: Any) -> int:
    """Bytes of all values that a table has by its dictionaries."""
    return sum(_values_bytes(chunk) for column in table.columns for chunk in column.chunks)


def _values_bytes(array: Any) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind):
        values = array.dictionary
        if kind.value_type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
            return int(len(array) * values.nbytes // max(1, len(values)))
        return int(pc.sum(pc.binary_length(values).take(array.indices)).as_py() or 0)
    if pa.types.is_struct(kind):
        return sum(map(_values_bytes, array.flatten()))
    if pa.types.is_map(kind):
        return _values_bytes(array.keys) + _values_bytes(array.items)
    return _values_bytes(array.flatten()) if pa.types.is_nested(kind) else 0


def ipc_bytes(path: Path, start: int) -> Iterator[int]:
    """Bytes of the buffers from the message on that begins at `start`, a growing sum. A compressed buffer
    begins with its length."""
    import pyarrow as pa

    size = 0
    # What is damaged, its reader names.
    with pa.memory_map(str(path)) as file, suppress(pa.ArrowException, OSError, struct.error):
        file.seek(start)
        for message in pa.ipc.MessageReader.open_stream(file):
            data, body = message.metadata, message.body
            root = _offset(data, 0)
            (kind,) = struct.unpack_from("<B", data, _field(data, root, _KIND) or 0)
            if kind not in (_DICTIONARY, _BATCH) or body is None:
                continue
            batch = _table(data, root, _HEADER)
            if kind == _DICTIONARY:
                batch = _table(data, batch, _DATA)
            packed = _field(data, batch, _COMPRESSION) is not None
            size += sum(_lengths(data, _table(data, batch, _BUFFERS), body, packed))
            yield size


def _lengths(data: Any, buffers: int, body: Any, packed: bool) -> Iterator[int]:
    (count,) = struct.unpack_from("<I", data, buffers)
    for at in range(count):
        offset, length = struct.unpack_from("<qq", data, buffers + 4 + 16 * at)
        (expanded,) = struct.unpack_from("<q", body, offset) if packed and length else (-1,)
        yield length if expanded < 0 else expanded


def _offset(data: Any, at: int) -> int:
    (step,) = struct.unpack_from("<I", data, at)
    return at + int(step)


def _table(data: Any, table: int, index: int) -> int:
    return _offset(data, _field(data, table, index) or 0)


def _field(data: Any, table: int, index: int) -> int | None:
    """Where a table of a flat buffer has a field; None if it is left out."""
    (step,) = struct.unpack_from("<i", data, table)
    (length,) = struct.unpack_from("<H", data, table - step)
    place = 4 + 2 * index
    (step,) = struct.unpack_from("<H", data, table - step + place) if place < length else (0,)
    return table + int(step) if step else None


if TYPE_CHECKING:
    import pyarrow as pa

# Integers as times: the unit by their size, for the years 1973 to 2286.
_UNITS = ((10**17, "ns"), (10**14, "us"), (10**11, "ms"), (0, "s"))


@dataclass(frozen=True)
class Columns:
    """Which columns are what. `values` may be empty: all that hold numbers."""

    time: str | None
    tags: tuple[str, ...]
    values: tuple[str, ...]


def arranged(label: str, table: pa.Table, columns: Columns) -> tuple[pa.Table, Columns]:
    """The table, sorted by time, with a time (ns, UTC), tags as text and values as doubles or int64; and the
    columns, all of them named. Raises ScenarioError for a column that is missing or of the wrong kind."""
    import pyarrow as pa

    names = table.column_names
    time = columns.time or _the_time(label, table)
    for flag, wanted in (("--time", (time,)), ("--tags", columns.tags), ("--values", columns.values)):
        for name in wanted:
            if name not in names:
                raise ScenarioError(f"{flag}: {label} has no column {name}{similar(name, names)}")
    used = {time, *columns.tags}
    values = columns.values or tuple(
        f.name for f in table.schema if f.name not in used and _is_number(f.type)
    )
    if not values:
        raise ScenarioError(
            f"{label}: no column but time and tags holds numbers", hint="name them: --values a,b"
        )
    for name in values:
        if name in used:
            raise ScenarioError(f"--values: {name} is the {'time' if name == time else 'tag'} already")
    made: dict[str, Any] = {time: _times(label, time, table.column(time))}
    for name in columns.tags:
        made[name] = _tag(label, name, table.column(name))
    for name in values:
        made[name] = _value(label, name, table.column(name))
    found = pa.table(made)
    return found.sort_by([(time, "ascending")]), Columns(time, columns.tags, values)


def _the_time(label: str, table: pa.Table) -> str:
    from pyarrow import types

    found = [f.name for f in table.schema if types.is_timestamp(f.type) or types.is_date(f.type)]
    if len(found) == 1:
        return str(found[0])
    which = f"several ({listed(found)})" if found else "none"
    raise ScenarioError(
        f"{label}: which column is the time? Of times it has {which}", hint="name it: --time ts"
    )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _times(label: str, name: str, column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type
    if column.null_count:
        raise ScenarioError(f"--time: {name} of {label} has nulls; a point has a time")
    if types.is_integer(kind):
        most = pc.max(column).as_py()
        unit = next(unit for least, unit in _UNITS if most >= least or least == 0)
        column = column.cast(pa.int64()).cast(pa.timestamp(unit))
    elif types.is_string(kind) or types.is_large_string(kind):
        try:
            column = column.cast(pa.timestamp("ns"))
        except pa.ArrowInvalid as error:
            raise ScenarioError(
                f"--time: {name} of {label} is text that is no time: {_first(error)}"
            ) from None
    elif not (types.is_timestamp(kind) or types.is_date(kind)):
        raise ScenarioError(f"--time: {name} of {label} is {kind}, which is no time")
    try:
        return column.cast(pa.timestamp("ns")).cast(pa.timestamp("ns", "UTC"))
    except pa.ArrowInvalid as error:
        raise ScenarioError(f"--time: {name} of {label}: {_first(error)}") from None


def _tag(label: str, name: str, column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_nested(kind) or types.is_floating(kind):
        raise ScenarioError(f"--tags: {name} of {label} is {kind}; a tag is a text, or a whole number")
    if column.null_count:
        raise ScenarioError(f"--tags: {name} of {label} has nulls; every series needs all of its tags")
    texts = column.cast(kind).cast(pa.string())
    # What separates tags from each other on every wire.
    bad = pc.filter(texts, pc.match_substring_regex(texts, r"[\s=,|]|^$"))
    if len(bad):
        raise ScenarioError(
            f"--tags: {name} of {label} holds {bad[0].as_py()!r}; a tag has no blanks, commas, = or |, "
            "and is not empty"
        )
    return texts.combine_chunks() if texts.num_chunks != 1 else texts


def _value(label: str, name: str, column: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if not _is_number(column.type):
        raise ScenarioError(f"--values: {name} of {label} is {column.type}, which is no number")
    try:
        doubles = column.cast(pa.float64())
        # An integer that a double holds fits an int64; protocols that know integers write it as one.
        return column.cast(pa.int64()) if types.is_integer(column.type) else doubles
    except pa.ArrowInvalid as error:
        raise ScenarioError(f"--values: {name} of {label} does not fit a double: {_first(error)}") from None


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def unpacked(label: str, table: pa.Table) -> pa.Table:
    """The table with the values of its dictionary columns, also within lists and structs. Raises
    ScenarioError naming a column that cannot be unpacked."""
    import pyarrow as pa

    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        plain = _plain(field.type)
        if plain != field.type:
            try:
                column = column.cast(plain)
            except pa.ArrowException as error:
                reason = str(error).strip().splitlines()[0]
                raise ScenarioError(
                    f"{label}: column {field.name} has a dictionary that cannot be unpacked: {reason}"
                ) from None
        columns.append(column)
        fields.append(field.with_type(plain))
    return pa.table(columns, schema=pa.schema(fields, metadata=table.schema.metadata))


def _plain(kind: Any) -> Any:
    """The type with values in place of every dictionary in it."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct(
            [kind.field(i).with_type(_plain(kind.field(i).type)) for i in range(kind.num_fields)]
        )
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), kind.item_field.with_type(_plain(kind.item_type)))
    for is_list, made in ((pa.types.is_large_list, pa.large_list), (pa.types.is_list, pa.list_)):
        if is_list(kind):
            return made(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)), kind.list_size)
    return kind
