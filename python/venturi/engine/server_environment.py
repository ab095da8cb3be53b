"""What servers tell of themselves and of their hosts: of an address with several, each."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from venturi.common.errors import VenturiError
from venturi.common.runtime import load_core
from venturi.targets.system import REFERENCE, scheme_of
from venturi.targets.urls import each_host, place_of, split_url

__all__ = ["ask"]


def ask(url: str, options: Mapping[str, Any], seconds: float) -> dict[str, dict[str, Any] | None]:
    """The environment of each reference server of this address; all are asked at once, for so long."""
    answers: dict[str, dict[str, Any]] = {}
    urls = {place_of(one): split_url(one)._replace(path="", query="").geturl() for one in each_host(url)}
    function = f"{REFERENCE.get(scheme_of(url), 'flight')}_environment"

    def one(name: str) -> None:
        with contextlib.suppress(VenturiError, AttributeError, RuntimeError, OSError, ValueError):
            answer = getattr(load_core(), function)(urls[name], json.dumps(dict(options)))
            if isinstance(found := json.loads(answer) if answer else None, dict):
                answers[name] = found

    # The core is patient with a server that says nothing; a run need not be.
    threads = [
        threading.Thread(target=one, args=(name,), name="venturi-environment", daemon=True) for name in urls
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return {name: answers.get(name) for name in urls}
