"""Client processes, their CPU time, and the server's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.shared import ClientFailed, cpu_seconds

_POLL_SECONDS = 0.01
_LIMIT_SECONDS = 120.0


@dataclass(frozen=True)
class Ended:
    """What a process left behind; CPU seconds are those of its whole life."""

    output: str
    cpu: float


def run(
    commands: Sequence[Sequence[str]],
    watch: Callable[[Sequence[int]], None] | None = None,
    cwd: Path | None = None,
) -> list[Ended]:
    """Runs processes side by side to their ends. `watch` is called with their ids every 10 ms.

    Raises ClientFailed with the last words of one that failed.
    """
    running = []
    ended: list[Ended] = []
    with ExitStack() as files:
        for command in commands:
            # Files, not pipes: nobody reads while they run.
            output_file = files.enter_context(tempfile.TemporaryFile("w+"))
            error_file = files.enter_context(tempfile.TemporaryFile("w+"))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output_file, stderr=error_file, cwd=cwd
            )
            files.callback(_stopped, process)
            running.append((process, output_file, error_file))
        deadline = time.monotonic() + _LIMIT_SECONDS
        for process, output_file, error_file in running:
            usage = _reaped(process, [p.pid for p, _, _ in running], deadline, watch)
            output_file.seek(0)
            error_file.seek(0)
            output, errors = output_file.read(), error_file.read()
            if process.returncode:
                name = Path(process.args[0] if isinstance(process.args, list) else "client").name
                raise ClientFailed(
                    f"{name} ended with {process.returncode}: {(errors or output).strip()[-800:]}"
                )
            ended.append(Ended(output, usage))
        return ended


def _stopped(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        process.kill()
        process.wait()


def _reaped(
    process: subprocess.Popen[bytes],
    pids: list[int],
    deadline: float,
    watch: Callable[[Sequence[int]], None] | None,
) -> float:
    """Waits for the process; the CPU seconds of it and of all that it waited for."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            raise ClientFailed(f"still running after {_LIMIT_SECONDS:g} s")
        if watch:
            watch(pids)
        time.sleep(_POLL_SECONDS)


def thread_seconds(pid: int) -> dict[int, float]:
    """CPU seconds of each thread of a process but the first, to the nanosecond."""
    found = {}
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            if int(task) != pid:
                with suppress(OSError), open(f"/proc/{pid}/task/{task}/schedstat") as file:
                    found[int(task)] = int(file.read().split()[0]) / 1e9
    return found


def settle(pid: int, most_seconds: float = 6.0) -> None:
    """Waits until a server has done what its last client left it to do: purge, flush, compaction."""
    deadline = time.monotonic() + most_seconds
    while time.monotonic() < deadline:
        before, began = cpu_seconds(pid), time.monotonic()
        time.sleep(0.25)
        if cpu_seconds(pid) - before < 0.1 * (time.monotonic() - began):
            return


def python(client: str, request: dict[str, Any]) -> list[str]:
    """The command that runs one of the clients beside this file."""
    return [sys.executable, "-m", f"bench.upsert.{client}", json.dumps(request)]
