"""The two servers, the table of 16 columns in each, and what each way is asked."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from venturi.servers import throwaway

TABLE = "bench_read"
QUERY = f"SELECT * FROM {TABLE}"
Request = dict[str, Any]

# Both servers have the same rows: integers, numbers, times, texts short and long, and nulls in two columns.
POSTGRES = f"""CREATE TABLE {TABLE} AS SELECT
    n::bigint AS id, (n % 100000)::integer AS account, (n % 7)::smallint AS kind, n * 37::bigint AS total,
    CASE WHEN n % 10 <> 0 THEN (n % 50)::integer END AS quantity, (n % 2)::smallint AS active,
    n / 7.0::double precision AS price, (n % 1000)::real AS weight, sqrt(n)::double precision AS root,
    (n % 1000000)::numeric(12, 2) / 4 * 1.00::numeric(12, 2) AS amount,
    DATE '2020-01-01' + n % 2000 AS day, TIMESTAMP '2020-01-01' + n * INTERVAL '1 second' AS at,
    TIMESTAMP '1999-12-31' + n * INTERVAL '1 millisecond' AS seen,
    'item ' || n AS name, (ARRAY['Zürich', 'Bern', 'Basel', 'Genf', 'Lausanne'])[1 + n % 5] AS city,
    CASE WHEN n % 4 <> 0 THEN repeat('comment ', 1 + n % 8) END AS comment
    FROM generate_series(1, {{rows}}) AS n"""
MYSQL = f"""CREATE TABLE {TABLE} (
    id bigint, account integer, kind smallint, total bigint, quantity integer, active smallint,
    price double, weight float, root double, amount decimal(12, 2), day date, at datetime(6),
    seen datetime(6), name varchar(40), city varchar(40), comment varchar(100))
    CHARACTER SET utf8mb4 ENGINE = InnoDB
    SELECT seq AS id, seq % 100000 AS account, seq % 7 AS kind, seq * 37 AS total,
    IF(seq % 10 <> 0, seq % 50, NULL) AS quantity, seq % 2 AS active,
    seq / 7.0 AS price, seq % 1000 AS weight, sqrt(seq) AS root, (seq % 1000000) / 4 AS amount,
    DATE '2020-01-01' + INTERVAL seq % 2000 DAY AS day,
    CAST('2020-01-01' AS DATETIME(6)) + INTERVAL seq SECOND AS at,
    CAST('1999-12-31' AS DATETIME(6)) + INTERVAL seq * 1000 MICROSECOND AS seen,
    concat('item ', seq) AS name, elt(1 + seq % 5, 'Zürich', 'Bern', 'Basel', 'Genf', 'Lausanne') AS city,
    IF(seq % 4 <> 0, repeat('comment ', 1 + seq % 8), NULL) AS comment
    FROM seq_1_to_{{rows}}"""
LOADS = {"postgres": POSTGRES, "mariadb": MYSQL}
GOALS = {"postgres": 1.5, "mariadb": 1.2}
"""Rows per client CPU-second, over the best peer."""


def load(server: throwaway.ThrowawayServer, rows: int) -> None:
    statement = LOADS[server.name].format(rows=rows)
    if server.name == "postgres":
        import psycopg

        with psycopg.connect(_url(server), autocommit=True) as connection:
            connection.execute(statement)
            connection.execute(f"VACUUM (ANALYZE, FREEZE) {TABLE}")
        return
    import pymysql

    with pymysql.connect(**_login(server), autocommit=True) as connection:
        connection.cursor().execute(statement)


def _url(server: throwaway.ThrowawayServer, scheme: str = "postgresql") -> str:
    return f"{scheme}://{server.user or 'root'}@{server.address}/venturi"


def _login(server: throwaway.ThrowawayServer) -> dict[str, Any]:
    where = urlsplit(f"//{server.address}")
    return {"host": where.hostname, "port": where.port, "user": server.user or "root", "database": "venturi"}


def ways(server: throwaway.ThrowawayServer) -> dict[str, Request]:
    """By name, what a client is asked. A way that has no batches to show is a floor, not a peer."""
    if server.name == "postgres":
        plain = _url(server)
        requests: dict[str, Request] = {
            "Venturi, COPY": {"way": "venturi", "url": _url(server, "postgres"), "form": "copy"},
            "Venturi, rows": {"way": "venturi", "url": _url(server, "postgres"), "form": "rows"},
            "connectorx, table": {"way": "connectorx", "url": plain, "form": "binary", "returns": "arrow"},
            "connectorx, batches": {
                "way": "connectorx", "url": plain, "form": "binary", "returns": "arrow_stream",
            },
            "ADBC": {"way": "adbc", "url": plain},
            "psycopg": {"way": "psycopg", "url": plain},
            "pandas": {"way": "pandas", "url": _url(server, "postgresql+psycopg")},
            "bytes alone": {"way": "psycopg_copy", "url": plain, "floor": True},
        }  # fmt: skip
    else:
        plain = _url(server, "mysql")
        requests = {
            "Venturi, binary": {"way": "venturi", "url": plain, "form": "binary"},
            "Venturi, text": {"way": "venturi", "url": plain, "form": "text"},
            "connectorx, binary": {"way": "connectorx", "url": plain, "form": "binary", "returns": "arrow"},
            "connectorx, text": {"way": "connectorx", "url": plain, "form": "text", "returns": "arrow"},
            "connectorx, batches": {
                "way": "connectorx", "url": plain, "form": "binary", "returns": "arrow_stream",
            },
            "PyMySQL": {"way": "pymysql", "login": _login(server)},
            "pandas": {"way": "pandas", "url": _url(server, "mysql+pymysql")},
        }  # fmt: skip
    return {name: {**request, "query": QUERY} for name, request in requests.items()}
