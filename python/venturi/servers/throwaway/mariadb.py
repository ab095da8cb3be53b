"""MariaDB, or MySQL where that is what is installed."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path

from venturi.servers.throwaway import network
from venturi.servers.throwaway.base import Setting, ThrowawayServer, by_venturi

_INSTALL_SECONDS = 120.0


class MariaDb(ThrowawayServer):
    """mariadbd with an account `venturi` that may do everything in databases called venturi... The
    administrator logs in by the socket in the directory alone, which only the owner can enter."""

    name = "mariadb"
    scheme = "mysql"
    title = "MariaDB"
    scenario = "upsert-memsql"
    account = "mysql"
    taken = {  # noqa: RUF012 - a constant
        **{"port": "--port", "bind_address": "--host", "datadir": "--data"},
        # Without skip_name_resolve a connection from 127.0.0.1 is one from "localhost", where root has no
        # password.
        **by_venturi("socket", "pid_file", "init_file", "log_error", "skip_name_resolve"),
    }
    durability = {"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON"}  # noqa: RUF012

    _server = ""
    _installer: str | None = None

    @property
    def socket(self) -> Path:
        """Where the administrator `root` logs in too, without a password."""
        return self.directory / "socket"

    @classmethod
    def spelt(cls, name: str) -> str:
        return name.lower().replace("-", "_")

    def find(self) -> str:
        server = network.find(["mariadbd"])
        self._installer = network.find(["mariadb-install-db", "mysql_install_db"])
        if server is not None and self._installer is None:
            raise network.missing(self.title, "mariadb-install-db", "mariadb-server-core", "mariadb")
        server = server or network.find(["mysqld"])
        if server is None:
            raise network.missing(self.title, "mariadbd (or mysqld)", "mariadb-server-core", "mariadb")
        self._server = server
        return server

    @property
    def _is_mysql(self) -> bool:
        return Path(self._server).name == "mysqld" and self._installer is None

    @property
    def _log(self) -> Setting:
        name = "innodb_redo_log_capacity" if self._is_mysql else "innodb_log_file_size"
        return Setting(name, str(max(self._memory, 2**27)), "no checkpoint in the midst of a trial")

    @property
    def room(self) -> int:
        # The log is allocated whole. What the user sets instead is the server's to read.
        return 0 if self._log.name in self._set else int(self._log.value)

    def settings(self) -> list[Setting]:
        return self._chosen(
            Setting("innodb_buffer_pool_size", str(self._memory), "--memory: the table stays in memory"),
            self._log,
            Setting("max_connections", "1000", "a stream is a connection; the default ends at 151"),
            Setting("skip_name_resolve", "ON", "no name server is asked about who connects"),
            Setting("character_set_server", "utf8mb4", "text of any language"),
        )

    def _initialise(self, data: Path) -> None:
        if self._is_mysql:
            command = [self._server, "--no-defaults", "--initialize-insecure", f"--datadir={data}"]
            command.append("--secure-file-priv=NULL")
        else:
            assert self._installer is not None
            command = [self._installer, "--no-defaults", f"--datadir={data}", "--skip-test-db"]
            command.append("--auth-root-authentication-method=normal")
        if self.guarded.run(command, self.log, _INSTALL_SECONDS) != 0:
            raise OSError("its database could not be made")

    def _serve(self, data: Path) -> None:
        directory = self.directory
        places = {
            "datadir": data,
            "socket": self.socket,
            "pid_file": directory / "pid",
            "tmpdir": directory,
            "init_file": directory / "init.sql",
            "port": self._port,
            "bind_address": self._host,
        }
        lines = ["[mysqld]", *(f"{name} = {valued(value)}" for name, value in places.items())]
        if self._is_mysql:
            # A second port, and a directory that only the package makes.
            lines += ["mysqlx = OFF", "secure_file_priv = NULL"]
        lines += [f"{setting.name} = {setting.used}" for setting in self.settings()]
        configuration = self._write("my.cnf", "\n".join(lines) + "\n")
        self._write("init.sql", "\n".join(self._statements()) + "\n")
        self._run([self._server, f"--defaults-file={configuration}"])

    def _statements(self) -> list[str]:
        """One a line, as the server reads its start-up file."""
        password = self.secret()
        by = f" IDENTIFIED BY {quoted(password)}" if password is not None else " IDENTIFIED BY ''"
        hosts = ("127.0.0.1", "::1", platform.node())
        return [
            *(f"DROP USER IF EXISTS 'root'@'{host}';" for host in hosts),
            "CREATE DATABASE IF NOT EXISTS venturi;",
            "CREATE USER IF NOT EXISTS 'venturi'@'%';",
            f"ALTER USER 'venturi'@'%'{by};",
            "GRANT ALL PRIVILEGES ON `venturi%`.* TO 'venturi'@'%';",
            # SHOW ENGINE INNODB STATUS, and the other sessions of a stuck server.
            "GRANT PROCESS ON *.* TO 'venturi'@'%';",
        ]

    def _answers(self) -> str | None:
        with network.connect(self._host, self._port) as connection:
            header = network.received(connection, 4)
            payload = network.received(connection, int.from_bytes(header[:3], "little"))
        if payload[:1] != b"\x0a":
            return None  # an error: too many connections, or still starting
        # The password was taken over by the time it listens.
        (self.directory / "init.sql").unlink(missing_ok=True)
        version = payload[1 : payload.index(0, 1)].decode(errors="replace").removeprefix("5.5.5-")
        number = version.split("-")[0]
        return f"MariaDB {number}" if "MariaDB" in version else f"MySQL {number}"

    def _complaint(self, log: Sequence[str]) -> str:
        errors = [line for line in log if "[ERROR]" in line or line.startswith(("ERROR", "FATAL"))]
        # "Aborting" comes last and says nothing; the first error is the cause of the others.
        errors = [line for line in errors if not line.rstrip().endswith("Aborting")]
        line = errors[0] if errors else log[-1]
        return re.sub(r"^.*?\[ERROR\]\s*(\[[^]]*\]\s*)*(\S*mariadbd: |\S*mysqld: )?", "", line).strip()


def valued(value: object) -> str:
    """A value of the configuration file, in which # begins a comment and spaces are cut off."""
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def quoted(text: str) -> str:
    """A string literal of MySQL's."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
