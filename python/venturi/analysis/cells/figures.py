"""The figures of one trial's record: rates, CPU time, percentiles.

A field that is missing is "not measured": imported results and foreign servers fill only part of a record.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, TypeGuard, TypeVar

from venturi.common.hdr import batches_for
from venturi.engine.record import CpuTime, Latency, Process, Trial

K = TypeVar("K")
V = TypeVar("V")
ENDS = ("client", "server")
CALLS = ("plugin", "driver")
"""Stages of calls into code of somebody else's: what its other end does is within them."""
SHOWN_PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)
NOUNS = {"upsert": "row", "ingest": "point"}
"""What a row is called where operations are counted in rows: its bytes are the dialect's affair, not the
user's."""
IN_ROWS = frozenset(NOUNS)
ROW_UNITS = ("rows/s", "points/s")


def get(environment: Any, *path: str) -> Any:
    """The value under a path of keys of an environment, None where any of them is missing."""
    for name in path:
        environment = environment.get(name) if isinstance(environment, Mapping) else None
    return environment


def cpu_per(record: Trial, counted: str, ends: Sequence[str] = ENDS) -> float | None:
    """CPU time of these ends per byte of payload (ns/B, which is s/GB) or per row (ns); None where that of an
    end is not known."""
    known = [time for end in ends if (time := cpu_ns(record, end)) is not None]
    return quotient(sum(known), record.counts[counted]) if len(known) == len(ends) else None


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a parameter's value is a number: `True` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, in their order."""
    out: dict[K, list[V]] = {}
    for key, value in pairs:
        out.setdefault(key, []).append(value)
    return out


def grouped(items: Iterable[V], key: Callable[[V], Any]) -> dict[Any, list[V]]:
    """These by their key, each group in its order."""
    return by_key((key(one), one) for one in items)


def quotient(amount: float | None, divisor: float | None, scale: float = 1.0) -> float | None:
    """amount / divisor x scale; None where either is missing or the divisor is not positive."""
    return None if amount is None or divisor is None or divisor <= 0 else amount / divisor * scale


def throughput(record: Trial) -> float | None:
    """Payload over the whole interval (B/s); of an imported trial the rate that its tool printed, if any."""
    printed = record.rates.bytes_per_second
    if printed is not None:
        return printed
    return quotient(record.counts.payload_bytes, record.times.interval_ns, 1e9)


def per_second(record: Trial, what: str) -> float | None:
    """Rows or batches a second over the whole interval; the printed rate of an imported trial comes first."""
    printed: float | None = record.rates[f"{what}_per_second"]
    if printed is not None:
        return printed
    return quotient(record.counts[what], record.times.interval_ns, 1e9)


def wire_bytes(record: Trial) -> float | None:
    """Bytes on the wire of what was counted. Of a get that ends with its time more was on its way by then,
    which is checked but not counted."""
    wire = record.counts.wire_bytes or None
    if wire is None or record.parameters.get("operation") != "get":
        return wire
    counted, checked = record.counts.rows, record.verification.rows
    return wire * counted / checked if counted and checked and checked > counted else wire


def in_rows_of(record: Trial) -> bool:
    """Whether this trial is counted in rows, by what it did."""
    return record.parameters.get("operation") in IN_ROWS


def main_unit(operation: object) -> str:
    """The base unit of an operation's main figure, where the trial counted bytes and rows."""
    return f"{noun(operation)}s/s" if operation in IN_ROWS else "B/s"


def noun(operation: object) -> str:
    """`row`, or `point` of an ingest: what counts in `rows` are."""
    return NOUNS.get(str(operation), "row")


def main_rate(record: Trial) -> float | None:
    """The figure by which a trial is judged: rows (points) a second of an upsert (ingest), else payload."""
    return per_second(record, "rows") if in_rows_of(record) else throughput(record)


def steady_throughput(record: Trial) -> float | None:
    """Payload over the steady window (B/s); None where no window was found."""
    moved = record.times.steady_payload_bytes
    return quotient(moved or None, record.times.steady_ns, 1e9)


def steady_rows(record: Trial) -> float | None:
    """Rows a second over the steady window; None where no window was found."""
    moved = record.times.steady_rows
    return quotient(moved or None, record.times.steady_ns, 1e9)


def steady_main(record: Trial) -> float | None:
    """The steady figure in what the trial is judged by."""
    return steady_rows(record) if in_rows_of(record) else steady_throughput(record)


def cpu_ns(record: Trial, end: str) -> int | None:
    """CPU time of one end, user and system (ns); None where it was not accounted."""
    return total_ns(record.cpu[end])


def total_ns(spent: CpuTime | Process) -> int | None:
    user, system = spent.user_ns, spent.system_ns
    return None if user is None and system is None else (user or 0) + (system or 0)


def cores(record: Trial, cpu: float | None) -> float | None:
    """Cores that a CPU time (ns) kept busy over the interval."""
    return quotient(cpu, record.times.interval_ns)


_TICKS_NS = 100_000_000
"""Ten ticks of a host that counts 100 a second: over a longer time none is close to none."""


def cpu_figures(
    records: Sequence[Trial], end: str, figure: Callable[[Trial, float | None], float | None]
) -> Iterator[float | None]:
    """A figure of each trial by its CPU time. None of any where a short trial seems to have used none: the
    host counts in ticks, and that is less than one."""
    used = [cpu_ns(r, end) for r in records]
    short = any(
        cpu == 0 and (r.times.interval_ns or 0.0) < _TICKS_NS for r, cpu in zip(records, used, strict=True)
    )
    return iter([None] * len(used) if short else map(figure, records, used))


def percentile(record: Trial, percent: float, kinds: Sequence[str] = ("response", "service")) -> float | None:
    """A latency percentile (ns): response time for an open loop, service time for a closed one (METHOD). None
    where too few batches were timed for it."""
    for kind in kinds:
        latency: Latency = record.latency[kind]
        found, timed = latency.percentiles, latency.count
        if timed is not None and timed < batches_for(percent):
            continue
        # They rise, but for those that another tool may have written otherwise.
        first = bisect_left(found, percent - 1e-9, key=_first)
        for at, value in itertools.chain(found[first : first + 1], found):
            if -1e-9 < at - percent < 1e-9:
                return value
    return None


_first = operator.itemgetter(0)


def batches_timed(records: Iterable[Trial]) -> int | None:
    """The least number of batches that a trial of these has timed."""
    counted = [r.latency[kind].count for r in records for kind in ("response", "service")]
    return min(filter(None, counted), default=None)


def stage_shares(record: Trial, end: str) -> dict[str, float]:
    """Each stage's share of what that end accounted for; empty where it did not."""
    total = sum(record.stages[end].values())
    return {name: value / total for name, value in record.stages[end].items()} if total else {}


def middle_shares(trials: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median share of each stage over the trials that accounted for any: pictures and verdicts have the
    same. Of trials that differ they add up to about one."""
    known = [one for one in trials if one]
    names = dict.fromkeys(name for one in known for name in one)
    return {name: median(one.get(name, 0.0) for one in known) for name in names}


def is_good(record: Trial) -> bool:
    """Whether a trial counts towards its cell: ended well, and not a warm-up."""
    return record.outcome == "ok" and not record.warmup
