"""`venturi cluster up`, `down` and `status`: a Ray node on each of some hosts, reached by ssh.

What this machine knows of the cluster that was started from here is kept below XDG_STATE_HOME
(~/.local/state): `cluster.json` with hosts and how they are reached, and `cluster-token` with the secret that
Ray demands, readable by its owner alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import secrets
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from venturi.cluster import node
from venturi.common.environment import version
from venturi.common.errors import StoreError, UnreachableError, VenturiError
from venturi.common.units import plural
from venturi.targets.urls import printable

SSH = "ssh -o BatchMode=yes"
_AT_ONCE = 64
# What a host needs beyond the order's own time: connecting, and starting a Python.
_SPARE_SECONDS = 20.0


@dataclass(frozen=True)
class Answer:
    """What a host said: `fields`, or an `error` in words with a hint."""

    host: str
    fields: dict[str, Any]
    error: str | None = None
    hint: str | None = None


def listed(text: str) -> list[str]:
    """Names of hosts: `a,b,c`, or `@FILE` with one a line and # before remarks. Raises VenturiError."""
    if text.startswith("@"):
        try:
            lines = Path(text[1:]).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "is no text"
            raise VenturiError(f"--hosts {text}: {why}") from None
        names = [line.partition("#")[0].strip() for line in lines]
    else:
        names = [name.strip() for name in text.split(",")]
    names = [name for name in names if name]
    if not names:
        raise VenturiError("--hosts: names nobody", hint="--hosts a,b,c, or --hosts @FILE with a host a line")
    for name in names:
        # A name that ssh would take for an option could be a command.
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:@-]*", name):
            raise VenturiError(f"--hosts: {printable(name)!r} is no host's name")
        if ":" in name.rpartition("@")[0]:
            raise VenturiError(
                f"--hosts: {printable(name)}: a password on a command line is seen by everybody on this host",
                hint="let ssh log in by a key: --ssh 'ssh -i KEYFILE'",
            )
        if names.count(name) > 1:
            raise VenturiError(f"--hosts: {name} is named twice")
    return names


