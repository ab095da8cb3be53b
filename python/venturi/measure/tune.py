"""`venturi tune`: searches a scenario's matrix for its fastest cell with few trials.

A tuning is a run like any other: its directory holds the whole matrix as its scenario and the trials that the
search chose. Nothing else is kept, so going on with it means telling the search what is on disk, and
`venturi run --resume` would measure all the rest.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.figures import is_good, main_rate
from venturi.analysis.cells.probes import data_label
from venturi.analysis.cells.summary import PARAMETER_ORDER, basis, varying
from venturi.analysis.cells.summary import Cell as Summary
from venturi.analysis.compare import best
from venturi.analysis.models.batch_cost import LEAST
from venturi.analysis.models.explore import Answer, Search
from venturi.common.errors import ScenarioError, VenturiError
from venturi.common.links import SERVER_END
from venturi.common.texts import Note
from venturi.engine.executor import Executor
from venturi.engine.record import Trial
from venturi.measure import ceilings, trial_targets
from venturi.measure.ceiling_probes import SECONDS, Probe, Prober, foreign
from venturi.measure.run_events import Interrupts, Observer, Result, RunResult, Slot
from venturi.measure.runner import opened
from venturi.measure.sweep import Sweep
from venturi.measure.trial_targets import Endpoints
from venturi.plan.cell import Cell
from venturi.plan.layers import Layer
from venturi.plan.load import load, tune_defaults
from venturi.plan.rules.options import applies
from venturi.plan.scenario import Scenario
from venturi.store.writer import RunWriter
from venturi.targets.parameters import SETTINGS, WORKLOAD
from venturi.targets.system import REFERENCE, scheme_of

DEFAULT_TRIALS = 24


@dataclass(frozen=True)
class Budget:
    """What a search may cost: trials (those on disk included), seconds, or both."""

    trials: int | None
    seconds: float | None = None

    def left(self, done: int, began: float, before: int = 0) -> int | None:
        """Trials left; estimated from those since `began` if the time is bounded. None: not known yet.
        `before`: of those done, what was on disk when it began."""
        bounds = [] if self.trials is None else [self.trials - done]
        if self.seconds is not None:
            spent = time.monotonic() - began
            if spent >= self.seconds:
                return 0
            if done > before:
                bounds.append(max(1, int((self.seconds - spent) / (spent / (done - before)))))
        return min(bounds) if bounds else None


CODECS = ("lz4", "zstd")


def space(
    tree: Mapping[str, Any], options: Layer, executor: Executor, note: Note, out: Path | None = None
) -> Scenario:
    """The scenario whose matrix is searched at the URL of `tree`, which is what `asked` says.

    `note` is told why compression is left out where only the data speak against it. `out`: where the run is
    to be kept. Raises ScenarioError, and StoreError if a run is there already.
    """
    found = load([tune_defaults(tree), options])
    if tree.get("matrix") or options.has(("target", "compression")):
        return found
    try:
        load([tune_defaults(tree, CODECS), options])
    except ScenarioError:
        # Another setting that is asked for goes without, as charrow's older wire_version.
        return found
    if out is not None:
        RunWriter.check(out)  # before data are made ready
    codecs = _codecs(found, executor, note)
    return load([tune_defaults(tree, codecs), options]) if codecs else found


def _codecs(found: Scenario, executor: Executor, note: Note) -> list[str]:
    """Those that may pay: on the way to another host, or over a link as one has it, where the other end
    compresses or unpacks; of data that get smaller."""
    url, operation = found.target.url, found.workload.operation
    away = foreign(url, found.over_link)
    if (
        not (away or found.over_link)
        or operation not in ("get", "put")
        or scheme_of(url) not in REFERENCE
        or not applies("compression", url, operation)
        or (SERVER_END in url and operation == "get")
    ):
        return []
    # A file is made ready for each batch size: one of them is sample enough.
    first = replace(found, axes={axis: values[:1] for axis, values in found.axes.items()})
    with Endpoints(first, executor.needs_server, note) as endpoints:
        cell = endpoints.cells[0]
        if away and operation == "get" and executor.needs_server:
            # What another server than ours sends is its own choice.
            environments = trial_targets.ask_environments(url, cell.options, found.run.timeout / 1e9)
            if any(described is None for described in environments.values()):
                return []
        if data_label(cell.parameters) is None:
            return list(CODECS)
        smaller = _ratios(cell, executor, endpoints)
    kept = [codec for codec, ratio in smaller.items() if ratio is None or ratio >= LEAST]
    if vain := [f"{codec} {ratio:.2f} times" for codec, ratio in smaller.items() if codec not in kept]:
        note(
            "info",
            f"compression is not searched where it hardly makes the data smaller: {', '.join(vain)}; to "
            "search it all the same, name what is searched, as --compression none,lz4 --streams 1,2,4",
        )
    return kept


def _ratios(cell: Cell, executor: Executor, endpoints: Endpoints) -> dict[str, float | None]:
    """How many times smaller each codec makes a sample of the cell's data; None if that was not told."""
    found: dict[str, float | None] = {}
    with contextlib.ExitStack() as stack:
        prober = Prober(executor, endpoints, stack)
        for codec in CODECS:
            probe = Probe("codec", end="client", name=f"{codec}-encode", threads=1, cell=cell)
            line = prober.line(probe, 0, executor.control(), SECONDS["codec"] / 2)
            encoded = line.get("encoded_bytes")
            found[codec] = line["bytes"] / encoded if encoded else None
    return found


