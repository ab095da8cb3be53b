"""Bottlenecks made on purpose, and which verdicts on each are right.

A case makes one narrow place and measures through it. What is right is so by construction: the place is
tighter than everything else by a multiple, unless the case says otherwise.
"""

from __future__ import annotations

import os

from bench.verdicts import bottleneck as made
from bench.verdicts.places import (
    beside,
    both_throttled,
    charrow,
    database_far,
    database_here,
    database_on_a_slow_disk,
    database_throttled,
    far,
    foreign,
    get,
    linked,
    mariadb_one_row,
    mariadb_table_lock,
    ours,
    postgres_locked,
    put,
    redis,
    redis_busy,
    redis_far,
    relayed,
    sink,
    sqlite,
    sqlite_locked,
    sqlite_on_a_slow_disk,
    store_on_a_slow_disk,
    store_throttled,
    throttled,
    two_servers,
)
from bench.verdicts.stand import Case, Verdicts

CPUS = sorted(os.sched_getaffinity(0))


def _of(*causes: str, end: str | None = None, stage: str | None = None) -> tuple[Verdicts, ...]:
    return (Verdicts(causes, end, stage),)


SERVER = _of("server-waited-for", "server-limit", end="server")
SERIAL = _of("server-limit", end="server")
WAITS = _of("server-waits", end="server")
A_SERVER = _of("server-waited-for", end="server")
LINKS = ("path-full",)
LINK = _of(*LINKS)
OR_PATH = _of("server-or-path")
DISK = _of("disk-busy")
OTHERS = _of("cores-of-others")
IN_FLIGHT = _of("little-in-flight")
RELAY = _of("link-relay")
CROWD = _of("cores-full", "server-waited-for", "server-limit")


def _stage(end: str, stage: str) -> tuple[Verdicts, ...]:
    return _of("stage-busy", end=end, stage=stage)


