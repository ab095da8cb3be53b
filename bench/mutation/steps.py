"""Which proofs and tests belong to a file that a fault touches, the quickest first."""

from __future__ import annotations

from collections.abc import Sequence

Step = tuple[str, ...]
"""A command; its first word (`cargo`, `pytest`, `pytest --slow`) is spelled out by who runs it."""


def _cargo(crate: str) -> Step:
    return ("cargo", "-p", f"venturi-{crate}")


def _pytest(*names: str) -> Step:
    return ("pytest", *(f"tests/test_{name}.py" for name in names))


EVERYTHING: Step = ("pytest",)
"""All that `make test` runs in Python."""
REAL: Step = ("pytest --slow", *_pytest("stages", "run_core", "flight_interop_client", "charrow_target")[1:])
"""Trials against servers of ours and of pyarrow."""

# One after the other, until a proof fails.
PROVED: dict[str, Sequence[str]] = {
    "crates/targets/src/charrow/": ("charrow://local",),
    "crates/servers/src/charrow/": ("charrow://local",),
    "crates/targets/src/timeseries/": ("opentsdb://local",),
    "crates/targets/src/upsert/": ("sqlite://local", "mysql://local"),
}
# Of code that all systems share.
COMMON = ("flight://local", "charrow://local", "sqlite://local", "opentsdb://local")

# The longest that fits counts.
BELONGS: dict[str, Sequence[Step]] = {
    "crates/base/": (*map(_cargo, ("base", "engine", "servers", "targets", "core")), EVERYTHING, REAL),
    "crates/engine/": (*map(_cargo, ("engine", "core")), EVERYTHING, REAL),
    "crates/targets/": (*map(_cargo, ("targets", "engine", "servers", "core")), EVERYTHING, REAL),
    "crates/servers/": (*map(_cargo, ("servers", "engine", "core")), EVERYTHING, REAL),
    "python/venturi/common/": (_pytest("units", "suffixes", "statistics"), EVERYTHING),
    "python/venturi/common/hdr.py": (_pytest("cluster_merge", "import_formats"), EVERYTHING),
    "python/venturi/cluster/": (_pytest("cluster_merge", "cluster_lineup"), EVERYTHING),
    "python/venturi/analysis/statistics/": (_pytest("statistics", "difference", "claims"), EVERYTHING),
    "python/venturi/analysis/cells/": (_pytest("statistics", "ceilings", "verdict"), EVERYTHING),
    "python/venturi/analysis/verdict/": (_pytest("verdict", "findings"), EVERYTHING),
}


def belonging(path: str) -> Sequence[Step]:
    """Raises KeyError where nobody has said."""
    return BELONGS[max((known for known in BELONGS if path.startswith(known)), key=len, default=path)]


def of(touched: Sequence[str]) -> list[Step]:
    return list(dict.fromkeys(step for path in touched for step in belonging(path)))


def targets(touched: Sequence[str]) -> list[str]:
    """What `venturi prove` is told to prove, one after the other until one fails."""
    found = [
        url for path in touched for known, urls in PROVED.items() if path.startswith(known) for url in urls
    ]
    flight = any("flight" in path for path in touched)
    return list(dict.fromkeys(found)) or list(COMMON[:1] if flight else COMMON)


def spelled(step: Step) -> str:
    """For people."""
    return " ".join(("cargo test", *step[1:]) if step[0] == "cargo" else step)
