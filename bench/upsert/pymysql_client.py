"""PyMySQL as its documentation shows it: `cursor.execute` of statements that were built before."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pymysql

from bench.upsert.working_set import read_statements


def main() -> None:
    request = json.loads(sys.argv[1])
    statements = read_statements(Path(request["path"]))
    connection = pymysql.connect(
        host=request["host"], port=request["port"], user=request["user"], database="venturi", autocommit=True
    )
    cursor = connection.cursor()
    cursor.execute(statements[0])
    began, used, done = time.monotonic(), time.process_time(), 0
    until = began + request["seconds"]
    while time.monotonic() < until:
        cursor.execute(statements[done % len(statements)])
        done += 1
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    connection.close()
    print(json.dumps({"batches": done, "seconds": seconds, "cpu": cpu}))


if __name__ == "__main__":
    main()
