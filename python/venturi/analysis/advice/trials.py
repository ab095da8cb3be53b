"""Warnings about trials: each with its number, its likely cause and what to do next.

A warning never changes a figure. It says how far the figure can be believed, which only the one who made
the run can judge. Each function yields its warning if there is a reason for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from venturi.analysis import wording
from venturi.analysis.advice import Advice
from venturi.analysis.cells.ceilings import LINK, SOCKETS, surely_above
from venturi.analysis.cells.figures import CALLS, main_rate, quotient, steady_main
from venturi.analysis.cells.machines import cpu_balance, host_noise
from venturi.analysis.cells.summary import Cell, ends_by_itself, varying
from venturi.analysis.statistics.difference import slow_trials, two_groups
from venturi.analysis.statistics.intervals import median_of, range_coverage
from venturi.analysis.wording import USUAL_REPEATS, listed, nouns_of
from venturi.common.units import Quantity, percent, plural
from venturi.engine.record import Trial
from venturi.targets.system import NO_PLACE, is_shared, scheme_of, servers_batches

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

Warnings = Iterator[Advice]


def good_trials(cells: Sequence[Cell]) -> Iterator[tuple[Trial, Cell]]:
    return ((record, cell) for cell in cells for record in cell.records)


def cell_label(cell: Cell, cells: Sequence[Cell]) -> str:
    """A cell by what tells it from the others: `put, records, 2 streams`."""
    p = cell.parameters
    if names := [name for name in varying(cells) if name != "operation"]:
        return f"{cell.operation}, {wording.label(cell, names)}"
    streams = p.get("streams")
    place = f" {p['place']}" if p.get("place") not in (None, "local") else ""
    if streams is None:
        # Other tools' results have other axes.
        axes = [n for n in ("target", "hosts", "partitions", "encoders", "decoders", "threads") if p.get(n)]
        named = ", ".join(f"{p[n]}" if n == "target" else f"{n} {p[n]}" for n in axes)
        return f"{cell.operation}{place}" + (f" with {named}" if named else "")
    return f"{cell.operation}{place} with {plural(streams, nouns_of(cell).stream)}"


def _worst(found: Iterable[tuple[float, Cell]], cells: Sequence[Cell]) -> tuple[float, Cell, str] | None:
    """The largest figure, its cell, and how many cells these are: `the only cell`, `2 of 8 cells`."""
    if not (ranked := list(found)):
        return None
    share, cell = max(ranked, key=lambda pair: abs(pair[0]))
    return share, cell, _cells_of(len(ranked), len(cells))


def _cells_of(n: int, total: int) -> str:
    return "the only cell" if n == total == 1 else f"{n} of {total} cells"


def failures(measured: Sequence[Trial], command: Sequence[str] | None) -> Warnings:
    again = f"venturi {'ab BASE HEAD' if (command or ())[1:2] == ['ab'] else 'run'} --resume RUN"
    kinds = Counter(str(r.error.kind or "unknown") for r in measured if r.outcome == "failed")
    if kinds:
        yield Advice(
            "failed",
            f"{kinds.total()} of {len(measured)} trials failed "
            f"({', '.join(f'{n} x {kind}' for kind, n in kinds.most_common())})",
            "their errors are listed as failed, and no figure counts them",
            f"Fix the cause, then: `{again} --retry-failed`",
        )
    if cut := sum(r.outcome == "interrupted" for r in measured):
        yield Advice(
            "interrupted",
            f"{cut} of {len(measured)} trials were interrupted",
            "the run was stopped before its end",
            f"Go on with it: `{again}`",
        )


def unverified(cells: Sequence[Cell]) -> Warnings:
    loose = {
        cell.name
        for record, cell in good_trials(cells)
        if _requested(record) in (None, "none") and _achieved(record) == "none"
    }
    if loose:
        yield Advice(
            "unverified",
            f"{_cells_of(len(loose), len(cells))} moved data that nobody checked",
            'the scenario asks for verify = "none"',
            "Run again with --verify checksum before publishing",
        )


def weaker(cells: Sequence[Cell]) -> Warnings:
    """Trials that were verified by less than was asked for."""
    # For upserts, sums of what was added stand for the values.
    enough = {"checksum": ("checksum", "sums"), "count": ("checksum", "sums", "count", None)}
    less = [
        r
        for r, _ in good_trials(cells)
        if _achieved(r) not in enough.get(str(_requested(r)), (_achieved(r),))
    ]
    if not less:
        return
    how = sorted({str(_achieved(r)) for r in less})
    upserts = all(r.parameters.get("operation") == "upsert" for r in less)
    trials = "1 trial was" if len(less) == 1 else f"{len(less)} trials were"
    asked = "sums" if upserts else " or ".join(sorted({str(_requested(r)) for r in less}))
    notes = (note for r in less if (note := r.verification.note))
    yield Advice(
        "weaker",
        f"{trials} not verified, though {asked} was asked for"
        if how == ["none"]
        else f"{trials} verified by {' or '.join(how)} only, not by {asked}",
        str(next(notes, "the other end offers no checksum")).rstrip("."),
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


def _requested(record: Trial) -> object:
    return record.verification.requested


def _achieved(record: Trial) -> object:
    return record.verification.achieved


def disturbances(cells: Sequence[Cell], measured: Sequence[Trial]) -> list[Advice]:
    """What took time or CPUs away from the trials; first what took the largest share."""
    shares = [noise for r in measured if (noise := host_noise(r)) is not None]
    found = [*_stood_still(cells), *_stolen(shares), *_load(shares)]
    return [advice for _, advice in sorted(found, key=lambda one: -one[0])]


def _stood_still(cells: Sequence[Cell]) -> Iterator[tuple[float, Advice]]:
    """Trials that count although an end stood still for a small part of them."""
    good = [r for r, _ in good_trials(cells)]
    paused = [
        (ns, end, r)
        for r in good
        for end in ("client", "server")
        if (ns := r.resources[end].process.paused_ns)
    ]
    if not paused:
        return
    longest, end, record = max(paused, key=lambda found: found[0])
    interval = record.times.interval_ns or 0.0
    hit = len({r.trial for _, _, r in paused})
    yield (
        longest / (interval or longest),
        Advice(
            "paused",
            f"the {end} did not run for {longest / 1e9:.2f} s of {interval / 1e9:.4g} s "
            f"({hit} of {len(good)} trials had a pause)",
            "its process was stopped or frozen, or its machine was paused or suspended",
            "Run again where nothing stops it: these figures are low by up to that share",
        ),
    )


def _stolen(shares: Sequence[tuple[float, float]]) -> Iterator[tuple[float, Advice]]:
    over = [steal for steal, _ in shares if steal > STEAL]
    if over:
        yield (
            max(over),
            Advice(
                "steal",
                f"over 1 % of the CPU time was stolen in {len(over)} of {len(shares)} trials "
                f"(at most {percent(max(over), 1)})",
                "this is a virtual machine and its host gave the time to others",
                "Repeat at a quieter time or with more --repeats; compare medians only",
            ),
        )


def _load(shares: Sequence[tuple[float, float]]) -> Iterator[tuple[float, Advice]]:
    load = median_of(load for _, load in shares) or 0.0
    if load > OTHER_LOAD:
        yield (
            load,
            Advice(
                "load",
                f"other processes used {percent(load)} of this host's CPUs in the median trial",
                "something else was running",
                "See who with `venturi doctor`, stop it and run again",
            ),
        )


def unbalanced(measured: Sequence[Trial]) -> Warnings:
    """Trials whose processes used more CPU time than their host was busy, which cannot be."""
    known = [b for r in measured if (b := cpu_balance(r)) is not None]
    over = [b for b in known if -b.foreign > max(LEAST_OVER, OVER * b.busy)]
    if over:
        most = min(over, key=lambda b: b.foreign)
        parts = listed(f"{role} {used:.2f}" for role, used in most.parts.items())
        yield Advice(
            "balance",
            f"in {len(over)} of {len(known)} trials the run's processes used more CPU time than their host "
            f"was busy (most: {parts}, the host {most.busy:.2f} cores)",
            "the kernel counts one of the two by its ticks, or a process was counted twice",
            "Read no verdict on CPUs from these trials; longer ones may agree: --duration 5s",
        )


def instrument(cells: Sequence[Cell]) -> Warnings:
    most = max((r.instrument.share or 0.0 for r, _ in good_trials(cells)), default=0.0)
    if most > INSTRUMENT:
        yield Advice(
            "instrument",
            f"reading the clock took up to {percent(most, 1)} of a trial",
            "batches are so small that timing each one shows",
            "Read these cells as a lower bound; how large its batches are is for the server to say"
            if all(servers_batches(c.parameters) for c in cells)
            else "Take larger --rows-per-batch, or read these cells as a lower bound",
        )


def over_ceiling(cells: Sequence[Cell]) -> Warnings:
    over = [c for c in cells if c.reference]
    if not over:
        return
    worst = max(over, key=lambda c: c.share.value or 0.0)
    if worst.binding not in worst.paired:
        step = "Measure it between the trials, and at their moment: --ceilings rounds"
    elif surely_above(worst.share):
        step = "Read the share as a comparison, not as how near the cell comes to the most there is"
    else:
        step = "Repeat at a quieter time, or more often"
    yield Advice(
        "over-ceiling",
        f"{cell_label(worst, cells)} moved {worst.share.text()} {worst.of_limit}",
        f"it passed this limit: {worst.why_passed(str(worst.binding))}",
        step,
    )


def steady(cells: Sequence[Cell]) -> Warnings:
    off = [
        (ratio - 1, c)
        for c in cells
        if (ratio := median_of(quotient(steady_main(r), main_rate(r)) for r in c.records)) is not None
        and abs(ratio - 1) > STEADY_DIFFERS
    ]
    if worst := _worst(off, cells):
        most, cell, number = worst
        yield Advice(
            "steady",
            f"without start and end throughput is over 5 % different in {number}"
            f" (most: {100 * most:+.0f} %, {cell_label(cell, cells)})",
            f"starting or the last {nouns_of(cell).stream}'s end takes a visible part of the trial",
            f"{_move_more([c for _, c in off])}; the steady figure is in `venturi report --format csv`",
        )


def _move_more(cells: Sequence[Cell]) -> str:
    """How to make these trials longer: they end with their work, or with their time."""
    if all(ends_by_itself(c) for c in cells):
        return "The server has sent all that it holds: read a larger table"
    if all(c.parameters.get("duration_ns") for c in cells):
        return "Measure longer: raise --duration"
    return f"Move more: raise --{nouns_of(cells[0]).row}s-per-stream"


def too_short(cells: Sequence[Cell]) -> Warnings:
    short = [c for c in cells if c.interval.measured and (c.interval.value or 0.0) < SHORT_NS]
    if short:
        least = min(short, key=lambda c: c.interval.value or 0.0)
        yield Advice(
            "short",
            f"trials lasted under 100 ms in {_cells_of(len(short), len(cells))} (shortest "
            f"{least.interval.text()})",
            "start-up and a single disturbance weigh heavily",
            _move_more(short),
        )


def cut_short(cells: Sequence[Cell]) -> Warnings:
    """Trials whose time ended before their first batch did."""
    longer = [
        (taken / asked, c)
        for c in cells
        if (asked := c.parameters.get("duration_ns"))
        and (taken := _batch_time(c)) is not None
        and taken > asked
    ]
    if worst := _worst(longer, cells):
        _, cell, number = worst
        taken, asked = _batch_time(cell) or 0.0, cell.parameters.get("duration_ns")
        yield Advice(
            "cut",
            f"a batch took longer than a trial was to last in {number} (most: "
            f"{Quantity(taken, unit='ns')} against --duration {Quantity(asked, unit='ns')}, "
            f"{cell_label(cell, cells)})",
            f"a batch that has begun is waited for, so each {nouns_of(cell).stream} moved one and no more",
            f"Measure ten batches or more: --duration {math.ceil(taken / 1e8)}s",
        )


def _batch_time(cell: Cell) -> float | None:
    return median_of(r.latency.service.mean for r in cell.records)


def skew(cells: Sequence[Cell]) -> Warnings:
    skews = (
        (s, c)
        for r, c in good_trials(cells)
        if (s := quotient(r.times.start_skew_ns, r.times.interval_ns)) and s > SKEW
    )
    if worst := _worst(skews, cells):
        most, cell, _ = worst
        nouns = nouns_of(cell)
        yield Advice(
            "skew",
            f"{nouns.stream}s started up to {percent(most, 1)} of the trial apart "
            f"({cell_label(cell, cells)})",
            f"perhaps there are more {nouns.stream}s than free cores",
            f"Move more {nouns.row}s per {nouns.stream}, or use fewer {nouns.stream}s",
        )


def two_speeds(cells: Sequence[Cell]) -> Warnings:
    """Trials of one cell at two speeds: a median between them is neither."""
    rates = [[v for r in c.records if (v := main_rate(r)) is not None] for c in cells]
    grouped = [(found, c) for c, each in zip(cells, rates, strict=True) if (found := two_groups(each))]
    if grouped:
        most, cell = max(grouped, key=lambda pair: pair[0].least)
        text = (
            f"trials run at two speeds in {_cells_of(len(grouped), len(cells))} (most: {most.slow} of "
            f"{most.trials} are {most.least:.1f} times slower, {cell_label(cell, cells)})"
        )
        step = "Read them one by one: `venturi show RUN --cell CELL`"
    elif found := slow_trials(rates):
        slower = f"{found.least:.1f}" + (f" to {found.most:.1f}" if found.most >= found.least + 0.05 else "")
        text = (
            f"{found.slow} of {found.trials} trials ({percent(found.share)}) "
            f"{'is' if found.slow == 1 else 'are'} {slower} times slower than their cells' medians, "
            "and none lies between"
        )
        step = 'Which: `venturi sql RUN "select cell, repeat, bytes_per_second from trials order by 3"`'
    else:
        return
    cause = (
        "something has two states: a neighbour on the machine, a CPU's frequency, where the scheduler puts "
        "threads, a packet that is waited for"
    )
    yield Advice("two-speeds", text, cause, step)


def too_wide(cells: Sequence[Cell]) -> Warnings:
    wide = (
        (half, c)
        for c in cells
        if (q := c.main).has_margin and q.value and q.low is not None and q.high is not None
        and (half := (q.high - q.low) / 2 / q.value) > WIDE
    )  # fmt: skip
    if worst := _worst(wide, cells):
        most, cell, number = worst
        yield Advice(
            "wide",
            f"the margin is wider than ±10 % in {number} (most: ±{percent(most)}, {cell_label(cell, cells)})",
            "repeats disagree",
            "Repeat more often: --repeats 15, or stop adaptively",
        )


def no_ceiling(cells: Sequence[Cell], probes: Sequence[Mapping[str, Any]]) -> Warnings:
    # The empty target is itself a limit.
    without = [
        c
        for c in cells
        if c.throughput.measured
        # Raw TCP says little about what a database could do.
        and not c.in_rows
        and not c.ceilings.keys() & {LINK, *SOCKETS.values()}
        and scheme_of(url := str(c.parameters.get("target") or "")) not in NO_PLACE
        and not is_shared(url)
        and c.stages.get("client", {}).keys().isdisjoint(CALLS)
    ]
    if without:
        probed = any(probe.get("kind", "tcp") in SOCKETS for probe in probes)
        stream = nouns_of(without[0]).stream
        yield Advice(
            "no-ceiling",
            f"{_cells_of(len(without), len(cells))} cannot be set against raw TCP",
            f"no raw TCP probe had the same direction and number of {stream}s"
            if probed
            else "no raw TCP was measured",
            "Run again with --ceilings rounds; a foreign server on another host cannot be probed",
        )


def few(cells: Sequence[Cell]) -> Warnings:
    least = min((c.good for c in cells if c.good), default=0)
    if least == 1:
        yield Advice(
            "few",
            "there are cells with one good trial, which have no margin",
            "one repeat says nothing of its spread",
            "Repeat: --repeats 5",
        )
    elif 1 < least < USUAL_REPEATS:
        # With the default the head of the column says what the range covers.
        yield Advice(
            "few",
            f"with {least} repeats an interval is their range, which holds the true median with "
            f"{range_coverage(least) * 100:.4g} % probability",
            "fewer than 6 repeats cannot reach 95 %",
            "For 95 %: --repeats 6",
        )
