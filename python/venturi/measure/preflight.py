"""What this machine must have before a run begins: variables, files, CPUs, room for messages.

Each of these would fail every trial of a cell in the same way, so it is said once, before
anything is started or written, and names the flag or the line.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.common import credentials
from venturi.common.credentials import split_command
from venturi.common.errors import ScenarioError, VenturiError
from venturi.common.links import SERVER_END
from venturi.common.texts import similar
from venturi.plan.rules.cells import check_room
from venturi.servers.local import duckdb_library
from venturi.targets.system import (
    in_process,
    is_charrow,
    is_database,
    is_local,
    is_plugin,
    is_remote,
    is_unix,
    scheme_of,
)
from venturi.targets.urls import each_host, place_of, split_url

if TYPE_CHECKING:
    from venturi.inputs.files import Prepared
    from venturi.plan.cell import Cell
    from venturi.plan.scenario import Scenario

_FILES = ("tls_ca", "tls_certificate", "tls_key")


def check(scenario: Scenario, cells: Sequence[Cell]) -> None:
    """Raises ScenarioError for the first thing that is missing here."""
    _remote(scenario, cells)
    _variables(scenario)
    _tls(scenario, cells)
    _cpus(scenario)
    _programs(scenario)
    for cell in cells:
        check_room(scenario, cell)
        _file(scenario, cell)
        _archive(scenario, cell)


def check_hosts(scenario: Scenario, cells: Sequence[Cell]) -> None:
    """Whether hosts of one address are different ones, as far as their names are known here. One server under
    two names would be asked for its count twice, and no trial's sum would be right. Raises ScenarioError."""
    places = {str(cell.parameters["target"]): str(cell.parameters["place"]) for cell in cells}
    for url, place in places.items():
        # Nodes of a database share their data: one check is enough.
        hosts = [] if is_database(url) or is_plugin(url) or SERVER_END in url else each_host(url)
        # A single host cannot repeat; the trial looks up its name.
        named = [(at, host) for host in hosts if len(hosts) > 1 for at in _addresses(host)]
        first: dict[tuple[str, int], str] = {}
        for at, host in named:
            if (other := first.setdefault(at, host)) != host:
                raise ScenarioError(
                    f"{_address_where(scenario, place)}: {place_of(other)} and {place_of(host)} are one "
                    f"server, {at[0]} port {at[1]}; streams take the servers in turn",
                    hint="name each server once",
                )


def _addresses(url: str) -> set[tuple[str, int]]:
    """Addresses and port that the host of a URL has; none if its name is not known here."""
    parts = split_url(url)
    if is_unix(url):
        return set()
    with contextlib.suppress(OSError, ValueError):
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        return {(str(address[0]), int(address[1])) for *_, address in found}
    return set()


def _values(scenario: Scenario, table: str, key: str) -> list[Any]:
    """All values that a key has in this scenario, without null."""
    found = scenario.axes.get(key, [getattr(getattr(scenario, table), key)])
    return [value for value in found if value is not None]


def _remote(scenario: Scenario, cells: Sequence[Cell]) -> None:
    """Whether servers on hosts of their own have any, and are as many as a trial can speak to."""
    remote = next((cell for cell in cells if is_remote(str(cell.parameters["target"]))), None)
    servers = scenario.hosts.servers
    if remote is None:
        if servers is not None and scenario.on == "ray":
            raise scenario.wrong(
                "servers: servers are started for X://remote, and no address of this scenario is one",
                hint="--target flight://remote; X://local is started beside the first loader",
            )
        return
    url, place = str(remote.parameters["target"]), str(remote.parameters["place"])
    if scenario.over_link and servers is not None and servers > 1:
        raise scenario.wrong(f"servers: a link leads to one server, not {servers}")
    if scenario.on != "ray" and not scenario.over_link:
        flag = f"--place {place}=" if place in scenario.places else "--target "
        raise VenturiError(
            f"{_address_where(scenario, place)}: {url} is a server on a host of its own: name a cluster that "
            "has one, --on ray://HOST:PORT (auto, local), a link that is made here, --link 10gbit, or a "
            f"server that runs, {flag}{scheme_of(url)}://HOST"
        )
    several = (servers or 1) > 1
    if several and any(is_charrow(str(cell.parameters["target"])) for cell in cells):
        raise scenario.wrong(
            f"servers: the blocks of a query are shared at one server; charrow://remote is one, not {servers}"
        )


def _address_where(scenario: Scenario, place: str) -> str:
    """Where the address of that place was given."""
    path = ("matrix", "target") if "target" in scenario.axes else ("target", "url")
    return scenario.where(*(("places", place) if place in scenario.places else path))


