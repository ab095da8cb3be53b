"""Bottlenecks made to measure, and what may be said of each.

A case makes one narrow place on purpose and measures through it. What is right is so by construction: the
place was made, and it is tighter than everything else by a multiple, but where the case says otherwise.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bottleneck_support as made
import database_support
import path_support as path
import redis_support
from charrow_support import serving
from flight_support import ServerProcess, peer_command
from store_support import Store
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.types import Verdict
from venturi.servers.throwaway import MariaDb

CPUS = sorted(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Trial:
    """What is typed after `venturi run`."""

    flags: tuple[object, ...]
    within: list[str] = field(default_factory=list)
    """What the command begins with."""
    environment: Mapping[str, str] = field(default_factory=dict)


class Stand:
    """Where a case is set up: a directory, and what ends with it."""

    def __init__(self, place: Path, ends: contextlib.ExitStack) -> None:
        self.place = place
        self.ends = ends

    def enter(self, context: contextlib.AbstractContextManager[Any]) -> Any:
        return self.ends.enter_context(context)

    def process(self, *words: str) -> ServerProcess:
        started = ServerProcess(list(words))
        self.ends.callback(started.stop)
        return started

    def database(self, name: str, **choices: Any) -> database_support.Database:
        started = database_support.start(name, **choices)
        self.ends.callback(started.stop)
        return started


Make = Callable[[Stand], Trial]


@dataclass(frozen=True)
class Said:
    """Verdicts that are right: any of these causes, of that end and stage where they are given."""

    causes: tuple[Cause, ...]
    end: str | None = None
    stage: str | None = None
    also: tuple[Cause, ...] = ()
    """Where two places are equally narrow, what has to be said of the other."""

    def fits(self, found: Mapping[str, Any]) -> bool:
        return (
            found["cause"] in _names(self.causes)
            and self.end in (None, found["end"])
            and self.stage in (None, found["stage"])
            and (not self.also or (found["also"] or {}).get("cause") in _names(self.also))
        )


def _names(causes: tuple[Cause, ...]) -> set[str]:
    return {str(cause) for cause in causes}


@dataclass(frozen=True)
class Case:
    name: str
    truth: str
    """The place in words, a row of the matrix."""
    how: str
    """How it is made."""
    make: Make = field(repr=False)
    right: tuple[Said, ...]
    unclear: tuple[Said, ...] = ()
    """What is true and says too little: counted as unknown."""

    def judged(self, found: Mapping[str, Any]) -> str:
        if any(said.fits(found) for said in self.right):
            return "right"
        if found["kind"] == "unknown" or any(said.fits(found) for said in self.unclear):
            return "unknown"
        return "wrong"


def said(verdict: Verdict) -> dict[str, Any]:
    """What is kept of a verdict."""
    also = verdict.also
    return {
        "kind": verdict.kind,
        "cause": str(verdict.cause),
        "end": verdict.end,
        "stage": verdict.stage,
        "title": verdict.title,
        "sentence": verdict.sentence,
        "confidence": verdict.confidence,
        "others": verdict.numbers.get("others", 0.0),
        "also": also and {"cause": str(also.cause), "end": also.end, "stage": also.stage},
    }


def _of(*causes: Cause, end: str | None = None, stage: str | None = None) -> tuple[Said, ...]:
    return (Said(causes, end, stage),)


def _get(*flags: object) -> tuple[object, ...]:
    return ("--operation", "get", "--rows-per-batch", "16Ki", *flags)


def _put(*flags: object) -> tuple[object, ...]:
    return ("--operation", "put", "--rows-per-batch", "16Ki", *flags)


def _at(address: object, *flags: object) -> tuple[object, ...]:
    return ("--target", f"flight://{address}", *flags)


# ---- Flight: a server of ours


def ours(*flags: object, serve: tuple[str, ...] = (), serve_within: list[str] | None = None,
         within: list[str] | None = None, table: str = "") -> Make:  # fmt: skip
    """A reference server and a client, each started as that says. A put into a table is kept."""

    def make(stand: Stand) -> Trial:
        end = stand.enter(path.server(*serve, within=serve_within))
        return Trial(_at(end.address + table, *flags, "--no-ceilings"), within or [])

    return make


def throttled(end: str, cores: float, *flags: object) -> Make:
    """The process of that end has a CPU quota."""

    def make(stand: Stand) -> Trial:
        group = stand.enter(path.cpu_group(cores))
        inside = {end: group.inside}
        server = stand.enter(path.server(within=inside.get("server")))
        return Trial(_at(server.address, *flags, "--no-ceilings"), inside.get("client", []))

    return make


def both_throttled(
    server_cores: float, client_cores: float, *flags: object, serve: tuple[str, ...] = ()
) -> Make:
    def make(stand: Stand) -> Trial:
        of_server, of_client = (stand.enter(path.cpu_group(n)) for n in (server_cores, client_cores))
        server = stand.enter(path.server(*serve, within=of_server.inside))
        return Trial(_at(server.address, *flags, "--no-ceilings"), of_client.inside)

    return make


def beside(count: int, inner: Make) -> Make:
    """The same, while other processes burn CPUs."""

    def make(stand: Stand) -> Trial:
        trial = inner(stand)
        stand.enter(made.burners(count))
        return trial

    return make


def linked(rate: str | None, *flags: object, sender: str | None = None, serve: tuple[str, ...] = (),
           foreign: str | None = None) -> Make:  # fmt: skip
    """Two hosts and a link between them; `sender`: only what that end sends is held back."""

    def make(stand: Stand) -> Trial:
        two = stand.enter(path.hosts(None if sender else rate))
        if rate is not None and sender:
            two.shape(rate, sender=getattr(two, sender))
        inside, host = two.inside(two.server), path.SERVER_ADDRESS
        if foreign is not None:
            server = stand.process(*inside, *peer_command("--host", host))
            return Trial(_at(f"{server.address}/{foreign}", *flags), two.inside(two.client))
        server = stand.enter(path.server(*serve, within=inside, host=host))
        return Trial(_at(server.address, *flags), two.inside(two.client))

    return make


def far(milliseconds: float, *flags: object, serve: tuple[str, ...] = ()) -> Make:
    """A relay between both ends that delays each byte, each way."""

    def make(stand: Stand) -> Trial:
        server = stand.enter(path.server(*serve, within=path.at_once()))
        port = stand.enter(path.relay(server.port, milliseconds))
        return Trial(_at(f"127.0.0.1:{port}", *flags, "--no-ceilings"), path.at_once())

    return make


def two_servers(*flags: object, slow: str) -> Make:
    """Streams are dealt to two servers, one of which is slow."""

    def make(stand: Stand) -> Trial:
        one = stand.enter(path.server())
        other = stand.enter(path.server("--handicap", slow))
        return Trial(_at(f"{one.address},{other.address}", *flags, "--no-ceilings"))

    return make


# ---- Flight: a server of somebody else's


def foreign(behaviour: str, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        server = stand.process(*peer_command())
        return Trial(_at(f"{server.address}/{behaviour}", *flags, "--no-ceilings"))

    return make


# ---- charrow


def charrow(*flags: object, serve: tuple[str, ...] = ()) -> Make:
    def make(stand: Stand) -> Trial:
        server = stand.enter(serving(*serve))
        return Trial(
            ("--target", f"charrow://{server.address}", "--operation", "get", *flags, "--no-ceilings")
        )

    return make


# ---- databases


def _upsert(url: str, *flags: object, rows: int = 500) -> tuple[object, ...]:
    batch = ("--rows-per-batch", rows)
    return ("--target", url, "--operation", "upsert", "--working-set", "20k", *batch, *flags, "--no-ceilings")


def sqlite(*flags: object, rows: int = 500) -> Make:
    return lambda stand: Trial(_upsert(f"sqlite://{stand.place}/bench.db", *flags, rows=rows))


def sqlite_locked(*flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        file = stand.place / "bench.db"
        stand.enter(made.sqlite_locked(file, held=0.12, free=0.08))
        return Trial(_upsert(f"sqlite://{file}", *flags))

    return make


def sqlite_on_a_slow_disk(bytes_per_second: int, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        disk = stand.enter(made.slow_disk(stand.place, bytes_per_second))
        return Trial(_upsert(f"sqlite://{disk.directory}/bench.db", *flags), disk.group.inside)

    return make


def database(name: str, *flags: object, rows: int = 500, **choices: Any) -> Make:
    def make(stand: Stand) -> Trial:
        server = stand.database(name, **choices)
        return Trial(_upsert(server.url, *server.flags, *flags, rows=rows), environment=server.env)

    return make


def database_throttled(name: str, cores: float, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        server = stand.database(name)
        stand.enter(path.quota(server.pid, cores))
        return Trial(_upsert(server.url, *server.flags, *flags), environment=server.env)

    return make


def database_on_a_slow_disk(name: str, bytes_per_second: int, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        disk = stand.enter(made.slow_disk(stand.place, bytes_per_second))
        server = stand.database(name, data=disk.directory / "data")
        disk.group.take(server.pid)
        return Trial(_upsert(server.url, *server.flags, *flags), environment=server.env)

    return make


def _far_url(stand: Stand, url: str, port: int, milliseconds: float) -> str:
    return url.replace(f":{port}", f":{stand.enter(path.relay(port, milliseconds))}")


def database_far(name: str, milliseconds: float, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        server = stand.database(name)
        url = _far_url(stand, server.url, server.port, milliseconds)
        return Trial(_upsert(url, *server.flags, *flags, rows=20), path.at_once(), server.env)

    return make


def mariadb_table_lock(*flags: object) -> Make:
    """Another connection has the table to itself nine tenths of the time."""

    def make(stand: Stand) -> Trial:
        import pymysql

        server = stand.database("mariadb")
        assert isinstance(server.server, MariaDb)
        place = {"unix_socket": str(server.server.socket), "user": "root", "database": "venturi"}
        connection = stand.enter(contextlib.closing(pymysql.connect(**place, autocommit=True)))
        cursor = connection.cursor()

        def lock() -> None:
            # Between trials there is no table.
            with contextlib.suppress(pymysql.err.ProgrammingError):
                cursor.execute("LOCK TABLES venturi_usage WRITE")

        stand.enter(made.by_turns(lock, lambda: cursor.execute("UNLOCK TABLES"), held=0.045, free=0.002))
        return Trial(_upsert(server.url, *server.flags, *flags), environment=server.env)

    return make


def mariadb_one_row(*flags: object) -> Make:
    """Every batch adds to the same rows, and a trigger sleeps while it holds their locks."""

    def make(stand: Stand) -> Trial:
        server = stand.database("mariadb")
        server.run_as_administrator("CREATE TABLE counted (k BIGINT PRIMARY KEY, hits BIGINT)")
        server.run_as_administrator(
            "CREATE TRIGGER takes_its_time BEFORE INSERT ON counted FOR EACH ROW DO SLEEP(0.0005)"
        )
        rows = stand.place / "counted.csv"
        rows.write_text("k,hits\n" + "".join(f"{k},1\n" for k in range(20)))
        data = ("--data", rows, "--key", "k", "--add", "hits", "--table", "counted", "--no-setup")
        words = ("--target", server.url, "--operation", "upsert", "--rows-per-batch", 20, *data)
        return Trial((*words, *server.flags, *flags, "--no-ceilings"), environment=server.env)

    return make


def postgres_locked(*flags: object) -> Make:
    """As for MariaDB: the table is another connection's nine tenths of the time."""

    def make(stand: Stand) -> Trial:
        import psycopg

        server = stand.database("postgres")
        connection = stand.enter(
            database_support.postgres_connection(server, administrator=True, autocommit=False)
        )

        def lock() -> None:
            try:
                connection.execute("LOCK TABLE venturi_usage IN EXCLUSIVE MODE")
            except psycopg.errors.UndefinedTable:
                connection.rollback()

        stand.enter(made.by_turns(lock, connection.rollback, held=0.045, free=0.002))
        return Trial(_upsert(server.url, *server.flags, *flags), environment=server.env)

    return make


