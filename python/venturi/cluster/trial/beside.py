"""`--on here,WHERE`: each cell placed there, and the same cell in this process beside it, in one run."""

from __future__ import annotations

import json
from typing import Any

from venturi.cluster.trial.handle import ClusterControl
from venturi.engine.executor import CoreExecutor, TrialControl

__all__ = ["Beside"]


class _Control(ClusterControl):
    """The handle on a trial, wherever it runs."""

    def __init__(self, here: TrialControl) -> None:
        super().__init__()
        self.here = here
        self.is_here = False

    def cancel(self) -> None:
        super().cancel()
        self.here.cancel()

    def progress(self) -> Any:
        return self.here.progress() if self.is_here else super().progress()


class Beside:
    """Trials that have loaders, and probes of their ways, run where `placed` runs them; all else does in this
    process."""

    needs_server = True
    measures = True

    def __init__(self, placed: Any) -> None:
        self._placed = placed
        self._here = CoreExecutor()

    def __getattr__(self, name: str) -> Any:
        # What only some placements have: loaders, check, environments, starter.
        return getattr(self._placed, name)

    def control(self) -> TrialControl:
        return _Control(self._here.control())

    def _run_here(self, method: str, spec: str, control: TrialControl) -> str:
        assert isinstance(control, _Control)
        control.is_here = True
        return str(getattr(self._here, method)(spec, control.here))

    def run_trial(self, spec: str, control: TrialControl) -> str | dict[str, Any]:
        if json.loads(spec).get("loaders"):
            placed: dict[str, Any] = self._placed.run_trial(spec, control)
            return placed
        return self._run_here("run_trial", spec, control)

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        if json.loads(spec).get("from"):
            return str(self._placed.probe_tcp(spec, control))
        return self._run_here("probe_tcp", spec, control)

    def probe(self, spec: str, control: TrialControl) -> str:
        return self._run_here("probe", spec, control)

    def close(self) -> None:
        self._placed.close()
