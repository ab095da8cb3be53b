"""What a cell that was not measured would do, with an interval.

Along one parameter at a time: by the scaling law over it, for a size by Hockney's line, for a link by what
bounds a flow over links. Where several fits apply, the one is taken that leaves least open, and named; over
links each setting has its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from venturi.analysis.cells import summary
from venturi.analysis.cells.figures import is_number
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


def _what(operation: str, axis: str, value: float | str, where: Mapping[str, Any]) -> str:
    """`get with 32 streams`, `get with link 25gbit 0.5ms, 4 streams`."""
    what = f"{operation} with {fit_words.several(axis, value)}"
    return f"{what}, {fit_words.setting(where)}" if where else what


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
    named = {k: v for k, v in wanted.items() if k != "operation"}
    if (asked := wanted.get("operation")) is not None:
        if asked not in operations:
            raise VenturiError(f"operation={asked}: the run has {', '.join(operations)}")
        operations = {asked: operations[asked]}
    for operation, members in operations.items():
        try:
            if over_links.AXIS in named:
                out += _over_links(operation, members, named, reasons)
            else:
                out.append(_along(operation, members, named, repeats))
        except VenturiError as error:
            one = len(operations) == 1
            text = error.message if one else f"{operation}: {error.message}"
            reasons.append(VenturiError(text, error.exit_code, error.hint))
    if not out:
        raise reasons[0]
    if left_out is not None:
        left_out += [reason.message for reason in reasons]
    return out


def _chosen(cells: Sequence[Cell], fixed: Mapping[str, Any], what: str) -> list[Cell]:
    """The cells with these values."""
    found = [m for m in cells if all(_same(m.parameters.get(k), v) for k, v in fixed.items())]
    if not found:
        shown = ", ".join(f"{k}={v}" for k, v in fixed.items())
        raise VenturiError(
            f"no {what} was measured with {shown}",
            hint="a prediction goes along one parameter; the others must be measured ones",
        )
    return found


def _check_names(cells: Sequence[Cell], names: Iterable[str]) -> None:
    known = sorted({n for m in cells for n in m.parameters})
    for name in names:
        if name not in known:
            raise VenturiError(
                f"{name}: the trials of this run have no such parameter",
                hint=f"parameters are: {', '.join(known)}",
            )


def _along(operation: str, cells: Sequence[Cell], wanted: Mapping[str, Any], repeats: int) -> Prediction:
    _check_names(cells, wanted)
    axis = _axis(cells, wanted)
    fixed = {k: v for k, v in wanted.items() if k != axis and not summary.follows(cells, k, axis)}
    chosen = _chosen(cells, fixed, operation)
    value = float(wanted[axis])
    if not value > 0 or not math.isfinite(value):
        raise VenturiError(f"{axis}={value:g}: must be above 0")
    by = _by_size if axis in fits.SIZES else _by_law
    return by(operation, chosen, axis, value, repeats)


def _over_links(
    operation: str, cells: Sequence[Cell], wanted: Mapping[str, Any], reasons: list[VenturiError]
) -> Iterator[Prediction]:
    """One for each setting; `reasons` takes those for which the measured links are inconclusive."""
    try:
        text = links.canonical(wanted[over_links.AXIS])
    except ValueError as error:
        raise VenturiError(str(error)) from None
    fixed = {k: v for k, v in wanted.items() if k not in (over_links.AXIS, "cross")}
    _check_names(cells, fixed)
    over = [m for m in cells if m.parameters.get(over_links.AXIS) is not None]
    if not over:
        raise VenturiError(
            f"no {operation} of this run went over a link that was made for it",
            hint='venturi run --target flight://local --link "unshaped,100mbit,100mbit 20ms,1gbit 5ms"',
        )
    chosen = _chosen(over, fixed, f"{operation} over a link")
    cross = None
    if "cross" in wanted:
        # Any can be predicted, best from what was measured with the nearest.
        cross = _cross(wanted["cross"])
        off = [abs(float(m.parameters.get("cross") or 0) - cross) for m in chosen]
        chosen = [m for m, away in zip(chosen, off, strict=True) if away == min(off)]
    made = over_links.build(chosen)
    if not made:
        needed = f"{over_links.LEAST_LINKS} are needed"
        raise VenturiError(f"only one link was measured, {needed}", hint=over_links.MORE)
    link = links.parse(text)
    taken = {} if cross is None else {"cross": cross or None}
    for one in made:
        try:
            found = one.predict(link, cross)
        except over_links.Refused as reason:
            head = f"{fit_words.setting(one.where)}: " if one.where and len(made) > 1 else ""
            reasons.append(VenturiError(f"{head}inconclusive: {reason}", hint=reason.hint))
            continue
        law, at = one.law, one.path(link, cross)
        assert law is not None
        yield Prediction(
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


def _cross(value: Any) -> float:
    try:
        return 0.0 if value in (None, 0, "0%") else parse_percent(value)
    except ValueError as error:
        raise VenturiError(f"cross={value}: {error}") from None


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return float(found) == float(wanted)
    return bool(found == wanted) or (found is None and wanted in ("none", None))


def _axis(cells: Sequence[Cell], wanted: Mapping[str, Any]) -> str:
    """The one parameter along which to go: that whose value was not measured."""
    numeric = [k for k, v in wanted.items() if is_number(v)]
    new: list[str] = []
    for name, value in wanted.items():
        measured = any(_same(m.parameters.get(name), value) for m in cells)
        # threads = streams moves along.
        if not measured and not any(summary.follows(cells, name, other) for other in new):
            new.append(name)
    if len(new) > 1:
        raise VenturiError(
            f"{' and '.join(new)} both lie outside of what was measured",
            hint="a prediction goes along one parameter; measure the other one",
        )
    if new and new[0] not in numeric:
        raise VenturiError(f"{new[0]}={wanted[new[0]]} was not measured, and there is no law over {new[0]}")
    varied = [k for k in numeric if len({repr(m.parameters.get(k)) for m in cells}) > 1]
    found = new or sorted(varied, key=lambda k: k in fits.SIZES) or numeric
    if not found:
        raise VenturiError("nothing to predict along", hint="name a value, as in --streams 32")
    return found[0]


def _refused(axis: str, reasons: Sequence[str]) -> VenturiError:
    reason = reasons[0] if reasons else f"{axis} was measured with one value only"
    return VenturiError(
        f"no prediction over {axis}: {reason}", hint="venturi fit RUN shows what could be fitted"
    )


def _by_law(operation: str, cells: Sequence[Cell], axis: str, value: float, repeats: int) -> Prediction:
    made = fits.build(cells, over=axis)
    usable = [s for s in made.over(axis) if s.fit is not None]
    if not usable:
        raise _refused(axis, [s.refused for s in made.over(axis)] + made.notes)
    basis = max(usable, key=fits.rank)
    fit = basis.fit
    assert fit is not None
    # Of pooled settings an observation is the median of a whole cell: so is what is predicted.
    found = fit.predict(value, 1 if basis.pooled else repeats).quantity(basis.unit)
    measured = float(fit.points.x[0]), float(fit.points.x[-1])
    weights = {law.name: round(law.weight, 4) for law in fit.laws}
    basics = operation, axis, value, found, fit.chosen.title
    return _prediction(basics, basis, measured, cells, repeats, fit.doubtful, weights)


def _by_size(operation: str, cells: Sequence[Cell], size: str, value: float, repeats: int) -> Prediction:
    made = fits.build(cells, over=size)
    usable = [s for s in made.sizes if s.fit is not None]
    if not usable:
        raise _refused(size, [s.refused for s in made.sizes])
    # Of several parallelisms the fastest, as everywhere.
    basis = max(usable, key=lambda s: s.fit.b if s.fit else 0.0)
    fit = basis.fit
    assert fit is not None
    amounts = [(fits.payload_of(m, basis.unit), m.parameters[size]) for m in basis.cells]
    ratios = sorted(payload / float(at) for payload, at in amounts if payload and at)
    payload = value * ratios[len(ratios) // 2]
    spent = fit.predict(payload, repeats)
    rates = [payload / t * 1e9 for t in (spent.median, spent.high, spent.low)]
    found = Quantity(rates[0], rates[1], rates[2], f"{fit.unit}/s")
    sizes = [float(m.parameters[size]) for m in basis.cells]
    basics = operation, size, value, found, "Hockney"
    return _prediction(basics, basis, (min(sizes), max(sizes)), cells, repeats)


def _prediction(
    basics: tuple[str, str, float, Quantity, str],
    basis: AxisFit | SizeFit,
    measured: tuple[float, float],
    every: Sequence[Cell],
    repeats: int,
    doubtful: str = "",
    weights: Mapping[str, float] | None = None,
) -> Prediction:
    """From a fit. Its cell: the largest measured one, with the axis (and what follows it) moved on."""
    _, axis, value, _, _ = basics
    low, high = measured
    largest = max(
        basis.cells,
        key=lambda m: (
            float(m.parameters.get(axis) or 0),
            float(m.parameters.get("rows_per_stream") or m.parameters.get("bytes_per_stream") or 0),
        ),
    )
    whole = int(value) if float(value).is_integer() else value
    following = {
        name: whole
        for name in ("streams", "threads")
        if all(m.parameters.get(name) == m.parameters.get(axis) for m in every)
    }
    return Prediction(
        *basics,
        f"{fit_words.head(basis)}; {sum(m.good for m in basis.cells)} trials",
        measured,
        repeats,
        max(value / high, low / value, 1.0),
        doubtful,
        dict(weights or {}),
        {**largest.parameters, axis: whole, **following},
    )
