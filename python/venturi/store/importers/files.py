"""Files of other tools into a run directory: read, parsed, numbered, and written as one piece.

Nothing is written before every file has been understood.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from venturi.common.credentials import scrubbed
from venturi.common.errors import ScenarioError, StoreError, VenturiError
from venturi.store.directory import ENVIRONMENT, TRIALS, RunDirectory
from venturi.store.importers import cassandra_stress, flight, iperf3, latte, published
from venturi.store.importers.record import Format, Origin, Parsed, hold, lines, quoted
from venturi.store.writer import RunWriter
from venturi.targets.parameters import PARAMETERS

MOST_BYTES = 64 * 2**20
"""Of one file. A result is a few hundred bytes, so this is a log of something else, or of many."""
MOST_TRIALS = 100_000
"""Of one import: reports are made for runs of 10,000 trials."""
STDIN = "-"
AUTO = "auto"
# In the order in which they are tried: those that are sure of themselves first.
FORMATS = {
    it.name: it
    for it in (
        flight.PERF_STATS,
        flight.BENCHMARK,
        flight.TESTPERF,
        published.CHSPARK,
        iperf3.FORMAT,
        latte.FORMAT,
        cassandra_stress.FORMAT,
        published.MEMSQL,
    )
}
_UNKNOWN = "verification, environment of the hosts beyond what is listed here, ceilings, stages, resources"


class UnknownFormat(ScenarioError):
    """A text of no known format: in a directory it is left out."""


def choose(text: str, name: str, format: str = AUTO) -> Format:
    """The format called `format`, or by `auto` the one that the text is in. Raises `VenturiError` for a name
    that does not exist, `ScenarioError` for a text of no known format."""
    if format != AUTO:
        if format not in FORMATS:
            raise VenturiError(
                f"--format: there is no format {format!r}",
                hint=f"choose one of: {', '.join([AUTO, *FORMATS])}",
            )
        return FORMATS[format]
    for found in FORMATS.values():
        if found.detect(text):
            return found
    first = next((line for line in text.splitlines() if line.strip()), "")
    raise UnknownFormat(
        f"{name}: of no format that is known; it begins with {quoted(first)}",
        hint="known are: " + "; ".join(f"{n} ({f.about})" for n, f in FORMATS.items()),
    )


@dataclass(frozen=True)
class Imported:
    """One imported file. `trials` counts its results."""

    name: str
    format: str
    source: str
    trials: int
    digest: str
    size: int
    parsed: Parsed


def import_files(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    format: str = AUTO,
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[Path, list[Imported], list[str]]:
    """Takes the results in `paths` over into a run directory; answers it, what each file gave, and what was
    skipped.

    `out` is a new directory, or a run that was imported before, which then grows; by default one below
    venturi-runs. `settings` are parameters that the files do not tell, put into every trial. In a directory
    files of no known format are skipped.

    Raises `VenturiError` for what does not exist, a malformed file (named with its line), a file that the run
    holds already, and a run that was not imported.
    """
    if not paths:
        raise VenturiError("name a file to import", hint="venturi import --help")
    found, skipped = _read_all(paths, format, dict(settings or {}))
    _no_twins(found)
    root = Path(out) if out is not None else _default(found)
    existing: list[Any] = []
    environment: dict[str, Any] = {}
    with ExitStack() as stack:
        # Read under the lock, so that two imports at once do not both take the same numbers.
        if (root / TRIALS).exists() or (root / ENVIRONMENT).exists():
            _check_imported(RunDirectory(root), found)
            writer = stack.enter_context(RunWriter.resume(root))
            directory = writer.read()
            _check_imported(directory, found)
            environment, existing = directory.environment, directory.records()
        else:
            writer = stack.enter_context(RunWriter.create(root))
        run = name or str(environment.get("run") or root.resolve().name)
        batch: list[dict[str, Any]] = []
        for one in found:
            origin = Origin(one.name, one.format, one.source)
            batch += lines(one.parsed.drafts, run, origin, [*existing, *batch])
        # The environment comes first: what a crash leaves is then refused a second time, not doubled.
        writer.write_environment(_environment(environment, run, found))
        writer.append_trials(batch)
    return root, found, skipped


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """`key=value` texts as parameters; values are numbers, true, false or texts. Raises `VenturiError`."""
    from venturi.store import tables

    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", key):
            raise VenturiError(
                f"--set {pair}: not key=value", hint="for example: --set operation=get --set streams=4"
            )
        if key in tables.TAKEN or (key.endswith("_per_second") and key != "limit_bytes_per_second"):
            raise VenturiError(
                f"--set {key}: this is a figure, not a parameter", hint="parameters say what was asked for"
            )
        kind = PARAMETERS.get(key)
        if items := get_args(kind):
            out[key] = [_typed(key, part.strip(), *items) for part in text.split(",")]
        else:
            out[key] = _typed(key, text.strip(), kind)
    return out


def _typed(key: str, text: str, kind: type | None) -> Any:
    value: Any = text if kind is str else _value_of(text)
    fits = kind is None or isinstance(value, (int, float) if kind is float else kind)
    if kind in (int, float) and isinstance(value, bool):
        fits = False
    if not fits or (kind is int and value < 0) or text == "":
        words: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false"}
        expected = words.get(kind, "a text") if kind is not None else "a value"
        raise VenturiError(f"--set {key}={text}: expected {expected}")
    return value


def _value_of(text: str) -> Any:
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    with suppress(ValueError):
        if abs(float(text)) < 1e18:
            return float(text)
    return text


def _read_all(
    paths: Sequence[str | os.PathLike[str]], format: str, settings: dict[str, Any]
) -> tuple[list[Imported], list[str]]:
    found: list[Imported] = []
    skipped: list[str] = []
    total = 0
    for path in paths:
        place = os.fspath(path)
        directory = place != STDIN and Path(place).is_dir()
        some = False
        for one in _files(place):
            try:
                imported = _one(one, format, settings)
            except UnknownFormat:
                if not directory:
                    raise
                skipped.append(one)
                continue
            some = True
            found.append(imported)
            total += imported.trials
            if total > MOST_TRIALS:
                raise ScenarioError(
                    f"{one}: more than {MOST_TRIALS:,} results in one import",
                    hint="import them into several runs",
                )
        if not some:
            raise ScenarioError(
                f"{place}: no file in this directory is of a known format",
                hint="name one file to hear what is wrong with it",
            )
    return found, skipped


def _files(place: str) -> Iterator[str]:
    if place == STDIN or not Path(place).is_dir():
        yield place
        return
    try:
        inside = sorted(
            (p for p in Path(place).iterdir() if p.is_file() and not p.name.startswith(".")),
            # perf_stats_2 before perf_stats_10
            key=lambda p: [int(w) if w.isdigit() else w for w in re.split(r"(\d+)", p.name)],
        )
    except OSError as error:
        raise ScenarioError(f"{place}: cannot be read: {error.strerror or error}") from None
    yield from map(str, inside)


def _one(path: str, format: str, settings: dict[str, Any]) -> Imported:
    name = "standard input" if path == STDIN else path
    data = _bytes(path, name)
    text = data.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise ScenarioError(f"{name}: the file is empty", hint="did the tool's output go elsewhere?")
    if "\0" in text[:65536]:
        raise ScenarioError(f"{name}: not a text file", hint="unpack it first, if it is an archive")
    chosen = choose(text, name, format)
    parsed = chosen.parse(text, name)
    if not parsed.drafts:
        raise ScenarioError(f"{name}: no result in it", hint=f"expected {chosen.about}")
    for draft in parsed.drafts:
        hold(draft, name)
        fixed = dict(settings)
        draft.operation = str(fixed.pop("operation", "") or draft.operation)
        draft.parameters |= fixed
        # A tool's output has its command line, its addresses, its errors.
        for part in ("parameters", "target", "figures", "error", "note"):
            setattr(draft, part, scrubbed(getattr(draft, part)))
        if not draft.operation:
            raise ScenarioError(
                f"{name}:{draft.line}: lines of seven columns do not say whether they are gets or puts",
                hint="say it: --set operation=get (or put)",
            )
    parsed.client, parsed.server = scrubbed(parsed.client), scrubbed(parsed.server)
    short = name if path == STDIN else Path(path).name
    digest = hashlib.sha256(data).hexdigest()
    return Imported(short, chosen.name, parsed.source, len(parsed.drafts), digest, len(data), parsed)


def _bytes(path: str, name: str) -> bytes:
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            # Opened without waiting: a named pipe that nobody writes to must not hang.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(MOST_BYTES + 1) or b""
    except FileNotFoundError:
        raise ScenarioError(f"{name}: no such file") from None
    except OSError as error:
        raise ScenarioError(f"{name}: cannot be read: {error.strerror or error}") from None
    if len(data) > MOST_BYTES:
        raise ScenarioError(
            f"{name}: larger than {MOST_BYTES // 2**20} MiB",
            hint="cut it up, and import the parts into one run by --out",
        )
    return data


def _no_twins(found: Sequence[Imported]) -> None:
    seen: dict[str, str] = {}
    for one in found:
        if one.digest in seen:
            raise ScenarioError(
                f"{one.name}: the same content as {seen[one.digest]}",
                hint="name it once: results counted twice would pass for repeats",
            )
        seen[one.digest] = one.name


def _check_imported(directory: RunDirectory, found: Sequence[Imported]) -> None:
    """Raises StoreError where the run was measured, not imported, or holds one of the files already."""
    before = directory.environment.get("imported")
    if not isinstance(before, list) or not before:
        raise StoreError(
            f"{directory.path}: holds a run of Venturi's own",
            hint="imported results are kept apart from it; name another directory by --out",
        )
    digests = {str(b.get("sha256")): b for b in before if isinstance(b, dict)}
    for one in found:
        if one.digest in digests:
            raise StoreError(
                f"{directory.path}: holds {one.name} already, imported as {digests[one.digest].get('from')}",
                hint="results counted twice would pass for repeats",
            )


def _default(found: Sequence[Imported]) -> Path:
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-import-{found[0].format}"
    for number in range(1, 1000):
        path = Path("venturi-runs") / (stem if number == 1 else f"{stem}-{number}")
        if not path.exists():
            return path
    raise StoreError("venturi-runs: a thousand imports within a second", hint="name a directory by --out")


def _environment(before: Mapping[str, Any], run: str, found: Sequence[Imported]) -> dict[str, Any]:
    """environment.json of an imported run: the files with their digests, and what they tell of the ends."""
    now = time.time_ns()
    entries = [e for e in before.get("imported") or [] if isinstance(e, dict)]
    for one in found:
        entries.append(
            {
                "from": one.name,
                "sha256": one.digest,
                "bytes": one.size,
                "format": one.format,
                "source": one.source,
                "trials": one.trials,
                "imported_unix_ns": now,
                "client": one.parsed.client or None,
                "server": one.parsed.server or None,
            }
        )
    started = [s for one in found if (s := one.parsed.started_unix_ns)]
    if isinstance(earlier := before.get("started_unix_ns"), int):
        started.append(earlier)
    return {
        "run": run,
        "started_unix_ns": min(started, default=None),
        "command": None,
        "client": _agreed([e.get("client") for e in entries]),
        "server": _agreed([e.get("server") for e in entries]),
        "servers": {},
        "imported": entries,
        "not_known": _UNKNOWN,
    }


def _agreed(ends: Sequence[Any]) -> dict[str, Any] | None:
    """What no two files contradict each other in; the rest stands with each file."""
    dicts = [t for t in ends if isinstance(t, dict)]
    out = {
        key: values[0]
        for key in dict.fromkeys(k for t in dicts for k in t)
        for values in [[t[key] for t in dicts if key in t]]
        if all(v == values[0] for v in values)
    }
    return out or None
