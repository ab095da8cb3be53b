"""Client and server together stay small, however many rows pass through them."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from support.flight import ServerProcess
from support.run import ROOT

pytestmark = [
    pytest.mark.usefixtures("core"),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"),
]

Start = Callable[..., ServerProcess]

ROWS = 20_000_000
ROWS_PER_BATCH = 4096
SOURCE = ROWS_PER_BATCH * 32  # one batch, sent again and again
LIMIT = 300_000_000

CLIENT = """
import json, os, sys
from venturi import _core
record = json.loads(_core.run_trial(sys.argv[1], _core.Control()))
print(json.dumps({"outcome": record["outcome"], "error": record["error"],
                  "rows": record["counts"]["rows"], "pid": os.getpid()}), flush=True)
sys.stdin.read()
"""


def peak(pid: int) -> int:
    """The most memory that a process ever had resident, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no VmHWM of process {pid}")


@pytest.mark.parametrize("operation", ["get", "put"])
def test_memory_does_not_grow_with_the_rows(start_reference_server: Start, operation: str) -> None:
    server = start_reference_server()
    spec = {
        "trial": uuid.uuid4().hex,
        "target": f"flight://{server.address}",
        "operation": operation,
        "data": {"source": "records"},
        "rows_per_batch": ROWS_PER_BATCH,
        "rows_per_stream": ROWS,
        "streams": 1,
        "threads": 1,
    }
    command = [sys.executable, "-c", CLIENT, json.dumps(spec)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as client:
        assert client.stdout is not None
        done = json.loads(client.stdout.readline())
        peaks = {"client": peak(client.pid), "server": peak(server.process.pid)}
        client.communicate()
    assert (done["outcome"], done["rows"]) == ("ok", ROWS), done
    assert sum(peaks.values()) < LIMIT + SOURCE, peaks
