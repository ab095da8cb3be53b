"""Two runs to be compared: made alike, with an edit."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.synthetic import ENVIRONMENT, make_run

Line = dict[str, Any]


def slower(factor: float, when: str = "True") -> Any:
    """An edit that makes trials take longer where the condition over their parameters holds."""

    def edit(line: Line) -> Line:
        if eval(when, {}, line["parameters"]):
            times = line["times"]
            times["interval_ns"] = int(times["interval_ns"] * factor)
            times["steady_ns"] = int(times["steady_ns"] * factor)
        return line

    return edit


def fresh(seed: str) -> Any:
    """The same run once more: other noise, because the model draws it from the trial's id."""

    def edit(line: Line) -> Line:
        import random

        line["times"]["interval_ns"] = int(
            line["times"]["interval_ns"] * random.Random(seed + line["trial"]).gauss(1.0, 0.01)
        )
        return line

    return edit


def chain(*edits: Any) -> Any:
    def edit(line: Line) -> Line | None:
        for one in edits:
            line = one(line)
        return line

    return edit


def environment(**changes: Any) -> dict[str, Any]:
    found = copy.deepcopy(ENVIRONMENT)
    client = {
        "host": "bench-1", "system": "Linux", "kernel": "6.1.0", "architecture": "x86_64", "cpu": "Model CPU",
        "cores": {"logical": 8, "physical": 4, "usable": 8}, "governor": "performance", "virtualised": "no",
        "memory": {"total": 64 * 2**30}, "software": {"venturi": "0.1.0"}, "loadavg": [0.1, 0.1, 0.1],
        "sysctls": {"net.core.rmem_max": "212992", "vm.swappiness": "60"},
    }  # fmt: skip
    found["client"] = client | changes
    found["server"] = copy.deepcopy(found["client"])
    return found


@pytest.fixture(scope="module", name="base")
def base_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only, so one is enough."""
    path = tmp_path_factory.mktemp("compare") / "base"
    return make_run(path, environment=environment() | {"run": "base"}, samples=False)


def run_like(path: Path, edit: Any = None, name: str = "run", repeats: int = 5, **more: Any) -> Path:
    """Another run of the same matrix with other noise."""
    changed = chain(fresh(name), edit) if edit else fresh(name)
    described = more.pop("environment", environment())
    return make_run(
        path / name,
        edit=changed,
        repeats=repeats,
        samples=False,
        environment=described | {"run": name},
        **more,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Standard output in one line, however it was folded."""
    return " ".join(done.stdout.split())
