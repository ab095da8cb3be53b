"""The DataStax Python driver as its documentation shows it: prepared statements in a `BatchStatement` by
`execute`, or one by one by `execute_concurrent_with_args`. All are bound before the clock starts."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.upsert.working_set import cassandra_session, read_rows


def batches(session: Any, prepared: Any, request: dict[str, Any], rows: list[Any]) -> Callable[[], int]:
    from cassandra import ConsistencyLevel
    from cassandra.query import BatchStatement, BatchType

    size, built = request["rows_per_batch"], []
    for at in range(0, len(rows), size):
        statement = BatchStatement(
            getattr(BatchType, request["batch"]), consistency_level=ConsistencyLevel.LOCAL_ONE
        )
        for row in rows[at : at + size]:
            statement.add(prepared.bind(row))
        built.append((statement, len(rows[at : at + size])))
    turn = itertools.cycle(built)

    def one() -> int:
        statement, count = next(turn)
        session.execute(statement)
        return count

    return one


def singly(session: Any, prepared: Any, request: dict[str, Any], rows: list[Any]) -> Callable[[], int]:
    from cassandra.concurrent import execute_concurrent

    concurrency = request["in_flight"]
    bound = [(prepared.bind(row), None) for row in rows]
    chunk = 20 * concurrency  # so many, then a look at the clock
    turn = itertools.cycle([bound[at : at + chunk] for at in range(0, len(bound), chunk)])

    def some() -> int:
        statements = next(turn)
        execute_concurrent(session, statements, concurrency=concurrency)
        return len(statements)

    return some


def main() -> None:
    request = json.loads(sys.argv[1])
    with cassandra_session(request["host"], request["port"]) as session:
        prepared = session.prepare(request["statement"])
        rows = read_rows(Path(request["path"]), request["kinds"])
        send = (singly if request["batch"] is None else batches)(session, prepared, request, rows)
        send()
        began, used, done = time.monotonic(), time.process_time(), 0
        until = began + request["seconds"]
        while time.monotonic() < until:
            done += send()
        seconds, cpu = time.monotonic() - began, time.process_time() - used
    print(json.dumps({"rows": done, "seconds": seconds, "cpu": cpu}))


if __name__ == "__main__":
    main()
