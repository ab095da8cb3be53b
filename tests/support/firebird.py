"""Firebird for tests: the server in PATH, or that which tools/install-servers unpacked; and its own client."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

from support.installed import DEBIAN, program, unpacked_libraries
from support.needs import require
from venturi.servers import throwaway
from venturi.servers.throwaway.postgres import quoted

TABLES = "SELECT TRIM(RDB$RELATION_NAME) FROM RDB$RELATIONS WHERE RDB$RELATION_NAME STARTING WITH 'venturi'"
MANY = (
    "WITH RECURSIVE r(n) AS (SELECT 0 FROM RDB$DATABASE UNION ALL SELECT n + 1 FROM r WHERE n < 99), "
    "s(id) AS (SELECT CAST(a.n * 100 + b.n AS INTEGER) FROM r a CROSS JOIN r b) "
)
"""Before a query: `s` has 10,000 rows, its column `id` is 0 and so on."""


@contextlib.contextmanager
def started(**choices: Any) -> Iterator[throwaway.ThrowawayServer]:
    require(program("firebird") and program("isql-fb"), "firebird (tools/install-servers)")
    before = {name: os.environ.get(name, "") for name in ("PATH", "LD_LIBRARY_PATH")}
    os.environ["PATH"] = os.pathsep.join([before["PATH"], f"{DEBIAN}/usr/sbin", f"{DEBIAN}/usr/bin"])
    libraries = {"LD_LIBRARY_PATH": unpacked_libraries()}
    try:
        with throwaway.named("firebird")(environment=libraries, **choices) as server:
            yield server
    finally:
        os.environ["PATH"] = before["PATH"]


def rows(server: throwaway.ThrowawayServer, statement: str) -> list[list[Any]]:
    """The rows of a statement, numbers as such. Names that are not Firebird's own are quoted here."""
    statement = re.sub(r"\b(venturi_\w+|sales|hits)\b(?!')", r'"\1"', statement)
    host, port = server.address.rsplit(":", 1)
    # Not as an argument, which everybody sees.
    login = f"USER 'venturi' PASSWORD {quoted(server.secret() or 'masterkey')}"
    command = [str(program("isql-fb")), "-q", "-b"]
    text = f"SET HEADING OFF;\nCONNECT '{host}/{port}:venturi' {login};\n{statement};\nCOMMIT;\n"
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        env=server.environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cells = [line.split() for line in done.stdout.splitlines() if line.strip()]
    return [[int(cell) if re.fullmatch(r"-?\d+", cell) else cell for cell in line] for line in cells]
