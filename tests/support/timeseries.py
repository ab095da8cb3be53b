"""Servers of time series, for tests and `bench/ingest`: each on free ports, with its data in a directory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from support.installed import CACHE, program
from support.wait import wait_until


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def fetch(url: str, data: bytes | None = None, seconds: float = 60) -> str:
    with urllib.request.urlopen(url, data, timeout=seconds) as answer:
        return str(answer.read().decode())


class Server(ABC):
    """`ports` by protocol: resp, opentsdb, influx (TCP), http."""

    name: str
    program: str
    protocols: tuple[str, ...]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: free_port() for name in (*self.protocols, "http")}
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def missing(cls) -> str | None:
        """What this machine lacks for it."""
        return None if program(cls.program) else f"{cls.program} is not installed"

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def stored(self) -> int:
        """Points that it has, by its own count."""

    @abstractmethod
    def answers(self) -> bool: ...

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        with (self.folder.parent / f"{self.folder.name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

        def ready() -> bool:
            assert self.process is not None and self.process.poll() is None, self.folder.parent
            with contextlib.suppress(OSError, ValueError):
                return self.answers()
            return False

        wait_until(ready)

    def stop(self) -> float:
        """Ends it as its users do, so that it writes out what it holds; its CPU seconds until then."""
        process = self.process
        if process is None or process.returncode is not None:
            return 0.0
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 120
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return usage.ru_utime + usage.ru_stime
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.02)


class VictoriaMetrics(Server):
    name = "victoria-metrics"
    program = "victoria-metrics"
    protocols = ("opentsdb", "influx")

    def command(self) -> list[str]:
        return [
            program(self.program) or self.program,
            f"-storageDataPath={self.folder}",
            f"-httpListenAddr=127.0.0.1:{self.ports['http']}",
            f"-opentsdbListenAddr=127.0.0.1:{self.ports['opentsdb']}",
            f"-influxListenAddr=127.0.0.1:{self.ports['influx']}",
            # The points are of 2017.
            "-retentionPeriod=100y",
        ]

    def answers(self) -> bool:
        return fetch(f"http://127.0.0.1:{self.ports['http']}/health") == "OK"

    def stored(self) -> int:
        found = 0
        for line in fetch(f"http://127.0.0.1:{self.ports['http']}/metrics").splitlines():
            # Those in parts are counted twice while they are on their way into another one.
            if line.startswith("vm_rows_added_to_storage_total "):
                found = int(float(line.rsplit(" ", 1)[1]))
        return found


class InfluxDb(Server):
    name = "influxdb 1"
    program = "influxd"
    protocols = ("opentsdb",)
    log_in: ClassVar[dict[str, str]] = {}

    def command(self) -> list[str]:
        config = self.folder.parent / "influxdb.conf"
        config.write_text(
            f"""reporting-disabled = true
bind-address = "127.0.0.1:{free_port()}"
[meta]
  dir = "{self.folder}/meta"
[data]
  dir = "{self.folder}/data"
  wal-dir = "{self.folder}/wal"
  index-version = "tsi1"
  cache-snapshot-write-cold-duration = "1s"
  query-log-enabled = false
[http]
  bind-address = "127.0.0.1:{self.ports["http"]}"
  log-enabled = false
[[opentsdb]]
  enabled = true
  bind-address = "127.0.0.1:{self.ports["opentsdb"]}"
  database = "bench"
  batch-size = 10000
  batch-pending = 50
[monitor]
  store-enabled = false
"""
        )
        return [program(self.program) or self.program, "-config", str(config)]

    def _asked(self, data: bytes | None = None, **query: str) -> Any:
        words = urllib.parse.urlencode(self.log_in | query)
        return json.loads(fetch(f"http://127.0.0.1:{self.ports['http']}/query?{words}", data))

    def answers(self) -> bool:
        self._asked(b"q=CREATE DATABASE bench")
        return True

    def stored(self) -> int:
        # A number for each field of each measurement, behind the time; null: it has no such field.
        found = self._asked(db="bench", q="SELECT count(*) FROM /.*/")
        counted: Any = found["results"][0].get("series", [])
        return sum(number or 0 for one in counted for number in one["values"][0][1:])


class QuestDb(Server):
    name = "questdb"
    program = "java"
    protocols = ("influx",)
    java_version = 17

    @staticmethod
    def jar() -> Path | None:
        return next(iter(sorted(CACHE.glob("questdb-*/questdb-*.jar"))), None)

    @classmethod
    def java(cls) -> str | None:
        """Java of the right version; the one in PATH may be another."""
        usual = sorted(Path("/usr/lib/jvm").glob(f"*{cls.java_version}*/bin/java"))
        return str(usual[0]) if usual else program(cls.program)

    @classmethod
    def missing(cls) -> str | None:
        if cls.java() is None:
            return f"java (version {cls.java_version}) is not installed"
        return None if cls.jar() else "QuestDB's jar was not fetched (tools/install-servers)"

    def command(self) -> list[str]:
        (self.folder / "conf").mkdir()
        settings = {
            "http.bind.to": f"127.0.0.1:{self.ports['http']}",
            "line.tcp.net.bind.to": f"127.0.0.1:{self.ports['influx']}",
            "http.min.enabled": "false",
            "pg.enabled": "false",
            "telemetry.enabled": "false",
        }
        lines = (f"{name}={value}\n" for name, value in settings.items())
        (self.folder / "conf/server.conf").write_text("".join(lines))
        server = ["-p", str(self.jar()), "-m", "io.questdb/io.questdb.ServerMain", "-d", str(self.folder)]
        return [self.java() or self.program, "-Dout=/log-stdout.conf", *server]

    def rows(self, query: str) -> list[list[Any]]:
        asked = urllib.parse.urlencode({"query": query})
        rows: list[list[Any]] = json.loads(fetch(f"http://127.0.0.1:{self.ports['http']}/exec?{asked}"))[
            "dataset"
        ]
        return rows

    def answers(self) -> bool:
        return self.rows("select 1") == [[1]]

    def stored(self) -> int:
        found = 0
        for (table,) in self.rows("select table_name from tables()"):
            columns = self.rows(f"select \"column\", type from table_columns('{table}')")
            counts = [f'count("{name}")' for name, kind in columns if kind in ("DOUBLE", "LONG")]
            if counts:
                found += sum(self.rows(f'select {", ".join(counts)} from "{table}"')[0])
        return found
