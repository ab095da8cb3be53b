"""What throw-away servers say before anything is started."""

from __future__ import annotations

import functools
import os
import re
import sys
from pathlib import Path

import pytest

from support.run import venturi
from venturi.common.errors import ExitCode, VenturiError
from venturi.plan.layers import builtin_names
from venturi.servers import throwaway
from venturi.servers.throwaway import cassandra_jars, network, postgres


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without servers; the directory is its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(network, "_PLACES", ())
    monkeypatch.setattr(cassandra_jars, "_PLACES", ())
    monkeypatch.setattr(postgres, "_PLACES", ())
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("scheme", "what", "hint"),
    [
        ("mysql", "mariadbd (or mysqld)", "apt-get install mariadb-server-core"),
        ("cassandra", "java (version 17)", "apt-get install openjdk-17-jre-headless maven"),
        ("postgres", "initdb and postgres", "apt-get install postgresql"),
        ("redis", "redis-server", "apt-get install redis-server"),
    ],
)
def test_a_missing_server_names_its_package(
    scheme: str, what: str, hint: str, nothing_installed: Path
) -> None:
    with pytest.raises(VenturiError, match="is not installed here") as raised:
        throwaway.for_scheme(scheme)().start()
    assert what in raised.value.message and hint == raised.value.hint
    assert raised.value.exit_code == ExitCode.UNREACHABLE


