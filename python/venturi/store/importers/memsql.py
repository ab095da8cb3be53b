"""The output of the MemSQL/Cassandra benchmark.py, alone or within a page that says on what it ran.

    $ ./benchmark.py -c -A cluster-nodes --workload-time=30
    14,039,000 rows in total
    1,403,900 rows per second
    Min query latency: 3.242 ms
    Max query latency: 385.611 ms

A heading `### cell ...: target=mysql streams=4 rows_per_batch=500` is that of `venturi show --format seed`;
another `### AWS: 10 x m4.10xlarge` above it gives the number of hosts; `-c` is Cassandra, else MemSQL.
The figures are taken as printed; where they do not go together, the trial says so in its note.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from venturi.store.importers.record import Draft, Parsed, latency, malformed, quoted, real, text_lines, whole

NAME = "memsql"
ABOUT = "the output of MemSQL's benchmark.py: N rows in total, N rows per second"
_TOTAL = re.compile(r"^\s*(\S+) rows in total\s*$")
_RATE = re.compile(r"^\s*(\S+) rows per second\s*$")
_LATENCY = re.compile(r"^\s*(Min|Max) query latency: (\S+) ms\s*$")
_COMMAND = re.compile(r"^(?:\$ ?)?(?:python3? )?\S*benchmark\.py\b(.*)$")
_HOSTS = re.compile(r"^#+\s.*?\b(\d{1,6}) x (\S+)")
_OURS = re.compile(r"^#+ cell \S+: (.*)$")
_WORD = re.compile(
    r"\b(target|hosts|streams|rows_per_batch|in_flight|duration_ns|interval_ns)=([\w+.-]{1,60})"
)
_BATCH = re.compile(r"batch_size was set to (\d{1,9})")
_AGREES = 1e-3
_MOST_SECONDS = 10**8


@dataclass
class _Block:
    line: int
    parameters: dict[str, Any]
    total: int | None = None
    rate: float | None = None
    low: float | None = None
    high: float | None = None


def detect(text: str) -> bool:
    found = text_lines(text)
    return any(_TOTAL.match(line) for line in found) and any(_RATE.match(line) for line in found)


def parse(text: str, name: str) -> Parsed:
    batch = whole(found[1]) if (found := _BATCH.search(text)) else None
    blocks: list[_Block] = []
    hosts: dict[str, Any] = {}
    command: dict[str, Any] = {}
    for at, line in enumerate(text_lines(text), 1):
        if ours := _OURS.match(line):
            hosts, command = _heading(ours[1]), {}
        elif heading := _HOSTS.match(line):
            hosts, command = {"hosts": int(heading[1]), "place": heading[2]}, {}
        elif typed := _COMMAND.match(line.strip()):
            command = _command(typed[1])
        elif total := _TOTAL.match(line):
            blocks.append(_Block(at, {"rows_per_batch": batch, **hosts, **command}, whole(total[1])))
            if blocks[-1].total is None:
                raise malformed(name, at, f"{quoted(line)}: not a number of rows", "N rows in total")
        elif rate := _RATE.match(line):
            value = real(rate[1])
            if value is None or value <= 0 or not blocks or blocks[-1].rate is not None:
                raise malformed(name, at, quoted(line), "N rows in total, then one line N rows per second")
            blocks[-1].rate = value
        elif delay := _LATENCY.match(line):
            value = real(delay[2])
            if value is None or value < 0 or not blocks:
                raise malformed(name, at, quoted(line), "Min query latency: N ms after the rows")
            setattr(blocks[-1], "low" if delay[1] == "Min" else "high", value * 1e6)
    return Parsed([_draft(block) for block in blocks], "MemSQL's benchmark.py")


def _heading(words: str) -> dict[str, Any]:
    """What Venturi's own heading says of the cell."""
    return {name: int(value) if value.isdigit() else value for name, value in _WORD.findall(words)}


def _command(arguments: str) -> dict[str, Any]:
    words = arguments.split()
    out: dict[str, Any] = {"target": "cassandra" if {"-c", "--cassandra"} & set(words) else "memsql"}
    if (found := re.search(r"--workload-time[= ](\d+)", arguments)) and int(found[1]) < _MOST_SECONDS:
        out["duration_ns"] = int(found[1]) * 10**9
    if found := re.search(r"--batch-size[= ](\d{1,9})", arguments):
        out["batch"] = int(found[1])
    return out


def _draft(block: _Block) -> Draft:
    parameters = dict(block.parameters)
    if given := parameters.pop("batch", None):
        parameters["rows_per_batch"] = given
    if block.rate is None:
        return Draft(
            "upsert", parameters, line=block.line, error="the output ends before the rows per second"
        )
    times, note = {}, None
    spent_ns, asked = parameters.pop("interval_ns", None), parameters.get("duration_ns")
    if isinstance(spent_ns, int) and spent_ns > 0:
        times = {"interval_ns": spent_ns}
    elif asked and block.total:
        stated, needed = asked / 1e9, block.total / block.rate
        if abs(needed / stated - 1) <= _AGREES:
            times = {"interval_ns": asked}
        else:
            note = (
                f"{block.total:,} rows in {stated:g} s would be {block.total / stated:,.0f} rows/s, but "
                f"{block.rate:,.0f} rows/s are printed: they agree only if it ran {needed:.3g} s; "
                "the printed rate is kept"
            )
    spent = None
    if block.low is not None or block.high is not None:
        spent = latency({}, low=block.low, high=block.high)
    return Draft(
        "upsert",
        parameters,
        counts={"rows": block.total or 0},
        times=times,
        rates={"rows_per_second": block.rate},
        latency=spent,
        line=block.line,
        note=note,
    )
