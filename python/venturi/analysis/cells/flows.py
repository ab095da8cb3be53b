"""Who sent how much to whom: payload between each loader and each server, from the streams of a cell.

Of several servers in one URL stream s speaks to server s % n: that is what clients of Venturi's do, so it is
known without being recorded. Where servers tell the client whom to ask (endpoints of a Flight server that is
not ours, the nodes of Cassandra that have a row) it is not, and all servers are taken as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.figures import get
from venturi.analysis.cells.summary import Cell

__all__ = ["HERE", "Flow", "Flows", "flows", "server_addresses", "told_apart"]

HERE = "this process"


@dataclass(frozen=True)
class Flow:
    """Payload that went one way between two ends, mean over the good trials."""

    sender: str
    receiver: str
    payload_bytes: float


@dataclass(frozen=True)
class Flows:
    """All of one cell."""

    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    flows: tuple[Flow, ...]
    by_server: bool
    """Whether each server's part is known; else they stand as one."""

    @property
    def total(self) -> float:
        return sum(flow.payload_bytes for flow in self.flows)

    def sent(self, name: str) -> float:
        """All that this end sent."""
        return sum(flow.payload_bytes for flow in self.flows if flow.sender == name)

    def received(self, name: str) -> float:
        """All that this end received."""
        return sum(flow.payload_bytes for flow in self.flows if flow.receiver == name)


def flows(cell: Cell) -> Flows | None:
    """None where one process spoke to one server, or where streams were not recorded."""
    # Most runs have one of each; this saves a large one from looking at every stream.
    if not any(len(r.get("hosts") or []) > 1 or len(server_addresses(r)) > 1 for r in cell.records):
        return None
    found: dict[tuple[str, str], float] = {}
    clients: dict[str, None] = {}
    servers: dict[str, None] = {}
    known = True
    for record in cell.records:
        names = server_addresses(record)
        told = told_apart(record)
        known = known and (told or len(names) == 1)
        if not told:
            names = [names[0] if len(names) == 1 else ", ".join(names)]
        servers |= dict.fromkeys(names)
        owners = _owners(record)
        clients |= dict.fromkeys(owner for _, _, owner in owners)
        for stream in record.get("streams") or []:
            number, moved = stream.get("stream"), stream.get("payload_bytes")
            if not isinstance(number, int) or not moved:
                continue
            owner = next((name for first, count, name in owners if first <= number < first + count), HERE)
            clients.setdefault(owner)
            key = (owner, names[number % len(names)])
            found[key] = found.get(key, 0.0) + moved / len(cell.records)
    if not found or (len(clients) < 2 and len(servers) < 2):
        return None
    # Data flow from the server in a get, from the client in every other operation.
    if cell.operation == "get":
        listed = tuple(Flow(server, client, moved) for (client, server), moved in found.items())
        return Flows(tuple(servers), tuple(clients), listed, known)
    listed = tuple(Flow(client, server, moved) for (client, server), moved in found.items())
    return Flows(tuple(clients), tuple(servers), listed, known)


def server_addresses(record: Mapping[str, Any]) -> list[str]:
    """Addresses of a trial's servers, in their order."""
    address = str(get(record, "target", "address") or "the server")
    return [part for part in address.split(",") if part] or [address]


def told_apart(record: Mapping[str, Any]) -> bool:
    """Whether there are n servers, and stream s is at server s % n."""
    if len(server_addresses(record)) < 2:
        return False
    scheme = str(get(record, "parameters", "target") or "").partition("://")[0]
    if scheme.startswith("flight"):
        perf = get(record, "target", "protocol") == "perf" or get(record, "parameters", "operation") != "get"
        return perf or get(record, "target", "reference") is True
    return scheme != "cassandra"


def _owners(record: Mapping[str, Any]) -> list[tuple[int, int, str]]:
    """First stream, number of streams, and the loader that runs them."""
    out = []
    for host in record.get("hosts") or []:
        first, count = host["streams"]
        out.append((first, count, str(host["host"])))
    return out
