"""From the cells of a run to laws over links: one for each setting of all other parameters.

What is fitted is found when it is asked for. Also along which lines a chart goes (links that differ in one
respect only), where one setting passes another, and from where on a window holds a flow back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from venturi.analysis.cells import figures, summary
from venturi.analysis.cells import links as of_cells
from venturi.analysis.cells.summary import Cell
from venturi.analysis.models import fits, link_law
from venturi.analysis.models.link_law import LinkLaw, Path, Setting
from venturi.analysis.statistics.intervals import Interval
from venturi.common import links
from venturi.common.links import WAYS, Link, Way
from venturi.common.units import Quantity
from venturi.targets.system import is_datagrams

__all__ = [
    "AXIS",
    "MOST_GROUPS",
    "Crossing",
    "LinkFit",
    "Refused",
    "attributes",
    "build",
    "crossings",
    "held_by",
    "knee",
    "lines",
]

AXIS = "link"
LEAST_LINKS = 4
"""Under so many a law would rest on what was known before."""
MORE = "measure more: --link 'unshaped,100mbit,100mbit 20ms,1gbit 5ms'"
MOST_GROUPS = 24
"""Of which a report tells: each takes a third of a second."""
WIDEST = 4.0
"""An interval whose ends are further apart, as a factor, is no prediction."""
TCP_FLIGHT = 3 << 20
"""Bytes of a connection in flight where nothing is set: Linux lets a receiver's buffer grow to 6 MiB (tcp(7),
tcp_rmem), of which half is payload."""
WINDOW_USED = 0.7
"""Of a window, before it is known better: it is opened again when a part of it has been read."""
ATTRIBUTES = ("delay", "rate", "loss")
GRID = 81
SURE = 0.95


class Refused(ValueError):
    """Why nothing can be told: a sentence for people; `hint`: which link would tell."""

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
    def _made(self) -> tuple[LinkLaw | None, str, str]:
        try:
            return _fitted(self.cells, self.unit), "", ""
        except Refused as reason:
            return None, str(reason), reason.hint

    @property
    def law(self) -> LinkLaw | None:
        return self._made[0]

    @property
    def refused(self) -> str:
        """Why there is none."""
        return self._made[1]

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

    def predict(self, link: Link, cross: float | None, repeats: int) -> Interval:
        """For the median of so many new trials. Raises Refused where the measured links cannot tell."""
        if self.law is None:
            raise Refused(self.refused, self._made[2])
        # A link that names none has the host's.
        named = {one.control for one in self.links.values()} | {self.control}
        if link.control not in named:
            raise Refused(
                f"no link was measured with {link.control or 'the congestion control of this host'}",
                "measure four links and more with it",
            )
        at = self.path(link, cross)
        if at.loss and self.control in (None, "bbr") and not any(one.loss for one in self.law.paths):
            raise Refused(
                "no link with losses was measured, and what they do is not known of this congestion control",
                f"measure one: --link '{replace(link, rate=self._rate(link)).text}'",
            )
        found = self.law.predict(at, repeats)
        if found.high > WIDEST * found.low:
            bound = self.law.bound(at)
            seen = bound in self.law.seen
            why = (
                "they lie too far from the law for a narrower interval"
                if seen
                else f"none of them shows {_OPEN[bound]}"
            )
            bare = bound == "ends" and any(one.rate is None for one in self.links.values())
            tells = "'{link}'" if seen or bare else _TELLS[bound]
            raise Refused(
                f"from the {len(self.links)} links that were measured it may be "
                f"{Quantity(found.low, unit=self.unit)} to {Quantity(found.high, unit=self.unit)}; {why}",
                f"a link that would tell: --link {tells.format(link=link.text)}",
            )
        return found

    def _rate(self, link: Link) -> tuple[float, float] | None:
        """A rate that was measured, rather than one that may be more than this host can do."""
        rates = [one.rate for one in self.links.values() if one.rate is not None]
        return link.rate if link.rate in rates or not rates else max(rates)

    def without(self, text: str) -> LinkFit:
        """The same as if this link had not been measured."""
        return LinkFit(self.operation, self.where, [c for c in self.cells if _text(c) != text], self.unit)

    def rates(self, text: str) -> list[float]:
        """Of the good trials over a link."""
        return [rate for cell in self.cells if _text(cell) == text for rate in _rates(cell, self.unit)]

    def left_out(self, wanted: Iterable[str]) -> Iterator[tuple[str, float, Interval | None]]:
        """Each of these links with the measured median, and what all others say of it; None where they cannot
        tell."""
        for text in wanted:
            rates = self.rates(text)
            try:
                found = self.without(text).predict(self.links[text], None, len(rates))
            except Refused:
                found = None
            yield text, median(rates), found


_OPEN = {
    "ends": "what the ends themselves do",
    "link": "what goes through the link",
    "flight": "how much may be in flight",
    "losses": "what losses do",
}
_TELLS = {
    "ends": "unshaped",
    "link": "'{link}'",
    "flight": "'{link}', or one with its round trip",
    "losses": "'{link}', or one with its losses",
}
"""By the bound that a prediction would stand on, and that the measured links leave open."""


def _text(cell: Cell) -> str:
    return str(cell.parameters[AXIS])


def build(cells: Sequence[Cell]) -> list[LinkFit]:
    """One for each operation, congestion control and setting of the others; empty where links did not vary.
    The fullest and fastest first."""
    out: list[LinkFit] = []
    over = [c for c in cells if c.main.known and _over(c)]
    for operation, every in summary.by_operation(over).items():
        unit = f"{figures.noun(operation)}s/s" if summary.in_rows(every) else "B/s"
        differing = [n for n in summary.varying(every) if n != AXIS and not fits.follows(every, n, AXIS)]
        controls = len({_control(c) for c in every}) > 1
        groups: dict[tuple[str, ...], list[Cell]] = {}
        for cell in every:
            if not _rates(cell, unit):
                continue
            key = tuple(repr(cell.parameters.get(n)) for n in differing)
            groups.setdefault((*key, str(_control(cell))), []).append(cell)
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
    link = links.known(p.get(AXIS))
    # Datagrams wait for nothing: TCP's bounds are none of theirs.
    if link is None or is_datagrams(str(p.get("target") or "")):
        return False
    return of_cells.shared(p, links.way(cell.operation), math.inf) is not None


def _control(cell: Cell) -> str | None:
    """TCP's congestion control; None where nobody knows."""
    return of_cells.control(cell.records, links.parse(_text(cell)))


