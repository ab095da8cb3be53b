"""What both ends did while a trial ran: throughput on top, their resources under it, on one time axis."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from venturi.analysis.cells.figures import ENDS
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results, evenly, middle_trial, representative
from venturi.report.figures.figure import MB, Figure, Panel, Series
from venturi.report.summary import name_of

MOST_POINTS = 240
"""Steps drawn of a trial. A longer one is drawn in longer steps, whose means lose the jitter only."""
MOST_CORES = 64
MOST_TIMELINES = 36
"""Cells whose timelines a page holds."""
COLOURS = {"client": "$c0", "server": "$c1"}
Values = npt.NDArray[np.float64]


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
    usable = [i for i, t in enumerate(times) if t is not None]
    gaps = sorted(times[b] - times[a] for a, b in itertools.pairwise(usable))
    least = gaps[len(gaps) // 2] / 4 if gaps else 0
    kept: list[int] = []
    for i in usable:
        if not kept or times[i] - times[kept[-1]] > least:
            kept.append(i)
    rows = list(itertools.pairwise(evenly(kept, most + 1)))
    return Steps(
        rows,
        [(times[b] - times[a]) / 1e9 for a, b in rows],
        [round((times[a] + times[b]) / 2e9, 4) for a, b in rows],
    )


@dataclass(frozen=True)
class End:
    """Samples of one end of a trial, and the steps between them. What is not known of a step is NaN."""

    name: str
    columns: dict[str, Values]
    """By time; of what there are several of, cores and connections, a column of the array for each."""
    steps: Steps

    def grown(self, column: str) -> Values:
        """Growth of a counter in each step. One that runs backwards was set to zero."""
        values = self.columns.get(column)
        if values is None:
            return np.full(len(self.steps.rows), np.nan)
        first, last = np.transpose(self.steps.rows)
        grown: Values = values[last] - values[first]
        return np.where(grown < 0, np.nan, grown)

    def rate(self, column: str, scale: float = 1.0) -> Values:
        """Growth of a counter a second, times `scale`."""
        seconds = np.array(self.steps.seconds)
        return self.grown(column) / np.where(seconds > 0, seconds, np.nan) * scale

    def share(self, column: str, total: str) -> Values:
        """Growth of a counter in percent of that of another one."""
        wholes = self.grown(total)
        return 100 * self.grown(column) / np.where(wholes > 0, wholes, np.nan)

    def level(self, column: str, scale: float = 1.0) -> Values:
        """A gauge at the end of each step; the median of several."""
        values = self.columns.get(column)
        if values is None:
            return np.full(len(self.steps.rows), np.nan)
        return _together(np.nanmedian, values[[last for _, last in self.steps.rows]]) * scale


def _together(function: Callable[..., Any], values: Values) -> Values:
    """One figure of each row, NaN of a row without any."""
    if values.ndim == 1:
        return values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = function(values, axis=1)
    return np.where(np.isnan(values).all(axis=1), np.nan, found)


def _sum(*parts: Values) -> Values:
    return _together(np.nansum, np.column_stack(parts))


def _array(values: Sequence[Any]) -> Values:
    """A column of samples; lists of different lengths end with NaN."""
    if not any(isinstance(v, list) for v in values):
        return np.array([np.nan if v is None else v for v in values], np.float64)
    lists = [v or [] for v in values]
    width = max(map(len, lists))
    return np.array([[*v, *[None] * (width - len(v))] for v in lists], np.float64)


def _numeric(values: Sequence[Any]) -> bool:
    """Whether a column of samples holds numbers or lists of them."""
    each = [x for v in values for x in (v if isinstance(v, list) else [v]) if x is not None]
    return bool(each) and all(isinstance(x, int | float) for x in each)


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
        found = steps(own["t_ns"])
        if found.rows:
            arrays = {n: _array(v) for n, v in own.items() if _numeric(v)}
            out[end] = End(end, arrays, found)
    return out


def chosen(results: Results) -> list[Cell]:
    """The cells whose timelines a page holds: all, or the fastest of each stream count."""
    return representative([c for c in results.cells if middle_trial(c) is not None], MOST_TIMELINES)


def timeline(results: Results, cell: Cell | None = None) -> Figure | None:
    """The timeline of a cell's median trial, by default of the fastest cell that has samples."""
    candidates = (
        [cell] if cell is not None else sorted(chosen(results), key=lambda one: -(one.main.value or 0.0))
    )
    for one in candidates:
        trial = middle_trial(one)
        found = ends(results, trial.trial) if trial is not None else {}
        figure = of(results, one, trial, found) if found else None
        if figure is not None:
            return figure
    return None


def of(results: Results, cell: Cell, trial: Any, found: dict[str, End]) -> Figure | None:
    """The figure from samples that were read already; None where nothing changed in them."""
    same = trial.resources.same_machine
    panels, level = [], []
    for title, unit, series in _quantities(found, same, cell):
        filled = [s for s in series if any(v is not None for v in s.y)]
        if not filled:
            continue
        if all(not v for s in filled for v in s.y):
            level.append(title)
            continue
        panels.append(Panel(title, filled, unit, low=True))
    if not panels:
        return None
    where = name_of(results, cell)
    caption = ["The trial with the median throughput of this cell; both ends on the client's clock."]
    uncertain = trial.resources.clock.uncertainty_ns
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


def _line(end: End, name: str, values: Values, colour: str, area: bool = False) -> Series:
    return Series(
        name,
        list(end.steps.middles),
        [None if np.isnan(v) else float(f"{v:.4g}") for v in values],
        colour,
        "area" if area else "line",
        markers=False,
        # The ends often do the same: over a whole line a dashed one shows both.
        dash="dash" if name == "server" or name == "received" else "solid",
    )


