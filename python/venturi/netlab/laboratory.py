"""Namespaces with links between them: made, changed, looked at, taken down."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import wait
from typing import Any

from venturi.common.environment import read
from venturi.common.errors import UnreachableError
from venturi.common.links import Link, Rates
from venturi.common.suffixes import format_duration
from venturi.common.units import bit_rate
from venturi.engine.calls import Gone, Process
from venturi.netlab.network import SERVER, Hosts, Order, Shape, address

RATE_OFF = 0.03
TRIP_OFF, TRIP_OFF_NS = 0.05, 200_000
"""Of the rate; of the round trip: a share and so many ns on top of it."""
CHANCE = 1e-4
"""So seldom chance alone makes a right link look wrong, by its losses each way."""
OF_JITTER = 0.7
"""Of the jitter: so far off lies the median of pings that meet some eight values of it, once in 10,000."""
LEAST_JITTER, MORE_JITTER_NS = 0.5, 500_000
"""The pings lie apart by half of the jitter or more, and by no more than it can make, twice that, and what a
busy host is late by."""
_WAYS = ("up", "down")


def path_record(link: Link, found: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured of the path, as a trial's record has it."""
    trip, ways = found["round_trip"], dict(zip(_WAYS, found["ways"], strict=True))
    return {
        "round_trip_ns": _trip(link, trip),
        **{f"{name}_bits_per_second": way["rate"] for name, way in ways.items()},
        **{f"{name}_packets": way["sent"] for name, way in ways.items()},
        **{f"{name}_lost": way["lost"] for name, way in ways.items()},
    }


def _trip(link: Link, trip: Mapping[str, int]) -> int:
    """The least of some is the path's: this host was late with what is more. Not so where it jitters."""
    return trip["median_ns"] if link.jitter_ns else trip["least_ns"]


def path_faults(link: Link, found: Mapping[str, Any]) -> Iterator[str]:
    """What of the path is not as asked, with both numbers."""
    trip = _trip(link, found["round_trip"])
    more = OF_JITTER * link.jitter_ns
    if abs(trip - link.round_trip_ns) > TRIP_OFF * link.round_trip_ns + TRIP_OFF_NS + more:
        wanted, measured = format_duration(link.round_trip_ns), format_duration(trip)
        yield f"round trip: {wanted} was asked for, {measured} found"
    apart = found["round_trip"]["most_ns"] - found["round_trip"]["least_ns"]
    if link.jitter_ns and not LEAST_JITTER <= apart / link.jitter_ns <= 2 + MORE_JITTER_NS / link.jitter_ns:
        wanted, measured = format_duration(link.jitter_ns), format_duration(apart)
        yield f"jitter: {wanted} was asked for, and round trips lie {measured} apart"
    (down, up) = link.rate or (None, None)
    for name, rate, loss, way in zip(_WAYS, (up, down), reversed(link.loss), found["ways"], strict=True):
        if rate is not None and abs(way["rate"] / rate - 1) > RATE_OFF:
            # A rate that this host cannot send by itself may be there or not.
            slow = f" (this host sent {bit_rate(way['offered'], 4)})" if way["offered"] < rate else ""
            yield f"rate {name}: {bit_rate(rate, 4)} were asked for, {bit_rate(way['rate'], 4)} found{slow}"
        sent, lost = way["sent"], way["lost"]
        if _chance(lost, sent, loss) < CHANCE / 2:
            yield f"loss {name}: {100 * loss:g} % was asked for, {lost} of {sent} packets were lost"


def _chance(lost: int, sent: int, loss: float) -> float:
    """The probability of so many losses, or of some that are further from what is expected, on that side."""
    from scipy.special import bdtr, bdtrc

    fewer = lost < sent * loss
    return float(bdtr(lost, sent, loss) if fewer else bdtrc(lost - 1, sent, loss) if lost else 1.0)


Halt = Callable[[], bool]

_START_SECONDS = _ORDER_SECONDS = 20.0
_LONGEST_SECONDS = 30.0
_WATCH_SECONDS = 0.2
_LOOKS = 4
"""How often a path is looked at before it is called wrong: others may keep this host busy for a moment."""
_HOLDS_SECONDS = 20.0
"""How long a look at a path holds, where nothing was changed: as long as some trials."""
_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
"""Programs that are called, and Debian's packages with them."""


_FOR_ROOT = (
    "user.max_net_namespaces (sysctl) has to be above 0, and a container needs rights: "
    "docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN"
)
_FOR_UNPRIVILEGED = (
    "be root, or allow unprivileged user namespaces (user.max_user_namespaces above 0; where they are there "
    "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
)


