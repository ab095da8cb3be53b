"""`venturi serve mariadb` and its like: databases to try things on, gone when they are stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from venturi.cli import serve_flags as flags
from venturi.cli import serving
from venturi.common import runtime
from venturi.common.credentials import INSTEAD, filled, is_secret_setting, named
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say
from venturi.targets.system import PORTS, SERVERS

if TYPE_CHECKING:
    from venturi.servers.throwaway import ThrowawayServer

__all__ = ["COMMANDS"]

Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="Bytes of its main cache, as 4GiB; without it 1GiB, or a quarter of a small machine.",
        show_default=False,
    ),
]
Heap = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="Bytes of Java's heap, as 4GiB; without it 1GiB, or a quarter of a small machine.",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="NAME=VALUE: a setting of the server, by its own name. Repeatable.", show_default=False
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Keep the data in this directory, and use it again; without it they go at the end.",
        show_default=False,
    ),
]
PasswordEnv = Annotated[
    str | None,
    typer.Option(
        "--password-env",
        help="Variable with the password to demand; without it none is asked for.",
        show_default=False,
    ),
]


def _plain(name: str, scheme: str) -> Callable[..., None]:
    """The command of a server that has no flags of its own."""

    def command(
        host: flags.Host = "127.0.0.1",
        port: flags.Port = PORTS[scheme],
        memory: Memory = None,
        settings: Set = None,
        data: Data = None,
        password_env: PasswordEnv = None,
        as_json: flags.Json = False,
        exit_with_parent: flags.ExitWithParent = False,
    ) -> None:
        from venturi.servers import throwaway

        server = throwaway.named(name)(**_choices(host, port, memory, settings, data, password_env))
        _serve(server, as_json, exit_with_parent)

    command.__name__ = name
    command.__doc__ = f"Start a throw-away {_CALLED.get(name, name.capitalize())} for {scheme}:// targets."
    return command


_CALLED = {"mariadb": "MariaDB (or MySQL, where that is installed)", "postgres": "PostgreSQL"}
"""Servers whose names are not written as their commands."""


def cassandra(
    host: flags.Host = "127.0.0.1",
    port: flags.Port = 9042,
    memory: Heap = None,
    settings: Set = None,
    data: Data = None,
    password_env: PasswordEnv = None,
    cassandra_home: Annotated[
        Path | None,
        typer.Option(
            "--cassandra-home",
            help="An unpacked distribution of Cassandra 5.0; without it Maven fetches the jars, once.",
            show_default=False,
        ),
    ] = None,
    java: Annotated[
        Path | None,
        typer.Option("--java", help="Java 17; without it one is looked for.", show_default=False),
    ] = None,
    fetch_only: Annotated[
        bool, typer.Option("--fetch-only", help="Fetch the jars, where they are not here yet, and end.")
    ] = False,
    as_json: flags.Json = False,
    exit_with_parent: flags.ExitWithParent = False,
) -> None:
    """Start a throw-away Cassandra 5.0, one node, for cassandra:// targets. Needs Java 17."""
    from venturi.servers.throwaway import Cassandra

    choices = _choices(host, port, memory, settings, data, password_env)
    server = Cassandra(cassandra_home=cassandra_home, java=java, **choices)
    if fetch_only:
        server.fetch()
        return
    _serve(server, as_json, exit_with_parent)


def clickhouse(
    host: flags.Host = "127.0.0.1",
    port: flags.Port = 8123,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            help="server (clickhouse-server), chdb (its engine in a package, behind HTTP of ours), or auto: "
            "what is here and has all formats.",
        ),
    ] = "auto",
    settings: Set = None,
    data: Data = None,
    password_env: PasswordEnv = None,
    as_json: flags.Json = False,
    exit_with_parent: flags.ExitWithParent = False,
) -> None:
    """Start a throw-away ClickHouse for clickhouse:// targets."""
    from venturi.servers.throwaway import ClickHouse
    from venturi.servers.throwaway.clickhouse import ENGINES

    if engine not in ENGINES:
        raise VenturiError(f"--engine {engine}: is not one of {', '.join(ENGINES)}")
    server = ClickHouse(engine=engine, **_choices(host, port, None, settings, data, password_env))
    _serve(server, as_json, exit_with_parent)


