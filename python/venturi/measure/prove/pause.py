"""A pause of a known length: the server's process is stopped for a while, and is seen not to have run."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from venturi.engine.executor import Progress
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Checks, Name, Outcome, Proof, Reason, What

__all__ = ["prove"]

PAUSE_S = 0.3
_STEP_S = 0.1
"""A pause may be told so much too short (docs/method.md, pauses)."""


def prove(bench: Bench, short: bool = False) -> Proof:
    reason = (
        Reason.NO_PLACE if not bench.networked
        else Reason.NOT_OURS if not bench.reference
        # Datagrams that come meanwhile are lost, which fails the trial first.
        else Reason.NO_ACKNOWLEDGEMENT if bench.datagrams
        else None
    )  # fmt: skip
    if reason is not None:
        return Proof(Name.PAUSE, Outcome.IMPOSSIBLE, (), [("pause", reason)])
    checks = attempts(bench, _paused)
    return Proof(Name.PAUSE, checks.outcome, checks)


def _paused(bench: Bench) -> Checks:
    # How many points a duration takes is not known ahead.
    making: dict[str, Any] = {"generate": "inline"} if bench.operations[0] == "ingest" else {}
    with _Stopper(bench) as stopper:
        trial = bench.trial(
            keep=False, meanwhile=stopper, streams=1, rows_per_stream=None, points_per_stream=None,
            duration="450ms", **making,
        )  # fmt: skip
    checks, noisy = Checks(), trial.outside.noisy
    # One that could not be stopped proves nothing.
    told = float(stopper.stopped_ns is not None)
    checks.between(What.PAUSE, 1.0, told, "", 1.0, 1.0, moves="down", noisy=True, told=1)
    if stopper.stopped_ns is None:
        return checks
    process = ((trial.record["resources"] or {}).get("server") or {}).get("process") or {}
    least, most = stopper.stopped_ns
    checks.between(
        What.PAUSE, least, process.get("paused_ns"), "ns", least - _STEP_S * 1e9, most + 2e7,
        moves="down up", noisy=noisy,
    )  # fmt: skip
    kind = str((trial.record["error"] or {}).get("kind") or trial.record["outcome"])
    checks.same(What.OUTCOME, "paused", kind, excused=noisy)
    return checks


# A process of its own: however this one ends, the server runs on.
_STOPPER = """
import json, os, signal, sys, time
line = sys.stdin.readline()
if line:
    pid, before = int(line), time.monotonic_ns()
    os.kill(pid, signal.SIGSTOP)
    stopped = time.monotonic_ns()
    try:
        time.sleep(float(sys.argv[1]))
        least = time.monotonic_ns() - stopped
    finally:
        os.kill(pid, signal.SIGCONT)
    print(json.dumps([least, time.monotonic_ns() - before]))
"""


class _Stopper:
    """Stops the server's process once, when a trial moves."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asked = False
        self.stopped_ns: tuple[int, int] | None = None
        """For how long, at least and at most."""

    def __enter__(self) -> _Stopper:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _STOPPER, str(PAUSE_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        return self

    def __call__(self, progress: Progress) -> None:
        pid = self._bench.server_pid
        if not self._asked and progress.rows and pid is not None:
            self._asked = True
            assert self._process.stdin is not None
            self._process.stdin.write(f"{pid}\n")
            self._process.stdin.flush()

    def __exit__(self, *_: object) -> None:
        said, _stderr = self._process.communicate()
        if said:
            least, most = json.loads(said)
            self.stopped_ns = least, most
