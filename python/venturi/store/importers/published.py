"""The lines of CHSpark's benchmark: `partitions: 1, decoders: 4, encoders: 8, bytes/s: 778967778`.

They may stand within other text, as in the project's own page. The same as CSV, with the head
`partitions,decoders,encoders,bytes_per_s`, is read too.
"""

from __future__ import annotations

import re
from typing import Any

from venturi.store.importers.record import Draft, Parsed, malformed, quoted, text_lines, whole

NAME = "chspark"
ABOUT = "lines of CHSpark: partitions: P, decoders: D, encoders: E, bytes/s: B"
HEADS = ("partitions,decoders,encoders,bytes_per_s", "partitions,decoders,encoders,bytes_per_second")
_START = re.compile(r"^\s*partitions:\s")
_LINE = re.compile(
    r"^\s*partitions:\s*(\d+),\s*decoders:\s*(\d+),\s*encoders:\s*(\d+),\s*bytes/s:\s*([\d,]+)\s*$"
)
_CPU = re.compile(r"^[*-]\s*(.*\b(\d+) cores\b.*?)\s*\.?\s*$")


def detect(text: str) -> bool:
    found = text_lines(text)
    first = next((line for line in found if line.strip()), "")
    return first.strip() in HEADS or any(_LINE.match(line) for line in found)


def parse(text: str, name: str) -> Parsed:
    found = text_lines(text)
    start = next((i for i, line in enumerate(found) if line.strip()), 0)
    table = bool(found) and found[start].strip() in HEADS
    drafts = []
    machine: dict[str, Any] = {}
    for at, line in enumerate(found, 1):
        if table and at > start + 1 and line.strip():
            drafts.append(_draft(line.split(","), at, name, line, "partitions,decoders,encoders,bytes_per_s"))
        elif not table and _START.match(line):
            match = _LINE.match(line)
            fields = list(match.groups()) if match else []
            drafts.append(
                _draft(fields, at, name, line, "partitions: P, decoders: D, encoders: E, bytes/s: B")
            )
        elif not table and (cpu := _CPU.match(line)) and int(cpu[2]) < 10_000:
            machine = {"cpu": cpu[1].strip(), "cores": {"logical": int(cpu[2])}}
    return Parsed(drafts, "CHSpark's benchmark", dict(machine), dict(machine))


def draft(partitions: int, decoders: int, encoders: int, rate: float, at: int | None = None) -> Draft:
    """One line. Only the rate is known: neither how much was moved nor for how long."""
    parameters = {"partitions": partitions, "encoders": encoders, "decoders": decoders}
    return Draft("get", parameters, rates={"bytes_per_second": rate}, line=at)


def _draft(fields: list[str], at: int, name: str, line: str, expected: str) -> Draft:
    numbers = [whole(f) for f in fields]
    if len(numbers) != 4 or any(not n for n in numbers):
        raise malformed(name, at, f"not such a line: {quoted(line)}", expected + "; all above 0")
    partitions, decoders, encoders, rate = (n or 0 for n in numbers)
    return draft(partitions, decoders, encoders, float(rate), at)