def _redis(stand: Stand) -> Any:
    return stand.enter(redis_support.started())


def redis(*flags: object, rows: int = 500) -> Make:
    return lambda stand: Trial(_upsert(_redis(stand).url, *flags, rows=rows))


def redis_far(milliseconds: float, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        server = _redis(stand)
        url = _far_url(stand, server.url, int(server.address.rsplit(":", 1)[1]), milliseconds)
        return Trial(_upsert(url, *flags, rows=20), path.at_once())

    return make


_SPIN = """
local began = redis.call('TIME')
local function passed() local now = redis.call('TIME')
return (now[1] - began[1]) * 1000000 + now[2] - began[2] end
while passed() < tonumber(ARGV[1]) do end
return 1
"""


def redis_busy(*flags: object) -> Make:
    """Another client's script has the server's one thread nine tenths of the time."""

    def make(stand: Stand) -> Trial:
        server = _redis(stand)
        client = stand.enter(redis_support.Client(server))
        spin = lambda: client.ask("EVAL", _SPIN, "0", "20000")  # noqa: E731
        stand.enter(made.by_turns(spin, lambda: None, held=0.0, free=0.002))
        return Trial(_upsert(server.url, *flags))

    return make


# ---- time series


def _ingest(*target: object) -> tuple[object, ...]:
    return (*target, "--operation", "ingest", "--hosts", 100, "--no-ceilings")


def sink(behaviour: str, microseconds: int, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        server = stand.enter(made.slow_sink(behaviour, microseconds))
        return Trial((*_ingest("--target", f"akumuli://{server.address}"), "--verify", "none", *flags))

    return make


def _stop(store: Store) -> None:
    store.process.terminate()
    store.process.wait(timeout=20)


def store_throttled(cores: float, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        running = Store(stand.place / "points")
        stand.ends.callback(_stop, running)
        stand.enter(path.quota(running.process.pid, cores))
        return Trial((*_ingest(*running.flags), *flags))

    return make


def store_on_a_slow_disk(bytes_per_second: int, *flags: object) -> Make:
    def make(stand: Stand) -> Trial:
        disk = stand.enter(made.slow_disk(stand.place, bytes_per_second))
        running = Store(disk.directory / "points", "--durable", "fsync")
        stand.ends.callback(_stop, running)
        disk.group.take(running.process.pid)
        return Trial((*_ingest(*running.flags), *flags))

    return make


# ---- what is right

SERVER = _of(Cause.SERVER_WAITED_FOR, Cause.SERIAL_SERVER, end="server")
SERIAL = _of(Cause.SERIAL_SERVER, end="server")
A_SERVER = _of(Cause.SERVER_WAITED_FOR, end="server")
LINKS = (Cause.RAW_TCP_REACHED, Cause.INTERFACE_FULL, Cause.SOCKET_BLOCKED)
LINK = _of(*LINKS)
OR_PATH = _of(Cause.SERVER_OR_PATH)
DISK = _of(Cause.DISK_BUSY, Cause.DISK_CEILING)
OTHERS = _of(Cause.CORES_OF_OTHERS)
IN_FLIGHT = _of(Cause.LITTLE_IN_FLIGHT)


def _stage(end: str, stage: str) -> tuple[Said, ...]:
    return _of(Cause.STAGE_BUSY, end=end, stage=stage)


CASES: tuple[Case, ...] = (
    # Servers of somebody else's
    Case("foreign-sleeps-get", "server", "pyarrow, sleeps 3 ms a batch",
         foreign("sleeps/3000", "--operation", "get"), SERVER),
    Case("foreign-sleeps-get-4", "server", "the same, 4 streams",
         foreign("sleeps/3000", "--operation", "get", "--streams", 4), SERVER),
    Case("foreign-sleeps-put", "server", "pyarrow, sleeps 3 ms a batch",
         foreign("sleeps/3000", *_put()), SERVER),
    Case("foreign-burns-get", "server", "pyarrow, burns 1 ms a batch",
         foreign("burns/1000", "--operation", "get"), SERVER),
    Case("foreign-burns-put", "server", "pyarrow, burns 1 ms a batch",
         foreign("burns/1000", *_put()), SERVER),
    Case("foreign-serial-get", "server: one core", "pyarrow, burns 1 ms a batch; 1, 2, 4 streams",
         foreign("burns/1000", "--operation", "get", "--streams", "1,2,4"), SERIAL, A_SERVER),
    Case("foreign-serial-put", "server: one core", "pyarrow, burns 1 ms a batch; 1, 2, 4 streams",
         foreign("burns/1000", *_put("--streams", "1,2,4")), SERIAL, A_SERVER),
    Case("foreign-link-get", "link", "pyarrow behind a link of 200 Mbit/s",
         linked("200mbit", "--operation", "get", "--streams", 2, foreign="sleeps/0"), LINK, OR_PATH),
    Case("foreign-link-put", "link", "pyarrow behind a link of 200 Mbit/s",
         linked("200mbit", *_put("--streams", 2), foreign="sleeps/0"), LINK),
    Case("foreign-sleeps-far", "server", "pyarrow, sleeps 3 ms a batch, on another host",
         linked(None, "--operation", "get", "--streams", 2, foreign="sleeps/3000"), SERVER, OR_PATH),
    Case("sink-sleeps", "server", "a store that sleeps 3 ms each 64 KiB",
         sink("sleeps", 3000, "--streams", 2), SERVER),
    Case("sink-burns", "server", "a store that burns 2 ms each 64 KiB",
         sink("burns", 2000, "--streams", 1), SERVER),
    # One stage
    Case("encode-of-the-server", "server: encode", "--handicap encode=2ms",
         ours(*_get(), serve=("--handicap", "encode=2ms")), _stage("server", "encode")),
    Case("decode-of-the-server", "server: decode", "--handicap decode=2ms",
         ours(*_put(), serve=("--handicap", "decode=2ms")), _stage("server", "decode")),
    Case("apply-of-the-server", "server: apply", "--handicap apply=2ms",
         ours(*_put(), serve=("--handicap", "apply=2ms"), table="/kept"), _stage("server", "apply")),
    Case("zstd-get", "server: encode", "zstd:19",
         ours(*_get("--compression", "zstd:19")), _stage("server", "encode")),
    Case("zstd-put", "client: encode", "zstd:19",
         ours(*_put("--compression", "zstd:19")), _stage("client", "encode")),
    Case("encoders", "server: encoders", "charrow, one encoder, --handicap encode=2ms",
         charrow("--data", "records", "--encoders", 1, "--streams", 2, serve=("--handicap", "encode=2ms")),
         _of(Cause.POOL_BUSY, end="server")),
    Case("engine-of-sqlite", "client: apply", "SQLite, one stream, nothing synced",
         sqlite("--synchronous", "off"),
         _of(Cause.ENGINE_BUSY, Cause.STAGE_BUSY, end="client", stage="apply")),
    Case("writer-of-sqlite", "client: apply, one writer", "SQLite, four streams, nothing synced",
         sqlite("--synchronous", "off", "--streams", 4),
         _of(Cause.ENGINE_ONE_WRITER, end="client"),
         _of(Cause.ENGINE_BUSY, Cause.ENGINE_WAITS, Cause.STAGE_BUSY, end="client", stage="apply")),
    Case("lock-of-sqlite", "client: apply, waiting", "SQLite, another connection locks it 60 % of the time",
         sqlite_locked("--synchronous", "off"), _of(Cause.ENGINE_WAITS, end="client")),
    # The load generator
    Case("decode-of-the-client", "load generator: decode", "--handicap decode=2ms",
         ours(*_get("--handicap", "decode=2ms")), _of(Cause.OWN_WORK, end="client", stage="decode")),
    Case("encode-of-the-client", "load generator: encode", "--handicap encode=2ms",
         ours(*_put("--handicap", "encode=2ms")), _of(Cause.OWN_WORK, end="client", stage="encode")),
    Case("generate-of-the-client", "load generator: generate", "--handicap generate=2ms",
         ours(*_put("--handicap", "generate=2ms")), _of(Cause.OWN_WORK, end="client", stage="generate")),
    Case("decoders", "load generator: decoders", "charrow, one decoder, --handicap decode=2ms",
         charrow("--data", "records", "--decoders", 1, "--streams", 2, "--handicap", "decode=2ms"),
         _of(Cause.POOL_BUSY, Cause.POOL_OWN_WORK, Cause.OWN_WORK, end="client")),
    Case("too-few-threads", "load generator: threads", "4 streams on 1 thread, zstd:19",
         ours(*_put("--compression", "zstd:19", "--streams", 4, "--threads", 1)),
         _of(Cause.TOO_FEW_THREADS, end="client")),
    # CPUs
    Case("quota-of-the-server-get", "server: quota", "a control group of 0.2 cores",
         throttled("server", 0.2, *_get()), _of(Cause.CPU_QUOTA_UNDER_ONE_CORE, end="server")),
    Case("quota-of-the-server-put", "server: quota", "a control group of 0.2 cores",
         throttled("server", 0.2, *_put()), _of(Cause.CPU_QUOTA_UNDER_ONE_CORE, end="server")),
    Case("quota-of-the-client-get", "client: quota", "a control group of 0.2 cores",
         throttled("client", 0.2, *_get()), _of(Cause.CPU_QUOTA_UNDER_ONE_CORE, end="client")),
    Case("quota-of-the-client-put", "client: quota", "a control group of 0.2 cores",
         throttled("client", 0.2, *_put()), _of(Cause.CPU_QUOTA_UNDER_ONE_CORE, end="client")),
    Case("quota-of-one-core", "server: quota", "a control group of 1 core, zstd:19 on 4 streams",
         throttled("server", 1.0, *_get("--compression", "zstd:19", "--streams", 4)),
         _of(Cause.CPU_QUOTA, end="server")),
    Case("quota-of-mariadb", "server: quota", "MariaDB in a control group of 0.2 cores",
         database_throttled("mariadb", 0.2, "--streams", 2),
         _of(Cause.CPU_QUOTA_UNDER_ONE_CORE, end="server"), A_SERVER),
    Case("quota-of-the-store", "server: quota", "the store in a control group of 0.2 cores",
         store_throttled(0.2, "--streams", 2), _of(Cause.CPU_QUOTA_UNDER_ONE_CORE, end="server"), A_SERVER),
    Case("one-cpu-for-both", "CPUs", "both ends on one CPU, taskset",
         ours(*_get("--streams", 2), serve_within=made.on_cpus(CPUS[0]), within=made.on_cpus(CPUS[0])),
         _of(Cause.CORES_FULL, Cause.ONE_CORE_FOR_BOTH)),
    Case("pinned-client", "CPUs of the client", "zstd:19 on 4 streams, --pin 0",
         ours(*_put("--compression", "zstd:19", "--streams", 4, "--pin", "0")),
         _of(Cause.CORES_FULL, end="client"), _stage("client", "encode")),
    Case("cores-get", "CPUs", "4 streams a CPU",
         ours(*_get("--streams", 4 * len(CPUS))), _of(Cause.CORES_FULL)),
    Case("cores-put", "CPUs", "4 streams a CPU",
         ours(*_put("--streams", 4 * len(CPUS))), _of(Cause.CORES_FULL)),
    Case("others-get", "CPUs that others hold", "4 burning processes a CPU",
         beside(4 * len(CPUS), ours(*_get())), OTHERS),
    Case("others-put", "CPUs that others hold", "4 burning processes a CPU",
         beside(4 * len(CPUS), ours(*_put())), OTHERS),
    # The path
    Case("link-get", "link", "1 Gbit/s, both ways", linked("1gbit", *_get("--streams", 2)), LINK),
    Case("link-put", "link", "1 Gbit/s, both ways", linked("1gbit", *_put("--streams", 2)), LINK),
    Case("link-get-one-way", "link", "300 Mbit/s, only what the server sends",
         linked("300mbit", *_get("--streams", 2), sender="server"), LINK),
    Case("link-put-one-way", "link", "300 Mbit/s, only what the client sends",
         linked("300mbit", *_put("--streams", 2), sender="client"), LINK),
    Case("link-unprobed", "link", "1 Gbit/s, raw TCP not measured",
         linked("1gbit", *_get("--streams", 2, "--no-ceilings")), LINK),
    Case("window-get", "flow control: window", "5 ms each way, a window of 64 KiB at the client",
         far(5, *_get("--window", "64Ki")), _of(Cause.HTTP2_WINDOW)),
    Case("window-put", "flow control: window", "5 ms each way, a window of 64 KiB at the server",
         far(5, *_put(), serve=("--window", "64Ki")), _of(Cause.HTTP2_WINDOW)),
    Case("acknowledgements", "flow control: acknowledgements", "5 ms each way, each batch acknowledged",
         far(5, "--operation", "put", "--rows-per-batch", 1000, "--ack", "batch"),
         _of(Cause.ACKNOWLEDGEMENTS)),
    Case("mariadb-far", "too little in flight", "MariaDB, 5 ms each way",
         database_far("mariadb", 5), IN_FLIGHT),
    Case("postgres-far", "too little in flight", "PostgreSQL, 5 ms each way",
         database_far("postgres", 5), IN_FLIGHT),
    Case("redis-far", "too little in flight", "Redis, 5 ms each way", redis_far(5), IN_FLIGHT),
    # Disks
    Case("disk-of-sqlite", "disk", "SQLite on a disk of 4 MB/s, each commit synced",
         sqlite_on_a_slow_disk(4_000_000, "--synchronous", "full"),
         DISK, _of(Cause.ENGINE_WAITS, end="client")),
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
         mariadb_one_row("--streams", "1,2,4"), _of(Cause.SERVER_LIMIT, end="server"), A_SERVER),
    Case("redis-busy", "server", "another client's script has Redis's thread 90 % of the time",
         redis_busy(), A_SERVER),
    Case("redis-thread", "server", "Redis, 4 connections", redis("--streams", 4), A_SERVER),
    # The schedule
    Case("rate-get", "schedule", "--rate 100", ours(*_get("--rate", 100)), _of(Cause.SCHEDULE_KEPT)),
    Case("rate-put", "schedule", "--rate 100", ours(*_put("--rate", 100)), _of(Cause.SCHEDULE_KEPT)),
    Case("rate-upsert", "schedule", "SQLite, --rate 20", sqlite("--rate", 20), _of(Cause.SCHEDULE_KEPT)),
    # Two places, a tenth apart
    Case("encode-and-link", "two places", "encode and a link of 200 Mbit/s, 22 ms a batch each",
         linked("200mbit", *_get("--streams", 1, "--duration", "2s"), serve=("--handicap", "encode=21ms")),
         (Said((Cause.STAGE_BUSY,), "server", also=LINKS), Said(LINKS, also=(Cause.STAGE_BUSY,))),
         (*LINK, *_stage("server", "encode"))),
    Case("two-quotas", "two places", "2 ms a batch at both ends, of 0.2 and 0.22 cores",
         both_throttled(0.2, 0.22, *_get("--handicap", "decode=2ms"), serve=("--handicap", "encode=2ms")),
         (Said((Cause.CPU_QUOTA_UNDER_ONE_CORE,), also=(Cause.CPU_QUOTA_UNDER_ONE_CORE,)),),
         _of(Cause.CPU_QUOTA_UNDER_ONE_CORE, end="server")),
    # One of several
    Case("straggler", "server: encode", "two servers, one with --handicap encode=5ms, as many rows each",
         two_servers(*_get("--streams", 2, "--rows-per-stream", "2M"), slow="encode=5ms"),
         _stage("server", "encode")),
)  # fmt: skip
