"""`venturi ceilings`: the physical limits of this machine, and of the way to another."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from venturi.cli import flags as f
from venturi.cli import forms
from venturi.common.errors import ExitCode, ScenarioError, VenturiError
from venturi.common.say import say

if TYPE_CHECKING:
    from venturi.engine.executor import Executor
    from venturi.measure.ceiling_probes import Probe
    from venturi.measure.endpoints import Endpoints
    from venturi.plan.scenario import Scenario

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi ceilings
  venturi ceilings flight://host:31337 --streams 1,2,4,8
  venturi ceilings --only memory,codec --data rows.parquet --compression zstd:9
  venturi ceilings --only disk --disk /mnt/data --format json
"""
KINDS = ("memory", "tcp", "disk", "codec", "engine")
CODECS = ("ipc", "lz4", "zstd")
_DEFAULT_MESSAGE = 131_072


@app.command(epilog=EPILOG)
@f.settings("columns", "values", *f.CREDENTIALS)
def ceilings(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL]", help="A `venturi serve` on another host, to measure the way there as well."
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", help=f"Kinds to measure: {', '.join(KINDS)}.", show_default=False),
    ] = None,
    streams: Annotated[
        str, typer.Option("--streams", help="Numbers of connections, as 1,2,4 or 1..8.")
    ] = "1,2,4",
    message_bytes: Annotated[
        str | None,
        typer.Option(
            "--message-bytes", help="Payload of a message, as 128Ki. [default: 128Ki]", show_default=False
        ),
    ] = None,
    rows_per_batch: Annotated[
        str | None,
        typer.Option("--rows-per-batch", help="The same as rows of the data.", show_default=False),
    ] = None,
    data: Annotated[
        str, typer.Option("--data", help="What codecs work on: records, builtin:birdstrikes, or a file.")
    ] = "records",
    compression: Annotated[
        str | None,
        typer.Option("--compression", help="A codec besides lz4 and zstd, as zstd:9.", show_default=False),
    ] = None,
    disk: Annotated[Path, typer.Option("--disk", help="Directory whose disk is written to.")] = Path(),
    repeats: Annotated[int, typer.Option("--repeats", min=1, max=100, help="Times each is measured.")] = 5,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration", help="Time of one repeat. [default: 100ms to 300ms by kind]", show_default=False
        ),
    ] = None,
    format: Annotated[
        forms.TableOrJson,
        typer.Option("--format", help="table for people; json: limits and single repeats, base units."),
    ] = forms.TableOrJson.table,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    executor: forms.Executor = "core",
    *,
    settings: dict[str, Any],
) -> None:
    """Measure the limits that no transfer can pass: memory, TCP, disk, codecs, and Venturi itself."""
    given = dict(locals()) | settings
    kinds = _kinds(only)
    seconds = _seconds(duration)
    _check_codec(compression)
    if not disk.is_dir():
        raise VenturiError(f"--disk {disk}: no such directory")
    scenario = _scenario(given)
    from venturi.cli.run import _executor

    engine = _executor(executor)
    session = _Session(scenario, engine, kinds, given, seconds)
    session.measure()
    _print(session, format)
    raise typer.Exit(int(session.exit_code()))


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
    from venturi.common.suffixes import parse_duration

    if duration is None:
        return None
    try:
        found = parse_duration(duration) / 1e9
    except ValueError as error:
        raise VenturiError(f"--duration: {error}") from None
    if not 0.01 <= found <= 60:
        raise VenturiError(f"--duration {duration}: must be 10ms to 60s")
    return found