def _variables(scenario: Scenario) -> None:
    wanted = [
        (key, name) for key in ("token_env", "password_env") for name in _values(scenario, "target", key)
    ]
    for key in ("header_env", "driver_option_env"):
        wanted += [(key, name) for name in getattr(scenario.target, key).values()]
    for table in ("target", "hosts"):
        for key in type(getattr(scenario, table)).model_fields:
            wanted += [(key, name) for name in credentials.named(_values(scenario, table, key))]
    for key, name in wanted:
        if not os.environ.get(name):
            problem = credentials.not_set(name)
            raise scenario.wrong(
                f"{key}: {problem}",
                hint=f"set it in this shell: export {name if name in problem else 'NAME'}=…",
            )


def _tls(scenario: Scenario, cells: Sequence[Cell]) -> None:
    for key in _FILES:
        for path in _values(scenario, "target", key):
            if not Path(path).is_file():
                raise scenario.wrong(f"{key}: {path}: no such file")
    for key, other in (("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")):
        if _values(scenario, "target", key) and not _values(scenario, "target", other):
            raise scenario.wrong(f"{key}: goes with {other}; give both")
    used = [key for key in (*_FILES, "tls_server_name") if _values(scenario, "target", key)]
    if used and not any("+tls://" in str(cell.parameters["target"]) for cell in cells):
        # Else the data would silently travel in the clear.
        raise scenario.wrong(
            f"{used[0]}: no address of this scenario uses TLS",
            hint=f"write the address as {_with_tls(cells)}://HOST:PORT",
        )


def _with_tls(cells: Sequence[Cell]) -> str:
    return f"{scheme_of(str(cells[0].parameters['target']))}+tls"


def _programs(scenario: Scenario) -> None:
    """Whether the programs of exec://, and that of a link's other end, are installed."""
    for table, key in (("target", "command"), ("hosts", "server")):
        for command in _values(scenario, table, key):
            first = split_command(command)[0]
            # What holds a placeholder is known to the trial alone.
            if "{" not in first and shutil.which(first) is None:
                found = "cannot be run" if Path(first).exists() else "no such program"
                raise scenario.wrong(
                    f"{key}: {first}: {found}",
                    hint="name one in PATH, or by its path; a pipeline needs a shell: \"sh -c '... | ...'\"",
                )


def _cpus(scenario: Scenario) -> None:
    if not hasattr(os, "sched_getaffinity"):
        return
    usable = sorted(os.sched_getaffinity(0))
    for cpus in _values(scenario, "workload", "pin"):
        missing = [cpu for cpu in cpus if cpu not in usable]
        if missing:
            raise scenario.wrong(f"pin: CPU {missing[0]} is not there; this process may use {_spans(usable)}")


def _spans(numbers: Sequence[int]) -> str:
    """0-3,6 for 0, 1, 2, 3, 6."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _archive(scenario: Scenario, cell: Cell) -> None:
    """Whether the archives are there."""
    data = str(cell.parameters["data"])
    if not data.startswith("archive:"):
        return
    folder = Path(data.removeprefix("archive:"))
    hint = f"make some: venturi generate --archive {folder} --hosts 100 --steps 1000"
    if not folder.is_dir():
        raise scenario.wrong(f"data: {folder}: no such directory", hint)
    if not (folder / "manifest.json").is_file():
        raise scenario.wrong(f"data: {folder} holds no archives: there is no manifest.json", hint)


def _file(scenario: Scenario, cell: Cell) -> None:
    """Whether an embedded database's file can be created there."""
    url = str(cell.parameters["target"])
    if not in_process(url):
        return
    if scheme_of(url) == "duckdb":
        duckdb_library()
    if is_local(url):
        return
    path = Path(url.partition("://")[2])
    if path.is_dir():
        raise scenario.wrong(f"url: {path} is a directory; name a file in it")
    if not path.parent.is_dir():
        raise scenario.wrong(f"url: {path.parent}: no such directory", f"make it: mkdir -p {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise scenario.wrong(f"url: {path} cannot be written")


def check_columns(scenario: Scenario, cell: Cell, data: Prepared) -> None:
    """Whether a file has the columns of an upsert, and of types that serve. Raises ScenarioError."""
    from pyarrow import types

    p = cell.parameters
    for key in ("key", "add"):
        for name in p[key] or ():
            if name not in data.columns:
                raise scenario.wrong(
                    f"{key}: {data.path} has no column {name}{similar(name, list(data.columns))}"
                )
            kind = data.columns[name]
            if key == "add" and not types.is_integer(kind):
                raise scenario.wrong(
                    f"{key}: {name} is {kind}; only integers can be added up and checked to the last one"
                )
            if key == "key" and name in data.nulls:
                raise scenario.wrong(f"{key}: {name} has nulls; a key must not")
            if key == "key" and types.is_nested(kind):
                raise scenario.wrong(f"{key}: {name} is {kind}, which is no key")
