"""How a server starts, and what ends it: signals, or the end of whoever started it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from venturi.common import credentials, runtime
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say

__all__ = [
    "asked",
    "bounds",
    "check_access",
    "common",
    "count",
    "end_with_input",
    "named",
    "nanoseconds",
    "path",
    "place",
    "started",
    "statistics",
    "tables",
    "wait",
    "warn_if_open",
]


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


def count(flag: str, text: str, most: int | None = None, least: int = 1) -> int:
    """A count or size from a flag. Raises VenturiError naming the flag."""
    from venturi.common.suffixes import parse_count

    try:
        found = int(parse_count(text))
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}") from None
    if most is not None and not least <= found <= most:
        raise VenturiError(f"{flag} {text}: must be {least} to {most}")
    if found < least:
        raise VenturiError(f"{flag} {text}: must be at least {least}")
    return found


def nanoseconds(flag: str, text: str) -> int:
    """A time from a flag, above 0. Raises VenturiError naming the flag."""
    from venturi.common.suffixes import parse_duration

    try:
        found = int(parse_duration(text))
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}") from None
    if found < 1:
        raise VenturiError(f"{flag} {text}: must be above 0")
    return found


def named(flag: str, text: str) -> tuple[str, str]:
    """Name and file of NAME=FILE. Raises VenturiError naming the flag."""
    name, equals, file = text.partition("=")
    if not equals or not name.strip() or not file:
        raise VenturiError(f"{flag} {text}: must be written NAME=FILE")
    return name.strip(), file


def common(
    each: str,
    *,
    host: str,
    port: int,
    unix: Path | None = None,
    max_connections: int,
    send_buffer: str | None,
    handicap: str | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    token_env: str | None,
) -> dict[str, Any]:
    """The part of a spec that flight, http and charrow share; warns of what its user should know. `each`:
    what a handicap slows down. Raises VenturiError naming the flag that is wrong."""
    from venturi.common.environment import describe
    from venturi.targets.handicap import nanoseconds

    try:
        slowed = nanoseconds(handicap) if handicap is not None else {}
    except ValueError as error:
        raise VenturiError(f"--handicap: {error}") from None
    buffer_bytes = count("--send-buffer", send_buffer) if send_buffer is not None else None
    check_access(tls_certificate, tls_key, tls_client_ca, token_env)
    if unix is None:
        warn_if_open(host, tls_certificate is not None, token_env)
    if handicap is not None:
        say(
            "warning", f"handicapped by {handicap} a {each}: figures measured here are slowed down on purpose"
        )
    return {
        "host": host,
        "port": port,
        "unix": path(unix),
        "max_connections": max_connections,
        "send_buffer": buffer_bytes,
        "handicap": slowed,
        "tls_certificate": path(tls_certificate),
        "tls_key": path(tls_key),
        "tls_client_ca": path(tls_client_ca),
        "token_env": token_env,
        # Whoever measures this server may ask what it runs on.
        "environment": describe(),
    }


def bounds(memory: str, max_message_size: str) -> dict[str, Any]:
    """The part of a spec that servers of tables share. Raises VenturiError naming the flag that is wrong."""
    return {
        "memory_bytes": count("--memory", memory),
        "max_message_size": count("--max-message-size", max_message_size),
    }


def asked(spec: Mapping[str, Any]) -> str:
    """Where a server shall listen, for errors."""
    return str(spec["unix"] or f"{spec['host']}:{spec['port']}")


def place(scheme: str, server: Any, spec: Mapping[str, Any]) -> str:
    """The URL of a server of the core's, for whoever measures it."""
    if spec["unix"] is not None:
        return f"{scheme}+unix://{quote(server.address)}"
    return f"{scheme}{'+tls' if spec['tls_certificate'] is not None else ''}://{server.address}"


