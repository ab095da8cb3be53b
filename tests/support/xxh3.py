"""xxh3 of 64 bits, from its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md), and with it the
digest of a block's values as docs/targets/charrow.md has it: slow, and nobody else's code."""

from __future__ import annotations

import struct

import pyarrow as pa

__all__ = ["digest", "xxh3"]

_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_ALL = 2**64 - 1
_STRIPE, _BLOCK = 64, 1024


def _read(raw: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(raw[at : at + size], "little")


def _fold(one: int, other: int) -> int:
    product = one * other
    return (product & _ALL) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * 0x165667919E3779F9 & _ALL
    return value ^ value >> 32


def _avalanche_of_xxh64(value: int) -> int:
    value ^= value >> 33
    value = value * _64[1] & _ALL
    value ^= value >> 29
    value = value * _64[2] & _ALL
    return value ^ value >> 32


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _ALL


def _mix(raw: bytes, at: int, secret: int, seed: int) -> int:
    low = _read(raw, at) ^ _read(_SECRET, secret) + seed & _ALL
    high = _read(raw, at + 8) ^ _read(_SECRET, secret + 8) - seed & _ALL
    return _fold(low, high)


def xxh3(raw: bytes, seed: int = 0) -> int:
    length = len(raw)
    if length > 240:
        return _long(raw, seed)
    if length > 16:
        return _medium(raw, seed)
    if length > 8:
        low = _read(raw, 0) ^ (_read(_SECRET, 24) ^ _read(_SECRET, 32)) + seed & _ALL
        high = _read(raw, length - 8) ^ (_read(_SECRET, 40) ^ _read(_SECRET, 48)) - seed & _ALL
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(length + swapped + high + _fold(low, high) & _ALL)
    if length > 3:
        seed ^= int.from_bytes((seed & 0xFFFFFFFF).to_bytes(4, "little"), "big") << 32
        both = _read(raw, length - 4, 4) + (_read(raw, 0, 4) << 32)
        value = both ^ (_read(_SECRET, 8) ^ _read(_SECRET, 16)) - seed & _ALL
        value ^= _turned(value, 49) ^ _turned(value, 24)
        value = value * 0x9FB21C651E98DF25 & _ALL
        value ^= (value >> 35) + length
        value = value * 0x9FB21C651E98DF25 & _ALL
        return value ^ value >> 28
    if length > 0:
        together = raw[0] << 16 | raw[length >> 1] << 24 | raw[-1] | length << 8
        return _avalanche_of_xxh64(together ^ (_read(_SECRET, 0, 4) ^ _read(_SECRET, 4, 4)) + seed & _ALL)
    return _avalanche_of_xxh64(seed ^ _read(_SECRET, 56) ^ _read(_SECRET, 64))


def _medium(raw: bytes, seed: int) -> int:
    length = len(raw)
    value = length * _64[0]
    if length > 128:
        value += sum(_mix(raw, 16 * i, 16 * i, seed) for i in range(8))
        value = _avalanche(value & _ALL)
        value += sum(_mix(raw, 16 * i, 16 * (i - 8) + 3, seed) for i in range(8, length // 16))
        return _avalanche(value + _mix(raw, length - 16, 136 - 17, seed) & _ALL)
    for i in range((length - 1) // 32 + 1):
        value += _mix(raw, 16 * i, 32 * i, seed) + _mix(raw, length - 16 * (i + 1), 32 * i + 16, seed)
    return _avalanche(value & _ALL)


def _long(raw: bytes, seed: int) -> int:
    halves = struct.unpack("<24Q", _SECRET)
    secret = struct.pack("<24Q", *((h + (-seed if i % 2 else seed)) & _ALL for i, h in enumerate(halves)))
    sums = [_32[2], _64[0], _64[1], _64[2], _64[3], _32[1], _64[4], _32[0]]

    def add(at: int, keys: int) -> None:
        lanes = struct.unpack_from("<8Q", raw, at)
        for i, (lane, key) in enumerate(zip(lanes, struct.unpack_from("<8Q", secret, keys), strict=True)):
            mixed = lane ^ key
            sums[i ^ 1] = sums[i ^ 1] + lane & _ALL
            sums[i] = sums[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32) & _ALL

    whole = (len(raw) - 1) // _BLOCK
    for block in range(whole):
        for stripe in range(_BLOCK // _STRIPE):
            add(block * _BLOCK + stripe * _STRIPE, 8 * stripe)
        for i, key in enumerate(struct.unpack_from("<8Q", secret, 128)):
            sums[i] = (sums[i] ^ sums[i] >> 47 ^ key) * _32[0] & _ALL
    for stripe in range((len(raw) - 1 - whole * _BLOCK) // _STRIPE):
        add(whole * _BLOCK + stripe * _STRIPE, 8 * stripe)
    add(len(raw) - _STRIPE, 192 - 64 - 7)
    value = len(raw) * _64[0]
    for i in range(4):
        keys = struct.unpack_from("<2Q", secret, 11 + 16 * i)
        value += _fold(sums[2 * i] ^ keys[0], sums[2 * i + 1] ^ keys[1])
    return _avalanche(value & _ALL)


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
