"""Lies told to a database of one file in this process, of which nothing passes a socket: another process
changes what was acknowledged while a trial runs."""

from __future__ import annotations

import subprocess
import sys

from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Checks, What
from venturi.measure.prove.relay import Lie

__all__ = ["LIES", "SYSTEMS", "caught"]

_TABLE = "venturi_usage"
_ONE = f"WHERE ip_address = (SELECT max(ip_address) FROM {_TABLE})"
LIES = {
    Lie.FLIP: f"UPDATE {_TABLE} SET hits = hits + 1 {_ONE}",
    Lie.DROP: f"DELETE FROM {_TABLE} {_ONE}",
}
"""What is done to rows that are there."""
SYSTEMS = ("sqlite",)
"""Databases of one file that several processes may have open."""
_MEDDLER = """
import sqlite3, sys, time
path, table, statement = sys.argv[1:]
end = time.monotonic() + 10
while time.monotonic() < end:
    try:
        # In WAL mode a reader waits for nobody; the file, and the table, come with the trial.
        database = sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=5)
        rows = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        if rows and database.execute(statement).rowcount:
            database.commit()
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
    return checks


def _told(bench: Bench, lie: Lie) -> Checks:
    path = bench.url_of(operation="upsert").partition("://")[2]
    command = [sys.executable, "-c", _MEDDLER, path, _TABLE, LIES[lie]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as meddler:
        trial = bench.trial(keep=False, operation="upsert", streams=1, rows_per_stream=None, duration="400ms")
        meddler.terminate()
        said = meddler.communicate()[0]
    checks, of = Checks(), {"operation": "upsert", "lie": lie.value}
    told = float("done" in said)
    # It may have come too late, and then proves nothing.
    checks.between(What.LIE, 1.0, told, "", 1.0, 1.0, moves="down", noisy=True, told=1, **of)
    kind = str((trial.record["error"] or {}).get("kind") or trial.record["outcome"])
    checks.same(What.LIE, "verification", kind, excused=not told, **of)
    return checks
