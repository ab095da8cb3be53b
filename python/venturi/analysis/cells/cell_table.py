"""Cells as a table: one row a cell, for CSV, Parquet and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from venturi.analysis.cells import writes
from venturi.analysis.cells.figures import ENDS, SHOWN_PERCENTILES
from venturi.analysis.cells.summary import PARAMETER_ORDER, Cell
from venturi.common.units import Quantity

if TYPE_CHECKING:
    import pyarrow as pa


def table(cells: Sequence[Cell]) -> pa.Table:
    """One row a cell, base units in the column names; `_low` and `_high` are the interval of the median
    (under 6 repeats their range, which holds it less surely)."""
    import pyarrow as pa

    names = list(dict.fromkeys(n for c in cells for n in c.parameters))
    names.sort(key=lambda n: PARAMETER_ORDER.index(n) if n in PARAMETER_ORDER else len(PARAMETER_ORDER))
    columns: dict[str, Any] = {"cell": pa.array([c.name for c in cells], pa.string())}
    for name in names:
        columns[name] = _parameter_column([c.parameters.get(name) for c in cells])
    for name in ("trials", "good", "failed", "interrupted", "warmups"):
        columns[name] = pa.array([getattr(c, name) for c in cells], pa.int64())
    columns["verified"] = pa.array([c.verification for c in cells], pa.string())
    columns["payload_bytes"] = pa.array([c.payload_bytes for c in cells], pa.float64())

    def margins(name: str, quantities: list[Quantity]) -> None:
        for suffix, part in (("", "value"), ("_low", "low"), ("_high", "high")):
            columns[name + suffix] = pa.array([getattr(q, part) for q in quantities], pa.float64())

    margins("bytes_per_second", [c.throughput for c in cells])
    # Cells counted in rows have these figures in columns of their own, below.
    nothing = Quantity(None, unit="B/s")
    margins("steady_bytes_per_second", [nothing if c.in_rows else c.steady for c in cells])
    margins("rows_per_second", [c.rows for c in cells])
    margins("batches_per_second", [c.batches for c in cells])
    margins("interval_ns", [c.interval for c in cells])
    margins("setup_ns", [c.setup for c in cells])
    for end in ENDS:
        margins(f"{end}_cores", [c.cpu[end] for c in cells])
        margins(f"bytes_per_{end}_cpu_second", [nothing if c.in_rows else c.per_cpu[end] for c in cells])
    for p in SHOWN_PERCENTILES:
        name = "latency_max_ns" if p == 100.0 else f"latency_p{p:g}_ns"
        margins(name, [c.latency.get(p, Quantity(None, unit="ns")) for c in cells])
    margins("ceiling_bytes_per_second", [c.ceiling for c in cells])
    margins("share_of_ceiling", [c.share for c in cells])
    columns["binding_ceiling"] = pa.array([c.binding for c in cells], pa.string())
    columns["binding_is"] = pa.array([binding_is(c) for c in cells], pa.string())
    for name in dict.fromkeys(n for c in cells for n in c.ceilings):
        head = "".join(x if x.isalnum() else "_" for x in name).lower()
        columns[f"{head}_ceiling_bytes_per_second"] = pa.array(
            [c.ceilings[name].value if name in c.ceilings else None for c in cells], pa.float64()
        )
    for end in ENDS:
        for stage in dict.fromkeys(s for c in cells for s in c.stages[end]):
            columns[f"{end}_{stage}_share"] = pa.array(
                [c.stages[end].get(stage) for c in cells], pa.float64()
            )
    if any(c.in_rows for c in cells):
        _batches(cells, columns, margins)
    return pa.table(columns)


def binding_is(cell: Cell) -> str | None:
    """`limit`, or `reference` where the cell has passed it; None where it has none."""
    return None if cell.binding is None else "reference" if cell.reference else "limit"


def _batches(
    cells: Sequence[Cell], columns: dict[str, Any], margins: Callable[[str, list[Quantity]], None]
) -> None:
    """Fields that only upserts have; empty for other cells."""
    import pyarrow as pa

    nothing = Quantity(None)

    def of(cell: Cell, quantity: Callable[[Cell], Quantity]) -> Quantity:
        return quantity(cell) if cell.in_rows else nothing

    margins("rows_total", [of(c, writes.rows_total) for c in cells])
    margins("steady_rows_per_second", [of(c, lambda one: one.steady) for c in cells])
    for end in ENDS:
        margins(f"rows_per_{end}_cpu_second", [of(c, lambda one, e=end: one.per_cpu[e]) for c in cells])  # type: ignore[misc]
    for kind in writes.KINDS:
        found = [writes.latencies(c, kind) if c.in_rows else {} for c in cells]
        for name in writes.FIGURES:
            if any(name in f for f in found):
                margins(f"{kind}_{name}_ns", [f.get(name, nothing) for f in found])
    margins("stored_bytes", [of(c, writes.stored_bytes) for c in cells])
    margins("stored_bytes_per_row", [of(c, writes.stored_row) for c in cells])
    wrong = [writes.troubles(c.records) if c.in_rows else None for c in cells]
    for name in ("refused", "refused_rows", "in_doubt", "in_doubt_rows", "retries"):
        counted = [None if w is None else getattr(w, name) for w in wrong]
        columns[f"batches_{name}" if "rows" not in name else name] = pa.array(counted, pa.int64())


def _parameter_column(values: list[Any]) -> Any:
    import pyarrow as pa

    kinds = {type(v) for v in values if v is not None}
    if not kinds:
        return pa.array([None] * len(values), pa.string())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int}:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array([None if v is None else str(v) for v in values], pa.string())