Learned = Callable[[Search, int, int | None], None]
"""Told after each trial: the search, trials done, trials allowed (None: as many as the time holds)."""


@dataclass(frozen=True)
class Tuned:
    """How a search ended. `reason`: "budget", "settled" (no trial is worth its time), "interrupted"."""

    search: Search
    candidates: list[Mapping[str, Any]]
    names: list[str]
    answer: Answer | None
    reason: str
    trials: int
    run: RunResult | None = None

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The parameters of the cell that was found best; None if no trial succeeded."""
        return None if self.answer is None else self.candidates[self.answer.best]


def settings(parameters: Sequence[Mapping[str, Any]], recorded: bool = False) -> list[str]:
    """The settings that tell these cells apart, once the workload is found to be one.

    `recorded`: cells of a run, which are chosen by --where and no other flag. Raises ScenarioError if
    there is nothing to search, or more than one workload to search for.
    """
    names = [n for n in dict.fromkeys(n for p in parameters for n in p) if n not in ("row_bytes", "seed")]
    differing = [n for n in names if len({repr(p.get(n)) for p in parameters}) > 1]
    workload = [n for n in differing if n in WORKLOAD and n != "row_bytes"]
    if workload:
        name = workload[0]
        found = list({repr(p.get(name)): p.get(name) for p in parameters}.values())
        numbers = [v for v in found if isinstance(v, int | float)]
        largest = max(numbers) if len(numbers) == len(found) else found[0]
        values = ", ".join(wording.value(name, value) for value in found[:5])
        values += f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise ScenarioError(
            f"a search is for one workload, and {name} has several values: {values}",
            hint=_choose(name, largest, recorded),
        )
    if not differing:
        raise ScenarioError(
            "there is nothing to search: the matrix has one cell",
            hint="give settings several values, as in --streams 1..16 --rows-per-batch 1k,4k,16k,64k",
        )
    differing.sort(key=lambda n: PARAMETER_ORDER.index(n) if n in PARAMETER_ORDER else len(PARAMETER_ORDER))
    kept: list[str] = []
    for name in differing:
        column = [repr(p.get(name)) for p in parameters]
        if not any(_same(column, [repr(p.get(other)) for p in parameters]) for other in kept):
            kept.append(name)
    return kept


def _choose(name: str, value: Any, recorded: bool) -> str:
    """How to choose one value of what belongs to the workload."""
    if recorded:
        return f'choose one: --where "{name} == {value!r}"'
    if name == "duration_ns":
        return f"choose one: --duration {value / 1e9:g}s"
    # A switch, a list and a time in ns are not written as the cell has them.
    plain = isinstance(value, str | int | float) and not isinstance(value, bool) and not name.endswith("_ns")
    flag = next((it.flag for it in SETTINGS if it.cell == name and plain), None)
    return f"choose one: {flag} {value}" if flag else f"search each {name} by itself"


def _same(one: list[str], other: list[str]) -> bool:
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len(set(one)) == len(set(other))


def execute(
    scenario: Scenario,
    out: Path,
    executor: Executor,
    observer: Observer,
    budget: Budget,
    learned: Learned,
    seed: int = 1,
    resume: bool = False,
    command: Sequence[str] | None = None,
    unproven: bool = False,
) -> Tuned:
    """Searches within the budget; every trial is on disk the moment it ends.

    Raises as `runner.execute`, and ScenarioError where there is nothing to search. A failed trial raises
    nothing.
    """
    with (
        Interrupts() as interrupts,
        Endpoints(scenario, executor.needs_server, observer.note, executor.starter) as endpoints,
    ):
        cells = endpoints.cells
        candidates: list[Mapping[str, Any]] = [cell.parameters for cell in cells]
        names = settings(candidates)
        search = Search(candidates, names, seed)
        begin = opened(
            scenario, out, executor, observer, interrupts, endpoints,
            resume=resume, unproven=unproven, command=command,
        )  # fmt: skip
        with begin as (writer, _):
            repeats = _tell(search, cells, writer.read().records())
            sweep = Sweep(scenario.run, endpoints, executor, writer, observer, interrupts)
            result, reason = _measure(sweep, cells, search, repeats, budget, learned, interrupts)
            answer = search.answer()
            if answer is not None and scenario.run.ceilings != "none" and not interrupts.requested:
                # Ceilings of the whole matrix would take longer than the search; those of the answer pay off.
                endpoints.cells = [cells[answer.best]]
                ceilings.measure(endpoints, executor, writer, observer.note, interrupts.guard)
    return Tuned(search, candidates, names, answer, reason, search.trials, RunResult(out, result))


def _tell(search: Search, cells: Sequence[Cell], records: Sequence[Trial]) -> dict[str, int]:
    """Tells the search what is on disk; answers the next repeat's number of each cell."""
    index = {cell.id: at for at, cell in enumerate(cells)}
    repeats: dict[str, int] = {}
    for record in records:
        cell = record.cell
        if record.warmup or record.outcome == "interrupted" or cell not in index:
            continue
        search.tell(index[cell], main_rate(record) if is_good(record) else None)
        repeats[cell] = max(repeats.get(cell, 0), record.repeat + 1)
    return repeats


