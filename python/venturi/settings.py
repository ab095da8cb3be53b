"""The tables of a scenario as validated models. docs/scenarios.md describes every key.

Models check one value at a time; what must fit together in one cell is checked where
cells are made (`venturi.matrix`), because any key may be an axis.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr

from venturi.handicap import nanoseconds, normalised
from venturi.suffixes import parse_count, parse_duration, parse_percent

__all__ = [
    "DEFAULT_PORT",
    "LOCAL",
    "SIZES",
    "FileData",
    "Run",
    "Target",
    "Workload",
    "check_url",
    "data_label",
]

DEFAULT_PORT = 31337
LOCAL = "flight://local"
SCHEMES = ("flight", "flight+tls", "empty")
# Three ways to say how much; one of them at a time.
SIZES = ("rows_per_stream", "bytes_per_stream", "duration")

Count = Annotated[int, BeforeValidator(parse_count), Field(ge=1)]
Whole = Annotated[int, BeforeValidator(parse_count), Field(ge=0)]
Duration = Annotated[int, BeforeValidator(parse_duration), Field(ge=1)]


def check_url(url: str) -> str:
    """A target's URL with its port. Raises ValueError where it is none, or carries a secret."""
    parts = urlsplit(url)
    if "://" not in url:
        raise ValueError(f"{url!r} is not a URL; write flight://HOST:PORT")
    if parts.scheme not in SCHEMES:
        raise ValueError(f"{url!r}: no target is called {parts.scheme!r}; known: {', '.join(SCHEMES)}")
    if parts.scheme == "empty":
        return url
    if parts.password is not None:
        # Everything in a scenario is stored with the run and shown in its report.
        raise ValueError("a password in the URL would be stored with the run; use user and password_env")
    if not parts.hostname:
        raise ValueError(f"{url!r} names no host; write {parts.scheme}://HOST:PORT")
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"{url!r}: the port must be a number from 1 to 65535") from None
    if port == 0:
        raise ValueError(f"{url!r}: the port must be a number from 1 to 65535")
    if port is None and parts.hostname != "local":
        return parts._replace(netloc=f"{parts.netloc}:{DEFAULT_PORT}").geturl()
    return url


class Table(BaseModel):
    """A table of the scenario: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileData(Table):
    """Rows of a user's file."""

    source: Literal["file"] = "file"
    path: str


def _data(value: Any) -> Any:
    if isinstance(value, str):
        return value if value in ("records", "remote") else {"source": "file", "path": value}
    if isinstance(value, dict):
        source = value.get("source")
        if source in ("records", "remote") and len(value) == 1:
            return source
        if source not in (None, "file", "records", "remote"):
            raise ValueError(f"source {source!r} is not one of records, file, remote")
        if "path" not in value or set(value) - {"source", "path"}:
            raise ValueError('a file is written { source = "file", path = "table.parquet" }')
        return {"source": "file", "path": value["path"]}
    raise ValueError('write "records", "remote" or { source = "file", path = "table.parquet" }')


def data_label(data: str | FileData) -> str:
    """How parameters name a data source: records, remote, or the file's path."""
    return data if isinstance(data, str) else data.path


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


def _threads(value: Any) -> Any:
    if isinstance(value, str) and value.replace("=", "").strip() == "streams":
        return "streams"
    return parse_count(value)


def _rate(value: Any) -> Any:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) else parse_count(value)
    )


def _null(value: Any) -> Any:
    """TOML has no null: "none" takes a default back."""
    return None if value in ("none", "null") else value


def _cpus(value: list[int] | None) -> list[int] | None:
    if value is not None and (not value or min(value) < 0):
        raise ValueError("must name at least one CPU, from 0")
    return value


