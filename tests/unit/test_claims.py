"""What is said of a curve: how often it is false, and each of the words' cases by its numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.claim import count
from support.draws import draws, slack
from venturi.analysis.statistics import speeds
from venturi.analysis.statistics.curve import Curve


def rounds(truth: dict[float, float], *off: float) -> list[dict[float, float]]:
    """A round each, whose first point lies off by so much, and the others by ever less."""
    return [{n: x * math.exp(by / (i + 1)) for i, (n, x) in enumerate(truth.items())} for by in off]


def of(truth: dict[float, float], *off: float) -> Curve:
    found = Curve.of(rounds(truth, *off))
    assert found is not None
    return found


STEADY = (0.01, -0.01, 0.005, -0.005, 0.0)


def test_false_claims_are_rare_and_clear_truths_are_told() -> None:
    found = count(draws(2000), seed=16)
    assert sum(found.false.values()) <= 0.01 * found.sweeps, found.false
    for kind, clear in found.clear.items():
        assert clear > 0.05 * found.sweeps
        assert found.missed[kind] <= 0.1 * clear, (kind, found.missed)


def test_shapes() -> None:
    assert of({1: 1, 2: 2, 4: 3.9, 8: 7.6}, *STEADY).rising
    level = of({1: 1, 2: 2, 4: 3.9, 8: 3.92}, *STEADY)
    assert (level.linear, level.flat, level.rising, level.loss) == (4, 4, False, None)
    assert of({1: 1, 2: 1.001, 4: 0.999}, *STEADY).flat == 1
    falling = of({1: 1, 2: 2, 4: 3.9, 8: 3.0}, *STEADY)
    assert falling.loss is not None and falling.loss.value == pytest.approx(3.0 / 3.9 - 1)


def test_the_last_point_is_no_place_to_be_flat_from() -> None:
    found = of({1: 1, 2: 2, 4: 2.3}, 0.3, -0.3, 0.2, -0.2, 0.0)
    assert found.flat is None and not found.rising
    assert found.telling is not None and found.telling > 5


def test_a_short_step_tells_nothing() -> None:
    """From 7 to 8 is a fifth of a doubling: a little there would be much of a doubling."""
    found = of({1: 1, 2: 2, 4: 3, 7: 4.0, 8: 4.1}, *STEADY)
    assert found.ns[found.before] == 4 and found.rising


def test_one_trial_each_tells_nothing() -> None:
    found = of({1: 1, 2: 2, 4: 4}, 0.0)
    assert (found.linear, found.flat, found.rising, found.told) == (None, None, False, False)
    assert str(found.step) == "+100 %"


def test_a_round_that_lacks_a_point_is_left_out() -> None:
    found = Curve.of([*rounds({1: 1, 2: 2}, *STEADY), {1: 100.0}])
    assert found is not None and len(found.logs) == 5
    assert Curve.of([{1: 1.0}, {2: 1.0}]) is None


def test_what_all_points_of_a_round_share_is_no_doubt() -> None:
    """The whole machine at two speeds, a round each: the step is as sure as ever."""
    found = Curve.of([{n: n * speed for n in (1.0, 2.0, 4.0)} for speed in (1, 3, 1, 3, 1.01)])
    assert found is not None and found.rising and found.linear == 4


def test_single_trials_that_are_several_times_slower_are_told() -> None:
    """As of an import where one trial in ten takes 5 to 8 times as long."""
    cells = [[1.0, 1.02, 0.98, 1.01, 0.99] for _ in range(8)]
    assert speeds.single(cells) is None
    for cell, factor in zip(cells, (5.0, 8.0, 6.0, 7.0), strict=False):
        cell[2] /= factor
    found = speeds.single(cells)
    assert found is not None and (found.slow, found.trials) == (4, 40)
    assert found.least == pytest.approx(5.1, abs=0.1) and found.most == pytest.approx(8.1, abs=0.1)
    # A tail without a gap is one speed.
    assert speeds.single([[1.0, 0.8, 0.6, 0.45, 0.35], [1.0, 0.9, 0.7, 0.5, 0.4]]) is None


def test_two_groups_of_repeats_are_told_and_noise_is_none() -> None:
    fast, slow = [1.0, 1.02, 0.99, 1.01, 1.03, 0.98, 1.0], [0.5, 0.51, 0.49, 0.505]
    found = speeds.two_groups(fast + slow)
    assert found is not None and (found.slow, found.trials) == (4, 11)
    assert found.least == pytest.approx(2.0, abs=0.05)
    generator, tries = np.random.default_rng(9), draws(500)
    for spread in (0.02, 0.2, 0.4):
        drawn = (np.exp(generator.normal(0, spread, int(generator.integers(10, 30)))) for _ in range(tries))
        told = sum(speeds.two_groups(list(map(float, one))) is not None for one in drawn)
        assert told / tries <= 0.01 + slack(tries, 0.01)
