"""Options of Arrow over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import BeforeValidator

from venturi.targets.fields import Nullable, Table
from venturi.targets.setting import Setting

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
            doc="the method of a put: `POST` or `PUT`",
        ),
    ] = None
