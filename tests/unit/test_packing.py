"""Where compression pays: the law by its own terms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venturi.analysis.models.packing import Packing
from venturi.report.text.limits import packed

RATES = st.floats(1e6, 1e11)
WAYS = st.tuples(st.integers(1, 64), RATES, st.none() | st.integers(1, 128))


def plain(link: float, streams: int, socket: float, cores: int | None) -> float:
    return min(link, streams * socket, math.inf if cores is None else cores * socket / 2)


@given(RATES, RATES, st.floats(1.001, 100), WAYS, st.floats(0.01, 100))
def test_it_pays_below_the_crossing_and_not_above(
    encode: float, decode: float, ratio: float, way: tuple[int, float, int | None], times: float
) -> None:
    packing = Packing("zstd", "rows", encode, decode, ratio)
    crossing = packing.pays_below(*way)
    link = times * (crossing if math.isfinite(crossing) else way[1])
    gain = packing.rate(link, *way) / plain(link, *way)
    if times < 0.999 or math.isinf(crossing):
        assert gain >= 1
    elif times > 1.001:
        assert gain <= 1 + 1e-9


@given(RATES, RATES, st.floats(0.5, 1.0), WAYS, RATES)
def test_what_does_not_get_smaller_never_pays(
    encode: float, decode: float, ratio: float, way: tuple[int, float, int | None], link: float
) -> None:
    packing = Packing("lz4", "noise", encode, decode, ratio)
    assert packing.pays_below(*way) == 0
    assert packing.rate(link, *way) <= plain(link, *way) * (1 + 1e-9)


def test_terms() -> None:
    """Of known figures: 400 MB/s in, 1,000 MB/s out, four times smaller, sockets of 2,000 MB/s."""
    packing = Packing("zstd", "rows", 400e6, 1000e6, 4.0)
    assert packing.pays_below() == 400e6
    # The sender's thread writes to its socket, too: 1 / (1/400 + 1/8000).
    assert packing.through_cores(1, 2e9) == pytest.approx(380.95e6, rel=1e-4)
    assert packing.through_cores(4, 2e9) == pytest.approx(4 * 380.95e6, rel=1e-4)
    # Both ends on two cores: 2 / (1/400 + 1/1000 + 2/8000).
    assert packing.through_cores(4, 2e9, cores=2) == pytest.approx(533.3e6, rel=1e-3)
    assert packing.rate(12.5e6) == 50e6
    # The sender's core all of its time, the receiver's four tenths.
    assert packing.cores_busy() == pytest.approx(1.4)
    assert packing.cores_busy(4, 2e9, cores=2) == pytest.approx(2)
    # Cores that outrun plain sockets: it pays on every link.
    assert Packing("lz4", "rows", 9e9, 9e9, 3.0).pays_below(1, 2e9) == math.inf


def test_what_gets_hardly_smaller_is_recommended_on_no_link() -> None:
    """As `venturi tune`, which does not search it."""
    (line,) = packed([Packing("lz4", "rows", 4e9, 4e9, 1.002)])
    assert line == "rows: less than 5 % smaller by lz4, and faster by no more than that on any link"
