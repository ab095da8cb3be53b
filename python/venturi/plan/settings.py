"""The tables of a scenario as validated models. docs/scenarios.md describes every key.

Models check one value at a time; what must fit together in one cell is checked where
cells are made (`venturi.plan.matrix`), because any key may be an axis.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.environment import usable_cores
from venturi.common.suffixes import parse_count, parse_duration, parse_percent
from venturi.common.times import parse_time
from venturi.targets.fields import Names, Table, null, texts
from venturi.targets.handicap import nanoseconds
from venturi.targets.options import DEFAULTS, LISTS, ONLY_HERE, Options
from venturi.targets.system import DEFAULT_PORT, LOCAL, scheme_of
from venturi.targets.urls import check_url

__all__ = [
    "DEFAULT_PORT",
    "INGEST",
    "LISTS",
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
UPSERT = {"in_flight": 1, "generate": "ahead", "max_errors": 0, "retries": 0}
"""Keys that only upserts have, and their defaults there."""
WORKING_SET = 1_000_000
"""Distinct rows of `usage`, where nothing says how many."""
INGEST = ("hosts", "tick", "start", "time", "tags", "metric")
"""Keys that only ingests have."""
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
_IN_SPEC = {
    **{"wire_version": "version", "block_checksum": "checksum", "max_block_size": "max_block_bytes"},
    "wire_format": "format",
}
"""Options that the spec of a trial calls otherwise, where the name alone says enough."""


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


class Workload(Table):
    """What is moved. Sizes in bytes, times in ns, counts plain."""

    operation: Literal["get", "put", "upsert", "ingest"] = "get"
    data: Annotated[
        Literal["records", "states", "usage", "metrics", "archive", "remote"] | FileData,
        BeforeValidator(_data),
    ] = "records"
    hosts: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000_000)] | None,
        BeforeValidator(null),
    ] = None
    tick: Annotated[Duration | None, BeforeValidator(null)] = None
    start: Annotated[Annotated[int, BeforeValidator(parse_time)] | None, BeforeValidator(null)] = None
    time: Annotated[StrictStr | None, BeforeValidator(null)] = None
    tags: Names = None
    metric: Annotated[StrictStr | None, BeforeValidator(null)] = None
    key: Names = None
    add: Names = None
    working_set: Annotated[
        Annotated[int, BeforeValidator(_working_set), Field(ge=1)] | None, BeforeValidator(null)
    ] = None
    columns: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)] = 4
    values: Annotated[
        Literal["random", "sequential"] | list[StrictStr], BeforeValidator(_values), AfterValidator(_named)
    ] = "random"
    seed: Whole = 1
    rows_per_batch: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)] = 4096
    rows_per_stream: Count | None = None
    bytes_per_stream: Count | None = None
    duration: Duration | None = None
    streams: Annotated[int, BeforeValidator(_number), Field(ge=1, le=65_536)] = 1
    threads: Annotated[
        Annotated[int, Field(ge=1, le=4_096)] | Literal["streams"], BeforeValidator(_threads)
    ] = "streams"
    rate: Annotated[
        Annotated[float, Field(gt=0, le=1_000_000_000, allow_inf_nan=False), BeforeValidator(_rate)] | None,
        BeforeValidator(null),
    ] = None
    in_flight: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_536)] | None, BeforeValidator(null)
    ] = None
    generate: Annotated[Literal["ahead", "inline"] | None, BeforeValidator(null)] = None
    max_errors: Annotated[Whole | None, BeforeValidator(null)] = None
    retries: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=0, le=1000)] | None, BeforeValidator(null)
    ] = None
    verify: Literal["checksum", "count", "none"] = "checksum"
    include_setup: StrictBool = False
    pin: Annotated[list[int] | None, BeforeValidator(_pin), BeforeValidator(null), AfterValidator(_cpus)] = (
        None
    )


class Target(Options):
    """Where it is moved, and how the client speaks. Secrets are names of environment variables."""

    url: Annotated[str, AfterValidator(check_url)] = LOCAL

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
        if "messages" in found:
            found["format"] = found.pop("messages")
        if found.get("digits") == "shortest":
            found["digits"] = None
        if "server_settings" in found:
            found["settings"] = dict(word.split("=", 1) for word in found.pop("server_settings").split(","))
        for name, spelled in _IN_SPEC.items():
            if name in found:
                found[spelled] = found.pop(name)
        return found | ({"handicap": nanoseconds(self.handicap)} if self.handicap else {})


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


class Hosts(Table):
    """Where a trial's streams run when it is placed on several hosts by `--on`; else one runs all."""

    loaders: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)] | None, BeforeValidator(null)
    ] = None
    servers: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)] | None, BeforeValidator(null)
    ] = None
    loader_resource: Annotated[StrictStr | None, BeforeValidator(null), AfterValidator(_resource)] = None
    server_resource: Annotated[StrictStr | None, BeforeValidator(null), AfterValidator(_resource)] = None
    interface: Annotated[StrictStr | None, BeforeValidator(null), AfterValidator(_network)] = None


def _adaptive(value: Any) -> Any:
    return None if value is False or value in ("off", "none") else parse_percent(value)


class Run(Table):
    """How often, in which order, and what happens on a failure."""

    repeats: Repeats = 5
    warmup: Annotated[int, BeforeValidator(parse_count), Field(ge=0, le=1_000_000)] = 1
    shuffle: StrictBool = True
    seed: Whole = 1
    adaptive: Annotated[float | None, BeforeValidator(_adaptive)] = None
    max_repeats: Repeats = 30
    on_failure: Literal["continue", "stop"] = "continue"
    timeout: Duration = 30_000_000_000
    sample_interval: Annotated[int, BeforeValidator(parse_duration), Field(ge=0)] = 100_000_000
    ceilings: StrictBool = True
