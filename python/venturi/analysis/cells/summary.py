"""From the trials of a run to its cells: medians with margins, shares of the ceiling, counts of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from venturi.analysis.cells.ceilings import COMMITS, Limits, Moved, binding, share, why_passed
from venturi.analysis.cells.figures import (
    ENDS,
    IN_ROWS,
    ROW_UNITS,
    SHOWN_PERCENTILES,
    cores,
    cpu_figures,
    is_good,
    is_number,
    main_unit,
    middle_shares,
    noun,
    per_second,
    percentile,
    quotient,
    stage_shares,
    steady_main,
    throughput,
    wire_bytes,
)
from venturi.analysis.statistics.intervals import Interval, median_interval
from venturi.common.units import MISSING, Quantity
from venturi.engine.record import Trial
from venturi.targets.parameters import PARAMETERS
from venturi.targets.system import servers_batches

# Parameters in the order in which tables and labels name them; those of other tools follow by name.
PARAMETER_ORDER = tuple(PARAMETERS)
# Derived from others, so they never tell two cells apart; the seed only says which random rows were moved.
NOT_DISTINGUISHING = frozenset({"row_bytes", "seed", "operation"})


def rows_a_batch(cell: Cell) -> float | None:
    """How many rows the batches had that arrived, on average; None where that was not counted."""
    counted = (quotient(r.counts.rows, r.counts.batches) for r in cell.records)
    found = _interval(counted)
    return found.median if found else None


def ends_by_itself(cell: Cell) -> bool:
    """Whether its trials end when the server has sent all that it holds, which no option makes longer."""
    asked, took = cell.parameters.get("duration_ns"), cell.interval.value
    return servers_batches(cell.parameters) and (asked is None or took is None or took < asked)


@dataclass(frozen=True)
class Cell:
    """One point of the matrix with what its trials say. Quantities are medians over the good trials."""

    name: str
    parameters: dict[str, Any]
    trials: int
    """Measured trials, warm-ups not counted."""
    good: int
    failed: int
    interrupted: int
    warmups: int
    throughput: Quantity
    rows: Quantity
    ceiling: Quantity
    """The lowest of `ceilings`."""
    share: Quantity
    """Of the lowest ceiling: throughput over it, both of one round where it was probed in rounds."""
    payload_bytes: float | None
    records: list[Trial] = field(repr=False, default_factory=list)
    """The good trials themselves."""
    ceilings: dict[str, Quantity] = field(default_factory=dict)
    """Every measured limit that applies, by name: "raw TCP", "engine", "memory copy", "zstd encode", ..."""
    binding: str | None = None
    """The name of the lowest, of which most was reached."""
    shares: dict[str, Quantity] = field(default_factory=dict)
    """Of each of `ceilings`."""
    passed: frozenset[str] = frozenset()
    """Those that the cell has passed: references, and no limits."""
    paired: frozenset[str] = frozenset()
    """Those probed between the trials, round by round."""

    # What follows is computed when asked for: a table shows it of a few cells among thousands.

    @cached_property
    def steady(self) -> Quantity:
        """In what the cell is counted in: bytes, or of upserts rows, of ingests points a second."""
        return _quantity(map(steady_main, self.records), main_unit(self.parameters.get("operation")))

    @cached_property
    def batches(self) -> Quantity:
        return _quantity((per_second(r, "batches") for r in self.records), "batches/s")

    def limit(self, name: str) -> Quantity:
        """One of `ceilings` as people count it: commits a second, of one connection; others in bytes."""
        found = self.ceilings[name]
        batches, speed = self.batches.value, self.throughput.value
        if name != COMMITS or not batches or not speed:
            return found
        p = self.parameters
        each = batches / speed / float(p.get("streams") or 1) / float(p.get("in_flight") or 1)
        value, low, high = (None if v is None else v * each for v in (found.value, found.low, found.high))
        return Quantity(value, low, high, "commits/s")

    @cached_property
    def interval(self) -> Quantity:
        return _quantity((r.times.interval_ns for r in self.records), "ns")

    @cached_property
    def setup(self) -> Quantity:
        return _quantity((r.times.setup_ns for r in self.records), "ns")

    @cached_property
    def cpu(self) -> dict[str, Quantity]:
        """CPU seconds a second, that is cores, by end."""
        return {end: _quantity(cpu_figures(self.records, end, cores), "cores") for end in ENDS}

    @cached_property
    def per_cpu(self) -> dict[str, Quantity]:
        """Payload bytes, or of upserts rows, of ingests points, per CPU-second, by end."""
        unit = main_unit(self.parameters.get("operation"))
        counted = "rows" if unit in ROW_UNITS else "payload_bytes"

        def moved(record: Trial, cpu: float | None) -> float | None:
            return quotient(record.counts[counted], cpu, 1e9)

        return {end: _quantity(cpu_figures(self.records, end, moved), unit) for end in ENDS}

    @cached_property
    def latency(self) -> dict[float, Quantity]:
        """By percentile; without those that are not known."""
        found = {p: _quantity((percentile(r, p) for r in self.records), "ns") for p in SHOWN_PERCENTILES}
        return {p: one for p, one in found.items() if one.known}

    @cached_property
    def stages(self) -> dict[str, dict[str, float]]:
        """Share of each stage in what its end accounted for, by end."""
        return {end: middle_shares([stage_shares(r, end) for r in self.records]) for end in ENDS}

    @cached_property
    def verified(self) -> dict[str, int]:
        """How many good trials were verified how: {"checksum": 5}."""
        how = (r.verification.achieved or "not recorded" for r in self.records)
        return dict(Counter(how))

    @property
    def reference(self) -> bool:
        """Whether what the cell's share is of was passed, and is no limit."""
        return self.binding in self.passed

    def why_passed(self, name: str) -> str:
        """What is known of why this limit was passed."""
        return why_passed(self.shares[name], name in self.paired)

    @property
    def of_limit(self) -> str:
        """What its share is of: `of raw TCP`; nothing where that is not known."""
        return share(self.binding, self.reference)

    @property
    def operation(self) -> str:
        return str(self.parameters.get("operation") or "?")

    @property
    def in_rows(self) -> bool:
        """Whether rows (or points), not bytes, are what this cell is about."""
        return self.operation in IN_ROWS

    @property
    def noun(self) -> str:
        """`row`, or `point` of an ingest."""
        return noun(self.operation)

    @property
    def answered(self) -> bool:
        """Whether a batch is a statement that the server answers: an upsert."""
        return self.operation == "upsert"

    @property
    def main(self) -> Quantity:
        """What the cell is judged by: rows a second of an upsert, else bytes, else what is known."""
        found: Quantity = getattr(self, basis((self,)))
        return found

    @property
    def row_bytes(self) -> float | None:
        """Payload of a row, from what was counted."""
        return quotient(self.throughput.value, self.rows.value)

    @property
    def verification(self) -> str:
        """`checksum`, or `checksum, count` where trials differ; `none` where it was asked not to check."""
        return ", ".join(sorted(self.verified)) if self.verified else MISSING


