"""The physical limits of this machine, and of the way to another, measured by themselves.

What a run measures beside its trials is `ceilings`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from venturi.analysis.cells.limits import Limit, Narrowest, limits, narrowest, title
from venturi.analysis.models.batch_cost import Packing, packings
from venturi.common.environment import file_system
from venturi.common.errors import ExitCode, ScenarioError, VenturiError
from venturi.common.suffixes import parse_count, parse_duration
from venturi.common.texts import Note
from venturi.engine.executor import Executor
from venturi.measure.ceiling_probes import REPEATS, SOCKETS, Probe, Prober, probes
from venturi.measure.ceilings import cache_key, keep
from venturi.measure.machine_cache import CeilingCache
from venturi.measure.run_events import Interrupts
from venturi.measure.trial_targets import Endpoints
from venturi.plan.layers import Layer
from venturi.plan.load import layer_tree, load
from venturi.plan.scenario import Scenario
from venturi.targets.parameters import CREDENTIALS
from venturi.targets.system import (
    LOCAL,
    LOCAL_UNIX,
    NO_PLACE,
    REFERENCE,
    is_charrow,
    is_local,
    is_plugin,
    is_remote,
    is_shared,
    is_time_series,
    scheme_of,
)
from venturi.targets.urls import check_url, split_url

KINDS = ("memory", "tcp", "unix", "pipe", "disk", "cipher", "codec", "engine")
_CODECS = ("ipc", "lz4", "zstd")
_DEFAULT_MESSAGE = 131_072
Progress = Callable[[int, int, str], None]
"""Told what is measured next: its number, of how many, and what it is called."""


@dataclass
class Ceilings:
    """What was measured."""

    lines: list[dict[str, Any]] = field(default_factory=list, repr=False)
    """A repeat each, as docs/format.md has those of ceilings.jsonl."""
    place: str = "local"
    """Where the way leads that was measured besides that within this machine."""
    interrupted: bool = False

    @property
    def limits(self) -> list[Limit]:
        """Each limit over its repeats, in the order in which they were measured."""
        return limits(self.lines)

    @property
    def narrowest(self) -> list[Narrowest]:
        """The lowest limit of a transfer within this machine, and of one to the other host."""
        ways = {(limit.fields["place"], limit.fields["kind"]) for limit in self.limits}
        places = dict.fromkeys(("local", self.place))
        # Where no sockets were measured, what bounds them all the same.
        sockets = [(p, kind) for p in places for kind in SOCKETS if (p, kind) in ways] or [("local", "tcp")]
        found = (narrowest(self.limits, place, kind) for place, kind in sockets)
        return [line for line in found if line is not None]

    @property
    def packings(self) -> list[Packing]:
        """What each codec does to the data, and so on which links it pays."""
        return packings(self.limits)

    @property
    def exit_code(self) -> ExitCode:
        if self.interrupted:
            return ExitCode.INTERRUPTED
        failed = [line for line in self.lines if line["outcome"] != "ok"]
        ways = [line for line in failed if line["kind"] in SOCKETS]
        if any(_kind(line) == "unreachable" for line in ways):
            return ExitCode.UNREACHABLE
        # A disk that cannot do direct I/O is a finding, not a failure, unless it was all that was asked for.
        if ways or (failed and len(failed) == len(self.lines)):
            return ExitCode.TRIALS_FAILED
        return ExitCode.OK

    @property
    def unsupported(self) -> bool:
        """Whether the server there takes no plain bytes."""
        return any(_kind(line) == "unsupported" for line in self.lines)


def measure(
    options: Mapping[str, Any], executor: Executor, note: Note, progress: Progress | None = None
) -> Ceilings:
    """Measures what the options of `venturi ceilings` ask for, by their keywords and as they are typed.

    Raises `VenturiError` for options that are wrong; a probe that fails is a limit with an error.
    """
    kinds, seconds = _kinds(options["only"]), _seconds(options["duration"])
    if not Path(options["disk"]).is_dir():
        raise VenturiError(f"--disk {options['disk']}: no such directory")
    _check_codec(options["compression"])
    scenario = _scenario(options)
    found = Ceilings()
    with (
        Interrupts() as interrupts,
        Endpoints(scenario, executor.needs_server, note) as endpoints,
        contextlib.ExitStack() as stack,
    ):
        wanted, found.place = _probes(endpoints, options, kinds)
        cache = CeilingCache.of_this_user() if executor.measures else CeilingCache(None, None)
        peers = endpoints.server_environments() if found.place != "local" else {}
        # The way to the server that was named is measured, not a stand-in for it.
        prober = Prober(executor, endpoints, stack, stand_in=False)
        measured: dict[Probe, list[dict[str, Any]]] = {}
        dropped: set[Probe] = set()
        rounds = [(repeat, probe) for repeat in range(options["repeats"]) for probe in wanted]
        for number, (repeat, probe) in enumerate(rounds, 1):
            if probe in dropped:
                continue
            control = executor.control()
            if not interrupts.guard(control):
                break
            if progress is not None:
                progress(
                    number, len(rounds), title(dataclasses.asdict(dataclasses.replace(probe, cell=None)))
                )
            line = prober.line(probe, repeat, control, seconds)
            interrupts.guard(None)
            if line["outcome"] == "interrupted":
                break
            if line["outcome"] != "ok":
                # What cannot be done once cannot be done again; a whole host that does not answer is given up
                # at once.
                dropped.update(p for p in wanted if p == probe or (probe.url and p.url == probe.url))
            if line["kind"] == "disk" and executor.measures:
                line["filesystem"] = file_system(Path(line["path"]))
            found.lines.append(line)
            measured.setdefault(probe, []).append(line)
        found.interrupted = interrupts.requested
        for probe, lines in measured.items() if seconds is None else ():
            keep(cache, cache_key(probe, peers), lines[:REPEATS])
    return found


def _kinds(only: str | None) -> tuple[str, ...]:
    wanted = tuple(x.strip() for x in only.split(",") if x.strip()) if only is not None else KINDS
    for kind in wanted:
        if kind not in KINDS:
            raise VenturiError(f"--only {kind}: no such kind", hint=f"known: {', '.join(KINDS)}")
    if not wanted:
        raise VenturiError("--only: names nothing", hint=f"known: {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in wanted)


def _check_codec(name: str | None) -> None:
    if name is None:
        return
    codec, colon, level = name.partition(":")
    good = not colon if codec in ("ipc", "lz4") else codec == "zstd" and (not colon or level.isdecimal())
    if not good or (level and not 1 <= int(level) <= 22):
        raise VenturiError(
            f"--compression {name}: no such codec",
            hint="known: lz4, zstd, and zstd:LEVEL with levels 1 to 22",
        )


def _seconds(duration: str | None) -> float | None:
    if duration is None:
        return None
    try:
        found = parse_duration(duration) / 1e9
    except ValueError as error:
        raise VenturiError(f"--duration: {error}") from None
    if not 0.01 <= found <= 60:
        raise VenturiError(f"--duration {duration}: must be 10ms to 60s")
    return found


def _scenario(options: Mapping[str, Any]) -> Scenario:
    """The cells that these limits are for, read and checked as a scenario's."""

    rows = options["rows_per_batch"]
    if options["message_bytes"] is not None:
        if rows is not None:
            raise VenturiError("--message-bytes and --rows-per-batch say the same: give one of them")
        if options["data"] != "records":
            raise VenturiError("--message-bytes goes with records; for a file give --rows-per-batch")
    if rows is None:
        try:
            width = 8 * parse_count(options["columns"] or 4)
            size = parse_count(options["message_bytes"] or _DEFAULT_MESSAGE)
        except ValueError as error:
            raise VenturiError(f"--message-bytes: {error}") from None
        if size < 1:
            raise VenturiError(f"--message-bytes {options['message_bytes']}: must be at least 1")
        # Whole rows; a message smaller than a row is a row.
        rows = str(max(1, round(size / max(width, 1))))
    wanted = {name: options[name] for name in ("data", "columns", "values", "streams", *CREDENTIALS)}
    wanted |= {
        "operation": "get" if is_charrow(options["url"] or "") else "get,put",
        "data": [options["data"]],
        "rows_per_batch": rows,
        "duration": "1s",
    }
    if options["url"] is not None:
        try:
            url = check_url(options["url"])
        except ValueError as error:
            raise ScenarioError(f"URL: {error}") from None
        if scheme_of(url) in NO_PLACE:
            raise VenturiError(f"URL {url}: there is no way there to be measured; leave it out")
        if scheme_of(url) not in REFERENCE:
            what = "a store of time series" if is_time_series(url) else "a database"
            what = "a plugin" if is_plugin(url) else what
            raise VenturiError(
                f"URL {url.partition('://')[0]}://: {what} has no port that takes plain bytes",
                hint="to measure the way there, run on that host: venturi serve flight --host 0.0.0.0",
            )
        if is_shared(url):
            raise VenturiError(
                f"URL {url}: shared memory has no way of its own to be measured; memory copy is its limit",
                hint="venturi ceilings --only memory",
            )
        if is_remote(url):
            raise VenturiError(
                f"URL {url}: stands for servers that venturi run starts (--on, --link); name one that runs"
            )
        # What lies there does not matter: only the way is measured.
        wanted["target"] = split_url(url)._replace(path="", query="").geturl()

    tree, spelled = layer_tree(wanted)
    spelled = {key: "URL" if flag == "--target" else flag for key, flag in spelled.items()}
    tree.setdefault("name", "ceilings")
    return load([Layer("", tree, flags=spelled)])


