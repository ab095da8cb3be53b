"""The hosts of the laboratory, how they are wired, and what the kernel and the relay are told of a link.

Each host has one interface, `eth0`, whose other end lies in the middle: `toward-c` of the client, `toward-c2`
and so on of further ones, `toward-s` of the server. The link lies between the two interfaces of `middle`.
Several clients hang on a switch, `hosts`, whose way on is the cable `trunk-c`, `trunk-s`.
"""

from __future__ import annotations

import platform
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from venturi.common.links import ETHERNET, Link, Rates

SERVER = "server"
CLIENT = "client"
SWITCH = "switch"
"""The bridge between the interfaces of `middle`, of a link without length."""
_HOSTS = "hosts"
_TRUNK = ("trunk-c", "trunk-s")
_AS_BRIDGE = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
NETWORK = "10.77.0.0/16"
_ADDRESS = "10.77.{}.{}"
_MAC = "02:00:0a:4d:{:02x}:{:02x}"


@dataclass(frozen=True)
class Hosts:
    """So many clients, and a server."""

    loaders: int = 1

    @property
    def clients(self) -> tuple[str, ...]:
        return (CLIENT, *(f"{CLIENT}-{n}" for n in range(2, self.loaders + 1)))

    @property
    def ends(self) -> tuple[str, ...]:
        return (*self.clients, SERVER)

    @property
    def middle(self) -> tuple[str, str]:
        """The interfaces between which the link lies: toward clients, and toward the server."""
        return (_toward(CLIENT) if self.loaders == 1 else _TRUNK[1]), _toward(SERVER)

    @property
    def ports(self) -> tuple[str, ...]:
        """The interfaces by which a switch reaches several clients."""
        return tuple(map(_toward, self.clients)) if self.loaders > 1 else ()

    @property
    def bridged(self) -> tuple[str, ...]:
        """What else lies in the middle, of several clients."""
        return (*self.ports, *_TRUNK, _HOSTS) if self.ports else ()

    def made(self, pids: Mapping[str, int]) -> str:
        """For `ip -batch` in the middle: its interfaces, their other ends in the namespaces of processes."""
        lines = [f"link add {SWITCH} {_AS_BRIDGE}", f"link set {SWITCH} up", "link set lo up"]
        for end in self.ends:
            peer = f"peer name eth0 address {_mac(end)} netns {pids[end]}"
            lines += [f"link add {_toward(end)} type veth {peer}", f"link set {_toward(end)} up"]
        if self.ports:
            lines += [f"link add {_HOSTS} {_AS_BRIDGE}", f"link set {_HOSTS} up"]
            lines += [f"link add {_TRUNK[0]} type veth peer name {_TRUNK[1]}"]
            lines += [f"link set {name} up" for name in _TRUNK]
            lines += [f"link set {name} master {_HOSTS}" for name in (*self.ports, _TRUNK[0])]
        return "\n".join([*lines, ""])

    def placed(self, end: str) -> str:
        """For `ip -batch` at an end: its address, and those that it speaks to, which it need not ask for."""
        opposite = self.clients if end == SERVER else (SERVER,)
        return "\n".join(
            [
                "link set lo up",
                f"address add {address(end)}/16 dev eth0",
                "link set eth0 up",
                *(f"neighbour add {address(it)} lladdr {_mac(it)} dev eth0 nud permanent" for it in opposite),
                "",
            ]
        )


def address(end: str) -> str:
    """Of a host."""
    return _ADDRESS.format(*_number(end))


def _mac(end: str) -> str:
    return _MAC.format(*_number(end))


def _number(end: str) -> tuple[int, int]:
    if end in (CLIENT, SERVER):
        return 0, 1 if end == CLIENT else 2
    # 0 and 255 end no address of a host.
    return tuple(n + 1 for n in divmod(int(end.rpartition("-")[2]), 254))  # type: ignore[return-value]


def _toward(end: str) -> str:
    return "toward-s" if end == SERVER else f"toward-c{end.removeprefix(CLIENT).removeprefix('-')}"


_ADDRESSES = {f"{{{end}}}": address(end) for end in Hosts().ends}
"""Of a client and a server, by what stands for them in texts."""


def filled(text: str) -> str:
    """With addresses in place of {client} and {server}."""
    for end, place in _ADDRESSES.items():
        text = text.replace(end, place)
    return text


