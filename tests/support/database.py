"""Databases of the tests' own: fixtures `mariadb`, `cassandra`, `postgres`, and `start_database`.

A session has at most one server of a kind, started when the first test asks for it; all tests share it,
so each uses tables of its own. Tests that change a server, stop it or need special settings start theirs.
"""

from __future__ import annotations

import contextlib
import glob
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support import firebird as firebird_support
from support.flight import Certificates
from support.secret import HARD
from venturi.common.errors import VenturiError
from venturi.servers import throwaway

PASSWORD_ENV = "VENTURI_TEST_CASSANDRA"
"""The variable with the password of the shared Cassandra."""


class Database:
    """A running server: `url`, `port`, `pid`, `env` (what a command needs to log in), and statements."""

    def __init__(self, server: throwaway.ThrowawayServer | SimpleNamespace) -> None:
        self.server = server
        self.url = server.url
        self.port = int(server.address.rsplit(":", 1)[1])
        self.hello = server.hello
        name = server.password_env
        self.password = os.environ[name] if name else None
        self.env = {name: os.environ[name]} if name else {}
        # Of Cassandra, whose driver takes a second or two to connect; by password.
        self.sessions: dict[str | None, Any] = {}
        self.ends = contextlib.ExitStack()
        # Of options: `--password-env` and such.
        self.flags = ["--password-env", name] if name else []

    @property
    def pid(self) -> int:
        assert self.server.pid is not None
        return self.server.pid

    def run_sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of one statement, as the account that Venturi uses."""
        return self._run(statement, values, administrator=False)

    def run_as_administrator(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The same with all rights: SET GLOBAL, CREATE USER and the like."""
        return self._run(statement, values, administrator=True)

    def _run(self, statement: str, values: tuple[Any, ...], administrator: bool) -> list[tuple[Any, ...]]:
        connect = {"mariadb": _mysql, "postgres": _postgres, "cassandra": _cassandra}[self.server.name]
        return connect(self, statement, values, administrator)

    def cluster(self) -> Any:
        """Cassandra's driver, logged in. Its limits of 2 s and 5 s are too short for a server that has just
        started on a busy machine."""
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import Cluster

        login = PlainTextAuthProvider("venturi", self.password) if self.password is not None else None
        patience = {"connect_timeout": 60, "control_connection_timeout": 60}
        return Cluster(["127.0.0.1"], port=self.port, auth_provider=login, **patience)

    def stop(self) -> None:
        self.ends.close()
        self.server.stop()


def _mysql(database: Database, statement: str, values: tuple[Any, ...], administrator: bool) -> list[Any]:
    import pymysql

    server: Any = database.server
    place: dict[str, Any] = (
        {"unix_socket": str(server.socket), "user": "root"}
        if administrator
        else {"host": "127.0.0.1", "port": database.port, "user": "venturi"}
    )
    if database.password is not None and not administrator:
        place["password"] = database.password.encode()  # as str: Latin-1
    with contextlib.closing(pymysql.connect(**place, database="venturi", autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute(statement, values or None)
        return list(cursor.fetchall())


def postgres_connection(database: Database, administrator: bool, autocommit: bool = True) -> Any:
    import psycopg

    server: Any = database.server
    place: dict[str, Any] = (
        {"host": str(server.directory), "user": "postgres"}
        if administrator
        else {"host": "127.0.0.1", "user": "venturi", "password": database.password}
    )
    return psycopg.connect(**place, port=database.port, dbname="venturi", autocommit=autocommit)


def _postgres(database: Database, statement: str, values: tuple[Any, ...], administrator: bool) -> list[Any]:
    with postgres_connection(database, administrator) as connection:
        cursor = connection.execute(statement, values or None)
        return list(cursor.fetchall()) if cursor.description else []


def _cassandra(database: Database, statement: str, values: tuple[Any, ...], administrator: bool) -> list[Any]:
    if database.sessions.get(database.password) is None:
        cluster = database.cluster()
        database.ends.callback(cluster.shutdown)
        session = database.sessions[database.password] = cluster.connect()
        session.default_timeout = 60
    return [tuple(row) for row in database.sessions[database.password].execute(statement, values or None)]


def available(name: str) -> None:
    """Skips the test where this kind of server cannot be had; fails it where nothing may be skipped."""
    from support.needs import require

    try:
        throwaway.named(name)().find()
    except VenturiError as error:
        require(False, f"{error.message} ({error.hint})")


def start(name: str, **choices: Any) -> Database:
    """A server with `choices` as `throwaway.ThrowawayServer` takes them. Skips where it cannot be had."""
    available(name)
    return Database(throwaway.named(name)(**choices).start())


SHARED: dict[str, Database] = {}
"""Servers that behaviours and other tests use together."""


def _shared(name: str) -> Iterator[Database]:
    database = start(name)
    yield database
    database.stop()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Database]:
    yield from _shared("mariadb")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Database]:
    yield from _shared("postgres")


@pytest.fixture(scope="session")
def firebird() -> Iterator[Database]:
    with firebird_support.started() as server:
        yield Database(server)


def _key_store(certificates: Certificates, place: Path) -> Path:
    """The server's certificate and key as Java reads them; the password is `venturi`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    (certificate,) = x509.load_pem_x509_certificates(certificates.server.read_bytes())
    key: Any = serialization.load_pem_private_key(certificates.server_key.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"venturi")
    path = place / "server.p12"
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"server", key, certificate, None, secret))
    path.chmod(0o644)
    return path


@pytest.fixture(scope="session")
def cassandra(certificates: Certificates) -> Iterator[Database]:
    """It demands a log-in, has rights, TLS beside plain connections, and Cassandra's default limits of
    batches. The behaviours use it too."""
    os.environ[PASSWORD_ENV] = HARD
    with tempfile.TemporaryDirectory(prefix="venturi-keys-") as place:
        os.chmod(place, 0o755)  # the account which a server runs as for root can enter it
        store = _key_store(certificates, Path(place))
        keys = f"keystore: '{store}', keystore_password: venturi, store_type: PKCS12"
        settings = {
            "client_encryption_options": f"{{enabled: true, optional: true, {keys}}}",
            "authorizer": "CassandraAuthorizer",
            "batch_size_fail_threshold": "64KiB",
            "batch_size_warn_threshold": "5KiB",
        }
        SHARED["cassandra"] = database = start("cassandra", settings=settings, password_env=PASSWORD_ENV)
        yield database
        del SHARED["cassandra"]
        database.stop()


def skewed(offset: str) -> dict[str, str]:
    """Variables for `environment=`: the server's clock is off by that much, as "-1h" or "+90s"."""
    from support.needs import require

    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    require(found, "libfaketime (tools/install-servers)")
    # The clock that is shown is wrong, not the one that is waited for: else Java's threads never sleep.
    steady = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0"}
    return {"LD_PRELOAD": found[0], "FAKETIME": offset, **steady}


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory for data that are kept: the account which a server runs as for root can enter it."""
    with tempfile.TemporaryDirectory(prefix="venturi-kept-") as name:
        os.chmod(name, 0o755)
        yield Path(name) / "data"


@pytest.fixture
def start_database() -> Iterator[Callable[..., Database]]:
    """start_database("mariadb", settings={"max_connections": "3"}): stopped when the test ends."""
    running: list[Database] = []

    def begin(name: str, **choices: Any) -> Database:
        running.append(start(name, **choices))
        return running[-1]

    yield begin
    for database in running:
        database.stop()