def _probes(
    endpoints: Endpoints, options: Mapping[str, Any], kinds: Sequence[str]
) -> tuple[list[Probe], str]:
    """Those of the cells, and the ones that a run makes only where it needs them; and the place where the way
    leads."""
    found = probes(endpoints.cells)
    ways = [probe for probe in found if probe.kind in SOCKETS]
    local = [
        dataclasses.replace(probe, kind="tcp", place="local", url=LOCAL)
        for probe in ways
        if probe.name is None
    ]
    unix = [dataclasses.replace(probe, kind="unix", url=LOCAL_UNIX) for probe in local]
    remote = [] if is_local(ways[0].url) else ways
    cell = endpoints.cells[0]
    size, label = cell.message_bytes, next(p.data for p in found if p.kind == "engine")
    names = dict.fromkeys(filter(None, [*_CODECS, options["compression"]]))
    of: dict[str, Any] = {"message_bytes": size, "data": label, "cell": cell}
    codecs = [
        Probe("codec", end="client", name=f"{codec}-{verb}", threads=1, **of)
        for codec in names
        for verb in ("encode", "decode")
    ]
    path = str(Path(options["disk"]).resolve())
    disks = [Probe("disk", end="client", name=name, path=path) for name in ("fsync", "direct")]
    # Where TCP takes every way, a pipe has but one.
    pipes = [dataclasses.replace(probe, kind="pipe", place=None, end="client", url="") for probe in local]
    every = {
        "memory": [p for p in found if p.kind == "memory"],
        "tcp": [*(p for p in remote if p.kind == "tcp"), *local],
        "unix": [*(p for p in remote if p.kind == "unix"), *unix],
        "pipe": pipes,
        "disk": disks,
        "cipher": [Probe("cipher", end="client", name=name, threads=1) for name in ("seal", "open")],
        "codec": codecs,
        "engine": [p for p in found if p.kind == "engine"],
    }
    # The far host first: whether it answers is known at once.
    order = [*SOCKETS, *(k for k in KINDS if k not in SOCKETS)] if remote else list(KINDS)
    place = str(remote[0].place) if remote else "local"
    return [probe for kind in order if kind in kinds for probe in every[kind]], place


def _kind(line: Mapping[str, Any]) -> object:
    """How a repeat failed; None if it did not."""
    error = line["error"]
    return error.get("kind") if isinstance(error, dict) else None