def _scenario(given: dict[str, Any]) -> Scenario:
    """The cells that these limits are for, read and checked as a scenario's."""
    from venturi.common.suffixes import parse_count
    from venturi.plan.layers import Layer
    from venturi.plan.load import load
    from venturi.targets.system import NO_PLACE, is_charrow, is_remote, is_time_series, scheme_of
    from venturi.targets.urls import check_url

    rows = given["rows_per_batch"]
    if given["message_bytes"] is not None:
        if rows is not None:
            raise VenturiError("--message-bytes and --rows-per-batch say the same: give one of them")
        if given["data"] != "records":
            raise VenturiError("--message-bytes goes with records; for a file give --rows-per-batch")
    if rows is None:
        try:
            width = 8 * parse_count(given["columns"] or 4)
            size = parse_count(given["message_bytes"] or _DEFAULT_MESSAGE)
        except ValueError as error:
            raise VenturiError(f"--message-bytes: {error}") from None
        if size < 1:
            raise VenturiError(f"--message-bytes {given['message_bytes']}: must be at least 1")
        # Whole rows; a message smaller than a row is a row.
        rows = str(max(1, round(size / max(width, 1))))
    wanted = {name: given[name] for name in ("data", "columns", "values", "streams", *f.CREDENTIALS)}
    wanted |= {
        "operation": "get" if is_charrow(given["url"] or "") else "get,put",
        "data": [given["data"]],
        "rows_per_batch": rows,
        "duration": "1s",
    }
    if given["url"] is not None:
        try:
            url = check_url(given["url"])
        except ValueError as error:
            raise ScenarioError(f"URL: {error}") from None
        if scheme_of(url) in NO_PLACE:
            raise VenturiError(f"URL {url}: there is no way there to be measured; leave it out")
        if scheme_of(url) not in ("flight", "charrow"):
            what = "a store of time series" if is_time_series(url) else "a database"
            raise VenturiError(
                f"URL {url.partition('://')[0]}://: {what} has no port that takes plain bytes",
                hint="to measure the way there, run on that host: venturi serve flight --host 0.0.0.0",
            )
        if is_remote(url):
            raise VenturiError(
                f"URL {url}: stands for servers that venturi run --on starts; name one that runs"
            )
        # What lies there does not matter: only the way is measured.
        wanted["target"] = urlsplit(url)._replace(path="", query="").geturl()
    from venturi.plan.typed import layer_tree

    tree, spelled = layer_tree(wanted)
    spelled = {key: "URL" if flag == "--target" else flag for key, flag in spelled.items()}
    tree.setdefault("name", "ceilings")
    return load([Layer("", tree, flags=spelled)])


class _Session:
    """Measures, repeat by repeat, and keeps what was measured, also when it is interrupted."""

    def __init__(
        self,
        scenario: Scenario,
        executor: Executor,
        kinds: Sequence[str],
        given: dict[str, Any],
        seconds: float | None,
    ) -> None:
        self.scenario, self.executor, self.kinds = scenario, executor, kinds
        self.given, self.seconds = given, seconds
        self.lines: list[dict[str, Any]] = []
        self.interrupted = False
        self.place = "local"

    def measure(self) -> None:
        from venturi.measure import ceilings as run_ceilings
        from venturi.measure.ceiling_cache import CeilingCache
        from venturi.measure.ceiling_probes import REPEATS, Prober
        from venturi.measure.endpoints import Endpoints
        from venturi.measure.interrupts import Interrupts

        quiet = self.given["quiet"]
        note = (lambda level, text: None) if quiet else say
        with (
            Interrupts() as interrupts,
            Endpoints(self.scenario, self.executor.needs_server, note) as endpoints,
            contextlib.ExitStack() as stack,
        ):
            wanted = self._probes(endpoints)
            cache = CeilingCache.of_this_user() if self.executor.measures else CeilingCache(None, None)
            far = self.place != "local"
            peers = endpoints.server_environments() if far else {}
            # The way to the server that was named is measured, not a stand-in for it.
            prober = Prober(self.executor, endpoints, stack, stand_in=False)
            progress = _Progress(len(wanted) * self.given["repeats"], quiet)
            measured: dict[Probe, list[dict[str, Any]]] = {}
            dropped: set[Probe] = set()
            for repeat in range(self.given["repeats"]):
                for probe in wanted:
                    if probe in dropped:
                        progress.skip()
                        continue
                    control = self.executor.control()
                    if not interrupts.guard(control):
                        break
                    progress.step(probe)
                    line = prober.line(probe, repeat, control, self.seconds)
                    interrupts.guard(None)
                    if line["outcome"] == "interrupted":
                        break
                    if line["outcome"] != "ok":
                        # What cannot be done once cannot be done again; a whole host that does not answer
                        # is given up at once.
                        dropped.update(p for p in wanted if p == probe or (probe.url and p.url == probe.url))
                    self.lines.append(line)
                    measured.setdefault(probe, []).append(line)
                else:
                    continue
                break
            progress.close()
            self.interrupted = interrupts.asked
            if self.seconds is None:
                for probe, lines in measured.items():
                    run_ceilings.keep(cache, run_ceilings.cache_key(probe, peers), lines[:REPEATS])
        self._name_file_systems()

    def _probes(self, endpoints: Endpoints) -> list[Probe]:
        """Those of the cells, and the ones that a run makes only where it needs them."""
        from venturi.measure.ceiling_probes import Probe, probes
        from venturi.targets.system import LOCAL, is_local

        found = probes(endpoints.cells)
        tcp = [probe for probe in found if probe.kind == "tcp"]
        if not is_local(tcp[0].url):
            self.place = str(tcp[0].place)
            tcp += [
                dataclasses.replace(probe, place="local", url=LOCAL) for probe in tcp if probe.name is None
            ]
        cell = endpoints.cells[0]
        size, label = cell.message_bytes, next(p.data for p in found if p.kind == "engine")
        names = dict.fromkeys([*CODECS, *([self.given["compression"]] if self.given["compression"] else [])])
        codecs = [
            Probe(
                "codec",
                end="client",
                name=f"{codec}-{verb}",
                threads=1,
                message_bytes=size,
                data=label,
                cell=cell,
            )
            for codec in names
            for verb in ("encode", "decode")
        ]
        path = str(self.given["disk"].resolve())
        disks = [Probe("disk", end="client", name=name, path=path) for name in ("fsync", "direct")]
        every = {
            "memory": [p for p in found if p.kind == "memory"],
            "tcp": tcp,
            "disk": disks,
            "codec": codecs,
            "engine": [p for p in found if p.kind == "engine"],
        }
        # The far host first: whether it answers is known at once.
        order = ["tcp", *(k for k in KINDS if k != "tcp")] if self.place != "local" else list(KINDS)
        return [probe for kind in order if kind in self.kinds for probe in every[kind]]

    def _name_file_systems(self) -> None:
        from venturi.common.environment import file_system

        if not self.executor.measures:
            return
        for line in self.lines:
            if line["kind"] == "disk":
                line["filesystem"] = file_system(Path(line["path"]))

    def exit_code(self) -> ExitCode:
        if self.interrupted:
            return ExitCode.INTERRUPTED
        failed = [line for line in self.lines if line["outcome"] != "ok"]
        errors = [line["error"] for line in failed if line["kind"] == "tcp"]
        if any(_kind(line) == "unreachable" for line in failed if line["kind"] == "tcp"):
            return ExitCode.UNREACHABLE
        # A disk that cannot do direct I/O is a finding, not a failure, unless it was all that was asked for.
        if errors or (failed and len(failed) == len(self.lines)):
            return ExitCode.TRIALS_FAILED
        return ExitCode.OK


