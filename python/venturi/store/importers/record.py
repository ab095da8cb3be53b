"""A foreign tool's result as a record of ours. What the tool did not say stays null: it was not measured."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from venturi.common.errors import ScenarioError
from venturi.engine.spec import FORMAT_VERSION, trial_id

RECORD_BYTES = 32
"""Four int64: the record of Arrow's Flight benchmarks, C++ and Java."""
MIB = 2**20
MOST_LINE = 1000
"""Characters of a line that are looked at."""
DISAGREES = 0.005
"""A printed rate further than this from amount / interval gets a note: six printed digits are 100,000 times
finer, and whole milliseconds of a trial of a second five times."""
CONTRADICTS = 0.05
"""Figures of one result that are further apart cannot both be true: the file is refused."""
MOST = 10**18
"""What is larger is no figure of a measurement."""

_COUNTS = ("rows", "batches", "payload_bytes", "wire_bytes")
_TIMES = (
    "started_unix_ns",
    "setup_ns",
    "interval_ns",
    "verify_ns",
    "start_skew_ns",
    "steady_ns",
    "steady_rows",
    "steady_payload_bytes",
)
_RATES = ("bytes_per_second", "rows_per_second", "batches_per_second")
# Of a cell's parameters these make its readable name, the ones that are there; the digest has them all.
_NAMED = ("hosts", "streams", "partitions", "encoders", "decoders", "rows_per_batch")


