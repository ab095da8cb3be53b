"""Addresses of targets: which system a URL names, its hosts and ports, and what it must not carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

__all__ = [
    "DATABASES",
    "DEFAULT_PORT",
    "FILES",
    "LOCAL",
    "REMOTE",
    "TIME_SERIES",
    "check_url",
    "each_host",
    "in_process",
    "is_charrow",
    "is_clickhouse",
    "is_database",
    "is_local",
    "is_loopback",
    "is_ours",
    "is_remote",
    "is_time_series",
    "place_of",
    "scheme_of",
    "servers_batches",
]

DEFAULT_PORT = 31337
LOCAL = "flight://local"
_PORTS = {
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
_SEVERAL = ("flight", *DATABASES, *TIME_SERIES)
"""Systems whose URL may name several hosts, over which streams are spread."""
_KNOWN = (
    *("flight", "flight+tls", "charrow", "charrow+tls", "mysql", "mysql+tls", "cassandra", "cassandra+tls"),
    *("clickhouse", "clickhouse+tls", "postgres", "postgres+tls", "sqlite", "duckdb"),
    *("akumuli", "akumuli+udp", "opentsdb", "influx", "influx+http", "empty"),
)
# How other programs call what we call otherwise.
_ALIASES = {
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


def each_host(url: str) -> list[str]:
    """The addresses of the hosts that a URL names, each as a URL of its own."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    return [parts._replace(netloc=user + at + host).geturl() for host in hosts.split(",")]


def is_loopback(url: str) -> bool:
    """Whether all of the address is this machine's own; a file always is."""
    hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
    names = [urlsplit(f"//{host}").hostname or "" for host in hosts]
    return in_process(url) or all(n in ("localhost", "::1") or n.startswith("127.") for n in names)


def place_of(url: str) -> str:
    """How results call this address where nobody named it: `local`, `remote`, HOST:PORT, or a file's name."""
    if is_ours(url):
        return "local" if is_local(url) else "remote"
    parts = urlsplit(url)
    if in_process(url):
        return parts.path.rsplit("/", 1)[-1]
    return parts.netloc.rpartition("@")[2] or url


def check_url(url: str) -> str:
    """A target's URL with its ports. Raises ValueError where it is none, or carries a secret."""
    if "://" not in url:
        raise ValueError(f"{url!r} is not a URL; write flight://HOST:PORT, or mysql://HOST/DATABASE")
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(f"{url!r}: the host is in brackets that do not match") from None
    if parts.scheme not in _KNOWN:
        meant = _ALIASES.get(parts.scheme)
        end = f"write {meant}://" if meant else f"known: {', '.join(_KNOWN)}"
        raise ValueError(f"{url!r}: no target is called {parts.scheme!r}; {end}")
    if parts.scheme == "empty":
        return url
    if ":" in parts.netloc.rpartition("@")[0]:
        # Everything in a scenario is stored with the run and shown in its report.
        raise ValueError("a password in the URL would be stored with the run; use user and password_env")
    if in_process(url):
        return _file(url)
    user, at, hosts = parts.netloc.rpartition("@")
    named = is_database(url) or is_clickhouse(url) or parts.scheme == "influx+http"
    form = f"{parts.scheme}://HOST:PORT" + ("/DATABASE" if named else "")
    if not hosts:
        raise ValueError(f"{url!r} names no host; write {form}")
    several = hosts.split(",")
    if len(several) > 1:
        _check_several(url, several)
    whole = [_host(url, host, form) for host in several]
    if len(set(whole)) < len(whole) and not is_database(url):
        raise ValueError(f"{url!r}: names a host twice; streams take the hosts in turn, so once is enough")
    netloc = user + at + ",".join(whole)
    if is_time_series(url):
        _store(parts.scheme, hosts, parts.path, parts.query, user)
    if is_remote(url):
        _own(url, parts.scheme, parts.hostname)
    if is_charrow(url):
        _charrow(parts.scheme, parts.path, parts.query, hosts)
    if is_clickhouse(url):
        _own(url, parts.scheme, parts.hostname)
        _database(parts.scheme, parts.path, bool(parts.query or parts.fragment))
    if is_database(url):
        _own(url, parts.scheme, parts.hostname)
        _database(parts.scheme, parts.path, bool(parts.query or parts.fragment))
    return parts._replace(netloc=netloc).geturl()


