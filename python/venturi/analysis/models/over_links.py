"""From the cells of a run to laws over links: one for each setting of all other parameters.

Also the lines of a chart (links that differ in one respect only), and where one setting passes another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np

from venturi.analysis.cells import figures, probes, summary
from venturi.analysis.cells.summary import Cell
from venturi.analysis.models import link_law
from venturi.analysis.models.fits import payload_of, rates, unit_of
from venturi.analysis.models.link_law import LOSS_BASED, LinkLaw, Path, Setting
from venturi.analysis.statistics.intervals import Interval
from venturi.common import links
from venturi.common.links import WAYS, Link, Way
from venturi.common.units import Quantity
from venturi.targets.system import is_datagrams

AXIS = "link"
LEAST_LINKS = 4
"""Fewer links would not show four bounds."""
MORE = "measure more: --link 'unshaped,100mbit,100mbit 20ms,1gbit 5ms'"
MOST_GROUPS = 24
"""Settings that a report compares."""
WIDEST = 4.0
"""An interval whose ends are further apart, as a factor, is no prediction."""
TCP_FLIGHT = 3 << 20
"""Bytes of a connection in flight where nothing is set: Linux lets a receiver's buffer grow to 6 MiB (tcp(7),
tcp_rmem), of which half is payload."""
WINDOW_USED = 0.7
"""Of a window, before it is known better: it is opened again when a part of it has been read."""
ATTRIBUTES = ("delay", "rate", "loss")
GRID = 81


class Refused(ValueError):
    """Why the measured links are inconclusive; `hint`: which link would decide."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


@dataclass
class LinkFit:
    """The cells of one setting over several links."""

    operation: str
    where: dict[str, Any]
    cells: list[Cell]
    unit: str

    @cached_property
    def _made(self) -> LinkLaw | Refused:
        if len(self.links) < LEAST_LINKS:
            return Refused(f"only {len(self.links)} links were measured, {LEAST_LINKS} are needed", MORE)
        if any(cell.parameters.get("rate") for cell in self.cells):
            return Refused("an open loop's rate is its schedule's", "measure without --rate")
        observed = [(_path(c, links.parse(_text(c))), median(_rates(c, self.unit))) for c in self.cells]
        return link_law.fit(_setting(self.cells, self.unit), observed)

    @property
    def law(self) -> LinkLaw | None:
        return self._made if isinstance(self._made, LinkLaw) else None

    @property
    def refused(self) -> str:
        """Why there is no law."""
        return "" if isinstance(self._made, LinkLaw) else str(self._made)

    def path(self, link: Link, cross: float | None = None) -> Path:
        """`cross`: percent of the rate that others take; as measured where it is not said."""
        return _path(self.cells[0], link, cross)

    @property
    def control(self) -> str | None:
        """TCP's congestion control over all of its links; None where nobody knows."""
        return _control(self.cells[0])

    @property
    def way(self) -> Way:
        """Where the data go."""
        return links.way(self.operation)

    @cached_property
    def links(self) -> dict[str, Link]:
        """Those that were measured, by their texts."""
        return {text: links.parse(text) for text in dict.fromkeys(_text(cell) for cell in self.cells)}

    @property
    def limited_by(self) -> dict[str, str]:
        """The bound that limits each measured link; empty without a law."""
        law = self.law
        return {} if law is None else {t: law.bound(self.path(one)) for t, one in self.links.items()}

    def named(self, bound: str) -> str:
        """A bound in words."""
        held = held_by(self.cells[0])
        flight = {"answers": "waiting for answers", "tcp": "TCP's window"}.get(held, f"the {held}")
        return {
            "ends": "the ends' own rate",
            "link": "the link's rate",
            "flight": flight.replace("_", " "),
        }.get(bound, bound)

    def doubt(self, at: Path) -> str:
        """What is against a prediction; empty if nothing is."""
        unseen = "" if self.law is None else self.law.open(at)
        return f"no measured link was limited by {self.named(unseen)}" if unseen else ""

    def predict(self, link: Link, cross: float | None) -> Interval:
        """For a new median. Raises Refused if the measured links are inconclusive."""
        if isinstance(self._made, Refused):
            raise self._made
        # A link that names none has the host's.
        if link.control not in {one.control for one in self.links.values()} | {self.control}:
            name = link.control or "the congestion control of this host"
            raise Refused(f"no link was measured with {name}", "measure four links and more with it")
        at = self.path(link, cross)
        if at.loss and self.control not in LOSS_BASED and not any(one.loss for one in self._made.paths):
            raise Refused(
                "no link with losses was measured, and no law is known of them for this congestion control",
                f"measure one: --link '{link.text}'",
            )
        found = self._made.predict(at)
        if found.high > WIDEST * found.low:
            bare = self._made.open(at) == "ends" and all(one.rate for one in self.links.values())
            most = "or more" if math.isinf(found.high) else f"to {Quantity(found.high, unit=self.unit)}"
            raise Refused(
                f"from the {len(self.links)} measured links it may be "
                f"{Quantity(found.low, unit=self.unit)} {most}; "
                f"{self.doubt(at) or 'they are too far from the law'}",
                f"a link that would decide: --link {'unshaped' if bare else repr(link.text)}",
            )
        return found

    def without(self, text: str) -> LinkFit:
        """The same as if this link had not been measured."""
        return LinkFit(self.operation, self.where, [c for c in self.cells if _text(c) != text], self.unit)

    def rates(self, text: str) -> list[float]:
        """Of the good trials over a link."""
        return [rate for cell in self.cells if _text(cell) == text for rate in _rates(cell, self.unit)]

    def left_out(self, wanted: Iterable[str]) -> Iterator[tuple[str, float, Interval | None]]:
        """Each of these links with the measured median and its prediction from the others; None if they are
        inconclusive."""
        for text in wanted:
            rates = self.rates(text)
            try:
                found = self.without(text).predict(self.links[text], None)
            except Refused:
                found = None
            yield text, median(rates), found


