"""How figures, parameters, cells and curves are put into words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.summary import Cell
from venturi.analysis.statistics.curve import GAIN, Curve
from venturi.common.texts import plain as plain
from venturi.common.units import FACTORS, MISSING, Quantity, count, percent, pick_unit, plural, significant
from venturi.targets.system import is_charrow, is_program

Spell = Callable[[float], str]
USUAL_REPEATS = 5


def linear_part(curve: Curve, spell: Spell) -> str:
    return f"linear up to {spell(curve.linear)}" if curve.linear is not None else ""


def curve_end(curve: Curve, spell: Spell, moved: str = "") -> str:
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
    return undecided_part(curve, spell)


def undecided_part(curve: Curve, spell: Spell) -> str:
    """That it cannot be told, why, and what would tell."""
    first, last = spell(curve.ns[curve.start]), spell(curve.ns[-1])
    step = f"{last} against {first} cannot be told: {curve.step}"
    low, high = curve.step.low, curve.step.high
    if low is not None and high is not None and (low > 0 or high < 0):
        # Which is more is told; a gain, or a loss, is a claim of 5 %.
        moved = f"{last} move {'more' if low > 0 else 'less'} than {first}"
        step = f"{moved}, but whether by over {percent(GAIN)} cannot be told: {curve.step}"
    if not curve.bounded:
        few = "one trial of each gives" if len(curve.logs) == 1 else f"{len(curve.logs)} trials of each give"
        if curve.failed:
            whole = len(curve.logs)
            return f"{step}, because only {whole} of {whole + curve.failed} repeats went well at every point"
        return f"{step}, because {few} no margin"
    why = f", repeats differ by ±{percent(curve.scatter)}" if curve.scatter is not None else ""
    would = f"; about {curve.telling} repeats would tell" if curve.telling is not None else ""
    return f"{step} (repeat by repeat, 95 % CI){why}{would}"


STAGES_NAMED = 5
"""More stages than this in one sentence are not read."""
_IN_WORDS = {
    "await_input": "waits for input",
    "await_output": "is blocked sending",
    "await_window": "waits for the peer's HTTP/2 window",
    "await_reply": "waits for acknowledgements",
    "await_schedule": "waits for its schedule",
    "await_thread": "waits for its thread",
    "wait": "waits",
}


def rate(value: float) -> str:
    """`6.55 MB/s`, `2,431 MB/s`: three digits, for a figure that stands inside a sentence."""
    scaled = value / 1e6
    places = 2 if scaled < 10 else 1 if scaled < 100 else 0
    return f"{scaled:,.{places}f} MB/s"


def rows_rate(value: float) -> str:
    """`143 krows/s`, `1.4 Mrows/s`: three digits, for a figure that stands inside a sentence."""
    for unit, factor in (("Mrows/s", 1e6), ("krows/s", 1e3)):
        if value >= 0.9995 * factor:
            return f"{significant(value / factor)} {unit}"
    return f"{significant(value)} rows/s"


@dataclass(frozen=True)
class Nouns:
    """A system's own words."""

    row: str = "row"
    stream: str = "stream"
    server: str = "server"


NOUNS = Nouns()


def nouns_of(cell: Cell) -> Nouns:
    """Points of an ingest, partitions of a query, a program in the place of a server."""
    url = str(cell.parameters.get("target") or "")
    server = "program" if is_program(url) else "server"
    return Nouns(cell.noun, "partition" if is_charrow(url) else "stream", server)