@dataclass
class Draft:
    """One foreign result before it has its place in a run. Base units: bytes, nanoseconds, per second.
    `rates` are the rates that the tool printed itself; they count before amounts / interval, which many tools
    round more coarsely or leave out. `parameters` needs no `operation`."""

    operation: str
    parameters: dict[str, Any]
    counts: dict[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    latency: dict[str, Any] | None = None
    cpu: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    streams: list[dict[str, Any]] = field(default_factory=list)
    schedule: dict[str, Any] | None = None
    samples: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    figures: dict[str, float | str] = field(default_factory=dict)
    """What the tool printed besides, by its own names and in its own units."""
    interval_within_ns: int = 0
    """How coarsely the tool prints the interval, where that shows: half its last digit."""
    error: str | None = None
    """Why the trial failed, as the tool says it; None for a good one."""
    line: int | None = None
    """Of the file, from 1: where this result begins."""
    note: str | None = None
    """What a reader must know of this figure, e.g. that two printed figures contradict each other."""


@dataclass
class Parsed:
    """What one file holds. `client` and `server` are what it tells of the two ends, in the form of
    environment.json; `source` names the tool, with its version where the file has it."""

    drafts: list[Draft]
    source: str
    client: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    started_unix_ns: int | None = None


@dataclass(frozen=True)
class Format:
    """A foreign format. `about` says what its files look like."""

    name: str
    about: str
    detect: Callable[[str], bool]
    """Whether a text is of this format; cheap, and never raises."""
    parse: Callable[[str, str], Parsed]
    """The results in a text, by its file's name. Raises `ScenarioError` that names file and line where it is
    malformed."""


UNITS = {
    "seconds": ("interval_ns", 1e9),
    "mebibytes": ("payload_bytes", MIB),
    "mebibytes_per_second": ("bytes_per_second", MIB),
}
"""Columns of other tools in units of their own: our field, and how many of its units one is."""


def draft(
    operation: str, columns: Mapping[str, Any], parameters: Mapping[str, Any] = {}, **rest: Any
) -> Draft:
    """A result from columns that have our names or those of `UNITS`. None is what the tool did not print; a
    column that is no figure is a parameter."""
    made = Draft(operation, dict(parameters), **rest)
    for column, value in columns.items():
        name, unit = UNITS.get(column, (column, 1))
        if value is None:
            continue
        if name in _COUNTS:
            made.counts[name] = round(value * unit)
        elif name in _TIMES:
            made.times[name] = round(value * unit)
        elif name in _RATES:
            made.rates[name] = float(value * unit)
        else:
            made.parameters[name] = value
    return made


def malformed(name: str, line: int | None, found: str, expected: str) -> ScenarioError:
    """The error for a line (from 1) of a file that is not as its format has it."""
    where = name if line is None else f"{name}:{line}"
    return ScenarioError(f"{where}: {found}", hint=f"expected {expected}")


def contradiction(name: str, line: int | None, found: str) -> ScenarioError:
    """The error for a file whose figures cannot all be true."""
    where = name if line is None else f"{name}:{line}"
    return ScenarioError(
        f"{where}: the file contradicts itself: {found}",
        hint="import the tool's output as it was printed, and in the language in which it was printed",
    )


def agree(name: str, line: int | None, what: str, one: float | None, other: float | None) -> None:
    """Raises `ScenarioError` if two figures for the same thing are apart. None is not a figure."""
    if one is None or other is None or abs(one - other) <= CONTRADICTS * max(one, other):
        return
    raise contradiction(name, line, f"{what}: {one:,.6g} against {other:,.6g}")


def hold(draft: Draft, name: str) -> None:
    """Holds the figures of a good result against each other. Raises `ScenarioError` if they contradict."""
    if draft.error is not None:
        return
    # Each amount and its rate make a time, and all are the same.
    interval = draft.times.get("interval_ns")
    times = [("the time is", interval / 1e9)] if interval else []
    for rate, amount in zip(_RATES, ("payload_bytes", "rows", "batches"), strict=True):
        printed, moved = draft.rates.get(rate), draft.counts.get(amount)
        if printed is None or moved is None:
            continue
        unit = amount.removeprefix("payload_")
        if (printed == 0) != (moved == 0):
            raise contradiction(name, draft.line, f"{moved:,} {unit}, but {printed:,.6g} {unit}/s")
        if printed:
            times.append((f"{moved:,} {unit} at {printed:,.6g} {unit}/s take", moved / printed))
    for (this, one), (that, other) in itertools.combinations(times, 2):
        if abs(one - other) > CONTRADICTS * max(one, other) + draft.interval_within_ns / 1e9:
            raise contradiction(name, draft.line, f"{this} {one:,.6g} s, but {that} {other:,.6g} s")
    found = draft.latency or {}
    points = [("min", found.get("min")), *((f"p{p:g}", value) for p, value in found.get("percentiles", ()))]
    stated = [(label, value) for label, value in [*points, ("max", found.get("max"))] if value is not None]
    pairs = list(itertools.pairwise(stated))
    if None not in (found.get("mean"), found.get("max")):
        pairs.append((("mean", found["mean"]), stated[-1]))
    for (low, one), (high, other) in pairs:
        if one > other * (1 + CONTRADICTS):
            what = f"latency {low} of {one / 1e6:g} ms is above {high} of {other / 1e6:g} ms"
            raise contradiction(name, draft.line, what)


def text_lines(text: str, longest: int = MOST_LINE) -> list[str]:
    """The lines of a text, without what ends them, each cut at `longest` characters. No result's line is
    longer, and patterns need not fear a line of millions."""
    return [line[:longest].rstrip() for line in text.splitlines()]


def quoted(text: str, most: int = 60) -> str:
    """A line of a foreign file, short and printable."""
    plain = "".join(c if c.isprintable() else " " for c in text.strip())
    return repr(plain if len(plain) <= most else plain[: most - 1] + "…")


def integer(text: str) -> int | None:
    """A count as tools print it, `51,983,500`; None where it is none."""
    digits = text.strip().replace(",", "").replace("_", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def real(text: str) -> float | None:
    """A finite number as tools print it, `1,155.5`; None where it is none, as for NaN."""
    try:
        found = float(text.strip().replace(",", ""))
    except ValueError:
        return None
    return found if math.isfinite(found) and abs(found) < 1e18 else None


# Values of a JSON document, which may hold anything.


@contextlib.contextmanager
def reading_json(text: str, name: str, line: int, expected: str) -> Iterator[None]:
    """Turns what the reader of a document that begins in that line raises into an error for users."""
    try:
        yield
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text.rstrip()) - 1
        what = "the JSON ends early" if cut else f"not JSON: {error.msg}"
        raise malformed(name, error.lineno, what, expected) from None
    except (RecursionError, ValueError):  # nested without end, or a number of thousands of digits
        raise malformed(name, line, "JSON out of all bounds", expected) from None


def get(document: Any, *path: str) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def number(document: Any, *path: str) -> float | None:
    """A finite number that is not negative; of a mean with its error the `value`."""
    found = get(document, *path)
    found = found.get("value") if isinstance(found, Mapping) else found
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found) if 0 <= found < MOST else None


def items(document: Any, *path: str) -> list[Any]:
    found = get(document, *path)
    return found if isinstance(found, list) else []


@dataclass(frozen=True)
class Origin:
    """Where drafts come from: `file` a name without its directories, `format` the importer's, `source` the
    tool or publication."""

    file: str
    format: str
    source: str


def latency(
    percentiles: Mapping[float, float], unit: float, **figures: float | None
) -> dict[str, Any] | None:
    """A `LATENCY` object (ns) of printed `percentiles` and `figures` (min, mean, max, stdev), of which one is
    `unit` ns; None if nothing was printed. It has no histogram."""
    stated = {name: value * unit for name, value in figures.items() if value is not None}
    points = {percent: value * unit for percent, value in percentiles.items()}
    if not stated and not points:
        return None
    if "max" in stated:
        points.setdefault(100.0, stated["max"])
    return {
        "count": None,
        **{name: stated.get(name) for name in ("min", "mean", "max", "stdev")},
        "percentiles": [[percent, points[percent]] for percent in sorted(points)],
        "hdr": None,
    }


