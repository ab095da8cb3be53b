"""The rule table: each cause of a verdict in one row, in the order of proof (METHOD).

A row has the cause's stable name, its proof, its title, its lines of text and its remedies. A proof answers a
`Diagnosis`, or None if its place is not the narrow one or nothing is known of it. Thresholds are beside the
proofs, with their reasons; docs/verdicts.md explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from venturi.analysis.verdict import machine, network, servers, workers
from venturi.analysis.verdict import remedies as to
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.remedies import CHANGES, Propose
from venturi.analysis.verdict.types import Diagnosis, FindingKind, Kind

Prove = Callable[[CellEvidence], Diagnosis | None]


@dataclass(frozen=True)
class Rule:
    """One cause: how it is proved, what is said of it, and what opens its place."""

    name: str
    kind: Kind
    meaning: str
    prove: Prove | None
    """None if the row above, or what follows the proofs, finds it."""
    title: str | Callable[[CellEvidence, Diagnosis], str]
    """A few words; of the diagnosis `end`, `stage` and `pool` are filled in."""
    lines: Callable[[CellEvidence, Diagnosis], Iterator[str]]
    """What was found, with its numbers, and what that means: a thought each."""
    remedies: tuple[Propose, ...] = ()
    numbers: tuple[str, ...] = ()
    """The numbers that prove it; those that were not measured are left out of a verdict."""

    @property
    def changes(self) -> tuple[str, ...]:
        """The parameters that its remedies may change."""
        return tuple(dict.fromkeys(name for one in self.remedies for name in CHANGES.get(one, ())))

    @property
    def flagged(self) -> bool:
        """Whether the figure is no measure of the target."""
        return self.kind in ("load-generator", "schedule")

    def titled(self, seen: CellEvidence, place: Diagnosis) -> str:
        """A few words: `both cores`, `server: encode`, `link`."""
        if callable(self.title):
            return self.title(seen, place)
        return self.title.format(end=place.end, stage=place.stage, pool=place.pool)


_CLIENTS_WORK = (
    *(to.larger_pool, to.no_handicap, to.count_rows, to.made_ahead, to.more_streams),
    *(to.larger_batches, to.less_compression, to.full_rows),
)
_LARGER_UPSERTS, _SHARED_COMMITS = to.of_upserts(to.larger_batches), to.of_upserts(to.more_streams)
_DISK = (to.disk_limit, _LARGER_UPSERTS, to.cheaper_commits, _SHARED_COMMITS, to.faster_disk)
_SERVER = (
    *(_LARGER_UPSERTS, to.more_streams, to.profile, to.accounting_server, to.server_elsewhere),
    *(
        to.larger_batches,
        to.more_in_flight,
        to.staging_table,
        to.other_statements,
        to.no_log,
        to.full_rows,
    ),
)
_CALLS = ("occupancy", "calls", "cpu_cores", "server_cpu_cores", "disk_busy", "run_delay")

_ROWS = (
    Rule(
        "schedule-kept", "schedule", "The rate that was asked for was moved, with time to spare.",
        workers.schedule, "its schedule, kept up", workers.schedule_lines, (to.other_rate,),
        ("offered_batches_per_second", "kept", "late", "spare"),
    ),
    Rule(
        "link-relay", "load-generator", "The relay of --link, a process of Venturi's, can pass on no more.",
        network.relay, "the link's relay", network.relay_lines, (to.larger_frames, to.more_cores),
        ("busy", "cores", "relay_share", "thread_busy", "cpu_cores"),
    ),
    Rule(
        "own-work", "load-generator",
        "The client's workers, or its decoders, mostly do what no other client would have to do.",
        workers.load_generator, workers.own_work_title, workers.own_work_lines, _CLIENTS_WORK,
        ("occupancy", "own_share", "handicap_ns", "clock_share", "busy", "threads"),
    ),
    Rule(
        "too-few-threads", "load-generator", "Fewer client threads than streams are busy; cores are free.",
        None, "load generator: too few threads", workers.threads_lines,
        (to.thread_per_stream, *_CLIENTS_WORK), ("threads", "workers", "occupancy"),
    ),
    Rule(
        "cpu-quota", "cores", "The CPU quota of an end's control group is used up.",
        machine.quota, "{end}: CPU quota", machine.quota_lines,
        (to.other_pin, to.larger_quota, to.less_compression, to.made_ahead, to.larger_batches, to.count_rows),
        ("quota_cores", "used", "held_back_cpus"),
    ),
    Rule(
        "cores-full", "cores",
        "All CPUs that an end may use, or the one on which both ends run, are busy with the two ends' work.",
        machine.cores, machine.cores_title, machine.cores_lines,
        (to.other_control, to.other_pin, to.less_compression, to.made_ahead, to.larger_batches,
         to.staging_table, to.count_rows, to.server_elsewhere, to.full_rows, to.other_statements,
         to.more_cores),
        ("busy", "cores", "stolen", "others", "run_delay"),
    ),
    Rule(
        "pool-busy", "stage",
        "A pool of threads, encoders or decoders, works all of its time, or nearly.",
        workers.pool, "{end}: {pool}", workers.pool_lines,
        (to.larger_pool, to.no_handicap, to.count_rows, to.less_compression,
         to.larger_batches),
        ("busy", "threads", "at_a_time"),
    ),
    Rule(
        "calls-busy", "stage",
        "A database's engine in the client's process, a plugin or a driver takes the workers' time.",
        workers.calls, workers.calls_title, workers.calls_lines,
        (to.staging_table, to.larger_batches, to.cheaper_commits, to.more_streams, to.profile),
        _CALLS,
    ),
    Rule(
        "calls-take-turns", "stage",
        "Several calls use one core together: an engine writes, or Python runs, one at a time.",
        None, workers.calls_title, workers.calls_lines,
        (to.staging_table, to.larger_batches, to.one_connection, to.cheaper_commits, to.profile), _CALLS,
    ),
    Rule(
        "calls-wait", "stage",
        "Calls into an engine, a plugin or a driver take the time, and mostly wait: for a disk, a lock, a "
        "database.",
        None, workers.calls_title, workers.calls_lines,
        (to.cheaper_commits, to.larger_batches, to.more_streams, to.profile), _CALLS,
    ),
    Rule(
        "stage-busy", "stage",
        "One end's workers work all of their time, or nearly; those of the other wait for them.",
        workers.stage, "{end}: {stage}", workers.stage_lines,
        (to.other_control, to.more_streams, to.more_cores, to.no_handicap, to.staging_table,
         to.less_compression, to.made_ahead, to.larger_batches, to.cheaper_commits, to.count_rows,
         to.other_statements, to.no_log, to.full_rows),
        ("occupancy", "handicap_ns", "cipher_share"),
    ),
    Rule(
        "link-full", "link", "The link that was made for the cell carries what it can, or what others leave.",
        network.link, network.link_title, network.link_lines, (to.no_cross, to.compression, to.faster_path),
        ("link_share", "link_bits_per_second", "cross_share", "raw_tcp_share"),
    ),
    Rule(
        "path-full", "link",
        "The path carries what raw TCP or the interface can do, or takes no more from the sender's socket.",
        network.path, "link", network.path_lines,
        (to.compression, to.more_streams, to.raw_tcp, to.faster_path),
        ("raw_tcp_share", "interface_share", "wire_bytes_per_second", "blocked", "idle"),
    ),
    Rule(
        "disk-busy", "disk", "A disk is busy all of its time with this data, or writes in order what it can.",
        machine.disk, "disk of the {end}", machine.disk_lines, _DISK,
        ("busy", "disk_bytes_per_second", "tasks_waited", "disk_share"),
    ),
    Rule(
        "memory-bandwidth", "memory", "Payload moves nearly as fast as memory can be copied.",
        machine.memory, "memory bandwidth", machine.memory_lines,
        (to.smaller_batches, to.count_rows, to.server_elsewhere),
        ("memory_copy_share", "payload_bytes_per_second"),
    ),
    Rule(
        "disk-commits", "disk", "Each batch waits for its commit, and the disk does few more one by one.",
        machine.commits, "disk of the {end}: commits", machine.commits_lines, _DISK,
        ("commit_share", "commits_per_second"),
    ),
    Rule(
        "little-in-flight", "flow-control", "Nothing is busy: few batches are in flight, each takes long.",
        servers.little_in_flight, "too little in flight", servers.in_flight_lines,
        (to.more_streams, to.more_in_flight, to.larger_batches, to.cheaper_commits),
        ("batches_in_flight", "batch_ns", "await_reply", "round_trip_share", "cpu_cores", "disk_busy"),
    ),
    Rule(
        "http2-window", "flow-control", "The receiver's HTTP/2 window is small for the round trip.",
        network.window, "flow control: HTTP/2 window", network.window_lines,
        (to.larger_window, to.more_streams), ("await_window", "bound_bytes_per_second"),
    ),
    Rule(
        "receive-window", "flow-control", "The receiver's TCP window holds the sender back.",
        network.buffer, "flow control: receive window", network.buffer_lines,
        (to.larger_tcp_buffers, to.more_streams), ("limited",),
    ),
    Rule(
        "send-buffer", "flow-control", "The sender's socket buffer is small for the round trip.",
        None, "flow control: send buffer", network.buffer_lines, (to.larger_send_buffer, to.more_streams),
        ("limited", "bound_bytes_per_second"),
    ),
    Rule(
        "acknowledgements", "flow-control", "The client waits for answers and the server for input.",
        network.acknowledgements, "flow control: acknowledgements", network.acknowledgements_lines,
        (to.stream_acknowledgements, to.larger_batches, to.more_streams), ("await_reply", "await_input"),
    ),
    Rule(
        "loss", "link", "TCP slows down for packets that the link loses.",
        network.loss, "link: losses", network.loss_lines, (to.enough_streams, to.other_control),
        ("link_share", "loss", "lost_packets", "bound_bytes_per_second", "round_trip_ns", "streams_needed",
         "raw_tcp_share"),
    ),
    Rule(
        "slow-start", "flow-control", "The trial is over before TCP has found what the link carries.",
        network.held_back, "flow control: TCP's start", network.start_lines,
        (to.longer_trial, to.more_streams),
        ("link_share", "round_trips", "first_bytes", "trips_to_fill", "started_share"),
    ),
    Rule(
        "server-waited-for", "server", "The client waits, and the server does not report its stages.",
        servers.server, servers.server_title, servers.server_lines, _SERVER,
        ("waiting", "thread_busy", "cpu_cores", "run_delay"),
    ),
    Rule(
        "server-waits", "server", "The client waits for a server whose process mostly waits itself.",
        None, servers.server_title, servers.server_waits_lines,
        (to.profile, to.more_streams, to.larger_batches, to.no_log),
        ("waiting", "cpu_cores", "batch_ns", "batch_cpu_ns"),
    ),
    # Found by `servers.refine_by_concurrency`, which writes its lines and filters the first remedies.
    Rule(
        "server-limit", "server",
        "Fewer batches in flight did as much or nearly: they queue in the server, or it uses one core.",
        None, "server: a limit within it", servers.server_lines,
        (to.larger_batches, to.cheaper_commits, *_SERVER),
        ("batches_in_flight", "fewer_in_flight", "gain", "batch_ns", "fewer_batch_ns", "cpu_cores", "streams",
         "other_cpu_cores", "other_streams"),
    ),
    Rule(
        "cores-of-others", "cores", "The CPUs are full, mostly of what neither end does.",
        machine.foreign_load, machine.foreign_load_title, machine.cores_lines, (to.stop_other_load,),
        ("busy", "cores", "stolen", "others"),
    ),
    Rule(
        "no-good-trial", "unknown", "No trial of this cell was good.",
        None, "not known", servers.failed_lines, (to.fix_failures,),
    ),
    Rule(
        "too-short", "unknown", "The start took a large part of the trial, or it is too short for samples.",
        None, "not known", servers.short_lines, (to.longer_trial,), ("start", "interval_ns"),
    ),
    Rule(
        "server-or-path", "unknown", "The client waits: for the server or for the path to it.",
        None, "server or path", servers.server_or_path_lines, (to.accounting_server,), ("waiting",),
    ),
    Rule(
        "not-measured", "unknown", "Stages, hosts' CPUs, the server's process or raw TCP were not measured.",
        None, "not known", servers.unmeasured_lines, (to.record_more, to.accounting_server, to.raw_tcp),
    ),
    Rule(
        "nothing-at-its-limit", "unknown", "All was measured, and nothing is at its limit.",
        None, "not known", servers.nearest_lines, (to.more_streams, to.more_repeats),
    ),
)  # fmt: skip
RULES = {rule.name: rule for rule in _ROWS}
_PROOFS: tuple[Prove, ...] = (
    *(rule.prove for rule in _ROWS if rule.prove),
    # Nothing is at its limit; these are nearest to it.
    workers.pool_nearly,
    workers.stage_nearly,
)


def first(seen: CellEvidence) -> Diagnosis | None:
    """The first proof that holds."""
    return next((place for prove in _PROOFS if (place := prove(seen)) is not None), None)


def table() -> str:
    """The causes as the Markdown table of docs/verdicts.md."""
    head = ["| cause | kind | what it means | numbers | what is changed |", "|---|---|---|---|---|"]

    def code(names: tuple[str, ...]) -> str:
        return ", ".join(f"`{name}`" for name in names)

    rows = [
        f"| `{it.name}` | `{it.kind}` | {it.meaning} | {code(it.numbers)} | {code(it.changes)} |"
        for it in _ROWS
    ]
    kinds = ["| finding | what it means |", "|---|---|", *(f"| `{k}` | {k.meaning} |" for k in FindingKind)]
    return "\n".join([*head, *rows, "", *kinds])
