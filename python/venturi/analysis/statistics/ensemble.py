"""Samples of a posterior by an ensemble of walkers (Goodman & Weare 2010, CAMCoS 5(1): the stretch move).

For models with few parameters of which data tell some and leave others open: there the posterior is no
ellipse, and margins from a curvature at its top are wrong just where they matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["sample"]

SEED = 20191104
"""A fit made twice is the same fit."""
WALKERS = 64
"""Halves of them move together, each half along lines to the other."""
STRETCH = 2.0
STEPS = 900


def sample(
    density: Callable[[Array], Array], centre: Array, spread: Array, steps: int | None = None, thin: int = 10
) -> Array:
    """Draws (rows, k) from a density: logarithms of it for rows of parameters, up to a constant.

    Walkers begin around `centre` with the standard deviations `spread`, as wide as the posterior may be: of
    more than one top each gets its share, for walkers far below the others are set among them once. The first
    third of the steps (of `STEPS`, if nothing is said) is thrown away.
    """
    import numpy as np

    steps = steps or STEPS
    generator = np.random.default_rng(SEED)
    size = len(centre)
    at = centre + spread * generator.standard_normal((WALKERS, size))
    height = density(at)
    half = WALKERS // 2
    kept = []
    for step in range(steps):
        if step == steps // 6:
            _gather(at, height, size)
        for first in (0, half):
            own = slice(first, first + half)
            other = at[half - first : WALKERS - first][generator.integers(0, half, half)]
            z = ((STRETCH - 1) * generator.random(half) + 1) ** 2 / STRETCH
            tried = other + z[:, None] * (at[own] - other)
            new = density(tried)
            with np.errstate(invalid="ignore"):
                # From where nothing can be to there again is no move.
                chance = (size - 1) * np.log(z) + new - height[own]
            taken = np.log(generator.random(half)) < chance
            at[own][taken] = tried[taken]
            height[own][taken] = new[taken]
        if step >= steps // 3 and step % thin == 0:
            kept.append(at.copy())
    return np.concatenate(kept)


def _gather(at: Array, height: Array, size: int) -> None:
    """Walkers that are stuck where no draw would be are set on others."""
    import numpy as np

    # Half of chi-square with k degrees of freedom lies within this of the top, but for one in a million.
    lost = height < height.max() - (size / 2 + 5 * math.sqrt(size) + 10)
    good = np.flatnonzero(~lost)
    at[lost] = at[good[np.arange(int(lost.sum())) % len(good)]]
    height[lost] = height[good[np.arange(int(lost.sum())) % len(good)]]
