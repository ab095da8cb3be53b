"""What a cell over a link of the laboratory may ask for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from venturi.common import links
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
from venturi.targets.urls import each_host

if TYPE_CHECKING:
    from venturi.plan.scenario import Scenario

_PORT = re.compile(rf"{re.escape(SERVER_END)}:(\d{{1,5}})\b")
_MOST_LOADERS = 1_000
"""A bridge of the kernel's has 1,024 ports."""


def resolve_links(scenario: Scenario) -> Scenario:
    """With what its links are for."""
    urls = scenario.places.values() or scenario.axes.get("target", [scenario.target.url])
    over = any(name is not None for name in (scenario.hosts.link, *scenario.axes.get("link", ())))
    return replace(scenario, over_link=over, to_remote=over and any(map(is_remote, urls)))


def is_beside(scenario: Scenario, url: str) -> bool:
    """Whether this address is beside the client, and the link leads to another one."""
    return scenario.to_remote and is_local(url)


def check_all(scenario: Scenario, cells: Sequence[Cell]) -> None:
    """Whether somebody uses the link, and what is started at its other end. Raises ScenarioError."""
    if scenario.over_link and not any(cell.parameters["link"] for cell in cells):
        raise scenario.wrong(
            "link: leads to X://remote, and every cell is beside the client",
            "leave the link out, or measure the remote place too",
        )
    if scenario.hosts.server is None:
        return
    if not scenario.over_link:
        raise scenario.wrong(
            "server: is started at the other end of a link, and no link is named",
            f"name one: --link {links.UNSHAPED}",
        )
    if not any(map(_may_reach, cells)):
        raise scenario.wrong(
            f"server: no address, command or driver option has {SERVER_END} in it, so "
            "nobody would speak to this program",
            f"where it listens is {SERVER_END}: --target flight://{SERVER_END}:PORT",
        )


def _texts(cell: Cell) -> dict[str, str]:
    """In which the other end of a link may stand, by their keys in [target]."""
    return {
        "url": str(cell.parameters["target"]),
        "command": cell.options.get("command") or "",
        "driver_options": " ".join(cell.options.get("driver_options") or ()),
    }


def ports(cells: Sequence[Cell]) -> set[int]:
    """Of the other end of a link, as cells name them."""
    found = (_PORT.finditer(text) for cell in cells for text in _texts(cell).values())
    return {int(match[1]) for matches in found for match in matches}


def _names_server(cell: Cell) -> str | None:
    """The key of [target] in which the other end of a link stands; None where it does not."""
    return next((key for key, text in _texts(cell).items() if SERVER_END in text), None)


def _may_reach(cell: Cell) -> bool:
    """Whether it names the other end of a link, or may: by a variable of the environment."""
    return _names_server(cell) is not None or "uri" in (cell.options.get("driver_option_env") or {})


def check(scenario: Scenario, cell: Cell) -> None:
    """Whether what it measures goes over a link that is made here. Raises ScenarioError."""
    p, url, wrong = cell.parameters, str(cell.parameters["target"]), scenario.wrong
    if p["link"] is None and (key := _names_server(cell)) is not None:
        raise scenario.wrong(
            f"{key}: {SERVER_END} is the other end of a link, and none is named",
            'venturi run --link 1gbit --server "COMMAND" makes one, and starts what serves there',
        )
    if p["backplane"] is not None and p["link"] is None:
        raise wrong("backplane: is what loaders share behind links, and no link is named")
    if p["loaders"] is not None and p["link"] is not None and p["loaders"] > _MOST_LOADERS:
        raise wrong(f"loaders: over links made here at most {_MOST_LOADERS}, the switch's ports")
    if p["backplane"] is not None and p["loaders"] is None:
        raise wrong(
            "backplane: is what several loaders share, and none is named",
            "name a link and loaders: --link 1gbit --loaders 4 --streams 4",
        )
    if p["link"] is None:
        if p["cross"] is not None:
            raise wrong("cross: is other traffic on a link, and no link is named")
        if scenario.over_link and is_beside(scenario, url):
            if p["loaders"] is not None and p["loaders"] > 1:
                raise wrong(
                    f"loaders: {url} is beside one client, and over links no other reaches it",
                    "--loaders 1, or leave such cells out",
                )
        elif scenario.over_link:
            raise wrong(
                "link: some cells have a link and others have none, which are other places",
                f"{links.UNSHAPED!r} is the same path, as fast as it goes",
            )
        return
    if scenario.on is not None:
        raise wrong("link: is made on this host, and --on has others", "leave one of them out")
    if p["cross"] is not None and links.parse(str(p["link"])).rate is None:
        raise wrong(f"cross: is a share of a rate, and {p['link']!r} has none")
    if (reason := _not_over_it(cell, scenario.hosts.server is not None)) is not None:
        raise wrong(
            f"link: {reason}",
            "what goes over a link is started for the run: --target flight://local, mysql://local, ... "
            f'or your own server, --server "COMMAND" --target flight://{SERVER_END}:PORT',
        )


def _not_over_it(cell: Cell, served: bool) -> str | None:
    """Why nothing of this cell goes over the link; None where it does. `served`: a program of somebody else's
    is at its other end."""
    url = str(cell.parameters["target"])
    if url.startswith("empty:"):
        return f"{url} moves nothing"
    if is_unix(url) or is_shared(url) or in_process(url):
        return f"{url} stays on one host"
    if is_plugin(url) or is_driver(url) or is_program(url):
        if not served:
            return f"{url} goes where code of others sends it, and no --server is there"
        return None if _may_reach(cell) else f"{url}: nothing that is set names {SERVER_END}, its other end"
    if scheme_of(url) in PIPES:
        return f"{url} goes through pipes of one host"
    if is_ours(url):
        return None
    if all(urlsplit(one).hostname == SERVER_END for one in each_host(url)):
        return None if served else f"{url} is a program's that is started there, and no --server is named"
    return f"{url} is somewhere else, on a link of its own"
