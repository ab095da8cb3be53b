"""A pause of a known length: the server's process is stopped for a while, and is seen not to have run."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from venturi.engine.executor import Progress
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Checks, Name, Outcome, Proof, Reason, What
from venturi.targets.system import is_local

__all__ = ["prove"]

PAUSE_S = 0.3
_STEP_S = 0.1
"""By so much a pause may be told too short (docs/method.md, pauses)."""


def prove(bench: Bench, short: bool = False) -> Proof:
    if not (bench.networked and is_local(bench.url)):
        reason = Reason.NOT_OURS if bench.networked else Reason.NO_PLACE
        return Proof(Name.PAUSE, Outcome.IMPOSSIBLE, (), [("pause", reason)])
    checks = attempts(bench, _paused)
    return Proof(Name.PAUSE, checks.outcome, checks)


def _paused(bench: Bench) -> Checks:
    stop = _Stop(bench)
    # How many points a duration takes is not known ahead.
    making: dict[str, Any] = {"generate": "inline"} if bench.operations[0] == "ingest" else {}
    trial = bench.trial(
        keep=False, meanwhile=stop, streams=1, rows_per_stream=None, points_per_stream=None, duration="600ms",
        **making,
    )  # fmt: skip
    checks, noisy = Checks(), trial.outside.noisy
    process = ((trial.record["resources"] or {}).get("server") or {}).get("process") or {}
    found = process.get("paused_ns")
    least, most = (seconds * 1e9 for seconds in (stop.least, stop.most))
    checks.between(
        What.PAUSE, least, found, "ns", least - _STEP_S * 1e9, most + 2e7, moves="down up", noisy=noisy
    )
    kind = str((trial.record["error"] or {}).get("kind") or trial.record["outcome"])
    checks.same(What.OUTCOME, "paused", kind, excused=noisy)
    return checks


class _Stop:
    """Stops the server's process once, when a trial moves."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.least = self.most = 0.0
        """For how long it was stopped, in seconds."""

    def __call__(self, progress: Progress) -> None:
        pid = self._bench.server_pid
        if self.most or not progress.rows or pid is None:
            return
        before = time.monotonic()
        try:
            os.kill(pid, signal.SIGSTOP)
            stopped = time.monotonic()
            time.sleep(PAUSE_S)
            self.least = time.monotonic() - stopped
        finally:
            os.kill(pid, signal.SIGCONT)
            self.most = time.monotonic() - before