_OWN: dict[str, Callable[..., None]] = {"cassandra": cassandra, "clickhouse": clickhouse}
COMMANDS: tuple[Callable[..., None], ...] = tuple(
    _OWN.get(name) or _plain(name, scheme) for scheme, name in SERVERS.items()
)


def _choices(
    host: str,
    port: int,
    memory: str | None,
    settings: Sequence[str] | None,
    data: Path | None,
    password_env: str | None,
) -> dict[str, Any]:
    """The flags that all servers have, as their constructor takes them."""
    from venturi.common.suffixes import parse_count
    from venturi.servers.throwaway import network

    bytes_of_memory = None
    if memory is not None:
        try:
            bytes_of_memory = parse_count(memory)
        except ValueError as error:
            raise VenturiError(f"--memory: {error}") from None
        if bytes_of_memory < _LEAST_MEMORY:
            raise VenturiError(f"--memory {memory}: at least 64MiB")
    if not network.is_loopback(host):
        asked = "asks for a password, but has no TLS" if password_env else "asks for no password"
        say("warning", f"{host} is reachable by other hosts, and the server {asked}")
        if not password_env:
            say("hint", "give --password-env, unless the network is yours alone")
    return {
        "host": host,
        "port": port,
        "memory": bytes_of_memory,
        "settings": dict(_setting(text) for text in settings or ()),
        "data": data,
        "password_env": password_env,
        "note": say,
    }


_LEAST_MEMORY = 64 * 2**20


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name or not text.isprintable():
        raise VenturiError(f"--set {text}: must be written NAME=VALUE")
    if is_secret_setting(name, value) and not named(value):
        raise VenturiError(f"--set {name}: its value would be shown", hint=INSTEAD)
    try:
        filled(value)
    except ValueError as error:
        raise VenturiError(f"--set {name}: {error}") from None
    return name, value


def _serve(server: ThrowawayServer, as_json: bool, exit_with_parent: bool) -> None:
    """Starts the server, says where it is, and waits for its end."""
    if exit_with_parent:
        serving.end_with_input()
    try:
        server.start()
        # Who reads that it is ready may stop it at once.
        ending = runtime.Ending()
        print(json.dumps(server.hello) if as_json else _described(server), flush=True)
        while server.running and not ending.wait(0.2):
            pass
        if not server.running:
            said = server.complaint()
            raise VenturiError(f"{server.title} has ended{': ' + said if said else ''}", ExitCode.UNREACHABLE)
    finally:
        server.stop()
    if not as_json:
        kept = server.hello["data"]
        say("info", f"stopped; the data stay in {kept}" if kept else "stopped, and everything removed")


def _described(server: ThrowawayServer) -> str:
    hello = server.hello
    rows = [(f"{s.name} = {s.value}", s.why) for s in server.settings()]
    width = max((len(left) for left, _ in rows), default=0)
    home = f"{hello['data']} (kept)" if hello["data"] else f"{hello['directory']} (removed at the end)"
    durable = ", ".join(f"{name} = {value}" for name, value in server.durable().items())
    password = f" --password-env {server.password_env}" if server.password_env else ""
    return "\n".join(
        [
            f"serving {server.url}  (Ctrl-C stops)",
            f"  {hello['software']}, pid {hello['pid']}, in {home}",
            *([f"  durable as by default: {durable}"] if durable else ()),
            "  not at their defaults:",
            *(f"    {left:<{width}}  {why}" for left, why in rows),
            f"try: venturi run {server.scenario} --target {server.url}{password}",
        ]
    )
