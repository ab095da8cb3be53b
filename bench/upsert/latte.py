"""latte (crates.io: latte-cli): it is built once, gets the same rows, and its report is read.

It binds no counters, and does not support batches of the driver. So a batch is one prepared BEGIN BATCH ...
APPLY BATCH, and a counter is increased by 1 in its text, while Venturi binds the number. The server has the
same work; latte's client has one value less per row.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import shared
from bench.upsert import processes
from bench.upsert.working_set import Prepared, write_rows

VERSION = "0.29.0"
SCRIPT = Path(__file__).resolve().parent / "latte.rn"
_COUNTER = re.compile(r'(("?\w+"?)\s*=\s*\2\s*\+\s*)\?')


def program() -> Path:
    """latte's program; compiled into the cache directory at its first use, which takes some minutes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "venturi" / f"latte-{VERSION}"
    found = root / "bin" / "latte"
    if not found.exists():
        if shutil.which("cargo") is None:
            sys.exit(f"latte is not in {found.parent}, and there is no cargo to build it")
        print(f"building latte {VERSION} into {root}, once", file=sys.stderr)
        words = ["cargo", "install", "--locked", "--quiet", "--root", str(root), f"latte-cli@{VERSION}"]
        if subprocess.run(["nice", "-n", "19", *words], check=False).returncode:
            sys.exit("latte could not be built")
    return found


def write_files(directory: Path, prepared: Prepared, rows_per_batch: int, batch: str | None) -> None:
    """latte.cql, latte.kinds and latte.csv, as latte.rn reads them: whole batches only."""
    added = {match.strip('"') for _, match in _COUNTER.findall(prepared.statement)}
    kept = [at for at, name in enumerate(prepared.names) if name not in added]
    statement = _COUNTER.sub(r"\g<1>1", prepared.statement).rstrip().rstrip(";")
    if batch is not None:
        statement = f"BEGIN {batch} BATCH " + f"{statement}; " * rows_per_batch + "APPLY BATCH"
    (directory / "latte.cql").write_text(statement)
    (directory / "latte.kinds").write_text("".join(f"{prepared.kinds[at]}\n" for at in kept))
    whole = len(prepared.rows) // rows_per_batch * rows_per_batch
    write_rows(directory / "latte.csv", [tuple(row[at] for at in kept) for row in prepared.rows[:whole]])


def report(
    directory: Path, where: str, rows_per_batch: int, streams: int, in_flight: int, duration: str
) -> tuple[dict[str, Any], float]:
    """The `result` of latte's own report, and the CPU seconds of its process's whole life.

    `duration` is in latte's words: "3s", or a number of calls. Raises ClientFailed.
    """
    markers = len((directory / "latte.kinds").read_text().splitlines())
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "report.json"
        command = [
            *(str(program()), "run", "--quiet", "--duration", duration, "--warmup", "1"),
            *("--threads", str(streams), "--connections", str(streams), "--concurrency", str(in_flight)),
            *("--consistency", "LOCAL_ONE", "--retries", "0", "--request-timeout", "60s"),
            *("-P", f'directory="{directory.resolve()}"'),
            *("-P", f"markers={markers}", "-P", f"rows={rows_per_batch}"),
            *("--output", str(output), str(SCRIPT), where),
        ]
        # It leaves a log in the directory that it runs in.
        (ended,) = processes.run([command], cwd=Path(place))
        result: dict[str, Any] = json.loads(output.read_text())["result"]
    if result["error_count"]:
        raise shared.ClientFailed(f"latte: {result['errors'][:1]}")
    return result, ended.cpu
