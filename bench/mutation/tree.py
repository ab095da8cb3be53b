"""A copy of HEAD to put faults into, its build, and commands in it that end in time."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.faults import Fault
from mutation.steps import Step
from shared import ROOT

JOBS = max(2, min(8, 2 * (os.cpu_count() or 1)))

# Our crates are compiled again for every fault, so quickly; what they depend on is as `make` has it, whose
# artefacts do. An override for all packages would change their build scripts as well.
CRATES = ("base", "core", "engine", "python", "servers", "targets")
PROFILE = (
    "--release",
    *("--config", "profile.release.incremental=true"),
    *(
        word
        for crate in CRATES
        for setting in ("opt-level=1", "debug=false")
        for word in ("--config", f"profile.release.package.venturi-{crate}.{setting}")
    ),
)
# A proof has a deadline of its own: only a busy machine takes it so long, or a fault that hangs it.
BUILD_SECONDS, PROVE_SECONDS, STEP_SECONDS = 1800, 60, 1200
MOST_SAID = 32 << 20
"""Characters that are kept of what a command says; proofs that fail say a megabyte."""


@dataclass(frozen=True)
class Ended:
    """How a command ended; `code` None: not in time."""

    code: int | None
    seconds: float
    said: str

    @property
    def good(self) -> bool:
        return self.code == 0

    @property
    def last(self) -> str:
        if self.code is None:
            return f"no end after {self.seconds:.0f} s"
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.code}"


def proofs(ended: Ended, outcome: str) -> list[str]:
    """Those with this outcome, by their names; a crash, or one that did not end, has none."""
    return [proof["name"] for proof in _proofs(ended) if proof["outcome"] == outcome]


def wrong_checks(ended: Ended) -> list[str]:
    """What failed, as JSON."""
    return [
        f"{proof['name']}: {json.dumps(check)}"
        for proof in _proofs(ended)
        for check in proof["checks"]
        if check["outcome"] == "failed"
    ]


def _proofs(ended: Ended) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(ended.said[ended.said.index("{") :])["proofs"]
        return found
    except (ValueError, KeyError, TypeError):
        return []


class Broken(Exception):
    """The bench itself cannot go on."""


def git(*words: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


class Tree:
    """At a fixed place: cargo knows our crates by their paths, and would compile all of them again."""

    def __init__(self, place: Path) -> None:
        self.at, self._target = place / "tree", place / "cargo"
        compiled = ROOT / "target" / "release"
        if not self._target.exists() and compiled.exists():
            for part in ("deps", "build", ".fingerprint"):
                shutil.copytree(compiled / part, self._target / "release" / part, symlinks=True)
        self._cache = tempfile.TemporaryDirectory(prefix="venturi-mutation-")
        if not (self.at / ".git").exists():
            self.at.parent.mkdir(parents=True, exist_ok=True)
            # Not a worktree, which whoever clears `target` would leave behind in this repository.
            git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(self.at))
        git("fetch", "--quiet", "origin", "HEAD", cwd=self.at)
        git("checkout", "--quiet", "--force", "--detach", "FETCH_HEAD", cwd=self.at)

    def reset(self) -> None:
        git("checkout", "--quiet", "--", ".", cwd=self.at)

    def apply(self, fault: Fault) -> None:
        # As it stands in the copy: who edits meanwhile does not matter.
        git("apply", str(fault.path.relative_to(ROOT)), cwd=self.at)

    def build(self) -> Ended:
        """The package of what stands in the tree."""
        built = self._run(
            ["cargo", "build", "--locked", "--quiet", *PROFILE, "-p", "venturi-python"],
            BUILD_SECONDS,
            gently=True,
        )
        if built.good:
            fresh = self.at / "python/venturi/fresh.so"
            suffix = "dylib" if sys.platform == "darwin" else "so"
            shutil.copy2(self._target / f"release/lib_core.{suffix}", fresh)
            # A process of the last fault may have the old one mapped.
            fresh.replace(fresh.with_name("_core.abi3.so"))
        return built

    def prove(self, target: str) -> Ended:
        words = [sys.executable, "-m", "venturi", "prove", target, "--quiet", "--format", "json"]
        return self._run(words, PROVE_SECONDS)

    def step(self, step: Step) -> Ended:
        kind, *rest = step
        if kind == "cargo":
            words = ["cargo", "test", "--locked", "--quiet", *PROFILE, *rest]
        else:
            words = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:rerunfailures",
                *rest,
            ]
            # The patches are not made for a tree that has one of them.
            words += ["--ignore=tests/test_mutation.py"]
            if not rest:
                words += ["-n", str(JOBS), "--dist=loadgroup", "--no-loadscope-reorder", "-m", "not noisy"]
            elif kind == "pytest":
                words += ["-m", "not slow and not noisy"]
        return self._run(words, STEP_SECONDS, gently=True)

    def close(self) -> None:
        self.reset()
        self._cache.cleanup()

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "CARGO_TARGET_DIR": str(self._target),
            "PYTHONPATH": str(self.at / "python"),
            "XDG_CACHE_HOME": self._cache.name,
            "NO_COLOR": "1",
            "CARGO_TERM_COLOR": "never",
        }

    def _run(self, words: Sequence[str], most: float, gently: bool = False) -> Ended:
        began = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            process = subprocess.Popen(
                ["nice", "-n", "10", *words] if gently else list(words),
                cwd=self.at,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code: int | None
            try:
                code = process.wait(most)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                # Also what it has started and left behind: a server, or a test that hangs.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            said.seek(0)
            return Ended(code, time.monotonic() - began, said.read()[-MOST_SAID:])
