"""The flags of servers as a table, and how a server starts and ends: by signals, or with its parent."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer

from venturi.cli import options
from venturi.common import credentials, runtime
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say


def count(flag: str, text: str, most: int | None = None, least: int = 1) -> int:
    """A count or size from a flag. Raises VenturiError naming the flag."""
    from venturi.common.suffixes import parse_count

    try:
        found = int(parse_count(text))
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}") from None
    if found < least or (most is not None and found > most):
        span = f"at least {least}" if most is None else f"{least} to {most}"
        raise VenturiError(f"{flag} {text}: must be {span}")
    return found


def nanoseconds(flag: str, text: str) -> int:
    """A time from a flag, above 0. Raises VenturiError naming the flag."""
    found = options.time(flag, text)
    if found < 1:
        raise VenturiError(f"{flag} {text}: must be above 0")
    return found


def named(flag: str, text: str) -> tuple[str, str]:
    """Name and file of NAME=FILE. Raises VenturiError naming the flag."""
    name, equals, file = text.partition("=")
    if not equals or not name.strip() or not file:
        raise VenturiError(f"{flag} {text}: must be written NAME=FILE")
    return name.strip(), file


@dataclass(frozen=True)
class Flag:
    """A flag of a server. `read` makes of what was typed what the command gets."""

    help: str
    default: Any = None
    kind: Any = None
    """Of a value; none: that of the default, or a text."""
    read: Callable[[str, str], Any] | None = None
    least: int | None = None
    most: int | None = None
    hidden: bool = False

    def parameter(self, name: str) -> inspect.Parameter:
        kind = self.kind or (str if self.default is None else type(self.default))
        option = typer.Option(
            self.default,
            _spelled(name),
            help=self.help,
            min=self.least,
            max=self.most,
            hidden=self.hidden,
            show_default=self.default not in (None, False),
        )
        return options.parameter(name, option, kind | None if self.default is None else kind)


FLAGS = {
    "host": Flag("Address to listen on; 0.0.0.0 for all.", "127.0.0.1"),
    "unix": Flag(
        "Path of a Unix socket to listen on, for this user alone, in the place of host and port.", kind=Path
    ),
    "max_connections": Flag("Most connections at a time; each has a thread.", 1024, least=1),
    "send_buffer": Flag(
        "Bytes of the sockets' send buffers; without it 256Ki on loopback, 512Ki of a Unix socket, else the "
        "kernel's.",
        read=count,
    ),
    "tls_certificate": Flag("Certificate file (PEM).", kind=Path),
    "tls_key": Flag("Key file of the certificate (PEM).", kind=Path),
    "tls_client_ca": Flag("Demand client certificates of this CA (PEM).", kind=Path),
    "memory": Flag("Most bytes that tables, and copies that gets read from, may take.", "4GiB", read=count),
    "max_message_size": Flag("Largest batch that a put may send, in bytes.", "256Mi", read=count),
    "table": Flag(
        "NAME=FILE: a Parquet, Arrow or CSV file to serve under /NAME. Repeatable.", kind=list[str]
    ),
    "json": Flag("Say where it listens in one line of JSON on standard output.", False),
    "exit_with_parent": Flag("End when standard input closes.", False),
}
ACCESS = ("tls_certificate", "tls_key", "tls_client_ca", "token_env")


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def handicap(each: str) -> Flag:
    """`--handicap` of a server that moves so: a batch, a block."""

    def read(flag: str, text: str) -> dict[str, int]:
        from venturi.targets.system import handicap_ns

        try:
            found = handicap_ns(text)
        except ValueError as error:
            raise VenturiError(f"{flag}: {error}") from None
        say("warning", f"handicapped by {text} a {each}: figures measured here are slowed down on purpose")
        return found

    text = f"STAGE=TIME: CPU time to burn for every {each}, as encode=2ms; several joined by +."
    return Flag(text, read=read)


def port(number: int) -> Flag:
    return Flag("Port; 0 takes a free one.", number, least=0, most=65535)


def token(what: str) -> Flag:
    """`--token-env` of a server that demands it as this."""
    return Flag(f"Variable with the {what} to demand.")


def command(*names: str, **own: Flag) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a function these flags of the table, in this order, or its own of a name; and has it called with
    what was read of them, in a mapping."""
    flags = {name: own.get(name) or FLAGS[name] for name in names}

    def decorated(function: Callable[[dict[str, Any]], None]) -> Callable[..., None]:
        def called(**values: Any) -> None:
            for name, flag in flags.items():
                if flag.read is not None and values[name] is not None:
                    values[name] = flag.read(_spelled(name), values[name])
            function(values)

        found = [flag.parameter(name) for name, flag in flags.items()]
        return options.with_parameters(function, found, called)

    return decorated


