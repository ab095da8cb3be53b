"""The table [workload] of a scenario as a validated model. docs/scenarios.md describes every key.

The model checks one value at a time; what must fit together in one cell is checked where
cells are made (`venturi.plan.matrix`), because any key may be an axis.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.environment import usable_cores
from venturi.common.suffixes import parse_count, parse_duration, parse_time
from venturi.targets.fields import Names, Nullable, Table, null, setting_of, texts
from venturi.targets.setting import SEVERAL, Setting
from venturi.targets.stores import SERIES

SOURCES = ("records", "states", "usage", "metrics", "archive", "remote")
WORKING_SET = 1_000_000
"""Distinct rows of `usage`, where nothing says how many."""
POINT_BYTES = 16.0
"""Payload of a point: a time of 8 bytes and a value of 8."""
STATES_ROW_BYTES = 136.9
"""Mean payload of a row of `states`, sixteen columns of the types of an order's line."""
USAGE_ROW_BYTES = 69.1
"""Mean payload of a row of `usage`: 36 bytes of numbers, two texts of 12 and 13.1 letters, an offset each."""

Count = Annotated[int, BeforeValidator(parse_count), Field(ge=1)]
NonNegative = Annotated[int, BeforeValidator(parse_count), Field(ge=0)]
Duration = Annotated[int, BeforeValidator(parse_duration), Field(ge=1)]


class FileData(Table):
    """Rows of a user's file; or points of a directory of archives, as `venturi generate` makes them."""

    source: Literal["file", "archive"] = "file"
    path: str


_ARCHIVE = "archive:"


def _data(value: Any) -> Any:
    if isinstance(value, str):
        if value.startswith(_ARCHIVE) and len(value) > len(_ARCHIVE):
            return {"source": "archive", "path": value.removeprefix(_ARCHIVE)}
        return value if value in SOURCES else {"source": "file", "path": value}
    if isinstance(value, dict):
        source = value.get("source")
        if source in SOURCES and len(value) == 1:
            return source
        if source not in (None, "file", *SOURCES):
            raise ValueError(f"source {source!r} is not one of file, {', '.join(SOURCES)}")
        if "path" not in value or set(value) - {"source", "path"}:
            raise ValueError('a file is written { source = "file", path = "table.parquet" }')
        return {"source": source or "file", "path": value["path"]}
    raise ValueError(
        'write "records", "states", "usage", "metrics", "archive", "remote" or '
        '{ source = "file", path = "table.parquet" }'
    )


def data_label(data: str | FileData) -> str:
    """How parameters name a data source: records, usage, ..., the file's path, or archive:DIRECTORY."""
    if isinstance(data, str):
        return data
    return data.path if data.source == "file" else f"{_ARCHIVE}{data.path}"


