"""Venturi's own program of exec://, for where none is named. It does what the variables say that every
program is given (docs/targets/exec.md)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

OWN = (sys.executable, "-m", "venturi.servers.program")


def main(environment: Mapping[str, str] = os.environ) -> int:
    from venturi.common.runtime import load_core

    try:
        spec = _spec(environment)
    except KeyError as error:
        print(
            f"{error.args[0]} is not set: `venturi run --target exec://` starts this program", file=sys.stderr
        )
        return 2
    try:
        rows, checksum = load_core().program(json.dumps(spec))
    except (ValueError, RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if spec["operation"] == "put":
        print(f"rows={rows} checksum={checksum:016x}")
    return 0


def _spec(environment: Mapping[str, str]) -> dict[str, Any]:
    """Of the core's program."""

    def variable(name: str) -> str:
        return environment[f"VENTURI_{name.upper()}"]

    data: dict[str, Any] | None = None
    if variable("arrow_file"):
        data = {"source": "file", "path": variable("data"), "ipc": variable("arrow_file")}
    elif variable("columns"):
        data = {"source": "records", "columns": int(variable("columns"))}
        data |= {"values": variable("values"), "seed": int(variable("seed"))}
    return {
        "operation": variable("operation"),
        "data": data,
        "rows_per_batch": int(variable("rows_per_batch")),
        "rows": int(variable("rows")) if variable("rows") else None,
    }


if __name__ == "__main__":
    sys.exit(main())
