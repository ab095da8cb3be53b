"""Handicaps: a stage slowed down on purpose, to see whether the figures tell which one it was."""

from __future__ import annotations

from venturi.common.suffixes import parse_duration, spell_duration

STAGES = ("generate", "encode", "decode", "verify", "apply")
CLIENT_STAGES = {"get": ("decode", "verify"), "put": ("generate", "encode", "verify")}
"""Stages of the client in each operation; verify only with `verify = "checksum"`."""
SERVER_STAGES: dict[str, dict[str, tuple[str, ...]]] = {
    "flight": {"get": ("generate", "encode"), "put": ("decode", "verify", "apply")},
    "http+arrow": {"get": ("generate", "encode"), "put": ("decode", "verify", "apply")},
    "charrow": {"get": ("generate", "encode")},
}
"""The same of the servers that `venturi serve` can slow down, for `records`; apply only where a put is
kept."""
_MOST_NS = 10_000_000_000


def nanoseconds(text: str) -> dict[str, int]:
    """`decode=200us`, several joined by `+`, as nanoseconds a batch by stage. Raises ValueError."""
    found: dict[str, int] = {}
    for part in str(text).split("+"):
        stage, equals, time = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ValueError(f"{text!r} must be written STAGE=TIME, as decode=200us; several joined by +")
        if stage not in STAGES:
            raise ValueError(f"no stage is called {stage!r}; known: {', '.join(STAGES)}")
        if stage in found:
            raise ValueError(f"{stage} is there twice")
        if not time or time[-1].isdigit():
            # A bare number would be seconds, which nobody means for a batch.
            raise ValueError(f"{part.strip()!r} needs a unit, as {stage}=200us")
        ns = parse_duration(time)
        if not 1 <= ns <= _MOST_NS:
            raise ValueError(f"{part.strip()!r}: the time of a batch must be 1ns to 10s")
        found[stage] = ns
    return found


def normalised(text: str) -> str:
    """The same handicap in one spelling: stages in the order of the pipeline, the shortest exact times."""
    found = nanoseconds(text)
    return "+".join(f"{stage}={spell_duration(found[stage])}" for stage in STAGES if stage in found)
