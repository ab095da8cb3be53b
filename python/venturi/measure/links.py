"""Links, made on this host and looked at: is each what was asked for, and what does raw TCP make of it?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from venturi.common import links
from venturi.common.errors import ExitCode, ScenarioError, VenturiError
from venturi.common.links import Link
from venturi.common.texts import Note
from venturi.engine import executor
from venturi.engine.executor import CoreExecutor, run_with_progress
from venturi.measure.ceiling_probes import Probe, least
from venturi.netlab import programs
from venturi.netlab.laboratory import Laboratory, WrongLink
from venturi.netlab.network import CLIENT, SERVER, address
from venturi.servers.reference import Placed, Server

WAYS = {"down": "get", "up": "put"}
"""Ways over a link, from the server down to the client and up, by the operation that goes there."""


@dataclass
class Looked:
    """One link, as it was found."""

    name: str
    """As it was asked for: a preset's name, or the link's text."""
    link: Link
    looks: list[dict[str, Any]] = field(default_factory=list)
    """What was measured of the path, each time, as `link` of a trial's record (docs/format.md)."""
    tcp: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})
    """Bits/s of payload that one connection of raw TCP carries, each time, by way."""
    wrong: str | None = None
    """Why it is not what was asked for."""

    def found(self, name: str) -> list[float]:
        """One figure of every look, where it was measured."""
        return [look[name] for look in self.looks if look.get(name) is not None]

    def lost(self, way: str) -> tuple[int, int] | None:
        """Packets lost, of how many sent, of all looks; None if none was made."""
        if not self.looks:
            return None
        return sum(look[f"{way}_lost"] for look in self.looks), sum(
            look[f"{way}_packets"] for look in self.looks
        )


def named(texts: Sequence[str]) -> dict[str, Link]:
    """The links of these texts, commas between some or not, by their names. Raises ScenarioError."""
    words = [word for text in texts for part in text.split(",") if (word := part.strip())]
    try:
        return {links.canonical(word): links.parse(word) for word in words}
    except ValueError as error:
        raise ScenarioError(f"LINK: {error}", hint="venturi links names those that are known") from None


def survey(
    wanted: dict[str, Link], repeats: int, progress: Callable[[str], None] | None = None
) -> Iterator[Looked]:
    """Each of these links as it is here; raw TCP only where it is as asked. `progress` is told which is made.

    Raises VenturiError if this host can make none.
    """
    with contextlib.closing(Laboratory()) as lab:
        server = Placed(address(SERVER), lab.within(SERVER))("flight", ())
        try:
            for name, link in wanted.items():
                if progress is not None:
                    progress(name)
                yield _looked(lab, server, name, link, repeats)
        finally:
            server.stop()


def _looked(lab: Laboratory, server: Server, name: str, link: Link, repeats: int) -> Looked:
    looked = Looked(name, link)
    try:
        for _ in range(repeats):
            looked.looks.append(lab.look(link) if looked.looks else lab.ready(link, None))
            with lab.held(lambda: None):
                for way in WAYS:
                    looked.tcp[way].append(_raw_tcp(lab, server, name, way))
    except WrongLink as wrong:
        looked.looks.append(wrong.found)
        looked.wrong = str(wrong)
    except OSError as error:
        looked.wrong = str(error)
    return looked


def _raw_tcp(lab: Laboratory, server: Server, name: str, way: str) -> float:
    """Bits/s of payload. Raises OSError with what went wrong."""
    spec = {
        "target": f"flight://{server.address}",
        "options": {},
        "direction": WAYS[way],
        "streams": 1,
        "threads": 1,
        "duration_ns": int(least(Probe("tcp", link=name)) * 1e9),
        "pin": None,
    }
    control = CoreExecutor().control()
    assert isinstance(control, executor.TrialHandle)
    within = lab.within(CLIENT)

    def call(text: str, handle: Any) -> str:
        return executor.run_in_process(text, handle, within=within, call="probe_tcp")

    answer = run_with_progress(call, spec, control)
    if answer["outcome"] != "ok":
        raise OSError(f"raw TCP {way}: {(answer.get('error') or {}).get('message')}")
    return float(answer["bytes"] * 8e9 / answer["interval_ns"])


def program(link: Link, cross: float | None, server: str | None, client: str, note: Note) -> int:
    """Runs a client's command over one link, after a server's at its other end; the client's exit status.
    `cross`: percent of its rate that others take. Raises VenturiError."""
    words = programs.read("--client", client)
    if server is not None:
        programs.read("--server", server)
    with contextlib.closing(Laboratory()) as lab:
        try:
            lab.ready(link, cross)
        except (WrongLink, OSError) as error:
            raise VenturiError(
                str(error), ExitCode.TRIALS_FAILED, hint=f'venturi links "{link.text}" looks at it again'
            ) from None
        status: int | None = None
        try:
            with lab.held(lambda: None):
                status = programs.run(lab, server, words, note)
        except OSError as error:
            if status is None:
                raise
            # What the client has measured it has of a link that was not all the time what was asked for.
            note("warning", str(error))
    return status
