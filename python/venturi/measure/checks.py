"""Predictions queued in a run directory, and the trials that check them.

A prediction is a line of predictions.jsonl (docs/format.md) with the parameters of the cell it is about. That
cell is run in the same directory, with the run's own scenario, repeats and order, as if it had been in the
matrix from the start; so what was predicted and what came out stand in one run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.common.errors import ScenarioError, StoreError, VenturiError
from venturi.common.links import LINK_SETTINGS
from venturi.engine.executor import Executor
from venturi.engine.spec import FORMAT_VERSION
from venturi.measure import ceilings
from venturi.measure.interrupts import Interrupts
from venturi.measure.observer import Observer
from venturi.measure.outcome import Result
from venturi.measure.sweep import Sweep
from venturi.measure.trial_targets import Endpoints
from venturi.plan import matrix
from venturi.plan.cell import Cell
from venturi.plan.scenario import Scenario
from venturi.plan.settings import Hosts, Target
from venturi.plan.values import validate_value
from venturi.plan.workload import SIZES, Workload, data_label
from venturi.store.directory import RunDirectory
from venturi.store.writer import RunWriter

if TYPE_CHECKING:
    from venturi.analysis.models.predict import Prediction
    from venturi.measure.outcome import RunResult

__all__ = ["execute", "line_of", "measure", "queue", "queued_scenario"]


def queue(directory: RunDirectory, predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Appends predictions to the run, and answers their lines. The same one again is not written twice.

    Raises StoreError where the run cannot be measured further (published or imported), ScenarioError where
    its scenario has no such cell (65,537 streams).
    """
    scenario = _scenario(directory)
    lines = [line_of(directory, scenario, one) for one in predictions]
    with RunWriter.resume(directory.path) as writer:
        there = {(p["cell"], p["predicted"]) for p in directory.prediction_records()}
        for line in lines:
            if (line["cell"], line["predicted"]) not in there:
                writer.append_prediction(line)
    return lines


def _scenario(directory: RunDirectory) -> Scenario:
    from venturi.measure.outcome import scenario_of

    if not directory.scenario_text():
        raise StoreError(
            f"{directory.path}: this run has no scenario, so no trial can check a prediction",
            hint="runs made by `venturi run` can be measured further; published and imported ones cannot",
        )
    return scenario_of(directory)


def line_of(directory: RunDirectory, scenario: Scenario, one: Prediction) -> dict[str, Any]:
    """A line of predictions.jsonl."""
    cell = _cell(scenario, one.parameters, one.axis)
    value = int(one.value) if isinstance(one.value, float) and one.value.is_integer() else one.value
    return {
        "format": FORMAT_VERSION,
        "kind": "prediction",
        "run": directory.name,
        "made_unix_ns": time.time_ns(),
        "cell": cell.id,
        "operation": one.operation,
        "axis": one.axis,
        "value": value,
        "where": dict(one.where),
        "unit": one.throughput.unit,
        "predicted": one.throughput.value,
        "low": one.throughput.low,
        "high": one.throughput.high,
        "repeats": one.repeats,
        "law": one.law,
        "laws": one.laws,
        "basis": one.basis,
        "measured": list(one.measured),
        "extrapolation": one.extrapolation,
        "parameters": dict(cell.parameters),
    }


def _axes(scenario: Scenario, parameters: Mapping[str, Any], axis: str) -> dict[str, Any]:
    """The values of all axes, the run's own and the new one, that make this cell."""
    names = [*scenario.axes, *(n for n in (axis, "streams", "threads") if n not in scenario.axes)]
    together = SIZES if axis in SIZES else LINK_SETTINGS if axis in LINK_SETTINGS else ()
    names += [n for n in together if n not in names]
    out: dict[str, Any] = {}
    for name in names:
        value = parameters.get("duration_ns" if name == "duration" else name)
        if name == "data":
            offered = [*scenario.axes.get("data", ()), scenario.workload.data]
            value = next((v for v in offered if data_label(v) == value), scenario.workload.data)
        elif name in SIZES and axis in SIZES and name != axis:
            value = None
        elif name == "threads" and name != axis and value == parameters.get("streams"):
            value = "streams" if "threads" not in scenario.axes else value
        elif name == axis:
            model = next((one for one in (Workload, Target, Hosts) if name in one.model_fields), None)
            if model is None:
                raise ScenarioError(f"{name} is no setting of a scenario, so no trial can check it")
            try:
                value = validate_value(model, name, value)
            except ValueError as error:
                raise ScenarioError(f"{name}: {error}") from None
        out[name] = value
    return out


