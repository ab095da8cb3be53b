"""The process in the middle of the laboratory, in a network namespace of its own.

It holds one more for each end, client or server, by a process that waits for its input to end. Nothing
of all this has a name: namespaces, interfaces and queues go with the last process in them, and these
processes end with this one, which ends when its input does. So nothing is left behind, whatever ends it.

It answers calls (`venturi.engine.calls`), one after another.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from venturi.common.runtime import load_core
from venturi.engine.calls import serve_parent

_SECONDS = 20.0


def main(names: Sequence[str]) -> NoReturn:
    """Holds a namespace for each of these ends."""
    with contextlib.ExitStack() as ends:
        serve_parent(_Keeper(names, ends), one_at_a_time=True)
        # The caller has gone.
        os._exit(0)


class _Keeper:
    def __init__(self, names: Sequence[str], ends: contextlib.ExitStack) -> None:
        self._core = load_core()
        self._relay: Any = None
        self._fillers: list[Any] = []
        self._pids = {name: _holder(ends) for name in names}

    def pids(self, _: object) -> dict[str, int]:
        """The process that holds the namespace of each end."""
        return self._pids

    def run(self, order: dict[str, Any]) -> None:
        """Runs a command in a namespace, here where none is named. Raises OSError with what it said."""
        words = list(order["words"])
        if where := order.get("where"):
            words = ["nsenter", f"--net={self._namespace(where)}", "--", *words]
        done = subprocess.run(
            words, input=order.get("text") or "", capture_output=True, text=True, timeout=_SECONDS
        )
        if done.returncode and not order.get("may_fail"):
            output = (done.stderr or done.stdout).strip().splitlines()
            raise OSError(
                f"{' '.join(order['words'])}: {output[0] if output else f'status {done.returncode}'}"
            )

    def relay(self, order: dict[str, Any] | None) -> None:
        """Puts a relay between the interfaces, in the place of the one that is there; or none."""
        relay, self._relay = self._relay, None
        if relay is not None:
            with contextlib.suppress(OSError):
                # That it had ended before was told by `passed`.
                relay.stop()
        if order is not None:
            self._relay = self._core.LinkRelay(json.dumps(order))

    def fill(self, order: list[dict[str, Any]]) -> None:
        """Sends traffic of others out of these interfaces, in the place of what was sent before."""
        for filler in self._fillers:
            filler.stop()
        self._fillers = [self._core.LinkFiller(json.dumps(one)) for one in order]

    def look(self, order: dict[str, Any]) -> Any:
        """What the path between the two ends is."""
        for end in order["ends"]:
            end["namespace"] = self._namespace(end["namespace"])
        return json.loads(self._core.link_look(json.dumps(order)))

    def passed(self, _: object) -> Any:
        """What has passed so far: of the relay, both ways, and of each traffic of others bits and seconds."""
        relayed = json.loads(self._relay.passed()) if self._relay is not None else []
        return {"relay": relayed, "fill": [filler.sent() for filler in self._fillers]}

    def _namespace(self, name: str) -> str:
        return f"/proc/{self._pids[name]}/ns/net"


def _holder(ends: contextlib.ExitStack) -> int:
    """A process in a namespace of its own, which waits."""
    made = subprocess.Popen(["unshare", "--net", "--", "cat"], stdin=subprocess.PIPE)
    assert made.stdin is not None
    ends.callback(made.wait)
    ends.callback(made.stdin.close)
    own = os.readlink("/proc/self/ns/net")
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and made.poll() is None:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{made.pid}/ns/net") != own:
                return made.pid
        time.sleep(0.002)
    raise OSError("no namespace could be made")


if __name__ == "__main__":
    main(sys.argv[1:])
