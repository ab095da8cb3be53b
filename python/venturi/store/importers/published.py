"""Results as two published benchmarks print them, alone or within a page.

- CHSpark: `partitions: 1, decoders: 4, encoders: 8, bytes/s: 778967778`, or the same as CSV with a head.
- benchmark.py of MemSQL and Cassandra: `14,039,000 rows in total`, `1,403,900 rows per second`, and perhaps
  `Min query latency: 3.242 ms`. Above it the command (`-c` is Cassandra), and a heading: `### cell ...:
  target=mysql streams=4` is that of `venturi show --format seed`, `### AWS: 10 x m4.10xlarge` has the hosts.

Figures are taken as printed; where they do not go together, the trial's note says so.
"""

from __future__ import annotations

import re
from typing import Any

from venturi.store.importers.record import (
    Draft,
    Format,
    Parsed,
    draft,
    integer,
    latency,
    malformed,
    quoted,
    real,
    text_lines,
)

# ---- CHSpark

_COLUMNS = ("partitions", "decoders", "encoders", "bytes_per_second")
_HEADS = tuple(",".join((*_COLUMNS[:3], rate)) for rate in ("bytes_per_s", _COLUMNS[3]))
_START = re.compile(r"^\s*partitions:\s")
_LINE = re.compile(
    r"^\s*partitions:\s*(\d+),\s*decoders:\s*(\d+),\s*encoders:\s*(\d+),\s*bytes/s:\s*([\d,]+)\s*$"
)
_CPU = re.compile(r"^[*-]\s*(.*\b(\d+) cores\b.*?)\s*\.?\s*$")


def _is_chspark(text: str) -> bool:
    return _is_table(text) or any(_LINE.match(line) for line in text_lines(text))


def _is_table(text: str) -> bool:
    return next((line for line in text_lines(text) if line.strip()), "").strip() in _HEADS


def _parse_chspark(text: str, name: str) -> Parsed:
    """Only rates are known: neither how much was moved nor for how long."""
    table = _is_table(text)
    expected = _HEADS[0] if table else "partitions: P, decoders: D, encoders: E, bytes/s: B"
    drafts = []
    machine: dict[str, Any] = {}
    for at, line in enumerate(text_lines(text), 1):
        if line.strip() not in ("", *_HEADS) if table else _START.match(line):
            found = _LINE.match(line)
            fields = line.split(",") if table else found.groups() if found else ()
            numbers = [integer(field) for field in fields]
            if len(numbers) != len(_COLUMNS) or not all(numbers):
                raise malformed(name, at, f"not such a line: {quoted(line)}", f"{expected}; all above 0")
            drafts.append(draft("get", dict(zip(_COLUMNS, numbers, strict=True)), line=at))
        elif not table and (cpu := _CPU.match(line)) and int(cpu[2]) < 10_000:
            machine = {"cpu": cpu[1].strip(), "cores": {"logical": int(cpu[2])}}
    return Parsed(drafts, "CHSpark's benchmark", dict(machine), dict(machine))


CHSPARK = Format(
    "chspark",
    "lines of CHSpark: partitions: P, decoders: D, encoders: E, bytes/s: B",
    _is_chspark,
    _parse_chspark,
)

# ---- MemSQL

_TOTAL = re.compile(r"^\s*(\S+) rows in total\s*$")
_RATE = re.compile(r"^\s*(\S+) rows per second\s*$")
_LATENCY = re.compile(r"^\s*(Min|Max) query latency: (\S+) ms\s*$")
_COMMAND = re.compile(r"^(?:\$ ?)?(?:python3? )?\S*benchmark\.py\b(.*)$")
_HOSTS = re.compile(r"^#+\s.*?\b(\d{1,6}) x (\S+)")
_CELL = re.compile(r"^#+ cell \S+: (.*)$")
_WORD = re.compile(
    r"\b(target|hosts|streams|rows_per_batch|in_flight|duration_ns|interval_ns)=([\w+.-]{1,60})"
)
_BATCH = re.compile(r"batch_size was set to (\d{1,9})")
_AGREES = 1e-3
_MOST_SECONDS = 10**8