def _host(url: str, host: str, form: str) -> str:
    """One host with its port."""
    parts = urlsplit(f"//{host}")
    if not parts.hostname:
        raise ValueError(f"{url!r} names no host; write {form}")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"{url!r}: the port must be a number from 1 to 65535")
    if _is_own(scheme_of(url), parts.hostname):
        if port is not None:
            raise ValueError(
                f"{url!r}: {parts.hostname} is a server of our own, on a free port; leave the port out"
            )
        return host
    if port is None and parts.hostname != "local":
        return f"{host.rstrip(':')}:{_PORTS.get(url.partition('://')[0]) or _PORTS[scheme_of(url)]}"
    return host


def _is_own(scheme: str, name: str) -> bool:
    """Whether a host's name stands for a server that the run starts."""
    # Of flight://local a port has always been let pass.
    return (name == "local" and scheme != "flight") or (name == "remote" and scheme in REMOTE)


def _check_several(url: str, hosts: list[str]) -> None:
    """Whether streams can be spread over these hosts."""
    scheme = scheme_of(url)
    if scheme not in _SEVERAL:
        why = (
            "the blocks of a query are shared at one server"
            if is_charrow(url)
            else "a query is answered by one server, which finds the others of its cluster itself"
        )
        raise ValueError(f"{url!r}: {scheme}:// takes one host: {why}; name one")
    for name in ("local", *(("remote",) if scheme in REMOTE else ())):
        if name in hosts:
            what = "is a server of our own" if name == "local" else "means servers of our own"
            raise ValueError(f"{url!r}: {name} {what}, and stands alone")


def _own(url: str, scheme: str, host: str | None) -> None:
    if host in ("local", "remote") and scheme.endswith("+tls"):
        raise ValueError(f"{url!r}: a server of our own has no certificate; write {scheme_of(url)}://{host}")


def _database(scheme: str, path: str, more: bool) -> None:
    """Whether what follows the hosts is the name of a database, or nothing."""
    # What is refused is not repeated: other programs take passwords there.
    what = "keyspace" if scheme.startswith("cassandra") else "database"
    if more:
        raise ValueError(
            f"a URL of {scheme}:// ends with the {what}; settings are keys of [target], secrets variables"
        )
    if "/" in path.strip("/"):
        raise ValueError(f"{path!r} is not a {what}; write {scheme}://HOST:PORT/{what.upper()}")


def _store(scheme: str, host: str, path: str, query: str, user: str) -> None:
    """Whether what stands beside the host means something to a store of time series."""
    if user and scheme != "influx+http":
        raise ValueError(f"{scheme}:// asks nobody for a name; leave it out")
    if path.strip("/") and scheme != "influx+http":
        raise ValueError(f"a URL of {scheme}:// names no database; write {scheme}://HOST:PORT")
    if scheme == "influx+http" and not path.strip("/") and host not in ("local", "remote"):
        raise ValueError(f"{scheme}://{host} names no database; write {scheme}://HOST:PORT/DATABASE")
    if path.strip("/").count("/") > 1:
        raise ValueError(f"{path!r} is no database; write {scheme}://HOST:PORT/DATABASE, or .../ORG/BUCKET")
    if query:
        raise ValueError(f"a URL of {scheme}:// has no parameters; settings are keys of [target]")


def _charrow(scheme: str, path: str, query: str, host: str) -> None:
    """Whether what follows the host is a database, and a query or nothing."""
    if "/" in path.strip("/"):
        raise ValueError(f"{path!r} is not a database; write {scheme}://HOST:PORT/DATABASE")
    names = [part.partition("=")[0] for part in query.split("&") if part]
    if any(name != "query" for name in names) or len(names) > 1:
        raise ValueError(f"a URL of {scheme}:// may end with ?query=TEXT, and nothing else")
    if host in ("local", "remote") and scheme.endswith("+tls"):
        raise ValueError(f"a server of our own has no certificate; write charrow://{host}")


def _file(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if rest == "local":
        return url
    if not rest.startswith("/") or rest.endswith("/") or rest == "/":
        raise ValueError(
            f"{url!r} names no file; write {scheme}:///path/to/file.db with three slashes, "
            f"or {scheme}://local for a temporary one"
        )
    return url
