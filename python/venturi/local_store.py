"""The store of time series behind `akumuli://local` and its like: there for a run, empty for every trial."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from venturi.errors import VenturiError
from venturi.servers import ReferenceServer

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
    """At most one at a time, in a temporary directory that goes with it."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._server: ReferenceServer | None = None
        self._settings: Settings | None = None
        self._folder: Path | None = None
        self._used = False

    def ready(self, settings: Settings) -> None:
        """An empty store with these settings. Raises VenturiError where it does not start."""
        server = self._server
        if server is not None and server.running and not self._used and settings == self._settings:
            return
        if server is not None and not server.running:
            said = server.complaint()
            self._note("warning", f"the store died{': ' + said if said else ''}; starting another")
        self.stop()
        self._folder = Path(tempfile.mkdtemp(prefix="venturi-store-"))
        ports = [word for name in ("port", "opentsdb", "influx", "http") for word in (f"--{name}", "0")]
        self._server = ReferenceServer(
            "--data", str(self._folder / "data"), *ports, *settings.flags(), kind="timeseries"
        )
        self._settings, self._used = settings, False
        self._server.start()

    def begin(self) -> None:
        """A trial is about to fill it."""
        self._used = True

    @property
    def hello(self) -> dict[str, Any]:
        return self._server.hello if self._server is not None else {}

    def url(self, url: str) -> str:
        """The real address behind `X://local`."""
        parts = urlsplit(url)
        address = (self.hello.get("addresses") or {}).get(_SERVED[parts.scheme])
        path = parts.path if parts.path.strip("/") or parts.scheme != "influx+http" else "/venturi"
        return parts._replace(netloc=str(address), path=path).geturl() if address else url

    @property
    def http_port(self) -> int | None:
        address = (self.hello.get("addresses") or {}).get("http")
        return int(str(address).rpartition(":")[2]) if address else None

    def environment(self) -> dict[str, Any] | None:
        found = self.hello.get("environment")
        settings = self.hello.get("settings")
        return {**found, "settings": settings} if isinstance(found, dict) else None

    def sealed_bytes(self) -> int | None:
        """Bytes of its segments when all is in them: it ends for that, and another one takes its place."""
        if self._server is None or self._folder is None or not self._server.running:
            return None
        with contextlib.suppress(VenturiError):
            self._server.stop()
        self._server = None
        data = self._folder / "data"
        files = [f for name in ("points", "series") for f in (data / name).glob("*.parquet")]
        return sum(f.stat().st_size for f in files) if not list((data / "log").glob("*.log")) else None

    def stop(self) -> None:
        """Ends it, and removes what it stored."""
        if self._server is not None:
            with contextlib.suppress(VenturiError):
                # Nobody will read what it holds: it need not be written out.
                self._server.stop(at_once=True)
            self._server = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
