"""What was sampled while trials ran, as Arrow tables: rows of samples, and their sums over the interval.

Columns keep their units in their names. docs/format.md says what each one means.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from venturi.common.errors import DamagedWarning
from venturi.engine.record import EndResources, Group, ThreadShare, Trial

if TYPE_CHECKING:
    import numpy as np

ENDS = ("client", "server")
_I, _F, _S, _B = pa.int64(), pa.float64(), pa.string(), pa.bool_()
_LIST = pa.list_(_I)
_TYPES = {"": _I, "f": _F, "s": _S, "b": _B, "[]": _LIST, "[f]": pa.list_(_F)}


def columns(text: str) -> dict[str, pa.DataType]:
    """Columns from their names, each with its type: `rows` is an integer, `share:f` a number, `end:s` a text,
    `lead:b` yes or no, `streams:[]` a list of integers, `core_busy_share:[f]` one of numbers."""
    found = (word.partition(":") for word in text.split())
    return {name: _TYPES[kind] for name, _, kind in found}


SAMPLE = columns("""
    end:s t_ns rows payload_bytes streams:[]
    user_ns system_ns run_delay_ns voluntary_switches involuntary_switches minor_faults major_faults rss_bytes
    paused_ns
    thread_cpu_ns:[] thread_delay_ns:[]
    host_busy_ns host_user_ns host_system_ns host_irq_ns host_softirq_ns host_steal_ns host_iowait_ns
    host_total_ns core_busy_ns:[] core_softirq_ns:[] core_steal_ns:[] core_total_ns:[] frequency_khz:[]
    memory_available_bytes psi_cpu_us psi_memory_us psi_io_us throttled_ns
    net_rx_bytes net_tx_bytes net_rx_packets net_tx_packets net_rx_drops net_tx_drops
    disk_read_bytes disk_written_bytes disk_busy_ns
    socket_rtt_ns:[] socket_min_rtt_ns:[] socket_retransmits:[] socket_delivery_rate:[] socket_cwnd_bytes:[]
    socket_in_flight_bytes:[] socket_send_queue_bytes:[] socket_receive_queue_bytes:[]
    socket_send_buffer_bytes:[] socket_receive_buffer_bytes:[] socket_busy_ns:[]
    socket_receive_window_limited_ns:[] socket_send_buffer_limited_ns:[]
""")
"""The columns of the table `samples`, but `trial`."""

_PROCESS = columns("""
    user_ns system_ns run_delay_ns voluntary_switches involuntary_switches minor_faults major_faults
    rss_max_bytes paused_ns longest_pause_ns
""")
_SHARES = [f"{kind}_share" for kind in ("busy", "user", "system", "softirq", "irq", "steal", "iowait")]
_HOST = columns(
    "memory_available_min_bytes psi_cpu_share:f psi_memory_share:f psi_io_share:f frequency_khz:f"
)
_NETWORK = [*columns("rx_bytes tx_bytes rx_packets tx_packets rx_drops tx_drops")]
SOCKETS = [
    *columns("""
    rtt_ns min_rtt_ns retransmits delivery_rate cwnd_bytes in_flight_bytes send_queue_bytes
    receive_queue_bytes send_buffer_bytes receive_buffer_bytes busy_share receive_window_limited_share
    send_buffer_limited_share
