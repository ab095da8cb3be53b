"""What the kernel and the relay are told, so that the path between the namespaces is a link as asked for.

The interfaces in the middle are `toward-c` and `toward-s`. By the queue of each, a token bucket, frames leave
at the link's rate, and before it the link's buffer waits. Between them lies a bridge; or, where the link has
a length, a jitter or losses, the relay of crates/core/src/link: the kernel's own way (netem) is not
everywhere.
"""

from __future__ import annotations

from typing import Any

from venturi.common.links import ETHERNET, Link

__all__ = [
    "ADDRESSES",
    "control",
    "crossed",
    "look",
    "made",
    "needs_relay",
    "pings",
    "placed",
    "relay",
    "shaped",
]

INTERFACES = ("toward-c", "toward-s")
ADDRESSES = {"client": "10.77.0.1", "server": "10.77.0.2"}
_MACS = {"client": "02:00:0a:4d:00:01", "server": "02:00:0a:4d:00:02"}
_BRIDGE = "switch"
_SEEN = 24
"""Bytes of what Ethernet adds to a packet that the kernel does not count: checksum, preamble, gap."""
_BURST_SECONDS = 0.001
_LEAST_BURST = 20_000
_MOST_WAITING = 1 << 30
_SLACK = 64 << 20
"""Bytes of the relay's, for what comes at once."""
_FASTEST = 40e9
"""bits/s: what a path that nothing is asked of may hold, in its delay."""
_MANY_PACKETS = 65_535
LOOK_SECONDS = 0.25
LOOK_PACKETS = 400
"""By which a path without losses is looked at; all of them have to arrive."""
_LOSSES = 25
"""Losses that are expected of the packets sent, so that their part can be told."""
_MOST_LOOK_SECONDS = 1.5


def made(pids: dict[str, int]) -> str:
    """For `ip -batch` in the middle: its interfaces, each with its other end in a namespace of these."""
    lines = []
    for name, (end, pid) in zip(INTERFACES, pids.items(), strict=True):
        lines.append(f"link add {name} type veth peer name eth0 address {_MACS[end]} netns {pid}")
        lines.append(f"link set {name} up")
    lines.append(f"link add {_BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0")
    return "\n".join([*lines, f"link set {_BRIDGE} up", "link set lo up", ""])


def placed(end: str) -> str:
    """For `ip -batch` at an end: its address, and the other's, which nobody has to ask for."""
    other = next(name for name in ADDRESSES if name != end)
    return "\n".join(
        [
            "link set lo up",
            f"address add {ADDRESSES[end]}/24 dev eth0",
            "link set eth0 up",
            f"neighbour add {ADDRESSES[other]} lladdr {_MACS[other]} dev eth0 nud permanent",
            "",
        ]
    )


def pings(group: int) -> dict[str, Any]:
    """An order that lets this group send pings without more rights, as most distributions have it: for
    programs of whoever is not root. `where` is to be named."""
    write = f"echo {group} {group} > /proc/sys/net/ipv4/ping_group_range"
    return {"words": ["sh", "-c", write], "may_fail": True}


def needs_relay(link: Link) -> bool:
    return bool(link.round_trip_ns or link.jitter_ns or any(link.loss))


def shaped(link: Link) -> list[dict[str, Any]]:
    """Orders for the keeper, but for the relay's."""
    orders: list[dict[str, Any]] = []
    for interface, rate, buffer in zip(INTERFACES, link.rate or (None, None), link.buffers(), strict=True):
        if rate is None:
            words = ["tc", "qdisc", "del", "dev", interface, "root"]
            # Where there is none.
            orders.append({"words": words, "may_fail": True})
            continue
        seen = rate * (link.mtu + ETHERNET - _SEEN) / (link.mtu + ETHERNET)
        burst = max(int(rate / 8 * _BURST_SECONDS), _LEAST_BURST)
        bucket = ["tbf", "rate", f"{round(seen)}bit", "burst", str(burst), "limit", str(buffer)]
        orders.append({"words": ["tc", "qdisc", "replace", "dev", interface, "root", *bucket]})
    joins = "nomaster" if needs_relay(link) else f"master {_BRIDGE}"
    middle = "".join(f"link set {name} mtu {link.mtu} {joins}\n" for name in INTERFACES)
    orders.append({"words": ["ip", "-batch", "-"], "text": f"link set {_BRIDGE} mtu {link.mtu}\n{middle}"})
    # What a host sends at once is lost at once: chance shall meet packets.
    alone = 1 if link.jitter_ns or any(link.loss) else _MANY_PACKETS
    for end in ADDRESSES:
        text = f"link set eth0 mtu {link.mtu} gso_max_segs {alone}\n"
        orders.append({"words": ["ip", "-batch", "-"], "text": text, "where": end})
        # A path that TCP remembers is the one before.
        orders.append({"words": ["ip", "tcp_metrics", "flush"], "where": end, "may_fail": True})
    return orders


def control(name: str) -> list[dict[str, Any]]:
    """Orders that make this TCP's congestion control at both ends."""
    write = f"echo {name} > /proc/sys/net/ipv4/tcp_congestion_control"
    return [{"words": ["sh", "-c", write], "where": end} for end in ADDRESSES]


def relay(link: Link) -> dict[str, Any]:
    """The relay's spec: from the client up to the server, and down again."""
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

    (down, up), (buffer_down, buffer_up) = link.rate or (None, None), link.buffers()
    ways = [way(up, link.loss[1], buffer_up), way(down, link.loss[0], buffer_down)]
    return {"interfaces": list(INTERFACES), "ways": ways, "seed": 1}


def crossed(link: Link, percent: float) -> list[dict[str, Any]]:
    """Traffic of others, both ways."""
    assert link.rate is not None
    return [
        {"interface": interface, "bits_per_second": rate * percent / 100, "mtu": link.mtu}
        for interface, rate in zip(INTERFACES, link.rate, strict=True)
    ]


def look(link: Link) -> dict[str, Any]:
    """What the path is asked, to see whether it is this link."""
    rates, buffers = link.rate or (None, None), link.buffers()

    def way(rate: float | None, loss: float, buffer: int) -> dict[str, Any]:
        packets = LOOK_PACKETS
        if loss:
            fastest = (rate or 2e8) * 0.7 * _MOST_LOOK_SECONDS / 8 / (link.mtu + ETHERNET)
            packets = max(LOOK_PACKETS, min(round(_LOSSES / loss), int(fastest)))
        elif rate is not None:
            packets = max(50, min(packets, int(rate * LOOK_SECONDS / 8 / (link.mtu + ETHERNET))))
        return {"rate": rate, "buffer": buffer, "rate_ns": int(LOOK_SECONDS * 1e9), "packets": packets}

    return {
        "ends": [{"address": address} for address in ADDRESSES.values()],
        "mtu": link.mtu,
        "round_trip_ns": link.round_trip_ns + link.jitter_ns,
        "ways": [way(rates[1], link.loss[1], buffers[1]), way(rates[0], link.loss[0], buffers[0])],
    }
