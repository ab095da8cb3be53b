"""`venturi serve mariadb` and its like: databases to try things on, gone when they are stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.cli import serving
from venturi.cli.serving import Flag
from venturi.common import runtime
from venturi.common.credentials import INSTEAD, filled, is_secret_setting, named
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say
from venturi.targets.system import PORTS, SERVERS

if TYPE_CHECKING:
    from venturi.servers.throwaway import ThrowawayServer

_CALLED = {"mariadb": "MariaDB (or MySQL, where that is installed)", "postgres": "PostgreSQL"}
"""Servers whose names are not written as their commands."""

_LEAST_MEMORY = 64 * 2**20


def _bytes(flag: str, text: str) -> int:
    found = serving.count(flag, text)
    if found < _LEAST_MEMORY:
        raise VenturiError(f"{flag} {text}: at least 64MiB")
    return found


def _memory(what: str) -> Flag:
    return Flag(f"Bytes of {what}, as 4GiB; without it 1GiB, or a quarter of a small machine.", read=_bytes)


FLAGS = {
    "memory": _memory("its main cache"),
    "set": Flag(
        "NAME=VALUE: a setting of the server, by its own name. Repeatable.",
        kind=list[str],
        read=lambda _, texts: dict(map(_setting, texts)),
    ),
    "data": Flag(
        "Keep the data in this directory, and use it again; without it they go at the end.", kind=Path
    ),
    "password_env": Flag("Variable with the password to demand; without it none is asked for."),
}
KEPT = ("set", "data", "password_env")
ENDS = ("json", "exit_with_parent")


def _plain(name: str, scheme: str) -> Callable[..., None]:
    """The command of a server that has no flags of its own."""

    def command(flags: dict[str, Any]) -> None:
        from venturi.servers import throwaway

        _serve(throwaway.named(name)(**_choices(flags)), flags)

    command.__name__ = name
    command.__doc__ = f"Start a throw-away {_CALLED.get(name, name.capitalize())} for {scheme}:// targets."
    own = FLAGS | {"port": serving.port(PORTS[scheme])}
    return serving.command("host", "port", "memory", *KEPT, *ENDS, **own)(command)


@serving.command(
    *("host", "port", "memory", *KEPT, "cassandra_home", "java", "fetch_only", *ENDS),
    **FLAGS
    | {
        "port": serving.port(9042),
        "memory": _memory("Java's heap"),
        "cassandra_home": Flag(
            "An unpacked distribution of Cassandra 5.0; without it Maven fetches the jars, once.", kind=Path
        ),
        "java": Flag("Java 17; without it one is looked for.", kind=Path),
        "fetch_only": Flag("Fetch the jars, where they are not here yet, and end.", False),
    },
)
def cassandra(flags: dict[str, Any]) -> None:
    """Start a throw-away Cassandra 5.0, one node, for cassandra:// targets. Needs Java 17."""
    from venturi.servers.throwaway import Cassandra

    server = Cassandra(cassandra_home=flags["cassandra_home"], java=flags["java"], **_choices(flags))
    if flags["fetch_only"]:
        server.fetch()
    else:
        _serve(server, flags)


@serving.command(
    *("host", "port", "engine", *KEPT, *ENDS),
    **FLAGS
    | {
        "port": serving.port(8123),
        "engine": Flag(
            "server (clickhouse-server), chdb (its engine in a package, behind HTTP of ours), or auto: what "
            "is here and has all formats.",
            "auto",
        ),
    },
)
def clickhouse(flags: dict[str, Any]) -> None:
    """Start a throw-away ClickHouse for clickhouse:// targets."""
    from venturi.servers.throwaway import ClickHouse
    from venturi.servers.throwaway.clickhouse import ENGINES

    if flags["engine"] not in ENGINES:
        raise VenturiError(f"--engine {flags['engine']}: is not one of {', '.join(ENGINES)}")
    _serve(ClickHouse(engine=flags["engine"], **_choices(flags)), flags)


_OWN: dict[str, Callable[..., None]] = {"cassandra": cassandra, "clickhouse": clickhouse}
COMMANDS: tuple[Callable[..., None], ...] = tuple(
    _OWN.get(name) or _plain(name, scheme) for scheme, name in SERVERS.items()
)


def _choices(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that all servers have, as their constructor takes them. Warns if others reach the server."""
    from venturi.servers.throwaway import network

    host, password_env = flags["host"], flags["password_env"]
    if not network.is_loopback(host):
        access = "asks for a password, but has no TLS" if password_env else "asks for no password"
        say("warning", f"{host} is reachable by other hosts, and the server {access}")
        if not password_env:
            say("hint", "give --password-env, unless the network is yours alone")
    return {
        **{name: flags[name] for name in ("host", "port", "data", "password_env")},
        "memory": flags.get("memory"),
        "settings": flags["set"] or {},
        "note": say,
    }


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


def _serve(server: ThrowawayServer, flags: dict[str, Any]) -> None:
    """Starts the server, says where it is, and waits for its end."""
    if flags["exit_with_parent"]:
        serving.end_with_input()
    try:
        server.start()
        # Who reads that it is ready may stop it at once.
        ending = runtime.Ending()
        serving.announce(flags["json"], server.hello, _described(server))
        while server.running and not ending.wait(0.2):
            pass
        if not server.running:
            complaint = server.complaint()
            raise VenturiError(
                f"{server.title} has ended{': ' + complaint if complaint else ''}", ExitCode.UNREACHABLE
            )
    finally:
        server.stop()
    if not flags["json"]:
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
