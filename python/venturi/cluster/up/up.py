"""`venturi cluster up`, `down` and `status`: a Ray node on each of some hosts, reached by ssh."""

from __future__ import annotations

import platform
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from venturi.cluster.up import access, node
from venturi.cluster.up.remote import Answer, Remote, raise_errors
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.units import plural

__all__ = ["Cluster", "Plan", "check_alike", "down", "remote_of", "status", "up"]

_START_SECONDS = 120.0
_JOIN_SECONDS = 120.0
_STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Plan:
    """What is to be started. The first host becomes the head."""

    hosts: Sequence[str]
    ssh: str
    python: str
    interface: str | None = None
    head_address: str | None = None
    port: int = 6379
    client_port: int | None = 10001
    token: bool = True
    cpus: int | None = None
    directory: str | None = None
    resources: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """A host of a cluster that runs."""

    host: str
    address: str
    cpus: int
    is_head: bool


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs, its head first."""

    members: Sequence[Member]
    ray: str
    port: int
    client_port: int | None

    @property
    def head(self) -> Member:
        return self.members[0]

    def lines(self) -> list[str]:
        """What it is, and what to do with it."""
        head, count = self.head, len(self.members)
        address = node.joined(head.address, self.port)
        hosts = "1 host" if count == 1 else f"{count} hosts"
        lines = [f"{hosts} on Ray {self.ray}, head {head.host} ({address})"]
        names = max(len(member.host) for member in self.members)
        addresses = max(len(member.address) for member in self.members)
        for member in self.members:
            cpus = plural(member.cpus, "CPU")
            text = f"  {member.host:<{names}}  {member.address:<{addresses}}  {cpus}"
            lines.append(f"{text}  head" if member.is_head else text)
        if node.is_ours(head.address):
            lines.append("next:  venturi run SCENARIO --on auto")
        else:
            lines.append(f"next, on {head.host}:  venturi run SCENARIO --on auto")
            if self.client_port is not None:
                client = node.joined(head.address, self.client_port)
                lines.append(f"or from here:  venturi run SCENARIO --on ray://{client}")
        return [*lines, "end:   venturi cluster down"]


def up(plan: Plan, say: Callable[[str, str], None]) -> Cluster:
    """Starts a node on each host and waits until all have joined; what it started it ends when it fails.

    Raises VenturiError naming the hosts that cannot be reached, lack something, are unlike, or did not join.
    """
    remote = Remote(plan.ssh, plan.python)
    first, others = plan.hosts[0], list(plan.hosts[1:])
    own: dict[str, Any] = {"directory": plan.directory}
    looked = _looked(remote, plan)
    _check_free(looked)
    addresses = {answer.host: str(answer.fields["address"]) for answer in looked}
    _check_addresses(addresses)
    head = node.joined(addresses[first], plan.port)
    token = secrets.token_hex(32) if plan.token else None
    access.remember(
        {
            "hosts": list(plan.hosts),
            "ssh": plan.ssh,
            "python": plan.python,
            "directory": plan.directory,
            "head": first,
            "head_address": addresses[first],
            "port": plan.port,
            "client_port": plan.client_port,
        },
        token,
    )
    try:
        orders = {
            host: {
                "address": addresses[host],
                "is_head": host == first,
                "resources": dict(plan.resources.get(host, {})),
                "client_port": plan.client_port,
                "cpus": plan.cpus,
            }
            for host in plan.hosts
        }
        say("info", f"starting the head on {first} ({head})")
        common: dict[str, Any] = {"head": head, "token": token, **own}
        raise_errors(remote.ask_all([first], "start", _START_SECONDS, orders, **common))
        if others:
            say("info", f"starting {plural(len(others), 'more node')}")
            raise_errors(remote.ask_all(others, "start", _START_SECONDS, orders, **common))
        wanted = list(addresses.values())
        (answer,) = remote.ask_all([first], "members", _JOIN_SECONDS, wanted=wanted, **own)
        raise_errors([answer])
        missing = [host for host in plan.hosts if addresses[host] not in answer.fields["members"]]
        if missing:
            raise VenturiError(
                f"{', '.join(missing)}: did not join {head} within {_JOIN_SECONDS:.0f} s",
                ExitCode.UNREACHABLE,
                hint="the hosts must reach one another on all ports: firewalls, and --interface",
            )
    except BaseException:
        say("info", "ending what was started")
        remote.ask_all(list(plan.hosts), "stop", _STOP_SECONDS, **own)
        access.forget()
        raise
    cpus = {answer.host: int(answer.fields["cpus"]) for answer in looked}
    members = [Member(host, addresses[host], cpus[host], host == first) for host in plan.hosts]
    return Cluster(members, str(looked[0].fields["ray"]), plan.port, plan.client_port)


def _looked(remote: Remote, plan: Plan) -> list[Answer]:
    """All hosts as they are, with addresses; checked to be alike."""
    first, others = plan.hosts[0], list(plan.hosts[1:])
    heads = remote.ask_all([first], "look", interface=plan.interface, directory=plan.directory)
    raise_errors(heads)
    fields = heads[0].fields
    if plan.head_address is not None:
        fields["address"] = plan.head_address
    if fields["address"] is None:
        raise VenturiError(
            f"{first}: cannot tell by which address the others reach it",
            hint="--interface names the network, as 10.0.0.0/24, or --head the address",
        )
    found = heads + remote.ask_all(
        others, "look", interface=plan.interface, towards=fields["address"], directory=plan.directory
    )
    raise_errors(found)
    lost = [answer.host for answer in found if answer.fields["address"] is None]
    if lost:
        raise VenturiError(
            f"{', '.join(lost)}: no route to the head, {fields['address']}",
            ExitCode.UNREACHABLE,
            hint="--interface names the network that all hosts are in",
        )
    check_alike({answer.host: answer.fields for answer in found}, own_versions())
    return found


def own_versions() -> dict[str, str | None]:
    """Of this end, which the hosts must have too."""

    def version(package: str) -> str | None:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return None

    return {"venturi": version("venturi"), "ray": version("ray"), "python": platform.python_version()}


_NAMES = {"venturi": "Venturi", "ray": "Ray", "python": "Python"}


def check_alike(found: Mapping[str, Mapping[str, Any]], here: Mapping[str, str | None]) -> None:
    """Raises VenturiError unless all hosts have this end's Venturi, Ray and Python.

    Ray refuses another version of itself or of Python; Venturi's halves must speak the same format. Where
    this end has no Ray (it only starts the cluster), the hosts must agree among themselves.
    """
    wrong, lacking = [], False
    for key, name in _NAMES.items():
        versions = {host: fields.get(key) for host, fields in found.items()}
        wanted = here.get(key) or Counter(v for v in versions.values() if v).most_common(1)
        expected = wanted if isinstance(wanted, str) else wanted[0][0] if wanted else None
        end = "here" if here.get(key) else "most others"
        for host, version in versions.items():
            if version is None:
                lacking = True
                wrong.append(f"{host}: {name} is not installed for {found[host].get('executable')}")
            elif version != expected:
                wrong.append(f"{host}: {name} {version}, {end} {expected}")
    if wrong:
        more = f"; and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        same = f"pip install 'venturi[cluster]=={here.get('venturi')}'"
        raise VenturiError(
            "; ".join(wrong[:6]) + more,
            hint=f"on each host: {same}, or --python names where it is"
            if lacking
            else f"on each host: {same}",
        )


def _check_free(looked: Sequence[Answer]) -> None:
    for answer in looked:
        if answer.fields["nodes"]:
            running = answer.fields["nodes"][0]
            raise VenturiError(
                f"{answer.host}: a Ray node of `venturi cluster` runs there already "
                f"(pid {running['pid']}, head {running['head']})",
                hint=f"venturi cluster down --hosts {','.join(a.host for a in looked if a.fields['nodes'])}",
            )


def _check_addresses(addresses: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for host, address in addresses.items():
        if address.startswith("127.") or address == "::1":
            raise VenturiError(
                f"{host}: {address} is reached by nobody else, and Ray does not take it",
                hint="--interface names a network of the hosts; for one machine there is --on local",
            )
        if address in seen:
            raise VenturiError(f"{seen[address]} and {host} are the same host, {address}")
        seen[address] = host


def down(remote: Remote, hosts: Sequence[str], directory: str | None) -> tuple[int, list[Answer]]:
    """Ends the nodes; how many were ended, and the answers of hosts that failed."""
    answers = remote.ask_all(hosts, "stop", _STOP_SECONDS, directory=directory)
    ended = sum(len(answer.fields.get("ended") or ()) for answer in answers)
    return ended, [answer for answer in answers if answer.error is not None]


def status(remote: Remote, hosts: Sequence[str], directory: str | None) -> list[tuple[str, str, str]]:
    """Each host's name, address and how it is, in words."""
    looked = remote.ask_all(hosts, "look", directory=directory)
    heads = [a.host for a in looked if any(one["is_head"] for one in a.fields.get("nodes") or ())]
    asked = remote.ask_all(heads[:1], "members", directory=directory)
    living = {address for answer in asked for address in answer.fields.get("members") or ()}
    why = next((answer.error for answer in asked if answer.error), None)
    lines = []
    for answer in looked:
        if answer.error is not None:
            lines.append((answer.host, "-", answer.error))
            continue
        nodes = answer.fields["nodes"]
        if not nodes:
            lines.append((answer.host, "-", "no node"))
            continue
        one = nodes[0]
        role = "head" if one["is_head"] else f"of {one['head']}"
        if not heads:
            state = "runs, its head is not among these hosts"
        elif why is not None:
            state = f"runs; {why}"
        else:
            state = "joined" if one["address"] in living else "runs, but has not joined"
        lines.append((answer.host, one["address"], f"{state}  (pid {one['pid']}, {role})"))
    return lines


def remote_of(
    hosts: Sequence[str] | None, ssh: str | None, python: str, directory: str | None
) -> tuple[Remote, list[str], str | None]:
    """How to reach those hosts, or without any, those of the cluster that was started from here."""
    cluster = access.kept()
    if hosts is None:
        if cluster is None:
            raise VenturiError(
                "no cluster was started from here", hint="--hosts names the hosts that may have nodes"
            )
        return (
            Remote(ssh or cluster["ssh"], cluster["python"]),
            list(cluster["hosts"]),
            directory or cluster["directory"],
        )
    return Remote(ssh or "ssh -o BatchMode=yes", python), list(hosts), directory
