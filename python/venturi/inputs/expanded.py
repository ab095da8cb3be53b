"""How many bytes a packed file is once it is decoded, found before it is."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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
