"""The foreign formats by name, and which of them a text is in."""

from __future__ import annotations

from venturi.common.errors import ScenarioError, VenturiError
from venturi.store.importers import cassandra_stress, flight, iperf3, latte, published
from venturi.store.importers.record import Format, quoted

AUTO = "auto"


# In the order in which they are tried: those that are sure of themselves first, prose last.
FORMATS = {
    it.name: it
    for it in (
        flight.PERF_STATS,
        flight.BENCHMARK,
        flight.TESTPERF,
        published.CHSPARK,
        iperf3.FORMAT,
        latte.FORMAT,
        cassandra_stress.FORMAT,
        published.MEMSQL,
        published.AKUMULI,
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
        hint="known are: " + "; ".join(f"{n} ({f.about})" for n, f in FORMATS.items()),
    )