class _Progress:
    """What is being measured, on standard error: one line in place, or one a repeat."""

    def __init__(self, total: int, quiet: bool) -> None:
        self._total, self._done, self._quiet = total, 0, quiet
        self._live = sys.stderr.isatty() and not quiet
        self._said: set[str] = set()

    def skip(self) -> None:
        self._done += 1

    def step(self, probe: Probe) -> None:
        from venturi.analysis.cells.limits import title

        self._done += 1
        text = title(dataclasses.asdict(dataclasses.replace(probe, cell=None)))
        if self._live:
            print(f"\r\x1b[K{self._done} of {self._total}: {text}", end="", file=sys.stderr, flush=True)
        elif not self._quiet and text not in self._said:
            self._said.add(text)
            say("info", f"measuring {text}")

    def close(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _print(session: _Session, format: forms.TableOrJson) -> None:
    from venturi.analysis.cells.limits import limits, narrowest
    from venturi.report.text import limits as shown

    found = limits(session.lines)
    places = dict.fromkeys(["local", session.place])
    last = [line for place in places if (line := narrowest(found, place)) is not None]
    if format is forms.TableOrJson.json:
        document = shown.document(found, last, session.lines, session.interrupted)
        print(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        from rich.console import Console

        shown.print_table(found, last, Console())
    if session.interrupted:
        say("warning", "interrupted; these are the limits measured until then" if found else "interrupted")
    for limit in found:
        if limit.error is not None:
            level = "error" if limit.fields["kind"] == "tcp" else "warning"
            say(level, f"{limit.title}: {limit.error}")
    if session.exit_code() is ExitCode.UNREACHABLE:
        say("hint", "start a server there: venturi serve flight --host 0.0.0.0")
    elif any(_kind(line) == "unsupported" for line in session.lines):
        say(
            "hint",
            "start one on that host, and name it: venturi serve flight --host 0.0.0.0 --port 31338 there, "
            "then venturi ceilings flight://HOST:31338",
        )


def _kind(line: dict[str, Any]) -> object:
    """How a repeat failed; None where it did not."""
    error = line["error"]
    return error.get("kind") if isinstance(error, dict) else None
