"""Warnings: each with its number, its likely cause and what to do next.

A warning never changes a figure. It says how far the figure can be believed, which only the one who made
the run can judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from venturi.analysis import wording
from venturi.analysis.advice import Advice
from venturi.analysis.cells.ceilings import LINK, SOCKETS, surely_above
from venturi.analysis.cells.figures import CALLS, main_rate, quotient, steady_main
from venturi.analysis.cells.summary import Cell, ends_by_itself, varying
from venturi.analysis.statistics import groups
from venturi.analysis.statistics.intervals import range_coverage
from venturi.analysis.wording import listed, nouns_of
from venturi.common.units import Quantity, percent, plural
from venturi.engine.record import Trial, Verification
from venturi.targets.system import NO_PLACE, is_shared, scheme_of, servers_batches

if TYPE_CHECKING:
    import pyarrow as pa

from venturi.analysis.cells.machines import cpu_balance, host_noise, noise_of_samples

__all__ = [
    "cut_short",
    "disturbances",
    "failures",
    "few",
    "instrument",
    "no_ceiling",
    "over_ceiling",
    "skew",
    "steady",
    "too_short",
    "too_wide",
    "two_speeds",
    "unbalanced",
    "unverified",
    "weaker",
]

STEADY_DIFFERS = 0.05
"""METHOD: warn where whole-interval and steady figure differ by over 5 %."""
STEAL = 0.01
OTHER_LOAD = 0.05
"""Share of all CPUs. Below a twentieth, a benchmark on a desktop would warn each time, and nobody would
read it."""
LEAST_OVER, OVER = 0.2, 0.1
"""Cores, and the part of a host's busy time, by which ticks alone may make processes use more than that."""
INSTRUMENT = 0.01
WIDE = 0.10
SHORT_NS = 100e6
"""A trial under 100 ms is over before the congestion window and the CPU's frequency have settled."""
SKEW = 0.01
DEFAULT_REPEATS = 5
MOST_SAMPLES = 100
"""Samples files opened for runs whose records hold no summary of them."""
OLD_COLUMNS = ("host_total_ns", "host_busy_ns", "host_steal_ns", "client_cpu_ns", "server_cpu_ns")


def _label(cell: Cell, cells: Sequence[Cell]) -> str:
    """A cell by what tells it from the others: `put, records, 2 streams`."""
    p = cell.parameters
    if names := [name for name in varying(cells) if name != "operation"]:
        return f"{cell.operation}, {wording.label(cell, names)}"
    streams = p.get("streams")
    place = f" {p['place']}" if p.get("place") not in (None, "local") else ""
    if streams is None:
        # Other tools' results have other axes.
        axes = [n for n in ("target", "hosts", "partitions", "encoders", "decoders", "threads") if p.get(n)]
        given = ", ".join(f"{p[n]}" if n == "target" else f"{n} {p[n]}" for n in axes)
        return f"{cell.operation}{place}" + (f" with {given}" if given else "")
    return f"{cell.operation}{place} with {plural(streams, nouns_of(cell).stream)}"