class Stopped(Exception):
    """`halt` ended a wait."""


class WrongLink(Exception):
    """The path is not the link that was asked for; `found`: what was measured of it."""

    def __init__(self, text: str, found: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.found = dict(found)


class Laboratory:
    """Stays until `close`, or until this process ends, whatever ends that. Raises VenturiError if it cannot
    be made on this host, with the reason."""

    def __init__(self, loaders: int = 1) -> None:
        """`loaders`: clients, each with a link of its own."""
        _check_host()
        self.hosts = Hosts(loaders)
        self._root = os.geteuid() == 0
        self._now: Shape | None = None
        self._found: dict[str, Any] = {}
        self._looked = 0.0
        self._control: str | None = None
        # Who is not root has power over networks in a user namespace, and over its networks alone.
        user = [] if self._root else ["--user", "--map-current-user", "--keep-caps"]
        self._keeper = Process(
            *("link", "venturi.netlab.keeper", *self.hosts.ends),
            within=["unshare", *user, "--net", "--"],
            environment={**os.environ, "PATH": _search_path()},
        )
        try:
            self._pids: dict[str, int] = self._order("pids", None, _START_SECONDS)
            self._ip(self.hosts.made(self._pids))
            for end in self.hosts.ends:
                self._ip(self.hosts.placed(end), end)
            self._run(Shape(Link(), self.hosts).pings(os.getegid()))
        except BaseException as error:
            complaint = self._complaint() if not self._keeper.running else ""
            self.close()
            if not isinstance(error, OSError | ValueError):
                raise
            raise UnreachableError(
                f"--link: no network namespaces can be made here: {complaint or error}",
                hint=_FOR_ROOT if self._root else _FOR_UNPRIVILEGED,
            ) from None

    def within(self, end: str) -> list[str]:
        """What a command begins with that is to run at this end: `client` or `server`."""
        namespaces = f"/proc/{self._pids[end]}/ns"
        user = [] if self._root else [f"--user={namespaces}/user", "--preserve-credentials"]
        # For the core, which looks for the server's process (crates/base/src/meter/readers/beside.rs).
        beside = f"VENTURI_BESIDE={address(SERVER)}=/proc/{self._pids[SERVER]}/net"
        return ["nsenter", *user, f"--net={namespaces}/net", "--", "env", beside]

    def ready(
        self,
        link: Link,
        cross: float | None = None,
        backplane: Rates | None = None,
        halt: Halt = lambda: False,
    ) -> dict[str, Any]:
        """Makes each client's path to the server this link, and says what was measured of it: anew where it
        was another one before, or that was long ago. `cross`: percent of its rate that others take from then
        on; `backplane`: what all clients share. Raises WrongLink if it is not as asked, OSError where it
        cannot be made, and Stopped where `halt` says so meanwhile."""
        wanted = Shape(link, self.hosts, backplane, cross)
        if wanted != self._now:
            self._now = None
            self._make(wanted)
        elif time.monotonic() - self._looked < _HOLDS_SECONDS:
            return dict(self._found)
        self._now = None
        self._order("fill", [])
        self._found = self._looked_at(wanted, halt)
        self._order("fill", wanted.fill())
        self._now, self._looked = wanted, time.monotonic()
        return dict(self._found)

    def _make(self, shape: Shape) -> None:
        self._order("relay", None)
        self._run(shape.orders())
        if shape.link.control != self._control:
            try:
                self._run(shape.control())
            except OSError:
                name = shape.link.control
                raise OSError(
                    f"TCP's congestion control {name} cannot be chosen here: the kernel has those of "
                    "net.ipv4.tcp_available_congestion_control (sysctl)"
                ) from None
            self._control = shape.link.control
        if shape.needs_relay:
            self._order("relay", shape.relay())

    def rest(self) -> None:
        """Nothing comes over the link until it is wanted again."""
        if self._now is not None and self._now.fill():
            self._now = None
            self._order("fill", [])

    def look(self, link: Link) -> dict[str, Any]:
        """What is measured of the path, which `ready` has made this link. Raises as that does."""
        return self._looked_at(Shape(link, self.hosts), lambda: False)

    def _looked_at(self, shape: Shape, halt: Halt) -> dict[str, Any]:
        """Of the first client's path; all have to be as asked."""
        first, *_ = [self._looked_from(client, shape, halt) for client in self.hosts.clients]
        return first

    def _looked_from(self, client: str, shape: Shape, halt: Halt) -> dict[str, Any]:
        wrong: list[str] = []
        seconds = _ORDER_SECONDS + 2 * shape.look_seconds()
        for attempt in range(_LOOKS):
            try:
                found = self._order("look", shape.look(client), seconds, halt)
            except OSError:
                # Too little came through in time: a moment of this host's, as well.
                if attempt == _LOOKS - 1:
                    raise
                continue
            wrong = list(path_faults(shape.path, found))
            recorded = path_record(shape.path, found) | {
                "control": self._control or read("/proc/sys/net/ipv4/tcp_congestion_control")
            }
            if not wrong:
                return recorded
        where = f" from {client}" if self.hosts.loaders > 1 else ""
        raise WrongLink(f"the path{where} is not {shape.path.text}: {'; '.join(wrong)}", recorded)

    @contextlib.contextmanager
    def held(self, when_gone: Callable[[], None]) -> Iterator[None]:
        """A block in which the link has to stay as it is. `told` is called should the laboratory end within.
        Raises OSError at its end where the laboratory could not keep up, with what it missed."""
        before = self._passed()
        self._keeper.when_gone = when_gone
        try:
            if self._keeper.gone:
                when_gone()
            yield
        finally:
            self._keeper.when_gone = lambda: None
        self._check(before, self._passed())

    def _passed(self) -> Mapping[str, Any]:
        """What has passed so far. Raises OSError if the link is no more."""
        try:
            found: Mapping[str, Any] = self._order("passed", None)
        except OSError:
            # It is made anew for whoever wants it next.
            self._now = None
            raise
        return found

    def _check(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        overrun = sum(way["overrun"] for way in after["relay"]) - sum(w["overrun"] for w in before["relay"])
        if overrun:
            raise OSError(f"this machine cannot keep up: {overrun:,} frames were lost that should not")
        fillers = self._now.fill() if self._now is not None else []
        for one, (began, ended) in zip(fillers, zip(before["fill"], after["fill"], strict=True), strict=True):
            seconds, wanted = ended[1] - began[1], one["bits_per_second"]
            # A packet more or less is chance.
            packet = 8 * (one["mtu"] + one["overhead"])
            if abs(ended[0] - began[0] - wanted * seconds) > RATE_OFF * wanted * seconds + packet:
                sent = bit_rate((ended[0] - began[0]) / seconds, 4)
                raise OSError(f"others were to send {bit_rate(wanted, 4)}, and sent {sent}")

    @property
    def helpers(self) -> dict[str, int]:
        """The processes that make the link what it is, by role."""
        return {"relay": self._keeper.pid}

    @property
    def running(self) -> bool:
        return self._keeper.running

    def close(self) -> None:
        self._keeper.close()

    def _order(
        self, name: str, argument: object, seconds: float = _LONGEST_SECONDS, halt: Halt = lambda: False
    ) -> Any:
        """What the keeper answers. Raises OSError with what went wrong there, or if that takes longer, and
        Stopped if `halt` says so."""
        call, until = self._keeper.call(name, argument), time.monotonic() + seconds
        while wait([call], _WATCH_SECONDS).not_done:
            if halt():
                raise Stopped
            if time.monotonic() > until:
                raise OSError(f"the laboratory does not answer in {seconds:.0f} s")
        try:
            return call.result()
        except Gone:
            raise OSError(f"the laboratory has ended: {self._complaint()}") from None
        except RuntimeError as error:
            raise OSError(str(error)) from None

    def _complaint(self) -> str:
        """Why the keeper has ended: the last line that it wrote."""
        status = self._keeper.status()
        lines = self._keeper.errors().splitlines()
        return lines[-1] if lines else "it was killed" if status < 0 else f"status {status}"

    def _run(self, orders: Iterable[Order]) -> None:
        for order in orders:
            self._order("run", order)

    def _ip(self, text: str, where: str | None = None) -> None:
        self._order("run", {"words": ["ip", "-batch", "-"], "text": text, "where": where})


def _check_host() -> None:
    if sys.platform != "linux":
        raise UnreachableError("--link needs Linux, for its network namespaces")
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=_search_path()) is None:
            raise UnreachableError(
                f"--link needs the program {program}, which is not here",
                hint=f"Debian's package {package} has it",
            )


def _search_path() -> str:
    """Where programs are looked for. Administrators' are not in everybody's PATH."""
    return ":".join([os.environ.get("PATH") or os.defpath, "/usr/local/sbin", "/usr/sbin", "/sbin"])
