"""Random tables come back from real databases as they went in: written by Venturi, read by its streams,
compared by sums and, where types are kept, row by row.
"""

from __future__ import annotations

import tempfile
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.read import file_of, get, good
from venturi.servers.local import duckdb_library
from venturi.targets.system import FILES

pytestmark = pytest.mark.usefixtures("core")

Values = st.SearchStrategy[Any]


def _whole(bits: int, signed: bool = True) -> Values:
    half = 2 ** (bits - 1)
    return st.integers(-half, half - 1) if signed else st.integers(0, 2 * half - 1)


# What every one of the databases can hold: text without a zero byte, dates of the years that MySQL knows,
# numbers that are not infinite. Minus zero and floats of 32 bits are in the tests of those that keep them.
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_TIME = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31))
TYPES: list[tuple[pa.DataType, Values]] = [
    (pa.int16(), _whole(16)),
    (pa.int32(), _whole(32)),
    (pa.int64(), _whole(64)),
    (pa.uint64(), _whole(64, signed=False)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0)),
    (pa.string(), _TEXT),
    (pa.binary(), st.binary(max_size=20)),
    (pa.date32(), st.dates(date(1000, 1, 1), date(9999, 12, 31))),
    (pa.timestamp("us"), _TIME),
    (
        pa.decimal128(18, 4),
        st.integers(-(10**18) + 1, 10**18 - 1).map(lambda units: Decimal(units).scaleb(-4)),
    ),
]


@st.composite
def tables(draw: st.DrawFn, types: list[tuple[pa.DataType, Values]]) -> pa.Table:
    rows = draw(st.integers(1, 30))
    chosen = draw(st.lists(st.sampled_from(types), min_size=1, max_size=8))
    columns = [
        pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)
        for kind, values in chosen
    ]
    return pa.table(columns, names=[f"c{at}" for at in range(len(columns))])


def comes_back(url: str, table: pa.Table, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = file_of(Path(folder) / "rows.arrow", table)
        record = get(url, data=data, streams=2, rows=40, batch=7, **options)
        achieved = record["verification"]["achieved"] if record["error"] is None else "sums"
        good(record, 80, achieved)
        assert achieved in ("sums", "checksum")


NOT_HELD = {"sqlite": [pa.uint64()], "firebird": [pa.uint64(), pa.timestamp("us")]}
"""Integers have a sign there, and Firebird's seconds four digits."""
WAYS: list[tuple[str, dict[str, str]]] = [
    ("postgres", {"format": "copy"}),
    ("postgres", {"format": "rows"}),
    ("mariadb", {"format": "binary"}),
    ("mariadb", {"format": "text"}),
    ("sqlite", {}),
    ("duckdb", {}),
    ("firebird", {}),
]


@pytest.mark.parametrize(
    ("system", "options"), WAYS, ids=["-".join([way, *more.values()]) for way, more in WAYS]
)
def test_rows_come_back(
    request: pytest.FixtureRequest, tmp_path: Path, system: str, options: dict[str, str]
) -> None:
    in_process = system in FILES
    url = f"{system}://{tmp_path}/rows.db" if in_process else request.getfixturevalue(system).url
    if system == "duckdb":
        options = {"library": duckdb_library()}

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(tables([it for it in TYPES if it[0] not in NOT_HELD.get(system, ())]))
    def holds(table: pa.Table) -> None:
        comes_back(url, table, **options)

    holds()
