"""The systems, by the schemes of their URLs: what each is and where it listens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from venturi.common.suffixes import parse_duration
from venturi.targets.plugins import find

HOST = re.compile(r"(?:\[[^\[\]@/?#\s]+\]|[^\[\]:@/?#\s]+)(?::\d{0,5})?")
LOCAL = "flight://local"
LOCAL_UNIX = "flight+unix://local"


@dataclass(frozen=True)
class System:
    """What moves or keeps rows, by the scheme of its URLs. The core has the records, each beside its target;
    crates/targets/src/systems.rs says what each field means; `make generate` writes them to systems.json."""

    scheme: str
    operations: list[str]
    ports: list[tuple[str, int]]
    tls: bool
    unix: bool
    shared: bool
    file: bool
    driver: bool
    pipe: bool
    keeps: bool
    synced: bool
    in_flight: bool
    statement: str | None
    space: str | None
    server: str | None
    reference: str | None
    users: bool
    one_host: str | None
    remote: bool
    parameters: list[str]
    dialect: str | None
    aliases: list[tuple[str, list[str]]]

    @property
    def schemes(self) -> tuple[str, ...]:
        """All of them, its own first."""
        ways = {"tls": self.tls, "unix": self.unix, "shm": self.shared}
        more = [f"{self.scheme}+{way}" for way, possible in ways.items() if possible]
        return tuple(dict.fromkeys((self.scheme, *more, *(scheme for scheme, _ in self.ports))))


SYSTEMS = tuple(
    System(**found) for found in json.loads((resources.files("venturi") / "targets/systems.json").read_text())
)
"""All of them, in the order in which errors name them."""


_OWN = frozenset(scheme for system in SYSTEMS for scheme in system.schemes)
PLUGINS, REFUSED = find({*_OWN, *(alias for it in SYSTEMS for _, names in it.aliases for alias in names)})
"""Targets in Python that other packages bring, by their schemes; and why others are not used."""


def _schemes(having: Callable[[System], bool]) -> tuple[str, ...]:
    return tuple(system.scheme for system in SYSTEMS if having(system))


PORTS = {scheme: port for system in SYSTEMS for scheme, port in system.ports}
"""Usual ports; `+tls` may follow a scheme."""
KEEPS_NOTHING = _schemes(lambda system: not system.keeps)
"""Systems at which nothing stays of what is sent there."""
NO_PLACE = _schemes(lambda system: not system.ports and not system.file)
"""Systems within this process, whose URL names no place."""
FILES = _schemes(lambda system: system.file)
"""Databases in this process, of one file each."""
DRIVERS = _schemes(lambda system: system.driver)
"""Systems whose URL names a driver that the client's process loads."""
DATABASES = _schemes(lambda system: "upsert" in system.operations and system.keeps)
"""Systems that take upserts."""
TABLES = _schemes(lambda system: "get" in system.operations and system.keeps)
"""Systems of which a get reads a table, or a query that its streams share."""
TIME_SERIES = _schemes(lambda system: system.operations == ["ingest"])
"""Systems that take points of time series."""
PIPES = _schemes(lambda system: system.pipe)
"""Systems whose rows pass pipes of this host's kernel."""
NETWORK = _schemes(lambda system: system.tls)
"""Systems that one is logged in to, over TLS if need be."""
ONE_AT_A_TIME = _schemes(lambda system: not system.in_flight)
"""Systems that take one batch at a time on a connection."""
UNSYNCED = _schemes(lambda system: not system.synced)
"""Systems that acknowledge what is on no disk yet, as they come."""
STATEMENTS = {system.scheme: system.statement for system in SYSTEMS if system.statement is not None}
"""How a batch becomes a statement where nothing is said; batches of other systems are none."""
DIALECTS = {system.scheme: system.dialect for system in SYSTEMS if system.dialect is not None}
"""How the SQL of a system is called, where batches become that."""
SPACES = {system.scheme: system.space for system in SYSTEMS if system.space is not None}
"""What a URL means where nothing stands behind the host: a database's name, mostly."""
SERVERS = {system.scheme: system.server for system in SYSTEMS if system.server is not None}
"""How `venturi serve` calls a throw-away server of a system."""
REFERENCE = {system.scheme: system.reference for system in SYSTEMS if system.reference is not None}
"""How `venturi serve` calls reference servers of ours."""
REMOTE = _schemes(lambda system: system.remote)
"""Systems of which a run can start servers on hosts of their own."""
SCHEMES = (*(scheme for system in SYSTEMS for scheme in system.schemes), *PLUGINS)
ALIASES = {alias: scheme for system in SYSTEMS for scheme, aliases in system.aliases for alias in aliases}
"""How other programs call what we call otherwise."""
PARAMETERS = {system.scheme: system.parameters for system in SYSTEMS if system.parameters}
"""What may follow the ? of a URL, one of them; of other systems nothing."""
BY_SCHEME = {system.scheme: system for system in SYSTEMS}
_SYSTEM_OF = {scheme: system.scheme for system in SYSTEMS for scheme in system.schemes}


