"""Laws on synthetic figures with known parameters: the right one, its margins, refusals; and where
compression pays, by the law's own terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.draws import draws, slack
from support.laws import law_rates
from venturi.analysis.models import fit_words
from venturi.analysis.models.batch_cost import Packing
from venturi.analysis.statistics import difference, hockney, laws, regression, scaling
from venturi.analysis.statistics.laws import Refused
from venturi.report.figures import pipeline
from venturi.report.limits import packed

NOISE = 0.03
REPEATS = 5
AXIS = (1, 2, 3, 4, 6, 8, 12, 16)
CASES = (
    ("constant", {"C": 3e9}),
    ("linear", {"l": 1e9}),
    ("flat", {"l": 1e9, "C": 4.3e9}),
    ("flat", {"l": 1e9, "C": 3e9}),
    ("amdahl", {"l": 1e9, "s": 0.1}),
    ("amdahl", {"l": 1e9, "s": 0.4}),
    ("usl", {"l": 1e9, "s": 0.1, "k": 0.02}),
    ("usl", {"l": 1e9, "s": 0.02, "k": 0.01}),
)


def drawn(rng: np.random.Generator, name: str, p: dict[str, float], axis: Sequence[float] = AXIS) -> dict:
    rates = law_rates(name, p, axis)
    return {
        float(n): list(x * np.exp(NOISE * rng.standard_normal(REPEATS)))
        for n, x in zip(axis, rates, strict=True)
    }


def without_noise(name: str, p: dict[str, float]) -> dict:
    axis = range(1, 17)
    return {float(n): [float(x)] * REPEATS for n, x in zip(axis, law_rates(name, p, axis), strict=True)}


def test_the_right_law_is_chosen_in_95_of_100() -> None:
    rng = np.random.default_rng(1)
    right = [
        scaling.fit(drawn(rng, name, p)).chosen.name == name for name, p in CASES for _ in range(draws(40))
    ]
    assert np.mean(right) >= 0.95 - slack(len(right))


def test_margins_of_parameters_and_predictions_cover_the_truth() -> None:
    rng = np.random.default_rng(2)
    parameters, inside, beyond = [], [], []
    for name, p in CASES:
        for _ in range(draws(25, 12)):
            fitted = scaling.fit(drawn(rng, name, p), resamples=300)
            if fitted.chosen.name == name:
                parameters += [i.low <= p[k] <= i.high for k, i in fitted.intervals.items()]
            for n, kept in ((5.0, inside), (24.0, beyond)):
                interval = fitted.predict(n, REPEATS)
                new = np.median(law_rates(name, p, [n]) * np.exp(NOISE * rng.standard_normal(REPEATS)))
                kept.append(interval.low <= new <= interval.high)
    # 90 to 98 %, and what 150 draws themselves scatter; bench/models draws thousands.
    for covered in (parameters, inside, beyond):
        room = slack(len(covered))
        assert 0.90 - room <= np.mean(covered) <= 0.995 + room


def test_time_over_size_is_found_with_its_margins() -> None:
    rng = np.random.default_rng(3)
    a, b = 12e6, 2.4e9
    sizes = np.geomspace(3e6, 1e9, 10)
    covered = []
    for _ in range(draws(60, 3)):
        times = {
            float(n): list((a + n / b * 1e9) * np.exp(NOISE * rng.standard_normal(REPEATS))) for n in sizes
        }
        fitted = hockney.fit(times, resamples=300)
        found = fitted.intervals
        for key, value in (("a", a), ("b", b), ("n_half", a * b / 1e9)):
            covered.append(found[key].low <= value <= found[key].high)
        assert fitted.r_squared > 0.98
    room = slack(len(covered))
    assert 0.90 - room <= np.mean(covered) <= 0.995 + room


def test_one_disturbed_size_does_not_bend_the_line() -> None:
    sizes = np.linspace(1e8, 2e9, 20)
    times = {float(n): [5e6 + n / 2e9 * 1e9] for n in sizes}
    times[float(sizes[-1])] = [times[float(sizes[-1])][0] * 1.6]
    fitted = hockney.fit(times)
    assert fitted.b == pytest.approx(2e9, rel=0.01)
    assert fitted.a == pytest.approx(5e6, abs=2e6)


def test_a_start_up_is_never_negative() -> None:
    times = {float(n): [n / 2e9 * 1e9 * (1 - 1e7 / n)] for n in np.linspace(1e8, 1e9, 8)}
    fitted = hockney.fit(times)
    assert fitted.a == 0
    assert fitted.b > 0


@pytest.mark.parametrize("name", ["amdahl", "usl"])
def test_the_solver_finds_what_a_general_one_finds(name: str) -> None:
    from scipy.optimize import least_squares

    rng = np.random.default_rng(4)
    p = {"l": 1e9, "s": 0.15, "k": 0.01 if name == "usl" else 0.0}
    n = np.array(AXIS, dtype=float)
    rows = np.log(law_rates("usl", p, n))[None] + 0.05 * rng.standard_normal((20, len(n)))
    weight = rng.uniform(0.5, 2, len(n)) / 0.05**2
    b, total = laws.solve(name, n, rows, weight)
    for row, found in zip(rows, total, strict=True):

        def off(t: np.ndarray, row: np.ndarray = row) -> np.ndarray:
            below = 1 + t[1] * (n - 1) + (t[2] * n * (n - 1) if name == "usl" else 0)
            return (t[0] + np.log(n) - np.log(below) - row) * np.sqrt(weight)

        start = [row[0], 0.1, 0.01][: 3 if name == "usl" else 2]
        upper = [np.inf, 1.0, np.inf][: len(start)]
        general = least_squares(off, start, bounds=([-np.inf] + [0.0] * (len(start) - 1), upper))
        assert found <= 2 * general.cost * (1 + 1e-6)
    assert (b >= 0).all()


def test_the_corner_of_linear_then_flat_is_the_best_there_is() -> None:
    rng = np.random.default_rng(5)
    n = np.array(AXIS, dtype=float)
    rows = np.log(law_rates("flat", {"l": 1.0, "C": 5.0}, n))[None] + 0.05 * rng.standard_normal((10, len(n)))
    weight = np.ones(len(n))
    _, total = laws.solve("flat", n, rows, weight)
    slopes = np.linspace(-0.3, 0.3, 241)
    levels = np.log(5.0) + np.linspace(-0.3, 0.3, 241)
    for row, found in zip(rows, total, strict=True):
        grid = np.minimum(slopes[:, None, None] + np.log(n), levels[None, :, None])
        assert found <= ((row - grid) ** 2).sum(axis=2).min() + 1e-12


def test_what_is_refused() -> None:
    with pytest.raises(Refused, match=r"only 3 different values \(1, 2, 4\); a scaling law needs 4"):
        scaling.fit({1.0: [1.0], 2.0: [2.0], 4.0: [3.0]})
    with pytest.raises(Refused, match="only 2 different sizes"):
        hockney.fit({1.0: [1.0], 2.0: [2.0]})
    with pytest.raises(Refused, match="told apart"):
        hockney.fit({100.0: [1.0], 110.0: [1.1], 120.0: [1.2], 130.0: [1.3]})
    with pytest.raises(Refused, match="no law comes near"):
        scaling.fit({1.0: [100.0], 2.0: [10.0], 3.0: [300.0], 4.0: [20.0], 5.0: [500.0]})
    with pytest.raises(Refused, match="do not follow"):
        hockney.fit({1e6: [9e9], 1e7: [1e6], 1e8: [9e9], 1e9: [1e7]})


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_rates_that_are_none_are_refused(bad: float) -> None:
    with pytest.raises(Refused, match="positive and finite"):
        scaling.fit({1.0: [1.0], 2.0: [2.0], 3.0: [bad], 4.0: [4.0]})


def test_points_off_the_curve_widen_the_margins_and_are_told() -> None:
    rng = np.random.default_rng(6)
    quiet = drawn(rng, "amdahl", {"l": 1e9, "s": 0.1})
    # Each cell meets a state of its own, which its repeats share.
    shifted = {
        n: [v * f for v in values]
        for (n, values), f in zip(quiet.items(), (1, 1.12, 0.9, 1.1, 0.88, 1.1, 0.92, 1.08), strict=True)
    }
    calm, doubtful = scaling.fit(quiet), scaling.fit(shifted)
    assert not calm.doubtful
    assert "off the curve" in doubtful.doubtful

    def width(fitted: scaling.Scaling) -> float:
        interval = fitted.predict(10, REPEATS)
        return interval.high / interval.low

    assert width(doubtful) > 1.2 * width(calm)


def test_knee_and_peak_of_known_laws() -> None:
    exact = without_noise("flat", {"l": 1.0, "C": 8.0})
    fitted = scaling.fit(exact)
    assert fitted.chosen.name == "flat"
    assert fitted.knee.median == 8  # 0.9 x 8 = 7.2, the next whole number
    assert fitted.peak.median == pytest.approx(8.0, rel=1e-3)
    usl = {"l": 1.0, "s": 0.05, "k": 0.02}
    exact = without_noise("usl", usl)
    fitted = scaling.fit(exact)
    assert fitted.chosen.name == "usl"
    assert fitted.peak_at == round(math.sqrt(0.95 / 0.02))
    assert fitted.limit == pytest.approx(float(law_rates("usl", usl, [math.sqrt(0.95 / 0.02)])[0]), rel=1e-3)


def test_the_largest_is_left_out_and_predicted() -> None:
    fitted = scaling.fit(drawn(np.random.default_rng(7), "amdahl", {"l": 1e9, "s": 0.1}))
    held = fitted.held_out
    assert held is not None and held.n == 16
    assert held.inside and abs(held.error) < 0.1
    four = drawn(np.random.default_rng(7), "amdahl", {"l": 1e9, "s": 0.1}, (1, 2, 4, 8))
    assert scaling.fit(four).held_out is None


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_full_link_is_constant(repeats: int) -> None:
    """Four points that are all alike, with one trial each, are enough for that."""
    rng = np.random.default_rng(11)
    data = {n: list(11.7e6 * np.exp(0.002 * rng.standard_normal(repeats))) for n in (1.0, 2.0, 4.0, 8.0)}
    fitted = scaling.fit(data)
    assert fitted.chosen.name == "constant" and fitted.knee.median == 1
    assert fitted.limit == pytest.approx(11.7e6, rel=0.01)
    ahead = fitted.predict(16, repeats)
    assert ahead.low < 11.7e6 < ahead.high and ahead.high / ahead.low < 1.05


@pytest.mark.parametrize("rates", [(1, 1.2, 1.4, 1.5), (1, 1.9, 3, 4), (1, 2, 2, 2)])
def test_four_points_of_one_trial_tell_no_law_that_bends(rates: tuple[float, ...]) -> None:
    points = {n: [v] for n, v in zip((1.0, 2.0, 4.0, 8.0), rates, strict=True)}
    with pytest.raises(Refused, match="4 points are too few to choose; another value of the axis would do"):
        scaling.fit(points)
    repeated = {n: [v * f for f in (0.99, 1, 1.01)] for n, (v,) in points.items()}
    assert scaling.fit(repeated).chosen.name in ("amdahl", "flat")


@pytest.mark.parametrize("rates", [(1, 1.1, 1.3, 1.35), (1, 1.1, 1.3, 1.35, 1.4)])
def test_what_bends_a_little_is_not_constant(rates: tuple[float, ...]) -> None:
    """Repeats that agree better than the points do leave few observations, as single trials do."""
    points = {float(2**i): [v] for i, v in enumerate(rates)}
    if len(points) == 4:
        points = {n: [v * f for f in (0.99, 1, 1.01)] for n, (v,) in points.items()}
    fitted = scaling.fit(points)
    assert fitted.chosen.name == "amdahl" and fitted.deviation < 0.05


@pytest.mark.parametrize("count", [4, 6])
def test_points_to_and_fro_are_a_constant_with_a_margin(count: int) -> None:
    rates = (1.0, 0.9, 1.1, 0.95, 1.05, 0.93)[:count]
    fitted = scaling.fit({float(2**i): [v] for i, v in enumerate(rates)})
    assert fitted.chosen.name == "constant"
    ahead = fitted.predict(64, 1)
    assert ahead.low < min(rates) and max(rates) < ahead.high


def test_a_fit_made_twice_is_the_same() -> None:
    data = drawn(np.random.default_rng(8), "usl", {"l": 1e9, "s": 0.1, "k": 0.02})
    assert scaling.fit(data).predict(32) == scaling.fit(data).predict(32)


def test_moderated_spreads_agree_where_points_do() -> None:
    rng = np.random.default_rng(9)
    alike = regression.points({float(n): list(np.exp(0.03 * rng.standard_normal(5))) for n in range(1, 9)})
    assert np.ptp(alike.spread) / alike.spread.mean() < 0.8
    raw = np.array([0.01, 0.01, 0.01, 0.01, 0.2, 0.2, 0.2, 0.2])
    unlike = regression.points(
        {float(n): list(np.exp(s * rng.standard_normal(8))) for n, s in enumerate(raw, 1)}
    )
    assert unlike.spread[4:].min() > 3 * unlike.spread[:4].max()


def test_median_variance_is_that_of_the_median() -> None:
    rng = np.random.default_rng(10)
    for n in (1, 2, 5, 6, 10, 21):
        simulated = np.median(rng.standard_normal((60_000, n)), axis=1).var()
        assert regression.median_variance(n) == pytest.approx(simulated, rel=0.04)


def test_neighbours_that_are_alike_count_for_less() -> None:
    rng = np.random.default_rng(12)
    walk = np.zeros(50)
    for i in range(1, 50):
        walk[i] = 0.8 * walk[i - 1] + rng.standard_normal()
    assert difference.effective_number(walk) < 25
    assert difference.effective_number(rng.standard_normal(200)) > 150


def test_an_effect_is_found_and_not_invented() -> None:
    rng = np.random.default_rng(13)

    def blocks(step: float) -> list[dict[object, float]]:
        return [
            {
                level: base * (1 + step * i) * math.exp(0.01 * rng.standard_normal())
                for i, level in enumerate("abc")
            }
            for base in (1.0, 10.0, 100.0, 50.0, 5.0)
        ]

    found = difference.effect(blocks(0.1))
    assert found is not None and found.significant
    false = [difference.effect(blocks(0.0), draws=199) for _ in range(draws(150, 5))]
    assert np.mean([f is not None and f.significant for f in false]) < 0.1 + slack(len(false)) / 2
    assert difference.effect([{"a": 1.0, "b": 2.0}]) is None


# ---- compression


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
    # Cores that outrun plain sockets: it pays on every link.
    assert Packing("lz4", "rows", 9e9, 9e9, 3.0).pays_below(1, 2e9) == math.inf


def test_what_gets_hardly_smaller_is_recommended_on_no_link() -> None:
    """As `venturi tune`, which does not search it."""
    (line,) = packed([Packing("lz4", "rows", 4e9, 4e9, 1.002)])
    assert line == "rows: less than 5 % smaller by lz4, and faster by no more than that on any link"


def test_wide_and_fractional_numbers_in_lines() -> None:
    end = SimpleNamespace(end="server", workers=100, besides=(), waiting=())
    end.work = [SimpleNamespace(stage=stage, share=0.5) for stage in ("generate", "encode")]
    drawn = pipeline.ascii_lines(SimpleNamespace(sides=[end], narrowest=None, missing=None))  # type: ignore[arg-type]
    assert drawn[1].startswith("  100 workers encode ")
    knee = SimpleNamespace(median=450.3, low=396.0, high=572.075)
    fit = SimpleNamespace(axis="rows_per_batch", knee=knee)
    assert fit_words.knee(fit) == "knee (90 % of the peak) at rows_per_batch 450 [396..572]"  # type: ignore[arg-type]
