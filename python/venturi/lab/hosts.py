"""The hosts of the laboratory: clients and a server, namespaces each, and how they are wired.

Each host has one interface, `eth0`, whose other end lies in the middle: `toward-c` of the client, `toward-c2`
and so on of further ones, `toward-s` of the server. The link lies between the two interfaces of `middle`.
Several clients hang on a switch of their own, `hosts`, whose way on is the cable `trunk-c`, `trunk-s`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CLIENT", "NETWORK", "SERVER", "SWITCH", "Hosts", "address", "filled"]

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
        others = self.clients if end == SERVER else (SERVER,)
        return "\n".join(
            [
                "link set lo up",
                f"address add {address(end)}/16 dev eth0",
                "link set eth0 up",
                *(f"neighbour add {address(it)} lladdr {_mac(it)} dev eth0 nud permanent" for it in others),
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
    for end, there in _ADDRESSES.items():
        text = text.replace(end, there)
    return text
