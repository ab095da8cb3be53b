"""A trial of a process that runs, and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.flight as flight

from support.run import command, environment
from support.wait import wait_until
from venturi.servers.reference import ReferenceServer


def lines(path: Path, name: str = "trials.jsonl") -> list[dict[str, Any]]:
    return [json.loads(text) for text in (path / name).read_text().splitlines()]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # An orphan that has ended may wait for its new parent to notice.
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"


def started_trial(server: ReferenceServer, path: Path, *arguments: object) -> subprocess.Popen[str]:
    """A get of one stream against the server, in the middle of its first trial."""
    process = subprocess.Popen(
        command(
            *("run", "--target", f"flight://{server.address}", "--streams", "1", "--warmup", "0"),
            *("--no-ceilings", "--out", path, "--no-report", *arguments),
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    with flight.connect(f"grpc+tcp://{server.address}") as client:

        def begun() -> bool:
            # The first get warms the stream up, before the barrier; the second one is the trial's.
            assert process.poll() is None
            return bool(json.loads(next(client.do_action("statistics")).body.to_pybytes())["gets"] >= 2)

        wait_until(begun)
    return process