def _text(cell: Cell) -> str:
    return str(cell.parameters[AXIS])


def build(cells: Sequence[Cell]) -> list[LinkFit]:
    """One for each operation, congestion control and setting of the others; empty where links did not vary.
    The fullest and fastest first."""
    out: list[LinkFit] = []
    over = [c for c in cells if c.main.known and _over(c)]
    for operation, every in summary.by_operation(over).items():
        unit = unit_of(every)
        differing = [n for n in summary.varying(every) if n != AXIS and not summary.follows(every, n, AXIS)]
        controls = len({_control(c) for c in every}) > 1
        groups = figures.by_key(
            ((*summary.setting(c, differing), str(_control(c))), c) for c in every if _rates(c, unit)
        )
        for group in groups.values():
            if len({_text(c) for c in group}) > 1:
                where = {n: group[0].parameters.get(n) for n in differing}
                if controls:
                    where["congestion"] = _control(group[0]) or "of this host"
                out.append(LinkFit(operation, where, group, unit))
    return sorted(out, key=lambda f: (-len(f.links), -max(c.main.value or 0.0 for c in f.cells)))


def _over(cell: Cell) -> bool:
    """Whether TCP went over a link of which all is known."""
    p = cell.parameters
    link = links.read_link(p.get(AXIS))
    # TCP does not carry datagrams, and its bounds are not theirs.
    if link is None or is_datagrams(str(p.get("target") or "")):
        return False
    return probes.shared_rate(p, links.way(cell.operation), math.inf) is not None


def _control(cell: Cell) -> str | None:
    """TCP's congestion control; None where nobody knows."""
    return probes.congestion_control(cell.records, links.parse(_text(cell)))


def _rates(cell: Cell, unit: str) -> list[float]:
    return [rate for rate in rates(cell, unit) if rate]


def _path(cell: Cell, link: Link, cross: float | None = None) -> Path:
    """A cell's path, were its link this one."""
    taken = cell.parameters.get("cross") if cross is None else cross
    way = links.way(cell.operation)
    own = math.inf if link.rate is None else link.rate[WAYS.index(way)]
    return link_law.path(link, way, float(taken or 0), probes.shared_rate(cell.parameters, way, own))


def _closed(cell: Cell) -> bool:
    """Whether a stream waits for the answer to a batch."""
    return cell.answered or (cell.operation == "put" and cell.parameters.get("ack") == "batch")


def held_by(cell: Cell) -> str:
    """What bounds what is in flight: `answers`; `window` or `send_buffer`, set by that parameter; or `tcp`,
    its own window."""
    if _closed(cell):
        return "answers"
    # The client's window bounds what it gets, its send buffer what it sends.
    name = "window" if cell.operation == "get" else "send_buffer"
    size = cell.parameters.get(name)
    return name if isinstance(size, int) and WINDOW_USED * size < TCP_FLIGHT else "tcp"


def _setting(cells: Sequence[Cell], unit: str) -> Setting:
    p = cells[0].parameters
    streams, lanes = int(p.get("streams") or 1), int(p.get("in_flight") or 1) if cells[0].answered else 1
    counted = "payload_bytes" if unit == "B/s" else "rows"
    ratios = [
        ratio
        for cell in cells
        for record in cell.records
        if (ratio := figures.quotient(record.counts[counted], figures.wire_bytes(record)))
    ]
    width = float(p.get("row_bytes") or 0)
    # Of rows that a database gets, what is on the wire is its dialect's.
    known = median(ratios) if ratios else 1.0 if unit == "B/s" or not width else 1 / width
    closed, held = _closed(cells[0]), held_by(cells[0])
    if closed:
        flight = streams * lanes * (_batch(cells, unit) or 1.0)
    else:
        flight = known * streams * (TCP_FLIGHT if held == "tcp" else WINDOW_USED * p[held])
    asked = p.get("duration_ns")
    return Setting(
        streams,
        known,
        1.1 if ratios else 1.3 if unit == "B/s" else 2.0,
        flight,
        closed and lanes == 1,
        _control(cells[0]),
        asked / 1e9 if asked else None,
        next((amount for c in cells if (amount := payload_of(c, unit))), None),
        starts=not closed,
        uncounted=0.0 if closed or not asked else (streams - 1) / 2 * _batch(cells, unit),
    )


