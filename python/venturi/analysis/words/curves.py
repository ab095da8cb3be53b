"""What may be said of throughput along an axis, in words. `spell` names a point: `4 streams`."""

from __future__ import annotations

from collections.abc import Callable

from venturi.analysis.statistics.curve import GAIN, Curve
from venturi.common.units import percent

__all__ = ["end", "linear", "undecided"]

Spell = Callable[[float], str]
USUAL_REPEATS = 5


def linear(curve: Curve, spell: Spell) -> str:
    return f"linear up to {spell(curve.linear)}" if curve.linear is not None else ""


def end(curve: Curve, spell: Spell, moved: str = "") -> str:
    """How it goes on at the end of the axis; `moved` is what the highest point moves."""
    rate = f"{moved}; " if moved else ""
    last, peak = curve.ns[-1], curve.ns[curve.peak]
    if curve.rising:
        return f"still rising at {spell(last)} ({rate}{curve.step} from {spell(curve.ns[curve.start])})"
    if curve.loss is not None:
        lost = str(curve.loss).lstrip("-")
        at = f"{spell(peak)} ({moved})" if moved else spell(peak)
        like = f", not told apart from {spell(curve.rival)}" if curve.rival is not None else ""
        return f"highest with {at}{like}; {spell(last)} lose {lost} of that"
    if curve.flat is not None:
        return f"flat from {spell(curve.flat)} ({curve.rest} at most beyond)"
    return undecided(curve, spell)


def undecided(curve: Curve, spell: Spell) -> str:
    """That it cannot be told, why, and what would tell."""
    first, last = spell(curve.ns[curve.start]), spell(curve.ns[-1])
    step = f"{last} against {first} cannot be told: {curve.step}"
    low, high = curve.step.low, curve.step.high
    if low is not None and high is not None and (low > 0 or high < 0):
        # Which is more is told; a gain, or a loss, is a claim of 5 %.
        moved = f"{last} move {'more' if low > 0 else 'less'} than {first}"
        step = f"{moved}, but whether by over {percent(GAIN)} cannot be told: {curve.step}"
    if not curve.told:
        few = "one trial of each gives" if len(curve.logs) == 1 else f"{len(curve.logs)} trials of each give"
        if curve.failed:
            whole = len(curve.logs)
            return f"{step}, because only {whole} of {whole + curve.failed} repeats went well at every point"
        return f"{step}, because {few} no margin"
    why = f", repeats differ by ±{percent(curve.scatter)}" if curve.scatter is not None else ""
    would = f"; about {curve.telling} repeats would tell" if curve.telling is not None else ""
    return f"{step} (repeat by repeat, 95 % CI){why}{would}"