class Remote:
    """Runs `node.py` on hosts: `SSH HOST PYTHON -`, the program and its order on standard input."""

    def __init__(self, ssh: str, python: str, directory: str | None = None) -> None:
        """`directory`: where nodes are kept on the hosts; None takes the usual place."""
        try:
            self._ssh = shlex.split(ssh)
        except ValueError as error:
            raise VenturiError(f"--ssh {ssh}: {error}") from None
        if not self._ssh:
            raise VenturiError("--ssh: names no command")
        # ssh hands one line to a shell, `ip netns exec` words to the program: what is the same in both.
        if not re.fullmatch(r"[A-Za-z0-9_./+-]+", python):
            raise VenturiError(f"--python {python}: must be a path without blanks and signs of the shell")
        self._python, self._directory = python, directory
        self._program = Path(node.__file__).read_text()

    def ask(self, host: str, do: str, seconds: float = 0.0, **order: Any) -> Answer:
        """One host's answer, within `seconds` and what connecting takes."""
        text = json.dumps({"do": do, "seconds": seconds, "directory": self._directory, **order})
        patience = seconds + _SPARE_SECONDS
        try:
            done = subprocess.run(
                [*self._ssh, host, self._python, "-"],
                input=f"{self._program}\nobey({text!r})\n",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Answer(
                host, {}, f"no answer within {patience:.0f} s", "is the host up, its firewall open?"
            )
        except OSError as error:
            raise VenturiError(f"--ssh {self._ssh[0]}: {error.strerror}") from None
        for line in reversed(done.stdout.splitlines()):
            if line.startswith(node.MARK):
                fields = json.loads(line[len(node.MARK) :])
                return Answer(host, fields, fields.get("error"), fields.get("hint") or None)
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or [
            f"exit status {done.returncode}"
        ]
        if self._python in lines[-1] and ("not found" in lines[-1] or "No such file" in lines[-1]):
            return Answer(host, {}, f"no Python at {self._python}: {lines[-1]}", "--python says where it is")
        name = f"{Path(self._ssh[0]).name}: "
        what = lines[-1] if lines[-1].startswith(name) else name + lines[-1]
        return Answer(host, {}, what, f"try by hand: {shlex.join(self._ssh)} {host} true")

    def ask_all(
        self,
        hosts: Sequence[str],
        do: str,
        seconds: float = 0.0,
        orders: Mapping[str, Mapping[str, Any]] | None = None,
        **order: Any,
    ) -> list[Answer]:
        """All hosts' answers, asked at the same time; `orders` adds to a host's own."""
        with ThreadPoolExecutor(min(len(hosts), _AT_ONCE) or 1) as pool:
            answers = [
                pool.submit(self.ask, host, do, seconds, **{**order, **(orders or {}).get(host, {})})
                for host in hosts
            ]
            return [one.result() for one in answers]

    def require(self, hosts: Sequence[str], do: str, seconds: float = 0.0, **order: Any) -> list[Answer]:
        """The same. Raises VenturiError if one fails."""
        answers = self.ask_all(hosts, do, seconds, **order)
        raise_errors(answers)
        return answers


def raise_errors(answers: Sequence[Answer]) -> None:
    """One error for all hosts that failed; the first one's hint."""
    failed = [answer for answer in answers if answer.error is not None]
    if failed:
        shown = [f"{answer.host}: {answer.error}" for answer in failed[:5]]
        if len(failed) > 5:
            shown.append(f"and {len(failed) - 5} more hosts")
        raise UnreachableError("; ".join(shown), failed[0].hint)


def _folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "venturi"


def _file() -> Path:
    return _folder() / "cluster.json"


def token_file() -> Path:
    """Where the token of the cluster started from here lies."""
    return _folder() / "cluster-token"


def kept() -> dict[str, Any] | None:
    """What `remember` was given last, None if no cluster was started from here."""
    try:
        found = json.loads(_file().read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def remember(cluster: dict[str, Any], token: str | None) -> None:
    """Notes a cluster before its first node is started, so that `down` finds all of it. Raises StoreError."""
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        token_file().unlink(missing_ok=True)
        if token is not None:
            with open(os.open(token_file(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(token)
        _file().write_text(json.dumps(cluster, indent=2) + "\n")
    except OSError as error:
        raise StoreError(f"{_folder()}: cannot be written: {error.strerror}") from None


def forget() -> None:
    """The cluster started from here is gone."""
    for path in (_file(), token_file()):
        with contextlib.suppress(OSError):
            path.unlink()


def environment_for(on: str) -> dict[str, str]:
    """Variables that Ray needs for `--on ON`; none of those that are set already. `auto` on a host of a
    cluster means that cluster, whose files Ray would not look for; `ray://HOST:PORT` of the one started from
    here needs its token."""
    found: dict[str, str] = {}
    if on == "auto":
        directory = node.running((kept() or {}).get("directory"))
        found = node.access(directory) if directory is not None else {}
    elif on != "local":
        cluster = kept()
        host = urlsplit(on).hostname if "://" in on else on.rpartition(":")[0]
        if (
            cluster is not None
            and host in (cluster["head"], cluster["head_address"])
            and token_file().exists()
        ):
            found = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_file())}
    return {**node.quiet_environment(), **{k: v for k, v in found.items() if k not in os.environ}}


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


def _summary(plan: Plan, addresses: Mapping[str, str], looked: Sequence[Answer]) -> list[str]:
    """What runs, and what to do with it."""
    first = plan.hosts[0]
    head = addresses[first]
    hosts = "1 host" if len(looked) == 1 else f"{len(looked)} hosts"
    lines = [f"{hosts} on Ray {looked[0].fields['ray']}, head {first} ({node.joined(head, plan.port)})"]
    names = max(map(len, addresses))
    widest = max(map(len, addresses.values()))
    for answer in looked:
        cpus = plural(int(answer.fields["cpus"]), "CPU")
        text = f"  {answer.host:<{names}}  {addresses[answer.host]:<{widest}}  {cpus}"
        lines.append(f"{text}  head" if answer.host == first else text)
    if node.is_ours(head):
        lines.append("next:  venturi run SCENARIO --on auto")
    else:
        lines.append(f"next, on {first}:  venturi run SCENARIO --on auto")
        if plan.client_port is not None:
            client = node.joined(head, plan.client_port)
            lines.append(f"or from here:  venturi run SCENARIO --on ray://{client}")
    return [*lines, "end:   venturi cluster down"]


def up(plan: Plan, say: Callable[[str, str], None]) -> list[str]:
    """Starts a node on each host and waits until all have joined; the lines for the user. What it started it
    ends when it fails. Raises VenturiError naming the hosts that cannot be reached, lack something, are
    unlike, or did not join."""
    remote = Remote(plan.ssh, plan.python, plan.directory)
    first, rest = plan.hosts[0], list(plan.hosts[1:])
    looked = _looked(remote, plan)
    _check_free(looked)
    addresses = {answer.host: str(answer.fields["address"]) for answer in looked}
    _check_addresses(addresses)
    head = node.joined(addresses[first], plan.port)
    token = secrets.token_hex(32) if plan.token else None
    remember(
        {
            "hosts": list(plan.hosts),
            **{name: getattr(plan, name) for name in ("ssh", "python", "directory", "port", "client_port")},
            "head": first,
            "head_address": addresses[first],
        },
        token,
    )
    try:
        orders = {
            host: {
                "address": addresses[host],
                "is_head": host == first,
                "head": head,
                "token": token,
                "resources": dict(plan.resources.get(host, {})),
                "client_port": plan.client_port,
                "cpus": plan.cpus,
            }
            for host in plan.hosts
        }
        say("info", f"starting the head on {first} ({head})")
        remote.require([first], "start", _START_SECONDS, orders=orders)
        if rest:
            say("info", f"starting {plural(len(rest), 'more node')}")
            remote.require(rest, "start", _START_SECONDS, orders=orders)
        wanted = list(addresses.values())
        (answer,) = remote.require([first], "members", _JOIN_SECONDS, wanted=wanted)
        missing = [host for host in plan.hosts if addresses[host] not in answer.fields["members"]]
        if missing:
            raise UnreachableError(
                f"{', '.join(missing)}: did not join {head} within {_JOIN_SECONDS:.0f} s",
                hint="the hosts must reach one another on all ports: firewalls, and --interface",
            )
    except BaseException:
        say("info", "ending what was started")
        remote.ask_all(list(plan.hosts), "stop", _STOP_SECONDS)
        forget()
        raise
    return _summary(plan, addresses, looked)


def _looked(remote: Remote, plan: Plan) -> list[Answer]:
    """All hosts as they are, with addresses; checked to be alike."""
    first, rest = plan.hosts[0], list(plan.hosts[1:])
    heads = remote.require([first], "look", interface=plan.interface)
    fields = heads[0].fields
    if plan.head_address is not None:
        fields["address"] = plan.head_address
    if fields["address"] is None:
        raise VenturiError(
            f"{first}: cannot tell by which address the others reach it",
            hint="--interface names the network, as 10.0.0.0/24, or --head the address",
        )
    found = heads + remote.require(rest, "look", interface=plan.interface, towards=fields["address"])
    lost = [answer.host for answer in found if answer.fields["address"] is None]
    if lost:
        raise UnreachableError(
            f"{', '.join(lost)}: no route to the head, {fields['address']}",
            hint="--interface names the network that all hosts are in",
        )
    check_alike({answer.host: answer.fields for answer in found}, own_versions())
    return found


def own_versions() -> dict[str, str | None]:
    """Of this end, which the hosts must have too."""
    return {"venturi": version("venturi"), "ray": version("ray"), "python": platform.python_version()}


_NAMES = {"venturi": "Venturi", "ray": "Ray", "python": "Python"}


def check_alike(found: Mapping[str, Mapping[str, Any]], own: Mapping[str, str | None]) -> None:
    """Raises VenturiError unless all hosts have this end's Venturi, Ray and Python. Ray refuses another
    version of itself or of Python; Venturi's halves must speak the same format. Where this end has no Ray (it
    only starts the cluster), the hosts must agree among themselves."""
    wrong, lacking = [], False
    for key, name in _NAMES.items():
        versions = {host: fields.get(key) for host, fields in found.items()}
        wanted = own.get(key) or Counter(v for v in versions.values() if v).most_common(1)
        expected = wanted if isinstance(wanted, str) else wanted[0][0] if wanted else None
        end = "here" if own.get(key) else "most others"
        for host, found_version in versions.items():
            if found_version is None:
                lacking = True
                wrong.append(f"{host}: {name} is not installed for {found[host].get('executable')}")
            elif found_version != expected:
                wrong.append(f"{host}: {name} {found_version}, {end} {expected}")
    if wrong:
        more = f"; and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        same = f"pip install 'venturi[cluster]=={own.get('venturi')}'"
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


def down(remote: Remote, hosts: Sequence[str]) -> tuple[int, list[Answer]]:
    """Ends the nodes; how many were ended, and the answers of hosts that failed."""
    answers = remote.ask_all(hosts, "stop", _STOP_SECONDS)
    ended = sum(len(answer.fields.get("ended") or ()) for answer in answers)
    return ended, [answer for answer in answers if answer.error is not None]


def status(remote: Remote, hosts: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each host's name, address and how it is, in words."""
    looked = remote.ask_all(hosts, "look")
    heads = [a.host for a in looked if any(one["is_head"] for one in a.fields.get("nodes") or ())]
    answers = remote.ask_all(heads[:1], "members")
    living = {address for answer in answers for address in answer.fields.get("members") or ()}
    why = next((answer.error for answer in answers if answer.error), None)
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
    hosts: str | None, ssh: str | None, python: str | None, directory: str | None
) -> tuple[Remote, list[str]]:
    """How to reach those hosts, or without any, those of the cluster that was started from here."""
    if hosts is not None:
        return Remote(ssh or SSH, python or sys.executable, directory), listed(hosts)
    cluster = kept()
    if cluster is None:
        raise VenturiError(
            "no cluster was started from here", hint="--hosts names the hosts that may have nodes"
        )
    place = directory or cluster["directory"]
    return Remote(ssh or cluster["ssh"], cluster["python"], place), list(cluster["hosts"])
