"""The one type that prints every number with its unit and its margin.

Everything is stored in base units: bytes, nanoseconds, plain counts, and rates of these per second. A unit
with a prefix appears only here, when a number is printed. MB = 10^6 bytes and MiB = 2^20 bytes, always; the
tool whose "MB/s" are MiB/s is converted where it is imported, never here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "–"
"""What is printed for a number that was not measured."""

_SI = (("", 1.0), ("k", 1e3), ("M", 1e6))
_TIMES = {"ns": 1.0, "µs": 1e3, "ms": 1e6}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
# By base unit: how many base units one of each display unit is, in rising order.
_OFFERED: dict[str, dict[str, float]] = {
    "B": _BYTES,
    # Rates of bytes stay in MB/s whatever their size: figures of one table are compared, and a column that
    # changes its unit cannot be.
    "B/s": {"MB/s": 1e6},
    "ns": {**_TIMES, "s": 1e9},
    **{
        base: {f"{prefix}{base}": factor for prefix, factor in _SI}
        for base in ("rows/s", "rows", "points/s", "points", "batches/s")
    },
    "commits/s": {"commits/s": 1.0},
    "cores": {"cores": 1.0},
    "ns/B": {"s/GB": 1.0},
    "ns/row": {f"{unit}/row": factor for unit, factor in _TIMES.items()},
    "ns/point": {"ns/point": 1.0, "µs/point": 1e3},
    "fraction": {"%": 0.01},
    "": {"": 1.0},
}
_TYPED: dict[str, dict[str, float]] = {
    "B": _BINARY,
    "B/s": {f"{unit}/s": factor for unit, factor in {**_BYTES, **_BINARY}.items()},
    "ns": {"min": 60e9},
}
"""What a number is printed in only where the caller names it."""

LADDERS = {base: tuple(units) for base, units in _OFFERED.items()}
"""The units offered to a base unit, in rising order, if the caller names none."""
FACTORS = {
    unit: (base, factor)
    for units_by_base in (_TYPED, _OFFERED)
    for base, units in units_by_base.items()
    for unit, factor in units.items()
}
"""By display unit: its base unit, and how many base units one of it is."""

MAX_DIGITS = 4
"""Significant digits at most, however small the margin: no host repeats itself better than 1 in 10^4."""
DEFAULT_DIGITS = 4
"""Significant digits of a number whose margin is not known."""


def _exponent(x: float) -> int:
    return math.floor(math.log10(abs(x))) if x else 0


def decimals(value: float, low: float | None = None, high: float | None = None) -> int:
    """Decimal places worth printing of `value` (same unit as `low`, `high`). The half width of the margin is
    given two significant digits, as the GUM (JCGM 100:2008, 7.2.6) has it for an uncertainty; without a
    margin the value gets `DEFAULT_DIGITS`. Negative results are clipped to 0: digits before the point are
    never rounded away, because "2400" for 2431 reads as a measurement."""
    most = MAX_DIGITS - 1 - _exponent(value)
    if low is not None and high is not None and high > low:
        wanted = 1 - _exponent((high - low) / 2)
    else:
        wanted = DEFAULT_DIGITS - 1 - _exponent(value)
    return max(0, min(wanted, most))


def number(value: float | None, places: int) -> str:
    """`value` with thousands separators and `places` decimals; a dash when there is no number."""
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{value:,.{places}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text  # never "-0"


def pick_unit(base: str, values: Sequence[float | None]) -> str:
    """The display unit of base unit `base` which suits the largest of `values`; one unit for a whole column.
    Raises `ValueError` for a unit that nobody defined: a silent "2431 furlongs" would be believed."""
    if base not in LADDERS:
        raise ValueError(f"unknown base unit {base!r}; known: {', '.join(LADDERS)}")
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    ladder = LADDERS[base]
    best = ladder[0]
    for unit in ladder[1:]:
        if largest >= FACTORS[unit][1]:
            best = unit
    return best


@dataclass(frozen=True)
class Quantity:
    """A value in a base unit (`B`, `B/s`, `ns`, `rows/s`, `cores`, `fraction`, ...) with its interval. `low`
    and `high` are None when no margin is known; they are never invented. A `value` of None is a figure that
    was not measured and prints as a dash."""

    value: float | None
    low: float | None = None
    high: float | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        if self.unit not in LADDERS:
            raise ValueError(f"unknown base unit {self.unit!r}; known: {', '.join(LADDERS)}")

    @property
    def measured(self) -> bool:
        return self.value is not None and math.isfinite(self.value)

    @property
    def has_margin(self) -> bool:
        return self.measured and self.low is not None and self.high is not None

    def holds(self, value: float | None) -> bool | None:
        """Whether a value lies in the interval; None if one of them is not known."""
        low, high = self.low, self.high
        return None if value is None or low is None or high is None else low <= value <= high

    def over(self, value: float | None) -> float | None:
        """This over a value, less one; None if one of them is not known."""
        return None if not value or self.value is None else self.value / value - 1

    def _scaled(self, unit: str | None) -> tuple[str, float, float | None, float | None]:
        shown = unit if unit is not None else pick_unit(self.unit, [self.value])
        if shown not in FACTORS or FACTORS[shown][0] != self.unit:
            raise ValueError(f"{shown!r} is not a unit of {self.unit or 'a plain number'}")
        factor = FACTORS[shown][1]
        low = None if self.low is None else self.low / factor
        high = None if self.high is None else self.high / factor
        return shown, (self.value if self.value is not None else math.nan) / factor, low, high

    def number(self, unit: str | None = None) -> str:
        """The value alone, without its unit: for a column whose head carries the unit."""
        if not self.measured:
            return MISSING
        _, value, low, high = self._scaled(unit)
        return number(value, decimals(value, low, high))

    def margin(self, unit: str | None = None) -> str:
        """The interval alone, `2,390..2,470`; a dash if there is none."""
        if not self.has_margin:
            return MISSING
        _, value, low, high = self._scaled(unit)
        places = decimals(value, low, high)
        return f"{number(low, places)}..{number(high, places)}"

    def text(self, unit: str | None = None) -> str:
        """`2,431 MB/s [2,390..2,470]`, or without the bracket if no margin is known."""
        if not self.measured:
            return MISSING
        shown, *_ = self._scaled(unit)
        out = f"{self.number(unit)} {shown}".rstrip()
        return f"{out} [{self.margin(unit)}]" if self.has_margin else out

    def __str__(self) -> str:
        return self.text()

    def __format__(self, spec: str) -> str:
        """`f"{q:MiB/s}"` prints in that unit."""
        return self.text(spec or None)


def significant(value: float, digits: int = 3) -> str:
    """`10.3`, `0.04`, `1,550`: so many digits that count, and never an exponent of ten for a large number."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:.{digits}g}"