def _interval(values: Iterable[float | None]) -> Interval | None:
    known = [v for v in values if v is not None]
    return median_interval(known) if known else None


def _quantity(values: Iterable[float | None], unit: str) -> Quantity:
    found = _interval(values)
    return found.quantity(unit) if found else Quantity(None, unit=unit)


def summarise(records: Sequence[Trial], probes: Sequence[Mapping[str, Any]] = ()) -> list[Cell]:
    """The cells of a run in the order of their parameters. `probes` are the lines of ceilings.jsonl."""
    by_cell: dict[str, list[Trial]] = {}
    for record in records:
        by_cell.setdefault(record.cell, []).append(record)
    limits = Limits(probes)
    cells = [_cell(name, trials, limits) for name, trials in by_cell.items()]
    return sorted(cells, key=lambda cell: sort_key(cell.parameters))


def _cell(name: str, records: list[Trial], limits: Limits) -> Cell:
    measured = [r for r in records if not r.warmup]
    good = [r for r in measured if is_good(r)]
    parameters = dict(records[0].parameters)
    speed = _interval(map(throughput, good))
    payload = _quantity((r.counts.payload_bytes for r in good), "B").value
    # As asked for: a short last batch makes what was moved a little less. Imported runs have
    # only that.
    width, per_batch = parameters.get("row_bytes"), parameters.get("rows_per_batch")
    batches = _quantity((r.counts.batches for r in good), "").value
    message = width * per_batch if width and per_batch else quotient(payload, batches)
    # How many bytes of payload one byte on the wire carried: above 1 where data were compressed.
    carried = _interval(quotient(r.counts.payload_bytes, wire_bytes(r)) for r in good)
    moved = [(r.repeat, rate) for r in good if (rate := throughput(r)) is not None]
    done = Moved(speed, moved) if speed else None
    ceilings = limits.of(parameters, message, good, carried.median if carried else None, done)
    ceiling = binding(ceilings)
    shares = {name: c.share.quantity("fraction") for name, c in ceilings.items() if c.share is not None}
    return Cell(
        name=name,
        parameters=parameters,
        trials=len(measured),
        good=len(good),
        failed=sum(r.outcome == "failed" for r in measured),
        interrupted=sum(r.outcome == "interrupted" for r in measured),
        warmups=len(records) - len(measured),
        throughput=speed.quantity("B/s") if speed else Quantity(None, unit="B/s"),
        rows=_quantity((per_second(r, "rows") for r in good), f"{noun(parameters.get('operation'))}s/s"),
        ceiling=ceiling.rate.quantity("B/s") if ceiling else Quantity(None, unit="B/s"),
        share=shares.get(ceiling.name if ceiling else "", Quantity(None, unit="fraction")),
        payload_bytes=payload,
        records=good,
        ceilings={name: limit.rate.quantity("B/s") for name, limit in ceilings.items()},
        binding=ceiling.name if ceiling else None,
        shares=shares,
        passed=frozenset(name for name, limit in ceilings.items() if limit.passed),
        paired=frozenset(name for name, limit in ceilings.items() if limit.paired),
    )


