"""What measures: `run`, `resume`, `ab`, `tune`, `prove`; and what a run would do, `dry_run`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from venturi.api.result import Run
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.links import LINK_SETTINGS
from venturi.common.texts import log, meant
from venturi.engine.executor import Progress
from venturi.measure import placement, run_events, runner
from venturi.measure import tune as tuning
from venturi.measure.run_events import QuietObserver, Slot, outcome_text
from venturi.measure.runner import Estimate, estimate
from venturi.measure.trial_targets import Endpoints
from venturi.measure.tune import DEFAULT_TRIALS, Budget, Tuned, space
from venturi.plan.layers import ALIASES, Layer, file_layer
from venturi.plan.load import load
from venturi.plan.scale import scale as scaled
from venturi.plan.scenario import Scenario
from venturi.plan.validation import LIST_VALUES, TABLES
from venturi.servers.commanded import address
from venturi.store.lines import line_text
from venturi.store.open import open_run
from venturi.targets.parameters import SETTINGS
from venturi.targets.system import LOCAL
from venturi.targets.urls import check_url

if TYPE_CHECKING:
    from venturi.analysis.compare.runs import Comparison
    from venturi.api.keywords import Credentials, RunSettings, Settings
    from venturi.measure.prove.outcome import Proof

__all__ = ["Event", "ab", "dry_run", "prove", "resume", "run", "tune"]

Named = str | os.PathLike[str] | Mapping[str, Any] | None


@dataclass(frozen=True)
class Event:
    """How a run goes on: made when a trial begins, ten times a second, and when it has ended."""

    cell: str
    """The trial's cell, by the parameters in which cells differ."""
    number: int
    """From 1, of `total` trials."""
    total: int
    warmup: bool
    moved: Progress | None = None
    """What the trial has moved so far: its `rows` and `payload_bytes`; None when it begins."""
    record: Mapping[str, Any] | None = None
    """The trial's record (docs/format.md), when it has ended and is on disk."""


EventHandler = Callable[[Event], None]


class _Observer(QuietObserver):
    """Calls `progress` with events, and logs the rest."""

    def __init__(self, handler: EventHandler | None) -> None:
        super().__init__()
        self._handler = handler
        self._now: Event | None = None

    def started(self, number: int, total: int, slot: Slot) -> None:
        self._now = Event(self.label(slot.cell.id), number, total, slot.warmup)
        if self._handler is not None:
            self._handler(self._now)

    def progress(self, progress: Progress) -> None:
        if self._handler is not None and (now := self._now) is not None:
            self._handler(Event(now.cell, now.number, now.total, now.warmup, moved=progress))

    def ended(self, line: Mapping[str, Any]) -> None:
        if self._handler is None:
            super().ended(line)
        elif (now := self._now) is not None:
            self._handler(Event(now.cell, now.number, now.total, now.warmup, record=line))

    def unstored(self, line: Mapping[str, Any]) -> None:
        # Nobody else has it.
        record = line_text({key: value for key, value in line.items() if key != "samples"})
        log("error", f"measured but not stored: {self.head(line)}: {outcome_text(line)}: {record}")

    def note(self, level: str, text: str) -> None:
        log(level, text)


def run(
    scenario: Named = None,
    *,
    out: str | os.PathLike[str] | None = None,
    on: str | None = None,
    master: str | None = None,
    scale: float | None = None,
    unproven: bool = False,
    progress: EventHandler | None = None,
    **settings: Unpack[RunSettings],
) -> Run:
    """Measures a scenario and answers the finished run.

    Args:
        scenario: The name of a built-in one, a TOML file, a mapping with the same tables as the file, or None
            for keywords alone.
        out: The run directory; by default `venturi-runs/TIME-NAME`.
        on: Where the streams run: `ray://HOST:PORT`, `auto`, `local` or `spark`; by default this process.
        master: Spark's, with `on="spark"`.
        scale: Shrinks sizes by this factor, and thins long axes.
        unproven: Goes on if the self-test of the instrument fails, and marks every figure.
        progress: Called with an `Event` when a trial begins, ten times a second, and when it has ended.
        settings: Keys of `[workload]`, `[target]`, `[hosts]` and `[run]`, which win over the scenario. As on
            the command line `seed` is the data's and `shuffle_seed` the order's. A
            list is an axis of the matrix: `streams=[1, 2]`. `target="flight://..."` is the target's URL.

    Raises `ScenarioError` and `StoreError` (both `VenturiError`), and `VenturiError` with the exit code
    `UNPROVEN` if the self-test fails. A failed trial raises nothing: it is a row
    of `Run.trials`, and a warning of the logger `venturi`.

    >>> run = venturi.run("quick", streams=[1, 2], bytes_per_stream="10M", repeats=1)
    >>> sorted({cell.parameters["streams"] for cell in run})
    [1, 2]
    """
    found = _scenario(scenario, settings, on, master, scale)
    path = Path(out) if out is not None else run_events.default_out(found)
    with placement.placed(found, on, master, log) as (placed, engine):
        runner.execute(placed, path, engine, _Observer(progress), unproven=unproven)
    return Run(path)


