"""Options of charrow."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictStr

from venturi.common.suffixes import parse_count
from venturi.targets.fields import Nullable, Table, null, number_or_auto, pool_size
from venturi.targets.setting import SEVERAL, Setting
from venturi.targets.system import TABLES

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
            int,
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
            int,
            systems={"charrow": 1},
            doc="threads of the client that decode, for all streams together; `0`: each stream's own",
            role="parallel",
        ),
    ] = None
    ring: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=2**16, le=2**26)]],
        _charrow(
            f"Bytes of a partition's ring in shared memory (charrow+shm).{SEVERAL} [default: 4Mi]",
            int,
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
    block_checksum: Annotated[
        StrictBool, _charrow("A checksum with every block (1.2).", bool, spec="checksum")
    ] = False
    max_block_size: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=2**40)]],
        _charrow(
            "Largest block accepted, in bytes. [default: 1GiB]",
            int,
            cell=None,
            systems=dict.fromkeys(("charrow", "exec", *TABLES)),
            operations=GETS,
            spec="max_block_bytes",
            doc="the largest block that is accepted, in bytes; of a database the largest batch",
            default="`1GiB`",
        ),
    ] = None
