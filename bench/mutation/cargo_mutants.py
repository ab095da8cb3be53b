"""cargo-mutants over what measures and what verifies: which small changes do Rust's tests not see?"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mutation.tree import PROFILE, Broken, Tree

# What is not in a list of files is nobody's measure: protocols and servers have tests of their own kind.
FILES = (
    "crates/base/src/meter/**/*.rs",
    "crates/base/src/data/digest.rs",
    "crates/base/src/data/payload.rs",
    "crates/base/src/codec/account.rs",
    "crates/engine/src/**/*.rs",
    "crates/servers/src/account.rs",
    "crates/targets/src/**/verify.rs",
    "crates/targets/src/upsert/check.rs",
)


def command(words: Sequence[str], tree: Path, output: Path) -> list[str]:
    """`words` are cargo-mutants' own; where they name files, those take the place of ours."""
    named = any(word in ("-f", "--file") or word.startswith("--file=") for word in words)
    files = [] if named else [part for file in FILES for part in ("--file", file)]
    arguments = [f"--cargo-arg={word}" for word in PROFILE]
    return [
        *("nice", "-n", "10", "cargo", "mutants", "--in-place", "--dir", str(tree)),
        *("--output", str(output), *arguments, *files, *words),
    ]


def run(words: Sequence[str], place: Path) -> int:
    """Its exit status: 2 where a mutant was missed, 3 where one ran out of time."""
    if shutil.which("cargo-mutants") is None:
        raise Broken("cargo-mutants is not installed: cargo install --locked cargo-mutants")
    tree = Tree(place)
    try:
        return subprocess.run(command(words, tree.at, place), env=tree.environment).returncode
    finally:
        tree.close()
