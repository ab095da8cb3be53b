"""What a cell that was not measured would do, with an interval.

Along one parameter at a time: by the scaling law over it, for a size by Hockney's line, for a link by what
bounds a flow over links. Where several fits apply, the one is taken that leaves least open, and named; over
links each setting has its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from venturi.analysis.cells import summary
from venturi.analysis.cells.summary import Cell
from venturi.analysis.models import fit_words, fits, over_links
from venturi.analysis.models.fits import AxisFit, SizeFit
from venturi.common import links
from venturi.common.errors import VenturiError
from venturi.common.suffixes import parse_percent
from venturi.common.units import Quantity

DEFAULT_REPEATS = 5


@dataclass(frozen=True)
class Prediction:
    """A predicted median. `throughput` is in its unit with the 95 % prediction interval."""

    operation: str
    axis: str
    value: float | str
    """A number, or a link's text."""
    throughput: Quantity
    law: str
    basis: str
    """Which measurements it stands on."""
    measured: tuple[float | str, ...]
    """The smallest and largest value of the axis that was measured; of links all."""
    repeats: int
    extrapolation: float = 1.0
    """How far outside of what was measured, as a factor; 1 inside."""
    doubtful: str = ""
    laws: dict[str, float] = field(default_factory=dict)
    """Akaike weights of the laws that the interval is averaged over."""
    parameters: dict[str, Any] = field(default_factory=dict, repr=False)
    """Of the predicted cell."""
    where: dict[str, Any] = field(default_factory=dict)
    """The setting, where each has a prediction of its own."""

    @property
    def statements(self) -> tuple[str, ...]:
        """What is predicted, `get with 32 streams: 2,404 MB/s [...] ...`, from what, what is against it."""
        made = [
            f"{_what(self.operation, self.axis, self.value, self.where)}: {self.throughput} "
            f"(95 % for the median of {self.repeats} new trials)",
            f"{self.law}, from {self.basis}",
        ]
        if self.extrapolation > 1:
            made.append(f"outside what was measured: {self.extrapolation:.3g} times as far as {self._edge}")
        if self.doubtful:
            made.append(f"doubtful: {self.doubtful}")
        return tuple(made)

    @property
    def _edge(self) -> str:
        if isinstance(self.value, str):
            return "any of the links"
        low, high = map(float, self.measured)
        return fit_words.several(self.axis, high if self.value > high else low)

    @property
    def sentence(self) -> str:
        return "; ".join(self.statements)


def _outside(value: float, low: float, high: float) -> float:
    return max(value / high, low / value, 1.0)


def _what(operation: str, axis: str, value: float | str, where: Mapping[str, Any]) -> str:
    """`get with 32 streams`, `get with link 25gbit 0.5ms, 4 streams`."""
    told = f"{operation} with {fit_words.several(axis, value)}"
    return f"{told}, {fit_words.setting(where)}" if where else told


def predict(
    cells: Sequence[Cell],
    wanted: Mapping[str, Any],
    repeats: int = DEFAULT_REPEATS,
    left_out: list[str] | None = None,
) -> list[Prediction]:
    """One prediction an operation (over links: a setting) for the cell with these parameters; what is not
    named stays as measured.

    `left_out` takes the reasons of those for which there is none, where others have one.

    Raises `VenturiError` for parameters that do not exist, that lie outside of what was measured in more than
    one respect, or for which no law could be fitted, with the reason.
    """
    out: list[Prediction] = []
    reasons: list[VenturiError] = []
    operations = summary.by_operation([m for m in cells if summary.speed(m, cells).known])
    if not operations:
        raise VenturiError("no trial of this run succeeded, so there is nothing to predict from")
    asked = wanted.get("operation")
    if asked is not None and asked not in operations:
        raise VenturiError(f"operation={asked}: the run has {', '.join(operations)}")
    for operation, members in operations.items():
        if asked not in (None, operation):
            continue
        try:
            named = {k: v for k, v in wanted.items() if k != "operation"}
            if over_links.AXIS in named:
                out += _over_links(operation, members, named, repeats, reasons)
            else:
                out.append(_one(operation, members, named, repeats))
        except VenturiError as error:
            reasons.append(
                error
                if len(operations) == 1 or asked
                else VenturiError(f"{operation}: {error.message}", error.exit_code, error.hint)
            )
    if not out:
        raise reasons[0]
    if left_out is not None:
        left_out += [reason.message for reason in reasons]
    return out


