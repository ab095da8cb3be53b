"""Options of Flight, and by which servers are trusted and logged in to."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.credentials import INSTEAD, is_secret
from venturi.common.suffixes import parse_count
from venturi.targets.fields import Nullable, Table, Variable, handicap_text, user_name
from venturi.targets.setting import Setting
from venturi.targets.system import FILES, NETWORK, USERS

__all__ = ["Flight", "Login"]


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        plain = re.sub(r"(?i)^(basic|bearer|token)\s+", "", text)
        if (is_secret(name) or plain != text) and not plain.startswith("{env:"):
            raise ValueError(
                f"{name} would be stored with the run; name its variable by header_env, or {INSTEAD}"
            )
    return value


_ALL = dict.fromkeys(NETWORK)
_LOGS_IN = _ALL | dict.fromkeys(it for it in USERS if it not in FILES) | {"influx": None}
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
        _login(
            "Environment variable that holds its password.",
            systems=_LOGS_IN,
        ),
    ] = None
    token_env: Annotated[
        Variable | None,
        _login(
            "Environment variable that holds the bearer token.",
            systems=_ARROW | {"influx": None},
        ),
    ] = None
    tls_ca: Annotated[
        StrictStr | None,
        _login(
            "File of the certificate authority, for ...+tls://.",
            systems=_ALL,
            default="system authorities",
        ),
    ] = None
    tls_certificate: Annotated[
        StrictStr | None,
        _login(
            "File of the client's own certificate.",
            systems=_ALL,
        ),
    ] = None
    tls_key: Annotated[
        StrictStr | None,
        _login(
            "File of the client's own key.",
            systems=_ALL,
        ),
    ] = None
    tls_server_name: Annotated[
        StrictStr | None,
        _login(
            "Name to expect in the server's certificate.",
            systems=_ALL,
            default="the host",
        ),
    ] = None
    tls_insecure: Annotated[
        StrictBool,
        _login(
            "Do not check the server's certificate.",
            bool,
            systems=_ALL,
        ),
    ] = False
    headers: Annotated[
        dict[str, StrictStr],
        AfterValidator(_headers),
        _login(
            "NAME=VALUE sent with every call. Repeatable.",
            dict,
            systems=_ARROW,
            flag="--header",
            form="pairs",
            default="none",
        ),
    ] = Field(default_factory=dict)
    header_env: Annotated[
        dict[str, Variable],
        _login(
            "NAME=VARIABLE: a header whose value is in an environment variable. Repeatable.",
            dict,
            systems=_ARROW,
            form="pairs",
            default="none",
        ),
    ] = Field(default_factory=dict)


class Flight(Table):
    """Arrow Flight."""

    connections: Annotated[
        Literal["per-stream", "shared"],
        _flight(
            "per-stream or shared.",
            role="parallel",
        ),
    ] = "per-stream"
    window: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)]],
        _flight(
            "HTTP/2 flow-control window in bytes, as 4Mi; none = no limit.",
            int,
            systems=_GRPC,
            default="no limit",
        ),
    ] = None
    send_buffer: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=4096, le=2**30)]],
        _flight(
            "Bytes of a socket's send buffer; none = 256Ki on loopback, 512Ki of a Unix socket, else the "
            "kernel's.",
            int,
            systems=_GRPC,
            default="256 KiB on loopback, 512 KiB of a Unix socket, else the kernel's choice",
        ),
    ] = None
    max_message_size: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**32 - 1)],
        _flight(
            "Largest message accepted, in bytes.",
            int,
            systems=_ARROW,
            cell=None,
            default="`64Mi`",
        ),
    ] = 67_108_864
    protocol: Annotated[
        Literal["auto", "perf", "path", "command", "ticket"],
        _flight(
            "auto, perf, path, command or ticket.",
            doc=("`auto`, `perf` (Arrow's benchmark protocol), `path`, `command`, `ticket`"),
            role="workload",
        ),
    ] = "auto"
    ack: Annotated[
        Literal["stream", "batch"],
        _flight(
            "When a put batch counts as acknowledged: stream or batch.",
            doc=("when a put batch counts as acknowledged: `stream` (with its stream) or `batch`"),
            role="workload",
        ),
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
