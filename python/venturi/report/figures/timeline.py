"""What both ends did while a trial ran: throughput on top, their resources under it, on one time axis."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.choice import middle_trial, representative
from venturi.analysis.cells.figures import ENDS, get
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.report.figures.figure import Figure, Panel, Series

MB = 1e6
MOST_POINTS = 240
"""Steps drawn of a trial. A longer one is drawn in longer steps, whose means lose the jitter only."""
MOST_CORES = 64
MOST_TIMELINES = 36
"""Cells whose timelines a page holds."""
COLOURS = {"client": "$c0", "server": "$c1"}
Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Steps:
    """The times between samples of one end: which rows bound each, and where it lies (s)."""

    rows: list[tuple[int, int]]
    seconds: list[float]
    middles: list[float]


def steps(times: Sequence[Any], most: int = MOST_POINTS) -> Steps:
    """Steps between usable samples.

    A sampler takes one reading at once and one at the end, whenever these fall. A step under a quarter of the
    usual one would turn the grain of the counters into a spike: it joins the next.
    """
    known = [i for i, t in enumerate(times) if t is not None]
    gaps = sorted(times[b] - times[a] for a, b in itertools.pairwise(known))
    least = gaps[len(gaps) // 2] / 4 if gaps else 0
    kept: list[int] = []
    for i in known:
        if not kept or times[i] - times[kept[-1]] > least:
            kept.append(i)
    if len(kept) - 1 > most:
        kept = [kept[round(j * (len(kept) - 1) / most)] for j in range(most + 1)]
    rows = list(itertools.pairwise(kept))
    return Steps(
        rows,
        [(times[b] - times[a]) / 1e9 for a, b in rows],
        [round((times[a] + times[b]) / 2e9, 4) for a, b in rows],
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _difference(values: Sequence[Any], a: int, b: int) -> float | None:
    one, other = _number(values[a]), _number(values[b])
    # A counter that runs backwards was set to zero; what happened in that step is not known.
    return None if one is None or other is None or other < one else other - one


@dataclass(frozen=True)
class End:
    """Samples of one end of a trial, and the steps between them."""

    name: str
    columns: Columns
    steps: Steps

    def rate(self, column: str, scale: float = 1.0) -> list[float | None]:
        """Growth of a counter a second, times `scale`."""
        values = self.columns.get(column)
        if values is None:
            return [None] * len(self.steps.rows)
        out = []
        for (a, b), seconds in zip(self.steps.rows, self.steps.seconds, strict=True):
            grown = _difference(values, a, b)
            out.append(None if grown is None or seconds <= 0 else grown / seconds * scale)
        return out

    def share(self, column: str, whole: str) -> list[float | None]:
        """Growth of a counter in percent of that of another one."""
        parts, wholes = self.rate(column), self.rate(whole)
        return [None if p is None or not w else 100 * p / w for p, w in zip(parts, wholes, strict=True)]

    def lists(self, column: str, what: Callable[[list[Any], list[Any]], float | None]) -> list[float | None]:
        """A figure of each step from the lists at its begin and its end."""
        values = self.columns.get(column)
        if values is None:
            return [None] * len(self.steps.rows)
        return [what(values[a] or [], values[b] or []) for a, b in self.steps.rows]

    def level(self, column: str, scale: float = 1.0) -> list[float | None]:
        """A gauge at the end of each step; the median of a list."""
        values = self.columns.get(column)
        if values is None:
            return [None] * len(self.steps.rows)

        def one(value: Any) -> float | None:
            found = _median(value) if isinstance(value, list) else _number(value)
            return None if found is None else found * scale

        return [one(values[b]) for _, b in self.steps.rows]


def _median(values: Sequence[Any]) -> float | None:
    known = sorted(v for v in map(_number, values) if v is not None)
    return (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2 if known else None


def ends(results: Results, trial: str) -> dict[str, End]:
    """The samples of a trial by end; empty where there are none."""
    table = results.directory.samples(trial)
    if table.num_rows < 2 or "t_ns" not in table.column_names:
        return {}
    columns = {name: table.column(name).to_pylist() for name in table.column_names if name != "trial"}
    whose = columns.pop("end", None) or ["client"] * table.num_rows
    out = {}
    for end in ENDS:
        rows = [i for i, name in enumerate(whose) if (name or "client") == end]
        rows.sort(key=lambda i: columns["t_ns"][i] or 0)
        own = {name: [values[i] for i in rows] for name, values in columns.items()}
        own = {name: values for name, values in own.items() if any(v is not None for v in values)}
        found = steps(own.get("t_ns", []))
        if found.rows:
            out[end] = End(end, own, found)
    return out


def chosen(results: Results) -> list[Cell]:
    """The cells whose timelines a page holds: all, or the fastest of each stream count."""
    return representative([c for c in results.cells if middle_trial(c) is not None], MOST_TIMELINES)


def timeline(results: Results, cell: Cell | None = None) -> Figure | None:
    """The timeline of a cell's median trial, by default of the fastest cell that has samples."""
    candidates = [cell] if cell is not None else sorted(chosen(results), key=_fastest_first)
    for one in candidates:
        trial = middle_trial(one)
        found = ends(results, str(trial.get("trial"))) if trial is not None else {}
        figure = of(results, one, trial, found) if found else None
        if figure is not None:
            return figure
    return None


