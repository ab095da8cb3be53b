"""The foreign formats by name, and which of them a text is in."""

from __future__ import annotations

from typing import Protocol

from venturi.common.errors import ScenarioError, VenturiError
from venturi.store.importers import (
    akumuli,
    cassandra_stress,
    chspark,
    flight_benchmark,
    iperf3,
    latte,
    memsql,
    perf_stats,
    testperf,
)
from venturi.store.importers.record import Parsed, quoted

AUTO = "auto"


class Format(Protocol):
    """A module of this package."""

    NAME: str
    ABOUT: str

    def detect(self, text: str) -> bool:
        """Whether a text is of this format; cheap, and never raises."""

    def parse(self, text: str, name: str) -> Parsed:
        """The results in a text. Raises `ScenarioError` that names file and line where it is malformed."""


# In the order in which they are tried: those that are sure of themselves first, prose last.
FORMATS: dict[str, Format] = {
    module.NAME: module
    for module in (
        perf_stats,
        flight_benchmark,
        testperf,
        chspark,
        iperf3,
        latte,
        cassandra_stress,
        memsql,
        akumuli,
    )
}


def choose(text: str, name: str, format: str = AUTO) -> Format:
    """The format called `format`, or by `auto` the one that the text is in.

    Raises `VenturiError` for a name that does not exist, `ScenarioError` for a text of no known format.
    """
    if format != AUTO:
        if format not in FORMATS:
            raise VenturiError(
                f"--format: there is no format {format!r}",
                hint=f"choose one of: {', '.join([AUTO, *FORMATS])}",
            )
        return FORMATS[format]
    for found in FORMATS.values():
        if found.detect(text):
            return found
    first = next((line for line in text.splitlines() if line.strip()), "")
    raise ScenarioError(
        f"{name}: of no format that is known; it begins with {quoted(first)}",
        hint="known are: " + "; ".join(f"{n} ({f.ABOUT})" for n, f in FORMATS.items()),
    )
