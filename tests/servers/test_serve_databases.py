"""Throw-away databases: they start, answer, and leave nothing behind, however they end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.core import run_trial
from support.database import Database, available
from support.flight import ServerProcess
from support.link import alive
from support.needs import require
from support.processes import fields
from support.run import command, environment, venturi
from support.secret import Watch
from support.wait import wait_until
from venturi.common import temporary
from venturi.common.errors import ExitCode, VenturiError
from venturi.servers import throwaway
from venturi.servers.throwaway import network

KINDS = ("mariadb", "cassandra", "postgres")
PASSWORD = "se'cret\\%s Ä"


class Served(ServerProcess):
    """`venturi serve KIND`, ready when it has said where it listens."""

    def __init__(self, kind: str, *arguments: str) -> None:
        available(kind)
        self.kind = kind
        super().__init__(command("serve", kind, "--port", "0", "--json", "--exit-with-parent", *arguments))
        self.hello = self.ready
        self.directory = Path(self.hello["directory"])
        self.pid = int(self.hello["pid"])
        self.guard = int(fields(self.pid)[1])

    def ended(self) -> tuple[int, str]:
        # Not by communicate(), which closes its input and so ends it.
        code = self.process.wait()
        assert self.process.stderr is not None
        return code, self.process.stderr.read()

    def assert_nothing_left(self) -> None:
        wait_until(
            lambda: not alive([self.pid]) and not alive([self.guard]) and not self.directory.exists(),
            lambda: f"left behind: {alive([self.pid, self.guard])}, {self.directory.exists()=}",
        )

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    @contextlib.contextmanager
    def statements(self, password_env: str) -> Iterator[Database]:
        """Statements to it."""
        hello = self.hello
        there = SimpleNamespace(name=self.kind, url=hello["url"], address=hello["address"], hello=hello,
                                password_env=password_env, pid=self.pid)  # fmt: skip
        database = Database(there)
        with database.ends:
            yield database


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def begin(kind: str, *arguments: str) -> Served:
        started.append(Served(kind, *arguments))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_writes_are_durable_as_by_default(mariadb: Database, postgres: Database) -> None:
    assert mariadb.run_as_administrator("SELECT @@innodb_flush_log_at_trx_commit") == [(1,)]
    assert postgres.run_as_administrator("SHOW synchronous_commit") == [("on",)]


def test_the_administrator_is_not_let_in_over_the_network(mariadb: Database, postgres: Database) -> None:
    import psycopg
    import pymysql

    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            pymysql.connect(host=host, port=mariadb.port, user="root")
    with pytest.raises(psycopg.OperationalError, match="pg_hba"):
        psycopg.connect(host="127.0.0.1", port=postgres.port, user="postgres", dbname="venturi")
    # venturi itself cannot become the administrator, nor a shell.
    with pytest.raises(pymysql.err.OperationalError, match="denied"):
        mariadb.run_sql("SELECT * FROM mysql.global_priv")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        postgres.run_sql("COPY (SELECT 1) TO PROGRAM 'true'")


def says_who_it_is(served: Served, password_env: str | None, data: Path | None) -> None:
    """Its line of JSON, and that it keeps to itself."""
    hello, kind = served.hello, served.kind
    scheme = {"mariadb": "mysql", "cassandra": "cassandra", "postgres": "postgres"}[kind]
    user = "" if kind == "cassandra" and password_env is None else "venturi@"
    assert hello["url"] == f"{scheme}://{user}{hello['address']}/venturi"
    assert hello["user"] == (user.rstrip("@") or None)
    assert hello["password_env"] == password_env and hello["data"] == (str(data) if data else None)
    assert hello["address"].startswith("127.0.0.1:")
    assert any(part[0].isdigit() for part in hello["software"].split())
    assert hello["settings"] and all(isinstance(value, str) for value in hello["settings"].values())
    assert served.directory.stat().st_mode & 0o077 == 0
    assert alive([served.pid])
    # It listens on loopback alone: all the others of its addresses are free.
    port = int(hello["address"].split(":")[1])
    with socket.create_server(("127.0.0.2", port)):
        pass


def test_kill_of_the_guard_leaves_nothing(serve: Callable[..., Served]) -> None:
    served = serve("mariadb")
    says_who_it_is(served, None, None)
    os.kill(served.guard, signal.SIGKILL)
    code, errors = served.ended()
    assert code == ExitCode.UNREACHABLE and "has ended" in errors
    served.assert_nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_and_removes(number: int) -> None:
    available("postgres")
    words = command("serve", "postgres", "--port", "0")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("try: "):
                break
        process.send_signal(number)
        _, errors = process.communicate()
    text = "".join(lines)
    assert process.returncode == 0
    assert errors.endswith("info: stopped, and everything removed\n")
    assert lines[0].startswith("serving postgres://venturi@127.0.0.1:") and "(Ctrl-C stops)" in lines[0]
    assert "synchronous_commit = on" in text and "shared_buffers = " in text
    assert not Path(text.partition(", in ")[2].split()[0]).exists()


def test_jars_that_are_here_are_not_fetched_again(cache_home: Path) -> None:
    require(list((cache_home / "venturi").glob("cassandra-*")), "Cassandra's jars (tools/install-servers)")
    done = venturi("serve", "cassandra", "--fetch-only")
    assert done.returncode == 0, done.stderr


def test_an_end_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    available("cassandra")
    words = command("serve", "cassandra", "--port", "0")
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=environment(TMPDIR=str(tmp_path))) as process:
        wait_until(lambda: list(tmp_path.glob("venturi-cassandra-*/cassandra.yaml")))
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == ExitCode.INTERRUPTED
    assert list(tmp_path.iterdir()) == []


WRONG = [
    ("cassandra", "num_tokens", "many", 'num_tokens: For input string: "many"'),
    ("postgres", "no_such_setting", "1", 'unrecognized configuration parameter "no_such_setting"'),
    ("postgres", "max_connections", "many", 'invalid value for parameter "max_connections"'),
]


@pytest.mark.parametrize(("kind", "name", "value", "text"), WRONG)
def test_a_setting_the_server_does_not_take(
    kind: str, name: str, value: str, text: str, start_database: Callable[..., Database]
) -> None:
    with pytest.raises(VenturiError, match="did not start") as raised:
        start_database(kind, settings={name: value})
    assert text in raised.value.message and "\n" not in raised.value.message
    assert raised.value.exit_code == ExitCode.UNREACHABLE


def test_a_log_that_is_kept_says_what_is_wrong_now(
    open_directory: Path, start_database: Callable[..., Database]
) -> None:
    for name in ("no_such_setting", "nor_this_one"):
        with pytest.raises(VenturiError, match=f"did not start: [^\n]*unknown variable '{name}=1'"):
            start_database("mariadb", settings={name: "1"}, data=open_directory)


def test_settings_reach_the_servers(start_database: Callable[..., Database]) -> None:
    mine = start_database("mariadb", settings={"max_connections": "17"}, memory=128 * 2**20)
    assert mine.run_sql("SELECT @@max_connections, @@innodb_buffer_pool_size") == [(17, 128 * 2**20)]
    assert mine.hello["settings"]["max_connections"] == "17"
    post = start_database("postgres", settings={"synchronous_commit": "off"}, memory=128 * 2**20)
    assert post.run_sql("SHOW synchronous_commit") == [("off",)]
    assert post.run_sql("SHOW shared_buffers") == [("128MB",)]


def test_a_port_that_is_taken(start_database: Callable[..., Database]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(VenturiError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            start_database("mariadb", port=port)


@pytest.mark.parametrize("kind", ["mariadb", "postgres", "clickhouse"])
def test_a_port_that_is_taken_while_it_starts(
    kind: str, start_database: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a client's connection gets the port before the server listens there."""
    ours: list[socket.socket] = []
    checked, attempts = network.check, 0

    def check(host: str, port: int) -> None:
        nonlocal attempts
        attempts += port != 0
        checked(host, port)
        if port and attempts == 1:
            ours.append(socket.socket())
            ours[-1].bind((host, port))

    monkeypatch.setattr(network, "check", check)
    with contextlib.ExitStack() as stack:
        database = start_database(kind)
        for one in ours:
            stack.enter_context(one)
        assert attempts == 2 and len(ours) == 1
        assert database.port != ours[0].getsockname()[1]