_SEEN = 24
"""Bytes of what Ethernet adds to a packet that the kernel does not count: checksum, preamble, gap."""
_BURST_SECONDS = 0.001
_LEAST_BURST = 2
"""Packets, that a bucket lets pass at once at the least."""
_MOST_WAITING = 1 << 30
_SLACK = 64 << 20
"""Bytes of the relay's, for what comes at once."""
_FASTEST = 40e9
"""bits/s: what a path that nothing is asked of may hold, in its delay."""
_MANY_PACKETS = 65_535
_RATE_SECONDS = 0.25
_LEAST_RATE_PACKETS = 25
_OVER = 1.25
"""How much more than its rate is sent to find it."""
_COUNT_SECONDS, _LOSS_SECONDS, _MOST_LOSS_SECONDS = 0.3, 1.5, 5.0
"""How long packets are counted: of a path without losses, with some, with too few of them to tell."""
_FEWEST_LOSSES = 15
"""Of which none comes by chance once in three million looks."""
_COUNTED, _LEAST_COUNTED = 4_000, 20
_UNDER, _UNSHAPED = 0.7, 2e8
"""Of the rate, and bits/s where there is none: nothing but chance loses packets then."""
_LOSSES = 100
"""Losses that are expected of the packets sent, so that their part can be told."""
_PINGS = 31
_PINGS_EVERY_NS, _MOST_EVERY_NS = 2_000_000, 50_000_000
_CUTS_DATAGRAMS = (6, 2)
"""The first kernel whose packet sockets take datagrams that are yet to be cut."""
Order = dict[str, Any]
"""Of the keeper's: a command, where it is run, its input."""


