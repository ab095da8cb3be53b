"""The tables of a scenario as validated models. docs/scenarios.md describes every key.

Models check one value at a time; what must fit together in one cell is checked where
cells are made (`venturi.plan.matrix`), because any key may be an axis.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.environment import usable_cores
from venturi.common.suffixes import parse_count, parse_duration, parse_percent
from venturi.common.times import parse_time
from venturi.targets.fields import Names, Nullable, Table, null, setting_of, texts
from venturi.targets.handicap import nanoseconds
from venturi.targets.options import DEFAULTS, ONLY_HERE, SETTINGS, Options
from venturi.targets.setting import SEVERAL, Setting
from venturi.targets.system import DEFAULT_PORT, LOCAL, scheme_of
from venturi.targets.timeseries import SERIES
from venturi.targets.urls import check_url

__all__ = [
    "BESIDE",
    "DEFAULT_PORT",
    "INGEST",
    "LOCAL",
    "POINT_BYTES",
    "SIZES",
    "STATES_ROW_BYTES",
    "UPSERT",
    "USAGE_ROW_BYTES",
    "WORKING_SET",
    "FileData",
    "Hosts",
    "Run",
    "Table",
    "Target",
    "Workload",
    "check_url",
    "data_label",
]

# Three ways to say how much; one of them at a time.
SIZES = ("rows_per_stream", "bytes_per_stream", "duration")
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
Whole = Annotated[int, BeforeValidator(parse_count), Field(ge=0)]
Repeats = Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=1_000_000)]
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


_upserts = partial(Setting, panel="Upserts")
_series = partial(Setting, panel=SERIES, operations={"ingest": None})


class Workload(Table):
    """What is moved. Sizes in bytes, times in ns, counts plain."""

    operation: Annotated[
        Literal["get", "put", "upsert", "ingest"],
        Setting("get, put, upsert or ingest; get,put for both.", foreign=True),
    ] = "get"
    data: Annotated[
        Literal["records", "states", "usage", "metrics", "archive", "remote"] | FileData,
        BeforeValidator(_data),
        Setting(
            "records, states, usage, metrics, archive:DIR, remote, builtin:birdstrikes, or a Parquet, Arrow "
            "or CSV file. Repeatable.",
            form="repeated",
            foreign=True,
        ),
    ] = "records"
    columns: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)],
        Setting("Columns of int64 in a record; 4 is 32 bytes.", int),
    ] = 4
    values: Annotated[
        Literal["random", "sequential"] | list[StrictStr],
        BeforeValidator(_values),
        AfterValidator(_named),
        Setting(
            "Values of records: random or sequential; of an ingest columns of a file, as a,b.",
            commas="list",
            foreign=True,
        ),
    ] = "random"
    seed: Annotated[Whole, Setting("Seed of the records' random values.", int)] = 1
    rows_per_batch: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)],
        Setting(f"Rows in a batch.{SEVERAL}", int, alias="--points-per-batch"),
    ] = 4096
    rows_per_stream: Annotated[
        Count | None,
        Setting("Rows a stream moves, as 10M; or a range.", int, alias="--points-per-stream"),
    ] = None
    bytes_per_stream: Annotated[Count | None, Setting("Payload bytes a stream moves, as 1G.", int)] = None
    duration: Annotated[
        Duration | None,
        Setting("Time a trial lasts, as 5s, in place of an amount.", int, cell="duration_ns"),
    ] = None
    streams: Annotated[
        Annotated[int, BeforeValidator(_number), Field(ge=1, le=65_536)],
        Setting(f"Concurrent flows; cpus = one for each CPU here.{SEVERAL}", int),
    ] = 1
    threads: Annotated[
        Annotated[int, Field(ge=1, le=4_096)] | Literal["streams"],
        BeforeValidator(_threads),
        Setting("Client threads; streams = as many as streams.", int),
    ] = "streams"
    rate: Annotated[
        Nullable[
            Annotated[float, BeforeValidator(_rate), Field(gt=0, le=1_000_000_000, allow_inf_nan=False)]
        ],
        Setting("Open loop: batches/s over all streams; none = as fast as it goes.", float),
    ] = None
    verify: Annotated[Literal["checksum", "count", "none"], Setting("checksum, count or none.")] = "checksum"
    include_setup: Annotated[
        StrictBool, Setting("Count planning and connecting as part of the interval.", bool)
    ] = False
    pin: Annotated[
        list[int] | None,
        BeforeValidator(_pin),
        BeforeValidator(null),
        AfterValidator(_cpus),
        Setting("CPUs for the client's threads: 0,2-3, or node0.", list[int], commas="list"),
    ] = None
    key: Annotated[
        Names,
        _upserts("Columns by which a file's rows meet, as a,b.", list[str], commas="list"),
    ] = None
    add: Annotated[
        Names, _upserts("Columns that are added up where they meet.", list[str], commas="list")
    ] = None
    working_set: Annotated[
        Nullable[Annotated[int, BeforeValidator(_working_set), Field(ge=1)]],
        _upserts("Distinct rows of usage, as 1M; or their bytes, as 64MB.", int),
    ] = None
    in_flight: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_536)]],
        _upserts(f"Batches under way on a stream at a time.{SEVERAL}", int, operations={"upsert": 1}),
    ] = None
    generate: Annotated[
        Nullable[Literal["ahead", "inline"]],
        _upserts(
            "Make statements ahead of the clock, or inline, inside it.",
            operations={"upsert": "ahead", "ingest": "inline"},
        ),
    ] = None
    max_errors: Annotated[
        Nullable[Whole],
        _upserts("Batches that may fail before the trial is given up.", int, operations={"upsert": 0}),
    ] = None
    retries: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=0, le=1000)]],
        _upserts("More attempts for a batch that was refused.", int, operations={"upsert": 0}),
    ] = None
    hosts: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000_000)]],
        _series(f"Hosts of metrics, 10 series each.{SEVERAL}", int, operations={"ingest": 100}),
    ] = None
    tick: Annotated[
        Nullable[Duration],
        _series(
            "Time between two points of a series, as 1s.",
            int,
            cell="tick_ns",
            operations={"ingest": 1_000_000_000},
        ),
    ] = None
    start: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_time)]],
        _series("Time of the first point: a date, a time (UTC), or now.", int, cell="start_unix_ns"),
    ] = None
    time: Annotated[Nullable[StrictStr], _series("Column of a file that is the time.")] = None
    tags: Annotated[
        Names, _series("Columns of a file that name a series, as a,b.", list[str], commas="list")
    ] = None
    metric: Annotated[Nullable[StrictStr], _series("What stands before the columns' names in metrics.")] = (
        None
    )


_WORKLOAD = {name: setting_of(field) for name, field in Workload.model_fields.items()}
UPSERT = {
    name: it.operations["upsert"] for name, it in _WORKLOAD.items() if it.operations.get("upsert") is not None
}
"""Keys that only upserts have, and what holds there where they are null; an ingest has one of them."""
INGEST = {name: it.operations["ingest"] for name, it in _WORKLOAD.items() if set(it.operations) == {"ingest"}}
"""Keys that only ingests have, and what holds there where they are null."""


class Target(Options):
    """Where it is moved, and how the client speaks. Secrets are names of environment variables."""

    url: Annotated[
        str,
        AfterValidator(check_url),
        Setting(
            "URL, as flight://host:31337 or mysql://host/database; NAME://local starts a server for the run, "
            "NAME://remote on hosts of its own (--on).",
            flag="--target",
            commas="text",
            cell="target",
        ),
    ] = LOCAL

    def given(self) -> dict[str, Any]:
        """The options that differ from their default."""
        return {
            name: getattr(self, name)
            for name, field in type(self).model_fields.items()
            if name != "url" and getattr(self, name) != field.get_default(call_default_factory=True)
        }

    def options(self) -> dict[str, Any]:
        """The options of a trial spec: those that differ from what the target does of itself."""
        usual = DEFAULTS.get(scheme_of(self.url), {})
        found = {
            name: value
            for name, value in self.given().items()
            if value != usual.get(name) and name not in ONLY_HERE
        }
        if found.get("digits") == "shortest":
            found["digits"] = None
        if "server_settings" in found:
            found["server_settings"] = dict(w.split("=", 1) for w in found["server_settings"].split(","))
        if self.handicap:
            found["handicap"] = nanoseconds(self.handicap)
        return {SETTINGS[name].spec or name: value for name, value in found.items()}


def _resource(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Za-z_][\w.\-/]*", value):
        raise ValueError(
            f"{value!r} is no name of a resource, as in ray start --resources '{{\"loader\": 1}}'"
        )
    return value


def _network(value: str | None) -> str | None:
    """An address, or a network as 10.77.0.0/24."""
    if value is not None:
        import ipaddress

        try:
            ipaddress.ip_network(value, strict=False)
        except ValueError:
            raise ValueError(f"{value!r} is neither an address nor a network, as 10.77.0.0/24") from None
    return value


_hosts = partial(Setting, panel="Several hosts", cell=None)


class Hosts(Table):
    """Where a trial's streams run when it is placed on several hosts by `--on`; else one runs all."""

    loaders: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)]],
        _hosts(
            f"Processes that share a trial's streams, with --on; one a host.{SEVERAL}", int, cell="loaders"
        ),
    ] = None
    servers: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)]],
        _hosts("Hosts on which NAME://remote starts a server each. [default: 1]", int),
    ] = None
    loader_resource: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(_resource)]],
        _hosts("Loaders only on hosts with this resource of Ray's."),
    ] = None
    server_resource: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(_resource)]],
        _hosts("Those servers only on hosts with this resource of Ray's."),
    ] = None
    interface: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(_network)]],
        _hosts("Network in which servers listen on their hosts, as 10.77.0.0/24."),
    ] = None


