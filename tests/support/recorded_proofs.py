"""Trials of `venturi prove`, recorded once, so that tests judge the same ones on every machine.

`python -m support.recorded_proofs` measures them again, on the real core, and replaces
tests/data/proofs.json. It makes each attempt until all its checks are right, although nothing is excused for
other work on the machine, and keeps that one alone.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from venturi.engine.executor import Progress
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.outcome import Checks, Name, Outcome, Proof
from venturi.measure.prove.outside import Outside
from venturi.measure.prove.registry import PROOFS
from venturi.measure.prove.relay import Plan
from venturi.plan.cell import Cell

__all__ = ["Break", "Recorded"]

Record = dict[str, Any]
Break = Callable[[Record, Mapping[str, Any], "Plan | None"], None]
"""What a fault of the instrument would do to a record; of a trial with these parameters, over this relay."""

PATH = Path(__file__).resolve().parents[1] / "data" / "proofs.json"
NAMES = [name for name in Name if name is not Name.ANSWERS]
"""`answers` runs no trial."""
REPEATED = (Name.SEED, Name.DIFFERENCE)
"""Of their repeats, the times alone differ."""
FEW = (Name.LIES, Name.HEADROOM, *REPEATED)
"""These read no more of a record than this:"""
READ = ("outcome", "error", "errors", "counts", "times", "verification")
PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 100.0)


PROVE = dict(PROOFS)


def made(name: Name, bench: Bench) -> Proof:
    """One proof in its short form, if it has one: fewer trials, the same checks."""
    return PROVE[name](bench, short=True)


def _key(plan: Plan | None, given: Mapping[str, Any]) -> str:
    """What a proof asked for."""
    asked = {name: value for name, value in given.items() if value is not None}
    if plan is not None:
        asked["plan"] = {
            name: value
            for name, value in vars(plan).items()
            if name not in ("framing", "cut_after") and value != Plan.__dataclass_fields__[name].default
        }
    return json.dumps(asked, sort_keys=True, default=str)


class Recorded(Bench):
    """A bench that answers with the recorded trials, each as `change` leaves it, and measures nothing."""

    def __init__(
        self,
        url: str = "flight://local",
        *_: Any,
        change: Break = lambda *_: None,
        sections: Record | None = None,
        **ignored: Any,
    ) -> None:
        super().__init__(url)
        self._change = change
        self._all: Record = json.loads(PATH.read_text()) if sections is None else sections
        self.asked: Counter[str] = Counter()
        self._section: dict[str, Any] = {}

    def __enter__(self) -> Recorded:
        return self

    def goes_on(self, began: float) -> bool:
        """However slow this machine is."""
        return True

    def made(self, name: Name) -> Proof:
        self._section = self._all.get(name, {})
        self.asked.clear()
        self.trials.clear()
        return made(name, self)

    def _next(self, key: str) -> Any:
        """The next one that was recorded; proofs that try again get the same ones again."""
        answers = self._section[key]
        first, this = answers[0], answers[self.asked[key] % len(answers)]
        self.asked[key] += 1
        if isinstance(first, dict) and "record" in first:
            this = this | {"record": first["record"] | this["record"]}
        return copy.deepcopy(this)

    def trial(
        self, *, plan: Plan | None = None, keep: bool = True, meanwhile: Any = None, **given: Any
    ) -> Trial:
        found = self._next(_key(plan, given))
        cell = self.cell(**{name: value for name, value in given.items() if name not in _NOT_OF_THE_CELL})
        cell = dataclasses.replace(cell, parameters={**cell.parameters, "threads": found["threads"]})
        relay = found.get("relay")
        if relay is not None:
            relay = SimpleNamespace(**relay, passed_ns=[*itertools.accumulate(found.get("passed_ns", ()))])
        if meanwhile is not None:
            meanwhile.stopped_ns = found["stopped_ns"]
        self._change(found["record"], cell.parameters, plan)
        one = Trial(cell, found["record"], Outside(*found["outside"]), relay)
        if keep:
            self.trials.append(one)
        return one

    def slowed(self, stack: contextlib.ExitStack, handicaps: Sequence[str]) -> list[tuple[str, int | None]]:
        return [(f"{self.system.scheme}://slowed-{number}", None) for number in range(len(handicaps))]

    def cpu_ns(self, pids: Sequence[int | None]) -> int:
        return int(self._next("cpu_ns"))

    def raw_tcp(self, cell: Cell) -> tuple[Record, Outside] | None:
        line, outside = self._next("raw_tcp")
        return line, Outside(*outside)

    def engine_alone(self, cell: Cell) -> Record:
        found: Record = self._next(f"engine_alone {cell.parameters['operation']}")
        return found


_NOT_OF_THE_CELL = ("at", "seed", "timeout_ns", "sample_ns")


class Recording(Bench):
    """A bench that measures, and notes what it has found."""

    def __init__(self) -> None:
        super().__init__("flight://local")
        self.section: dict[str, list[Any]] = {}
        self._places: list[str] = []
        self._stopper: tuple[Any, Record] | None = None

    def goes_on(self, began: float) -> bool:
        return True

    def _keep(self, key: str, value: Any) -> Any:
        self.section.setdefault(key, []).append(value)
        return value

    def trial(
        self,
        *,
        plan: Plan | None = None,
        keep: bool = True,
        meanwhile: Callable[[Progress], None] | None = None,
        **given: Any,
    ) -> Trial:
        found = super().trial(plan=plan, keep=keep, meanwhile=meanwhile, **given)
        # Nothing is excused.
        found = dataclasses.replace(found, outside=dataclasses.replace(found.outside, others=0.0))
        kept: Record = {
            "threads": found.cell.parameters["threads"],
            "outside": dataclasses.astuple(found.outside),
            "record": found.record,
        }
        if found.relay is not None:
            relay = vars(found.relay).copy()
            passed = relay.pop("passed_ns")
            kept |= {"relay": relay, "passed_ns": [b - a for a, b in zip([0, *passed], passed, strict=False)]}
        if meanwhile is not None:
            self._stopper = meanwhile, kept
        for number, place in enumerate(self._places):
            given = {
                name: value.replace(place, f"slowed-{number}") if name == "at" and value else value
                for name, value in given.items()
            }
        self._keep(_key(plan, given), kept)
        return found

    def slowed(self, stack: contextlib.ExitStack, handicaps: Sequence[str]) -> list[tuple[str, int | None]]:
        servers = super().slowed(stack, handicaps)
        self._places = [url.partition("://")[2] for url, _ in servers]
        return servers

    def cpu_ns(self, pids: Sequence[int | None]) -> int:
        return int(self._keep("cpu_ns", super().cpu_ns(pids)))

    def raw_tcp(self, cell: Cell) -> tuple[Record, Outside] | None:
        found = super().raw_tcp(cell)
        assert found is not None
        self._keep("raw_tcp", [found[0], [*dataclasses.astuple(dataclasses.replace(found[1], others=0.0))]])
        return found

    def engine_alone(self, cell: Cell) -> Record:
        found: Record = self._keep(f"engine_alone {cell.parameters['operation']}", super().engine_alone(cell))
        return found

    def attempts(self, make: Callable[..., Checks], *given: Any, most: int = 3, **more: Any) -> Checks:
        """In place of `venturi.measure.prove.attempts`: as many as it takes."""
        while True:
            before = {key: len(values) for key, values in self.section.items()}
            found = make(self, *given, **more)
            if self._stopper is not None:
                self._stopper[1]["stopped_ns"] = self._stopper[0].stopped_ns
            if all(check.right for check in found):
                return found
            wrong = next(check for check in found if not check.right)
            print(f"  again: {wrong.what.value} {wrong.found} {dict(wrong.of)}", file=sys.stderr)
            self.section = {
                key: values[: before[key]] for key, values in self.section.items() if key in before
            }

    def recorded(self, name: Name) -> dict[str, list[Any]]:
        """What one proof has asked for, and got."""
        self.section, self._places, self._stopper = {}, [], None
        self.trials.clear()
        module = sys.modules[PROVE[name].__module__]
        with mock.patch.object(
            module, "attempts", lambda bench, *a, **b: bench.attempts(*a, **b), create=True
        ):
            made(name, self)
        for key, values in self.section.items():
            for one in values:
                if name is not Name.RATE and isinstance(one, dict):
                    one.pop("passed_ns", None)
                if isinstance(one, dict) and "record" in one:
                    _prune(one["record"], name, whole="shared" in key)
        if name in REPEATED:
            for first, *more in self.section.values():
                for one in more:
                    one["record"] = {"times": one["record"]["times"]}
                    one["outside"] = first["outside"]
        return self.section


def _prune(record: Record, name: Name, whole: bool) -> None:
    """Leaves out what no proof reads. `whole`: of one trial of each operation, what merging reads."""
    if name in FEW:
        for part in set(record) - {*READ} | ({"times"} if name is Name.LIES else set()):
            del record[part]
        return
    del record["instrument"]
    record["target"] = None
    if name is Name.BOTTLENECK:
        record |= {"latency": None, "samples": None, "streams": [], "verification": None}
    for one in filter(None, (record["latency"] or {}).values()):
        one["percentiles"] = [[percent, ns] for percent, ns in one["percentiles"] if percent in PERCENTILES]
    if name is Name.CONSERVATION and not whole:
        record["resources"] = None
    for end, found in (record["resources"] or {}).items():
        if end not in ("client", "server"):
            continue
        # The other threads of this process are none of the trial.
        found["process"]["threads"] = found["process"]["threads"][:2]
        if not whole:
            buffers = {name: size for name, size in (found["sockets"] or {}).items() if "buffer_by" in name}
            record["resources"][end] = {
                "process": {"paused_ns": found["process"]["paused_ns"]}, "sockets": buffers
            }  # fmt: skip
    if record["samples"]:
        client = record["samples"]["client"]
        columns = {column: client[column][-3:] for column in ("t_ns", "rows", "payload_bytes")}
        record["samples"] = {"client": columns}


def main() -> None:
    found: dict[str, Any] = {}
    with Recording() as bench:
        for name in NAMES:
            for number in itertools.count(1):
                section = bench.recorded(name)
                calls = sum(map(len, section.values()))
                replayed = Recorded(sections={name: json.loads(json.dumps(section))})
                proof = replayed.made(name)
                wrong = [check for check in proof.checks if not check.right]
                print(name.value, number, proof.outcome.value, len(wrong), calls, file=sys.stderr)
                again = sum(replayed.asked.values()) != calls
                if proof.outcome is Outcome.PASSED and not wrong and not again:
                    break
            found[name.value] = section
    lines = []
    for name, section in found.items():
        answers = [
            f"  {json.dumps(key)}: [\n   " + ",\n   ".join(_compact(one) for one in values) + "\n  ]"
            for key, values in section.items()
        ]
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(answers) + "\n }")
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main()
