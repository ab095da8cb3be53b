"""Archives of points, made by the core while this process looks on."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from typing import Any

from venturi.common.errors import ExitCode, StoreError, VenturiError

__all__ = ["make"]


def make(core: Any, spec: dict[str, Any], draw: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Makes the archives of this spec, and answers their manifest. Ctrl-C takes back what was begun.

    `draw` is told how many points are made, and of how many. Raises VenturiError.
    """
    control = core.Control()
    answer: list[str] = []
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(core.generate(json.dumps(spec), control))
        except BaseException as error:  # handed to the caller's thread, which raises it
            trouble.append(error)

    interrupted = threading.Event()
    before = None
    if threading.current_thread() is threading.main_thread():

        def stop(*_: object) -> None:
            interrupted.set()
            control.cancel()

        before = signal.signal(signal.SIGINT, stop)
    try:
        thread = threading.Thread(target=work, name="venturi-generate", daemon=True)
        thread.start()
        whole = spec["data"]["hosts"] * 10 * spec["steps"]
        while thread.is_alive():
            thread.join(0.2)
            if draw is not None:
                draw(int(control.progress().get("rows") or 0), whole)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    if interrupted.is_set() and trouble:
        raise VenturiError("interrupted; what was begun is removed", ExitCode.INTERRUPTED)
    if trouble:
        error = trouble[0]
        if isinstance(error, OSError):
            raise StoreError(str(error)) from None
        if isinstance(error, ValueError | RuntimeError):
            raise VenturiError(str(error)) from None
        raise error
    found = json.loads(answer[0])
    return found if isinstance(found, dict) else {}
