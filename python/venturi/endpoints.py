"""Where a cell's trials go: its data made ready, the reference server started, its address filled in."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from venturi import preflight
from venturi.data import DataStore
from venturi.local_targets import LocalTargets, duckdb_library
from venturi.matrix import cells
from venturi.scenario import Scenario
from venturi.settings import SOURCES
from venturi.trial import Cell
from venturi.urls import is_database, is_local, is_loopback, scheme_of

__all__ = ["Endpoints", "is_loopback", "labels"]

Note = Callable[[str, str], None]


class Endpoints:
    """Data and servers of one run; use as a context manager, which stops and removes them.

    `note(level, text)` takes lines for the user.
    """

    def __init__(self, scenario: Scenario, needs_server: bool, note: Note) -> None:
        self._scenario = scenario
        self._needs_server = needs_server
        self._note = note
        self._store = DataStore()
        self._local = LocalTargets(note)
        self._began_s = int(time.time())
        self.cells: list[Cell] = []

    def __enter__(self) -> Endpoints:
        try:
            self._prepare()
        except BaseException:
            self._store.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._local.stop()
        self._store.__exit__()

    def _prepare(self) -> None:
        """Reads the files, so that cells know the width of their rows."""
        widths: dict[str, float] = {}
        for cell in cells(self._scenario):
            if _is_file(cell):
                label = cell.parameters["data"]
                prepared = self._store.prepare(label, _cut(cell))
                preflight.check_columns(self._scenario, cell, prepared)
                widths.setdefault(label, round(prepared.row_bytes, 3))
        self._store.forget_tables()
        self.cells = cells(self._scenario, widths)
        preflight.check(self._scenario, self.cells)

    def start(self) -> None:
        """Starts servers for cells that go to `local`. Raises VenturiError where one does not start."""
        if self._needs_server:
            self._local.start(str(cell.parameters["target"]) for cell in self.cells)

    def ensure(self, doubted: bool = False) -> None:
        """Starts servers again that have died; `doubted`: the last trial failed as if one had."""
        self._local.ensure(doubted)

    def server_environments(self) -> dict[str, dict[str, Any]]:
        """What the other ends say of themselves, by place; nothing of those that are not ours.

        Asking is not worth an error: whoever does not answer is left out, and the trials will say why.
        """
        found: dict[str, dict[str, Any]] = {}
        silent: set[str] = set()
        for cell in self.cells if self._needs_server else ():
            place, url = str(cell.parameters["place"]), str(cell.parameters["target"])
            if place in found or url in silent or scheme_of(url) == "empty":
                continue
            described: object = None
            if is_local(url):
                described = self._local.environment(url)
            elif not is_database(url):
                described = _described(url, cell.options, self._scenario.run.timeout / 1e9)
            if isinstance(described, dict):
                found[place] = described
            else:
                silent.add(url)
        return found

    @property
    def local_address(self) -> str | None:
        """URL of the run's own reference server, where there is one."""
        address = self._local.reference_address
        return f"flight://{address}" if address is not None else None

    def url(self, cell: Cell) -> str:
        """The address for a trial of this cell."""
        url = str(cell.parameters["target"])
        return self._local.url(url) if self._needs_server else url

    def options(self, cell: Cell) -> dict[str, Any]:
        """The options of the spec for this cell, with what depends on this machine."""
        more = {}
        if self._needs_server and scheme_of(str(cell.parameters["target"])) == "duckdb":
            more["library"] = duckdb_library()
        return {**cell.options, **more}

    def data(self, cell: Cell) -> dict[str, Any]:
        """The spec's `data` for this cell."""
        p = cell.parameters
        if p["data"] == "records":
            return {"source": "records", "columns": p["columns"], "values": p["values"], "seed": p["seed"]}
        if p["data"] == "remote":
            return {"source": "remote"}
        if p["data"] == "usage":
            return {
                "source": "usage",
                "working_set": p["working_set"],
                "seed": p["seed"],
                "loaded_unix_s": self._began_s,
            }
        item = self._store.prepare(p["data"], _cut(cell))
        return {"source": "file", "path": item.path, "ipc": str(item.ipc)}


def _described(url: str, options: Mapping[str, Any], seconds: float) -> object:
    """The environment that a reference server tells, None where it tells none in that time."""
    answers: list[object] = []

    def ask() -> None:
        with contextlib.suppress(ImportError, AttributeError, RuntimeError, OSError, ValueError):
            from venturi import _core

            address = urlsplit(url)._replace(path="", query="").geturl()
            answer = _core.flight_environment(address, json.dumps(dict(options)))
            answers.append(json.loads(answer) if answer else None)

    # The core is patient with a server that says nothing; a run need not be.
    thread = threading.Thread(target=ask, name="venturi-environment", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


def _is_file(cell: Cell) -> bool:
    return cell.parameters["data"] not in SOURCES


def _cut(cell: Cell) -> int | None:
    """Rows a batch of a file made ready. An upsert gets each row once, and is cut where it is read."""
    return None if cell.parameters["operation"] == "upsert" else int(cell.parameters["rows_per_batch"])


def varying(found: Sequence[Cell]) -> list[str]:
    """The parameters that tell these cells apart, in their order."""
    derived = {"row_bytes", "target", "bytes_per_stream"}
    names = [name for name in (found[0].parameters if found else {}) if name not in derived]
    several = [name for name in names if len({repr(cell.parameters[name]) for cell in found}) > 1]
    if "threads" in several and all(c.parameters["threads"] == c.parameters["streams"] for c in found):
        several.remove("threads")
    if "rows_per_stream" in several and all(c.parameters["bytes_per_stream"] for c in found):
        # The rows follow from the bytes, which are what was asked for.
        amounts = {c.parameters["bytes_per_stream"] for c in found}
        several[several.index("rows_per_stream")] = "bytes_per_stream"
        if len(amounts) == 1:
            several.remove("bytes_per_stream")
    records = {name for name in ("columns", "values", "seed") if name in several}
    if records and len({repr([c.parameters[n] for n in sorted(records)]) for c in found}) <= 2:
        # These are null for files, so they vary with the data and say nothing of their own.
        several = [name for name in several if name not in records]
    return several


def labels(found: Sequence[Cell]) -> dict[str, str]:
    """A short text a cell: what tells it from the others."""
    names = [name for name in varying(found) if name != "operation"]
    return {cell.id: _label(cell, names) for cell in found}


def _label(cell: Cell, names: list[str]) -> str:
    p = cell.parameters
    parts = [str(p["operation"])]
    for name in names:
        value = p[name]
        if value is not None:
            text = Path(value).name if name == "data" else value
            parts.append(f"{name}={text}")
    return " ".join(parts)