def size(value: float) -> str:
    """Bytes in powers of two where they are whole ones, as windows and buffers are: `64 KiB`."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= factor:
            scaled = value / factor
            whole = abs(scaled - round(scaled)) < 0.005
            return f"{scaled:.0f} {unit}" if whole else f"{significant(scaled)} {unit}"
    return f"{value:.0f} B"


def milliseconds(nanoseconds: float) -> str:
    """`10.3 ms`, `0.04 ms`: round trips are compared with each other, so one unit for all."""
    return f"{significant(nanoseconds / 1e6)} ms"


def held_back(throttled: float) -> str:
    """How a control group throttled its processes: time is summed over CPUs, so this is a number of CPUs and
    no share of the interval."""
    return f"{throttled:.2g} of its CPUs {'was' if throttled == 1 else 'were'} held back on average"


def cores(n: float | None) -> tuple[str, str]:
    """All the cores of an end, and their verb: `both cores`, `are`."""
    if n is None:
        return "the cores", "are"
    whole = round(n)
    return (
        ("the only core", "is")
        if whole == 1
        else ("both cores" if whole == 2 else f"all {whole} cores", "are")
    )


def shares(found: Mapping[str, float], least: float = 0.01) -> str:
    """`receive 41 %, send 33 %`, the largest first, what is under `least` left out."""
    ordered = sorted(found.items(), key=lambda item: -item[1])
    named = [(n, s) for n, s in ordered if s >= least] or ordered[:1]
    shown = [f"{n} {percent(s)}" for n, s in named[:STAGES_NAMED]]
    return ", ".join([*shown, "..."] if len(named) > STAGES_NAMED else shown)


def waiting(found: Mapping[str, float]) -> str:
    """`waits for input 93 %, waits for its thread 4 %`."""
    ordered = sorted(found.items(), key=lambda item: -item[1])
    named = [(n, s) for n, s in ordered if s >= 0.01] or ordered[:1]
    return ", ".join(f"{_IN_WORDS.get(n, n)} {percent(s)}" for n, s in named) or "does not wait"


def listed(words: Iterable[str]) -> str:
    """`a, b and c`."""
    found = list(words)
    return " and ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


HEADS = {
    "streams": "{stream}s",
    "rows_per_batch": "{row}s/batch",
    "rows_per_stream": "{row}s/{stream}",
    "bytes_per_stream": "bytes/{stream}",
    "duration_ns": "duration",
}
"""Column heads where the parameter's own name is too long, or a system has another word."""


def head(name: str, nouns: Nouns = NOUNS) -> str:
    return HEADS.get(name, "").format(row=nouns.row, stream=nouns.stream) or name


def value(name: str, found: Any) -> str:
    """A parameter's value as in a table whose head names it."""
    if found is None:
        return MISSING
    if isinstance(found, bool):
        return "yes" if found else "no"
    if name.endswith("_ns") and isinstance(found, int | float):
        shown = pick_unit("ns", [found])
        return f"{found / FACTORS[shown][1]:g} {shown}"
    if name.startswith("bytes") and isinstance(found, int | float):
        return Quantity(float(found), unit="B").text()
    if isinstance(found, int | float):
        return count(found)
    if name == "data":
        # A path or "builtin:birdstrikes": its last word names it, the whole of it is in the scenario.
        return plain(str(found).removeprefix("builtin:").rsplit("/", 1)[-1], 40)
    if isinstance(found, list):
        return plain(",".join(str(item) for item in found), 60)
    return plain(found, 60)


def phrase(name: str, found: Any, nouns: Nouns = NOUNS) -> str:
    """A parameter's value as it stands alone in a legend."""
    if name in ("streams", "loaders") and found is not None:
        return plural(found, nouns.stream if name == "streams" else name[:-1])
    if name == "rows_per_batch" and found == 1:
        return f"1 {nouns.row}/batch"
    if name == "in_flight" and isinstance(found, int):
        return f"{found} in flight"
    if name in ("rows_per_batch", "rows_per_stream", "bytes_per_stream"):
        return f"{value(name, found)} {head(name, nouns)}"
    if name in ("operation", "place", "data", "target"):
        return value(name, found)
    if name == "compression":
        return "uncompressed" if found is None else plain(found)
    return f"{head(name, nouns)} {value(name, found)}"


def label(cell: Cell, names: Sequence[str]) -> str:
    """A cell by these parameters: `2 streams, 4,096 rows/batch`; its operation where nothing varies."""
    nouns = nouns_of(cell)
    return ", ".join(phrase(n, cell.parameters.get(n), nouns) for n in names) or cell.operation