def tables(
    scheme: str, spec: dict[str, Any], files: list[tuple[str, str]], as_json: bool, exit_with_parent: bool
) -> None:
    """Serves rows at URLs of this scheme, these files (each with its flag, as NAME=FILE) as tables, until it
    is told to end."""
    from venturi.common.runtime import load_core
    from venturi.inputs.files import DataStore

    core = load_core()
    with DataStore() as store:
        spec["tables"] = [_table(store, flag, text) for flag, text in files]
        store.forget_tables()
        with started(core, spec, asked(spec)) as server:
            # Who reads that it is ready may stop it at once.
            ending = runtime.Ending()
            _announce(server, scheme, as_json, spec)
            wait(server, ending, exit_with_parent)
    if not as_json:
        _print_statistics(server)


def _table(store: Any, flag: str, text: str) -> dict[str, str]:
    name, file = named(flag, text)
    return {"name": name.strip("/"), "ipc": str(store.prepare(file).ipc)}


def _announce(server: Any, scheme: str, as_json: bool, spec: dict[str, Any]) -> None:
    if as_json:
        hello = {"address": server.address, "pid": os.getpid(), "environment": spec["environment"]}
        print(json.dumps(hello), flush=True)
        return
    print(f"serving {place(scheme, server, spec)}  (Ctrl-C stops)", flush=True)


def _print_statistics(server: Any) -> None:
    from venturi.common.suffixes import format_bytes, format_duration

    found = statistics(server)

    def moved(calls: str, payload: str) -> str:
        return f"{found.get(calls, 0):,} {calls} ({format_bytes(found.get(payload, 0))})"

    calls = f"{moved('gets', 'payload_bytes_sent')}, {moved('puts', 'payload_bytes_received')}"
    after = format_duration(found.get("uptime_ns", 0))
    say("info", f"stopped after {after}: {found.get('connections', 0):,} connections, {calls}")


def statistics(server: Any) -> dict[str, Any]:
    """What a server of the core's has counted."""
    found = server.statistics()
    found = json.loads(found) if isinstance(found, str) else found
    return found if isinstance(found, dict) else {}


def path(found: Path | None) -> str | None:
    """As a server's spec has it."""
    return str(found) if found is not None else None


def check_access(
    certificate: Path | None, key: Path | None, client_ca: Path | None, token_env: str | None
) -> None:
    """Whether certificate, key, CA and token are there and go together. Raises VenturiError."""
    if (certificate is None) != (key is None):
        raise VenturiError("--tls-certificate and --tls-key go together")
    if client_ca is not None and certificate is None:
        raise VenturiError("--tls-client-ca needs --tls-certificate and --tls-key")
    if token_env is not None and not os.environ.get(token_env):
        raise VenturiError(f"--token-env: {credentials.not_set(token_env)}")
    for one in (certificate, key, client_ca):
        if one is not None and not one.is_file():
            raise VenturiError(f"{one}: no such file")


def warn_if_open(host: str, tls: bool, token_env: str | None) -> None:
    """Says so where other hosts can use the server without proving who they are."""
    if host in ("localhost", "::1") or host.startswith("127.") or (tls and token_env is not None):
        return
    missing = " and ".join(n for n, there in (("TLS", tls), ("a token", token_env is not None)) if not there)
    say(
        "warning", f"{host} is reachable by other hosts, without {missing}: anybody there can use this server"
    )
    say("hint", "give --tls-certificate, --tls-key and --token-env, unless the network is yours alone")


def wait(server: Any, ending: runtime.Ending, exit_with_parent: bool) -> None:
    """Until a signal, the end of standard input, or of the server itself."""
    if exit_with_parent:
        end_with_input()
    while not ending.wait(0.05) and not server.wait(0):
        pass


def end_with_input() -> None:
    """From now on the end of standard input ends this process as SIGTERM does."""
    threading.Thread(target=_until_closed, daemon=True).start()


def _until_closed() -> None:
    # Raw reads: a buffered reader would hold its lock when the interpreter ends.
    while True:
        try:
            if not os.read(sys.stdin.fileno(), 4096):
                break
        except OSError:
            break
    os.kill(os.getpid(), signal.SIGTERM)
