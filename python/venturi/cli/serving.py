"""How a server starts, and what ends it: signals, or the end of whoever started it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from venturi.errors import ExitCode, VenturiError

__all__ = ["end_with_input", "signalled", "started"]


def started(core: Any, spec: dict[str, Any], where: str) -> Any:
    """A reference server of the core's. Raises VenturiError with its reason."""
    try:
        return core.serve(json.dumps(spec))
    except OSError as error:
        # Its text names the address or the directory, and what to do.
        raise VenturiError(str(error), ExitCode.UNREACHABLE) from None
    except (ValueError, RuntimeError) as error:
        raise VenturiError(f"cannot serve on {where}: {error}") from None


def signalled() -> threading.Event:
    """Set by the signals that end a server."""
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    return ending


def end_with_input() -> None:
    """From now on the end of standard input ends this process as SIGTERM does."""
    threading.Thread(target=_until_closed, daemon=True).start()


def _until_closed() -> None:
    # Raw reads: a buffered reader would hold its lock when the interpreter ends.
    while True:
        try:
            if not os.read(sys.stdin.fileno(), 4096):
                break
        except OSError:
            break
    os.kill(os.getpid(), signal.SIGTERM)
