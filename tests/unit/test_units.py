"""Numbers as they are printed: unit, margin, digits; and as they are read: suffixes, ranges."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.mistakes import check
from venturi.common.suffixes import (
    format_count,
    format_duration,
    parse_count,
    parse_duration,
    parse_percent,
    parse_range,
    spell_duration,
)
from venturi.common.units import Quantity, count, decimals, number, percent, pick_unit, significant


def text(line: str) -> str:
    """A quantity: its value, perhaps its margin, and its unit; and perhaps the unit that it is printed in."""
    given, _, unit = line.partition(" as ")
    *numbers, base = given.split()
    known = [None if n == "none" else float(n) for n in numbers]
    return Quantity(*known, unit=base.replace("-", "")).text(unit or None)


def test_quantities() -> None:
    check("quantities", text, "texts")
    size = Quantity(2.0**30, unit="B")
    assert (f"{size:GiB}", size.number("MiB")) == ("1.000 GiB", "1,024")


def test_margin_decides_the_digits() -> None:
    # Half width 40: two digits of it stand before the point. Half width 0.4: they stand behind it.
    assert decimals(2431.0, 2390.0, 2470.0) == 0
    assert decimals(24.31, 23.9, 24.7) == 2
    assert decimals(2.431234, 2.4, 2.5) == 3
    # However small the margin, four digits at most; but none before the point is rounded away.
    assert decimals(2.4312345, 2.43123, 2.43124) == 3
    assert number(123456.0, decimals(123456.0)) == "123,456"


def test_no_negative_zero() -> None:
    assert number(-0.0001, 2) == "0.00"
    assert number(-0.01, 2) == "-0.01"


def test_unit_of_a_column_is_that_of_its_largest_value() -> None:
    assert pick_unit("ns", [900.0, 1.2e6, None]) == "ms"
    assert pick_unit("rows/s", [46e6, 3e5]) == "Mrows/s"
    assert pick_unit("B/s", [1.0, 1e12]) == "MB/s"
    assert pick_unit("ns", []) == "ns"


@pytest.mark.parametrize("unit", ["furlong", "MB/s"])
def test_unknown_base_unit_is_refused(unit: str) -> None:
    with pytest.raises(ValueError, match="unknown base unit"):
        Quantity(1.0, unit=unit)


def test_unit_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="not a unit of"):
        Quantity(1.0, unit="B/s").text("ms")


# ---- numbers with suffixes, and ranges of them


READ: dict[str, Callable[[str], object]] = {
    "count": parse_count, "duration": parse_duration, "percent": parse_percent, "range": parse_range,
    **{f"printed-{name}": (lambda text, shown=shown: shown(json.loads(text)))  # type: ignore[misc]
       for name, shown in (
           ("count", count), ("percent", percent), ("duration", format_duration), ("number", significant))},
}  # fmt: skip


def test_numbers_with_suffixes() -> None:
    def said(line: str) -> str:
        kind, _, given = line.partition(" ")
        try:
            return str(READ[kind](given))
        except ValueError as error:
            return f"error: {error}"

    check("numbers", said, "texts")
    assert (parse_count(7), parse_count(8.0), parse_duration(0.5), parse_percent(2)) == (7, 8, 5 * 10**8, 2.0)
    for wrong in ("", True, None, 1e30):
        with pytest.raises(ValueError):
            parse_count(wrong)
    with pytest.raises(ValueError):
        parse_percent(-1)
    assert (count(None), percent(None), percent(0.0123, 1)) == ("–", "–", "1.2 %")


def test_what_is_no_range() -> None:
    def said(text: str) -> str:
        with pytest.raises(ValueError) as caught:
            parse_range(text)
        return str(caught.value)

    check("ranges", said)


@given(st.integers(-(2**62), 2**62))
def test_counts_read_back(count: int) -> None:
    assert parse_count(format_count(count)) == count


@given(st.integers(0, 2**62))
def test_durations_read_back(nanoseconds: int) -> None:
    assert parse_duration(spell_duration(nanoseconds)) == nanoseconds


@given(st.integers(0, 10**6), st.integers(0, 10**4), st.integers(1, 500))
def test_a_range_holds_its_ends_and_nothing_beyond(low: int, width: int, step: int) -> None:
    points = parse_range(f"{low}..{low + width} step {step}")
    assert points[0] == low and low + width - step < points[-1] <= low + width
    assert {b - a for a, b in itertools.pairwise(points)} <= {step}


@given(st.integers(1, 1000), st.integers(1, 10**9), st.integers(2, 10))
def test_a_geometric_range_multiplies(low: int, width: int, factor: int) -> None:
    points = parse_range(f"{low}..{low + width} x{factor}")
    assert points[0] == low and points[-1] <= low + width < points[-1] * factor
    assert all(b == a * factor for a, b in itertools.pairwise(points))


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_count, parse_duration, parse_percent, parse_range):
        try:
            parse(text)
        except ValueError as error:
            assert str(error)
