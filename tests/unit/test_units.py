"""Numbers as they are printed: unit, margin, digits."""

import math

import pytest

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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (10_000_000, "10M"),
        (3_900_000, "3.9M"),
        (4096, "4,096"),
        (1000, "1k"),
        (0, "0"),
        (1_234_567, "1,234,567"),
        (2_000_000_000, "2G"),
        (0.5, "0.5"),
        (None, "–"),
    ],
)
def test_count(value: float | None, expected: str) -> None:
    assert count(value) == expected


def test_percent() -> None:
    assert percent(0.784) == "78 %"
    assert percent(0.0123, 1) == "1.2 %"
    assert percent(None) == "–"


def test_format_spec_is_the_unit() -> None:
    assert f"{Quantity(2.0**30, unit='B'):GiB}" == "1.000 GiB"