def _rates(cell: Cell, unit: str) -> list[float]:
    def one(record: figures.Record) -> float | None:
        return figures.throughput(record) if unit == "B/s" else figures.per_second(record, "rows")

    return [rate for record in cell.records if (rate := one(record))]


def _fitted(cells: Sequence[Cell], unit: str) -> LinkLaw:
    texts = list(dict.fromkeys(map(_text, cells)))
    if len(texts) < LEAST_LINKS:
        raise Refused(
            f"only {len(texts)} links were measured, {LEAST_LINKS} are needed",
            MORE,
        )
    if any(cell.parameters.get("rate") for cell in cells):
        raise Refused("an open loop's rate is its schedule's", "measure without --rate")
    observed = [
        (_path(cell, links.parse(_text(cell))), rates) for cell in cells if (rates := _rates(cell, unit))
    ]
    return link_law.fit(_setting(cells, unit), observed)


def _path(cell: Cell, link: Link, cross: float | None = None) -> Path:
    """A cell's path, were its link this one."""
    taken = cell.parameters.get("cross") if cross is None else cross
    way = links.way(cell.operation)
    own = math.inf if link.rate is None else link.rate[WAYS.index(way)]
    return link_law.path(link, way, float(taken or 0), of_cells.shared(cell.parameters, way, own))


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
        if (ratio := figures.quotient(figures.numeric(record, "counts", counted), figures.wire_bytes(record)))
    ]
    width = float(p.get("row_bytes") or 0)
    # Of rows that a database gets, what is on the wire is its dialect's.
    known = median(ratios) if ratios else 1.0 if unit == "B/s" or not width else 1 / width
    closed, held = _closed(cells[0]), held_by(cells[0])
    sure = 0.5
    if closed:
        flight = streams * lanes * (_batch(cells, unit) or 1.0)
    elif held == "tcp":
        flight, sure = known * streams * TCP_FLIGHT, 0.8
    else:
        flight = known * streams * p[held] * WINDOW_USED
    amounts = [
        c.payload_bytes if unit == "B/s" else figures.numeric(c.records[0], "counts", "rows") for c in cells
    ]
    asked = p.get("duration_ns")
    alone = closed and lanes == 1
    return Setting(
        streams,
        known,
        0.08 if ratios else 0.3 if unit == "B/s" else 0.7,
        flight,
        sure,
        1.0 if alone else 2.0 if closed else 4.0,
        0.1 if alone else 0.6,
        _control(cells[0]),
        asked / 1e9 if asked else None,
        next((a for a in amounts if a), None),
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
    groups: dict[Any, list[tuple[float, str]]] = {}
    for text, link in one.links.items():
        value = attributes(link, one.way)[along]
        if value is None:
            continue
        buffer = link.buffer, link.jitter_ns, link.mtu, link.control
        rest = {"delay": (link.rate, link.loss), "rate": (link.round_trip_ns, link.loss)}
        groups.setdefault((rest.get(along, (link.rate, link.round_trip_ns)), buffer), []).append(
            (value, text)
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
    """All that are sure: at each end of a line one of both is the faster with 95 %."""
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
    import numpy as np

    assert one.law is not None and other.law is not None
    link = one.links[line[0][1]]
    one_law, other_law = one.law, other.law

    def faster(value: float) -> float:
        """How sure it is that `one` is the faster."""
        here = moved(link, along, value)
        return float(np.mean(one_law.rates(one.path(here)) > other_law.rates(other.path(here))))

    at = grid(line[0][0], line[-1][0])
    ends = faster(at[0]), faster(at[-1])
    if min(ends) > 1 - SURE or max(ends) < SURE:
        return []
    ahead = [ends[0], *map(faster, at[1:-1]), ends[1]]
    first, second = (one, other) if ahead[0] > 0.5 else (other, one)
    if first is other:
        ahead = [1 - part for part in ahead]
    cut = next(i for i, part in enumerate(ahead) if part < 0.5)
    low = max((v for v, part in zip(at, ahead, strict=True) if part >= 0.975), default=at[0])
    high = min((v for v, part in zip(at, ahead, strict=True) if part <= 0.025 and v >= low), default=at[-1])
    value = (at[cut - 1] + at[cut]) / 2
    (rate,) = one.law.along([one.path(moved(link, along, value))])
    low, high = min(low, value), max(high, value)
    return [Crossing(first, second, parameter, along, link, line[0][1], value, low, high, rate)]


def knee(one: LinkFit, link: Link) -> Interval | None:
    """The round trip (s) from which on what is in flight holds this link back: where F / T falls under what
    ends and link carry. None where that was not seen."""
    law = one.law
    return law.knee(one.path(link)) if law is not None and "flight" in law.seen else None
