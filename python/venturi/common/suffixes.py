"""Numbers with suffixes, ranges of them and instants, as scenarios and flags spell them.

SI suffixes are powers of 1000 (k, M, G, T), binary ones powers of 1024 (Ki, Mi, Gi, Ti);
a trailing B is allowed on sizes. Inside Venturi everything is a plain integer:
counts, bytes and nanoseconds. (`venturi.common.units` prints measured values; this reads settings.)
"""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from venturi.common.units import significant

_COUNTS = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_DURATIONS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)\s*([A-Za-zµ]*)\s*", re.IGNORECASE)
# A range that spells out more points than this is a slip of the pen, not a sweep.
_MOST_POINTS = 100_000


def _split(text: str) -> tuple[Decimal, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number")
    try:
        return Decimal(match.group(1).replace("_", "")), match.group(2)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None


def parse_count(value: object) -> int:
    """A count or a size in bytes: 4096, "10M", "64Ki", "1.5 GiB". Raises ValueError if it is no whole
    number."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if value != value or abs(value) >= 2**63 or value != int(value):
            raise ValueError(f"{value} is not a whole number")
        return int(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a number")
    number, suffix = _split(value)
    unit = suffix[:-1] if suffix.endswith("B") else suffix
    if unit not in _COUNTS:
        raise ValueError(f"{value!r}: no suffix {suffix!r}; use k M G T (1000) or Ki Mi Gi Ti (1024)")
    scaled = number * _COUNTS[unit]
    if abs(scaled) >= 2**63:
        raise ValueError(f"{value!r} is too large")
    if scaled != int(scaled):
        raise ValueError(f"{value!r} is not a whole number")
    return int(scaled)


def parse_duration(value: object) -> int:
    """A duration in nanoseconds: "250ms", "2 s", "1min"; a bare number is seconds."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a duration")
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a duration")
    number, suffix = _split(value)
    unit = suffix or "s"
    if unit not in _DURATIONS:
        raise ValueError(f"{value!r}: no suffix {suffix!r}; use one of {' '.join(_DURATIONS)}")
    if abs(number) * _DURATIONS[unit] >= 2**63:
        raise ValueError(f"{value!r} is too large")
    return int(number * _DURATIONS[unit])


def parse_percent(value: object) -> float:
    """A share in percent, "2%" or 2, returned as 2.0."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a percentage")
    if isinstance(value, int | float):
        percent = float(value)
    elif isinstance(value, str):
        number, suffix = _split(value.strip().removesuffix("%"))
        if suffix:
            raise ValueError(f'{value!r} is not a percentage, as in "2%"')
        percent = float(number)
    else:
        raise ValueError(f"{value!r} is not a percentage")
    if not 0 < percent < 100:
        raise ValueError(f"{value!r} must lie between 0% and 100%")
    return percent


def parse_range(text: str) -> list[int]:
    """The points of "1..8", "10M..500M step 10M" or "1..64 x2"; both ends belong to it. Raises ValueError if
    it is none, goes down, or has no points."""
    match = re.fullmatch(r"\s*(.+?)\s*\.\.\s*(.+?)(?:\s+(?:(step)\s+(\S+)|x\s*(\S+)))?\s*", text)
    if match is None:
        raise ValueError(f'{text!r} is not a range; write "1..8", "10M..500M step 10M" or "1..64 x2"')
    low, high = parse_count(match.group(1)), parse_count(match.group(2))
    if low > high:
        raise ValueError(f"the range {text!r} is empty: {match.group(1)} is above {match.group(2)}")
    if match.group(5) is not None:
        return _geometric(text, low, high, match.group(5))
    step = parse_count(match.group(4)) if match.group(3) else 1
    if step <= 0:
        raise ValueError(f"the range {text!r} has a step of {step}; it must be above 0")
    if (high - low) // step >= _MOST_POINTS:
        raise ValueError(f"the range {text!r} has {(high - low) // step + 1:,} points; give a wider step")
    return list(range(low, high + 1, step))


def _geometric(text: str, low: int, high: int, factor_text: str) -> list[int]:
    factor, suffix = _split(factor_text)
    if suffix or factor <= 1:
        raise ValueError(f"the range {text!r} multiplies by {factor_text}; it must be a number above 1")
    if low <= 0:
        raise ValueError(f"the range {text!r} multiplies, so it must begin above 0")
    points = [low]
    exact = Decimal(low)
    steps = 0
    while True:
        exact *= factor
        steps += 1
        if exact > high:
            return points
        if int(exact) != points[-1]:
            points.append(int(exact))
        if steps > _MOST_POINTS:
            raise ValueError(f"the range {text!r} takes over {_MOST_POINTS:,} steps; give a larger factor")


def format_count(count: int) -> str:
    """The shortest exact spelling: 10M, 4096, 100k."""
    for suffix in ("T", "G", "M", "k"):
        if count and count % _COUNTS[suffix] == 0:
            return f"{count // _COUNTS[suffix]}{suffix}"
    return str(count)


def fitting(most: int) -> str:
    """The largest count of one digit and zeros that is not above `most`, spelt: "200k"."""
    step: int = 10 ** (len(str(most)) - 1)
    return format_count(most // step * step)


def format_bytes(count: float) -> str:
    """Bytes for people, in powers of 1000: "1.64 GB"."""
    for suffix, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{significant(count / size)} {suffix}"
    return f"{count:.0f} B"


def format_duration(nanoseconds: float) -> str:
    """A duration for people: "1 min 20 s", "1.25 s", "30 ms"."""
    seconds = round(nanoseconds / 1e9)
    if seconds >= 3600:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    if seconds >= 60:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    for suffix, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        # What rounds up to one of it is told in that.
        if nanoseconds >= 0.9995 * size:
            return f"{significant(nanoseconds / size)} {suffix}"
    return f"{nanoseconds:.0f} ns"


def spell_duration(nanoseconds: int) -> str:
    """The shortest exact spelling, for a file: "30s", "250ms"; parse_duration reads it back."""
    for suffix in ("s", "ms", "us"):
        if nanoseconds and nanoseconds % _DURATIONS[suffix] == 0:
            return f"{nanoseconds // _DURATIONS[suffix]}{suffix}"
    return f"{nanoseconds}ns"


SEED_NS = 1_483_228_800_000_000_000
"""2017-01-01, when the published data begin."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WANTED = 'must be a date, as 2017-01-01 or 2017-01-01T12:00:00, or "now"'


def parse_time(value: Any) -> int:
    """Nanoseconds since the epoch. Raises ValueError with a text for users."""
    if isinstance(value, str):
        if value.strip() == "now":
            return time.time_ns()
        try:
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            raise ValueError(f"{value!r} {_WANTED}") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, int) and not isinstance(value, bool) and value > 10**17:
        return value  # as the resolved scenario has it
    if not isinstance(value, datetime):
        raise ValueError(f"{value!r} {_WANTED}")
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    found = moment - _EPOCH
    nanoseconds = (found // timedelta(microseconds=1)) * 1000
    if nanoseconds < 0:
        raise ValueError(f"{value} lies before 1970, where no store begins")
    return nanoseconds


def spell_time(nanoseconds: int) -> str:
    """`2017-01-01T00:00:00Z`; with a fraction where there is one."""
    seconds, fraction = divmod(nanoseconds, 10**9)
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{fraction:09d}".rstrip("0") if fraction else "") + "Z"
