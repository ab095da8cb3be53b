"""The seeded faults, and what should see each.

A fault is a patch. Its first line says what it breaks; a line `# not for prove: ...` says why `venturi prove`
does not see it, for example which test does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.shared import ROOT

FOLDER = Path(__file__).resolve().parent / "faults"
UNSEEN = "# not for prove: "
Step = tuple[str, ...]
"""Words after `cargo test` or `pytest`, which is the first of them."""


@dataclass(frozen=True)
class Fault:
    path: Path
    breaks: str
    unseen: str | None
    """Why `venturi prove` does not see it; None: it should."""
    touched: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def area(self) -> str:
        return self.name.partition("-")[0]

    @property
    def compiled(self) -> bool:
        return any(path.endswith(".rs") for path in self.touched)


def read(path: Path) -> Fault:
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    reason = lines[0].removeprefix(UNSEEN) if lines[0].startswith(UNSEEN) else None
    touched = tuple(line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/"))
    return Fault(path, head.removeprefix("# "), reason, touched)


def everything() -> list[Fault]:
    """By what they touch: two faults of one crate in a row are one build."""
    return sorted(map(read, FOLDER.glob("*.patch")), key=lambda fault: (fault.touched, fault.name))


def misfits(faults: Sequence[Fault]) -> list[str]:
    """Those that do not fit the tree any more: a patch that does not apply breaks nothing."""
    apply = ["git", "apply", "--check"]
    return [
        fault.name
        for fault in faults
        if subprocess.run([*apply, str(fault.path)], cwd=ROOT, capture_output=True).returncode
    ]


def _cargo(*crates: str) -> tuple[Step, ...]:
    return tuple(("cargo", "-p", f"venturi-{crate}") for crate in crates)


UNIT: Step = ("pytest", "tests/unit")
MACHINE: Step = ("pytest", "tests/machine")
# The quickest first; the longest prefix that fits counts.
_TESTS: dict[str, tuple[Step, ...]] = {
    "crates/base/": (*_cargo("base", "engine", "servers", "targets", "core"), UNIT, MACHINE),
    "crates/engine/": (*_cargo("engine", "core"), UNIT, MACHINE),
    "crates/targets/": (*_cargo("targets", "engine", "servers", "core"), UNIT, MACHINE),
    "crates/servers/": (*_cargo("servers", "engine", "core"), UNIT, MACHINE),
    "python/venturi/": (UNIT, MACHINE),
}
# One after the other, until a self-test fails.
_PROVED: dict[str, tuple[str, ...]] = {
    "crates/targets/src/charrow/": ("charrow://local",),
    "crates/servers/src/charrow/": ("charrow://local",),
    "crates/targets/src/timeseries/": ("opentsdb://local",),
    "crates/targets/src/upsert/": ("mysql://local",),
}
# Of code that all systems share.
_COMMON = ("flight://local", "charrow://local", "opentsdb://local")


def steps(fault: Fault) -> list[Step]:
    """The tests of what it touches. Raises KeyError if none are known."""
    found: dict[Step, None] = {}
    for path in fault.touched:
        known = max((prefix for prefix in _TESTS if path.startswith(prefix)), key=len, default=path)
        found |= dict.fromkeys(_TESTS[known])
    return list(found)


def targets(fault: Fault) -> list[str]:
    """What `venturi prove` tests, one after the other until one fails."""
    if fault.unseen is not None:
        return []
    found = [
        url
        for path in fault.touched
        for known, urls in _PROVED.items()
        if path.startswith(known)
        for url in urls
    ]
    flight = any("flight" in path for path in fault.touched)
    return list(dict.fromkeys(found)) or list(_COMMON[:1] if flight else _COMMON)


def spelled(step: Step) -> str:
    return " ".join(("cargo test", *step[1:]) if step[0] == "cargo" else step)