CASES: tuple[Case, ...] = (
    # Servers of somebody else's
    Case("foreign-sleeps-get", "server", "pyarrow, sleeps 3 ms a batch",
         foreign("sleeps/3000", "--operation", "get"), WAITS),
    Case("foreign-sleeps-get-4", "server", "the same, 4 streams",
         foreign("sleeps/3000", "--operation", "get", "--streams", 4), WAITS),
    Case("foreign-sleeps-put", "server", "pyarrow, sleeps 3 ms a batch",
         foreign("sleeps/3000", *put()), WAITS),
    Case("foreign-burns-get", "server", "pyarrow, burns 1 ms a batch",
         foreign("burns/1000", "--operation", "get"), SERVER),
    Case("foreign-burns-put", "server", "pyarrow, burns 1 ms a batch",
         foreign("burns/1000", *put()), SERVER),
    Case("foreign-serial-get", "server: one core", "pyarrow, burns 1 ms a batch; 1, 2, 4 streams",
         foreign("burns/1000", "--operation", "get", "--streams", "1,2,4"), SERIAL, A_SERVER),
    Case("foreign-serial-put", "server: one core", "pyarrow, burns 1 ms a batch; 1, 2, 4 streams",
         foreign("burns/1000", *put("--streams", "1,2,4")), SERIAL, A_SERVER),
    Case("foreign-link-get", "link", "pyarrow behind a link of 200 Mbit/s",
         linked("200mbit", "--operation", "get", "--streams", 2, foreign="sleeps/0"), LINK, OR_PATH),
    Case("foreign-link-put", "link", "pyarrow behind a link of 200 Mbit/s",
         linked("200mbit", *put("--streams", 2), foreign="sleeps/0"), LINK),
    Case("foreign-sleeps-far", "server", "pyarrow, sleeps 3 ms a batch, on another host",
         linked(None, "--operation", "get", "--streams", 2, foreign="sleeps/3000"), SERVER, OR_PATH),
    Case("sink-sleeps", "server", "a store that sleeps 3 ms each 64 KiB",
         sink("sleeps", 3000, "--streams", 2), WAITS),
    Case("sink-burns", "server", "a store that burns 2 ms each 64 KiB",
         sink("burns", 2000, "--streams", 1), SERVER),
    # One stage
    Case("encode-of-the-server", "server: encode", "--handicap encode=2ms",
         ours(*get(), serve=("--handicap", "encode=2ms")), _stage("server", "encode")),
    Case("decode-of-the-server", "server: decode", "--handicap decode=2ms",
         ours(*put(), serve=("--handicap", "decode=2ms")), _stage("server", "decode")),
    Case("apply-of-the-server", "server: apply", "--handicap apply=2ms",
         ours(*put(), serve=("--handicap", "apply=2ms"), table="/kept"), _stage("server", "apply")),
    Case("zstd-get", "server: encode", "zstd:19",
         ours(*get("--compression", "zstd:19")), _stage("server", "encode")),
    Case("zstd-put", "client: encode", "zstd:19",
         ours(*put("--compression", "zstd:19")), _stage("client", "encode")),
    Case("encoders", "server: encoders", "charrow, one encoder, --handicap encode=2ms",
         charrow("--data", "records", "--encoders", 1, "--streams", 2, serve=("--handicap", "encode=2ms")),
         _of("pool-busy", end="server")),
    Case("engine-of-sqlite", "client: apply", "SQLite, one stream, nothing synced",
         sqlite("--synchronous", "off"),
         _of("calls-busy", "stage-busy", end="client", stage="apply")),
    Case("writer-of-sqlite", "client: apply, one writer", "SQLite, four streams, nothing synced",
         sqlite("--synchronous", "off", "--streams", 4),
         _of("calls-take-turns", end="client"),
         _of("calls-busy", "calls-wait", "stage-busy", end="client", stage="apply")),
    Case("lock-of-sqlite", "client: apply, waiting", "SQLite, another connection locks it 60 % of the time",
         sqlite_locked("--synchronous", "off"), _of("calls-wait", end="client")),
    # The load generator
    Case("decode-of-the-client", "load generator: decode", "--handicap decode=2ms",
         ours(*get("--handicap", "decode=2ms")), _of("own-work", end="client", stage="decode")),
    Case("encode-of-the-client", "load generator: encode", "--handicap encode=2ms",
         ours(*put("--handicap", "encode=2ms")), _of("own-work", end="client", stage="encode")),
    Case("generate-of-the-client", "load generator: generate", "--handicap generate=2ms",
         ours(*put("--handicap", "generate=2ms")), _of("own-work", end="client", stage="generate")),
    Case("decoders", "load generator: decoders", "charrow, one decoder, --handicap decode=2ms",
         charrow("--data", "records", "--decoders", 1, "--streams", 2, "--handicap", "decode=2ms"),
         _of("pool-busy", "own-work", end="client")),
    Case("too-few-threads", "load generator: threads", "4 streams on 1 thread, zstd:19",
         ours(*put("--compression", "zstd:19", "--streams", 4, "--threads", 1)),
         _of("too-few-threads", end="client")),
    # CPUs
    Case("quota-of-the-server-get", "server: quota", "a control group of 0.2 cores",
         throttled("server", 0.2, *get()), _of("cpu-quota", end="server")),
    Case("quota-of-the-server-put", "server: quota", "a control group of 0.2 cores",
         throttled("server", 0.2, *put()), _of("cpu-quota", end="server")),
    Case("quota-of-the-client-get", "client: quota", "a control group of 0.2 cores",
         throttled("client", 0.2, *get()), _of("cpu-quota", end="client")),
    Case("quota-of-the-client-put", "client: quota", "a control group of 0.2 cores",
         throttled("client", 0.2, *put()), _of("cpu-quota", end="client")),
    Case("quota-of-one-core", "server: quota", "a control group of 1 core, zstd:19 on 4 streams",
         throttled("server", 1.0, *get("--compression", "zstd:19", "--streams", 4)),
         _of("cpu-quota", end="server")),
    Case("quota-of-mariadb", "server: quota", "MariaDB in a control group of 0.2 cores",
         database_throttled("mariadb", 0.2, "--streams", 2),
         _of("cpu-quota", end="server"), A_SERVER),
    Case("quota-of-the-store", "server: quota", "the store in a control group of 0.2 cores",
         store_throttled(0.2, "--streams", 2), _of("cpu-quota", end="server"), A_SERVER),
    Case("one-cpu-for-both", "CPUs", "both ends on one CPU, taskset",
         ours(*get("--streams", 2), serve_within=made.on_cpus(CPUS[0]), within=made.on_cpus(CPUS[0])),
         _of("cores-full")),
    Case("pinned-client", "CPUs of the client", "zstd:19 on 4 streams, --pin 0",
         ours(*put("--compression", "zstd:19", "--streams", 4, "--pin", "0")),
         _of("cores-full", end="client"), _stage("client", "encode")),
    Case("cores-get", "CPUs", "4 streams a CPU",
         ours(*get("--streams", 4 * len(CPUS))), _of("cores-full")),
    Case("cores-put", "CPUs", "4 streams a CPU",
         ours(*put("--streams", 4 * len(CPUS))), _of("cores-full")),
    Case("others-get", "CPUs that others hold", "4 burning processes a CPU",
         beside(4 * len(CPUS), ours(*get())), OTHERS),
    Case("others-put", "CPUs that others hold", "4 burning processes a CPU",
         beside(4 * len(CPUS), ours(*put())), OTHERS),
    # Venturi's own helpers
    Case("relay-get", "the link's relay", "--link 1ms, no rate",
         relayed("1ms", *get("--streams", 2)), RELAY, _of("cores-full")),
    Case("relay-put", "the link's relay", "--link 1ms, no rate",
         relayed("1ms", *put("--streams", 2)), RELAY, _of("cores-full")),
    Case("relay-small-packets", "the link's relay", "--link '1ms mtu 576', no rate",
         relayed("1ms mtu 576", *get("--streams", 2)), RELAY, _of("cores-full")),
    Case("relay-idle", "server: encode", "--link 1ms, zstd:19",
         relayed("1ms", *get("--compression", "zstd:19")), _stage("server", "encode")),
    # Many connections on few CPUs. The working set has more batches than they have connections: else several
    # connections send one batch, and wait for its rows for half a minute.
    Case("mariadb-crowd", "CPUs, or the server on them", "MariaDB, 60 connections a CPU",
         database_here("mariadb", "--streams", 60 * len(CPUS), rows=50), CROWD),
    Case("mariadb-falls", "CPUs, or the server on them", "MariaDB, 8 and 60 connections a CPU",
         database_here("mariadb", "--streams", f"{8 * len(CPUS)},{60 * len(CPUS)}", rows=50), CROWD),
    Case("postgres-crowd", "CPUs, or the server on them", "PostgreSQL, 20 connections a CPU",
         database_here("postgres", "--streams", 20 * len(CPUS)), CROWD),
    # The path
    Case("link-get", "link", "1 Gbit/s, both ways", linked("1gbit", *get("--streams", 2)), LINK),
    Case("link-put", "link", "1 Gbit/s, both ways", linked("1gbit", *put("--streams", 2)), LINK),
    Case("link-get-one-way", "link", "300 Mbit/s, only what the server sends",
         linked("300mbit", *get("--streams", 2), sender="server"), LINK),
    Case("link-put-one-way", "link", "300 Mbit/s, only what the client sends",
         linked("300mbit", *put("--streams", 2), sender="client"), LINK),
    Case("link-unprobed", "link", "1 Gbit/s, raw TCP not measured",
         linked("1gbit", *get("--streams", 2, "--no-ceilings")), LINK),
    Case("window-get", "flow control: window", "5 ms each way, a window of 64 KiB at the client",
         far(5, *get("--window", "64Ki")), _of("http2-window")),
    Case("window-put", "flow control: window", "5 ms each way, a window of 64 KiB at the server",
         far(5, *put(), serve=("--window", "64Ki")), _of("http2-window")),
    Case("acknowledgements", "flow control: acknowledgements", "5 ms each way, each batch acknowledged",
         far(5, "--operation", "put", "--rows-per-batch", 1000, "--ack", "batch"),
         _of("acknowledgements")),
    Case("mariadb-far", "too little in flight", "MariaDB, 5 ms each way",
         database_far("mariadb", 5), IN_FLIGHT),
    Case("postgres-far", "too little in flight", "PostgreSQL, 5 ms each way",
         database_far("postgres", 5), IN_FLIGHT),
    Case("redis-far", "too little in flight", "Redis, 5 ms each way", redis_far(5), IN_FLIGHT),
    # Disks
    Case("disk-of-sqlite", "disk", "SQLite on a disk of 4 MB/s, each commit synced",
         sqlite_on_a_slow_disk(4_000_000, "--synchronous", "full"),
         DISK, _of("calls-wait", end="client")),
    Case("disk-of-mariadb", "disk", "MariaDB on a disk of 4 MB/s",
         database_on_a_slow_disk("mariadb", 4_000_000), DISK, (*IN_FLIGHT, *A_SERVER)),
    Case("disk-of-the-store", "disk", "the store on a disk of 20 MB/s, its log synced",
         store_on_a_slow_disk(20_000_000, "--streams", 2), DISK, A_SERVER),
    # Within a database
    Case("lock-of-mariadb", "too little in flight", "MariaDB, another connection locks the table 95 %",
         mariadb_table_lock("--streams", 1), IN_FLIGHT, A_SERVER),
    Case("lock-of-postgres", "too little in flight", "PostgreSQL, the same", postgres_locked("--streams", 1),
         IN_FLIGHT, A_SERVER),
    Case("rows-of-mariadb", "server: a limit within it", "1, 2, 4 connections, the same rows, a slow trigger",
         mariadb_one_row("--streams", "1,2,4"), _of("server-limit", end="server"), A_SERVER),
    Case("redis-busy", "server", "another client's script has Redis's thread 90 % of the time",
         redis_busy(), A_SERVER),
    Case("redis-thread", "server", "Redis, 4 connections", redis("--streams", 4), A_SERVER),
    # The schedule
    Case("rate-get", "schedule", "--rate 100", ours(*get("--rate", 100)), _of("schedule-kept")),
    Case("rate-put", "schedule", "--rate 100", ours(*put("--rate", 100)), _of("schedule-kept")),
    Case("rate-upsert", "schedule", "SQLite, --rate 20", sqlite("--rate", 20), _of("schedule-kept")),
    # Two places, a tenth apart
    Case("encode-and-link", "two places", "encode and a link of 200 Mbit/s, 22 ms a batch each",
         linked("200mbit", *get("--streams", 1, "--duration", "2s"), serve=("--handicap", "encode=21ms")),
         (Verdicts(("stage-busy",), "server", also=LINKS), Verdicts(LINKS, also=("stage-busy",))),
         (*LINK, *_stage("server", "encode"))),
    Case("two-quotas", "two places", "2 ms a batch at both ends, of 0.2 and 0.22 cores",
         both_throttled(0.2, 0.22, *get("--handicap", "decode=2ms"), serve=("--handicap", "encode=2ms")),
         (Verdicts(("cpu-quota",), also=("cpu-quota",)),),
         _of("cpu-quota", end="server")),
    # One of several
    Case("straggler", "server: encode", "two servers, one with --handicap encode=5ms, as many rows each",
         two_servers(*get("--streams", 2, "--rows-per-stream", "2M"), slow="encode=5ms"),
         _stage("server", "encode")),
)  # fmt: skip
