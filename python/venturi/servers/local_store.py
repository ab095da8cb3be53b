"""The store of time series behind `akumuli://local` and its like: there for a run, empty for every trial."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from venturi.common.errors import VenturiError
from venturi.servers.starters import Server, Starter

__all__ = ["LocalStore", "Settings"]

Note = Callable[[str, str], None]
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
        said = self._server.complaint()
        return f"the store died{': ' + said if said else ''}"

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