def resume(
    path: str | os.PathLike[str] = "last",
    *,
    retry_failed: bool = False,
    on: str | None = None,
    master: str | None = None,
    progress: EventHandler | None = None,
) -> Run:
    """Goes on with a run that was interrupted; with `retry_failed` measures failed trials too. The others are
    as for `run`, and as the run was begun with.

    Raises `StoreError` where there is no such run.
    """
    directory = open_run(path)
    placement.resumed(on, directory.records(), directory.path)
    found, _ = placement.named(run_events.scenario_of(directory), on, master)
    with placement.placed(found, on, master, log) as (placed, engine):
        observer = _Observer(progress)
        runner.execute(placed, directory.path, engine, observer, resume=True, retry_failed=retry_failed)
    return Run(directory.path)


def ab(
    base: str,
    head: str,
    scenario: Named = None,
    *,
    url: str = "flight://127.0.0.1:{port}",
    out: str | os.PathLike[str] | None = None,
    threshold: float = 0.03,
    confidence: float = 0.95,
    unproven: bool = False,
    progress: EventHandler | None = None,
    **settings: Unpack[RunSettings],
) -> Comparison:
    """Measures two servers in one run, whose trials take turns, and compares `head` with `base`. Each is a
    URL, or a command that starts it at `{port}`, where `url` finds it.

    The others are as for `run`, which makes 10 repeats here by default. Raises as `run`.
    """
    settings.setdefault("repeats", 10)
    with contextlib.ExitStack() as servers:
        where = {"base": base, "head": head}
        settings["places"] = {name: address(it, url, servers) for name, it in where.items()}
        made = run(scenario, out=out, unproven=unproven, progress=progress, **settings)
    return made.compare_by("place", "base", threshold=threshold, confidence=confidence)[0]


def dry_run(
    scenario: Named = None,
    *,
    on: str | None = None,
    master: str | None = None,
    scale: float | None = None,
    **settings: Unpack[RunSettings],
) -> Estimate:
    """What `run` would do with the same arguments: cells, trials, bytes, seconds. Files are read, no server
    is started, nothing is measured.

    >>> plan = venturi.dry_run(target="flight://local", streams=[1, 2], rows_per_stream="1M", repeats=3)
    >>> len(plan.cells), plan.payload_bytes
    (2, 384000000)
    """
    found = _scenario(scenario, settings, on, master, scale)
    with Endpoints(found, False, log) as endpoints:
        return estimate(found, endpoints.cells)


def tune(
    target: Named,
    *,
    trials: int | None = None,
    minutes: float | None = None,
    out: str | os.PathLike[str] | None = None,
    search_seed: int = 1,
    unproven: bool = False,
    progress: EventHandler | None = None,
    **settings: Unpack[Settings],
) -> Tuned:
    """Searches for the fastest settings in few trials: of a URL, or of a scenario's matrix.

    `trials` (2 and more; 24 where neither is given) and `minutes` bound it. `settings` are those of `run`;
    all of it runs in this process. The answer's `run.path` is a run as any other.

    Raises as `run`, and `ScenarioError` where there is nothing to search.
    """
    if (trials is not None and trials < 2) or (minutes is not None and minutes <= 0):
        raise VenturiError("trials must be 2 or more, and minutes more than 0")
    bounded = trials is not None or minutes is not None
    budget = Budget(trials if bounded else DEFAULT_TRIALS, minutes * 60 if minutes is not None else None)
    observer = _Observer(progress)
    if isinstance(target, str) and "://" in target:
        try:
            tree = _tree({**settings, "target": check_url(target)})
        except ValueError as error:
            raise VenturiError(f"target: {error}", ExitCode.SCENARIO) from None
        layer = Layer("keyword", tree)
        _check_placement([layer])
        with placement.local_executor() as engine:
            found = space(tree, layer, engine, observer.note, Path(out) if out is not None else None)
    else:
        found = _scenario(target, settings, None, None, None)
    path = Path(out) if out is not None else run_events.default_out(found)
    with placement.local_executor(found) as engine:
        return tuning.execute(
            found, path, engine, observer, budget, lambda *_: None, search_seed, unproven=unproven
        )