def test_clickhouse_is_a_server_or_a_library(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = functools.partial(throwaway.ClickHouse, engine="auto")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(VenturiError, match="clickhouse-server, or the package chdb, not found") as raised:
        chosen().start()
    assert raised.value.hint is not None and "pip install 'venturi[chdb]'" in raised.value.hint
    with pytest.raises(VenturiError, match="clickhouse-server not found"):
        throwaway.ClickHouse(engine="server").start()
    old = program(nothing_installed / "clickhouse-server", "echo 'ClickHouse server version 18.16.1.'")
    assert chosen().find() == str(old)
    # Without Arrow it is the second choice, but a choice.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert chosen().find() == "chdb" and throwaway.ClickHouse(engine="server").find() == str(old)
    program(nothing_installed / "clickhouse-server", "echo 'ClickHouse server version 25.8.1.1 (official).'")
    assert chosen().find() == str(old) and throwaway.ClickHouse(engine="chdb").find() == "chdb"


def test_a_server_without_its_installer(nothing_installed: Path) -> None:
    program(nothing_installed / "mariadbd", "exit 1")
    with pytest.raises(VenturiError, match="mariadb-install-db not found"):
        throwaway.for_scheme("mysql")().find()
    # MySQL installs itself.
    (nothing_installed / "mariadbd").unlink()
    mysqld = program(nothing_installed / "mysqld", "exit 1")
    server = throwaway.MariaDb()
    assert server.find() == str(mysqld)
    names = {setting.name for setting in server.settings()}
    assert "innodb_redo_log_capacity" in names and "innodb_log_file_size" not in names


@pytest.mark.parametrize("settings", [{}, {"innodb-log-file-size": "1M"}])
def test_a_disk_without_room_for_the_log(settings: dict[str, str], nothing_installed: Path) -> None:
    """Said before the server's installer is called; the log's size may be the user's."""
    program(nothing_installed / "mariadbd", "exit 1")
    program(nothing_installed / "mariadb-install-db", "exit 1")
    server = throwaway.MariaDb(memory=2**60, settings=settings)
    with pytest.raises(VenturiError) as raised:
        server.start()
    if settings:
        assert "MariaDB did not start" in raised.value.message  # its installer is the one above
    else:
        assert re.match(r"MariaDB takes 1,150,000 TB of disk at its start; /.* free$", raised.value.message)
        assert raised.value.hint is not None and "--memory" in raised.value.hint


def test_java_of_another_version(nothing_installed: Path) -> None:
    old = program(nothing_installed / "java", "echo 'openjdk version \"1.8.0_402\"' >&2")
    with pytest.raises(VenturiError, match=r"Cassandra needs Java 17, here is Java 8 \(.*java\)"):
        throwaway.Cassandra().find()
    with pytest.raises(VenturiError, match="is Java 8; Cassandra needs Java 17"):
        throwaway.Cassandra(java=old).find()
    with pytest.raises(VenturiError, match="is no Java that runs"):
        throwaway.Cassandra(java=nothing_installed / "none").find()
    # Of the right version, without jars and without Maven.
    program(nothing_installed / "java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    with pytest.raises(VenturiError, match="its jars, and mvn to fetch them, not found"):
        throwaway.Cassandra().find()


def test_maven_that_fails(nothing_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(nothing_installed / "java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    program(nothing_installed / "mvn", "echo '[ERROR] Unknown host nowhere.invalid'; exit 1")
    notes: list[str] = []
    server = throwaway.Cassandra(note=lambda level, text: notes.append(f"{level}: {text}"))
    monkeypatch.setenv("TMPDIR", str(nothing_installed))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(VenturiError, match="cannot fetch Cassandra's jars: Unknown host"):
        server.fetch()
    assert len(notes) == 1 and notes[0].startswith(f"info: fetching Cassandra {cassandra_jars.VERSION}")
    assert not list(nothing_installed.glob("venturi-*")) and cassandra_jars.cached() is None


def test_maven_that_fetches(nothing_installed: Path) -> None:
    program(nothing_installed / "java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    fetch = 'for a; do case "$a" in -DoutputDirectory=*) d="${a#*=}";; esac; done; /bin/mkdir "$d"; '
    program(nothing_installed / "mvn", f'{fetch}: > "$d/cassandra-all-{cassandra_jars.VERSION}.jar"')
    found = throwaway.Cassandra().fetch()
    assert found == nothing_installed / "cache" / "venturi" / f"cassandra-{cassandra_jars.VERSION}"
    assert throwaway.Cassandra().fetch() == cassandra_jars.cached() == found
    assert os.listdir(found.parent) == [found.name]


def test_a_distribution_of_cassandra(tmp_path: Path) -> None:
    pom = Path(cassandra_jars.__file__).with_name("pom.xml").read_text()
    assert f"<version>{cassandra_jars.VERSION}</version>" in pom
    with pytest.raises(VenturiError, match="holds no lib/apache-cassandra"):
        cassandra_jars.installed(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "apache-cassandra-4.1.3.jar").touch()
    with pytest.raises(VenturiError, match=r"Cassandra 4.1.3; 5.0.x can be served"):
        cassandra_jars.installed(tmp_path)
    (tmp_path / "lib" / "apache-cassandra-4.1.3.jar").rename(tmp_path / "lib/apache-cassandra-5.0.2.jar")
    assert cassandra_jars.installed(tmp_path) == tmp_path / "lib"


def test_schemes_and_names() -> None:
    assert throwaway.for_scheme("mysql") is throwaway.named("mariadb") is throwaway.MariaDb
    servers = ["mariadb", "cassandra", "clickhouse", "postgres", "redis", "firebird"]
    assert [server.name for server in throwaway.SERVERS] == servers
    assert {server.scenario for server in throwaway.SERVERS} <= set(builtin_names())
    with pytest.raises(KeyError):
        throwaway.for_scheme("flight")


def test_settings_that_are_not_for_the_user() -> None:
    with pytest.raises(VenturiError, match="--set port: this is chosen by --port"):
        throwaway.MariaDb(settings={"port": "1"}).start()
    with pytest.raises(VenturiError, match="--set bind_address: this is chosen by --host"):
        throwaway.MariaDb(settings={"Bind-Address": "::"}).start()
    with pytest.raises(VenturiError, match="--set native_transport_port: this is chosen by --port"):
        throwaway.Cassandra(settings={"native_transport_port": "1"}).start()


def test_settings_show_what_the_user_set() -> None:
    server = throwaway.MariaDb(memory=2**28, settings={"max_connections": "5", "sync_binlog": "1"})
    shown = {setting.name: (setting.value, setting.why) for setting in server.settings()}
    assert shown["max_connections"] == ("5", "--set") and shown["sync_binlog"] == ("1", "--set")
    assert shown["innodb_buffer_pool_size"][0] == str(2**28)
    assert "innodb_flush_log_at_trx_commit" in server.durable()
    durable = throwaway.Postgres(settings={"fsync": "off"}).durable()
    assert "fsync" not in durable and "synchronous_commit" in durable


def test_a_password_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_NO_PASSWORD", raising=False)
    with pytest.raises(VenturiError, match="the environment variable TEST_NO_PASSWORD is not set"):
        throwaway.Postgres(password_env="TEST_NO_PASSWORD").start()
    monkeypatch.setenv("TEST_NO_PASSWORD", "two\nlines")
    with pytest.raises(VenturiError, match="control characters"):
        throwaway.Postgres(password_env="TEST_NO_PASSWORD").start()


def test_data_must_be_ours(nothing_installed: Path, tmp_path: Path) -> None:
    for name in ("mariadbd", "mariadb-install-db"):
        program(nothing_installed / name, "exit 1")
    data = tmp_path / "data"
    data.mkdir()
    (data / "precious").touch()
    with pytest.raises(VenturiError, match="has files already, and not of venturi serve mariadb"):
        throwaway.MariaDb(data=data).start()
    assert os.listdir(data) == ["precious"]


def test_addresses() -> None:
    assert network.joined("127.0.0.1", 1) == "127.0.0.1:1"
    assert network.joined("::1", 1) == "[::1]:1"
    assert network.reachable("0.0.0.0") == "127.0.0.1"
    assert network.is_loopback("127.9.9.9") and not network.is_loopback("0.0.0.0")
    with pytest.raises(VenturiError, match=r"cannot listen on 192\.0\.2\.7:1"):
        network.check("192.0.2.7", 1)


def test_a_scram_verifier() -> None:
    import base64
    import hashlib
    import hmac

    kind, rest = postgres.verifier("pencil").split("$", 1)
    (rounds, salt), (stored, server) = (part.split(":") for part in rest.split("$"))
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", base64.b64decode(salt), int(rounds))
    key = hmac.digest(salted, b"Client Key", "sha256")
    assert kind == "SCRAM-SHA-256" and base64.b64decode(stored) == hashlib.sha256(key).digest()
    assert base64.b64decode(server) == hmac.digest(salted, b"Server Key", "sha256")


def test_memory_is_told_from_disk() -> None:
    if not Path("/proc/self/mountinfo").exists():
        pytest.skip("no /proc here")
    assert not network.in_memory(Path("/"))
    if " /dev/shm " in Path("/proc/self/mountinfo").read_text():
        assert network.in_memory(Path("/dev/shm/does/not/exist"))


def test_a_database_for_other_hosts_says_so_first() -> None:
    done = venturi("serve", "mariadb", "--host", "192.0.2.7")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("warning: 192.0.2.7 is reachable by other hosts")
