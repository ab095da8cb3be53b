"""The digest of a block's values as docs/targets/charrow.md has it, by the xxh3 of its inventor."""

from __future__ import annotations

import struct

import pyarrow as pa
from xxhash import xxh3_64_intdigest as xxh3

__all__ = ["digest", "xxh3"]


def _behind(state: int, number: int) -> int:
    return xxh3(number.to_bytes(8, "little"), state)


def digest(batch: pa.RecordBatch) -> int:
    """Of the values of a batch: integers and strings, with nulls or without."""
    state = batch.num_rows
    for column in batch.columns:
        state = _behind(state, _column(column))
    return state


def _column(column: pa.Array) -> int:
    # Without an offset into its buffers.
    column = pa.concat_arrays([column, column.slice(0, 0)]) if column.offset else column
    if column.null_count:
        bits = sum(1 << i for i, valid in enumerate(column.is_valid().to_pylist()) if valid)
        bitmap = bits.to_bytes((len(column) + 7) // 8, "little")
        validity = _behind(xxh3(bitmap), len(column))
        return _behind(_behind(0x6E756C6C, validity), _column(column.drop_null()))
    buffers = column.buffers()
    if pa.types.is_string(column.type):
        ends = struct.unpack_from(f"<{len(column) + 1}i", buffers[1]) if len(column) else (0,)
        data = buffers[2].to_pybytes()[ends[0] : ends[-1]] if buffers[2] else b""
        counted = struct.pack(f"<{len(column)}i", *(end - ends[0] for end in ends[1:]))
        return _behind(xxh3(counted), xxh3(data))
    return xxh3(buffers[1].to_pybytes()[: len(column) * column.type.bit_width // 8])
