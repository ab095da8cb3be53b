"""Published results of benchmarks: CHSpark, MemSQL and Akumuli.

Akumuli's published ingest results, a page of prose: what it states in numbers becomes a trial.

A row is a point, one value with its time. "Above 16 million elements/second" is a lower bound, and the note
of its trial says so.

The lines of CHSpark's benchmark: `partitions: 1, decoders: 4, encoders: 8, bytes/s: 778967778`.

They may stand within other text, as in the project's own page. The same as CSV, with the head
`partitions,decoders,encoders,bytes_per_s`, is read too.

The output of the MemSQL/Cassandra benchmark.py, alone or within a page that says on what it ran.

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

from venturi.store.importers.record import (
    Draft,
    Format,
    Parsed,
    contradiction,
    join_notes,
    latency,
    malformed,
    quoted,
    real,
    text_lines,
    whole,
)

HEADS = ("partitions,decoders,encoders,bytes_per_s", "partitions,decoders,encoders,bytes_per_second")
_START = re.compile(r"^\s*partitions:\s")
_LINE = re.compile(
    r"^\s*partitions:\s*(\d+),\s*decoders:\s*(\d+),\s*encoders:\s*(\d+),\s*bytes/s:\s*([\d,]+)\s*$"
)
_CPU = re.compile(r"^[*-]\s*(.*\b(\d+) cores\b.*?)\s*\.?\s*$")


def detect_chspark(text: str) -> bool:
    found = text_lines(text)
    first = next((line for line in found if line.strip()), "")
    return first.strip() in HEADS or any(_LINE.match(line) for line in found)


def parse_chspark(text: str, name: str) -> Parsed:
    found = text_lines(text)
    start = next((i for i, line in enumerate(found) if line.strip()), 0)
    table = bool(found) and found[start].strip() in HEADS
    drafts = []
    machine: dict[str, Any] = {}
    for at, line in enumerate(found, 1):
        if table and at > start + 1 and line.strip():
            drafts.append(
                _chspark_draft(line.split(","), at, name, line, "partitions,decoders,encoders,bytes_per_s")
            )
        elif not table and _START.match(line):
            match = _LINE.match(line)
            fields = list(match.groups()) if match else []
            drafts.append(
                _chspark_draft(fields, at, name, line, "partitions: P, decoders: D, encoders: E, bytes/s: B")
            )
        elif not table and (cpu := _CPU.match(line)) and int(cpu[2]) < 10_000:
            machine = {"cpu": cpu[1].strip(), "cores": {"logical": int(cpu[2])}}
    return Parsed(drafts, "CHSpark's benchmark", dict(machine), dict(machine))


def chspark_draft(partitions: int, decoders: int, encoders: int, rate: float, at: int | None = None) -> Draft:
    """One line. Only the rate is known: neither how much was moved nor for how long."""
    parameters = {"partitions": partitions, "encoders": encoders, "decoders": decoders}
    return Draft("get", parameters, rates={"bytes_per_second": rate}, line=at)


def _chspark_draft(fields: list[str], at: int, name: str, line: str, expected: str) -> Draft:
    numbers = [whole(f) for f in fields]
    if len(numbers) != 4 or any(not n for n in numbers):
        raise malformed(name, at, f"not such a line: {quoted(line)}", expected + "; all above 0")
    partitions, decoders, encoders, rate = (n or 0 for n in numbers)
    return chspark_draft(partitions, decoders, encoders, float(rate), at)


CHSPARK = Format(
    "chspark",
    "lines of CHSpark: partitions: P, decoders: D, encoders: E, bytes/s: B",
    detect_chspark,
    parse_chspark,
)


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


def detect_memsql(text: str) -> bool:
    found = text_lines(text)
    return any(_TOTAL.match(line) for line in found) and any(_RATE.match(line) for line in found)


def parse_memsql(text: str, name: str) -> Parsed:
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
    return Parsed([_memsql_draft(block) for block in blocks], "MemSQL's benchmark.py")


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


def _memsql_draft(block: _Block) -> Draft:
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


MEMSQL = Format(
    "memsql",
    "the output of MemSQL's benchmark.py: N rows in total, N rows per second",
    detect_memsql,
    parse_memsql,
)


_AKUMULI_RATE = re.compile(
    r"[Ww]rite throughput was (above|around|about|over)? ?([\d.]+) million (?:elements|points)/second"
)
_SET = re.compile(r"([\d,]+) data points in ([\d,]+) series")
_TARGET = re.compile(r"a single (\S+) instance")
_EARLIER = re.compile(r"on the (\S+) EC2 instance")
_AKUMULI_HOSTS = re.compile(r"(\d{1,4}) \S+ EC2 instances to generate load")
_THREADS = re.compile(r"\((\d{1,6}) threads total\)")
_AKUMULI_CPU = re.compile(r"(\d{1,4})-core ([A-Z][\w\- ]{0,60}?\d\w{0,20}(?: v\d)?)(?= and|[,.])")
_LESS = re.compile(r"in less than (\d{1,4}) minutes")
_STORED = re.compile(r"database size was ([\d.]+) ?GB")
_DISK = re.compile(r"than ([\d.]+) ?MB/s that was demanded")


def detect_akumuli(text: str) -> bool:
    return "kumuli" in text and bool(_AKUMULI_RATE.search(text))


def parse_akumuli(text: str, name: str) -> Parsed:
    flat = re.sub(r"\s", " ", text)
    # The page's head repeats its first sentences as a summary.
    flat = flat.split("--- ", 2)[-1] if flat.startswith("---") else flat
    rates = list(_AKUMULI_RATE.finditer(flat))
    if not rates:
        raise malformed(name, None, "no rate", "write throughput was N million elements/second")
    data = _SET.search(flat)
    drafts = []
    machine: dict[str, Any] = {}
    for found in rates:
        value = real(found[2])
        if value is None or value <= 0:
            raise malformed(name, None, f"{found[0]!r}", "a number of million elements/second")
        at = text.count("\n", 0, max(text.find(found[0][:40]), 0)) + 1
        bound = f"published as {found[1]} {found[2]} million points/s" if found[1] else None
        draft = Draft("ingest", {"target": "akumuli"}, rates={"rows_per_second": value * 1e6}, line=at)
        if found is rates[-1] and data:
            machine = _main(flat, name, draft, data, bound)
        else:
            place = _EARLIER.search(flat[: found.start()])
            draft.parameters["place"] = place[1] if place else None
            draft.note = join_notes(bound, "an earlier run that the publication mentions")
        drafts.append(draft)
    return Parsed(drafts, "Akumuli's published ingest benchmark", server=machine)


def _main(flat: str, name: str, draft: Draft, data: re.Match[str], bound: str | None) -> dict[str, Any]:
    """Fills in the run that the page is about; answers what it says of the server."""
    points, series = whole(data[1]), whole(data[2])
    numbers = {
        "hosts": _AKUMULI_HOSTS.search(flat),
        "streams": _THREADS.search(flat),
    }
    place = _TARGET.search(flat)
    draft.parameters |= {k: int(v[1]) for k, v in numbers.items() if v}
    draft.parameters |= {"place": place[1] if place else None, "series": series}
    if points is not None:
        draft.counts["rows"] = points
    notes = [bound, "a row is a point"]
    rate = draft.rates["rows_per_second"]
    if points and (less := _LESS.search(flat)):
        took = points / rate
        claim = f"{points:,} points at that rate take {took:.0f} s"
        if took >= int(less[1]) * 60:
            raise contradiction(name, draft.line, f"{claim}, not less than {less[1]} minutes")
        notes.append(f"{claim}, which fits 'less than {less[1]} minutes'")
    if points and (stored := _STORED.search(flat)) and (size := real(stored[1])):
        draft.figures["stored_bytes"] = size * 1e9
        per_second = size * 1e9 / (points / rate)
        disk = _DISK.search(flat)
        said = f" (published: {disk[1]} MB/s)" if disk else ""
        notes.append(
            f"{size:g} GB stored are {size * 1e9 / points:.2f} bytes a point, "
            f"{per_second / 1e6:.0f} MB/s to disk{said}"
        )
    draft.note = join_notes(*notes)
    machine: dict[str, Any] = {"host": place[1]} if place else {}
    if cpu := _AKUMULI_CPU.search(flat):
        machine |= {"cpu": cpu[2].strip(), "cores": {"logical": int(cpu[1])}}
    return machine


AKUMULI = Format(
    "akumuli",
    "Akumuli's published benchmark: N data points in N series, N million elements/second",
    detect_akumuli,
    parse_akumuli,
)
