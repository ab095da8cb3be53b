"""Firebird."""

from __future__ import annotations

import glob
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from venturi.servers.throwaway import network
from venturi.servers.throwaway.base import Setting, ThrowawayServer
from venturi.servers.throwaway.postgres import quoted

__all__ = ["Firebird"]

_INSTALL_SECONDS = 120.0
_STOP_SECONDS = 30.0
_VERSION_SECONDS = 20.0
_PAGE = 16_384
_PLACES = ("/opt/firebird/bin",)
_LIBRARIES = ("/usr/lib/*-linux-gnu*", "/usr/lib64", "/usr/lib")
_PLUGINS = {"Engine12": "libEngine12.so", "Srp": "libSrp.so", "Srp256": "libSrp.so"}
_USUAL_PASSWORD = "masterkey"
"""What a client sends where it is told none."""


class Firebird(ThrowawayServer):
    """One server, whose account `venturi` owns the database `venturi` and may make others."""

    name = "firebird"
    scheme = "firebird"
    title = "Firebird"
    scenario = "upsert-quick"
    taken = {  # noqa: RUF012 - a constant
        "RemoteServicePort": "--port",
        "RemoteBindAddress": "--host",
        "SecurityDatabase": "venturi serve",
    }
    durability = {}  # noqa: RUF012

    _server = ""
    _isql = ""
    _plugins: Path

    def find(self) -> str:
        server = network.find(["firebird"], _PLACES)
        isql = network.find(["isql-fb"], _PLACES) or network.find(["isql"], _PLACES)
        libraries = [*self.environment().get("LD_LIBRARY_PATH", "").split(os.pathsep), *_LIBRARIES]
        found = [path for lib in libraries for path in glob.glob(f"{lib}/firebird/*/plugins")]
        found += glob.glob("/opt/firebird/plugins")
        if server is None or isql is None or not found:
            raise network.missing(
                self.title, "firebird, isql-fb and its plugins", "firebird3.0-server", "firebird"
            )
        self._server, self._isql, self._plugins = server, isql, Path(found[0])
        return server

    def settings(self) -> list[Setting]:
        pages = str(self._memory // _PAGE)
        return self._chosen(
            Setting("DefaultDbCachePages", pages, "--memory: the table stays in memory"),
            Setting("WireCrypt", "Enabled", "clients without encryption are served too"),
            Setting("AuthServer", "Srp256, Srp", "log-ins by either"),
        )

    def environment(self) -> dict[str, str]:
        places = {"FIREBIRD": self.directory, "FIREBIRD_LOCK": self.directory} if self._held else {}
        return {**super().environment(), **{name: str(path) for name, path in places.items()}}

    def _configure(self, data: Path) -> None:
        directory = self.directory
        lines = {
            "RemoteServicePort": self._port,
            "RemoteBindAddress": self._host,
            "SecurityDatabase": data / "security.fdb",
            "TempDirectories": directory,
            **{setting.name: setting.used for setting in self.settings()},
        }
        plugins = (
            f"Plugin = {name} {{\n\tModule = {self._plugins / module}\n}}\n"
            for name, module in _PLUGINS.items()
        )
        (directory / "firebird.conf").write_text("".join(f"{name} = {it}\n" for name, it in lines.items()))
        (directory / "databases.conf").write_text(f"venturi = {data / 'venturi.fdb'}\n")
        (directory / "plugins.conf").write_text("".join(plugins))

    def _run(self, *statements: str) -> None:
        """Statements without a server: who may read the files has all rights."""
        text = "".join(f"{statement};\n" for statement in ("SET BAIL ON", *statements))
        command = [self._isql, "-q", "-b"]
        environment = self.environment()
        if self.guarded.run(command, self.log, _INSTALL_SECONDS, text=text, environment=environment) != 0:
            raise OSError("its database could not be made")

    def _initialise(self, data: Path) -> None:
        self._configure(data)
        made = f"PAGE_SIZE {_PAGE} DEFAULT CHARACTER SET UTF8"
        self._run(f"CREATE DATABASE {quoted(str(data / 'security.fdb'))} USER 'SYSDBA'")
        self._run(f"CREATE DATABASE {quoted(str(data / 'venturi.fdb'))} USER 'VENTURI' {made}")

    def _serve(self, data: Path) -> None:
        self._configure(data)
        password = quoted(self.secret() or _USUAL_PASSWORD)
        self._run(
            f"CONNECT {quoted(str(data / 'venturi.fdb'))} USER 'SYSDBA'",
            f"CREATE OR ALTER USER venturi PASSWORD {password} USING PLUGIN Srp",
            "GRANT CREATE DATABASE TO USER venturi",
            "COMMIT",
        )
        # What is kept is written out; what goes anyway needs no farewell.
        number = signal.SIGTERM if self._kept is not None else signal.SIGKILL
        self.guarded.serve([self._server], self.log, number, _STOP_SECONDS, self.environment())

    def _answers(self) -> str | None:
        network.connect(self._host, self._port).close()
        said = subprocess.run(
            [self._server, "-z"],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
            env=self.environment(),
        )
        found = re.search(r"V(\d+\.\d+\.\d+)", said.stdout + said.stderr)
        return f"{self.title} {found[1]}" if found else self.title

    def _complaint(self, log: Sequence[str]) -> str:
        errors = [line for line in log if line.strip() and not line.startswith("Use CONNECT")]
        return (errors or list(log))[-1].strip()