def _batch(cells: Sequence[Cell], unit: str) -> float:
    """Payload, or rows, of a batch that arrived."""
    of = (summary.rows_a_batch(cell) for cell in cells)
    rows = next((n for n in of if n), float(cells[0].parameters.get("rows_per_batch") or 0))
    return rows if unit != "B/s" else rows * (cells[0].row_bytes or 0.0)


def attributes(link: Link, way: Way) -> dict[str, float | None]:
    """Delay in ms, rate in Mbit/s (None: none), losses in percent: what charts go along."""
    i = WAYS.index(way)
    rate = None if link.rate is None else link.rate[i] / 1e6
    return {"delay": link.round_trip_ns / 1e6, "rate": rate, "loss": 100 * link.loss[i]}


def lines(one: LinkFit, along: str) -> list[list[tuple[float, str]]]:
    """Links that differ in this attribute alone: its value and the link's text, from the least on. The
    longest line first; one of two links is one."""
    fields = {"delay": "round_trip_ns", "rate": "rate", "loss": "loss"}
    groups = figures.by_key(
        (repr(replace(link, **{fields[along]: getattr(Link(), fields[along])})), (value, text))
        for text, link in one.links.items()
        if (value := attributes(link, one.way)[along]) is not None
    )
    # Links that differ the other way only have one value.
    found = [sorted(group) for group in groups.values() if len({value for value, _ in group}) > 1]
    return sorted(found, key=lambda line: (-len(line), one.links[line[0][1]].text))


def moved(link: Link, along: str, value: float) -> Link:
    """The link with another delay (ms), rate (Mbit/s), loss (%)."""
    if along == "delay":
        return replace(link, round_trip_ns=round(value * 1e6))
    if along == "rate":
        return replace(link, rate=(value * 1e6, value * 1e6))
    return replace(link, loss=(value / 100, value / 100))


def grid(low: float, high: float, points: int = GRID) -> list[float]:
    """Even on a linear axis and dense enough near its begin."""
    step = (high - low) / (points - 1)
    even = [low + i * step for i in range(points)]
    begin = low if low > 0 else min(step, high) / 10
    return sorted({low, high, *even, *(begin * (high / begin) ** (i / (points - 1)) for i in range(points))})


@dataclass(frozen=True)
class Crossing:
    """Where one setting passes another along a line of links."""

    below: LinkFit
    """The faster one at the line's begin."""
    above: LinkFit
    parameter: str
    """In which they differ, alone."""
    along: str
    link: Link
    """The link at the begin of the line."""
    text: str
    """The same, as cells have it: a preset's name."""
    at: float
    low: float
    high: float
    """Between which it lies with 95 %."""
    rate: float


def crossings(made: Sequence[LinkFit]) -> list[Crossing]:
    """Those whose settings differ by more than the error of their laws at both ends of a line."""
    out = []
    for i, one in enumerate(made):
        for other in made[:i]:
            names = [n for n in one.where if one.where[n] != other.where.get(n)]
            if len(names) != 1 or one.operation != other.operation or one.law is None or other.law is None:
                continue
            for along in ATTRIBUTES[:2]:
                for line in lines(one, along):
                    # Some trials of a setting may have failed.
                    both = [point for point in line if point[1] in other.links]
                    if len({value for value, _ in both}) > 1:
                        out += _crossing(one, other, names[0], along, both)
    return out


def _crossing(
    one: LinkFit, other: LinkFit, parameter: str, along: str, line: Sequence[tuple[float, str]]
) -> list[Crossing]:
    assert one.law is not None and other.law is not None
    link = one.links[line[0][1]]
    at = grid(line[0][0], line[-1][0])
    lead, sure = np.empty(len(at)), np.empty(len(at))
    for i, value in enumerate(at):
        here = moved(link, along, value)
        own, others = one.law.predict(one.path(here)), other.law.predict(other.path(here))
        lead[i] = math.log(own.median) - math.log(others.median)
        sure[i] = math.hypot(*(math.log(f.high / f.low) / 2 for f in (own, others)))
    ends = lead[[0, -1]] / sure[[0, -1]]
    if not np.isfinite(lead).all() or abs(ends).min() < 1 or ends.prod() > 0:
        return []
    first, second = (one, other) if lead[0] > 0 else (other, one)
    lead *= np.sign(lead[0])
    cut = int(np.argmax(lead < 0))
    low = at[np.flatnonzero(lead[:cut] >= sure[:cut])[-1]]
    high = at[cut + int(np.flatnonzero(lead[cut:] <= -sure[cut:])[0])]
    value = (at[cut - 1] + at[cut]) / 2
    rate = one.law.rate(one.path(moved(link, along, value)))
    return [Crossing(first, second, parameter, along, link, line[0][1], value, low, high, rate)]
