"""Reference servers of `X://local` in this process instead of one each: the core's part of `venturi serve`
alone, which spares the start of a Python."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.flight import KINDS, served
from venturi.common.environment import describe
from venturi.servers.reference import Server, start_local


class ServerInProcess:
    """As `ReferenceServer`; it lives until it is stopped."""

    def __init__(self, kind: str, tables: dict[str, Path]) -> None:
        self._ends = contextlib.ExitStack()
        environment = describe()
        address = self._ends.enter_context(served(kind, tables, environment=environment))
        self.hello: dict[str, Any] = {"address": address, "pid": os.getpid(), "environment": environment}
        self.running = True

    @property
    def address(self) -> str:
        return str(self.hello["address"])

    def complaint(self) -> str:
        return ""

    def stop(self) -> None:
        self.running = False
        self._ends.close()


def start_in_process(kind: str, arguments: Sequence[str], remote: bool = False) -> Server:
    """The `Starter` of a run without hosts."""
    if remote or kind not in KINDS:
        return start_local(kind, arguments, remote)
    assert set(arguments[::2]) <= {"--ready"}, arguments
    names = [word.partition("=") for word in arguments[1::2]]
    return ServerInProcess(kind, {name: Path(path) for name, _, path in names})
