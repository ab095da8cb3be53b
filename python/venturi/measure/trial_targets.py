"""Where a cell's trials go: data made ready, a reference server started, its address filled in; what servers
report about their hosts.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from venturi.common import environment, temporary
from venturi.common.credentials import split_command
from venturi.common.environment import usable_cores
from venturi.common.errors import ExitCode, StoreError, VenturiError
from venturi.common.links import SERVER_END
from venturi.common.runtime import load_core
from venturi.common.suffixes import SEED_NS, parse_count, parse_duration, parse_time
from venturi.common.texts import Note
from venturi.engine.executor import run_with_progress
from venturi.engine.record import Trial
from venturi.inputs.files import DataStore, Prepared
from venturi.inputs.tables import Columns
from venturi.measure import preflight
from venturi.measure.run_events import Interrupts
from venturi.netlab.network import filled
from venturi.plan.cell import Cell
from venturi.plan.matrix import cells
from venturi.plan.rules import link as links
from venturi.plan.rules import systems
from venturi.plan.rules.systems import METRICS
from venturi.plan.scenario import Scenario
from venturi.plan.workload import SOURCES
from venturi.servers.local import LocalTargets, Settings, adbc_driver, duckdb_library
from venturi.servers.program import OWN
from venturi.servers.reference import Starter
from venturi.targets.system import (
    NO_PLACE,
    REFERENCE,
    SERVERS,
    is_charrow,
    is_database,
    is_driver,
    is_ours,
    is_plugin,
    is_time_series,
    is_unix,
    scheme_of,
)
from venturi.targets.urls import each_host, is_loopback, place_of, split_url


def ask_environments(
    url: str, options: Mapping[str, Any], seconds: float
) -> dict[str, dict[str, Any] | None]:
    """The environment of each reference server of this address; all are asked at once, for so long."""
    answers: dict[str, dict[str, Any]] = {}
    urls = {place_of(one): split_url(one)._replace(path="", query="").geturl() for one in each_host(url)}

    def one(name: str) -> None:
        with contextlib.suppress(VenturiError, AttributeError, RuntimeError, OSError, ValueError):
            answer = load_core().server_environment(urls[name], json.dumps(dict(options)))
            if isinstance(found := json.loads(answer) if answer else None, dict):
                answers[name] = found

    # The core is patient with a server that says nothing; a run need not be.
    threads = [
        threading.Thread(target=one, args=(name,), name="venturi-environment", daemon=True) for name in urls
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return {name: answers.get(name) for name in urls}


def start_a_server(target: str) -> str:
    """A command that starts a server of this system there, where Venturi has one."""
    scheme = scheme_of(target)
    if SERVER_END in target:
        return f"does the program of --server still listen at {place_of(target)}?"
    if scheme in REFERENCE:
        anywhere = "" if is_loopback(target) else " --host 0.0.0.0"
        if is_unix(target):
            anywhere = f" --unix {shlex.quote(place_of(target))}"
        return f"start a server there: venturi serve {REFERENCE[scheme]}{anywhere}"
    if scheme in SERVERS:
        own = f"venturi serve {SERVERS[scheme]}, or --target {scheme}://local"
        return f"is the database running? One for a try: {own}"
    return "does its server run, and is this its address?"


_ARCHIVE = "archive:"


class Endpoints:
    """Data and servers of one run; use as a context manager, which stops and removes them.

    `note(level, text)` takes lines for the user; `starter` starts servers elsewhere than here.
    """

    def __init__(
        self, scenario: Scenario, needs_server: bool, note: Note, starter: Starter | None = None
    ) -> None:
        self._scenario = scenario
        self._needs_server = needs_server
        self._note = note
        self._store = DataStore()
        self.local = LocalTargets(note, starter)
        self._began_s = int(time.time())
        # How far the times of points have come at a store that keeps them from trial to trial.
        self._ahead_ns: dict[str, int] = {}
        self._made_archives: dict[str, Path] = {}
        self.cells: list[Cell] = []
        # How many `X://remote` stands for.
        self.servers = scenario.hosts.servers or 1

    def __enter__(self) -> Endpoints:
        # Even if this run makes no directory: removes what a killed run left.
        temporary.sweep()
        try:
            self._prepare()
        except BaseException:
            self._store.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.local.stop()
        self._store.__exit__()

    def _prepare(self) -> None:
        """Reads the files, so that cells know the width of their rows."""
        widths: dict[str, float] = {}
        for cell in cells(self._scenario):
            if _is_file(cell):
                label = cell.parameters["data"]
                if cell.parameters["operation"] == "ingest":
                    self._store.prepare_points(label, _columns(cell))
                    continue
                prepared = self._prepared(cell)
                preflight.check_columns(self._scenario, cell, prepared)
                widths.setdefault(label, round(prepared.row_bytes, 3))
        self._store.forget_tables()
        self.cells = cells(self._scenario, widths)
        preflight.check(self._scenario, self.cells)
        if self._needs_server:
            preflight.check_hosts(self._scenario, self.cells)

    def start(self, halt: Callable[[], bool] = lambda: False) -> None:
        """Starts servers for cells of `local` or `remote`, and the scenario's own. Raises VenturiError
        where one does not start, KeyboardInterrupt where `halt` says so meanwhile."""
        if self._needs_server:
            tables = {made.name: made.ipc for cell in self.cells if (made := self._served(cell)) is not None}
            urls = (str(cell.parameters["target"]) for cell in self.cells)
            program = self._scenario.hosts.server
            self.local.start(urls, tables, program, links.ports(self.cells) if program else (), halt)
            for cell in self.cells:
                if cell.parameters["data"] == "archive":
                    # Now, not when the first trial is about to begin.
                    self._archives(cell)
            for cell in self.cells[:1]:
                self.ready(cell)

    def ready(self, cell: Cell) -> None:
        """Empties a store of ours before a trial of this cell."""
        store = self.local.store(str(cell.parameters["target"]))
        if self._needs_server and store is not None:
            store.ready(_settings(cell))

    def moved(self, cell: Cell, record: dict[str, Any]) -> None:
        """A trial of this cell has ended: points that follow it must not be older than those that it sent.

        A store of ours tells only of segments: that all is in them costs no trial anything now.
        """
        target = str(cell.parameters["target"])
        store = self.local.store(target) if self._needs_server and record.get("outcome") == "ok" else None
        if store is not None and (stored := store.sealed_bytes()) is not None:
            record["counts"] = {**record["counts"], "stored_bytes": stored}
        self._advance(cell, [int(stream.get("rows") or 0) for stream in record.get("streams") or ()])

    def resumed(self, trials: Sequence[Trial]) -> None:
        """The run goes on: a store may hold the points of its trials, and of one that left no line."""
        cells = {cell.id: cell for cell in self.cells}
        for trial in trials:
            if (cell := cells.get(trial.cell)) is not None:
                self._advance(cell, [stream.rows or 0 for stream in trial.streams])
        for cell in cells.values():
            self._advance(cell, [])

    def _advance(self, cell: Cell, sent: Sequence[int]) -> None:
        """Points follow those that a trial of this cell sent, by its streams."""
        p, target = cell.parameters, str(cell.parameters["target"])
        if p["operation"] != "ingest" or p["hosts"] is None or is_ours(target):
            return
        rows = max([int(p["rows_per_stream"] or 0), *(n + p["rows_per_batch"] for n in sent)])
        hosts = max(1, p["hosts"] // p["streams"])
        steps = -(-rows // (METRICS * hosts)) + 1
        self._ahead_ns[target] = self._ahead_ns.get(target, 0) + steps * int(p["tick_ns"])

    def server_environments(self) -> dict[str, environment.ServerEnvironments]:
        """What the other ends say of themselves, by place and server; nothing of those that are not ours.

        Asking is not worth an error: a place where nobody answers is left out, and the trials will say why.
        """
        found: dict[str, environment.ServerEnvironments] = {}
        silent: set[str] = set()
        for cell in self.cells if self._needs_server else ():
            place, url = str(cell.parameters["place"]), str(cell.parameters["target"])
            if place in found or url in silent or scheme_of(url) in NO_PLACE:
                continue
            environments: environment.ServerEnvironments = {}
            if is_ours(url):
                environments = self.local.environments(url)
            elif not (is_database(url) or is_time_series(url) or is_plugin(url) or SERVER_END in url):
                environments = ask_environments(url, cell.options, self._scenario.run.timeout / 1e9)
            if any(described is not None for described in environments.values()):
                found[place] = environments
            else:
                silent.add(url)
        return found

    def url(self, cell: Cell) -> str:
        """The address for a trial of this cell."""
        url = str(cell.parameters["target"])
        return self._filled([self.local.url(url)])[0] if self._needs_server else url

    def _filled(self, texts: Iterable[str]) -> list[str]:
        """With the addresses of a link's ends, where one leads to somebody else's program."""
        return [filled(text) if self._scenario.hosts.server is not None else text for text in texts]

    def _metrics(self, cell: Cell) -> dict[str, Any]:
        """Points that Venturi makes, from where they may begin: a store of ours is empty, another one may
        hold those of trials and of runs before."""
        target, start = str(cell.parameters["target"]), cell.parameters["start_unix_ns"]
        if start is None:
            start = SEED_NS if is_ours(target) else self._began_s * 10**9
        start += self._ahead_ns.get(target, 0)
        points = {name: cell.parameters[name] for name in ("hosts", "seed", "tick_ns")}
        return {"source": "metrics", **points, "start_unix_ns": start, "steps": None}

    def _archives(self, cell: Cell) -> Path:
        """Archives made for this run: one a stream, each as long as a stream is; once for all cells alike."""
        p = cell.parameters
        steps = max(1, -(-int(p["rows_per_stream"]) * p["streams"] // (METRICS * p["hosts"])))
        spec = {
            "path": "",
            "data": self._metrics(cell),
            "archives": p["streams"],
            "steps": steps,
            "threads": usable_cores(),
        }
        key = json.dumps(spec, sort_keys=True)
        if key not in self._made_archives:
            points = steps * METRICS * p["hosts"]
            self._note("info", f"making {p['streams']} archives of {points:,} points together for this run")
            folder = self._store.folder / f"archives-{len(self._made_archives)}"
            make_archives(load_core(), spec | {"path": str(folder)})
            self._made_archives[key] = folder
        return self._made_archives[key]

    def ingest(self, cell: Cell) -> dict[str, Any] | None:
        """The spec's `ingest`: which columns of the cell's file are what; None for other data."""
        if cell.parameters["operation"] != "ingest" or not _is_file(cell):
            return None
        found = self._store.prepare_points(cell.parameters["data"], _columns(cell)).points
        assert found is not None
        return {
            "time": found.time,
            "tags": list(found.tags),
            "values": list(found.values),
            "metric": cell.parameters["metric"],
        }

    def options(self, cell: Cell) -> dict[str, Any]:
        """The options of the spec for this cell, with what depends on this machine."""
        more: dict[str, Any] = {}
        if self._needs_server and scheme_of(str(cell.parameters["target"])) == "duckdb":
            more["library"] = duckdb_library()
        url = str(cell.parameters["target"])
        if self._needs_server and (store := self.local.store(url)) is not None and "+http" not in url:
            more["http_port"] = store.http_port
        if is_driver(url):
            more |= {key: it for key, it in adbc_driver(url).items() if key not in cell.options}
            if words_given := cell.options.get("driver_options"):
                more["driver_options"] = self._filled(words_given)
        if scheme_of(url) == "exec":
            command = cell.options.get("command")
            more["command"] = list(OWN) if command is None else self._filled(split_command(command))
        if is_charrow(url):
            served = self._served(cell)
            query = systems.query_text(cell, served.name if served is not None else None)
            more |= {"query": query} if query is not None else {}
        return {**cell.options, **more}

    def _prepared(self, cell: Cell) -> Prepared:
        """The cell's file, made ready for the way that it goes."""
        label, rows = str(cell.parameters["data"]), int(cell.parameters["rows_per_batch"])
        if is_charrow(str(cell.parameters["target"])):
            return self._store.prepare_values(label, rows)
        # Upserts read each row once and are split while reading.
        return self._store.prepare(label, None if cell.parameters["operation"] == "upsert" else rows)

    def _served(self, cell: Cell) -> Prepared | None:
        """The cell's file where a server of ours gives it as a table."""
        return self._prepared(cell) if _is_file(cell) and is_charrow(str(cell.parameters["target"])) else None

    def data(self, cell: Cell) -> dict[str, Any]:
        """The spec's `data` for this cell."""
        p = cell.parameters
        source = str(p["data"])
        if source == "records":
            return records(cell)
        if source in ("remote", "states") or self._served(cell) is not None:
            return {"source": "remote"}
        if source == "usage":
            made = {"working_set": p["working_set"], "seed": p["seed"], "loaded_unix_s": self._began_s}
            return {"source": source, **made}
        if source == "metrics":
            return self._metrics(cell)
        if source == "archive":
            return {"source": source, "path": str(self._archives(cell))}
        if source.startswith(_ARCHIVE):
            return {"source": "archive", "path": source.removeprefix(_ARCHIVE)}
        ingest = p["operation"] == "ingest"
        item = self._store.prepare_points(source, _columns(cell)) if ingest else self._prepared(cell)
        return {"source": "file", "path": item.path, "ipc": str(item.ipc)}