""")
]
RESOURCE = {
    **columns("end:s by:s window_ns"),
    **_PROCESS,
    **columns("busiest_thread:s busiest_thread_share:f cores"),
    **{f"host_{name}": _F for name in _SHARES},
    "core_busy_share": pa.list_(_F),
    **_HOST,
    **columns("quota_cores:f throttled_ns interface:s loopback:b"),
    **{f"net_{name}": _I for name in _NETWORK},
    **columns("speed_bits_per_second disk_read_bytes disk_written_bytes disk_busy_share:f socket_count"),
    **{f"socket_{name}": _F for name in SOCKETS},
    **columns("same_machine:b clock_offset_ns clock_uncertainty_ns sampler_cpu_ns sampler_share:f"),
}
"""The columns of the table `resources`, but those that name the trial."""


def samples_of(found: Mapping[str, Any]) -> pa.Table:
    """The samples of one record, one row an instant of one end. Columns of which nothing is known are left
    out. The names of the threads are in the metadata."""
    # A trial of several hosts has each of its clients besides, as client:loader-1.
    names = [*ENDS, *(name for name in found if name.startswith("client:"))]
    ends = {end: columns for end in names if isinstance(columns := found.get(end), Mapping)}
    parts = []
    for end, columns in ends.items():
        rows = len(columns.get("t_ns") or ())
        arrays: dict[str, Any] = {"end": _named(end, rows)}
        for name, kind in SAMPLE.items():
            if not (values := columns.get(name)):
                continue
            arrays[name] = _by_row(values, rows) if kind == _LIST else _counters(values)
        parts.append(pa.table(arrays))
    if not parts:
        return pa.Table.from_batches([], pa.schema(SAMPLE))
    table = pa.concat_tables(parts, promote_options="default")
    threads = {end: columns.get("thread_names") or [] for end, columns in ends.items()}
    present = {*table.column_names}
    return table.select([name for name in SAMPLE if name in present]).replace_schema_metadata(
        {"thread_names": json.dumps(threads)}
    )


# Of all else than buffers Arrow asks first whether it is of pandas, which it imports for that where it is
# installed: a tenth of a second, and for each trial's columns half of the time that they take.


def _numbers(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(values)])


def _named(name: str, rows: int) -> pa.Array:
    """A column of one text."""
    import numpy as np

    text = name.encode()
    ends = np.arange(rows + 1, dtype=np.int32) * len(text)
    return pa.Array.from_buffers(_S, rows, [None, pa.py_buffer(ends), pa.py_buffer(text * rows)])


def _counters(values: Sequence[int | None]) -> pa.Array:
    """A column of counters."""
    import numpy as np

    return pa.array(values, _I) if None in values else _numbers(np.array(values, dtype=np.int64), _I)


def _by_row(items: Sequence[Sequence[int | None]], rows: int) -> pa.Array:
    """From a list an item (stream, thread, CPU, connection) to a list a row."""
    import numpy as np

    if any(None in values for values in items):
        # Only imported samples lack items.
        return pa.array([[values[row] for values in items] for row in range(rows)], _LIST)
    values = np.asarray(items, dtype=np.int64).reshape(len(items), rows).T.ravel()
    offsets = np.arange(0, values.size + 1, len(items), dtype=np.int32)
    return pa.ListArray.from_arrays(_numbers(offsets, pa.int32()), _numbers(values, _I))


def samples(
    folder: Path, trial: str | Iterable[str] | None = None, columns: Iterable[str] | None = None
) -> pa.Table:
    """The samples of one trial, of several, or of all; the first column is `trial`.

    Args:
        folder: The directory `samples` of a run.
        trial: Ids; None takes all. One without samples is left out.
        columns: Of `SAMPLE`, in this order; None takes all, and those of older versions as well.

    A file that cannot be read is as one that is not there, and a `DamagedWarning` says so.
    """
    if trial is None:
        paths = sorted(folder.glob("*.parquet"))
    else:
        names = [trial] if isinstance(trial, str) else trial
        paths = [path for name in names if (path := folder / f"{name}.parquet").exists()]
    wanted = None if columns is None else list(columns)
    kinds = {name: SAMPLE[name] for name in SAMPLE if wanted is None or name in wanted}
    empty = pa.Table.from_batches([], pa.schema({"trial": _S, **kinds}))
    parts = []
    for path in paths:
        try:
            part = _of_file(path, wanted)
            pa.unify_schemas([empty.schema, part.schema], promote_options="default")
            parts.append(part)
        except (pa.ArrowException, OSError) as error:
            _say_damaged(path, error)
    table = pa.concat_tables([empty, *parts], promote_options="default")
    order = list(SAMPLE) if wanted is None else [name for name in wanted if name in table.column_names]
    older = [] if wanted is not None else [n for n in table.column_names if n not in SAMPLE and n != "trial"]
    return table.select(["trial", *order, *older])


def _of_file(path: Path, wanted: list[str] | None) -> pa.Table:
    with pq.ParquetFile(path) as file:
        stored = file.schema_arrow.names
        table = file.read(columns=None if wanted is None else [n for n in wanted if n in stored])
        rows = file.metadata.num_rows
    if "end" not in stored:  # before both ends were sampled, a row was of the client's
        table = table.append_column("end", _named("client", rows))
    table = table.append_column("trial", _named(path.stem, rows))
    return table.replace_schema_metadata(None)


def _say_damaged(path: Path, error: Exception) -> None:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    text = f"{path}: cannot be read: {reason}; its trial is shown without samples"
    warnings.warn(text, DamagedWarning, stacklevel=3)


def thread_names(folder: Path, trial: str) -> dict[str, list[str]]:
    """Names of the threads of each end, in the order of `thread_cpu_ns`; empty where there are none."""
    path = folder / f"{trial}.parquet"
    found: dict[str, Any] = {}
    try:
        metadata = pq.read_schema(path).metadata if path.exists() else None
        found = json.loads((metadata or {}).get(b"thread_names", b"{}"))
    except (pa.ArrowException, OSError, ValueError) as error:
        _say_damaged(path, error)
    return {end: [str(name) for name in found.get(end) or []] for end in ENDS}


def resource_rows(record: Trial) -> list[dict[str, Any]]:
    """The sums over a trial's interval, a row an end that was sampled."""
    resources, rows = record.resources, []
    for end in ENDS:
        found: EndResources = resources[end]
        if found == EndResources():
            continue
        groups: list[tuple[str, Group]] = [
            *(("", group) for group in (resources, found, found.process, found.host)),
            *(("", found.cgroup), ("", found.network), ("net_", found.network), ("host_", found.host)),
            *(("disk_", found.disk), ("socket_", found.sockets)),
            *(("clock_", resources.clock), ("sampler_", resources.sampler)),
        ]
        values = {f"{prefix}{n}": v for prefix, group in groups for n, v in structs.asdict(group).items()}
        busiest = max(found.process.threads, key=lambda it: it.cpu_share or 0.0, default=ThreadShare())
        values |= {"end": end, "busiest_thread": busiest.name, "busiest_thread_share": busiest.cpu_share}
        values["core_busy_share"] = found.host.core_busy_share or None
        rows.append({name: values[name] for name in RESOURCE})
    return rows
