"""Hits of databases, plugins and drivers, whose work the client waits for, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from venturi.analysis.cells.batches import several
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof import Diagnosis
from venturi.analysis.verdict.proof import databases as proof
from venturi.analysis.verdict.proof.cores import usable
from venturi.analysis.words.wording import Nouns, milliseconds, nouns_of, rows_rate, shares, waiting
from venturi.common.units import Quantity, count, percent, plural
from venturi.targets.system import is_program

__all__ = ["engine", "limit", "little_in_flight", "plugin", "serial", "server"]

Lines = Iterator[str]


def engine(seen: CellEvidence, hit: Diagnosis) -> Lines:
    threads, cpu = hit.numbers["threads"], hit.numbers.get("cpu_cores")
    s = "s" if threads == 1 else ""
    yield (
        f"the engine runs in the client's process, whose {plural(threads, 'thread')} spend{s} "
        f"{percent(hit.numbers['occupancy'])} of the time in it"
    )
    if cpu is None:
        return
    if hit.cause is Cause.ENGINE_BUSY:
        yield f"it computes ({cpu:.2f} cores): {shares(seen.client.of_threads)}"
        return
    if hit.cause is Cause.ENGINE_ONE_WRITER:
        yield f"all threads together use {cpu:.2f} cores: one writes at a time, the others wait"
        return
    disk = hit.numbers.get("disk_busy", 0.0)
    held = "for its commits to be on the disk, or for its own locks"
    if disk >= proof.DISK_SEEN:
        held = f"for the disk (busy {percent(disk)}) or for its own locks"
    computing = min(cpu / threads / hit.numbers["occupancy"], 1.0)
    yield f"it computes {percent(computing)} of that time, and waits {percent(1 - computing)}: {held}"


# ---- plugins and drivers


def plugin(seen: CellEvidence, hit: Diagnosis) -> Lines:
    calls, cpu = hit.numbers["calls"], hit.numbers.get("cpu_cores")
    part = "producer" if seen.cell.operation == "get" else "consumer"
    whose = "the driver: it" if hit.stage == "driver" else f"your code: its {part}"
    yield f"{percent(hit.numbers['occupancy'])} of the time is spent in {whose} sets the pace, not Venturi"
    if cpu is None:
        return
    used = f"the process uses {cpu:.2f} cores beside Venturi's own work, with {calls:.1f} calls at a time"
    if hit.cause is Cause.PLUGIN_ONE_INTERPRETER:
        yield f"{used}: one interpreter runs one thread of Python at a time"
    elif hit.cause in (Cause.PLUGIN_BUSY, Cause.DRIVER_BUSY):
        yield f"{used}: it computes"
    else:
        end = "its database" if hit.stage == "driver" else "its other end"
        yield f"{used}: most of that time it waits for something else, {end} perhaps"
    if "run_delay" in hit.numbers:
        delay = percent(hit.numbers["run_delay"])
        yield f"its threads waited for a CPU {delay} of the time that they could run"
    other = hit.numbers.get("server_cpu_cores")
    if other is not None:
        yield f"the process of the other end uses {other:.2f} cores"


def little_in_flight(seen: CellEvidence, hit: Diagnosis) -> Lines:
    lanes, away = hit.numbers["batches_in_flight"], hit.numbers.get("round_trip_share", 0.0)
    rows = seen.cell.parameters.get("rows_per_batch")
    batches = plural(int(lanes), "batch")
    held = f"{batches} of {count(rows)} row{'' if rows == 1 else 's'}" if rows else batches
    took = milliseconds(hit.numbers["batch_ns"])
    text = f"{held} {'is' if lanes == 1 else 'are'} in flight at a time and one takes {took}"
    yield text + (f", which makes {rows_rate(seen.rows)}" if seen.rows else "")
    text = f"the client waits for answers {percent(hit.numbers['await_reply'])} of the time"
    if "cpu_cores" in hit.numbers:
        text += f", the server process uses {hit.numbers['cpu_cores']:.2f} cores meanwhile"
    yield text
    if away >= proof.AWAY:
        yield f"{percent(min(away, 1.0))} of that is the round trip ({milliseconds(seen.round_trip or 0)})"
    busy = hit.numbers.get("disk_busy", 0.0)
    if busy >= proof.DISK_SEEN and away < proof.AWAY:
        yield f"a disk is busy {percent(busy)}: commits may wait for it"


def server(seen: CellEvidence, hit: Diagnosis) -> Lines:
    server, cpu, delay = seen.server, hit.numbers.get("cpu_cores"), hit.numbers.get("run_delay", 0.0)
    noun = nouns_of(seen.cell).server
    if hit.cause is Cause.SERVER_WAITS:
        yield f"the client {waiting(seen.client.waiting)}; the {noun} mostly waits too, for something else"
        took, own = hit.numbers.get("batch_ns"), hit.numbers.get("batch_cpu_ns")
        if took is not None and own is not None:
            yield f"it has a batch for {milliseconds(took)}, and computes {milliseconds(own)} of that"
        return
    yield f"the client {waiting(seen.client.waiting)}: the {noun} sets the pace"
    if is_program(str(seen.cell.parameters.get("target"))):
        if cpu is not None:
            yield f"the programs of all streams, with what they have started, use {cpu:.2f} cores"
        return
    if server.busiest_thread and proof.one_thread(seen):
        name, filled = server.busiest_thread
        yield f"the server's busiest thread ({name}) fills {percent(filled)} of a core"
    elif cpu is not None and seen.cell.in_rows:
        lanes = (seen.client.workers or seen.streams) * hit.numbers["waiting"]
        cores = usable(seen, lanes)
        if cores < lanes:
            used = f"the server process uses {cpu:.2f} of {plural(cores, 'core')}"
            yield f"{used}, for {lanes:,.3g} batches at a time"
        else:
            yield (
                f"the server process uses {cpu:.2f} cores: it computes {percent(cpu / lanes)} of the time "
                "that it has a batch"
            )
        if delay > proof.DELAYED:
            yield f"it waited for a CPU {percent(delay)} of the time that it could run"
    elif cpu is not None:
        yield f"the process that listens on the server's port uses {cpu:.2f} cores"


def limit(numbers: Mapping[str, float], fewer: Quantity) -> tuple[str, ...]:
    """What a cell with fewer batches in flight says of one with more."""
    took = [numbers.get("batch_ns"), numbers.get("fewer_batch_ns")]
    more, less = (Quantity(ns, unit="ns").text() if ns is not None else None for ns in took)
    here, gain = count(int(numbers["batches_in_flight"])), numbers.get("gain")
    there = several(int(numbers["fewer_in_flight"]))
    compared = f"{there} in flight did as much ({fewer}) as {here}"
    if gain is not None:
        change = f"{percent(-gain)} less" if gain < 0 else f"only {percent(gain)} more"
        compared = f"{there} in flight: {fewer}; {here} in flight: {change}"
    return (
        compared,
        *([f"each batch took {more} instead of {less}"] if more and less else []),
        "neither the client nor the CPUs are busy, so batches queue in the server: before a lock or its log",
    )


def serial(numbers: Mapping[str, float], nouns: Nouns) -> tuple[str, ...]:
    """What the same core with another number of streams says of a server."""
    here, there = (plural(int(numbers[n]), nouns.stream) for n in ("streams", "other_streams"))
    return (
        f"the server process uses {numbers['cpu_cores']:.2f} cores with {here} and "
        f"{numbers['other_cpu_cores']:.2f} with {there}, and moves as much",
        "it does one thing at a time: one thread, a lock or an interpreter",
    )
