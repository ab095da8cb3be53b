"""PostgreSQL."""

from __future__ import annotations

import base64
import glob
import hashlib
import hmac
import re
import secrets
import signal
import struct
from collections.abc import Sequence
from pathlib import Path

from venturi.servers.throwaway import network
from venturi.servers.throwaway.base import Setting, ThrowawayServer, by_venturi

_INSTALL_SECONDS = 120.0
_ACCOUNT_SECONDS = 60.0
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")
_STARTING_UP = "57P03"
_SCRAM_ITERATIONS = 4096


class Postgres(ThrowawayServer):
    """One cluster, whose account `venturi` owns the database `venturi` and may make others. The administrator
    `postgres` logs in by the socket in the directory alone, which only the owner can enter: over TCP his
    rights would be those of a shell."""

    name = "postgres"
    scheme = "postgres"
    title = "PostgreSQL"
    scenario = "upsert-batch-size"
    account = "postgres"
    taken = {  # noqa: RUF012 - a constant
        **{"port": "--port", "listen_addresses": "--host", "data_directory": "--data"},
        **by_venturi("unix_socket_directories", "hba_file", "ident_file", "config_file", "logging_collector"),
    }
    durability = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}  # noqa: RUF012

    _programs: Path

    @property
    def socket(self) -> Path:
        return self.directory / f".s.PGSQL.{self._port}"

    @classmethod
    def spelt(cls, name: str) -> str:
        return name.lower()

    def find(self) -> str:
        newest = sorted(
            (Path(p) for pattern in _PLACES for p in glob.glob(pattern)), key=_number, reverse=True
        )
        initdb = network.find(["initdb"], newest)
        if initdb is None or not Path(initdb).with_name("postgres").exists():
            raise network.missing(self.title, "initdb and postgres", "postgresql", "postgresql")
        self._programs = Path(initdb).resolve().parent
        return str(self._programs)

    def settings(self) -> list[Setting]:
        log = max(4 * self._memory, 4 * 2**30) // 2**20
        return self._chosen(
            Setting("shared_buffers", f"{self._memory // 2**20}MB", "--memory: the table stays in memory"),
            Setting("max_wal_size", f"{log}MB", "no checkpoint forced in the midst of a trial"),
            Setting("max_connections", "1000", "a stream is a connection; the default ends at 100"),
        )

    def _initialise(self, data: Path) -> None:
        command = [str(self._programs / "initdb"), "-D", str(data), "-U", "postgres", "--encoding=UTF8"]
        # Keys are ordered by their bytes, as the other databases do it, wherever this one runs.
        command += ["--locale=C", "--auth-local=trust", "--auth-host=reject"]
        if self._kept is None:
            command.append("--no-sync")
        if self.guarded.run(command, self.log, _INSTALL_SECONDS) != 0:
            raise OSError("its database could not be made")

    def _serve(self, data: Path) -> None:
        directory = self.directory
        password = self.secret()
        files = {
            "postgresql.conf": self._configuration(data),
            # Nobody but venturi comes over TCP.
            "pg_hba.conf": "local all all trust\n"
            f"host all venturi all {'trust' if password is None else 'scram-sha-256'}\n",
            "pg_ident.conf": "",
        }
        for name, text in files.items():
            self._write(name, text)
        server = [str(self._programs / "postgres")]
        configured = ["-c", f"config_file={directory}/postgresql.conf"]
        statements = "\n".join(self._statements(password)) + "\n"
        alone = [*server, "--single", *configured, "postgres"]
        if self.guarded.run(alone, self.log, _ACCOUNT_SECONDS, text=statements) != 0:
            raise OSError("its account could not be made")
        # Either way it releases its shared memory; the first writes out nothing.
        self._run([*server, *configured], signal.SIGINT, signal.SIGQUIT)

    def _configuration(self, data: Path) -> str:
        directory = self.directory
        places = {
            "data_directory": data,
            "hba_file": directory / "pg_hba.conf",
            "ident_file": directory / "pg_ident.conf",
            "unix_socket_directories": directory,
            "listen_addresses": self._host,
        }
        lines = [f"{name} = {quoted(str(value))}" for name, value in places.items()]
        lines.append(f"port = {self._port}")
        lines += [f"{setting.name} = {quoted(setting.used)}" for setting in self.settings()]
        return "\n".join(lines) + "\n"

    def _statements(self, password: str | None) -> list[str]:
        """One a line, as the server reads them when it runs alone."""
        made = ["CREATE ROLE venturi LOGIN CREATEDB", "GRANT pg_monitor TO venturi"]
        made.append("CREATE DATABASE venturi OWNER venturi")
        secret = "NULL" if password is None else quoted(verifier(password))
        return [*(made if self._fresh else ()), f"ALTER ROLE venturi PASSWORD {secret}"]

    def _answers(self) -> str | None:
        greeting = struct.pack("!i", 196608) + b"user\0venturi\0database\0venturi\0\0"
        with network.connect(self._host, self._port) as connection:
            connection.sendall(struct.pack("!i", len(greeting) + 4) + greeting)
            kind, length = struct.unpack("!ci", network.received(connection, 5))
            body = network.received(connection, length - 4)
        if kind == b"E":
            fields = {field[:1]: field[1:] for field in body.decode(errors="replace").split("\0") if field}
            if fields.get("C") == _STARTING_UP:
                return None
            raise ConnectionError(fields.get("M", "refused"))
        found = re.search(r"\d+(\.\d+)*\S*", network.output_of(self._programs / "postgres", "--version"))
        return f"PostgreSQL {found[0]}" if found else "PostgreSQL"

    def _complaint(self, log: Sequence[str]) -> str:
        # What is wrong with a setting or a port is said by LOG, before a FATAL that says less.
        wrong = [
            line
            for line in log
            if re.search(
                r"LOG: .*(configuration parameter|for parameter|syntax error|could not bind.*in use)", line
            )
        ]
        # Our own asking, while it starts, is refused by a FATAL too.
        fatal = [line for line in log if re.search(r"\b(FATAL|PANIC|ERROR|error):(?!.*starting up)", line)]
        line = (wrong or fatal or list(log))[-1]
        line = re.sub(r"^.*?\b(LOG|FATAL|PANIC|ERROR|error):\s*", "", line)
        return re.sub(r' in file "[^"]*" line \d+', "", line).strip()


def _number(path: Path) -> float:
    """The version in a path, as 15 in /usr/lib/postgresql/15/bin."""
    found = re.findall(r"\d+(?:\.\d+)?", str(path))
    return float(found[-1]) if found else 0.0


def quoted(text: str) -> str:
    """A string of SQL's and of the configuration file's."""
    return "'" + text.replace("'", "''") + "'"


def verifier(password: str) -> str:
    """What the server keeps of a password (RFC 5802), so that the password itself is not handed over."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _SCRAM_ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    first, second, third = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${_SCRAM_ITERATIONS}:{first}${second}:{third}"