def _fastest_first(cell: Cell) -> float:
    return -(cell.main.value or 0.0)


def of(results: Results, cell: Cell, trial: Any, found: dict[str, End]) -> Figure | None:
    """The figure from samples that were read already; None where nothing changed in them."""
    same = get(trial, "resources", "same_machine")
    panels, level = [], []
    for title, unit, series in _quantities(found, same, cell):
        known = [s for s in series if any(v is not None for v in s.y)]
        if not known:
            continue
        if all(not v for s in known for v in s.y):
            level.append(title)
            continue
        panels.append(Panel(title, known, unit, low=True))
    if not panels:
        return None
    names = results.telling.get(cell.operation, [])
    where = ", ".join(dict.fromkeys([cell.operation, labels.label(cell, names)]))
    caption = ["The trial with the median throughput of this cell; both ends on the client's clock."]
    uncertain = get(trial, "resources", "clock", "uncertainty_ns")
    if uncertain:
        caption.append(f"The clocks agree within ±{uncertain / 1e6:.2f} ms.")
    if same:
        caption.append("Both ends are on one machine: its processors and memory are drawn once.")
    if level:
        caption.append(f"Zero throughout: {', '.join(level)}.")
    absent = [end for end in ENDS if end not in found]
    if absent:
        caption.append(f"No samples of the {' and the '.join(absent)}.")
    return Figure(
        "timeline",
        f"What both ends did: {where}" if len(found) > 1 else f"What the {next(iter(found))} did: {where}",
        " ".join(caption),
        "time since the start instant, s",
        "",
        panels,
        columns=1,
        shared_x=True,
    )


def _rounded(values: list[float | None]) -> list[float | None]:
    return [None if v is None else float(f"{v:.4g}") for v in values]


def _line(end: End, name: str, values: list[float | None], colour: str, area: bool = False) -> Series:
    return Series(
        name,
        list(end.steps.middles),
        _rounded(values),
        colour,
        "area" if area else "line",
        markers=False,
        # The ends often do the same: over a whole line a dashed one shows both.
        dash="dash" if name == "server" or name == "received" else "solid",
    )


def _quantities(
    found: dict[str, End], same: Any, cell: Cell | None = None
) -> list[tuple[str, str, list[Series]]]:
    """Title, unit and series of every panel, whether there is something in it or not."""
    out: list[tuple[str, str, list[Series]]] = []
    in_rows = cell is not None and cell.in_rows
    counted = f"{cell.noun}s" if cell is not None else "rows"

    def add(title: str, unit: str, make: Callable[[End], list[float | None]], once: bool = False) -> None:
        """A panel with a line an end; `once` where both ends see the same machine."""
        shown = list(found.values())[:1] if once and same else list(found.values())
        series = [
            _line(
                e,
                "machine" if once and same else e.name,
                make(e),
                "$c7" if once and same else COLOURS[e.name],
            )
            for e in shown
        ]
        out.append((title, unit, series))

    client = found.get("client")
    if client is not None:
        if not in_rows:
            moved = client.rate("payload_bytes", 1 / MB)
            out.append(("throughput", "MB/s", [_line(client, "payload", moved, "$c2", area=True)]))
        if in_rows or "payload_bytes" not in client.columns:
            # What is counted in rows; and some tools count rows or requests only, and those are imported.
            rows = client.rate("rows", 1e-3)
            out.append((counted, "thousands/s", [_line(client, counted, rows, "$c2", area=True)]))
    if counted == "points":
        for end in list(found.values())[:1] if same else found.values():
            out.append((f"{'machine' if same else end.name + ' host'}: each core", "%", _each_core(end)))
    add("process", "cores", _process_cores)
    for end in list(found.values())[:1] if same else found.values():
        out.append((f"{'machine' if same else end.name + ' host'}: processors", "%", _host(end)))
    add("busiest core", "%", lambda e: e.lists("core_busy_ns", _Busiest(e)), once=True)
    add("ready, but no core free", "cores", lambda e: e.rate("run_delay_ns", 1e-9))
    for end in list(found.values())[:1] if same else found.values():
        # Through loopback all that is sent is received: one line.
        sent, got = end.rate("net_tx_bytes", 1 / MB), end.rate("net_rx_bytes", 1 / MB)
        series = [_line(end, "sent", sent, "$c4"), _line(end, "received", got, "$c2")]
        out.append((f"{'interface' if same else end.name + ' interface'}", "MB/s", series))
    add("socket: round trip", "µs", lambda e: e.level("socket_rtt_ns", 1e-3))
    add("socket: in flight", "kB", lambda e: e.level("socket_in_flight_bytes", 1e-3))
    add("socket: waiting to be sent", "kB", lambda e: e.level("socket_send_queue_bytes", 1e-3))
    add("socket: waiting to be read", "kB", lambda e: e.level("socket_receive_queue_bytes", 1e-3))
    add("retransmits", "segments/s", _retransmits)
    for what in ("cpu", "memory", "io"):
        add(
            f"pressure: {what}",
            "%",
            lambda e, column=f"psi_{what}_us": e.rate(column, 1e-4),  # type: ignore[misc]
            once=True,
        )
    add("memory of the process", "MB", lambda e: e.level("rss_bytes", 1 / MB))
    add("memory available", "GB", lambda e: e.level("memory_available_bytes", 1e-9), once=True)
    add("disk, written", "MB/s", lambda e: e.rate("disk_written_bytes", 1 / MB), once=True)
    if in_rows:
        # Commits wait for a disk that writes little.
        add("busiest disk", "%", lambda e: e.rate("disk_busy_ns", 1e-7), once=True)
    add("throttled by the control group", "cores", lambda e: e.rate("throttled_ns", 1e-9))
    return out


