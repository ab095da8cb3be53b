"""Why a cell is no faster, and what changes it: stable names, each with its meaning in plain English.

Scripts read the names; `venturi.analysis.verdict.words` makes sentences of them. `table()` is the table of
docs/verdicts.md.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

__all__ = ["Cause", "FindingKind", "Kind", "MissingEvidence", "RemedyKind", "table"]

Kind = Literal[
    "load-generator",
    "cores",
    "stage",
    "link",
    "disk",
    "memory",
    "flow-control",
    "server",
    "schedule",
    "unknown",
]
_STREAMS = ("streams", "threads")
_BATCHES = "rows_per_batch"
_CODECS = ("compression", "http_compression")
_COMMITS = ("synchronous", "journal")
_IN_FLIGHT = (*_STREAMS, "in_flight", _BATCHES, *_COMMITS)


class Name(str, Enum):
    """A stable name."""

    def __str__(self) -> str:
        return str(self.value)


class Cause(Name):
    """What a proof found, in the order of proof."""

    kind: Kind
    meaning: str
    numbers: tuple[str, ...]
    """The numbers that prove it, as `numbers` of a verdict calls them; those that were not measured are left
    out there."""
    changes: tuple[str, ...]
    """The parameters that its remedies change."""

    def __new__(
        cls, name: str, kind: Kind, meaning: str, numbers: tuple[str, ...] = (), changes: tuple[str, ...] = ()
    ) -> Cause:
        made = str.__new__(cls, name)
        made._value_, made.kind, made.meaning = name, kind, meaning
        made.numbers, made.changes = numbers, changes
        return made

    SCHEDULE_KEPT = (
        "schedule-kept", "schedule", "The rate that was asked for was moved, with time to spare.",
        ("offered_batches_per_second", "kept", "late", "spare"), ("rate",),
    )  # fmt: skip
    LINK_RELAY = (
        "link-relay", "load-generator", "The relay of --link, a process of Venturi's, can pass on no more.",
        ("busy", "cores", "relay_share", "thread_busy", "cpu_cores"), ("link",),
    )  # fmt: skip
    OWN_WORK = (
        "own-work", "load-generator", "The client's workers mostly do what no other client would have to do.",
        ("occupancy", "own_share", "handicap_ns"),
        ("handicap", "verify", _BATCHES, *_STREAMS, "generate", "messages"),
    )  # fmt: skip
    TOO_FEW_THREADS = (
        "too-few-threads", "load-generator", "Fewer client threads than streams are busy; cores are free.",
        ("threads", "workers", "occupancy"),
        ("threads", "handicap", "verify", _BATCHES, "streams", "generate", "messages"),
    )  # fmt: skip
    CLOCK_READING = (
        "clock-reading", "load-generator", "Reading the clock takes a visible part of the trial.",
        ("clock_share",), ("handicap", "verify", _BATCHES, *_STREAMS, "generate", "messages"),
    )  # fmt: skip
    CORES_FULL = (
        "cores-full", "cores", "All CPUs that an end may use are busy with the work of the two ends.",
        ("busy", "cores", "stolen", "others"),
        ("pin", *_CODECS, _BATCHES, "verify", "target", "data", "generate", "method", "statement",
         "messages"),
    )  # fmt: skip
    CPU_QUOTA = (
        "cpu-quota", "cores", "The CPU quota of an end's control group, one core or more, is used up.",
        ("quota_cores", "used", "held_back_cpus"),
        ("pin", *_CODECS, _BATCHES, "verify", "generate", "method", "statement", "target", "messages"),
    )  # fmt: skip
    CPU_QUOTA_UNDER_ONE_CORE = (
        "cpu-quota-under-one-core", "stage", "An end may use less than one core, and has used it up.",
        ("quota_cores", "used", "held_back_cpus"), (*_STREAMS, "durable", "messages", "generate"),
    )  # fmt: skip
    ONE_CORE_FOR_BOTH = (
        "one-core-for-both", "cores", "The scheduler keeps both ends on one core while others are free.",
        ("busy", "run_delay"),
        ("pin", *_STREAMS, "generate", _BATCHES, "method", "target", "statement", "messages"),
    )  # fmt: skip
    POOL_BUSY = (
        "pool-busy", "stage", "A pool of threads, encoders or decoders, works all of its time.",
        ("busy", "threads"), ("encoders", "decoders", "handicap", "verify", "compression", _BATCHES),
    )  # fmt: skip
    POOL_OWN_WORK = (
        "pool-own-work", "load-generator", "The decoders work all of their time, mostly to check values.",
        ("busy", "threads"), ("decoders", "handicap", "verify", "compression", _BATCHES),
    )  # fmt: skip
    POOL_TAKES_TURNS = (
        "pool-takes-turns", "stage", "A pool's threads take their rows one at a time, and one always does.",
        ("busy", "threads"), ("handicap",),
    )  # fmt: skip
    ENGINE_BUSY = (
        "engine-busy", "stage", "A database's engine in the client's process takes its threads' time.",
        ("occupancy", "threads", "cpu_cores"), ("method", _BATCHES, *_COMMITS),
    )  # fmt: skip
    ENGINE_ONE_WRITER = (
        "engine-one-writer", "stage", "The engine lets one connection write at a time; the others wait.",
        ("occupancy", "threads", "cpu_cores"), ("method", _BATCHES, "streams", *_COMMITS),
    )  # fmt: skip
    ENGINE_WAITS = (
        "engine-waits", "stage", "The engine waits, for its commits to be on the disk or for its locks.",
        ("occupancy", "threads", "cpu_cores", "disk_busy"), (*_COMMITS, _BATCHES),
    )  # fmt: skip
    PLUGIN_BUSY = (
        "plugin-busy", "stage", "A plugin's code takes the time of the client's workers, and computes.",
        ("occupancy", "calls", "cpu_cores", "server_cpu_cores"), (*_STREAMS, _BATCHES),
    )  # fmt: skip
    PLUGIN_ONE_INTERPRETER = (
        "plugin-one-interpreter", "stage",
        "Several calls of a plugin at a time use one core together: Python runs one at a time.",
        ("occupancy", "calls", "cpu_cores", "server_cpu_cores"), (_BATCHES,),
    )  # fmt: skip
    PLUGIN_WAITS = (
        "plugin-waits", "stage", "A plugin's calls take the time, and mostly wait.",
        ("occupancy", "calls", "cpu_cores", "server_cpu_cores", "run_delay"), (*_STREAMS, _BATCHES),
    )  # fmt: skip
    DRIVER_BUSY = (
        "driver-busy", "stage", "A driver takes the time of the client's workers, and computes.",
        ("occupancy", "calls", "cpu_cores", "server_cpu_cores"), (*_STREAMS, _BATCHES),
    )  # fmt: skip
    DRIVER_WAITS = (
        "driver-waits", "stage", "The calls of a driver take the time, and mostly wait: for its database.",
        ("occupancy", "calls", "cpu_cores", "server_cpu_cores", "run_delay"), (*_STREAMS, _BATCHES),
    )  # fmt: skip
    CIPHER_REACHED = (
        "cipher-reached", "stage", "An end's workers encrypt or decrypt nearly what their cores can.",
        ("cipher_share",), _STREAMS,
    )  # fmt: skip
    STAGE_BUSY = (
        "stage-busy", "stage", "One end's workers work all of their time; those of the other wait for them.",
        ("occupancy", "handicap_ns"),
        (*_STREAMS, *_CODECS, _BATCHES, "verify", "statement", "messages", "generate", "durable",
         "method", *_COMMITS),
    )  # fmt: skip
    LINK_FULL = (
        "link-full", "link", "The link that was made for the cell carries what it can.",
        ("link_share", "link_bits_per_second", "raw_tcp_share"), ("compression", "link", "backplane"),
    )  # fmt: skip
    LINK_SHARED = (
        "link-shared", "link", "The link carries what it can, and others take a part of it.",
        ("link_share", "link_bits_per_second", "cross_share", "raw_tcp_share"),
        ("cross", "compression", "link", "backplane"),
    )  # fmt: skip
    RAW_TCP_REACHED = (
        "raw-tcp-reached", "link", "The path carries what raw TCP can do on it.",
        ("raw_tcp_share", "wire_bytes_per_second"), ("compression", "link", *_STREAMS),
    )  # fmt: skip
    INTERFACE_FULL = (
        "interface-full", "link", "A network interface moves what it can.",
        ("interface_share", "raw_tcp_share", "wire_bytes_per_second"), ("compression", *_STREAMS),
    )  # fmt: skip
    SOCKET_BLOCKED = (
        "socket-blocked", "link", "The sender's socket takes no more, and the receiver waits for input.",
        ("blocked", "idle", "raw_tcp_share", "interface_share", "wire_bytes_per_second"),
        ("compression", *_STREAMS),
    )  # fmt: skip
    DISK_BUSY = (
        "disk-busy", "disk", "A disk is busy all of its time, with this data.",
        ("busy", "disk_bytes_per_second", "tasks_waited"), (_BATCHES, *_COMMITS, *_STREAMS, "durable"),
    )  # fmt: skip
    DISK_CEILING = (
        "disk-ceiling", "disk", "The result is what the disk writes in order.",
        ("disk_share",), (_BATCHES, *_COMMITS, *_STREAMS, "durable"),
    )  # fmt: skip
    MEMORY_BANDWIDTH = (
        "memory-bandwidth", "memory", "Payload moves nearly as fast as memory can be copied.",
        ("memory_copy_share", "payload_bytes_per_second"), (_BATCHES, "verify"),
    )  # fmt: skip
    DISK_COMMITS = (
        "disk-commits", "disk", "Each batch waits for its commit, and the disk does few more one by one.",
        ("commit_share", "commits_per_second"), (_BATCHES, *_COMMITS, *_STREAMS, "durable"),
    )  # fmt: skip
    LITTLE_IN_FLIGHT = (
        "little-in-flight", "flow-control", "Nothing is busy: few batches are in flight, each takes long.",
        ("batches_in_flight", "batch_ns", "await_reply", "round_trip_share", "cpu_cores", "disk_busy"),
        _IN_FLIGHT,
    )  # fmt: skip
    HTTP2_WINDOW = (
        "http2-window", "flow-control", "The receiver's HTTP/2 window is small for the round trip.",
        ("await_window", "bound_bytes_per_second"), ("window", *_IN_FLIGHT),
    )  # fmt: skip
    RECEIVE_WINDOW = (
        "receive-window", "flow-control", "The receiver's TCP window holds the sender back.",
        ("limited",), _IN_FLIGHT,
    )  # fmt: skip
    SEND_BUFFER = (
        "send-buffer", "flow-control", "The sender's socket buffer is small for the round trip.",
        ("limited", "bound_bytes_per_second"), ("send_buffer", *_IN_FLIGHT),
    )  # fmt: skip
    ACKNOWLEDGEMENTS = (
        "acknowledgements", "flow-control", "The client waits for answers and the server for input.",
        ("await_reply", "await_input"), ("ack", _BATCHES, *_STREAMS),
    )  # fmt: skip
    LOSS = (
        "loss", "link", "TCP slows down for packets that the link loses.",
        ("link_share", "loss", "lost_packets", "bound_bytes_per_second", "round_trip_ns", "streams_needed",
         "raw_tcp_share"),
        (*_STREAMS, "link"),
    )  # fmt: skip
    SLOW_START = (
        "slow-start", "flow-control", "The trial is over before TCP has found what the link carries.",
        ("link_share", "round_trips", "first_bytes", "trips_to_fill", "started_share"),
        ("duration_ns", *_STREAMS),
    )  # fmt: skip
    SERVER_LIMIT = (
        "server-limit", "server", "Fewer batches in flight did as much or nearly: they queue in the server.",
        ("batches_in_flight", "fewer_in_flight", "gain", "batch_ns", "fewer_batch_ns"), (_BATCHES, *_COMMITS),
    )  # fmt: skip
    SERVER_WAITED_FOR = (
        "server-waited-for", "server", "The client waits, and the server does not report its stages.",
        ("waiting", "thread_busy", "cpu_cores", "run_delay"),
        (*_STREAMS, _BATCHES, "target", "data", "in_flight", "method", "statement", "durable", "messages"),
    )  # fmt: skip
    SERVER_WAITS = (
        "server-waits", "server", "The client waits for a server whose process mostly waits itself.",
        ("waiting", "cpu_cores", "batch_ns", "batch_cpu_ns"),
        (*_STREAMS, _BATCHES, "target", "data", "messages", "durable"),
    )  # fmt: skip
    SERIAL_SERVER = (
        "serial-server", "server",
        "The server uses about one core and moves as much, however many streams it has.",
        ("cpu_cores", "streams", "other_cpu_cores", "other_streams"), ("target", "data", _BATCHES),
    )  # fmt: skip
    CORES_OF_OTHERS = (
        "cores-of-others", "cores", "The CPUs are full, mostly of what neither end does.",
        ("busy", "cores", "stolen", "others"), (),
    )  # fmt: skip
    POOL_BUSIEST = (
        "pool-busiest", "stage", "Nothing is at its limit; a pool of threads is nearest to it.",
        ("busy", "threads"), ("encoders", "decoders", "handicap", "verify", "compression", _BATCHES),
    )  # fmt: skip
    STAGE_BUSIEST = (
        "stage-busiest", "stage", "Nothing is at its limit; the workers of one end are nearest to it.",
        ("occupancy", "handicap_ns"),
        (*_STREAMS, *_CODECS, _BATCHES, "verify", "statement", "messages", "generate", "durable",
         "method", *_COMMITS),
    )  # fmt: skip
    NO_GOOD_TRIAL = ("no-good-trial", "unknown", "No trial of this cell was good.")
    NOTHING_RECORDED = ("nothing-recorded", "unknown", "Neither stages nor resources were recorded.")
    START_MEASURED = (
        "start-measured", "unknown", "The first batches took a large part of the interval.",
        ("start",), ("duration_ns",),
    )  # fmt: skip
    TOO_SHORT = (
        "too-short", "unknown", "Trials are too short to see how busy the hosts' CPUs were.",
        ("interval_ns",), ("duration_ns",),
    )  # fmt: skip
    HOSTS_UNSEEN = ("hosts-unseen", "unknown", "Nobody looked at the hosts' CPUs.")
    SERVER_UNSEEN = ("server-unseen", "unknown", "What the server's process did is not known.")
    SERVER_OR_PATH = (
        "server-or-path", "unknown", "The client waits: for the server or for the path to it.",
        ("waiting",), ("target", "data"),
    )  # fmt: skip
    SERVER_SILENT = (
        "server-silent", "unknown", "The server, or one of several, does not report its stages.",
        ("servers",), ("target", "data"),
    )  # fmt: skip
    RAW_TCP_UNMEASURED = ("raw-tcp-unmeasured", "unknown", "Raw TCP over this path was not measured.")
    NOTHING_AT_ITS_LIMIT = (
        "nothing-at-its-limit", "unknown", "All was measured, and nothing is at its limit.",
        (), _STREAMS,
    )  # fmt: skip


class MissingEvidence(Name):
    """What was not measured and could have overturned a verdict."""

    BOTH_STAGES = "stages"
    CLIENT_STAGES = "client-stages"
    SERVER_STAGES = "server-stages"
    RECEIVER_STAGES = "receiver-stages"
    CLIENT_HOST = "client-host"
    SERVER_HOST = "server-host"
    CLIENT_CPU = "client-cpu"
    SERVER_CPU = "server-cpu"
    ROUND_TRIP = "round-trip"
    RAW_TCP = "raw-tcp"


class RemedyKind(Name):
    """The reason of a remedy, and its words: `changes` and `numbers` of the remedy are filled in, and the
    system's word for a stream."""

    words: str

    def __new__(cls, name: str, words: str) -> RemedyKind:
        made = str.__new__(cls, name)
        made._value_, made.words = name, words
        return made

    LARGER_BATCHES = "larger-batches", "larger batches, for less work a row"
    FEWER_COMMITS = "fewer-commits", "larger batches, for less work and fewer commits a row"
    SERVERS_BATCHES = (
        "servers-batches",
        "larger batches than the {rows:,.0f} rows that the server sends, which is its own setting",
    )
    SMALLER_BATCHES = "smaller-batches", "smaller batches, which stay in the cache"
    MORE_STREAMS = "more-streams", "more {stream}s, so that more workers share it"
    MORE_CONNECTIONS = "more-connections", "more connections, so that more is in flight"
    MORE_SENDERS = "more-senders", "more connections, each with a thread of its own"
    MORE_SERVER_CORES = "more-server-cores", "more connections, which the server may serve on more cores"
    SHARED_COMMITS = "shared-commits", "more connections, whose commits the server may write together"
    MORE_BATCHES_IN_FLIGHT = "more-batches-in-flight", "more batches in flight on each connection"
    MORE_IN_FLIGHT = "more-in-flight", "more in flight"
    ONE_CONNECTION = "one-connection", "one connection, which waits for no other"
    THREAD_A_STREAM = "thread-a-stream", "a thread a {stream}"
    THREAD_A_CONNECTION = "thread-a-connection", "a thread a connection"
    LIGHTER_CODEC = "lighter-codec", "a lighter codec"
    NO_COMPRESSION = "no-compression", "no compression"
    COMPRESSION = "compression", "fewer bytes on the wire"
    LARGER_POOL = "larger-pool", "{pool}: {now} -> {more}"
    POOL_CORES = "pool-cores", "more or faster cores at the {end}: as many {pool} as it has cores are busy"
    NO_HANDICAP = "no-handicap", "no handicap"
    WITHOUT_HANDICAP = "without-handicap", "without the handicap"
    END_WITHOUT_HANDICAP = "end-without-handicap", "start the {end} without --handicap"
    COUNT_ROWS = "count-rows", "count rows instead of checking values"
    ONE_PASS_LESS = "one-pass-less", "one pass less over the values"
    STOP_OTHERS = "stop-others", "stop what else runs here (venturi doctor names it), then run again"
    PROFILE_PLUGIN = "profile-plugin", "where that time goes: py-spy top --pid PID, while a trial runs"
    PROFILE_DRIVER = "profile-driver", "where that time goes: perf top --pid PID, while a trial runs"
    DRIVER_OPTIONS = "driver-options", "options of the driver, as the size of its batches: --driver-option"
    LARGER_FRAMES = "larger-frames", "packets of 9,000 bytes, of which the relay passes on fewer"
    RELAY_CORES = "relay-cores", "more or faster cores here: the relay needs up to two, one for each way"
    OWN_CORE = "own-core", "keep the client off the server's core"
    WITHOUT_PIN = "without-pin", "without --pin"
    LARGER_QUOTA = "larger-quota", "a larger CPU quota for the {end}'s control group than {quota:g} cores"
    RAISE_QUOTA = "raise-quota", "raise the CPU quota of the {end}'s control group ({quota:g} of a core)"
    MORE_CORES = "more-cores", "more or faster cores at the {end}"
    SERVER_ELSEWHERE = "server-elsewhere", "the server on another host"
    DATABASE_ELSEWHERE = "database-elsewhere", "the server on another host, and from here"
    FASTER_SOURCE = "faster-source", "a faster source of rows: more {pool} gain nothing"
    PROFILE_SERVER = (
        "profile-server",
        "where that core goes, on the server's host: perf top -g -p PID, of Python py-spy top --pid PID",
    )
    TRACE_SERVER = (
        "trace-server",
        "see what it waits for, on its host during a trial: strace -f -c -p PID (Python: py-spy dump "
        "--pid PID)",
    )
    PROFILE_PROGRAM = (
        "profile-program",
        "what the program does meanwhile: perf top -p PID if it computes, strace -c -f -p PID if it waits",
    )
    ACCOUNTING_SERVER = (
        "accounting-server",
        "what this client and path can do with a server that reports its stages",
    )
    SERVER_THAT_ACCOUNTS = "server-that-accounts", "a server that reports its stages"
    OWN_HOSTS = "own-hosts", "each end on a host of its own, with memory of its own"
    PATH_LIMIT = "path-limit", "what the path can do at all"
    RAW_TCP = "raw-tcp", ""
    FASTER_PATH = "faster-path", "a faster path between the hosts"
    PACKING_PAYS = (
        "packing-pays",
        "{codec}, which makes these data {ratio:.3g} times smaller: about {gain:.2g} times as fast over this "
        "link",
    )
    PACKING_LIMITS = "packing-limits", "what codecs do to these data, and so whether they pay on this link"
    FASTER_LINK = "faster-link", "what a link twice as fast would bring"
    NO_CROSS = "no-cross", "the link without the traffic of others"
    STREAMS_HIDE = "streams-hide", "more {stream}s, of which each loses a little: some {needed} fill the link"
    OTHER_CONTROL = "other-control", "BBR, which does not slow down for single losses"
    NO_PACING = "no-pacing", "CUBIC instead of BBR, whose pacing may be what is slow over so fast a link"
    DISK_LIMIT = "disk-limit", "what the disk can do"
    FASTER_DISK = "faster-disk", "a faster disk at the {end}"
    NO_WINDOW = "no-window", "no HTTP/2 limit"
    WINDOW_TO = "window-to", "a window of twice what the link holds, {holds} a {stream}"
    LARGER_WINDOW = "larger-window", "a larger window"
    SERVER_WINDOW = "server-window", "a larger HTTP/2 window at the server, which is its own setting"
    SEND_BUFFER = "send-buffer", "a larger send buffer"
    SEND_BUFFER_TO = "send-buffer-to", "a send buffer of twice what the link holds, {holds} a {stream}"
    SERVER_SEND_BUFFER = "server-send-buffer", "a larger send buffer at the server"
    SERVER_OWN_SEND_BUFFER = (
        "server-own-send-buffer",
        "a larger send buffer at the server, which is its own setting",
    )
    TCP_BUFFERS = "tcp-buffers", "larger TCP buffers at the {end} (net.ipv4.tcp_rmem; venturi doctor)"
    TCP_BUFFERS_TO = (
        "tcp-buffers-to",
        "TCP buffers of {larger} at the {end} (net.ipv4.{setting}): twice what the link holds, {holds} a "
        "{stream}",
    )
    STREAM_ACKS = "stream-acks", "acknowledge a {stream} at a time"
    HIGHER_RATE = "higher-rate", "a higher rate"
    CLOSED_LOOP = "closed-loop", "the limit itself, closed loop"
    CHEAPER_COMMITS = "cheaper-commits", "what commits cost, by not waiting for the disk"
    WRITE_AHEAD_LOG = "write-ahead-log", "a log instead of rewritten pages"
    OTHER_STATEMENTS = "other-statements", "{statement} statements, which cost client and server otherwise"
    STAGING_TABLE = "staging-table", "a staging table and one merge a batch"
    STATEMENTS_AHEAD = "statements-ahead", "statements built before the clock starts"
    MESSAGES_AHEAD = "messages-ahead", "messages made before the clock starts"
    WHOLE_ROWS = "whole-rows", "whole rows instead of single values"
    NO_FSYNC = "no-fsync", "what durability costs, by not waiting for the disk"
    NO_LOG = "no-log", "what its log costs, by keeping none"
    MEND = "mend", "fix what made them fail"
    OWN_TRIALS = "own-trials", "a similar transfer by Venturi"
    KEEPS_NONE = (
        "keeps-none",
        "record CPU at both ends, and the path, while it runs: the imported tool keeps none",
    )
    LONGER_TRIAL = "longer-trial", "a longer trial"
    LARGER_TABLE = "larger-table", "a larger table: the server has sent all that it holds of this one"
    SAMPLES = "samples", "with samples"
    SERVERS_HOST = "servers-host", "the same on the server's own host, where its process can be seen"
    MORE_REPEATS = "more-repeats", "more repeats, in case they were disturbed"
    MEASURED = "measured", "measured here: {change}: {gain}"
    FURTHER = "further", "further, as it still rises"
    TELLING_REPEATS = "telling-repeats", "to tell whether it still rises"


