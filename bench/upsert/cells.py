"""What is measured: cells, the clients that compete in each, and what Venturi must reach there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Goal:
    """The least ratio of Venturi's figure to a peer's."""

    peer: str
    rows_per_cpu_second: float
    rows_per_second: float | None = None


@dataclass(frozen=True)
class Cell:
    name: str
    what: str
    server: str
    """As `venturi serve` calls it."""
    rows_per_batch: int
    in_flight: int
    """Batches under way on one stream."""
    goals: tuple[Goal, ...]
    options: dict[str, Any] = field(default_factory=dict)
    """Of Venturi's target."""

    @property
    def clients(self) -> list[str]:
        return ["venturi", *(goal.peer for goal in self.goals)]

    @property
    def scheme(self) -> str:
        return {"mariadb": "mysql", "cassandra": "cassandra"}[self.server]

    @property
    def table(self) -> str:
        """One a cell: tables of counters and of plain columns differ."""
        return f"venturi_bench_{self.name.replace('-', '_')}"


CELLS = (
    Cell(
        "mariadb-500",
        "text protocol, multi-row INSERT ... ON DUPLICATE KEY UPDATE of 500 rows",
        "mariadb",
        500,
        1,
        (Goal("mysqlslap", 1.0, 1.0), Goal("pymysql", 3.0, 1.0)),
        {"statement": "text"},
    ),
    Cell(
        "counter-500",
        "a COUNTER BATCH of 500 prepared UPDATEs",
        "cassandra",
        500,
        1,
        (Goal("latte", 1.0, 1.0), Goal("python-driver", 10.0, 1.0)),
        {"write": "counter"},
    ),
    Cell(
        "insert-500",
        "an UNLOGGED BATCH of 500 prepared INSERTs",
        "cassandra",
        500,
        1,
        (Goal("latte", 1.0, 1.0), Goal("python-driver", 10.0, 1.0)),
        {"write": "insert", "batch": "unlogged"},
    ),
    Cell(
        "counter-500-statement",
        "one prepared BEGIN COUNTER BATCH of 500 UPDATEs",
        "cassandra",
        500,
        1,
        (Goal("latte", 1.0, 1.0),),
        {"write": "counter", "batch_form": "statement"},
    ),
    Cell(
        "insert-500-statement",
        "one prepared BEGIN UNLOGGED BATCH of 500 INSERTs",
        "cassandra",
        500,
        1,
        (Goal("latte", 1.0, 1.0),),
        {"write": "insert", "batch": "unlogged", "batch_form": "statement"},
    ),
    Cell(
        "insert-1",
        "prepared INSERTs one by one, 64 under way on a stream",
        "cassandra",
        1,
        64,
        (Goal("latte", 1.0), Goal("python-driver", 10.0)),
        {"write": "insert", "batch": "none"},
    ),
)

EMPTY_GOAL = 2e6
"""Rows a second of one core, generated and built into statements inside the interval, then discarded."""