def _is_memsql(text: str) -> bool:
    lines = text_lines(text)
    return any(_TOTAL.match(line) for line in lines) and any(_RATE.match(line) for line in lines)


def _parse_memsql(text: str, name: str) -> Parsed:
    batch = integer(found[1]) if (found := _BATCH.search(text)) else None
    runs: list[dict[str, Any]] = []
    heading: dict[str, Any] = {}
    command: dict[str, Any] = {}
    for at, line in enumerate(text_lines(text), 1):
        if found := _CELL.match(line):
            words = _WORD.findall(found[1])
            heading = {key: it if (count := integer(it)) is None else count for key, it in words}
            command = {}
        elif found := _HOSTS.match(line):
            heading, command = {"hosts": int(found[1]), "place": found[2]}, {}
        elif found := _COMMAND.match(line.strip()):
            command = _command(found[1])
        elif found := _TOTAL.match(line):
            runs.append(
                {"rows_per_batch": batch, **heading, **command, "rows": integer(found[1]), "line": at}
            )
            if runs[-1]["rows"] is None:
                raise malformed(name, at, f"{quoted(line)}: not a number of rows", "N rows in total")
        elif (found := _RATE.match(line)) or (found := _LATENCY.match(line)):
            *which, figure = found.groups()
            key = which[0].lower() if which else "rows_per_second"
            value = real(figure)
            if value is None or value < (0 if which else 1e-9) or not runs or (not which and key in runs[-1]):
                expected = "N rows in total, then N rows per second, and perhaps Min query latency: N ms"
                raise malformed(name, at, quoted(line), expected)
            runs[-1][key] = value
    return Parsed([_memsql_draft(run) for run in runs], "MemSQL's benchmark.py")


def _command(arguments: str) -> dict[str, Any]:
    out: dict[str, Any] = {
        "target": "cassandra" if {"-c", "--cassandra"} & set(arguments.split()) else "memsql"
    }
    if (found := re.search(r"--workload-time[= ](\d+)", arguments)) and int(found[1]) < _MOST_SECONDS:
        out["duration_ns"] = int(found[1]) * 10**9
    if found := re.search(r"--batch-size[= ](\d{1,9})", arguments):
        out["rows_per_batch"] = int(found[1])
    return out


def _memsql_draft(run: dict[str, Any]) -> Draft:
    line, low, high = (run.pop(key, None) for key in ("line", "min", "max"))
    rows, rate, spent, wanted_ns = (
        run.get(key) for key in ("rows", "rows_per_second", "interval_ns", "duration_ns")
    )
    if rate is None:
        unknown = {"rows": None, "interval_ns": None}
        return draft("upsert", run | unknown, line=line, error="the output ends before the rows per second")
    if not isinstance(spent, int) or not spent:
        run["interval_ns"] = spent = None
    note = None
    if spent is None and isinstance(wanted_ns, int) and wanted_ns and rows:
        if abs(rows / rate / (wanted_ns / 1e9) - 1) <= _AGREES:
            run["interval_ns"] = wanted_ns
        else:
            note = (
                f"{rows:,} rows in {wanted_ns / 1e9:g} s would be {rows / wanted_ns * 1e9:,.0f} rows/s, but "
                f"{rate:,.0f} rows/s are printed: they agree only if it ran {rows / rate:.3g} s; "
                "the printed rate is kept"
            )
    return draft("upsert", run, latency=latency({}, 1e6, min=low, max=high), line=line, note=note)


MEMSQL = Format(
    "memsql",
    "the output of MemSQL's benchmark.py: N rows in total, N rows per second",
    _is_memsql,
    _parse_memsql,
)
