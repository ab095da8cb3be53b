"""Throw-away servers: a database in a temporary directory, for as long as it is wanted.

    with throwaway.for_scheme("mysql")() as server:
        print(server.url, server.pid)

Nothing stays behind, however this process ends: see `guard.py`.
"""

from __future__ import annotations

import importlib

from venturi.servers.throwaway.base import Setting, ThrowawayServer
from venturi.servers.throwaway.cassandra import Cassandra
from venturi.servers.throwaway.clickhouse import ClickHouse
from venturi.servers.throwaway.mariadb import MariaDb
from venturi.servers.throwaway.postgres import Postgres
from venturi.targets import system

__all__ = [
    "SERVERS",
    "Cassandra",
    "ClickHouse",
    "MariaDb",
    "Postgres",
    "Setting",
    "ThrowawayServer",
    "for_scheme",
    "named",
]


def _of_module(name: str) -> type[ThrowawayServer]:
    """The server that stands in the module of its name."""
    found = vars(importlib.import_module(f"{__name__}.{name}")).values()
    servers = [it for it in found if isinstance(it, type) and issubclass(it, ThrowawayServer)]
    return next(it for it in servers if getattr(it, "name", None) == name)


SERVERS = tuple(map(_of_module, system.SERVERS.values()))
"""All of them, as the records of systems name them."""


def for_scheme(scheme: str) -> type[ThrowawayServer]:
    """The server behind URLs of this scheme: mysql, cassandra, ... Raises KeyError for others."""
    for server in SERVERS:
        if server.scheme == scheme:
            return server
    raise KeyError(scheme)


def named(name: str) -> type[ThrowawayServer]:
    """The server that `venturi serve` calls so: mariadb, cassandra, ... Raises KeyError for others."""
    for server in SERVERS:
        if server.name == name:
            return server
    raise KeyError(name)
