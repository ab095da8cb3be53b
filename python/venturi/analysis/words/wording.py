"""How verdicts put figures into words: few digits, always a unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from venturi.common.units import percent, significant
from venturi.targets.system import is_charrow, is_program

if TYPE_CHECKING:
    from venturi.analysis.cells.summary import Cell

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
