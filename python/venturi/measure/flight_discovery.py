"""What to measure where only an address was typed: a server of Flight is asked what it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from venturi.common.errors import ExitCode, VenturiError
from venturi.common.links import SERVER_END
from venturi.common.runtime import load_core
from venturi.common.texts import listed
from venturi.common.units import count, plural
from venturi.measure import preflight
from venturi.plan import matrix
from venturi.plan.load import only_target, scenario_of
from venturi.plan.scenario import Scenario
from venturi.targets.system import is_flight_sql, is_ours, scheme_of
from venturi.targets.urls import place_of, split_url

_STREAMS = "1,2,4"
_RECORDS = {"operation": "get,put"}
"""Of a server that makes them by the perf protocol."""
_MOST = 1_000_000_000
"""Bytes of a flight that is read where the user named none: a trial of it takes seconds."""


def discover_defaults(options: Mapping[str, Any]) -> tuple[Scenario, list[str], dict[str, str]]:
    """The scenario that was typed, what to know of it, and flags that say what was not typed. Of an address
    alone it is a sweep over numbers of streams, of what the server offers. Raises VenturiError."""
    found = scenario_of(options)
    if not only_target(options) or options["executor"] != "core":
        return found, [], {}
    chosen, notes = _what(found, options)
    more = {"streams": _STREAMS} | chosen
    return scenario_of({**options, **more}), notes, more


def _what(found: Scenario, options: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Flags for what is measured, where the address leaves a choice, and what to say of that."""
    url = found.target.url
    parts = split_url(url)
    if is_flight_sql(url):
        base = url.rstrip("/")
        raise VenturiError(
            f"{place_of(url)} is a database: name what is to be read, or how many rows of Venturi's own move",
            hint=f"venturi run --target {base} --table NAME, --query 'SELECT ...', or --operation put "
            "--rows-per-stream 100k",
        )
    if scheme_of(url) != "flight" or parts.path.strip("/") or parts.query:
        return {}, []
    if is_ours(url):
        return _RECORDS, []
    if SERVER_END in url:
        raise VenturiError(
            f"{place_of(url)} is started for the run, and cannot be asked before what it has: name it",
            hint=f"--target {url.rstrip('/')}/TABLE, or --operation get,put where it makes records on demand "
            "(Arrow's perf protocol)",
        )
    # With loaders, perhaps only these see it.
    for flag, value in (("--dry-run", options["dry_run"]), ("--on", options["on"])):
        if value:
            return _RECORDS, [f"{flag}: {place_of(url)} is not asked what it has, but taken to make records"]
    return _chosen(url, _offers(found))


def _offers(found: Scenario) -> Mapping[str, Any]:
    cells = matrix.cells(found)
    # The user's mistakes first, as of a run.
    preflight.check(found, cells)
    preflight.check_hosts(found, cells)
    try:
        answer = load_core().flight_offers(found.target.url, json.dumps(dict(cells[0].options)))
    except ValueError as error:
        raise VenturiError(str(error)) from None
    except (OSError, RuntimeError) as error:
        raise VenturiError(str(error), ExitCode.UNREACHABLE) from None
    offers: dict[str, Any] = json.loads(answer)
    return offers


def _chosen(url: str, offers: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The same, of a server that was asked."""
    place, base = place_of(url), url.rstrip("/")
    if offers["perf"]:
        return _RECORDS, [f"{place} makes records on demand (Arrow's perf protocol): gets and puts of these"]
    flights, nameless = offers["flights"], offers["nameless"]
    if not flights:
        none = "does not list its flights" if flights is None else "lists no flights"
        listing = f"lists {plural(nameless, 'flight')} that no URL can name" if nameless else none
        raise VenturiError(
            f"{place} {listing}, and makes no records on demand (Arrow's perf protocol): name what is to be "
            "read",
            hint=f"venturi run --target {base}/TABLE, or --target '{base}?command=SELECT%201'",
        )
    one = _readable(flights)
    more = f", and {nameless} that no URL can name" if nameless else ""
    notes = [f"{place} lists {listed([flight['place'] + _size(flight) for flight in flights])}{more}"]
    rest = [flight for flight in flights if flight is not one]
    if rest:
        notes.append(f"{one['place']} is read; another by: --target '{base}{rest[0]['place']}'")
    return {"target": base + one["place"], "operation": "get"}, notes


def _readable(flights: list[dict[str, Any]]) -> dict[str, Any]:
    """The largest that a trial reads in seconds, else the first of unknown size, else the smallest that is
    not empty."""
    sized = [(size, flight) for flight in flights if (size := _bytes(flight))]
    small = [one for one in sized if one[0] <= _MOST]
    if small:
        return max(small, key=lambda one: one[0])[1]
    unknown = [flight for flight in flights if _bytes(flight) is None]
    if unknown:
        return unknown[0]
    return min(sized, key=lambda one: one[0])[1] if sized else flights[0]


def _bytes(flight: Mapping[str, Any]) -> int | None:
    """Of the whole flight. Where only rows are told, they are taken for four columns of numbers."""
    rows = flight["rows"]
    found: int | None = flight["bytes"]
    return found if found is not None or rows is None else 32 * int(rows)


def _size(flight: Mapping[str, Any]) -> str:
    return f" ({count(flight['rows'])} rows)" if flight["rows"] is not None else ""