def _measure(
    sweep: Sweep,
    cells: Sequence[Cell],
    search: Search,
    repeats: dict[str, int],
    budget: Budget,
    learned: Learned,
    interrupts: Interrupts,
) -> tuple[Result, str]:
    result, began, before = Result(), time.monotonic(), search.trials
    warm = bool(repeats)
    while not interrupts.requested:
        left = budget.left(search.trials, began, before)
        if left is not None and left <= 0:
            return result, "budget"
        at = search.ask(left, [not sweep.is_abandoned(cell) for cell in cells])
        if at is None:
            return result, "settled"
        cell = cells[at]
        total = result.trials + (left if left is not None else 1)
        if not warm:
            # One warm-up for all: a server that has just started is slow at first.
            warm = True
            if not sweep.run_trial(Slot(cell, 0, True), total + 1, result):
                break
            continue
        repeat = repeats.get(cell.id, 0)
        repeats[cell.id] = repeat + 1
        failed = result.failed
        if not sweep.run_trial(Slot(cell, repeat, False), total, result):
            break
        search.tell(at, None if result.failed > failed else sweep.last_rate(cell))
        learned(search, search.trials, budget.trials)
    return replace(result, interrupted=interrupts.requested or result.interrupted), "interrupted"


class Recorded:
    """A measured run to search in: what would the search have cost?"""

    def __init__(self, cells: Sequence[Summary]) -> None:
        """`cells` with at least one good trial each count. Raises ScenarioError as `settings`."""
        self.measure = basis(cells)
        measured = [c for c in cells if best.values(c, self.measure)]
        if len(measured) < 2:
            raise VenturiError("a search needs a run with at least two cells that have good trials")
        self.cells = measured
        self.candidates: list[Mapping[str, Any]] = [c.parameters for c in measured]
        settings(self.candidates, recorded=True)
        self.names = [n for n in varying(measured) if n not in WORKLOAD]
        self.values = [best.values(c, self.measure) for c in measured]

    @property
    def trials(self) -> int:
        """All good trials of the run."""
        return sum(map(len, self.values))

    @property
    def fastest(self) -> int:
        """The cell with the highest median."""
        return max(range(len(self.cells)), key=self._speed)

    def share(self, candidate: int) -> float:
        """A cell's median over the fastest's."""
        return self._speed(candidate) / self._speed(self.fastest)

    def _speed(self, candidate: int) -> float:
        return best.speed_of(self.cells[candidate], self.measure).value or 0.0


def replay(recorded: Recorded, budget: Budget, learned: Learned, seed: int = 1) -> Tuned:
    """Searches a recorded run: each trial is the next repeat of its cell. Nothing is measured."""
    search = Search(recorded.candidates, recorded.names, seed)
    began = time.monotonic()
    used = [0] * len(recorded.cells)
    reason = "budget"
    while (left := budget.left(search.trials, began)) is None or left > 0:
        offered = [n < len(v) for n, v in zip(used, recorded.values, strict=True)]
        at = search.ask(left, offered)
        if at is None:
            reason = "settled"
            break
        search.tell(at, recorded.values[at][used[at]])
        used[at] += 1
        learned(search, search.trials, budget.trials)
    return Tuned(search, recorded.candidates, recorded.names, search.answer(), reason, search.trials)
