"""Numbers with suffixes, and ranges of them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venturi.common.suffixes import (
    format_count,
    format_duration,
    parse_count,
    parse_duration,
    parse_percent,
    parse_range,
    spell_duration,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("10M", 10_000_000),
        ("100k", 100_000),
        ("1.5G", 1_500_000_000),
        ("64Ki", 65_536),
        ("4GiB", 4 * 2**30),
        ("10 MB", 10_000_000),
        ("4_096", 4096),
        ("1e3", 1000),
        (7, 7),
        (7.0, 7),
    ],
)
def test_counts(text: object, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize(
    "text", ["", "M", "10Q", "1.5", "0.5k1", "1..2", "10M..", True, None, "nan", "1e400", 1e30]
)
def test_what_is_no_count(text: object) -> None:
    with pytest.raises(ValueError):
        parse_count(text)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("250ms", 250_000_000), ("2 s", 2 * 10**9), ("1min", 60 * 10**9), (3, 3 * 10**9), (0.5, 5 * 10**8)],
)
def test_durations(text: object, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("8..1", "is empty: 8 is above 1"),
        ("1..8 step 0", "a step of 0"),
        ("1..8 step -1", "a step of -1"),
        ("1..8 x1", "must be a number above 1"),
        ("0..8 x2", "must begin above 0"),
        ("1..", "is not a range"),
        ("1..1G", "1,000,000,000 points"),
        ("1..8 by 2", "is not a number"),
    ],
)
def test_what_is_no_range(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_range(text)


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
