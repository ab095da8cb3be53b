"""What is derived of several hosts and places, as tables for other programs: base units, nothing rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from venturi.analysis.cells import flows
from venturi.common.units import Quantity

if TYPE_CHECKING:
    import pyarrow as pa

    from venturi.analysis.results import Results

__all__ = ["NAMES", "rows", "table"]

Row = dict[str, Any]
_LOCAL_REMOTE = ("local", "remote")


def _margins(name: str, found: Quantity) -> Row:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _places(results: Results) -> Iterable[Row]:
    """One row a pair of cells."""
    for row in results.place_rows:
        for pair in row.pairs:
            sides = dict(zip(_LOCAL_REMOTE, (pair.local, pair.remote), strict=True))
            unit = "bytes" if pair.local.main.unit == "B/s" else "rows"
            verdicts = {side: results.verdicts.get(cell.name) for side, cell in sides.items()}
            yield {
                "operation": row.operation,
                **{f"{side}_cell": cell.name for side, cell in sides.items()},
                "streams": pair.local.parameters.get("streams"),
                "rows_per_stream": pair.local.parameters.get("rows_per_stream"),
                "counted": unit,
                **{
                    key: value
                    for side, cell in sides.items()
                    for key, value in _margins(f"{side}_per_second", cell.main).items()
                },
                **_margins("ratio", pair.ratio),
                **{
                    f"{side}_{end}_cores": cell.cpu[end].value
                    for side, cell in sides.items()
                    for end in ("client", "server")
                },
                **{f"{end}_cpu_cost_ratio": pair.cost(end).value for end in ("client", "server")},
                **{f"{side}_verdict": v.title if v is not None else None for side, v in verdicts.items()},
            }


def _efficiency(results: Results) -> Iterable[Row]:
    """One row a number of hosts."""
    for one in results.efficiency:
        for step in one.steps:
            yield {
                "operation": one.operation,
                "cell": step.cell.name,
                "hosts": step.hosts,
                "streams": step.cell.parameters.get("streams"),
                "counted": "bytes" if step.each.unit == "B/s" else "rows",
                **_margins("per_second", step.cell.main),
                "per_host_per_second": step.each.value,
                **_margins("efficiency", step.efficiency),
                **_margins("per_core", step.per_core),
                "slowest_over_fastest": step.slowest,
            }


def _convergence(results: Results) -> Iterable[Row]:
    """One row a split."""
    for one in results.convergences:
        limit = one.limit.rate if one.limit else Quantity(None, unit="B/s")
        for split in one.splits:
            yield {
                "operation": one.operation,
                "place": one.where.get("place"),
                "total_rows": one.rows,
                "total_payload_bytes": one.payload_bytes,
                "streams": split.streams,
                "rows_per_stream": split.rows_per_stream,
                **_margins("foretold_bytes_per_second", split.predicted),
                **_margins("bytes_per_second", split.measured),
                "inside": split.inside,
                **_margins("limit_bytes_per_second", limit),
                "limit_streams": one.limit.at if one.limit else None,
                "near_streams": one.limit.near if one.limit else None,
                "refused": split.refused or one.refused or None,
            }


def _flows(results: Results) -> Iterable[Row]:
    """One row a way from a sender to a receiver, of every cell with several ends on a side."""
    for cell in results.cells:
        found = flows.flows(cell)
        for flow in found.flows if found is not None else ():
            yield {
                "cell": cell.name,
                "sender": flow.sender,
                "receiver": flow.receiver,
                "payload_bytes": flow.payload_bytes,
                "share": flow.payload_bytes / found.total if found is not None and found.total else None,
            }


_MAKERS: dict[str, Callable[[Results], Iterable[Row]]] = {
    "places": _places,
    "efficiency": _efficiency,
    "convergence": _convergence,
    "flows": _flows,
}
NAMES = tuple(_MAKERS)


def rows(results: Results, name: str) -> list[Row]:
    """The rows of one of `NAMES`; empty where the run has one host and one place."""
    return list(_MAKERS[name](results))


def table(results: Results, name: str) -> pa.Table:
    """The same as a table; without rows it has no columns."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows(results, name))
