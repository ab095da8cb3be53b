"""Packages with targets in Python, installed into a directory of their own, and trials of such targets."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.run import ROOT, environment
from venturi import _core
from venturi.engine.plugin_calls import Calls
from venturi.plugin import Trial, digest
from venturi.targets.plugins import Plugin

EXAMPLE = ROOT / "examples" / "venturi-target-example"
PAGE = ROOT / "docs" / "extend.md"
INSTALL = ("install", "--root", "/", "--single-version-externally-managed", "--install-lib")


def installed(source: Path, site: Path) -> None:
    """Builds a package and installs it there, with nothing from any network: by pip where what pip needs to
    make a wheel is here, else by setuptools itself."""
    copy = site.parent / f"{source.name}-source"
    shutil.copytree(source, copy)
    # From 70.1 on setuptools makes wheels by itself.
    recent = tuple(map(int, metadata.version("setuptools").split(".")[:2])) >= (70, 1)
    wheels = importlib.util.find_spec("pip") and (recent or importlib.util.find_spec("wheel"))
    by_pip = ["-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index",
              "--target", str(site), "."]  # fmt: skip
    by_itself = ["-c", "import setuptools; setuptools.setup()", "--quiet", *INSTALL, str(site)]
    done = subprocess.run(
        [sys.executable, *(by_pip if wheels else by_itself)],
        cwd=copy, env=environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def package(site: Path, name: str, source: str, scheme: str = "mine", version: str = "0.1") -> None:
    """A package as an installer leaves it: a module whose `Target` is the target, and its entry point."""
    module = name.replace("-", "_")
    site.mkdir(exist_ok=True)
    (site / f"{module}.py").write_text(source)
    told = site / f"{module}-{version}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (told / "entry_points.txt").write_text(f"[venturi.targets]\n{scheme} = {module}:Target\n")


def venturi_with(site: Path | None, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`venturi WORDS` in a process that finds the packages there."""
    paths = [str(site), environment()["PYTHONPATH"]] if site is not None else [environment()["PYTHONPATH"]]
    return subprocess.run(
        [sys.executable, "-m", "venturi", *map(str, words)],
        cwd=cwd, env=environment(PYTHONPATH=os.pathsep.join(paths)), capture_output=True, text=True,
        timeout=120, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


SERVES = """
import json, os, sys
from pathlib import Path

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # so that nothing but answers goes there
from support.run import venturi

for line in sys.stdin:
    cwd, *words = json.loads(line)
    done = venturi(*words, cwd=Path(cwd))
    print(json.dumps([done.returncode, done.stdout, done.stderr]), file=answers, flush=True)
"""


class Beside:
    """A process that finds the packages of a site, and runs one command after the other."""

    def __init__(self, site: Path | None) -> None:
        paths = [*([str(site)] if site is not None else []), environment()["PYTHONPATH"]]
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVES], env=environment(PYTHONPATH=os.pathsep.join(paths)), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
        """`venturi WORDS`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([str(cwd), *map(str, words)]), file=self._process.stdin, flush=True)
        return subprocess.CompletedProcess(words, *json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def tried(target: Any, operation: str = "get", **more: Any) -> dict[str, Any]:
    """The record of a trial of this target, in this process."""
    spec = {
        "trial": "t", "target": "mine://there", "operation": operation, "rows_per_batch": 100,
        "data": {"source": "records", "columns": 2}, "rows_per_stream": 1000, "streams": 2, "threads": 2,
        "timeout_ns": 30_000_000_000, "options": {}, **more,
    }  # fmt: skip
    spec = {name: value for name, value in spec.items() if value is not None}
    calls = Calls(Plugin("mine", "mine 0.1", target), spec)
    record: dict[str, Any] = json.loads(_core.run_trial(json.dumps(spec), _core.Control(), calls))
    return record


class Good:
    """Delivers the trial's rows, and takes what it is given."""

    interface = 1
    name = "Good"
    operations = ("get", "put")

    def plan(self, trial: Trial) -> Any:
        self.trial, self.closed = trial, 0
        return self

    def produce(self, stream: int) -> Any:
        return self.trial.stream()

    def consume(self, stream: int) -> Any:
        return Takes()

    def close(self) -> None:
        self.closed += 1


class Takes:
    def __init__(self) -> None:
        self.rows = self.sum = 0

    def write(self, batch: Any) -> None:
        self.rows += pa.record_batch(batch).num_rows
        self.sum += digest(batch)

    def finish(self) -> Any:
        return self.rows, self.sum
