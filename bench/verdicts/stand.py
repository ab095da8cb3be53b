"""What a case is: where it is set up, what is typed there, and which verdicts are right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from support import database
from support.flight import ServerProcess, serve_command
from venturi.analysis.verdict.types import Verdict


@dataclass(frozen=True)
class Trial:
    """What is typed after `venturi run`."""

    flags: tuple[object, ...]
    within: list[str] = field(default_factory=list)
    """What the command begins with."""
    environment: Mapping[str, str] = field(default_factory=dict)


class Stand:
    """Where a case is set up: a directory, and what ends with it."""

    def __init__(self, place: Path, ends: contextlib.ExitStack) -> None:
        self.place = place
        self.ends = ends

    def enter(self, context: contextlib.AbstractContextManager[Any]) -> Any:
        return self.ends.enter_context(context)

    def server(self, *arguments: str, within: Sequence[str] | None = None) -> ServerProcess:
        """A reference server, run by the command `within` if there is one."""
        return self.process(*(within or ()), *serve_command(*arguments))

    def process(self, *words: str) -> ServerProcess:
        started = ServerProcess(list(words))
        self.ends.callback(started.stop)
        return started

    def start(self, name: str, **choices: Any) -> database.Database:
        started = database.start(name, **choices)
        self.ends.callback(started.stop)
        return started


Make = Callable[[Stand], Trial]
P = ParamSpec("P")


def making(make: Callable[Concatenate[Stand, P], Trial]) -> Callable[P, Make]:
    """Turns a function that sets up a case into one that takes the choices of the case first."""
    return lambda *choices, **named: lambda stand: make(stand, *choices, **named)


@dataclass(frozen=True)
class Verdicts:
    """Verdicts that are right: any of these causes, of that end and stage if they are named."""

    causes: tuple[str, ...]
    end: str | None = None
    stage: str | None = None
    also: tuple[str, ...] = ()
    """If two places are equally narrow, what must be reported of the other."""

    def fits(self, found: Mapping[str, Any]) -> bool:
        return (
            found["cause"] in self.causes
            and self.end in (None, found["end"])
            and self.stage in (None, found["stage"])
            and (not self.also or (found["also"] or {}).get("cause") in self.also)
        )


@dataclass(frozen=True)
class Case:
    name: str
    truth: str
    """The place in words, a row of the matrix."""
    how: str
    """How it is made."""
    make: Make = field(repr=False)
    right: tuple[Verdicts, ...]
    unclear: tuple[Verdicts, ...] = ()
    """What is true and says too little: counted as unknown."""

    def judged(self, found: Mapping[str, Any]) -> str:
        if any(one.fits(found) for one in self.right):
            return "right"
        if found["kind"] == "unknown" or any(one.fits(found) for one in self.unclear):
            return "unknown"
        return "wrong"


def summary(verdict: Verdict) -> dict[str, Any]:
    """What the lines keep of a verdict."""
    also = verdict.also
    return {
        "kind": verdict.kind,
        "cause": verdict.cause,
        "end": verdict.end,
        "stage": verdict.stage,
        "title": verdict.title,
        "sentence": verdict.sentence,
        "confidence": verdict.confidence,
        "others": verdict.numbers.get("others", 0.0),
        "also": also and {"cause": also.cause, "end": also.end, "stage": also.stage},
    }