def prove(
    target: str = LOCAL, *, only: Collection[str] | None = None, **settings: Unpack[Credentials]
) -> list[Proof]:
    """The self-test of this instrument, on this machine, now: each part, with what was expected and found.
    `only`: names of parts, for example `rate`; `settings`: credentials of the target.

    A part that fails raises nothing: its `outcome` says so. Raises as `run`.
    """
    from venturi.measure.prove import prove as made
    from venturi.measure.prove.outcome import ProofName

    names = {name.value: name for name in ProofName}
    for name in only or ():
        if name not in names:
            raise VenturiError(
                f"only={name!r}: no such part of the self-test", hint=f"known: {', '.join(names)}"
            )
    try:
        url = check_url(target)
    except ValueError as error:
        raise VenturiError(f"target: {error}", ExitCode.SCENARIO) from None
    return list(made(url, settings, None if only is None else [names[name] for name in only]))


def _scenario(
    scenario: Named, settings: Mapping[str, Any], on: str | None, master: str | None, scale: float | None
) -> Scenario:
    layers = []
    if isinstance(scenario, Mapping):
        layers.append(Layer("scenario", scenario))
    elif scenario is not None:
        layers.append(file_layer(os.fspath(scenario)))
    tree = _tree(settings)
    if not layers:
        tree.setdefault("name", "api")
    layers.append(Layer("keyword", tree))
    found = load(layers)
    if scale is not None:
        try:
            found, _ = scaled(found, scale)
        except ValueError as error:
            raise VenturiError(f"scale={scale:g}: {error}") from None
    if on is None:
        _check_placement(layers)
    return placement.named(found, on, master)[0]


def _check_placement(layers: Sequence[Layer]) -> None:
    """A caller who shares streams among processes is not left with one that has them all. A scenario file
    may say how it is to be shared where that is asked for."""
    linked = any(layer.has((table, "link")) for layer in layers for table in ("matrix", "hosts"))
    of_links = (*LINK_SETTINGS, "server", *(["loaders"] * linked))
    placed = [key for key in TABLES["hosts"].model_fields if key not in of_links]
    for layer in layers:
        paths = [("matrix", "loaders")] * (not linked) + [("hosts", key) for key in placed]
        key = next((path[-1] for path in paths if layer.text is None and layer.has(path)), None)
        if key is not None:
            raise VenturiError(
                f"{key} is for streams that are placed on several hosts, and without `on` or a `link` "
                "all of them run in this process",
                ExitCode.SCENARIO,
                hint='say where: venturi.run(..., on="auto", loaders=4)',
            )


def _tree(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords as the tables of a scenario; lists are axes of the matrix."""
    tree: dict[str, Any] = {}
    # A key that stands in two tables is the first one's: the other has a keyword of its own.
    tables = {it.key: (it.table, it.key) for it in reversed(SETTINGS) if it.table}
    tables |= {it.keyword: (it.table, it.key) for it in SETTINGS if it.table}
    tables |= {alias: ("workload", alias) for alias in ALIASES}
    for key, value in settings.items():
        if key == "matrix":
            tree["matrix"] = {**value, **tree.get("matrix", {})}
        elif key in ("name", "description", "reference", "places"):
            tree[key] = value
        elif key not in tables:
            raise VenturiError(
                f"there is no setting {key!r}",
                hint=meant(key, tables, f"settings are: {', '.join(sorted(tables))}"),
            )
        else:
            table, name = tables[key]
            if isinstance(value, list | tuple | range) and name not in LIST_VALUES:
                tree.setdefault("matrix", {})["target" if name == "url" else name] = list(value)
            else:
                tree.setdefault(table, {})[name] = value
    return tree
