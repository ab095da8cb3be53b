"""The systems, by the schemes of their URLs: what each is and where it listens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

__all__ = [
    "ALIASES",
    "DATABASES",
    "DEFAULT_PORT",
    "FILES",
    "HOST",
    "KNOWN",
    "LOCAL",
    "NETWORK",
    "PARAMETERS",
    "PORTS",
    "REMOTE",
    "SEVERAL",
    "SYSTEMS",
    "TIME_SERIES",
    "USERS",
    "System",
    "in_process",
    "is_charrow",
    "is_clickhouse",
    "is_database",
    "is_host_of",
    "is_local",
    "is_ours",
    "is_remote",
    "is_time_series",
    "scheme_of",
    "servers_batches",
]

HOST = re.compile(r"(?:\[[^\[\]@/?#\s]+\]|[^\[\]:@/?#\s]+)(?::\d{0,5})?")
LOCAL = "flight://local"


@dataclass(frozen=True)
class System:
    """What moves or keeps rows, by the scheme of its URLs."""

    scheme: str
    operations: tuple[str, ...]
    ports: Mapping[str, int] = field(default_factory=dict)
    """Its usual port by each of its schemes, of which `+tls` has one of its own only if it is another; none
    where a URL names a file, or nothing."""
    tls: bool = False
    file: bool = False
    """Whether it is a database in this process, of one file."""
    users: bool = False
    """Whether its URL may name a user."""
    several: bool = False
    """Whether its URL may name several hosts, over which streams are spread."""
    remote: bool = False
    """Whether a run can start servers of it on hosts of their own."""
    parameters: tuple[str, ...] = ()
    """What may follow the ? of its URL, one of them."""
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """How other programs call each of its schemes."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """All of them, its own first."""
        return tuple(dict.fromkeys((self.scheme, *([f"{self.scheme}+tls"] * self.tls), *self.ports)))


_UPSERT = ("upsert",)
_INGEST = ("ingest",)
SYSTEMS = (
    System(
        "flight",
        ("get", "put"),
        {"flight": 31337},
        tls=True,
        several=True,
        remote=True,
        parameters=("command", "ticket"),
    ),
    System(
        "charrow",
        ("get",),
        {"charrow": 9006},
        tls=True,
        remote=True,
        parameters=("query",),
        aliases={"charrow": ("chspark", "theflash")},
    ),
    System(
        "mysql",
        _UPSERT,
        {"mysql": 3306},
        tls=True,
        users=True,
        several=True,
        aliases={"mysql": ("mariadb", "memsql", "singlestore", "tidb")},
    ),
    System(
        "cassandra",
        _UPSERT,
        {"cassandra": 9042},
        tls=True,
        users=True,
        several=True,
        aliases={"cassandra": ("scylla", "scylladb", "cql")},
    ),
    System(
        "clickhouse",
        ("get", "put"),
        {"clickhouse": 8123, "clickhouse+tls": 8443},
        tls=True,
        users=True,
        aliases={
            "clickhouse": ("ch", "chdb", "clickhouse+http"),
            "clickhouse+tls": ("clickhouses", "clickhouse+https"),
        },
    ),
    System(
        "postgres",
        _UPSERT,
        {"postgres": 5432},
        tls=True,
        users=True,
        several=True,
        aliases={"postgres": ("postgresql", "pg")},
    ),
    System("sqlite", _UPSERT, file=True, users=True, several=True, aliases={"sqlite": ("sqlite3", "file")}),
    System("duckdb", _UPSERT, file=True, users=True, several=True),
    System(
        "akumuli",
        _INGEST,
        {"akumuli": 8282, "akumuli+udp": 8383},
        several=True,
        remote=True,
        aliases={"akumuli": ("resp", "aku")},
    ),
    System(
        "opentsdb",
        _INGEST,
        {"opentsdb": 4242},
        several=True,
        remote=True,
        aliases={"opentsdb": ("tsdb", "telnet")},
    ),
    System(
        "influx",
        _INGEST,
        {"influx": 9009, "influx+http": 8086},
        several=True,
        remote=True,
        aliases={
            "influx": ("questdb", "telegraf", "victoriametrics", "influxdb"),
            "influx+http": ("influxdb+http", "influxdb2"),
        },
    ),
    System("empty", ("get", "put", "upsert", "ingest")),
)
"""All of them, in the order in which errors name them."""


def _schemes(having: Callable[[System], bool]) -> tuple[str, ...]:
    return tuple(system.scheme for system in SYSTEMS if having(system))


PORTS = {scheme: port for system in SYSTEMS for scheme, port in system.ports.items()}
"""Usual ports; `+tls` may follow a scheme."""
DEFAULT_PORT = PORTS["flight"]
FILES = _schemes(lambda system: system.file)
"""Databases in this process, of one file each."""
DATABASES = _schemes(lambda system: system.operations == _UPSERT)
"""Systems that take upserts."""
TIME_SERIES = _schemes(lambda system: system.operations == _INGEST)
"""Systems that take points of time series."""
NETWORK = _schemes(lambda system: system.tls)
"""Systems that one is logged in to, over TLS if need be."""
REMOTE = _schemes(lambda system: system.remote)
"""Systems of which a run can start servers on hosts of their own."""
SEVERAL = _schemes(lambda system: system.several)
"""Systems whose URL may name several hosts, over which streams are spread."""
USERS = _schemes(lambda system: system.users)
"""Systems whose URL may name a user."""
KNOWN = tuple(scheme for system in SYSTEMS for scheme in system.schemes)
ALIASES = {
    alias: scheme for system in SYSTEMS for scheme, aliases in system.aliases.items() for alias in aliases
}
"""How other programs call what we call otherwise."""
PARAMETERS = {system.scheme: system.parameters for system in SYSTEMS if system.parameters}
"""What may follow the ? of a URL, one of them; of other systems nothing."""


def scheme_of(url: str) -> str:
    """The system that a URL names, without `+tls`: flight, mysql, cassandra, ..."""
    return url.partition("://")[0].partition("+")[0]


def is_database(url: str) -> bool:
    """Whether it takes upserts, and nothing else."""
    return scheme_of(url) in DATABASES


def is_charrow(url: str) -> bool:
    """Whether one query is shared by its streams there, which are then called partitions."""
    return scheme_of(url) == "charrow"


def is_clickhouse(url: str) -> bool:
    """Whether it is a ClickHouse server, asked over HTTP."""
    return scheme_of(url) == "clickhouse"


def is_time_series(url: str) -> bool:
    """Whether it takes points of time series, and nothing else."""
    return scheme_of(url) in TIME_SERIES


def servers_batches(parameters: Mapping[str, Any]) -> bool:
    """Whether the server alone decides how many rows a batch of this cell has: a get of what it holds, by
    Flight."""
    p = parameters
    remote = p.get("operation") == "get" and p.get("data") == "remote"
    return remote and scheme_of(str(p.get("target") or "")) == "flight"


def in_process(url: str) -> bool:
    """Whether it is a database of one file, which runs in the client's own process."""
    return scheme_of(url) in FILES


def is_local(url: str) -> bool:
    """Whether this address means a server (or a file) of our own, there for the run alone."""
    return url == LOCAL or urlsplit(url).hostname == "local"


def is_remote(url: str) -> bool:
    """Whether this address means servers of our own on hosts of a cluster, there for the run alone."""
    return scheme_of(url) in REMOTE and urlsplit(url).hostname == "remote"


def is_ours(url: str) -> bool:
    """Whether the run starts what this address means, here or elsewhere."""
    return is_local(url) or is_remote(url)


def is_host_of(scheme: str, url: str) -> bool:
    """Whether a URL is SCHEME://HOST:PORT, and nothing more."""
    return url.startswith(f"{scheme}://") and bool(HOST.fullmatch(url.partition("://")[2].removesuffix("/")))