def _one(operation: str, cells: Sequence[Cell], wanted: Mapping[str, Any], repeats: int) -> Prediction:
    known = sorted({n for m in cells for n in m.parameters})
    for name in wanted:
        if name not in known:
            raise VenturiError(f"{name}: the trials of this run have no such parameter", hint=_known(known))
    axis = _axis(cells, wanted)
    fixed = {k: v for k, v in wanted.items() if k != axis and not summary.follows(cells, k, axis)}
    chosen = [m for m in cells if all(_same(m.parameters.get(k), v) for k, v in fixed.items())]
    if not chosen:
        shown = ", ".join(f"{k}={v}" for k, v in fixed.items())
        raise VenturiError(
            f"no {operation} was measured with {shown}",
            hint="a prediction goes along one parameter; the others must be measured ones",
        )
    value = float(wanted[axis])
    if not value > 0 or not math.isfinite(value):
        raise VenturiError(f"{axis}={value:g}: must be above 0")
    return (
        _by_size(operation, chosen, axis, value, repeats)
        if axis in fits.SIZES
        else _by_law(operation, chosen, axis, value, repeats)
    )


def _over_links(
    operation: str,
    cells: Sequence[Cell],
    wanted: Mapping[str, Any],
    repeats: int,
    reasons: list[VenturiError],
) -> list[Prediction]:
    """One for each setting; `reasons` takes those for which the measured links are inconclusive."""
    try:
        text = links.canonical(wanted[over_links.AXIS])
    except ValueError as error:
        raise VenturiError(str(error)) from None
    fixed = {k: v for k, v in wanted.items() if k not in (over_links.AXIS, "cross")}
    known = sorted({n for m in cells for n in m.parameters})
    for name in fixed:
        if name not in known:
            raise VenturiError(f"{name}: the trials of this run have no such parameter", hint=_known(known))
    over = [m for m in cells if m.parameters.get(over_links.AXIS) is not None]
    if not over:
        raise VenturiError(
            f"no {operation} of this run went over a link that was made for it",
            hint='venturi run --target flight://local --link "unshaped,100mbit,100mbit 20ms,1gbit 5ms"',
        )
    chosen = [m for m in over if all(_same(m.parameters.get(k), v) for k, v in fixed.items())]
    if not chosen:
        shown = ", ".join(f"{k}={v}" for k, v in fixed.items())
        raise VenturiError(
            f"no {operation} over a link was measured with {shown}",
            hint="a prediction goes along one parameter; the others must be measured ones",
        )
    cross = None
    if "cross" in wanted:
        # Any can be predicted, best from what was measured with the nearest.
        cross = _cross(wanted["cross"])
        off = [abs(float(m.parameters.get("cross") or 0) - cross) for m in chosen]
        chosen = [m for m, far in zip(chosen, off, strict=True) if far == min(off)]
    made = over_links.build(chosen)
    if not made:
        raise VenturiError(
            f"only one link was measured, {over_links.LEAST_LINKS} are needed",
            hint=over_links.MORE,
        )
    link = links.parse(text)
    taken = {} if cross is None else {"cross": cross or None}
    out = []
    for one in made:
        try:
            found = one.predict(link, cross)
        except over_links.Refused as reason:
            head = f"{fit_words.setting(one.where)}: " if one.where and len(made) > 1 else ""
            reasons.append(VenturiError(f"{head}inconclusive: {reason}", hint=reason.hint))
            continue
        law, at = one.law, one.path(link, cross)
        assert law is not None
        out.append(
            Prediction(
                operation,
                over_links.AXIS,
                text,
                found.quantity(one.unit),
                one.named(law.bound(at)),
                f"{len(one.links)} links; {sum(m.good for m in one.cells)} trials",
                tuple(one.links),
                round(median(m.good for m in one.cells)),
                law.outside(at),
                one.doubt(at),
                {},
                dict(one.cells[0].parameters) | {over_links.AXIS: text} | taken,
                one.where | taken,
            )
        )
    return out


def _cross(value: Any) -> float:
    try:
        return 0.0 if value in (None, 0, "0%") else parse_percent(value)
    except ValueError as error:
        raise VenturiError(f"cross={value}: {error}") from None


def _known(names: Iterable[str]) -> str:
    return f"parameters are: {', '.join(names)}"


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return float(found) == float(wanted)
    return bool(found == wanted) or (found is None and wanted in ("none", None))


