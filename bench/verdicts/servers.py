"""Narrow places before servers of Flight and charrow: ours, and somebody else's."""

from __future__ import annotations

from stand import Make, Stand, Trial

from support import bottleneck as made
from support import path as path
from support.charrow import serving
from support.flight import peer_command


def get(*flags: object) -> tuple[object, ...]:
    return ("--operation", "get", "--rows-per-batch", "16Ki", *flags)


def put(*flags: object) -> tuple[object, ...]:
    return ("--operation", "put", "--rows-per-batch", "16Ki", *flags)


def at(address: object, *flags: object) -> tuple[object, ...]:
    return ("--target", f"flight://{address}", *flags)


def ours(*flags: object, serve: tuple[str, ...] = (), serve_within: list[str] | None = None,
         within: list[str] | None = None, table: str = "") -> Make:  # fmt: skip
    """A reference server and a client, each started as that says. A put into a table is kept."""

    def make(stand: Stand) -> Trial:
        end = stand.enter(path.server(*serve, within=serve_within))
        return Trial(at(end.address + table, *flags, "--no-ceilings"), within or [])

    return make


def throttled(end: str, cores: float, *flags: object) -> Make:
    """The process of that end has a CPU quota."""

    def make(stand: Stand) -> Trial:
        group = stand.enter(path.cpu_group(cores))
        inside = {end: group.inside}
        server = stand.enter(path.server(within=inside.get("server")))
        return Trial(at(server.address, *flags, "--no-ceilings"), inside.get("client", []))

    return make


def both_throttled(
    server_cores: float, client_cores: float, *flags: object, serve: tuple[str, ...] = ()
) -> Make:
    def make(stand: Stand) -> Trial:
        of_server, of_client = (stand.enter(path.cpu_group(n)) for n in (server_cores, client_cores))
        server = stand.enter(path.server(*serve, within=of_server.inside))
        return Trial(at(server.address, *flags, "--no-ceilings"), of_client.inside)

    return make


def beside(count: int, inner: Make) -> Make:
    """The same, while other processes burn CPUs."""

    def make(stand: Stand) -> Trial:
        trial = inner(stand)
        stand.enter(made.burners(count))
        return trial

    return make


def linked(rate: str | None, *flags: object, sender: str | None = None, serve: tuple[str, ...] = (),
           foreign: str | None = None) -> Make:  # fmt: skip
    """Two hosts and a link between them; `sender`: only what that end sends is held back."""

    def make(stand: Stand) -> Trial:
        two = stand.enter(path.hosts(None if sender else rate))
        if rate is not None and sender:
            two.shape(rate, sender=getattr(two, sender))
        inside, host = two.inside(two.server), path.SERVER_ADDRESS
        if foreign is not None:
            server = stand.process(*inside, *peer_command("--host", host))
            return Trial(at(f"{server.address}/{foreign}", *flags), two.inside(two.client))
        server = stand.enter(path.server(*serve, within=inside, host=host))
        return Trial(at(server.address, *flags), two.inside(two.client))

    return make


def far(milliseconds: float, *flags: object, serve: tuple[str, ...] = ()) -> Make:
    """A relay between both ends that delays each byte, each way."""

    def make(stand: Stand) -> Trial:
        server = stand.enter(path.server(*serve, within=path.at_once()))
        port = stand.enter(path.relay(server.port, milliseconds))
        return Trial(at(f"127.0.0.1:{port}", *flags, "--no-ceilings"), path.at_once())

    return make


def two_servers(*flags: object, slow: str) -> Make:
    """Streams are dealt to two servers, one of which is slow."""

    def make(stand: Stand) -> Trial:
        one = stand.enter(path.server())
        other = stand.enter(path.server("--handicap", slow))
        return Trial(at(f"{one.address},{other.address}", *flags, "--no-ceilings"))

    return make


# ---- Flight: a server of somebody else's


def foreign(behaviour: str, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        server = stand.process(*peer_command())
        return Trial(at(f"{server.address}/{behaviour}", *flags, "--no-ceilings"))

    return make


# ---- charrow


def charrow(*flags: object, serve: tuple[str, ...] = ()) -> Make:
    def make(stand: Stand) -> Trial:
        server = stand.enter(serving(*serve))
        return Trial(
            ("--target", f"charrow://{server.address}", "--operation", "get", *flags, "--no-ceilings")
        )

    return make