def cell_id(operation: str, parameters: Mapping[str, Any]) -> str:
    """Readable, and the same for the same parameters: `get-streams2-rows_per_batch4096-1a2b3c4d`."""
    identity = {k: v for k, v in parameters.items() if v is not None and k != "row_bytes"}
    text = json.dumps([operation, identity], sort_keys=True, separators=(",", ":"), default=str)
    parts = [operation, *(f"{n}{parameters[n]}" for n in _NAMED if parameters.get(n) is not None)]
    return "-".join([*parts, hashlib.sha256(text.encode()).hexdigest()[:8]])


def lines(
    drafts: Iterable[Draft], run: str, origin: Origin, existing: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """The drafts as lines of trials.jsonl; repeats are numbered by cell, on from those of `existing`."""
    repeats: dict[str, int] = {}
    order = -1
    for record in existing:
        cell = str(record["cell"])
        repeats[cell] = max(repeats.get(cell, -1), record["repeat"])
        order = max(order, record["order"] or 0)
    out = []
    for draft in drafts:
        order += 1
        cell = cell_id(draft.operation, draft.parameters)
        repeats[cell] = repeats.get(cell, -1) + 1
        out.append(_line(draft, run, origin, cell, repeats[cell], order))
    return out


def _line(draft: Draft, run: str, origin: Origin, cell: str, repeat: int, order: int) -> dict[str, Any]:
    line: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "kind": "trial",
        "run": run,
        "trial": trial_id(run, cell, repeat, False, order),
        "cell": cell,
        "repeat": repeat,
        "warmup": False,
        "order": order,
        "parameters": {
            "operation": draft.operation,
            **{name: value for name, value in draft.parameters.items() if value is not None},
        },
        "outcome": "ok" if draft.error is None else "failed",
        "error": None if draft.error is None else {"kind": "server", "message": draft.error, "stream": None},
        "target": draft.target,
        "counts": {name: draft.counts.get(name) for name in _COUNTS},
        "times": {name: draft.times.get(name) for name in _TIMES},
        "rates": {name: draft.rates.get(name) for name in _RATES} if draft.rates else None,
        "verification": None,
        "cpu": draft.cpu,
        "stages": None,
        "streams": draft.streams,
        "latency": draft.latency
        and {"service": draft.latency | {"count": draft.counts.get("batches")}, "response": None},
        "schedule": draft.schedule,
        "pin": None,
        "instrument": None,
        "imported": {
            "from": origin.file,
            "line": draft.line,
            "format": origin.format,
            "source": origin.source,
            "figures": draft.figures or None,
            "note": join_notes(draft.note, _contradiction(draft)),
        },
    }
    if draft.resources is not None:
        line["resources"] = draft.resources
    if draft.samples is not None:
        line["samples"] = {end: columns and _from_start(columns) for end, columns in draft.samples.items()}
    return line


def _from_start(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Tools print at the end of their intervals; the first one began at the start, with nothing moved."""
    times = columns["t_ns"]
    if not times or times[0] <= 0:
        return dict(columns)
    zero = ("t_ns", "rows", "payload_bytes", "socket_retransmits")

    def before(name: str, values: list[Any]) -> list[Any]:
        first = 0 if name in zero else None
        # What is a list in a row is here a list an item.
        return [[first, *item] for item in values] if isinstance(values[0], list) else [first, *values]

    return {name: before(name, values) for name, values in columns.items()}


def join_notes(*notes: str | None) -> str | None:
    return "; ".join(n for n in notes if n) or None


def _contradiction(draft: Draft) -> str | None:
    """A note where a printed rate and amount / interval of the same result do not go together."""
    interval = draft.times.get("interval_ns")
    for rate, amount, unit in (
        ("bytes_per_second", "payload_bytes", "B"),
        ("rows_per_second", "rows", "rows"),
    ):
        printed, moved = draft.rates.get(rate), draft.counts.get(amount)
        if not printed or not moved or not interval:
            continue
        derived = moved / interval * 1e9
        if abs(derived / printed - 1) > DISAGREES + draft.interval_within_ns / interval:
            return (
                f"the tool prints {printed:,.6g} {unit}/s, but {moved:,} {unit} in {interval / 1e9:,.6g} s "
                f"are {derived:,.6g} {unit}/s; the printed rate is kept"
            )
    return None