def _axis(cells: Sequence[Cell], wanted: Mapping[str, Any]) -> str:
    """The one parameter along which to go: that whose value was not measured."""
    numeric = [k for k, v in wanted.items() if isinstance(v, int | float) and not isinstance(v, bool)]
    new = [k for k, v in wanted.items() if not any(_same(m.parameters.get(k), v) for m in cells)]
    # threads = streams moves along.
    new = [
        k
        for k in new
        if not any(o != k and o in new[: new.index(k)] and summary.follows(cells, k, o) for o in new)
    ]
    if len(new) > 1:
        raise VenturiError(
            f"{' and '.join(new)} both lie outside of what was measured",
            hint="a prediction goes along one parameter; measure the other one",
        )
    if new and new[0] not in numeric:
        shown = wanted[new[0]]
        raise VenturiError(f"{new[0]}={shown} was not measured, and there is no law over {new[0]}")
    varied = [k for k in numeric if len({repr(m.parameters.get(k)) for m in cells}) > 1]
    found = new or sorted(varied, key=lambda k: k in fits.SIZES) or numeric
    if not found:
        raise VenturiError("nothing to predict along", hint="name a value, as in --streams 32")
    return found[0]


def _by_law(operation: str, cells: Sequence[Cell], axis: str, value: float, repeats: int) -> Prediction:
    made = fits.build(cells, over=axis)
    usable = [s for s in made.over(axis) if s.fit is not None]
    if not usable:
        refused = [s.refused for s in made.over(axis)] + made.notes
        reason = refused[0] if refused else f"{axis} was measured with one value only"
        raise VenturiError(
            f"no prediction over {axis}: {reason}", hint="venturi fit RUN shows what could be fitted"
        )
    basis = max(usable, key=fits._rank)
    assert basis.fit is not None
    # Of pooled settings an observation is the median of a whole cell: so is what is predicted.
    interval = basis.fit.predict(value, 1 if basis.pooled else repeats)
    low, high = float(basis.fit.points.x[0]), float(basis.fit.points.x[-1])
    return Prediction(
        operation,
        axis,
        value,
        interval.quantity(basis.unit),
        basis.fit.chosen.title,
        _basis(basis),
        (low, high),
        repeats,
        _outside(value, low, high),
        basis.fit.doubtful,
        {law.name: round(law.weight, 4) for law in basis.fit.laws},
        _parameters(basis.cells, axis, value, cells),
    )


def _basis(one: AxisFit | SizeFit) -> str:
    head = fit_words.head(one)
    trials = sum(m.good for m in one.cells)
    return f"{head}; {trials} trials"


def _by_size(operation: str, cells: Sequence[Cell], size: str, value: float, repeats: int) -> Prediction:
    made = fits.build(cells, over=size)
    usable = [s for s in made.sizes if s.fit is not None]
    if not usable:
        reason = made.sizes[0].refused if made.sizes else f"{size} was measured with one value only"
        raise VenturiError(f"no prediction over {size}: {reason}")
    # Of several parallelisms the fastest, as everywhere.
    basis = max(usable, key=lambda s: s.fit.b if s.fit else 0.0)
    fit = basis.fit
    assert fit is not None
    unit = f"{fit.unit}/s"
    ratios = [
        p / float(m.parameters[size])
        for m in basis.cells
        if (p := fits._payload(m, unit)) and m.parameters[size]
    ]
    payload = value * sorted(ratios)[len(ratios) // 2]
    spent = fit.predict(payload, repeats)
    rate = [payload / t * 1e9 for t in (spent.median, spent.high, spent.low)]
    sizes = [float(m.parameters[size]) for m in basis.cells]
    return Prediction(
        operation,
        size,
        value,
        Quantity(rate[0], rate[1], rate[2], unit),
        "Hockney",
        _basis(basis),
        (min(sizes), max(sizes)),
        repeats,
        _outside(value, min(sizes), max(sizes)),
        "",
        {},
        _parameters(basis.cells, size, value, cells),
    )


def _parameters(basis: Sequence[Cell], axis: str, value: float, every: Sequence[Cell]) -> dict[str, Any]:
    """The predicted cell: the largest measured one of the basis, with the axis (and what follows it) moved
    on."""
    nearest = max(
        basis,
        key=lambda m: (
            float(m.parameters.get(axis) or 0),
            float(m.parameters.get("rows_per_stream") or m.parameters.get("bytes_per_stream") or 0),
        ),
    )
    whole = int(value) if float(value).is_integer() else value
    out = dict(nearest.parameters) | {axis: whole}
    for name in ("streams", "threads"):
        if name != axis and all(m.parameters.get(name) == m.parameters.get(axis) for m in every):
            out[name] = whole
    return out
