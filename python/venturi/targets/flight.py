"""Options of Flight."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.credentials import is_secret
from venturi.common.suffixes import parse_count
from venturi.targets.fields import Table, Variable, handicap_text, null, user_name

__all__ = ["Flight", "Login"]


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if is_secret(name) or re.match(r"(?i)(basic|bearer|token)\s", text):
            raise ValueError(f"{name} would be stored with the run; name its variable by header_env")
    return value


class Login(Table):
    """Who we are. Secrets are names of environment variables."""

    user: Annotated[StrictStr, AfterValidator(user_name)] | None = None
    password_env: Variable | None = None
    tls_ca: StrictStr | None = None
    tls_certificate: StrictStr | None = None
    tls_key: StrictStr | None = None
    tls_server_name: StrictStr | None = None
    tls_insecure: StrictBool = False


class Flight(Table):
    """Arrow Flight."""

    connections: Literal["per-stream", "shared"] = "per-stream"
    window: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**31 - 1)] | None, BeforeValidator(null)
    ] = None
    send_buffer: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=4096, le=2**30)] | None, BeforeValidator(null)
    ] = None
    max_message_size: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**32 - 1)] = 67_108_864
    protocol: Literal["auto", "perf", "path", "command", "ticket"] = "auto"
    ack: Literal["stream", "batch"] = "stream"
    handicap: Annotated[Annotated[str, BeforeValidator(handicap_text)] | None, BeforeValidator(null)] = None
    token_env: Variable | None = None
    headers: Annotated[dict[str, StrictStr], AfterValidator(_headers)] = Field(default_factory=dict)
    header_env: dict[str, Variable] = Field(default_factory=dict)
