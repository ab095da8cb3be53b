"""What stands for `X://local` and `X://remote`: servers and files of our own, there for one run.

A reference server for Flight, throw-away databases, and a temporary directory for databases of one file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

from venturi.common import temporary
from venturi.common.credentials import split_command
from venturi.common.environment import ServerEnvironments, describe_host
from venturi.common.errors import ScenarioError, VenturiError
from venturi.common.links import SERVER_END
from venturi.servers.reference import Ends, Halted, Placed, Server, SocketServer, Starter, start_local
from venturi.targets.system import (
    REFERENCE,
    SERVERS,
    in_process,
    is_local,
    is_ours,
    is_remote,
    is_time_series,
    is_unix,
    scheme_of,
)
from venturi.targets.urls import each_host, place_of, split_url

Note = Callable[[str, str], None]


class _Wanted(NamedTuple):
    """Servers of a system, beside the loaders or on hosts of their own; a reference server listens on a port
    or on a Unix socket, a throw-away one on both."""

    scheme: str
    remote: bool
    unix: bool = False

    def url(self, server: Server) -> str:
        """Of a reference server."""
        return (
            f"{self.scheme}+unix://{quote(server.address)}"
            if self.unix
            else f"{self.scheme}://{server.address}"
        )


def _wanted(url: str) -> _Wanted:
    return _Wanted(scheme_of(url), is_remote(url), is_unix(url) and scheme_of(url) in REFERENCE)


class LocalTargets:
    """Started when asked for, started again when they died, gone after `stop`."""

    def __init__(self, note: Note, starter: Starter | None = None) -> None:
        self._note = note
        self._starter: Starter = starter or start_local
        self._wanted: list[_Wanted | str] = []
        """A text is the command of a program of somebody else's."""
        self._servers: dict[_Wanted | str, Server] = {}
        self._ports: Sequence[int] = ()
        """Where clients come to such a program."""
        self._halt: Callable[[], bool] = lambda: False
        self._held: temporary.LockedTempDir | None = None
        self._tables: dict[str, Path] = {}
        self._stores = {remote: LocalStore(note, self._starter, remote) for remote in (False, True)}

    def start(
        self,
        urls: Iterable[str],
        tables: Mapping[str, Path] | None = None,
        program: str | None = None,
        ports: Iterable[int] = (),
        halt: Callable[[], bool] = lambda: False,
    ) -> None:
        """Starts what these addresses need; `tables` are IPC files that a server of charrow:// gives, by
        name; `program`: a command that starts another server, at the other end of a link, to whose `ports`
        clients will come. Raises VenturiError where a server does not start, and KeyboardInterrupt where
        `halt` says so while it is waited for."""
        self._ports, self._halt = tuple(ports), halt
        self._tables = dict(tables or {})
        needed = dict.fromkeys(_wanted(url) for url in urls if is_ours(url) and not is_time_series(url))
        self._wanted = [wanted for wanted in needed if not in_process(f"{wanted.scheme}://")]
        self._wanted += [program] if program is not None else []
        for wanted in self._wanted:
            self._servers[wanted] = self._started(wanted)

    def _started(self, wanted: _Wanted | str) -> Server:
        if isinstance(wanted, str):
            return cast("Ends", self._starter).program(wanted, self._ports, self._note, self._halt)
        scheme, remote, unix = wanted
        if scheme in REFERENCE:
            # Mostly without tables: before its clock starts, a trial gives the server what it will get.
            ready = self._tables if scheme == "charrow" else {}
            options = [word for name, path in ready.items() for word in ("--ready", f"{name}={path}")]
            kind = REFERENCE[scheme]
            return SocketServer(*options, kind=kind).start() if unix else self._starter(kind, options, remote)
        if isinstance(self._starter, Placed):
            return self._starter(SERVERS[scheme], (), remote)
        from venturi.servers import throwaway

        server = throwaway.for_scheme(scheme)(note=self._note)
        self._note("info", f"starting {server.title} for this run")
        return server.start()

    def ensure(self) -> None:
        """Starts those again that have died."""
        for wanted in self._wanted:
            server = self._servers.get(wanted)
            if server is not None:
                if (died := self._died(wanted)) is None:
                    continue
                self._note("warning", f"{died}; starting another")
                server.stop()
                del self._servers[wanted]
            # Or the last attempt to start another has failed.
            with contextlib.suppress(Halted):
                self._servers[wanted] = self._started(wanted)

    def died(self, url: str) -> str | None:
        """What is to be said of the server that was started for an address, where it has died."""
        if (store := self.store(url)) is not None:
            return store.died()
        programs = [it for it in self._wanted if isinstance(it, str)] if SERVER_END in url else []
        return self._died(_wanted(url)) if is_ours(url) else next(map(self._died, programs), None)

    def _died(self, wanted: _Wanted | str) -> str | None:
        server = self._servers.get(wanted)
        if server is None or server.running:
            return None
        complaint = server.complaint()
        return f"{_name(wanted)} died{': ' + complaint if complaint else ''}"

    def url(self, url: str) -> str:
        """The real address behind `X://local` or `X://remote`; others as they are."""
        if not is_ours(url):
            return url
        scheme = scheme_of(url)
        if (store := self.store(url)) is not None:
            return store.url(url)
        if in_process(url):
            return f"{scheme}://{self.folder / f'venturi.{scheme}'}"
        wanted = _wanted(url)
        server = self._servers.get(wanted)
        if server is None:
            return url
        if scheme in REFERENCE:
            return split_url(url)._replace(netloc=split_url(wanted.url(server)).netloc).geturl()
        found = split_url(str(server.hello["unix_url" if is_unix(url) else "url"]))
        path = split_url(url).path
        return found._replace(path=path if path.strip("/") else found.path).geturl()

    def store(self, url: str) -> LocalStore | None:
        """The store that is ours at this address; None for other systems and hosts."""
        return self._stores[is_remote(url)] if is_ours(url) and is_time_series(url) else None

    @property
    def folder(self) -> Path:
        """The directory with our own files."""
        if self._held is None:
            self._held = temporary.make("files")
        return self._held.path

    def reference_url(self, url: str) -> str | None:
        """The URL of a reference server of ours where this address is, if one runs there."""
        possible = [_Wanted(scheme, is_remote(url), is_unix(url)) for scheme in REFERENCE]
        return next((one.url(self._servers[one]) for one in possible if one in self._servers), None)

    def _hello(self, url: str) -> dict[str, Any]:
        store = self.store(url)
        server = store if store is not None else self._servers.get(_wanted(url))
        return server.hello if server is not None else {}

    def pid(self, url: str) -> int | None:
        """The process that serves `X://local`, on the host where it was started; None: it has none."""
        return self._hello(url).get("pid") if is_local(url) else None

    def environments(self, url: str) -> ServerEnvironments:
        """What each server of ours tells of itself and its host."""
        store, hello = self.store(url), self._hello(url)
        if not hello:
            return {}
        names = [place_of(one) for one in each_host(self.url(url))]
        if store is None and scheme_of(url) not in REFERENCE:
            software = {"server": hello.get("software")}
            return {names[0]: {"software": software, "settings": hello.get("settings"), **describe_host()}}
        each = hello.get("each") or [hello]
        if len(names) < len(each):
            # A store that is not asked to serve this protocol yet has no address for it.
            names = [str(one["address"]) for one in each]
        return {name: _environment(one) for name, one in zip(names, each, strict=True)}

    def stop(self) -> None:
        """Ends all servers and removes all files."""
        for store in self._stores.values():
            store.stop()
        for server in self._servers.values():
            with contextlib.suppress(VenturiError):
                server.stop()
        self._servers.clear()
        if self._held is not None:
            self._held.remove()
            self._held = None