class Workload(Table):
    """What is moved. Sizes in bytes, times in ns, counts plain."""

    operation: Literal["get", "put"] = "get"
    data: Annotated[Literal["records", "remote"] | FileData, BeforeValidator(_data)] = "records"
    columns: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)] = 4
    values: Literal["random", "sequential"] = "random"
    seed: Whole = 1
    rows_per_batch: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)] = 4096
    rows_per_stream: Count | None = None
    bytes_per_stream: Count | None = None
    duration: Duration | None = None
    streams: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=65_536)] = 1
    threads: Annotated[
        Annotated[int, Field(ge=1, le=4_096)] | Literal["streams"], BeforeValidator(_threads)
    ] = "streams"
    rate: Annotated[
        Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_rate)] | None,
        BeforeValidator(_null),
    ] = None
    verify: Literal["checksum", "count", "none"] = "checksum"
    include_setup: StrictBool = False
    pin: Annotated[list[int] | None, BeforeValidator(_pin), BeforeValidator(_null), AfterValidator(_cpus)] = (
        None
    )


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if name.lower() in ("authorization", "proxy-authorization", "cookie"):
            raise ValueError(f"{name} would be stored with the run; name its variable by header_env")
    return value


def _compression(value: Any) -> Any:
    """lz4, zstd (level 3, as everywhere) or zstd:LEVEL."""
    known = "lz4, zstd, zstd:LEVEL with a level of 1 to 22, or none"
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not one of {known}")
    if value in ("lz4", "zstd"):
        return value
    found = re.fullmatch(r"zstd:(\d{1,3})", value)
    if found is None or not 1 <= int(found.group(1)) <= 22:
        raise ValueError(f"{value!r} is not one of {known}")
    level = int(found.group(1))
    return "zstd" if level == 3 else f"zstd:{level}"


def _handicap(value: Any) -> Any:
    if isinstance(value, dict):
        value = "+".join(f"{stage}={time}" for stage, time in value.items())
    if not isinstance(value, str):
        raise ValueError('must be written "decode=200us"')
    return normalised(value)


class Target(Table):
    """Where it is moved, and how the client speaks. Secrets are names of environment variables."""

    url: Annotated[str, AfterValidator(check_url)] = LOCAL
    compression: Annotated[Annotated[str, BeforeValidator(_compression)] | None, BeforeValidator(_null)] = (
        None
    )
    connections: Literal["per-stream", "shared"] = "per-stream"
    window: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)] | None, BeforeValidator(_null)
    ] = None
    send_buffer: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=4096, le=2**30)] | None, BeforeValidator(_null)
    ] = None
    max_message_size: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**32 - 1)] = 67_108_864
    protocol: Literal["auto", "perf", "path", "command", "ticket"] = "auto"
    ack: Literal["stream", "batch"] = "stream"
    handicap: Annotated[Annotated[str, BeforeValidator(_handicap)] | None, BeforeValidator(_null)] = None
    tls_ca: StrictStr | None = None
    tls_certificate: StrictStr | None = None
    tls_key: StrictStr | None = None
    tls_server_name: StrictStr | None = None
    tls_insecure: StrictBool = False
    token_env: StrictStr | None = None
    user: StrictStr | None = None
    password_env: StrictStr | None = None
    headers: Annotated[dict[str, StrictStr], AfterValidator(_headers)] = Field(default_factory=dict)
    header_env: dict[str, StrictStr] = Field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """The options of a trial spec: those that differ from their default."""
        found = {
            name: getattr(self, name)
            for name, field in type(self).model_fields.items()
            if name != "url" and getattr(self, name) != field.get_default(call_default_factory=True)
        }
        return found | ({"handicap": nanoseconds(self.handicap)} if self.handicap else {})


def _adaptive(value: Any) -> Any:
    return None if value is False or value in ("off", "none") else parse_percent(value)


class Run(Table):
    """How often, in which order, and what happens on a failure."""

    repeats: Count = 5
    warmup: Whole = 1
    shuffle: StrictBool = True
    seed: Whole = 1
    adaptive: Annotated[float | None, BeforeValidator(_adaptive)] = None
    max_repeats: Count = 30
    on_failure: Literal["continue", "stop"] = "continue"
    timeout: Duration = 30_000_000_000
    sample_interval: Annotated[int, BeforeValidator(parse_duration), Field(ge=0)] = 100_000_000
    ceilings: StrictBool = True