@dataclass(frozen=True)
class Shape:
    """A link between each client and the server."""

    link: Link
    hosts: Hosts
    backplane: Rates | None = None
    """bits/s down and up of what several clients share; None: as of one link."""
    cross: float | None = None
    """Percent of what they share that others take."""

    @property
    def shared(self) -> Link:
        """What all that goes to the server passes."""
        return self.link if self.backplane is None else replace(self.link, rate=self.backplane)

    @property
    def path(self) -> Link:
        """What one client alone finds: the narrower of its own link and what is shared."""
        own, shared = self.link.rate, self.shared.rate
        if own is None or shared is None:
            return replace(self.link, rate=own or shared)
        return replace(self.link, rate=(min(own[0], shared[0]), min(own[1], shared[1])))

    @property
    def needs_relay(self) -> bool:
        link = self.link
        return bool(link.round_trip_ns or link.jitter_ns or any(link.loss))

    def orders(self) -> Iterator[Order]:
        """For the keeper: queues, sizes of packets, bridges."""
        link, hosts, shared = self.link, self.hosts, self.shared
        down, up = link.rate or (None, None)
        for interface, rate, buffer in zip(
            hosts.middle, shared.rate or (None, None), shared.buffers(), strict=True
        ):
            yield _queue(interface, rate, buffer, link.mtu)
        for port, client in zip(hosts.ports, hosts.clients, strict=bool(hosts.ports)):
            yield _queue(port, down, link.buffers()[0], link.mtu)
            yield _queue("eth0", up, link.buffers()[1], link.mtu, client)
        joins = "nomaster" if self.needs_relay else f"master {SWITCH}"
        lines = [f"link set {name} mtu {link.mtu} {joins}" for name in hosts.middle]
        lines += [f"link set {name} mtu {link.mtu}" for name in (SWITCH, *hosts.bridged)]
        yield _ip(lines)
        # What a host sends at once is lost at once: chance shall meet packets.
        alone = bool(link.jitter_ns or any(link.loss))
        for end in hosts.ends:
            at = 0 if end == SERVER else 1
            buffer = min(shared.buffers()[at], link.buffers()[at])
            # And what does not fit into a buffer as a whole never passes it.
            fits = max(1, min(_MANY_PACKETS, buffer // 4 // link.mtu))
            yield _ip([f"link set eth0 mtu {link.mtu} gso_max_segs {1 if alone else fits}"], end)
            # A path that TCP remembers is the one before.
            yield {"words": ["ip", "tcp_metrics", "flush"], "where": end, "may_fail": True}

    def control(self) -> Iterator[Order]:
        """For the keeper: TCP's congestion control at all ends; the host's again where the link names none.
        That of a route: a namespace's own may only be one that the host allows everybody
        (net.ipv4.tcp_allowed_congestion_control), which CUBIC is not everywhere."""
        chosen = [] if self.link.control is None else ["congctl", self.link.control]
        for end in self.hosts.ends:
            route = ["dev", "eth0", "proto", "kernel", "scope", "link", "src", address(end)]
            yield {"words": ["ip", "route", "replace", NETWORK, *route, *chosen], "where": end}

    def pings(self, group: int) -> Iterator[Order]:
        """For the keeper: lets this group send pings without more rights, as most distributions have it, for
        programs of whoever is not root."""
        write = f"echo {group} {group} > /proc/sys/net/ipv4/ping_group_range"
        for end in self.hosts.ends:
            yield {"words": ["sh", "-c", write], "where": end, "may_fail": True}

    def relay(self) -> dict[str, Any]:
        """The relay's spec: from the clients up to the server, and down again."""
        link = self.link
        seconds = (link.round_trip_ns + link.jitter_ns) / 2e9

        def way(rate: float | None, loss: float, buffer: int) -> dict[str, Any]:
            return {
                "delay_ns": link.round_trip_ns // 2,
                "jitter_ns": link.jitter_ns // 2,
                "loss": loss,
                # A sender may have twice as much under way as the path carries, until it hears of that.
                "holds": min(int((rate or _FASTEST) / 8 * seconds * 2) + _SLACK, _MOST_WAITING),
                "buffer": buffer,
            }

        (down, up), (buffer_down, buffer_up) = self.shared.rate or (None, None), self.shared.buffers()
        ways = [way(up, link.loss[1], buffer_up), way(down, link.loss[0], buffer_down)]
        # Other packets are lost each time: repeats shall not be alike.
        return {"interfaces": list(self.hosts.middle), "ways": ways, "seed": random.getrandbits(63)}

    def fill(self) -> list[dict[str, Any]]:
        """Traffic of others, both ways."""
        if self.cross is None or self.shared.rate is None:
            return []
        return [
            {
                "interface": interface,
                "bits_per_second": rate * self.cross / 100,
                "mtu": self.link.mtu,
                "overhead": ETHERNET,
            }
            for interface, rate in zip(self.hosts.middle, self.shared.rate, strict=True)
        ]

    def look(self, client: str) -> dict[str, Any]:
        """What the path from this client is asked, to see whether it is this link."""
        link = self.path
        rates, buffers = link.rate or (None, None), link.buffers()

        bits = 8 * (link.mtu + ETHERNET)

        def way(rate: float | None, loss: float, buffer: int) -> dict[str, Any]:
            fast = rate * _UNDER if rate is not None else _UNSHAPED
            wanted = max(_COUNTED, round(_LOSSES / loss)) if loss else _COUNTED
            seconds = _COUNT_SECONDS
            if loss:
                enough = _FEWEST_LOSSES * bits / (loss * fast)
                seconds = min(max(_LOSS_SECONDS, enough), _MOST_LOSS_SECONDS)
            return {
                "rate": rate or _UNSHAPED,
                "buffer": buffer,
                "offered": rate * _OVER if rate is not None else None,
                "rate_packets": max(_LEAST_RATE_PACKETS, int((rate or 0) * _OVER * _RATE_SECONDS / bits)),
                "packets": max(_LEAST_COUNTED, min(wanted, int(fast * seconds / bits))),
                "packets_rate": fast,
            }

        every = min(max(_PINGS_EVERY_NS, link.jitter_ns // 2), _MOST_EVERY_NS)
        return {
            "ends": [{"namespace": end, "address": address(end)} for end in (client, SERVER)],
            "mtu": link.mtu,
            "overhead": ETHERNET,
            "singly": self.needs_relay and _kernel() < _CUTS_DATAGRAMS,
            "pings": _PINGS,
            "ping_every_ns": every,
            "round_trip_ns": link.round_trip_ns + link.jitter_ns,
            "ways": [way(rates[1], link.loss[1], buffers[1]), way(rates[0], link.loss[0], buffers[0])],
        }

    def look_seconds(self) -> float:
        """How long a look may take."""
        order = self.look(self.hosts.clients[0])
        bits = 8 * (self.link.mtu + ETHERNET)
        sending = sum(
            way["rate_packets"] * bits / (way["offered"] or _UNSHAPED)
            + way["packets"] * bits / way["packets_rate"]
            + 16 * min(way["buffer"], way["packets"] * bits / 8) / way["rate"]
            for way in order["ways"]
        )
        pinging = order["pings"] * order["ping_every_ns"] / 1e9
        return float(sending + pinging + 5 * order["round_trip_ns"] / 1e9)


def _kernel() -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    return tuple(map(int, found.groups())) if found else _CUTS_DATAGRAMS


def _queue(interface: str, rate: float | None, buffer: int, mtu: int, where: str | None = None) -> Order:
    """By which frames leave an interface no faster."""
    order: Order = {"where": where} if where is not None else {}
    if rate is None:
        # Where there is none.
        return order | {"words": ["tc", "qdisc", "del", "dev", interface, "root"], "may_fail": True}
    seen = rate * (mtu + ETHERNET - _SEEN) / (mtu + ETHERNET)
    # What passes at once is of the buffer too.
    least = _LEAST_BURST * (mtu + ETHERNET - _SEEN)
    burst = max(min(int(rate / 8 * _BURST_SECONDS), buffer // 2), least)
    waits = max(buffer - burst, least)
    bucket = ["tbf", "rate", f"{round(seen)}bit", "burst", str(burst), "limit", str(waits)]
    return order | {"words": ["tc", "qdisc", "replace", "dev", interface, "root", *bucket]}


def _ip(lines: list[str], where: str | None = None) -> Order:
    order: Order = {"words": ["ip", "-batch", "-"], "text": "\n".join([*lines, ""])}
    return order | ({"where": where} if where is not None else {})