def plan_archives(path: Path, settings: Mapping[str, object], prefix: str = "") -> dict[str, Any]:
    """The spec of archives in this directory. Raises VenturiError for a value that is wrong."""

    def read(name: str, parse: Callable[[str], int]) -> int:
        try:
            found = int(parse(str(settings[name])))
        except ValueError as error:
            raise VenturiError(f"{prefix}{name}: {error}") from None
        if found < 1 and name != "seed":
            raise VenturiError(f"{prefix}{name} {settings[name]}: must be at least 1")
        return found

    archives, hosts = read("archives", parse_count), read("hosts", parse_count)
    if archives > hosts:
        raise VenturiError(
            f"{prefix}archives {settings['archives']}: each has hosts to itself, and there are {hosts:,}",
            hint=f"take more hosts: {prefix}hosts {archives}",
        )
    digits = str(settings["digits"])
    if digits not in ("17", "shortest"):
        raise VenturiError(f"{prefix}digits {digits}: is not one of 17, shortest")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise VenturiError(
            f"{prefix}archive {path}: is {'not empty' if path.is_dir() else 'no directory'}",
            hint="name a new one: nothing is overwritten",
        )
    return {
        "path": str(path.absolute()),
        "data": {
            "source": "metrics",
            "hosts": hosts,
            "seed": read("seed", parse_count),
            "tick_ns": read("tick", parse_duration),
            "start_unix_ns": read("start", parse_time),
            "steps": None,
        },
        "archives": archives,
        "steps": read("steps", parse_count),
        "format": "rows",
        "digits": 17 if digits == "17" else None,
        "level": settings["level"],
        "threads": usable_cores() if settings["threads"] == "cpus" else read("threads", parse_count),
    }


