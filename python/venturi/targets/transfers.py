"""Options of what moves batches: Flight and its log-in, Arrow over HTTP, charrow."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.credentials import INSTEAD, is_secret
from venturi.common.suffixes import parse_count
from venturi.targets.fields import (
    Nullable,
    Table,
    Variable,
    handicap_text,
    null,
    number_or_auto,
    pool_size,
    user_name,
)
from venturi.targets.setting import SEVERAL, Setting
from venturi.targets.system import NETWORK, SYSTEMS, TABLES


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        plain = re.sub(r"(?i)^(basic|bearer|token)\s+", "", text)
        if (is_secret(name) or plain != text) and not plain.startswith("{env:"):
            raise ValueError(
                f"{name} would be stored with the run; name its variable by header_env, or {INSTEAD}"
            )
    return value


_ALL = dict.fromkeys(NETWORK)
_LOGS_IN = _ALL | {it.scheme: None for it in SYSTEMS if it.users and not it.file} | {"influx": None}
_FLIGHT = {"flight": None}
_GRPC = {"flight": None, "flightsql": None}
_ARROW = _GRPC | {"http+arrow": None}
_login = partial(Setting, panel="Log-in and TLS", cell=None, credential=True)
_flight = partial(Setting, panel="Flight", systems=_FLIGHT)


class Login(Table):
    """Who we are. Secrets are names of environment variables."""

    user: Annotated[
        Annotated[StrictStr, AfterValidator(user_name)] | None,
        _login("User name.", systems=_LOGS_IN, default="the user in the URL"),
    ] = None
    password_env: Annotated[
        Variable | None,
        _login("Environment variable that holds its password.", systems=_LOGS_IN),
    ] = None
    token_env: Annotated[
        Variable | None,
        _login("Environment variable that holds the bearer token.", systems=_ARROW | {"influx": None}),
    ] = None
    tls_ca: Annotated[
        StrictStr | None,
        _login(
            "File of the certificate authority, for ...+tls://.", systems=_ALL, default="system authorities"
        ),
    ] = None
    tls_certificate: Annotated[
        StrictStr | None, _login("File of the client's own certificate.", systems=_ALL)
    ] = None
    tls_key: Annotated[StrictStr | None, _login("File of the client's own key.", systems=_ALL)] = None
    tls_server_name: Annotated[
        StrictStr | None,
        _login("Name to expect in the server's certificate.", systems=_ALL, default="the host"),
    ] = None
    tls_insecure: Annotated[StrictBool, _login("Do not check the server's certificate.", systems=_ALL)] = (
        False
    )
    headers: Annotated[
        dict[str, StrictStr],
        AfterValidator(_headers),
        _login(
            "NAME=VALUE sent with every call. Repeatable.", systems=_ARROW, flag="--header", default="none"
        ),
    ] = Field(default_factory=dict)
    header_env: Annotated[
        dict[str, Variable],
        _login(
            "NAME=VARIABLE: a header whose value is in an environment variable. Repeatable.",
            systems=_ARROW,
            default="none",
        ),
    ] = Field(default_factory=dict)


class Flight(Table):
    """Arrow Flight."""

    connections: Annotated[
        Literal["per-stream", "shared"], _flight("per-stream or shared.", role="parallel")
    ] = "per-stream"
    window: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)]],
        _flight(
            "HTTP/2 flow-control window in bytes, as 4Mi; none = no limit.", systems=_GRPC, default="no limit"
        ),
    ] = None
    send_buffer: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=4096, le=2**30)]],
        _flight(
            "Bytes of a socket's send buffer; none = 256Ki on loopback, 512Ki of a Unix socket, else the "
            "kernel's.",
            systems=_GRPC,
            default="256 KiB on loopback, 512 KiB of a Unix socket, else the kernel's choice",
        ),
    ] = None
    max_message_size: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**32 - 1)],
        _flight("Largest message accepted, in bytes.", systems=_ARROW, cell=None, default="`64Mi`"),
    ] = 67_108_864
    protocol: Annotated[
        Literal["auto", "perf", "path", "command", "ticket"],
        _flight(
            "auto, perf, path, command or ticket.",
            doc="`auto`, `perf` (Arrow's benchmark protocol), `path`, `command`, `ticket`",
            role="workload",
        ),
    ] = "auto"
    ack: Annotated[
        Literal["stream", "batch"],
        _flight("When a put batch counts as acknowledged: stream or batch.", role="workload"),
    ] = "stream"
    handicap: Annotated[
        Nullable[Annotated[str, BeforeValidator(handicap_text)]],
        Setting(
            "STAGE=TIME: CPU time to burn for every batch in a stage of the client, as decode=200us.",
            panel="Flight",
            systems=dict.fromkeys(("flight", "http+arrow", "charrow")),
            doc=(
                'CPU time to burn for every batch in a stage of the client, as `"decode=200us"`; several '
                "joined by `+`. A get has `decode` and `verify`, a put `generate`, `encode` and `verify`"
            ),
            role="workload",
        ),
    ] = None


_http = partial(Setting, panel="Arrow over HTTP", systems={"http+arrow": None})


class Http(Table):
    """Arrow IPC streams over HTTP."""

    http_compression: Annotated[
        Nullable[Literal["gzip", "zstd"]],
        _http(
            "Of the whole body by HTTP: gzip, zstd or none. A get asks for it, a put does it.",
            doc=(
                "the content encoding of the whole body: `gzip`, `zstd` or none. A get asks the server for "
                "it, which must follow; a put does it. `compression` is that of the batches within"
            ),
        ),
    ] = None
    body: Annotated[
        Nullable[Literal["chunked", "length"]],
        _http(
            "http+arrow: how a put says how long it is: chunked, or length, for which all is encoded first.",
            systems={"http+arrow": "chunked"},
            operations={"put": None},
            doc=(
                "how a put says where its body ends: `chunked`, batch by batch; or `length`, for which all "
                "batches are encoded before the first is sent"
            ),
        ),
    ] = None
    http_method: Annotated[
        Nullable[
            Annotated[
                Literal["POST", "PUT"], BeforeValidator(lambda v: v.upper() if isinstance(v, str) else v)
            ]
        ],
        _http(
            "http+arrow: the method of a put: POST or PUT.",
            systems={"http+arrow": "POST"},
            operations={"put": None},
        ),
    ] = None


QUERIES = "Queries (charrow, clickhouse, databases)"
"""Where the help has the flags of what is read by a query."""
GETS = {"get": None}
"""Of an option that a database has for gets alone."""
_charrow = partial(Setting, panel=QUERIES, systems={"charrow": None})


def _version(value: Any) -> Any:
    # TOML users leave the quotes out.
    return str(value) if isinstance(value, float) else value


class Charrow(Table):
    """Arrow blocks over TCP, one query shared by its partitions."""

    encoders: Annotated[
        Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] | None,
        BeforeValidator(number_or_auto),
        BeforeValidator(null),
        _charrow(
            f"Threads of the server that encode; auto = one a CPU there.{SEVERAL}",
            systems={"charrow": "auto"},
            doc=(
                'threads of the server that encode the query: 1 to 1024, `"cpus"`, or `"auto"`: as many '
                "as it says it has CPUs"
            ),
            role="parallel",
        ),
    ] = None
    decoders: Annotated[
        Nullable[Annotated[int, BeforeValidator(pool_size), Field(ge=0, le=256)]],
        _charrow(
            f"Threads of the client that decode; 0 = each partition's own.{SEVERAL}",
            doc="threads of the client that decode, for all streams together; `0`: each stream's own",
            systems={"charrow": 1},
            role="parallel",
        ),
    ] = None
    ring: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=2**16, le=2**26)]],
        _charrow(
            f"Bytes of a partition's ring in shared memory (charrow+shm).{SEVERAL} [default: 4Mi]",
            spec="ring_bytes",
            doc="of `charrow+shm://`: bytes of each partition's ring, 64 KiB to 64 MiB",
            default="`4Mi`",
        ),
    ] = None
    query: Annotated[
        Nullable[StrictStr],
        _charrow(
            "What to get, as SELECT * FROM trips; streams share it.",
            commas="text",
            systems=dict.fromkeys(("charrow", *TABLES)),
            operations=GETS,
            default="the URL's",
            role="workload",
        ),
    ] = None
    wire_version: Annotated[
        Literal["1.1", "1.2"] | None,
        BeforeValidator(_version),
        BeforeValidator(null),
        _charrow("Of the protocol: 1.2, or 1.1 for old peers.", systems={"charrow": "1.2"}, spec="version"),
    ] = None
    block_checksum: Annotated[StrictBool, _charrow("A checksum with every block (1.2).", spec="checksum")] = (
        False
    )
    max_block_size: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**40)]],
        _charrow(
            "Largest block accepted, in bytes. [default: 1GiB]",
            cell=None,
            systems=dict.fromkeys(("charrow", "exec", *TABLES)),
            operations=GETS,
            spec="max_block_bytes",
            doc="the largest block that is accepted, in bytes; of a database the largest batch",
            default="`1GiB`",
        ),
    ] = None