def _process_cores(end: End) -> list[float | None]:
    user, system = end.rate("user_ns", 1e-9), end.rate("system_ns", 1e-9)
    both = [
        None if u is None and s is None else (u or 0.0) + (s or 0.0)
        for u, s in zip(user, system, strict=True)
    ]
    if any(v is not None for v in both):
        return both
    # Runs of before: one column an end, in the client's samples.
    return end.rate(f"{end.name}_cpu_ns", 1e-9)


def _host(end: End) -> list[Series]:
    """Stacked shares of all processors' time."""
    irq = [
        None if a is None and b is None else (a or 0.0) + (b or 0.0)
        for a, b in zip(
            end.share("host_irq_ns", "host_total_ns"),
            end.share("host_softirq_ns", "host_total_ns"),
            strict=True,
        )
    ]
    parts = {
        "user": (end.share("host_user_ns", "host_total_ns"), "$c6"),
        "system": (end.share("host_system_ns", "host_total_ns"), "$c0"),
        "interrupts": (irq, "$c3"),
        "stolen": (end.share("host_steal_ns", "host_total_ns"), "$c1"),
    }
    if not any(v is not None for values in (parts["user"][0], parts["system"][0]) for v in values):
        busy = end.share("host_busy_ns", "host_total_ns")
        parts = {"busy": (busy, "$c0"), "stolen": parts["stolen"]}
    # One that is nothing would only lay its line over that of the one below.
    return [
        _line(end, name, values, colour, area=True)
        for name, (values, colour) in parts.items()
        if name in ("user", "busy") or any(v is not None and v >= 0.5 for v in values)
    ]


def _each_core(end: End) -> list[Series]:
    """Busy share of every core (%), as `htop` shows them; the first `MOST_CORES`."""
    columns = [end.columns.get(name) or [] for name in ("core_busy_ns", "core_total_ns")]
    cores = max((len(values or []) for values in columns[0]), default=0)
    out = []
    for core in range(min(cores, MOST_CORES)):
        shares: list[float | None] = []
        for a, b in end.steps.rows:
            busy, total = (_core_grown(values, core, a, b) for values in columns)
            shares.append(None if busy is None or not total else min(100.0, 100 * busy / total))
        if any(v is not None for v in shares):
            out.append(_line(end, f"core {core}", shares, f"$c{core % 8}"))
    return out


def _core_grown(values: Sequence[Any], core: int, a: int, b: int) -> float | None:
    if max(a, b) >= len(values):
        return None
    lists = [values[i] or [] for i in (a, b)]
    if any(core >= len(one) for one in lists):
        return None
    return _difference([lists[0][core], lists[1][core]], 0, 1)


class _Busiest:
    """The largest share of any core in a step (%)."""

    def __init__(self, end: End) -> None:
        self._total = iter(end.lists("core_total_ns", self._grown))
        self._all = "core_total_ns" in end.columns

    @staticmethod
    def _grown(a: list[Any], b: list[Any]) -> float | None:
        """How far one core's clock went on; all go at the same speed."""
        return max(
            (y - x for x, y in zip(a, b, strict=False) if x is not None and y is not None), default=None
        )

    def __call__(self, a: list[Any], b: list[Any]) -> float | None:
        total = next(self._total, None) if self._all else None
        busy = self._grown(a, b)
        return None if busy is None or not total else 100 * busy / total


def _retransmits(end: End) -> list[float | None]:
    grown = end.lists("socket_retransmits", _sum_grown)
    return [None if g is None else g / s for g, s in zip(grown, end.steps.seconds, strict=True)]


def _sum_grown(a: list[Any], b: list[Any]) -> float | None:
    pairs = [(x, y) for x, y in zip(a, b, strict=False) if x is not None and y is not None]
    return float(sum(max(0, y - x) for x, y in pairs)) if pairs else None