def sort_key(parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """Orders cells by their parameters, numbers as numbers; mixed types do not fail."""
    known = [_comparable(parameters.get(name)) for name in PARAMETER_ORDER]
    # Imported runs have other parameters.
    others = sorted(parameters.keys() - _KNOWN)
    return (*known, *((name, _comparable(parameters.get(name))) for name in others))


_KNOWN = frozenset(PARAMETER_ORDER)
_ABSENT = (1, 0.0, "")


def _comparable(value: Any) -> tuple[int, float, str]:
    if value is None:
        return _ABSENT
    if is_number(value):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def varying(cells: Sequence[Cell]) -> list[str]:
    """The parameters that distinguish these cells, in table order, without redundant ones."""
    there = {name for c in cells for name in c.parameters}
    names = [*(n for n in PARAMETER_ORDER if n in there), *sorted(there - _KNOWN)]
    columns = {
        name: list(map(repr, values))
        for name in names
        if name not in NOT_DISTINGUISHING
        and not _one_value(values := [c.parameters.get(name) for c in cells])
    }
    kept: list[str] = []
    for name, column in columns.items():
        if len(set(column)) < 2:
            continue
        # threads = streams in most scenarios, and a place is another word for its target: one column is
        # enough.
        if any(_same_partition(column, columns[other]) for other in kept):
            continue
        if _of_one_system(column, columns.get("place")):
            continue
        kept.append(name)
    return kept


def _one_value(values: list[Any]) -> bool:
    """Whether they are equal, and as texts too, as `1` and `True` are not: true of most parameters of a run,
    and of thousands of cells far sooner known so than from their texts."""
    kinds = set(map(type, values))
    return len(kinds) == 1 and kinds <= _SCALARS and values.count(values[0]) == len(values)


_SCALARS = frozenset((str, int, float, bool, type(None)))


def _of_one_system(column: list[str], places: list[str] | None) -> bool:
    """Whether some places lack this option and all others have one value of it."""
    values = set(column)
    if places is None or len(values) != 2 or repr(None) not in values:
        return False
    return len(set(zip(places, column, strict=True))) == len(set(places))


def _same_partition(one: list[str], other: list[str]) -> bool:
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len(set(one)) == len(set(other))


def setting(cell: Cell, names: Iterable[str]) -> tuple[str, ...]:
    """The values of these parameters as a key: `1` and `True` differ, and a list can be one."""
    return tuple(repr(cell.parameters.get(name)) for name in names)


def follows(cells: Sequence[Cell], name: str, other: str) -> bool:
    """Whether a parameter changes with another and only with it, as threads do with streams."""
    return _same_partition(*([one for c in cells for one in setting(c, [n])] for n in (name, other)))


def by_setting(cells: Iterable[Cell], names: Sequence[str]) -> list[list[Cell]]:
    """The cells grouped by the values of these parameters, in their order."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(setting(cell, names), []).append(cell)
    return list(groups.values())


def by_operation(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """The cells grouped by operation, in their order."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.operation, []).append(cell)
    return groups


def best(cells: Sequence[Cell]) -> Cell | None:
    """The cell with the highest median speed; None where no trial was good."""
    measure = basis(cells)
    known = [(c, q.value) for c in cells if (q := getattr(c, measure)).value is not None]
    return max(known, key=lambda pair: pair[1], default=(None, 0.0))[0]


def basis(cells: Sequence[Cell]) -> str:
    """What tells how fast these cells are: `throughput`, payload a second; of upserts `rows` a second. Where
    that was counted in none of them, the other, and where neither was, `batches`: some tools count requests.
    """
    first = ("rows", "throughput") if cells and all(c.in_rows for c in cells) else ("throughput", "rows")
    for measure in (*first, "batches"):
        if any(getattr(c, measure).known for c in cells):
            return measure
    return first[0]


def in_rows(cells: Sequence[Cell]) -> bool:
    """Whether rows a second are what these cells are judged by."""
    return basis(cells) == "rows"


def speed(cell: Cell, among: Sequence[Cell] = ()) -> Quantity:
    """The cell's speed by the `basis` of the cells it stands `among`."""
    found: Quantity = getattr(cell, basis(among or (cell,)))
    return found
