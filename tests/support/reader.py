"""Who reads what `venturi show` prints of a run, and computes each number of each sentence from tables and
records, as tests/data/texts/sentences.txt says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property
from statistics import median
from typing import Any

from support.run import DATA
from venturi.analysis import wording
from venturi.analysis.cells.figures import steady_main
from venturi.analysis.cells.summary import Cell, varying
from venturi.analysis.results import load
from venturi.analysis.statistics.curve import Change, Curve
from venturi.analysis.verdict.findings import spelled
from venturi.analysis.verdict.judge import judge
from venturi.analysis.wording import nouns_of
from venturi.engine.record import Group
from venturi.report import run as runs
from venturi.report import terminal

Value = float | tuple[float, float, float]
UNITS = {"MB/s": 1e6, "Mrows/s": 1e6, "krows/s": 1e3, "Mpoints/s": 1e6, "ms": 1e6, "s": 1e9, "%": 0.01}
NUMBER = r"[<±+-]?\d[\d,]*(?:\.\d+)?"
QUANTITY = rf"({NUMBER}[kM]?)(?: ?({'|'.join(UNITS)}|rows/s)(?![\w/]))?(?: \[({NUMBER})\.\.({NUMBER})\])?"
NAMES = {r"`[^`]*`": "COMMAND", r"\w+://[^ ,;]*": "URL", r"\d+(\.\d+){3}": "ADDRESS", r"loader-\d+": "LOADER"}
"""What is no sentence, or a name: its digits are not numbers."""
WAITS = {
    **{"waits for input": "await_input", "is blocked sending": "await_output"},
    **{"waits for its thread": "await_thread"},
}
PARAMETERS = {
    **dict.fromkeys(("rows/batch", "points/batch"), "rows_per_batch"),
    **dict.fromkeys(("rows/stream", "points/stream", "rows/partition"), "rows_per_stream"),
    **{"duration": "duration_ns", "rate": "rate"},
}
LINES = [
    line
    for line in (DATA / "texts" / "sentences.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
DEFINED = dict(line.split(" := ", 1) for line in LINES if " := " in line)


@cache
def pattern(rule: str) -> tuple[re.Pattern[str], list[str]]:
    """An expression that fits its clauses, and what computes their numbers."""
    found, computed, seen = "", list[str](), set[str]()
    for part in re.split(r"(\{.+?\}|<\w>)", rule):
        if part.startswith("{"):
            found += rf"(?P<n{len(computed)}>{'.+' if part[1] == '*' else QUANTITY})"
            computed.append(part[1:-1])
        elif part.startswith("<"):
            words = ".+?" if part[1] in "abcs" else r"\D+?"
            found += f"(?P={part[1]})" if part[1] in seen else f"(?P<{part[1]}>{words})"
            seen.add(part[1])
        else:
            found += re.escape(part)
    return re.compile(found), computed


RULES = [line for line in LINES if " := " not in line]


class Reader:
    """Who reads what is printed of a run. `finding`, `place` and `end`: what the clauses are about."""

    def __init__(self, run: str) -> None:
        self.results = load(run)
        self.lines = terminal.text(runs.document(self.results, brief=True), 4000).splitlines()
        self.cells = self.results.cells
        self.finding: Any = None
        self.place, self.end = self.cells[0], ""

    def clauses(self) -> Iterator[str]:
        """Each clause with a number; what it is about is set before."""
        head, reasons = True, list(self.results.findings)
        for line in self.lines:
            head = head and bool(line)
            item = re.match(r"  - |    \. ", line)
            if not (head or item or re.match("in the median|sampling|reading", line)):
                continue
            text = line[item.end() if item else 0 :]
            if line.startswith("  - "):
                self.finding = next((one for one in reasons if one.title == text), None)
                if self.finding is not None:
                    reasons.remove(self.finding)
                    fixed, _, text = text.rpartition(": ")
                    assert {self.spelled(self.here[0], n) for n in self.here[0].parameters} >= {
                        *fixed.split(", ")[1:]
                    }
                at_claim = [c for c in self.here if c.parameters[self.finding.axis] == self.finding.at]
                self.place = (at_claim or [Scope(self, {})["highest"]])[0]
            text = re.sub("(: |, then: |^)venturi .*", "", text)
            for name, word in NAMES.items():
                text = re.sub(name, word, text)
            if why := re.match(r"why, (?:at|from) (.+?): ", text):
                self.place, text = self.cell(why[1]), text[why.end() :]
            text = text.removeprefix("why is not known: ")
            if found := re.match("the (client|server)", text):
                self.end = found[1]
            yield from (c for c in re.split(r"; (?![^(]*\))|(?<=[a-z%)])\. ", text) if re.search(r"\d", c))

    def explained(self, clause: str) -> list[tuple[str, Any]] | str:
        """Its numbers as printed, and as computed by the first rule that fits; else why none does."""
        why = "no rule"
        for expression, computed in map(pattern, RULES):
            if not (found := expression.fullmatch(clause)):
                continue
            words, out = {k: v for k, v in found.groupdict().items() if len(k) == 1}, list[tuple[str, Any]]()
            try:
                for number, how in enumerate(computed):
                    printed, value = found[f"n{number}"], eval(how.lstrip("*"), Scope(self, words))
                    each = named(printed) if how[0] == "*" else ()
                    out += [(n, value(w)) for w, n in each] or [(printed, value)]
                assert computed or self.good(words.get("c", self.place))
            except (AssertionError, LookupError, StopIteration, AttributeError) as error:
                why += f"; {type(error).__name__}: {error}"
            else:
                return out
        return why

    @property
    def here(self) -> list[Cell]:
        names = self.finding.cells if self.finding is not None else ()
        return [c for c in self.cells if c.name in names]

    def spelled(self, cell: Cell, name: str = "") -> str:
        name = name or self.finding.axis
        return spelled(name, cell.parameters[name], nouns_of(cell))

    def cell(self, point: Cell | str) -> Cell:
        """The cell that a label means: a point of the finding, or what tells a cell from the others."""
        if isinstance(point, Cell):
            return point
        found = [c for c in self.here if self.spelled(c) == point]
        for c in [] if found else self.cells:
            others = ([n for n in varying(some) if n != "operation"] or ["streams"] for some in self.among(c))
            known = {wording.label(c, o) for o in others}
            if point in {f"{w}{k}" for k in known for w in ("", f"{c.operation}, ", f"{c.operation} with ")}:
                found.append(c)
        assert len(found) == 1, (point, found)
        return found[0]

    def among(self, cell: Cell) -> tuple[list[Cell], ...]:
        return self.cells, [c for c in self.cells if c.operation == cell.operation]

    def same(self, found: Cell, label: str) -> Cell:
        whose = {wording.label(found, varying(some) or ["streams"]) for some in self.among(found)}
        assert label in whose or self.cell(label) is found, (label, found.name)
        return found

    def good(self, cell: Cell | str) -> list[Any]:
        return [r for r in self.cell(cell).records if r["outcome"] == "ok" and not r.warmup]

    @cached_property
    def measured(self) -> list[Any]:
        return [r for r in self.results.directory.records() if not r.warmup]

    def column(self, cell: Cell, head: str) -> float:
        """What the table has of a cell under `%`."""
        table = self.lines[self.lines.index(cell.operation) + 1 :]
        assert head.removeprefix("the ").removesuffix("'s limit") in table[0]
        shown = next(line for line in table[2:] if f" {cell.main.number()} " in line)
        return float(shown[: table[1].index("%") + 1].split()[-1]) / 100

    @property
    def like(self) -> dict[Any, list[Cell]]:
        """The cells of the finding; by size, those of like sizes too if each has few trials."""
        axis, size, own = self.finding.axis, "rows_per_stream", self.here[0].parameters
        if max(len(self.good(c)) for c in self.here) >= 3 or axis == size or size not in own:
            return {None: self.here}
        fixed, found = [n for n in varying(self.cells) if n not in (axis, size)], dict[Any, list[Cell]]()
        for c in self.cells:
            p = c.parameters
            if 0.5 <= p[size] / own[size] <= 2 and all(p[n] == own[n] for n in fixed):
                found.setdefault(p[size], []).append(c)
        return found

    @property
    def curve(self) -> Curve:
        rounds: dict[Any, dict[float, float]] = {}
        for size, members in self.like.items():
            for n, r in ((c.parameters[self.finding.axis], r) for c in members for r in self.good(c)):
                rounds.setdefault((size, r["repeat"]), {})[float(n)] = speed(r)
        found = Curve.of(list(rounds.values()), repeats=len(self.like) == 1)
        assert found is not None
        return found

    def bounds(self, found: Change, told: float | None = None) -> Value:
        """A change of medians, if it is not of like sizes together, in the interval of the rounds."""
        value = found.value if told is None or len(self.like) > 1 else told
        return value if found.low is None or found.high is None else (value, found.low, found.high)


class Scope(dict[str, Any]):
    """The names of an expression: the clause's words, what the reader sees, what the table defines."""

    def __init__(self, reader: Reader, words: dict[str, str]) -> None:
        super().__init__(words)
        self.reader = reader

    def __missing__(self, name: str) -> Any:
        if name in DEFINED:
            return eval(DEFINED[name], self)
        return getattr(self.reader, name) if hasattr(self.reader, name) else HELPERS[name]


