"""Instants in scenarios: a date, a date with a time (UTC), or `now`."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

__all__ = ["SEED_NS", "parse_time", "spell_time"]

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
    whole, fraction = divmod(nanoseconds, 10**9)
    text = (_EPOCH + timedelta(seconds=whole)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{fraction:09d}".rstrip("0") if fraction else "") + "Z"
