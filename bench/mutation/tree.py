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

from bench.mutation.faults import Fault, Step
from bench.shared import ROOT

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
_MOST_OUTPUT = 32 << 20
"""Characters that are kept of what a command prints; proofs that fail print a megabyte."""


@dataclass(frozen=True)
class Ended:
    """How a command ended; `code` None: not in time."""

    code: int | None
    seconds: float
    output: str

    @property
    def good(self) -> bool:
        return self.code == 0

    @property
    def last(self) -> str:
        if self.code is None:
            return f"no end after {self.seconds:.0f} s"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.code}"

    def proofs(self, outcome: str) -> list[str]:
        """The names of those with this outcome; a command that crashed has none."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found: list[dict[str, Any]] = json.loads(self.output[self.output.index("{") :])["proofs"]
            return [proof["name"] for proof in found if proof["outcome"] == outcome]
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
        self._at, self._target = place / "tree", place / "cargo"
        compiled = ROOT / "target" / "release"
        if not self._target.exists() and compiled.exists():
            for part in ("deps", "build", ".fingerprint"):
                shutil.copytree(compiled / part, self._target / "release" / part, symlinks=True)
        self._cache = tempfile.TemporaryDirectory(prefix="venturi-mutation-")
        if not (self._at / ".git").exists():
            self._at.parent.mkdir(parents=True, exist_ok=True)
            # Not a worktree, which would stay registered here after `target` is removed.
            git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(self._at))
        git("fetch", "--quiet", "origin", "HEAD", cwd=self._at)
        git("checkout", "--quiet", "--force", "--detach", "FETCH_HEAD", cwd=self._at)

    def reset(self) -> None:
        git("checkout", "--quiet", "--", ".", cwd=self._at)

    def apply(self, fault: Fault) -> None:
        # As it is in the copy: edits in the meantime do not matter.
        git("apply", str(fault.path.relative_to(ROOT)), cwd=self._at)

    def build(self) -> Ended:
        command = ["cargo", "build", "--locked", "--quiet", *PROFILE, "-p", "venturi-python"]
        built = self._run(command, BUILD_SECONDS, gently=True)
        if built.good:
            fresh = self._at / "python/venturi/fresh.so"
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
            words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *rest]
            if rest[0] == "tests/unit":
                words += ["-n", str(max(2, os.cpu_count() or 1)), "--dist=loadgroup"]
        return self._run(words, STEP_SECONDS, gently=True)

    def close(self) -> None:
        self.reset()
        self._cache.cleanup()

    def _run(self, words: Sequence[str], seconds: float, gently: bool = False) -> Ended:
        environment = {
            **os.environ,
            "CARGO_TARGET_DIR": str(self._target),
            "PYTHONPATH": str(self._at / "python"),
            "XDG_CACHE_HOME": self._cache.name,
            "NO_COLOR": "1",
            "CARGO_TERM_COLOR": "never",
        }
        began = time.monotonic()
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(
                ["nice", "-n", "10", *words] if gently else list(words), cwd=self._at, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            code: int | None = None
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(seconds)
            finally:
                # Also what it has started and left behind: a server, or a test that hangs.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.seek(0)
            return Ended(code, time.monotonic() - began, output.read()[-_MOST_OUTPUT:])
