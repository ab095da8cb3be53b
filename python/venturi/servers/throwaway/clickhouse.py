"""ClickHouse: the server where it is installed, or its engine in a library behind an HTTP handler of ours."""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from venturi.common.credentials import filled
from venturi.common.errors import UnreachableError, VenturiError
from venturi.servers.throwaway import network
from venturi.servers.throwaway.base import Setting, ThrowawayServer

ENGINES = ("auto", "server", "chdb")
_ASK_SECONDS = 10.0
_ARROW = (20, 5)
"""The first version that has Arrow and Parquet both ways."""
_MARK_CACHE = 256 * 2**20
_CONFIG = """<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>{host}</listen_host><http_port>{port}</http_port>
  <path>{data}/</path><tmp_path>{directory}/tmp/</tmp_path><user_files_path>{directory}/files/</user_files_path>
  <users_config>users.xml</users_config><default_profile>default</default_profile>
  <default_database>default</default_database><mark_cache_size>{marks}</mark_cache_size>
</yandex>
"""
_USERS = """<?xml version="1.0"?>
<yandex>
  <profiles><default>{settings}</default></profiles><quotas><default/></quotas>
  <users><venturi>{password}<networks><ip>::/0</ip></networks>
    <profile>default</profile><quota>default</quota></venturi></users>
</yandex>
"""


class ClickHouse(ThrowawayServer):
    """A server with an account `venturi` and an empty database of that name, asked over HTTP. `engine`:
    `server` is clickhouse-server, `chdb` its engine in the Python package behind `chdb_http`; `auto` takes
    the server where it has all formats, then chdb, then a server that lacks some."""

    name = "clickhouse"
    scheme = "clickhouse"
    title = "ClickHouse"
    scenario = "quick"
    taken = {}  # noqa: RUF012 - settings here are those of a session, and none is ours
    durability = {}  # noqa: RUF012 - no setting that every version knows

    def __init__(self, *, engine: str = "auto", **choices: Any) -> None:
        super().__init__(**choices)
        self._wanted_engine = engine
        self.engine = ""
        """Which one answers, once it is found: server or chdb."""
        self._program = ""

    def find(self) -> str:
        wanted = self._wanted_engine
        program = network.find(["clickhouse-server"]) if wanted != "chdb" else None
        library = wanted != "server" and importlib.util.find_spec("chdb") is not None
        lacking = program is not None and library and wanted == "auto" and _version(program) < _ARROW
        if program is not None and not lacking:
            self.engine, self._program = "server", program
            return program
        if library:
            self.engine = "chdb"
            return "chdb"
        if wanted == "server":
            raise network.missing(self.title, "clickhouse-server", "clickhouse-server", "clickhouse")
        what = "the package chdb" if wanted == "chdb" else "clickhouse-server, or the package chdb,"
        raise UnreachableError(
            f"ClickHouse is not installed here: {what} not found",
            hint="pip install 'venturi[chdb]'"
            + ("" if wanted == "chdb" else ", or install clickhouse-server"),
        )

    def settings(self) -> list[Setting]:
        return self._chosen()

    def environment(self) -> dict[str, str]:
        # Rows on their way into a table wait in a file.
        return {**super().environment(), "TMPDIR": str(self.directory)}

    def _initialise(self, data: Path) -> None:
        (data / self.engine).mkdir()

    def _serve(self, data: Path) -> None:
        place = data / self.engine
        if not place.is_dir():
            other = "server" if self.engine == "chdb" else "chdb"
            raise VenturiError(f"--data {self._kept}: its tables are of --engine {other}")
        if self.engine == "chdb":
            self._note("info", "ClickHouse's engine answers from chdb, behind an HTTP handler of Venturi's")
        command = self._server(place) if self.engine == "server" else self._library(place)
        self._run(command)

    def _library(self, data: Path) -> list[str]:
        command = [sys.executable, "-m", "venturi.servers.throwaway.chdb_http", str(data)]
        command += ["--host", self._host, "--port", str(self._port)]
        if self.password_env is not None:
            command += ["--password-env", self.password_env]
        return [*command, *(f"--set={name}={value}" for name, value in self._set.items())]

    def _server(self, data: Path) -> list[str]:
        directory = self.directory
        password = (self.secret() or "").encode()
        hashed = hashlib.sha256(password).hexdigest()
        secret = (
            f"<password_sha256_hex>{hashed}</password_sha256_hex>" if password else "<password></password>"
        )
        settings = "".join(f"<{name}>{escape(filled(value))}</{name}>" for name, value in self._set.items())
        places = {"data": data, "directory": directory, "host": self._host, "port": self._port}
        config = _CONFIG.format(marks=_MARK_CACHE, **{k: escape(str(v)) for k, v in places.items()})
        files = {"config.xml": config, "users.xml": _USERS.format(settings=settings, password=secret)}
        for name, text in files.items():
            self._write(name, text)
        return [self._program, f"--config-file={directory / 'config.xml'}"]

    def _answers(self) -> str | None:
        self._ask("CREATE DATABASE IF NOT EXISTS venturi")
        version = self._ask("SELECT version()")
        if self.engine == "server":
            return f"ClickHouse {version}"
        return f"ClickHouse {version} (chdb, behind Venturi's HTTP handler)"

    def _ask(self, statement: str) -> str:
        """What the server answers. Raises OSError, VenturiError where it refuses."""
        asking = http.client.HTTPConnection(network.reachable(self._host), self._port, timeout=_ASK_SECONDS)
        try:
            headers = {"X-ClickHouse-User": "venturi", "X-ClickHouse-Key": self.secret() or ""}
            asking.request("POST", "/", statement.encode(), headers)
            answer = asking.getresponse()
            answer_text = answer.read().decode(errors="replace").strip()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from None
        finally:
            asking.close()
        if answer.status != 200:
            raise VenturiError(f"{self.title} refuses its own account: {' '.join(answer_text.split())[:400]}")
        return answer_text

    def _complaint(self, log: Sequence[str]) -> str:
        # Of a stack the first line says it; an exception of Python's is its last line.
        errors = [line for line in log if re.search(r"<Error>|<Fatal>|DB::Exception|Exception: ", line)]
        line = errors[0] if errors else next((line for line in reversed(log) if line.strip()), "")
        line = re.sub(r"^.*<(?:Error|Fatal)>\s*", "", line)
        return re.sub(r"^[\w.]+(?:Error|Exception):\s+(?=Code: )", "", line).strip()


def _version(program: str) -> tuple[int, ...]:
    """Of `clickhouse-server --version`; (0,) where it does not say."""
    found = re.search(r"version\s+(\d+)\.(\d+)", network.output_of(program, "--version"))
    return (int(found[1]), int(found[2])) if found else (0,)