def _alone(scenario: Scenario, axes: Sequence[Mapping[str, Any]]) -> Scenario:
    """The scenario with these cells and no others."""
    names = list(dict.fromkeys(n for one in axes for n in one))
    # One zipped group: row i of every axis together is cell i. What a line does not name stays as it is.
    rows = {n: [one[n] if n in one else _own(scenario, n) for one in axes] for n in names}
    return replace(scenario, axes=rows, zips=[names], exclude=(), also=())


def _own(scenario: Scenario, name: str) -> Any:
    if name in ("place", "target"):
        return scenario.target.url
    tables = (scenario.workload, scenario.target, scenario.hosts)
    return next(getattr(one, name) for one in tables if name in type(one).model_fields)


def _cell(scenario: Scenario, parameters: Mapping[str, Any], axis: str) -> Cell:
    found = _alone(scenario, [_axes(scenario, parameters, axis)])
    width = parameters.get("row_bytes")
    (cell,) = matrix.cells(found, {str(parameters.get("data")): float(width)} if width else {})
    return cell


def queued_scenario(directory: RunDirectory, scenario: Scenario) -> Scenario | None:
    """The scenario of all queued cells; None where nothing is queued."""
    lines = {str(p["cell"]): p for p in directory.prediction_records()}
    axes = [_axes(scenario, p["parameters"], str(p["axis"])) for p in lines.values()]
    return _alone(scenario, axes) if axes else None


def measure(
    scenario: Scenario,
    writer: RunWriter,
    executor: Executor,
    observer: Observer,
    interrupts: Interrupts,
    retry_failed: bool = False,
) -> Result:
    """Runs the queued cells of the run, repeats interleaved; what is on disk is not repeated."""
    wanted = queued_scenario(writer.read(), scenario)
    if wanted is None or interrupts.asked:
        return Result(interrupted=interrupts.asked)
    starter = getattr(executor, "starter", None)
    with Endpoints(wanted, executor.needs_server, observer.note, starter) as endpoints:
        sweep = Sweep(wanted.run, endpoints, executor, writer, observer, interrupts, retry_failed)
        if not sweep.planned():
            return Result()
        observer.note(
            "info", f"checking predictions: {len(endpoints.cells)} queued, {sweep.planned()} trials"
        )
        observer.begin(endpoints.cells)
        try:
            endpoints.start(lambda: interrupts.asked)
        except KeyboardInterrupt:
            if not interrupts.asked:
                raise
            return Result(interrupted=True)
        if wanted.run.ceilings != "none":
            peers = endpoints.server_environments()
            ceilings.measure(endpoints, executor, writer, observer.note, interrupts.guard, peers)
        return sweep.run()


def execute(path: Path, executor: Executor, observer: Observer, retry_failed: bool = False) -> RunResult:
    """Checks what is queued in a run directory. Raises as `runner.execute`, and where nothing is queued."""
    from venturi.measure.outcome import RunResult

    directory = RunDirectory(path)
    scenario = _scenario(directory)
    if not directory.prediction_records():
        raise VenturiError(
            f"{path}: no prediction is queued", hint=f"queue one: venturi predict {path} --streams 32 --queue"
        )
    with Interrupts() as interrupts, RunWriter.resume(path) as writer:
        for text in writer.repaired:
            observer.note("warning", text)
        result = measure(scenario, writer, executor, observer, interrupts, retry_failed)
    return RunResult(path, result)
