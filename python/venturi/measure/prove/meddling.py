"""What another process does to a database of one file while a trial runs, as nothing of it passes a socket:
it changes what was acknowledged, or refuses rows for a while."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.outcome import Checks, What
from venturi.measure.prove.relay import Lie

__all__ = ["LIES", "SYSTEMS", "caught"]

_TABLE = "venturi_usage"
_ONE = f"WHERE ip_address = (SELECT max(ip_address) FROM {_TABLE})"
LIES = {
    Lie.FLIP: f"UPDATE {_TABLE} SET hits = hits + 1 {_ONE}",
    # Nor does it come back: a key beyond the last one is refused from now on, silently.
    Lie.DROP: f"""
        CREATE TRIGGER venturi_drops BEFORE INSERT ON {_TABLE}
            WHEN NEW.ip_address > (SELECT max(ip_address) FROM {_TABLE}) BEGIN SELECT RAISE(IGNORE); END;
        DELETE FROM {_TABLE} {_ONE}""",
}
"""What is done to the table."""
REFUSAL = (
    f"CREATE TRIGGER venturi_refuses BEFORE INSERT ON {_TABLE} BEGIN SELECT RAISE(ABORT, 'refused'); END",
    "DROP TRIGGER venturi_refuses",
)
"""Between the two every batch is refused, and may be tried again."""
SYSTEMS = ("sqlite",)
"""Databases of one file that several processes may have open."""
_MEDDLER = """
import sqlite3, sys, time
path, table, first, *later = sys.argv[1:]
end = time.monotonic() + 10
while time.monotonic() < end:
    try:
        # In WAL mode a reader waits for nobody; the file, and the table, come with the trial.
        database = sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=5)
        rows = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        if rows:
            database.executescript(f"BEGIN IMMEDIATE; {first}; COMMIT")
            for script in later:
                time.sleep(0.02)
                database.executescript(f"BEGIN IMMEDIATE; {script}; COMMIT")
            print("done")
            break
        database.close()
    except sqlite3.Error:
        pass
    time.sleep(0.01)
"""


def caught(bench: Bench) -> Checks:
    """Each lie is caught, and a trial to which none is told is good."""
    checks = Checks()
    honest = bench.trial(operation="upsert", streams=1, rows_per_stream=None, duration="200ms")
    checks.same(What.OUTCOME, "ok", honest.record["outcome"], way="honest")
    for lie in LIES if honest.ok else ():
        checks += attempts(bench, _told, lie)
    if honest.ok:
        checks += attempts(bench, _refused)
    return checks


def _meddled(bench: Bench, scripts: Sequence[str], **changes: Any) -> tuple[Trial, bool]:
    """A trial, and whether all was done meanwhile."""
    path = bench.url_of(operation="upsert").partition("://")[2]
    command = [sys.executable, "-c", _MEDDLER, path, _TABLE, *scripts]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as meddler:
        trial = bench.trial(
            keep=False, operation="upsert", streams=1, rows_per_stream=None, duration="400ms", **changes
        )
        meddler.terminate()
        said = meddler.communicate()[0]
    return trial, "done" in said


def _told(bench: Bench, lie: Lie) -> Checks:
    # A row that is lost is missed by the number of rows alone.
    verify = "count" if lie is Lie.DROP else "checksum"
    trial, told = _meddled(bench, [LIES[lie]], verify=verify)
    checks, of = Checks(), {"operation": "upsert", "lie": lie.value}
    # It may have come too late, and then proves nothing.
    checks.between(What.LIE, 1.0, float(told), "", 1.0, 1.0, moves="down", noisy=True, told=1, **of)
    kind = str((trial.record["error"] or {}).get("kind") or trial.record["outcome"])
    checks.same(What.LIE, "verification", kind, excused=not told, **of)
    return checks


def _refused(bench: Bench) -> Checks:
    """Batches that are refused, and accepted when they come again, count once, and it is told."""
    trial, told = _meddled(bench, REFUSAL, retries=1000)
    checks, of = Checks(), {"operation": "upsert", "way": "refused"}
    checks.between(What.RETRIES, 1.0, float(told), "", 1.0, 1.0, moves="down", noisy=True, told=1, **of)
    checks.same(What.OUTCOME, "ok", trial.record["outcome"], excused=not told, **of)
    retries = (trial.record["errors"] or {}).get("retries")
    checks.between(What.RETRIES, 1.0, retries, "", 1.0, None, moves="down", noisy=not told, **of)
    return checks