def scheme_of(url: str) -> str:
    """The system that a URL names, without `+tls`, `+unix` or `+shm`: flight, mysql, cassandra, ..."""
    scheme = url.partition("://")[0]
    return _SYSTEM_OF.get(scheme) or scheme.partition("+")[0]


def is_plugin(url: str) -> bool:
    """Whether it is a target in Python that another package brings, be it installed or not."""
    return bool(url) and scheme_of(url) not in _OWN


def _is_one_of(schemes: Sequence[str]) -> Callable[[str], bool]:
    return lambda url: scheme_of(url) in schemes


def _goes_over(*ways: str) -> Callable[[str], bool]:
    return lambda url: url.partition("://")[0].endswith(ways) and not is_plugin(url)


is_database = _is_one_of(DATABASES)
"""Whether it takes upserts."""
has_tables = _is_one_of(TABLES)
"""Whether a get there reads a table, or a query that its streams share by conditions."""
is_time_series = _is_one_of(TIME_SERIES)
"""Whether it takes points of time series, and nothing else."""
is_driver = _is_one_of(DRIVERS)
"""Whether rows pass a driver there, a shared library that a URL names."""
in_process = _is_one_of(FILES)
"""Whether it is a database of one file, which runs in the client's own process."""
is_charrow = _is_one_of(("charrow",))
"""Whether one query is shared by its streams there, which are then called partitions."""
is_clickhouse = _is_one_of(("clickhouse",))
"""Whether it is a ClickHouse server, asked over HTTP."""
is_flight_sql = _is_one_of(("flightsql",))
"""Whether a server is asked in SQL over Flight."""
is_program = _is_one_of(("exec",))
"""Whether each stream has a process there that the trial starts."""
is_unix = _goes_over("+unix", "+shm")
"""Whether a Unix socket stands in the place of the host, or `local` for one of our own."""
is_shared = _goes_over("+shm")
"""Whether batches pass shared memory there, beside a Unix socket."""
is_tls = _goes_over("+tls")
"""Whether what travels is encrypted."""
is_datagrams = _goes_over("+udp")
"""Whether it goes over UDP, which neither waits nor sends again."""


def is_readable(url: str) -> bool:
    """Whether it is a database that takes gets as well as upserts."""
    return is_database(url) and has_tables(url)


def servers_batches(parameters: Mapping[str, Any]) -> bool:
    """Whether the server alone decides how many rows a batch of this cell has: a get of what it holds, by
    Flight, with SQL or without, or by HTTP."""
    p = parameters
    remote = p.get("operation") == "get" and p.get("data") == "remote"
    return remote and scheme_of(str(p.get("target") or "")) in ("flight", "flightsql", "http+arrow")


def batches_as_configured(parameters: Mapping[str, Any]) -> bool:
    """Whether a batch of this cell has the rows that were asked for. For ClickHouse
    they are the largest block that it may send; what Flight SQL sends is the server's own choice."""
    url = str(parameters.get("target") or "")
    block = parameters.get("operation") == "get" and (is_clickhouse(url) or is_flight_sql(url))
    return not block and not servers_batches(parameters)


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


STAGES = ("generate", "encode", "decode", "verify", "apply")
CLIENT_STAGES = {"get": ("decode", "verify"), "put": ("generate", "encode", "verify")}
"""Stages of the client in each operation that a handicap can slow down; verify only with `verify =
"checksum"`."""
_MOST_HANDICAP_NS = 10_000_000_000


def handicap_ns(text: str) -> dict[str, int]:
    """`decode=200us`, several joined by `+`, as nanoseconds a batch by stage. Raises ValueError."""
    found: dict[str, int] = {}
    for part in str(text).split("+"):
        stage, equals, time = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ValueError(f"{text!r} must be written STAGE=TIME, as decode=200us; several joined by +")
        if stage not in STAGES:
            raise ValueError(f"no stage is called {stage!r}; known: {', '.join(STAGES)}")
        if stage in found:
            raise ValueError(f"{stage} is there twice")
        if not time or time[-1].isdigit():
            # A bare number would be seconds, which nobody means for a batch.
            raise ValueError(f"{part.strip()!r} needs a unit, as {stage}=200us")
        ns = parse_duration(time)
        if not 1 <= ns <= _MOST_HANDICAP_NS:
            raise ValueError(f"{part.strip()!r}: the time of a batch must be 1ns to 10s")
        found[stage] = ns
    return found
