"""What a cell over a link of the laboratory may ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from venturi.common import links
from venturi.common.errors import ScenarioError
from venturi.common.links import SERVER_END
from venturi.plan.cell import Cell
from venturi.targets.system import (
    PIPES,
    in_process,
    is_driver,
    is_local,
    is_ours,
    is_plugin,
    is_program,
    is_remote,
    is_shared,
    is_unix,
    scheme_of,
)

if TYPE_CHECKING:
    from venturi.plan.scenario import Scenario

__all__ = ["check", "is_beside"]

_MOST_LOADERS = 1_000
"""A bridge of the kernel's has 1,024 ports."""


def is_beside(scenario: Scenario, url: str) -> bool:
    """Whether this address is beside the client, for another one of the run is `X://remote`, which the link
    leads to."""
    return is_local(url) and any(map(is_remote, scenario.addresses))


def check(scenario: Scenario, cell: Cell) -> None:
    """Whether what it measures goes over a link that is made here. Raises ScenarioError."""
    p, url = cell.parameters, str(cell.parameters["target"])

    def where(key: str) -> str:
        return scenario.where("matrix" if key in scenario.axes else "hosts", key)

    if scenario.hosts.server is not None and p["link"] is None and not is_beside(scenario, url):
        raise ScenarioError(
            f"{where('server')}: is started at the other end of a link, and no link is named",
            hint="name one: --link unshaped",
        )
    if p["link"] is None and SERVER_END in url:
        raise ScenarioError(
            f"{scenario.where('target', 'url')}: {SERVER_END} is the other end of a link, and none is named",
            hint='name one, and what serves there: --link 1gbit --server "COMMAND"',
        )
    if p["backplane"] is not None and p["link"] is None:
        raise ScenarioError(f"{where('backplane')}: is what loaders share behind links, and no link is named")
    if p["loaders"] is not None and p["link"] is not None and p["loaders"] > _MOST_LOADERS:
        raise ScenarioError(
            f"{where('loaders')}: over links made here at most {_MOST_LOADERS}, the switch's ports"
        )
    if p["backplane"] is not None and p["loaders"] is None:
        raise ScenarioError(
            f"{where('backplane')}: is what several loaders share, and none is named",
            hint="name a link and loaders: --link 1gbit --loaders 4 --streams 4",
        )
    if p["link"] is None:
        if p["cross"] is not None:
            raise ScenarioError(f"{where('cross')}: is other traffic on a link, and no link is named")
        if scenario.over_link and is_beside(scenario, url):
            if p["loaders"] is not None and p["loaders"] > 1:
                raise ScenarioError(
                    f"{where('loaders')}: {url} is beside one client, and over links no other reaches it",
                    hint="--loaders 1, or leave such cells out",
                )
        elif scenario.over_link:
            raise ScenarioError(
                f"{where('link')}: some cells have a link and others have none, which are other places",
                hint=f"{links.UNSHAPED!r} is the same path, as fast as it goes",
            )
        return
    if scenario.on is not None:
        raise ScenarioError(
            f"{where('link')}: is made on this host, and --on has others", hint="leave one of them out"
        )
    if p["cross"] is not None and links.parse(str(p["link"])).rate is None:
        raise ScenarioError(f"{where('cross')}: is a share of a rate, and {p['link']!r} has none")
    if (reason := _not_over_it(url, scenario.hosts.server is not None)) is not None:
        raise ScenarioError(
            f"{where('link')}: {reason}",
            hint="what goes over a link is started for the run: --target flight://local, mysql://local, ... "
            f'or your own server, --server "COMMAND" --target flight://{SERVER_END}:PORT',
        )


def _not_over_it(url: str, served: bool) -> str | None:
    """Why nothing of this address goes over the link; None where it does. `served`: a program of somebody
    else's is at its other end."""
    if url.startswith("empty:"):
        return f"{url} moves nothing"
    if is_unix(url) or is_shared(url) or in_process(url):
        return f"{url} stays on one host"
    if is_plugin(url) or is_driver(url) or is_program(url):
        return None if served else f"{url} goes where code of others sends it, and nothing is there"
    if scheme_of(url) in PIPES:
        return f"{url} goes through pipes of one host"
    if SERVER_END in url:
        return None if served else f"{url} is a program's that is started there, and none is named"
    if not is_ours(url):
        return f"{url} is somewhere else, on a link of its own"
    return None