def count(value: float | int | None) -> str:
    """A parameter's count, short only where that loses nothing: `10M`, `3.9M`, but `4,096`."""
    if value is None or not math.isfinite(value):
        return MISSING
    for factor, suffix, places in ((10**9, "G", 3), (10**6, "M", 3), (10**3, "k", 1)):
        if abs(value) >= factor and value * 10**places % factor == 0:
            return f"{value / factor:,.{places}f}".rstrip("0").rstrip(".") + suffix
        if abs(value) >= factor:
            break
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def percent(share: float | None, places: int = 0) -> str:
    """A fraction as `78 %`."""
    return MISSING if share is None or not math.isfinite(share) else f"{share * 100:,.{places}f} %"


def p_value(value: float) -> str:
    """`p = 0.012`; below a thousandth only that: the tests' own approximations go no further."""
    return f"p = {value:.2g}" if value >= 0.001 else "p < 0.001"


def plural(number: float, noun: str) -> str:
    """`1 stream`, `1,024 streams`, `2.5 cores`, `3 batches`."""
    text = f"{number:,}" if isinstance(number, int) or number >= 1e6 else f"{number:g}"
    return f"{text} {noun}" + ("" if number == 1 else "es" if noun.endswith("ch") else "s")


def bit_rate(value: float, digits: int = 3) -> str:
    """`200 Mbit/s`, `2.5 Gbit/s`: bits/s of a link, for a figure that stands inside a sentence."""
    for unit, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        # What rounds up to one of the next unit is told in that.
        if value >= factor * (1 - 0.5 * 10**-digits):
            return f"{value / factor:.{digits}g} {unit}"
    return f"{value:.{digits}g} bit/s"