def _pin(value: Any) -> Any:
    """CPUs: [0, 1], "0,2-3", or "node0" for the CPUs of a NUMA node."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value]
    if not isinstance(value, str):
        return value
    text = value.strip()
    if node := re.fullmatch(r"node(\d+)", text):
        path = Path(f"/sys/devices/system/node/{text}/cpulist")
        if not path.exists():
            raise ValueError(f"this machine has no NUMA node {node.group(1)}")
        text = path.read_text().strip()
    cpus: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*", part)
        if found is None:
            raise ValueError(f'{value!r} names no CPUs; write "0,2-3" or "node0"')
        low, high = int(found.group(1)), int(found.group(2) or found.group(1))
        if low > high:
            raise ValueError(f"{value!r} is empty: {low} is above {high}")
        cpus += range(low, high + 1)
    return cpus


def _number(value: Any) -> Any:
    """A count, or "cpus": as many as this process may use."""
    return usable_cores() if value in ("cpus", "cores") else parse_count(value)


def _threads(value: Any) -> Any:
    if isinstance(value, str) and value.replace("=", "").strip() == "streams":
        return "streams"
    return _number(value)


def _working_set(value: Any) -> Any:
    """Rows, or bytes where the suffix ends with B."""
    count = parse_count(value)
    if isinstance(value, str) and value.strip().endswith("B"):
        return max(1, int(count / USAGE_ROW_BYTES)) if count > 0 else count
    return count


def _values(value: Any) -> Any:
    """How records are made; of an ingest the columns of a file that hold values."""
    return value if value in ("random", "sequential") else texts(value)


def _named(value: str | list[str]) -> str | list[str]:
    if not value:
        raise ValueError("names no column")
    return value


def _rate(value: Any) -> Any:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) else parse_count(value)
    )


def _cpus(value: list[int] | None) -> list[int] | None:
    if value is not None and (not value or min(value) < 0):
        raise ValueError("must name at least one CPU, from 0")
    return value


_moved = partial(Setting, role="workload")
_upserts = partial(Setting, panel="Upserts", operations={"upsert": None})
_series = partial(Setting, panel=SERIES, operations={"ingest": None}, role="workload")


class Workload(Table):
    """What is moved. Sizes in bytes, times in ns, counts plain."""

    operation: Annotated[
        Literal["get", "put", "upsert", "ingest"],
        _moved(
            "get, put, upsert or ingest; get,put for both.",
            foreign=True,
            doc=(
                "`get` (the client receives), `put` (it sends), `upsert` (it inserts into a database, or "
                "adds to the row that is there) or `ingest` (it sends points to a store of time series)"
            ),
            default="`upsert` for a database, `ingest` for a store of time series, else `get`",
        ),
    ] = "get"
    data: Annotated[
        Literal["records", "states", "usage", "metrics", "archive", "remote"] | FileData,
        BeforeValidator(_data),
        _moved(
            "records, states, usage, metrics, archive:DIR, remote, builtin:birdstrikes, or a Parquet, Arrow "
            "or CSV file. Repeatable.",
            form="repeated",
            foreign=True,
            doc=(
                '`"records"`: made columns of int64; `"states"`: made rows of 16 columns, which a server '
                'of `charrow://` turns into columns; `"usage"`: made rows of a usage table, for upserts '
                '(below); `"metrics"`: made points, `"archive"`, `"archive:DIR"`: ready-made ones, for '
                'ingests (below); `{ source = "file", path = "t.parquet" }` or just the path: rows of a '
                "Parquet, Arrow IPC or CSV (`.csv`, `.tsv`, also `.gz`; UTF-8) file, repeated to the "
                'wanted size; `"builtin:birdstrikes"`: 10,000 real rows that come with Venturi; '
                '`"remote"`: for a get, whatever the server holds'
            ),
            default=(
                '`"records"`; `"remote"` for a get from a URL with a path, a command or a ticket; `"usage"` '
                'for an upsert, `"metrics"` for an ingest'
            ),
        ),
    ] = "records"
    columns: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)],
        _moved("Columns of int64 in a record; 4 is 32 bytes."),
    ] = 4
    values: Annotated[
        Literal["random", "sequential"] | list[StrictStr],
        BeforeValidator(_values),
        AfterValidator(_named),
        _moved(
            "Values of records: random or sequential; of an ingest columns of a file, as a,b.",
            str,
            commas="list",
            foreign=True,
            doc=(
                "of records: `random` or `sequential`; of an ingest the columns of a file that hold "
                'values, a metric each: a list, or `"a,b"`. A null makes no point'
            ),
            default="`random`; of a file all others that hold numbers",
        ),
    ] = "random"
    seed: Annotated[
        NonNegative,
        _moved(
            "Seed of the records' random values.",
            doc="of random values, of the rows of `usage` and of the points of `metrics`",
        ),
    ] = 1
    rows_per_batch: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)],
        Setting(
            f"Rows in a batch.{SEVERAL}",
            alias="--points-per-batch",
            doc="rows in one batch, which is one message or one statement",
            default="`4096`; `500` for upserts; `5000` for ingests; `65536` for `adbc`",
        ),
    ] = 4096
    rows_per_stream: Annotated[
        Count | None,
        Setting(
            "Rows a stream moves, as 10M; or a range.",
            alias="--points-per-stream",
            default="`10M` if no size is given, but over a link `duration` is 5 s",
            role="amount",
        ),
    ] = None
    bytes_per_stream: Annotated[
        Count | None,
        Setting(
            "Payload bytes a stream moves, as 1G.",
            doc="fixed work: payload bytes each stream moves, rounded up to whole rows",
            role="amount",
        ),
    ] = None
    duration: Annotated[
        Duration | None,
        Setting(
            "Time a trial lasts, as 5s, instead of an amount.",
            cell="duration_ns",
            doc="fixed time: no new batch after it; batches in flight are awaited and counted",
            default="if no size is given `10s` for upserts, `5s` over a link",
            role="amount",
        ),
    ] = None
    streams: Annotated[
        Annotated[int, BeforeValidator(_number), Field(ge=1, le=65_536)],
        Setting(
            f"Concurrent flows; cpus = one for each CPU here.{SEVERAL}",
            doc=(
                'concurrent flows, each with a connection of its own unless shared; `"cpus"` is one for '
                "each CPU that this process may use"
            ),
            role="parallel",
        ),
    ] = 1
    threads: Annotated[
        Annotated[int, Field(ge=1, le=4_096)] | Literal["streams"],
        BeforeValidator(_threads),
        Setting(
            "Client threads; streams = as many as streams.",
            doc='client threads; `"streams"` means as many as streams, `"cpus"` one for each CPU',
            default='`"streams"`',
            role="parallel",
        ),
    ] = "streams"
    rate: Annotated[
        Nullable[
            Annotated[float, BeforeValidator(_rate), Field(gt=0, le=1_000_000_000, allow_inf_nan=False)]
        ],
        _moved(
            "Open loop: batches/s over all streams; none = as fast as it goes.",
            default="none: as fast as it goes",
        ),
    ] = None
    verify: Annotated[
        Literal["checksum", "count", "none"],
        _moved(
            "checksum, count or none.", doc="`checksum` (of an upsert: keys and sums), `count`, or `none`"
        ),
    ] = "checksum"
    include_setup: Annotated[StrictBool, _moved("Count planning and connecting as part of the interval.")] = (
        False
    )
    pin: Annotated[
        list[int] | None,
        BeforeValidator(_pin),
        BeforeValidator(null),
        AfterValidator(_cpus),
        Setting(
            "CPUs for the client's threads: 0,2-3, or node0.",
            doc='CPUs for the threads: `[0, 2]`, `"0,2-3"`, or `"node0"` for a NUMA node',
        ),
    ] = None
    key: Annotated[
        Names,
        _upserts(
            "Columns by which a file's rows meet, as a,b.",
            doc=(
                'columns of a file by which its rows meet: a list, or `"a,b"`. They become the primary '
                "key, in this order; none may have nulls. The rows of each batch are sorted by it (rows "
                "of one key stay in their order), so that streams lock rows in one order"
            ),
            default="needed for a file",
            role="workload",
        ),
    ] = None
    add: Annotated[
        Names,
        _upserts(
            "Columns that are added up where they meet.",
            doc="columns of a file that are added up where rows meet: integers. All others are overwritten",
            role="workload",
        ),
    ] = None
    working_set: Annotated[
        Nullable[Annotated[int, BeforeValidator(_working_set), Field(ge=1)]],
        _upserts(
            "Distinct rows of usage, as 1M; or their bytes, as 64MB.",
            doc=(
                'distinct rows of `usage`, which come round again and again: rows (`"1M"`), or bytes '
                'where the suffix ends with B (`"64MB"`, at 69.1 bytes a row)'
            ),
            default="`1M`",
            role="workload",
        ),
    ] = None
    in_flight: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_536)]],
        _upserts(
            f"Batches in flight on a stream at a time.{SEVERAL}",
            operations={"upsert": 1},
            doc=(
                "batches that may be in flight on a stream at a time, where the protocol can: Cassandra, "
                "PostgreSQL"
            ),
            role="parallel",
        ),
    ] = None
    generate: Annotated[
        Nullable[Literal["ahead", "inline"]],
        _upserts(
            "Make statements ahead of the clock, or inline, inside it.",
            operations={"upsert": "ahead", "ingest": "inline"},
            doc=(
                "`ahead`: rows and statements are made before the clock starts, of points up to 2 GiB of "
                "text, and not with a `duration`; `inline`: inside the interval, as an application would"
            ),
            default="`ahead`; `inline` for an ingest",
        ),
    ] = None
    max_errors: Annotated[
        Nullable[NonNegative],
        _upserts(
            "Batches that may fail before the trial is given up.",
            operations={"upsert": 0},
            doc="batches that may be refused, or stay without an answer, before the trial is given up",
            role="workload",
        ),
    ] = None
    retries: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=0, le=1000)]],
        _upserts(
            "More attempts for a batch that was refused.",
            operations={"upsert": 0},
            doc=(
                "more attempts for a batch that the server refused. A batch without an answer is never "
                "tried again: nobody knows whether it was applied"
            ),
        ),
    ] = None
    hosts: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000_000)]],
        _series(
            f"Hosts of metrics, 10 series each.{SEVERAL}",
            operations={"ingest": 100},
            doc=(
                "hosts of `metrics`; each has 10 series in one compound row. A series belongs to one "
                "stream, so there are no more streams than hosts"
            ),
            role="parallel",
        ),
    ] = None
    tick: Annotated[
        Nullable[Duration],
        _series(
            "Time between two points of a series, as 1s.",
            cell="tick_ns",
            operations={"ingest": 1_000_000_000},
            default="`1s`",
        ),
    ] = None
    start: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_time)]],
        _series(
            "Time of the first point: a date, a time (UTC), or now.",
            cell="start_unix_ns",
            default="2017-01-01 for a store that the run starts, else when the run began",
        ),
    ] = None
    time: Annotated[
        Nullable[StrictStr],
        _series(
            "Column of a file that is the time.",
            doc=(
                "column of a file that is the time: a timestamp, a date, a text, or an integer since 1970"
                " in s, ms, µs or ns, by its size"
            ),
            default="the only column of times",
        ),
    ] = None
    tags: Annotated[
        Names,
        _series(
            "Columns of a file that name a series, as a,b.",
            doc='columns of a file that name a series, with the metric: a list, or `"a,b"`',
            default="none: the one tag is then `source`, the file's metric",
        ),
    ] = None
    metric: Annotated[Nullable[StrictStr], _series("What stands before the columns' names in metrics.")] = (
        None
    )


_WORKLOAD = {name: setting_of(field) for name, field in Workload.model_fields.items()}
SIZES = tuple(name for name, it in _WORKLOAD.items() if it.role == "amount")
"""Three ways to say how much; one of them at a time."""
UPSERT = {
    name: it.operations["upsert"] for name, it in _WORKLOAD.items() if it.operations.get("upsert") is not None
}
"""Keys that only upserts have, and what holds there where they are null; an ingest has one of them."""
OPERATIONS = {name: it.operations for name, it in _WORKLOAD.items() if it.operations}
"""Keys that not all operations have: the operations that do, each with what holds where the key is null."""
INGEST = {name: it.operations["ingest"] for name, it in _WORKLOAD.items() if set(it.operations) == {"ingest"}}
"""Keys that only ingests have, and what holds there where they are null."""
