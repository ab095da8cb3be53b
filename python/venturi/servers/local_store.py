"""The store of time series behind `akumuli://local` and its like: there for a run, empty for every trial."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from venturi.common.errors import StoreError, VenturiError
from venturi.servers.starters import Server, Starter

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


_EMPTY = {
    "points": "select null::varchar as series, null::varchar as metric, null::timestamptz as time, "
    "null::double as value where false",
    "series": "select null::varchar as series, null::varchar as metric, null::varchar as tags, "
    "null::bigint as points, null::timestamptz as first, null::timestamptz as last, null::double as min, "
    "null::double as max, null::double as sum where false",
}


def is_store(path: Path) -> bool:
    """Whether a directory is one of `venturi serve timeseries --data`."""
    return path.is_dir() and (path / "points").is_dir() and not (path / "trials.jsonl").exists()


@dataclass(frozen=True)
class Damaged:
    """A file that is not what the store wrote; no answer has anything of its segment."""

    file: str
    """With the directory as it was named."""
    why: str


def make_views(path: Path, connection: Any) -> list[Damaged]:
    """Makes the views `points` and `series` of what a store, which may run, has sealed.

    DuckDB checks no checksum, so each file is read whole first and compared with its checksum. Returns the
    files that the views leave out. Raises StoreError if the directory cannot be read.
    """
    import duckdb

    from venturi.common.runtime import load_core

    try:
        found = json.loads(load_core().store_files(path.resolve()))
        connection.execute("set TimeZone = 'UTC'")
        for name, query in _QUERIES.items():
            files = ", ".join(_quoted(segment[name]) for segment in found["segments"])
            query = query.format(files=f"[{files}]") if files else _EMPTY[name]
            connection.execute(f"create view {name} as {query}")
        # Only these files: a query copied from somewhere must not read others.
        allowed = [_quoted(segment[name]) for segment in found["segments"] for name in _QUERIES]
        connection.execute(f"set allowed_paths = [{', '.join(allowed)}]")
        connection.execute("set enable_external_access = false")
    except (OSError, duckdb.Error) as error:
        raise StoreError(f"{path}: {' '.join(str(error).split())}") from None
    return [Damaged(str(path / one["file"]), one["why"]) for one in found["damaged"]]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_QUERIES = {
    "points": "select series, metric, time, value from read_parquet({files})",
    # A series has a line a segment.
    "series": "select series, any_value(metric) as metric, any_value(tags) as tags, "
    "sum(points)::bigint as points, min(first) as first, max(last) as last, min(min) as min, "
    "max(max) as max, sum(sum) as sum from read_parquet({files}) group by series",
}