def _adaptive(value: Any) -> Any:
    return None if value is False or value in ("off", "none") else parse_percent(value)


_run = partial(Setting, panel="Trials", cell=None)


class Run(Table):
    """How often, in which order, and what happens on a failure."""

    repeats: Annotated[Repeats, _run("Measured trials of each cell.", int)] = 5
    warmup: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=0, le=1_000_000)],
        _run("Trials of each cell before those that count.", int),
    ] = 1
    shuffle: Annotated[StrictBool, _run("Run the cells in a shuffled order.", bool)] = True
    seed: Annotated[Whole, _run("Seed of that order.", int, flag="--shuffle-seed")] = 1
    adaptive: Annotated[
        float | None,
        BeforeValidator(_adaptive),
        _run("Go on until each median's 95 % interval is narrower, as 2%; off = never.", float),
    ] = None
    max_repeats: Annotated[Repeats, _run("Where the adaptive stop stops at the latest.", int)] = 30
    on_failure: Annotated[Literal["continue", "stop"], _run("After a failed trial: continue or stop.")] = (
        "continue"
    )
    timeout: Annotated[Duration, _run("For connecting, and for a stream without progress, as 30s.", int)] = (
        30_000_000_000
    )
    sample_interval: Annotated[
        Annotated[int, BeforeValidator(parse_duration), Field(ge=0)],
        _run("Of the counters over time, as 100ms; 0 = none.", int),
    ] = 100_000_000
    ceilings: Annotated[StrictBool, _run("Measure the physical limits as well, to compare with.", bool)] = (
        True
    )


BESIDE = {
    "place": Setting(
        "LABEL=URL: an address beside others, as remote=flight://host:31337. Repeatable.", form="pairs"
    ),
    "on": Setting(
        "Where the streams run: ray://HOST:PORT, auto (the Ray cluster of this host), local (Ray, here "
        "alone) or spark; here,spark in both places. [default: this process]",
        panel="Several hosts",
        commas="text",
    ),
    "master": Setting(
        "Spark's, as local[4] or spark://HOST:7077, with --on spark.",
        panel="Several hosts",
        commas="text",
        cell=None,
    ),
    "row_bytes": Setting("Payload bytes of a row.", float, flag=""),
    "settings": Setting(
        "TABLE.KEY=VALUE: any setting by its name in a file, as matrix.streams=1..8. Repeatable.",
        flag="--set",
        form="pairs",
        cell=None,
    ),
}
"""What is said of a run, or follows for a cell, beside the keys of its tables."""