def _quantities(found: dict[str, End], same: Any, cell: Cell) -> list[tuple[str, str, list[Series]]]:
    """Title, unit and series of every panel, whether there is something in it or not."""
    out: list[tuple[str, str, list[Series]]] = []
    counted = f"{cell.noun}s"
    hosts = {"machine": next(iter(found.values()))} if same else {f"{e.name} host": e for e in found.values()}

    def add(title: str, unit: str, make: Callable[[End], Values], once: bool = False) -> None:
        """A panel with a line an end; `once` where both ends see the same machine."""
        if once and same:
            lines = [_line(hosts["machine"], "machine", make(hosts["machine"]), "$c7")]
        else:
            lines = [_line(e, e.name, make(e), COLOURS[e.name]) for e in found.values()]
        out.append((title, unit, lines))

    client = found.get("client")
    if client is not None:
        if not cell.in_rows:
            moved = client.rate("payload_bytes", 1 / MB)
            out.append(("throughput", "MB/s", [_line(client, "payload", moved, "$c2", area=True)]))
        if cell.in_rows or "payload_bytes" not in client.columns:
            # What is counted in rows; and some tools count rows or requests only, and those are imported.
            rows = client.rate("rows", 1e-3)
            out.append((counted, "thousands/s", [_line(client, counted, rows, "$c2", area=True)]))
    if counted == "points":
        out += [(f"{name}: each core", "%", _each_core(end)) for name, end in hosts.items()]
    add("process", "cores", _process_cores)
    out += [(f"{name}: processors", "%", _host(end)) for name, end in hosts.items()]
    add("busiest core", "%", _busiest_core, once=True)
    add("ready, but no core free", "cores", lambda e: e.rate("run_delay_ns", 1e-9))
    for end in hosts.values():
        # Through loopback all that is sent is received: one line.
        sent, got = end.rate("net_tx_bytes", 1 / MB), end.rate("net_rx_bytes", 1 / MB)
        series = [_line(end, "sent", sent, "$c4"), _line(end, "received", got, "$c2")]
        out.append(("interface" if same else f"{end.name} interface", "MB/s", series))
    add("socket: round trip", "µs", lambda e: e.level("socket_rtt_ns", 1e-3))
    add("socket: in flight", "kB", lambda e: e.level("socket_in_flight_bytes", 1e-3))
    add("socket: waiting to be sent", "kB", lambda e: e.level("socket_send_queue_bytes", 1e-3))
    add("socket: waiting to be read", "kB", lambda e: e.level("socket_receive_queue_bytes", 1e-3))
    add("retransmits", "segments/s", _retransmits)
    for what in ("cpu", "memory", "io"):
        add(f"pressure: {what}", "%", lambda e, what=what: e.rate(f"psi_{what}_us", 1e-4), once=True)  # type: ignore[misc]
    add("memory of the process", "MB", lambda e: e.level("rss_bytes", 1 / MB))
    add("memory available", "GB", lambda e: e.level("memory_available_bytes", 1e-9), once=True)
    add("disk, written", "MB/s", lambda e: e.rate("disk_written_bytes", 1 / MB), once=True)
    if cell.in_rows:
        # Commits wait for a disk that writes little.
        add("busiest disk", "%", lambda e: e.rate("disk_busy_ns", 1e-7), once=True)
    add("throttled by the control group", "cores", lambda e: e.rate("throttled_ns", 1e-9))
    return out


def _process_cores(end: End) -> Values:
    both = _sum(end.rate("user_ns", 1e-9), end.rate("system_ns", 1e-9))
    # Runs of before: one column an end, in the client's samples.
    return end.rate(f"{end.name}_cpu_ns", 1e-9) if np.isnan(both).all() else both


def _retransmits(end: End) -> Values:
    grown = _together(np.nansum, end.grown("socket_retransmits"))
    return np.divide(grown, end.steps.seconds)


def _host(end: End) -> list[Series]:
    """Stacked shares of all processors' time."""

    def share(column: str) -> Values:
        return end.share(f"host_{column}_ns", "host_total_ns")

    parts = {
        "user": (share("user"), "$c6"),
        "system": (share("system"), "$c0"),
        "interrupts": (_sum(share("irq"), share("softirq")), "$c3"),
        "stolen": (share("steal"), "$c1"),
    }
    if np.isnan([parts["user"][0], parts["system"][0]]).all():
        parts = {"busy": (share("busy"), "$c0"), "stolen": parts["stolen"]}
    # One that is nothing would only lay its line over that of the one below.
    return [
        _line(end, name, values, colour, area=True)
        for name, (values, colour) in parts.items()
        if name in ("user", "busy") or (values >= 0.5).any()
    ]


def _each_core(end: End) -> list[Series]:
    """Busy share of every core (%), as `htop` shows them; the first `MOST_CORES`."""
    busy, total = end.grown("core_busy_ns"), end.grown("core_total_ns")
    if busy.ndim == 1 or busy.shape != total.shape:
        return []
    shares = np.minimum(100.0, 100 * busy / np.where(total > 0, total, np.nan))
    return [
        _line(end, f"core {core}", shares[:, core], f"$c{core % 8}")
        for core in range(min(shares.shape[1], MOST_CORES))
        if not np.isnan(shares[:, core]).all()
    ]


def _busiest_core(end: End) -> Values:
    """The largest share of any core in a step (%); the clocks of all go at the same speed."""
    busy, total = (_together(np.nanmax, end.grown(f"core_{what}_ns")) for what in ("busy", "total"))
    return 100 * busy / np.where(total > 0, total, np.nan)
