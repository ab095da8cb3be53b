"""The servers of a run as environment.json describes them, those of a place with several one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["ends", "of_first_place", "several"]

Environment = Mapping[str, Any]


def several(environment: Environment) -> dict[str, dict[str, Mapping[str, Any] | None]]:
    """Of each place that has several servers: by HOST:PORT what each tells of itself, None where nothing."""
    return {place: dict(told) for place, told in _mapping(environment.get("server_hosts")).items()}


def of_first_place(environment: Environment) -> list[Mapping[str, Any]]:
    """All servers that tell of themselves of the place that `server` is of."""
    apart, first = several(environment), environment.get("server")
    if not isinstance(first, Mapping):
        return []
    place = next(iter(_mapping(environment.get("servers")) or apart), None)
    told = [one for one in apart.get(str(place), {}).values() if one]
    return told or [first]


def ends(environment: Environment) -> dict[str, Mapping[str, Any]]:
    """Client and servers by the names of their columns; of several places and of several servers each."""
    apart, places = several(environment), _mapping(environment.get("servers"))
    found: dict[str, Any] = {"client": environment.get("client")}
    if places:
        for place, first in places.items():
            names = {f"server {place} {address}": one for address, one in apart.get(place, {}).items()}
            found |= names or {f"server {place}": first}
    else:
        (told,) = apart.values() if len(apart) == 1 else ({},)
        names = {f"server {address}": one for address, one in told.items()}
        found |= names or {"server": environment.get("server")}
    return {name: _mapping(one) for name, one in found.items()}


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}
