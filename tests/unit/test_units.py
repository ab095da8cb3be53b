"""Numbers as they are printed: unit, margin, digits; and as they are read: suffixes, ranges."""

from __future__ import annotations

import itertools
import math

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
from venturi.common.units import Quantity, count, decimals, number, percent, pick_unit


@pytest.mark.parametrize(
    ("quantity", "unit", "expected"),
    [
        (Quantity(2.431e9, 2.39e9, 2.47e9, "B/s"), None, "2,431 MB/s [2,390..2,470]"),
        (Quantity(2.431e9, 2.39e9, 2.47e9, "B/s"), "MiB/s", "2,318 MiB/s [2,279..2,356]"),
        (Quantity(2.431e9, unit="B/s"), None, "2,431 MB/s"),
        (Quantity(0.78, unit="fraction"), None, "78.00 %"),
        (Quantity(0.78, 0.77, 0.80, "fraction"), None, "78.0 % [77.0..80.0]"),
        (Quantity(1250.0, 1200.0, 1300.0, "ns"), None, "1.250 µs [1.200..1.300]"),
        (Quantity(131072.0, unit="B"), "KiB", "128.0 KiB"),
        (Quantity(None, unit="B/s"), None, "–"),
        (Quantity(math.nan, unit="B/s"), None, "–"),
        (Quantity(0.0, unit="B/s"), None, "0.000 MB/s"),
        (Quantity(7.0, 7.0, 7.0, ""), None, "7.000 [7.000..7.000]"),
    ],
)
def test_text(quantity: Quantity, unit: str | None, expected: str) -> None:
    assert quantity.text(unit) == expected


def test_mb_is_decimal_and_mib_binary() -> None:
    assert f"{Quantity(2.0**30, unit='B'):GiB}" == "1.000 GiB"
    assert Quantity(1e6, unit="B").number("MB") == "1.000"
    assert Quantity(2.0**20, unit="B").number("MiB") == "1.000"
    assert Quantity(2.0**20, unit="B").number("MB") == "1.049"


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


def test_count() -> None:
    shown = {10_000_000: "10M", 3_900_000: "3.9M", 4096: "4,096", 1000: "1k", 0: "0", 1_234_567: "1,234,567"}
    shown |= {2_000_000_000: "2G", 0.5: "0.5", None: "–"}
    assert {value: count(value) for value in shown} == shown


def test_percent() -> None:
    assert percent(0.784) == "78 %"
    assert percent(0.0123, 1) == "1.2 %"
    assert percent(None) == "–"


# ---- numbers with suffixes, and ranges of them


COUNTS: dict[object, int] = {
    **{"10M": 10_000_000, "100k": 100_000, "1.5G": 1_500_000_000, "64Ki": 65_536, "4GiB": 4 * 2**30},
    **{"10 MB": 10_000_000, "4_096": 4096, "1e3": 1000, 7: 7, 8.0: 8},
}


def test_counts() -> None:
    assert {text: parse_count(text) for text in COUNTS} == COUNTS
    for text in ("", "M", "10Q", "1.5", "0.5k1", "1..2", "10M..", True, None, "nan", "1e400", 1e30):
        with pytest.raises(ValueError):
            parse_count(text)


def test_durations() -> None:
    spelled = {"250ms": 250_000_000, "2 s": 2 * 10**9, "1min": 60 * 10**9, 3: 3 * 10**9, 0.5: 5 * 10**8}
    assert {text: parse_duration(text) for text in spelled} == spelled


def test_percentages() -> None:
    assert parse_percent("2%") == parse_percent(2) == parse_percent(" 2.0 % ") == 2.0
    for text in ("0%", "100%", "2s", "x", -1):
        with pytest.raises(ValueError):
            parse_percent(text)


def test_ranges() -> None:
    assert parse_range("1..8") == list(range(1, 9))
    assert parse_range("10M..500M step 10M") == [n * 10_000_000 for n in range(1, 51)]
    assert len(parse_range("100k..3.9M step 200k")) == 20
    assert parse_range("1..64 x2") == [1, 2, 4, 8, 16, 32, 64]
    assert parse_range("1..100 x 10") == [1, 10, 100]
    assert parse_range("1..6 x1.5") == [1, 2, 3, 5]
    assert parse_range("4..4") == [4]


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


def test_durations_for_people() -> None:
    spelled = [format_duration(n) for n in (5, 30e6, 1.25e9, 60e9, 80e9, 3600e9, 5400e9)]
    assert spelled == ["5 ns", "30 ms", "1.25 s", "1 min", "1 min 20 s", "1 h", "1 h 30 min"]