def common(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a spec that flight, http and charrow share. Warns if other hosts can use the server without
    proving who they are. Raises VenturiError naming the flag that is wrong."""
    from venturi.common.environment import describe

    certificate, key, client_ca, token_env = (flags[name] for name in ACCESS)
    if (certificate is None) != (key is None):
        raise VenturiError("--tls-certificate and --tls-key go together")
    if client_ca is not None and certificate is None:
        raise VenturiError("--tls-client-ca needs --tls-certificate and --tls-key")
    if token_env is not None and not os.environ.get(token_env):
        raise VenturiError(f"--token-env: {credentials.not_set(token_env)}")
    for one in (certificate, key, client_ca):
        if one is not None and not one.is_file():
            raise VenturiError(f"{one}: no such file")
    unix = flags.get("unix")
    host = flags["host"]
    missing = [n for n, value in (("TLS", certificate), ("a token", token_env)) if value is None]
    if unix is None and missing and not (host in ("localhost", "::1") or host.startswith("127.")):
        without = f"{host} is reachable by other hosts, without {' and '.join(missing)}"
        say("warning", f"{without}: anybody there can use this server")
        say("hint", "give --tls-certificate, --tls-key and --token-env, unless the network is yours alone")
    paths = {"unix": unix} | dict(zip(ACCESS[:3], (certificate, key, client_ca), strict=True))
    return {
        **{name: flags[name] for name in ("host", "port", "max_connections", "send_buffer", "token_env")},
        **{name: None if path is None else str(path) for name, path in paths.items()},
        "handicap": flags["handicap"] or {},
        # Whoever measures this server may ask what it runs on.
        "environment": describe(),
    }


@contextlib.contextmanager
def started(core: Any, spec: dict[str, Any], where: str) -> Iterator[Any]:
    """A reference server of the core's, stopped at the end of the block. Raises VenturiError with its
    reason."""
    try:
        server = core.serve(json.dumps(spec))
    except OSError as error:
        # Its text names the address or the directory, and what to do.
        raise VenturiError(str(error), ExitCode.UNREACHABLE) from None
    except (ValueError, RuntimeError) as error:
        raise VenturiError(f"cannot serve on {where}: {error}") from None
    try:
        yield server
    finally:
        server.stop()


def listen_address(spec: Mapping[str, Any]) -> str:
    """Where a server shall listen, for errors."""
    return str(spec["unix"] or f"{spec['host']}:{spec['port']}")


def place(scheme: str, server: Any, spec: Mapping[str, Any]) -> str:
    """The URL of a server of the core's, for whoever measures it."""
    if spec["unix"] is not None:
        return f"{scheme}+unix://{quote(server.address)}"
    return f"{scheme}{'+tls' if spec['tls_certificate'] is not None else ''}://{server.address}"


def announce(as_json: bool, hello: Mapping[str, Any], text: str) -> None:
    """Says that a server is ready. Who reads it may stop the server at once."""
    print(json.dumps(hello) if as_json else text, flush=True)


def statistics(server: Any) -> dict[str, Any]:
    """What a server of the core's has counted."""
    found = server.statistics()
    found = json.loads(found) if isinstance(found, str) else found
    return found if isinstance(found, dict) else {}


def wait(server: Any, ending: runtime.Ending, exit_with_parent: bool) -> None:
    """Until a signal, the end of standard input, or of the server itself."""
    if exit_with_parent:
        end_with_input()
    while not ending.wait(0.05) and not server.wait(0):
        pass


def end_with_input() -> None:
    """From now on the end of standard input ends this process as SIGTERM does."""

    def until_closed() -> None:
        # Raw reads: a buffered reader would hold its lock when the interpreter ends.
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=until_closed, daemon=True).start()
