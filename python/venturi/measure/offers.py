"""What to measure where only an address was typed: a server of Flight is asked what it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from venturi.common.core import load_core
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.names import listed
from venturi.common.units import count
from venturi.measure import preflight
from venturi.plan import matrix
from venturi.plan.scenario import Scenario
from venturi.plan.typed import only_target, scenario_of
from venturi.targets.system import is_ours, scheme_of
from venturi.targets.urls import place_of

__all__ = ["settled"]

_STREAMS = "1,2,4"
_RECORDS = {"operation": "get,put"}
"""Of a server that makes them by the perf protocol."""
_MOST = 1_000_000_000
"""Bytes of a flight that is read where the user named none: a trial of it takes seconds."""


def settled(given: Mapping[str, Any]) -> tuple[Scenario, list[str]]:
    """The scenario that was typed, and what to know of it. Of an address alone it is a sweep over numbers of
    streams, of what the server offers. Raises VenturiError."""
    found = scenario_of(given)
    if not only_target(given) or given["executor"] != "core":
        return found, []
    chosen, notes = _what(found, given)
    return scenario_of({**given, "streams": _STREAMS, **chosen}), notes


def _what(found: Scenario, given: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Flags for what is measured, where the address leaves a choice, and what to say of that."""
    url = found.target.url
    parts = urlsplit(url)
    if scheme_of(url) != "flight" or parts.path.strip("/") or parts.query:
        return {}, []
    if is_ours(url):
        return _RECORDS, []
    # With loaders, perhaps only these see it.
    for flag, value in (("--dry-run", given["dry_run"]), ("--on", given["on"])):
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
    flights = offers["flights"]
    if not flights:
        raise VenturiError(
            f"{place} {'does not list its flights' if flights is None else 'lists no flights'}, and makes no "
            "records on demand (Arrow's perf protocol): name what is to be read",
            hint=f"venturi run --target {base}/TABLE, or --target '{base}?command=SELECT%201'",
        )
    one = _readable(flights)
    notes = [f"{place} lists {listed([flight['place'] + _size(flight) for flight in flights])}"]
    others = [flight for flight in flights if flight is not one]
    if others:
        notes.append(f"{one['place']} is read; another by: --target '{base}{others[0]['place']}'")
    return {"target": base + one["place"], "operation": "get"}, notes


def _readable(flights: list[dict[str, Any]]) -> dict[str, Any]:
    """The largest that a trial reads in seconds, or else the smallest; the first where no sizes are told."""
    small = [flight for flight in flights if 0 < _bytes(flight) <= _MOST]
    if small:
        return max(small, key=_bytes)
    unknown = [flight for flight in flights if not _bytes(flight)]
    return unknown[0] if unknown else min(flights, key=_bytes)


def _bytes(flight: Mapping[str, Any]) -> int:
    """0: nobody knows. Where only rows are told, they are taken for four columns of numbers."""
    return int(flight["bytes"] or 32 * (flight["rows"] or 0))


def _size(flight: Mapping[str, Any]) -> str:
    return f" ({count(flight['rows'])} rows)" if flight["rows"] else ""
