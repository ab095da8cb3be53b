"""The server of Flight SQL for tests (tools/flightsql, built by tools/install-servers)."""

from __future__ import annotations

import hashlib
import os
import queue
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.installed import CACHE
from support.needs import require
from support.run import ROOT

SOURCE = ROOT / "tools" / "flightsql"
_START_SECONDS = 60.0


def program() -> Path:
    """As built from what stands in the tree."""
    text = b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.sum"))
    found = CACHE / f"flightsql-{hashlib.sha256(text).hexdigest()[:12]}"
    require(found.exists(), "the server of Flight SQL (tools/install-servers)")
    return found


class Server:
    """A running one, and its file, into which tests look by themselves."""

    def __init__(self, process: subprocess.Popen[str], address: str, data: Path) -> None:
        self.process = process
        self.address = address
        self.url = f"flightsql://{address}"
        self.data = data

    def ask(self, statement: str) -> list[Any]:
        with sqlite3.connect(self.data, timeout=30.0) as connection:
            found = connection.execute(statement).fetchall()
        connection.close()
        return found

    def has(self, table: str) -> bool:
        return self.ask(f"SELECT count(*) FROM sqlite_schema WHERE name = '{table}'") == [(1,)]


@contextmanager
def serving(data: Path, *flags: str, password: str = "") -> Iterator[Server]:
    """Started, and ended by its number."""
    command = [str(program()), "-data", str(data), *flags]
    environment = {**os.environ, "FLIGHTSQL_PASSWORD": password}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    stdout = process.stdout
    reader = threading.Thread(target=lambda: lines.put(stdout.readline()))
    reader.start()
    try:
        said = lines.get(timeout=_START_SECONDS)
        assert said.startswith("listening on "), said
        yield Server(process, said.split()[-1], data)
    finally:
        process.kill()
        process.wait()
        reader.join()
        stdout.close()