class Again(Exception):
    """Another port is chosen."""


def test_cassandras_port_between_nodes_that_is_taken_while_it_starts(
    start_database: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks for that one, so it is chosen again beside a port that was asked for."""
    wanted = network.free_port("127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1]])

        def between_nodes(host: str) -> int:
            for port in ports:
                return int(port)
            raise Again

        monkeypatch.setattr(network, "free_port", between_nodes)
        with pytest.raises(Again):
            start_database("cassandra", port=wanted)


@pytest.mark.parametrize(
    "error", [OSError("no directory"), KeyboardInterrupt("stop"), VenturiError("no room")]
)
def test_what_fails_before_there_is_a_log_is_what_is_said(
    error: BaseException, start_database: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str) -> None:
        raise error

    monkeypatch.setattr(temporary, "make", make)
    said = VenturiError if isinstance(error, OSError) else type(error)
    with pytest.raises(said, match=re.escape(str(error))):
        start_database("mariadb")


def its_limits(database: Database) -> None:
    """A batch of five hundred counters fits; a server without TLS is told so."""
    database.run_sql("CREATE TABLE venturi.fits (a int, b text, hits counter, PRIMARY KEY (a, b))")
    update = "UPDATE venturi.fits SET hits = hits + 1 WHERE a = {} AND b = '{}'"
    updates = "; ".join(update.format(number, "x" * 100) for number in range(500))
    database.run_sql(f"BEGIN COUNTER BATCH {updates}; APPLY BATCH")
    assert database.run_sql("SELECT count(*) FROM venturi.fits") == [(500,)]
    error = run_trial(database.url.replace("://", "+tls://"), rows=1)["error"]
    assert error["kind"] == "tls" and "Without TLS the URL begins with cassandra://" in error["message"]


@pytest.mark.parametrize("kind", KINDS)
def test_data_are_kept_and_a_password_is_never_shown(
    kind: str, open_directory: Path, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first start is ended by a kill, the second by the end of its input."""
    variable = "TEST_DATABASE_PASSWORD"
    monkeypatch.setenv(variable, PASSWORD)
    words = ("--data", str(open_directory), "--password-env", variable)
    table = "kept" if kind == "postgres" else "venturi.kept"
    secret = PASSWORD.encode()
    with Watch(PASSWORD) as watch:
        first = serve(kind, *words)
    assert watch.seen and not watch.found
    says_who_it_is(first, variable, open_directory)
    with first.statements(variable) as database:
        database.run_sql(f"CREATE TABLE {table} (a INT PRIMARY KEY)")
        database.run_sql(f"INSERT INTO {table} (a) VALUES (1)")
        with pytest.raises(VenturiError, match="another server works with it"):
            throwaway.named(kind)(data=open_directory, password_env=variable).start()
    for base in (open_directory, first.directory):
        files = [path for path in base.rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if secret in path.read_bytes()]
    if kind == "cassandra":  # what it has acknowledged is on the disk some seconds later
        first.process.kill()
    else:
        os.kill(first.pid, signal.SIGKILL)
        code, errors = first.ended()
        assert code == ExitCode.UNREACHABLE and errors.startswith("error: ") and "has ended" in errors
    first.assert_nothing_left()

    port = first.hello["address"].rpartition(":")[2]
    second = serve(kind, *words, "--port", port)
    assert second.hello["address"] == first.hello["address"]
    with second.statements(variable) as database:
        assert database.run_sql(f"SELECT a FROM {table}") == [(1,)]
        for database.password in ("wrong", ""):
            with pytest.raises(Exception, match=r"(?i)denied|authentication|credentials|password"):
                database.run_sql("SELECT key FROM system.local" if kind == "cassandra" else "SELECT 1")
        database.password = PASSWORD
        if kind == "cassandra":
            its_limits(database)
    second.close_input()
    assert second.ended() == (0, "")
    second.assert_nothing_left()
    other = "postgres" if kind == "mariadb" else "mariadb"
    with pytest.raises(VenturiError, match=f"holds data of {kind}, not of {other}"):
        throwaway.named(other)(data=open_directory).start()