def at(record: Any, *path: str) -> Any:
    for name in path:
        record = record[name] if isinstance(record, Group) else (record or {}).get(name)
    return record


def speed(record: Any) -> float:
    """Rows a second of what is counted in rows, else bytes; as another tool printed it, if it did."""
    order = (
        ("rows", "bytes") if record["parameters"]["operation"] in ("upsert", "ingest") else ("bytes", "rows")
    )
    for counted in order:
        if (printed := at(record, "rates", f"{counted}_per_second")) is not None:
            return float(printed)
        amount = at(record, "counts", "rows" if counted == "rows" else "payload_bytes")
        if amount is not None:
            return float(amount / at(record, "times", "interval_ns") * 1e9)
    raise LookupError("speed")


def ranged(values: Sequence[float]) -> Value:
    """The median in its interval, the range of few values (more: by the table of ranks); of one, without."""
    data, rank = sorted(values), 1 if len(values) < 9 else {9: 2, 10: 2, 11: 2, 12: 3}[len(values)]
    return (median(data), data[rank - 1], data[-rank]) if len(data) > 1 else data[0]


def named(printed: str) -> Iterator[tuple[str, str]]:
    """`send 70 %, encode 5 %` and `records, 4,096 rows/batch` as names and numbers."""
    before = ""
    for part in printed.split(", "):
        if found := re.search(QUANTITY, part):
            yield before + (part[: found.start()] + part[found.end() :]).strip(), found[0]
        before = "" if found else f"{before}{part}, "


def fits(printed: str, value: Value, off: int = 0) -> bool:
    """Whether a number is what was computed, as it is rounded; `off` by so many units of its last digit."""
    found = re.fullmatch(QUANTITY, printed)
    assert found, printed
    numbers = [n for n in (found[1], found[3], found[4]) if n]
    values = value if isinstance(value, tuple) else (value,)
    unit = UNITS.get(found[2] or "", 1) * {"k": 1e3, "M": 1e6}.get(numbers[0][-1], 1)
    for text, exact in zip(numbers, values, strict=True):
        digits = text.strip("<±kM").replace(",", "")
        last = 10.0 ** -len(digits.partition(".")[2])
        shown, exact = float(digits) + off * last, exact / unit
        if abs(shown - exact) > 0.5001 * last + 1e-12 * abs(shown) and not (text[0] == "<" and exact < shown):
            return False
    return True


HELPERS: dict[str, Any] = {"WAITS": WAITS, "PARAMETERS": PARAMETERS}
HELPERS |= {f.__name__: f for f in (at, speed, ranged, median, varying, steady_main, judge, replace)}