def _median(values: list[float | None]) -> float | None:
    known = sorted(v for v in values if v is not None)
    return (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2 if known else None


def _cells_of(n: int, total: int) -> str:
    return "the only cell" if n == total == 1 else f"{n} of {total} cells"


def failures(measured: Sequence[Trial], command: Sequence[str] | None) -> list[Advice]:
    again = f"venturi {'ab BASE HEAD' if (command or ())[1:2] == ['ab'] else 'run'} --resume RUN"
    failed = [r for r in measured if r.outcome == "failed"]
    cut = [r for r in measured if r.outcome == "interrupted"]
    found = []
    if failed:
        kinds: dict[str, int] = {}
        for record in failed:
            kind = record.error.kind or "unknown"
            kinds[kind] = kinds.get(kind, 0) + 1
        counted = ", ".join(f"{n} x {kind}" for kind, n in sorted(kinds.items(), key=lambda item: -item[1]))
        found.append(
            Advice(
                "failed",
                f"{len(failed)} of {len(measured)} trials failed ({counted})",
                "their errors are listed as failed, and no figure counts them",
                f"Fix the cause, then: `{again} --retry-failed`",
            )
        )
    if cut:
        found.append(
            Advice(
                "interrupted",
                f"{len(cut)} of {len(measured)} trials were interrupted",
                "the run was stopped before its end",
                f"Go on with it: `{again}`",
            )
        )
    return found


def unverified(cells: Sequence[Cell]) -> Advice | None:
    def is_loose(it: Verification) -> bool:
        return it.requested in (None, "none") and it.achieved == "none"

    loose = [c for c in cells if any(is_loose(r.verification) for r in c.records)]
    if not loose:
        return None
    return Advice(
        "unverified",
        f"{_cells_of(len(loose), len(cells))} moved data that nobody checked",
        'the scenario asks for verify = "none"',
        "Run again with --verify checksum before publishing",
    )


def weaker(cells: Sequence[Cell]) -> Advice | None:
    """Trials that were verified by less than was asked for."""
    less = [
        r
        for c in cells
        for r in c.records
        # For upserts, sums of what was added stand for the values.
        if (r.verification.requested == "checksum" and r.verification.achieved not in ("checksum", "sums"))
        or (r.verification.requested == "count" and r.verification.achieved in ("acknowledged", "none"))
    ]
    if not less:
        return None
    how = sorted({str(r.verification.achieved) for r in less})
    upserts = all(r.parameters.get("operation") == "upsert" for r in less)
    trials = "1 trial was" if len(less) == 1 else f"{len(less)} trials were"
    asked = "sums" if upserts else " or ".join(sorted({str(r.verification.requested) for r in less}))
    note = next((n for r in less if (n := r.verification.note)), "the other end offers no checksum")
    return Advice(
        "weaker",
        f"{trials} not verified, though {asked} was asked for"
        if how == ["none"]
        else f"{trials} verified by {' or '.join(how)} only, not by {asked}",
        str(note).rstrip("."),
        _compared(how),
    )


_COMPARED = {
    "acknowledged": "Neither values nor rows were compared; the other end took all without an error",
    "count": "Values were not compared; rows were",
    "none": "Neither values nor rows were compared; that nothing met an error is all that is known",
}


def _compared(how: Sequence[str]) -> str:
    if len(how) == 1:
        return _COMPARED.get(how[0], "Values were not compared")
    if "count" in how:
        return "Values were not compared; rows were, where it says count"
    return "Neither values nor rows were compared"


def disturbances(
    cells: Sequence[Cell],
    measured: Sequence[Trial],
    samples: Callable[[str], pa.Table] | None = None,
) -> list[Advice]:
    """What took time or CPUs away from the trials; first what took the largest share."""
    shares = _shares(measured, samples)
    found = [one for one in (_stood_still(cells), _stolen(shares), _others(shares)) if one is not None]
    return [advice for _, advice in sorted(found, key=lambda one: -one[0])]


def _stood_still(cells: Sequence[Cell]) -> tuple[float, Advice] | None:
    """Trials that count although an end stood still for a small part of them."""
    good = [r for c in cells for r in c.records]
    paused = [
        (ns, end, r)
        for r in good
        for end in ("client", "server")
        if (ns := r.resources[end].process.paused_ns)
    ]
    if not paused:
        return None
    longest, end, record = max(paused, key=lambda found: found[0])
    interval = record.times.interval_ns or 0.0
    hit = len({r.trial for _, _, r in paused})
    return longest / (interval or longest), Advice(
        "paused",
        f"the {end} did not run for {longest / 1e9:.2f} s of {interval / 1e9:.4g} s "
        f"({hit} of {len(good)} trials had a pause)",
        "its process was stopped or frozen, or its machine was paused or suspended",
        "Run again where nothing stops it: these figures are low by up to that share",
    )


def _shares(
    measured: Sequence[Trial], samples: Callable[[str], pa.Table] | None
) -> list[tuple[float, float]]:
    found = [n for r in measured if (n := host_noise(r)) is not None]
    if found or samples is None:
        return found
    # An older run: each trial is a file to open, so at most so many are looked at, spread over the run.
    step = max(1, -(-len(measured) // MOST_SAMPLES))
    for record in measured[::step]:
        table = samples(record.trial)
        if table.num_rows:
            columns = {
                name: table.column(name).to_pylist() for name in OLD_COLUMNS if name in table.column_names
            }
            found += [n] if (n := noise_of_samples(record, columns)) is not None else []
    return found


def _stolen(shares: Sequence[tuple[float, float]]) -> tuple[float, Advice] | None:
    steal = max((s for s, _ in shares), default=0.0)
    if steal <= STEAL:
        return None
    hit = sum(s > STEAL for s, _ in shares)
    return steal, Advice(
        "steal",
        f"over 1 % of the CPU time was stolen in {hit} of {len(shares)} trials (at most {percent(steal, 1)})",
        "this is a virtual machine and its host gave the time to others",
        "Repeat at a quieter time or with more --repeats; compare medians only",
    )


def _others(shares: Sequence[tuple[float, float]]) -> tuple[float, Advice] | None:
    other = _median([o for _, o in shares]) or 0.0
    if other <= OTHER_LOAD:
        return None
    return other, Advice(
        "load",
        f"other processes used {percent(other)} of this host's CPUs in the median trial",
        "something else was running",
        "See who with `venturi doctor`, stop it and run again",
    )


def unbalanced(measured: Sequence[Trial]) -> Advice | None:
    """Trials whose processes used more CPU time than their host was busy, which cannot be."""
    known = [b for r in measured if (b := cpu_balance(r)) is not None]
    over = [b for b in known if -b.others > max(LEAST_OVER, OVER * b.busy)]
    if not over:
        return None
    most = min(over, key=lambda b: b.others)
    parts = listed(f"{role} {used:.2f}" for role, used in most.parts.items())
    return Advice(
        "balance",
        f"in {len(over)} of {len(known)} trials the run's processes used more CPU time than their host was "
        f"busy (most: {parts}, the host {most.busy:.2f} cores)",
        "the kernel counts one of the two by its ticks, or a process was counted twice",
        "Read no verdict on CPUs from these trials; longer ones may agree: --duration 5s",
    )


def instrument(cells: Sequence[Cell]) -> Advice | None:
    shares = [s for c in cells for r in c.records if (s := r.instrument.share) is not None]
    if not shares or max(shares) <= INSTRUMENT:
        return None
    return Advice(
        "instrument",
        f"reading the clock took up to {percent(max(shares), 1)} of a trial",
        "batches are so small that timing each one shows",
        "Read these cells as a lower bound; how large its batches are is for the server to say"
        if all(servers_batches(c.parameters) for c in cells)
        else "Take larger --rows-per-batch, or read these cells as a lower bound",
    )


def over_ceiling(cells: Sequence[Cell]) -> Advice | None:
    over = [c for c in cells if c.reference]
    if not over:
        return None
    worst = max(over, key=lambda c: c.share.value or 0.0)
    if worst.binding not in worst.paired:
        step = "Measure it between the trials, and at their moment: --ceilings rounds"
    elif surely_above(worst.share):
        step = "Read the share as a comparison, not as how near the cell comes to the most there is"
    else:
        step = "Repeat at a quieter time, or more often"
    return Advice(
        "over-ceiling",
        f"{_label(worst, cells)} moved {worst.share.text()} {worst.of_limit}",
        f"it passed this limit: {worst.why_passed(str(worst.binding))}",
        step,
    )


def steady(cells: Sequence[Cell]) -> Advice | None:
    off: list[tuple[float, Cell]] = []
    for cell in cells:
        ratio = _median([quotient(steady_main(r), main_rate(r)) for r in cell.records])
        if ratio is not None and abs(ratio - 1) > STEADY_DIFFERS:
            off.append((ratio - 1, cell))
    if not off:
        return None
    most, cell = max(off, key=lambda pair: abs(pair[0]))
    return Advice(
        "steady",
        f"without start and end throughput is over 5 % different in {_cells_of(len(off), len(cells))}"
        f" (most: {100 * most:+.0f} %, {_label(cell, cells)})",
        f"starting or the last {nouns_of(cell).stream}'s end takes a visible part of the trial",
        f"{_move_more([c for _, c in off])}; the steady figure is in `venturi report --format csv`",
    )


def _move_more(cells: Sequence[Cell]) -> str:
    """How to make these trials longer: they end with their work, or with their time."""
    if all(ends_by_itself(c) for c in cells):
        return "The server has sent all that it holds: read a larger table"
    timed = all(c.parameters.get("duration_ns") for c in cells)
    return (
        "Measure longer: raise --duration"
        if timed
        else f"Move more: raise --{nouns_of(cells[0]).row}s-per-stream"
    )


def too_short(cells: Sequence[Cell]) -> Advice | None:
    short = [c for c in cells if c.interval.known and (c.interval.value or 0.0) < SHORT_NS]
    if not short:
        return None
    least = min(short, key=lambda c: c.interval.value or 0.0)
    return Advice(
        "short",
        f"trials lasted under 100 ms in {_cells_of(len(short), len(cells))} (shortest "
        f"{least.interval.text()})",
        "start-up and a single disturbance weigh heavily",
        _move_more(short),
    )


def cut_short(cells: Sequence[Cell]) -> Advice | None:
    """Trials whose time ended before their first batch did."""
    longer = [
        (taken / asked, taken, asked, c)
        for c in cells
        if (asked := c.parameters.get("duration_ns"))
        and (taken := _median([r.latency.service.mean for r in c.records])) is not None
        and taken > asked
    ]
    if not longer:
        return None
    _, taken, asked, cell = max(longer, key=lambda found: found[0])
    return Advice(
        "cut",
        f"a batch took longer than a trial was to last in {_cells_of(len(longer), len(cells))} (most: "
        f"{Quantity(taken, unit='ns')} against --duration {Quantity(asked, unit='ns')}, "
        f"{_label(cell, cells)})",
        f"a batch that has begun is waited for, so each {nouns_of(cell).stream} moved one and no more",
        f"Measure ten batches or more: --duration {math.ceil(taken / 1e8)}s",
    )


def skew(cells: Sequence[Cell]) -> Advice | None:
    skews = [
        (s, c)
        for c in cells
        for r in c.records
        if (s := quotient(r.times.start_skew_ns, r.times.interval_ns)) is not None
    ]
    if not skews:
        return None
    most, cell = max(skews, key=lambda pair: pair[0])
    if most <= SKEW:
        return None
    nouns = nouns_of(cell)
    return Advice(
        "skew",
        f"{nouns.stream}s started up to {percent(most, 1)} of the trial apart ({_label(cell, cells)})",
        f"perhaps there are more {nouns.stream}s than free cores",
        f"Move more {nouns.row}s per {nouns.stream}, or use fewer {nouns.stream}s",
    )


def two_speeds(cells: Sequence[Cell]) -> Advice | None:
    """Trials of one cell at two speeds: a median between them is neither."""
    rates = [[v for r in c.records if (v := main_rate(r)) is not None] for c in cells]
    cause = (
        "something has two states: a neighbour on the machine, a CPU's frequency, where the scheduler puts "
        "threads, a packet that is waited for"
    )
    grouped = [(found, c) for c, each in zip(cells, rates, strict=True) if (found := groups.two_groups(each))]
    if grouped:
        most, cell = max(grouped, key=lambda pair: pair[0].least)
        return Advice(
            "two-speeds",
            f"trials run at two speeds in {_cells_of(len(grouped), len(cells))} (most: {most.slow} of "
            f"{most.trials} are {most.least:.1f} times slower, {_label(cell, cells)})",
            cause,
            "Read them one by one: `venturi show RUN --cell CELL`",
        )
    found = groups.slow_trials(rates)
    if found is None:
        return None
    slower = f"{found.least:.1f}" + (f" to {found.most:.1f}" if found.most >= found.least + 0.05 else "")
    return Advice(
        "two-speeds",
        f"{found.slow} of {found.trials} trials ({percent(found.share)}) "
        f"{'is' if found.slow == 1 else 'are'} {slower} times slower than their cells' medians, "
        "and none lies between",
        cause,
        'Which: `venturi sql RUN "select cell, repeat, bytes_per_second from trials order by 3"`',
    )


def too_wide(cells: Sequence[Cell]) -> Advice | None:
    wide = []
    for c in cells:
        q = c.main
        if q.has_margin and q.value and q.low is not None and q.high is not None:
            half = (q.high - q.low) / 2 / q.value
            if half > WIDE:
                wide.append((half, c))
    if not wide:
        return None
    most, cell = max(wide, key=lambda pair: pair[0])
    return Advice(
        "wide",
        f"the margin is wider than ±10 % in {_cells_of(len(wide), len(cells))} (most: ±{percent(most)}, "
        f"{_label(cell, cells)})",
        "repeats disagree",
        "Repeat more often: --repeats 15, or stop adaptively",
    )


def no_ceiling(cells: Sequence[Cell], probes: Sequence[Mapping[str, Any]]) -> Advice | None:
    # The empty target is itself a limit.
    without = [
        c
        for c in cells
        if c.throughput.known
        # Raw TCP says little about what a database could do.
        and not c.in_rows
        and not c.ceilings.keys() & {LINK, *SOCKETS.values()}
        and scheme_of(str(c.parameters.get("target") or "")) not in NO_PLACE
        and not is_shared(str(c.parameters.get("target") or ""))
        and c.stages.get("client", {}).keys().isdisjoint(CALLS)
    ]
    if not without:
        return None
    cause = (
        "no raw TCP was measured"
        if not any(probe.get("kind", "tcp") in SOCKETS for probe in probes)
        else f"no raw TCP probe had the same direction and number of {nouns_of(without[0]).stream}s"
    )
    return Advice(
        "no-ceiling",
        f"{_cells_of(len(without), len(cells))} cannot be set against raw TCP",
        cause,
        "Run again with --ceilings rounds; a foreign server on another host cannot be probed",
    )


def few(cells: Sequence[Cell]) -> Advice | None:
    least = min((c.good for c in cells if c.good), default=0)
    if not least or least >= DEFAULT_REPEATS:
        # With the default the head of the column says what the range covers.
        return None
    if least == 1:
        return Advice(
            "few",
            "there are cells with one good trial, which have no margin",
            "one repeat says nothing of its spread",
            "Repeat: --repeats 5",
        )
    return Advice(
        "few",
        f"with {least} repeats an interval is their range, which holds the true median with "
        f"{range_coverage(least) * 100:.4g} % probability",
        "fewer than 6 repeats cannot reach 95 %",
        "For 95 %: --repeats 6",
    )
