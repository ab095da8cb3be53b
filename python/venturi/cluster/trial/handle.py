"""How a driver speaks to its loaders: calls that are answered later, wherever the loader is."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from venturi.cluster.trial.clock import Clock

__all__ = ["ClusterControl", "Handle"]


class Handle(Protocol):
    """A loader, near or far."""

    clock: Clock
    """Its host's, as it was measured last."""
    identity: Mapping[str, Any]
    """What its `identify` has answered."""

    @property
    def name(self) -> str:
        """As loader-1."""

    @property
    def address(self) -> str | None:
        """Where it runs."""

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """A method of its `Loader`. The future fails where the loader does, or is no more."""


class ClusterControl:
    """The handle on a trial of several loaders, as `_core.Control` is that on one here; for any thread."""

    def __init__(self) -> None:
        self._cancel = threading.Event()
        self._progress: dict[str, Any] = {"phase": "set-up", "rows": 0, "payload_bytes": 0, "batches": 0}

    def cancel(self) -> None:
        self._cancel.set()

    @property
    def cancelled(self) -> bool:
        return self._cancel.is_set()

    def progress(self) -> dict[str, Any]:
        return self._progress

    def update(self, progress: Mapping[str, Any]) -> None:
        """Called by whoever runs the trial."""
        self._progress = dict(progress)
