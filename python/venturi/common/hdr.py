"""HDR histograms as the trial records carry them: the V2 encoding, not deflated, in base64.

Layout (big endian), from HdrHistogram's specification: cookie 0x1c849303 with the
word-size bits 0x10, payload length, normalizing index offset, significant digits,
lowest and highest trackable value, conversion ratio, then the counts as ZigZag LEB128;
a negative number -n stands for n empty slots.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import itertools
import math
import struct
from collections.abc import Mapping, Sequence

_COOKIE = 0x1C849303 | 0x10
_HEADER = struct.Struct(">IIIIQQd")
PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)
LEAST_BEYOND = 1
"""Batches of a trial that lie above a percentile that is shown."""


def _layout(digits: int) -> tuple[int, int]:
    """Sub-bucket half count and its bits, for a number of significant digits (lowest value 1)."""
    bits = (2 * 10**digits - 1).bit_length()
    return 1 << (bits - 1), bits - 1


def _index(value: int, half: int, half_bits: int) -> int:
    bucket = max(value.bit_length() - half_bits - 1, 0)
    return ((bucket + 1) << half_bits) + (value >> bucket) - half


def _highest_equivalent(index: int, half: int, half_bits: int) -> int:
    bucket = (index >> half_bits) - 1
    sub = (index & (half - 1)) + half
    if bucket < 0:
        bucket, sub = 0, sub - half
    return ((sub + 1) << bucket) - 1


def _put_varint(value: int, out: bytearray) -> None:
    # ZigZag LEB128, nine bytes at most; the ninth holds eight bits.
    coded = (value << 1) ^ (value >> 63)
    for _ in range(8):
        if coded < 0x80:
            out.append(coded)
            return
        out.append(coded & 0x7F | 0x80)
        coded >>= 7
    out.append(coded)


def encode(counts: Mapping[int, int], digits: int = 3) -> str:
    """Encodes counts by value (ns)."""
    half, half_bits = _layout(digits)
    slots: dict[int, int] = {}
    for value, count in counts.items():
        slot = _index(value, half, half_bits)
        slots[slot] = slots.get(slot, 0) + count
    payload = bytearray()
    done = 0
    for slot in sorted(slots):
        if slot > done:
            _put_varint(done - slot, payload)
        _put_varint(slots[slot], payload)
        done = slot + 1
    highest = max([*counts, 2])
    header = _HEADER.pack(_COOKIE, len(payload), 0, digits, 1, highest, 1.0)
    return base64.b64encode(header + bytes(payload)).decode()


def decode(text: str) -> dict[int, int]:
    """Counts by value: each value the highest one (ns) that its slot stands for. Raises ValueError if the
    text is no such histogram."""
    try:
        raw = base64.b64decode(text, validate=True)
        cookie, length, _, digits, _, _, _ = _HEADER.unpack_from(raw)
    except (binascii.Error, struct.error):
        raise ValueError("not an HDR histogram") from None
    if cookie & ~0xF0 != _COOKIE & ~0xF0 or not 1 <= digits <= 5 or len(raw) != _HEADER.size + length:
        raise ValueError("not an HDR histogram in the V2 encoding")
    half, half_bits = _layout(digits)
    counts: dict[int, int] = {}
    slot, at = 0, _HEADER.size
    while at < len(raw):
        coded, shift = 0, 0
        while True:
            if at >= len(raw):
                raise ValueError("the HDR histogram is cut short")
            byte, at = raw[at], at + 1
            if shift == 56:
                coded |= byte << shift
                break
            coded |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        number = (coded >> 1) ^ -(coded & 1)
        if number < 0:
            slot -= number
            continue
        if number:
            counts[_highest_equivalent(slot, half, half_bits)] = number
        slot += 1
    return counts


def batches_for(percent: float) -> int:
    """How many batches a trial must have timed for this percentile: at least `LEAST_BEYOND` lies above it."""
    return math.ceil(LEAST_BEYOND / (1 - percent / 100) - 1e-6) if percent < 100 else 1


def percentile(counts: Mapping[int, int], percent: float) -> int:
    """The value (ns) below or at which `percent` of the recordings lie; 0 if there are none."""
    return percentiles(counts, (percent,))[0]


def percentiles(counts: Mapping[int, int], percents: Sequence[float]) -> list[int]:
    """The values (ns) below or at which so many percent of the recordings lie; 0 if there are none."""
    values = sorted(counts)
    reached = list(itertools.accumulate(counts[value] for value in values))
    total = reached[-1] if reached else 0
    if total == 0:
        return [0] * len(percents)
    wanted = (max(1, -(-total * percent // 100)) for percent in percents)
    return [values[bisect.bisect_left(reached, number)] for number in wanted]


def summary(counts: Mapping[int, int]) -> dict[str, object]:
    """The `LATENCY` object of docs/format.md for these recordings."""
    total = sum(counts.values())
    mean = sum(value * count for value, count in counts.items()) / total if total else 0.0
    spread = sum(count * (value - mean) ** 2 for value, count in counts.items())
    return {
        "count": total,
        "min": min(counts, default=0),
        "mean": round(mean, 1),
        "max": max(counts, default=0),
        "stdev": round((spread / total) ** 0.5, 1) if total else 0.0,
        "percentiles": [*map(list, zip(PERCENTILES, percentiles(counts, PERCENTILES), strict=True))],
        "hdr": encode(counts),
    }
