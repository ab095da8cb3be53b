"""`--on`: where the streams of a run's trials run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from venturi.common.credentials import without_secrets
from venturi.common.errors import VenturiError
from venturi.common.texts import Note
from venturi.engine.executor import CoreExecutor, Executor
from venturi.engine.record import Trial
from venturi.plan.matrix import cells
from venturi.targets.system import is_host_of, is_remote
from venturi.targets.urls import printable

if TYPE_CHECKING:
    from venturi.plan.scenario import Scenario

_RAY = ("auto", "local")
_BESIDE = "here,"


def kind(on: str | None) -> str | None:
    """By what streams are placed: ray or spark; None if this process runs all."""
    if on is None:
        return None
    where = on.removeprefix(_BESIDE)
    if where == "spark":
        return "spark"
    if where in _RAY or is_host_of("ray", where):
        return "ray"
    raise VenturiError(
        f"--on {printable(on)}: must be ray://HOST:PORT, auto, local or spark; here,spark runs each cell "
        "in both places"
    )


def _places(on: str | None) -> set[str | None]:
    """The values of the parameter `on` in such a run."""
    return {kind(on), *([None] if on is not None and on.startswith(_BESIDE) else [])}


def named(found: Scenario, on: str | None, master: str | None) -> tuple[Scenario, list[str]]:
    """The scenario placed as the command line says, and what to know of it."""
    place = kind(on)
    if master is not None and place != "spark":
        raise VenturiError("--master is Spark's: it goes with --on spark")
    if master is not None and without_secrets(master) != master:
        raise VenturiError("--master: has a secret in it, which would be stored with the run")
    notes = []
    if (
        place is None
        and not found.over_link
        and (found.hosts.loaders not in (None, 1) or "loaders" in found.axes)
    ):
        notes.append("no --on: all streams run in this process, and loaders mean nothing")
    return replace(found, on=place, beside=len(_places(on)) > 1), notes


def resumed(on: str | None, trials: Sequence[Trial], path: object) -> None:
    """Whether a resumed run goes on where it was begun. Raises VenturiError."""
    if not trials:
        return
    all_before = {trial.parameters.get("on") for trial in trials}
    if all_before <= _places(on) and (len(all_before) > 1 or len(_places(on)) == 1 or None in all_before):
        return
    before = next((place for place in all_before if place is not None), None)
    if before is None:
        raise VenturiError(f"--on {on}: {path} was begun without it, in one process")
    again = "spark" if before == "spark" else "ray://HOST:PORT (or auto, local)"
    again = f"{_BESIDE}{again}" if None in all_before else again
    raise VenturiError(f"{path} was begun on {before}: say where again by --on {again}")


@contextlib.contextmanager
def local_executor(found: Scenario | None = None) -> Iterator[Executor]:
    """What runs trials of which no other host has a part: over links, where the scenario names some. Raises
    VenturiError where this host has no network namespaces for them."""
    if found is None or not found.over_link:
        yield CoreExecutor()
        return
    from venturi.netlab.executor import LinkExecutor

    loaders = [found.hosts.loaders, *found.axes.get("loaders", ())]
    most = max((count for count in loaders if count is not None), default=None)
    with contextlib.closing(LinkExecutor(found.to_remote, most)) as placed:
        yield placed


Local = Callable[["Scenario"], contextlib.AbstractContextManager[Executor]]


@contextlib.contextmanager
def placed(
    found: Scenario, on: str | None, master: str | None, note: Note, local: Local | None = None
) -> Iterator[tuple[Scenario, Executor]]:
    """The scenario as it is run, and what runs its trials. `local` makes what runs them in this process."""
    if on is None:
        with (local or local_executor)(found) as engine:
            yield found, engine
        return
    with contextlib.closing(executor(found, on, master, note)) as engine:
        yield with_loaders(found, engine), engine


def executor(found: Scenario, on: str, master: str | None, note: Note) -> Any:
    """What runs trials there; to be closed. Raises VenturiError if that cannot be reached."""
    placed = _placed(found, on.removeprefix(_BESIDE), master, note)
    if not found.beside:
        return placed
    from venturi.cluster.trial.loaders_executor import Beside

    return Beside(placed)


def _placed(found: Scenario, on: str, master: str | None, note: Note) -> Any:
    if on == "spark":
        return import_module("venturi.cluster.spark_executor").SparkExecutor(master, note)
    from venturi.cluster.ray_executor import RayExecutor

    planned = cells(found)
    wanted = [cell.parameters["loaders"] for cell in planned]
    most = max((int(value) for value in wanted if value is not None), default=None)
    remote = any(is_remote(str(cell.parameters["target"])) for cell in planned)
    hosts = found.hosts.model_copy(update={"servers": (found.hosts.servers or 1) if remote else None})
    return RayExecutor.connect(on, hosts, most, note, beside=found.beside)


def with_loaders(found: Scenario, engine: Any) -> Scenario:
    """Where the scenario says no number of loaders, as many as the cluster has hosts for."""
    if found.on != "ray" or found.hosts.loaders is not None or "loaders" in found.axes:
        return found
    return replace(found, hosts=found.hosts.model_copy(update={"loaders": engine.loaders}))
