"""The systems, by the schemes of their URLs: what each is and where it listens."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    "PARAMETERS",
    "PORTS",
    "REMOTE",
    "SEVERAL",
    "TIME_SERIES",
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
DEFAULT_PORT = 31337
LOCAL = "flight://local"
PORTS = {
    **{"flight": DEFAULT_PORT, "charrow": 9006, "mysql": 3306, "cassandra": 9042, "postgres": 5432},
    **{"clickhouse": 8123, "clickhouse+tls": 8443},
    **{"akumuli": 8282, "akumuli+udp": 8383, "opentsdb": 4242, "influx": 9009, "influx+http": 8086},
}
"""Systems that are reached over a network, each with its usual port; `+tls` may follow the name."""
FILES = ("sqlite", "duckdb")
"""Databases in this process, of one file each."""
DATABASES = ("mysql", "cassandra", "postgres", *FILES)
"""Systems that take upserts."""
TIME_SERIES = ("akumuli", "opentsdb", "influx")
"""Systems that take points of time series."""
REMOTE = ("flight", "charrow", *TIME_SERIES)
"""Systems of which a run can start servers on hosts of their own."""
SEVERAL = ("flight", *DATABASES, *TIME_SERIES)
"""Systems whose URL may name several hosts, over which streams are spread."""
KNOWN = (
    *("flight", "flight+tls", "charrow", "charrow+tls", "mysql", "mysql+tls", "cassandra", "cassandra+tls"),
    *("clickhouse", "clickhouse+tls", "postgres", "postgres+tls", "sqlite", "duckdb"),
    *("akumuli", "akumuli+udp", "opentsdb", "influx", "influx+http", "empty"),
)
# How other programs call what we call otherwise.
ALIASES = {
    **dict.fromkeys(("mariadb", "memsql", "singlestore", "tidb"), "mysql"),
    **dict.fromkeys(("scylla", "scylladb", "cql"), "cassandra"),
    **dict.fromkeys(("postgresql", "pg"), "postgres"),
    **dict.fromkeys(("sqlite3", "file"), "sqlite"),
    **dict.fromkeys(("questdb", "telegraf", "victoriametrics", "influxdb"), "influx"),
    **dict.fromkeys(("influxdb+http", "influxdb2"), "influx+http"),
    **dict.fromkeys(("resp", "aku"), "akumuli"),
    **dict.fromkeys(("tsdb", "telnet"), "opentsdb"),
    **dict.fromkeys(("chspark", "theflash"), "charrow"),
    **dict.fromkeys(("ch", "chdb", "clickhouse+http"), "clickhouse"),
    **dict.fromkeys(("clickhouses", "clickhouse+https"), "clickhouse+tls"),
}
PARAMETERS = {"flight": ("command", "ticket"), "charrow": ("query",)}
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