class FindingKind(Name):
    """How throughput goes along an axis."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> FindingKind:
        made = str.__new__(cls, name)
        made._value_, made.meaning = name, meaning
        return made

    RISING = ("rising", "The last step surely gains over 5 % a doubling.")
    FLAT = ("flat", "All beyond this point surely gains under 5 %.")
    FLAT_THROUGHOUT = ("flat-throughout", "All beyond the first point surely gains under 5 %.")
    FALLING = ("falling", "The last point surely lies over 5 % below the highest.")
    UNDECIDED = ("undecided", "Whether the last step gains cannot be told.")
    ONE_BATCH = ("one-batch", "A stream fits into one batch, whatever its size, so nothing is compared.")
    BATCHES_NOT_OURS = ("batches-not-ours", "The server decides how large batches are; nothing is compared.")


def table() -> str:
    """The causes as the Markdown table of docs/verdicts.md."""
    head = ["| cause | kind | what it means | numbers | what is changed |", "|---|---|---|---|---|"]

    def code(names: tuple[str, ...]) -> str:
        return ", ".join(f"`{name}`" for name in dict.fromkeys(names))

    rows = [f"| `{c}` | `{c.kind}` | {c.meaning} | {code(c.numbers)} | {code(c.changes)} |" for c in Cause]
    kinds = ["| finding | what it means |", "|---|---|", *(f"| `{k}` | {k.meaning} |" for k in FindingKind)]
    return "\n".join([*head, *rows, "", *kinds])