def make_archives(
    core: Any, spec: dict[str, Any], draw: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Makes the archives of this spec, and answers their manifest. Ctrl-C takes back what was begun.

    `draw` gets how many points are made, and of how many. Raises VenturiError.
    """
    control, points = core.Control(), spec["data"]["hosts"] * METRICS * spec["steps"]
    with Interrupts() as interrupts:
        interrupts.guard(control)
        try:
            return run_with_progress(
                core.generate, spec, control, lambda found: draw(found.rows, points) if draw else None
            )
        except OSError as error:
            raise StoreError(str(error)) from None
        except (ValueError, RuntimeError) as error:
            if interrupts.requested:
                raise VenturiError("interrupted; what was begun is removed", ExitCode.INTERRUPTED) from None
            raise VenturiError(str(error)) from None


def records(cell: Cell) -> dict[str, Any]:
    """The spec's `data` of records."""
    return {"source": "records", **{name: cell.parameters[name] for name in ("columns", "values", "seed")}}


def _settings(cell: Cell) -> Settings:
    p = cell.parameters
    return Settings(p.get("durable") or "os", p.get("pool"), "+udp" in str(p["target"]))


def _columns(cell: Cell) -> Columns:
    p = cell.parameters
    values = str(p["values"]).split(",") if p["values"] else ()
    return Columns(p["time"], tuple(p["tags"] or ()), tuple(values))


def _is_file(cell: Cell) -> bool:
    data = str(cell.parameters["data"])
    return data not in SOURCES and not data.startswith(_ARCHIVE)
