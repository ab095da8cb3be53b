"""`venturi links`: links that have a name, links made on this host, programs over one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from venturi.cli import options
from venturi.cli.options import argument, flag, switch
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say

if TYPE_CHECKING:
    from venturi.common.links import Link
    from venturi.measure.links import Looked

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi links
  venturi links "10gbit 5ms" lte "200mbit 30ms loss 0.1%"
  venturi links "100mbit 20ms" --server "iperf3 -s" --client "iperf3 -c {server}"
  venturi links satellite --client "ping -c 3 {server}"
"""
_REPEATS = 3


@app.command(epilog=EPILOG)
def links(
    link: list[str] | None = argument(
        'Links to make and to look at: lte, "10gbit 5ms", ... [default: list those that have names]',
        metavar="[LINK]...",
    ),
    client: str | None = flag(
        "Run this at the client's end of the one link; {server} stands for the other's address.",
        metavar="COMMAND",
    ),
    server: str | None = flag(
        "With --client: run this at the server's end before, until clients can connect.", metavar="COMMAND"
    ),
    cross: str | None = flag("With --client: share of the link that others use meanwhile, as 30%."),
    repeats: int | None = flag(f"Times that each link is looked at. [default: {_REPEATS}]", min=1, max=100),
    as_json: bool = switch("A JSON object, in base units.", "--json"),
    quiet: bool = options.QUIET,
) -> None:
    """List links that have a name; make links on this host and see whether they are what was asked for; run
    a program over one. Ends with 5 where a link is not as asked."""
    from venturi.common import runtime
    from venturi.measure import links as measure

    asked = measure.named(link or [])
    if client is not None:
        for name, value in (("--repeats", repeats), ("--json", as_json)):
            if value:
                raise VenturiError(f"{name} does not go with --client")
        if len(asked) != 1:
            raise VenturiError(
                f"--client goes over one link, and {len(asked) or 'none'} of them were named",
                hint='as in venturi links "100mbit 20ms" --client "ping -c 3 {server}"',
            )
        (one,) = asked.values()
        with runtime.interrupting():
            status = measure.program(one, _share(cross, one), server, client, _unsaid if quiet else say)
        raise typer.Exit(status)
    if given := [name for name, value in (("--server", server), ("--cross", cross)) if value is not None]:
        raise VenturiError(f"{given[0]} goes with --client", hint="venturi links --help has an example")
    if not asked:
        _print_presets(as_json)
        return
    _print(asked, repeats or _REPEATS, as_json, quiet)


def _unsaid(level: str, text: str) -> None:
    pass


def _share(cross: str | None, link: Link) -> float | None:
    """In percent."""
    if cross is None:
        return None

    if link.rate is None:
        raise VenturiError(f"--cross is a share of a rate, and {link.text!r} has none")
    return 100 * options.share("--cross", cross)


def _print_presets(as_json: bool) -> None:
    from venturi.report import limits as shown

    if as_json:
        options.print_json(shown.presets_machine())
    else:
        print("\n".join(shown.presets()))


def _print(asked: dict[str, Link], repeats: int, as_json: bool, quiet: bool) -> None:
    from venturi.common import runtime
    from venturi.measure import links as measure
    from venturi.report import limits as shown

    found: list[Looked] = []
    interrupted = False
    progress = None if quiet else lambda name: say("info", f"making {name}")
    try:
        with runtime.interrupting():
            for one in measure.survey(asked, repeats, progress):
                found.append(one)
                if not as_json:
                    options.print_document(shown.link_document(one))
    except KeyboardInterrupt:
        interrupted = True
    if as_json:
        options.print_json(shown.links_machine(found))
    if interrupted:
        say("warning", f"interrupted; looked at {len(found)} of {len(asked)}")
        raise typer.Exit(int(ExitCode.INTERRUPTED))
    if wrong := [one.name for one in found if one.wrong is not None]:
        say("error", f"{len(wrong)} of {len(found)} links are not as asked: {', '.join(wrong)}")
        raise typer.Exit(int(ExitCode.TRIALS_FAILED))
