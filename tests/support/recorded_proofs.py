"""Trials of `venturi prove`, recorded once, so that tests judge the same ones on every machine.

`python -m support.recorded_proofs` measures them again, on the real core, and replaces
tests/data/proofs.json. It makes each attempt until all its checks are right, although nothing is excused for
other work on the machine, and keeps that one alone.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from venturi.measure.prove import difference, injected_faults, rate
from venturi.measure.prove.bench import Bench, ExternalView, Trial
from venturi.measure.prove.outcome import Checks, Outcome, Proof, ProofName
from venturi.measure.prove.relay import Plan

__all__ = ["MAKERS", "Break", "Recorded"]

Record = dict[str, Any]
Break = Callable[[Record, Mapping[str, Any], "Plan | None"], None]
"""What a fault of the instrument would do to a record; of a trial with these parameters, over this relay."""

PATH = Path(__file__).resolve().parents[1] / "data" / "proofs.json"
MAKERS = {
    ProofName.RATE: rate.prove,
    ProofName.INJECTED_FAULTS: injected_faults.prove,
    ProofName.DIFFERENCE: difference.prove,
}
"""`answers` runs no trial."""
READ = ("outcome", "error", "errors", "counts", "times", "verification")
"""No more of a record is read, but for a rate."""


def _key(plan: Plan | None, given: Mapping[str, Any]) -> str:
    """What a self-test asked for."""
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
        self, url: str = "flight://local", *_: Any, change: Break = lambda *_: None,
        sections: Record | None = None, **ignored: Any,
    ) -> None:  # fmt: skip
        super().__init__(url)
        self._change = change
        self._all: Record = json.loads(PATH.read_text()) if sections is None else sections
        self.asked: Counter[str] = Counter()
        self._section: dict[str, Any] = {}

    def __enter__(self) -> Recorded:
        return self

    def has_time_for_more(self, began: float) -> bool:
        """However slow this machine is."""
        return True

    def made(self, name: ProofName) -> Proof:
        """The short form: fewer trials, the same checks."""
        self._section = self._all.get(name, {})
        self.asked.clear()
        return MAKERS[name](self, short=True)

    def trial(self, *, plan: Plan | None = None, **given: Any) -> Trial:
        key = _key(plan, given)
        answers = self._section[key]
        # The next one that was recorded; further attempts get the same ones again.
        found = copy.deepcopy(answers[self.asked[key] % len(answers)])
        self.asked[key] += 1
        record = copy.deepcopy(answers[0]["record"]) | found["record"]
        cell = self.cell(**{k: v for k, v in given.items() if k not in ("timeout_ns", "sample_ns")})
        cell = dataclasses.replace(cell, parameters={**cell.parameters, "threads": found["threads"]})
        relay = found.get("relay")
        if relay is not None:
            relay = SimpleNamespace(**relay, passed_ns=[*itertools.accumulate(found.get("passed_ns", ()))])
        self._change(record, cell.parameters, plan)
        return Trial(cell, record, ExternalView(*found["outside"]), relay)


class Recording(Bench):
    """A bench that measures, and notes what it has found."""

    section: dict[str, list[Any]]

    def has_time_for_more(self, began: float) -> bool:
        return True

    def trial(self, *, plan: Plan | None = None, **given: Any) -> Trial:
        found = super().trial(plan=plan, **given)
        # Nothing is excused.
        found = dataclasses.replace(found, external=dataclasses.replace(found.external, others=0.0))
        kept: Record = {
            "threads": found.cell.parameters["threads"],
            "outside": dataclasses.astuple(found.external),
            "record": found.record,
        }
        if found.relay is not None:
            relay = vars(found.relay).copy()
            passed = relay.pop("passed_ns")
            kept |= {"relay": relay, "passed_ns": [b - a for a, b in zip([0, *passed], passed, strict=False)]}
        self.section.setdefault(_key(plan, given), []).append(kept)
        return found

    def attempt(self, make: Callable[..., Checks], *given: Any, most: int = 3) -> Checks:
        """As many as it takes."""
        while True:
            before = {key: len(values) for key, values in self.section.items()}
            found = make(self, *given)
            if all(check.right for check in found):
                return found
            wrong = next(check for check in found if not check.right)
            print(f"  again: {wrong.what.value} {wrong.found} {dict(wrong.of)}", file=sys.stderr)
            self.section = {
                key: values[: before[key]] for key, values in self.section.items() if key in before
            }

    def recorded(self, name: ProofName) -> dict[str, list[Any]]:
        """What one self-test has asked for, and got."""
        self.section = {}
        MAKERS[name](self, short=True)
        for first, *more in self.section.values():
            for one in (first, *more):
                if name is ProofName.RATE:
                    del one["record"]["instrument"], one["record"]["resources"], one["record"]["samples"]
                    continue
                one.pop("passed_ns", None)
                one["record"] = {part: one["record"][part] for part in READ if part in one["record"]}
            for one in more if name is ProofName.DIFFERENCE else ():
                # Of its repeats, the times alone differ.
                one |= {"record": {"times": one["record"]["times"]}, "outside": first["outside"]}
        return self.section


def main() -> None:
    found: dict[str, Any] = {}
    with Recording("flight://local") as bench:
        for name in MAKERS:
            for number in itertools.count(1):
                section = bench.recorded(name)
                calls = sum(map(len, section.values()))
                replayed = Recorded(sections={name: json.loads(json.dumps(section))})
                proof = replayed.made(name)
                print(name.value, number, proof.outcome.value, calls, file=sys.stderr)
                if proof.outcome is Outcome.PASSED and sum(replayed.asked.values()) == calls:
                    break
            found[name.value] = section
    write(found)


def write(found: Record) -> None:
    lines = []
    for name, section in found.items():
        answers = [
            f"  {json.dumps(key)}: [\n   "
            + ",\n   ".join(json.dumps(one, separators=(",", ":")) for one in values)
            + "\n  ]"
            for key, values in section.items()
        ]
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(answers) + "\n }")
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
