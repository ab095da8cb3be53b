"""The process that answers queries to a store of time series, as its parent sees it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

from venturi.common.errors import ExitCode, VenturiError

__all__ = ["Queries"]

_GRACE = 5.0  # seconds


class Queries:
    """`.flight` in a process of its own, which ends with this one, however that ends."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process = process
        self.address = address

    @classmethod
    def start(cls, folder: Path, host: str, port: int | None) -> Queries | None:
        """Serves queries of the store in `folder`; None where no port is given.

        Raises VenturiError where it cannot listen.
        """
        if port is None:
            return None
        words = [
            sys.executable,
            "-m",
            "venturi.servers.timeseries.flight",
            str(folder.absolute()),
            host,
            str(port),
        ]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        said = json.loads(line) if line else {"error": "its process has ended, see above"}
        queries = cls(process, said.get("address", ""))
        if "error" in said:
            queries.close()
            raise VenturiError(
                f"--flight {port}: cannot serve on {host}: {said['error']}",
                ExitCode.UNREACHABLE,
                hint="another program may have the port; --flight 0 takes a free one",
            )
        return queries

    def close(self) -> None:
        """Ends all queries, and takes no more."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