def _name(wanted: _Wanted | str) -> str:
    if isinstance(wanted, str):
        return f"--server {split_command(wanted)[0]}"
    ours = wanted.scheme in REFERENCE
    return "the reference server" if ours else f"the server of {wanted.scheme}://local"


def _environment(hello: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of a reference server's first words."""
    found = hello.get("environment")
    settings = {"settings": hello["settings"]} if "settings" in hello else {}
    return {**found, **settings} if isinstance(found, dict) else None


def duckdb_library() -> str:
    """The shared object with DuckDB's C API: the extension of the installed Python package."""
    from importlib.util import find_spec

    for name in ("_duckdb", "duckdb.duckdb"):
        with contextlib.suppress(ImportError, ValueError):
            found = find_spec(name)
            if found is not None and found.origin and Path(found.origin).is_file():
                return found.origin
    raise ScenarioError(
        "duckdb:// needs DuckDB's library, and the Python package duckdb has none here",
        hint="install it again: pip install --force-reinstall duckdb",
    )


_SERVED = {
    "akumuli": "resp",
    "akumuli+udp": "udp",
    "opentsdb": "opentsdb",
    "influx": "influx",
    "influx+http": "http",
}
"""Which of the store's addresses speaks for a URL."""


@dataclass(frozen=True)
class Settings:
    """What a trial asks of the store: how durable, and how many threads read (None: its own choice)."""

    durable: str = "os"
    pool: int | None = None
    udp: bool = False

    def flags(self) -> list[str]:
        """As `venturi serve timeseries` takes them."""
        threads = ["--threads", str(self.pool)] if self.pool is not None else []
        return ["--durable", self.durable, *threads, *(["--udp", "0"] if self.udp else [])]


class LocalStore:
    """At most one at a time, or one set of them on hosts of their own; what they stored goes with them."""

    def __init__(self, note: Note, starter: Starter, remote: bool = False) -> None:
        self._note, self._starter, self._remote = note, starter, remote
        self._server: Server | None = None
        self._settings: Settings | None = None
        self._used = False

    def died(self) -> str | None:
        """What is to be said of it where it has died."""
        if self._server is None or self._server.running:
            return None
        complaint = self._server.complaint()
        return f"the store died{': ' + complaint if complaint else ''}"

    def ready(self, settings: Settings) -> None:
        """An empty store with these settings. Raises VenturiError where it does not start."""
        server = self._server
        if server is not None:
            running = server.running
            if running and not self._used and settings == self._settings:
                return
            if not running:
                self._note("warning", f"{self.died()}; starting another")
        self.stop()
        ports = [word for name in ("port", "opentsdb", "influx", "http") for word in (f"--{name}", "0")]
        self._settings, self._used = settings, False
        self._server = self._starter("timeseries", [*ports, *settings.flags()], self._remote)

    def begin(self) -> None:
        """A trial is about to fill it."""
        self._used = True

    @property
    def hello(self) -> dict[str, Any]:
        return self._server.hello if self._server is not None else {}

    def url(self, url: str) -> str:
        """The real address behind `X://local` or `X://remote`."""
        parts = urlsplit(url)
        address = (self.hello.get("addresses") or {}).get(_SERVED[parts.scheme])
        path = parts.path if parts.path.strip("/") or parts.scheme != "influx+http" else "/venturi"
        return parts._replace(netloc=str(address), path=path).geturl() if address else url

    @property
    def http_port(self) -> int | None:
        """Where each of them answers what it holds."""
        address = (self.hello.get("addresses") or {}).get("http")
        return int(str(address).rpartition(":")[2]) if address else None

    def sealed_bytes(self) -> int | None:
        """Bytes of its segments when all is in them: it ends for that, and another one takes its place."""
        if self._server is None or not self._server.running:
            return None
        sealed: int | None = getattr(self._server, "sealed_bytes")()  # noqa: B009 - of stores only
        self.stop()
        return sealed

    def stop(self) -> None:
        """Ends it, and removes what it stored."""
        if self._server is not None:
            with contextlib.suppress(VenturiError):
                self._server.stop()
            self._server = None


def adbc_driver(url: str) -> dict[str, str]:
    """Options of the spec for a driver that a package has: its `library`, and its `driver_entrypoint` where
    that has a name of its own. Empty: the URL names a file, or the core looks for a driver of that name."""
    name = urlsplit(url).netloc
    if name == "duckdb":
        with contextlib.suppress(ScenarioError):
            return {"library": duckdb_library(), "driver_entrypoint": "duckdb_adbc_init"}
        return {}
    library = _adbc_library(name)
    return {} if library is None else {"library": str(library)}


def _adbc_library(name: str) -> Path | None:
    """That of the package adbc-driver-NAME; it has this ending on every system."""
    if not name:
        return None
    with contextlib.suppress(ImportError, ValueError):
        package = find_spec(f"adbc_driver_{name.replace('-', '_')}")
        for folder in (package.submodule_search_locations or ()) if package is not None else ():
            library = Path(folder) / f"libadbc_driver_{name}.so"
            if library.is_file():
                return library
    return None
