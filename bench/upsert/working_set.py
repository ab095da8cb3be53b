"""The rows and statements that all clients send: Venturi's own, taken from the server.

A first pass of Venturi's fills the table. MariaDB logs the statements of that pass, stream by stream; from
Cassandra come the statement as it was prepared, and the rows as they lie in the table.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from venturi.servers.throwaway import MariaDb, ThrowawayServer

END = ";\n"
KEY = (
    "timestamp_of_data",
    "customer_code",
    "subcustomer_id",
    "geographic_region",
    "billing_flag",
    "ip_address",
)
Row = tuple[Any, ...]


def write_statements(path: Path, statements: list[str]) -> None:
    if any(";" in statement for statement in statements):
        raise ValueError("a statement holds the delimiter of mysqlslap's file")
    path.write_text("".join(statement + END for statement in statements))


def read_statements(path: Path) -> list[str]:
    return path.read_text().split(END)[:-1]


@contextlib.contextmanager
def logged(server: MariaDb) -> Iterator[Callable[[], list[list[str]]]]:
    """The INSERTs that arrive inside, one list per connection, in the order of their arrival."""
    import pymysql

    connection = pymysql.connect(unix_socket=str(server.socket), user="root", autocommit=True)
    cursor = connection.cursor()
    for statement in (
        "TRUNCATE mysql.general_log",
        "SET GLOBAL log_output='TABLE'",
        "SET GLOBAL general_log=1",
    ):
        cursor.execute(statement)

    def statements() -> list[list[str]]:
        cursor.execute("SET GLOBAL general_log=0")
        cursor.execute(
            "SELECT thread_id, argument FROM mysql.general_log WHERE command_type='Query' "
            "AND argument LIKE 'INSERT INTO%' ORDER BY event_time"
        )
        by_thread: dict[int, list[str]] = {}
        for thread, text in cursor.fetchall():
            by_thread.setdefault(thread, []).append(text.decode() if isinstance(text, bytes) else text)
        return list(by_thread.values())

    try:
        yield statements
    finally:
        cursor.execute("SET GLOBAL general_log=0")
        cursor.execute("TRUNCATE mysql.general_log")
        connection.close()


def write_rows(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))


def read_rows(path: Path, kinds: list[str]) -> list[Row]:
    convert = [int if kind == "integer" else str for kind in kinds]
    lines = path.read_text().splitlines()
    return [tuple(to(word) for to, word in zip(convert, line.split(","), strict=True)) for line in lines]


@dataclass(frozen=True)
class Prepared:
    """A statement of Cassandra's and the values of all rows, in the order of its markers."""

    statement: str
    names: list[str]
    kinds: list[str]
    """"integer" or "text", as the names."""
    rows: list[Row]


def from_cassandra(server: ThrowawayServer, table: str, rows_per_batch: int) -> Prepared:
    """What Venturi prepared and stored; rows sorted by key within a batch, as Venturi has them."""
    host, port = server.address.rsplit(":", 1)
    with cassandra_session(host, int(port)) as session:
        texts = [
            row.query_string
            for row in session.execute("SELECT query_string FROM system.prepared_statements")
            if re.search(rf"\b{table}\b", row.query_string) and row.query_string.lstrip()[0] in "UI"
        ]
        if not texts:
            raise ValueError(f"the server knows no statement that upserts into {table}")
        prepared = session.prepare(texts[0])
        names = [column.name for column in prepared.column_metadata]
        stored = session.execute(f"SELECT {', '.join(dict.fromkeys([*KEY, *names]))} FROM {table}")
        rows = [row._asdict() for row in stored]
    for row in rows:
        stamp = row["timestamp_of_data"]
        row["timestamp_of_data"] = round(stamp.replace(tzinfo=UTC).timestamp() * 1000)
    # The table gives them in the order of their tokens; a working set has none.
    random.Random(1).shuffle(rows)
    values = []
    for at in range(0, len(rows), rows_per_batch):
        batch = sorted(rows[at : at + rows_per_batch], key=lambda row: [row[name] for name in KEY])
        values += [tuple(row[name] for name in names) for row in batch]
    kinds = ["integer" if isinstance(value, int) else "text" for value in values[0]]
    return Prepared(texts[0], names, kinds, values)


@contextlib.contextmanager
def cassandra_session(host: str, port: int) -> Iterator[Any]:
    """A session of the DataStax driver, Nagle's algorithm off as in every other client."""
    import logging
    import socket

    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ConsistencyLevel, ExecutionProfile
    from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy

    logging.getLogger("cassandra").setLevel(logging.ERROR)
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy("datacenter1")),
        consistency_level=ConsistencyLevel.LOCAL_ONE,
        request_timeout=60,
    )
    cluster = Cluster(
        [host],
        port=port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        protocol_version=4,
        connect_timeout=30,
        control_connection_timeout=30,
    )
    try:
        yield cluster.connect("venturi")
    finally:
        cluster.shutdown()
