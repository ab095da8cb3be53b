"""Bottlenecks made on purpose: servers of Flight and charrow, databases, stores of time series."""

from __future__ import annotations

import contextlib
from typing import Any

from bench.verdicts import bottleneck as made
from bench.verdicts.stand import Make, Stand, Trial, making
from support import database
from support import redis as redis_server
from support.charrow import serving
from support.flight import peer_command
from support.hosts import hosts
from support.store import Store
from venturi.servers.throwaway import MariaDb


def get(*flags: object) -> tuple[object, ...]:
    return ("--operation", "get", "--rows-per-batch", "16Ki", *flags)


def put(*flags: object) -> tuple[object, ...]:
    return ("--operation", "put", "--rows-per-batch", "16Ki", *flags)


def at(address: object, *flags: object) -> tuple[object, ...]:
    return ("--target", f"flight://{address}", *flags)


@making
def ours(stand: Stand, *flags: object, serve: tuple[str, ...] = (), serve_within: list[str] | None = None,
         within: list[str] | None = None, table: str = "") -> Trial:  # fmt: skip
    """A reference server and a client, each started as that says. A put into a table is kept."""
    end = stand.server(*serve, within=serve_within)
    return Trial(at(end.address + table, *flags, "--no-ceilings"), within or [])


@making
def relayed(stand: Stand, link: str, *flags: object) -> Trial:
    """Both ends beside the relay of a link that is asked for no rate."""
    return Trial(("--target", "flight://local", "--link", link, *flags, "--no-ceilings"))


@making
def throttled(stand: Stand, end: str, cores: float, *flags: object) -> Trial:
    """The process of that end has a CPU quota."""
    group = stand.enter(made.cpu_group(cores))
    inside = {end: group.inside}
    server = stand.server(within=inside.get("server"))
    return Trial(at(server.address, *flags, "--no-ceilings"), inside.get("client", []))


@making
def both_throttled(
    stand: Stand, server_cores: float, client_cores: float, *flags: object, serve: tuple[str, ...] = ()
) -> Trial:
    of_server, of_client = (stand.enter(made.cpu_group(n)) for n in (server_cores, client_cores))
    server = stand.server(*serve, within=of_server.inside)
    return Trial(at(server.address, *flags, "--no-ceilings"), of_client.inside)


@making
def beside(stand: Stand, count: int, inner: Make) -> Trial:
    """The same, while other processes burn CPUs."""
    trial = inner(stand)
    stand.enter(made.burners(count))
    return trial


@making
def linked(
    stand: Stand,
    rate: str | None,
    *flags: object,
    sender: str | None = None,
    serve: tuple[str, ...] = (),
    foreign: str | None = None,
) -> Trial:
    """Two hosts and a link between them; `sender`: only what that end sends is held back."""
    client, host = stand.enter(hosts(2))
    if rate is not None:
        (client if sender == "client" else host).shape(rate, sent_only=sender is not None)
    if foreign is not None:
        server = stand.process(*host.inside(), *peer_command("--host", host.address))
        return Trial(at(f"{server.address}/{foreign}", *flags), client.inside())
    server = stand.enter(host.server(*serve))
    return Trial(at(server.address, *flags), client.inside())


@making
def far(stand: Stand, milliseconds: float, *flags: object, serve: tuple[str, ...] = ()) -> Trial:
    """A relay between both ends that delays each byte, each way."""
    server = stand.server(*serve, within=made.at_once())
    port = stand.enter(made.relay(server.port, milliseconds))
    return Trial(at(f"127.0.0.1:{port}", *flags, "--no-ceilings"), made.at_once())


@making
def two_servers(stand: Stand, *flags: object, slow: str) -> Trial:
    """Streams are dealt to two servers, one of which is slow."""
    one = stand.server()
    other = stand.server("--handicap", slow)
    return Trial(at(f"{one.address},{other.address}", *flags, "--no-ceilings"))


# ---- Flight: a server of somebody else's


@making
def foreign(stand: Stand, behaviour: str, *flags: object) -> Trial:
    server = stand.process(*peer_command())
    return Trial(at(f"{server.address}/{behaviour}", *flags, "--no-ceilings"))


# ---- charrow


@making
def charrow(stand: Stand, *flags: object, serve: tuple[str, ...] = ()) -> Trial:
    server = stand.enter(serving(*serve))
    return Trial(("--target", f"charrow://{server.address}", "--operation", "get", *flags, "--no-ceilings"))


# ---- databases


def _upsert(url: str, *flags: object, rows: int = 500) -> tuple[object, ...]:
    batch = ("--rows-per-batch", rows)
    return ("--target", url, "--operation", "upsert", "--working-set", "20k", *batch, *flags, "--no-ceilings")


@making
def sqlite(stand: Stand, *flags: object, rows: int = 500) -> Trial:
    return Trial(_upsert(f"sqlite://{stand.place}/bench.db", *flags, rows=rows))


@making
def sqlite_locked(stand: Stand, *flags: object) -> Trial:
    file = stand.place / "bench.db"
    stand.enter(made.sqlite_locked(file, held=0.12, free=0.08))
    return Trial(_upsert(f"sqlite://{file}", *flags))


@making
def sqlite_on_a_slow_disk(stand: Stand, bytes_per_second: int, *flags: object) -> Trial:
    disk = stand.enter(made.slow_disk(stand.place, bytes_per_second))
    return Trial(_upsert(f"sqlite://{disk.directory}/bench.db", *flags), disk.group.inside)


@making
def database_here(stand: Stand, name: str, *flags: object, rows: int = 500) -> Trial:
    server = stand.start(name)
    return Trial(_upsert(server.url, *server.flags, *flags, rows=rows), environment=server.env)


@making
def database_throttled(stand: Stand, name: str, cores: float, *flags: object) -> Trial:
    server = stand.start(name)
    stand.enter(made.quota(server.pid, cores))
    return Trial(_upsert(server.url, *server.flags, *flags), environment=server.env)


@making
def database_on_a_slow_disk(stand: Stand, name: str, bytes_per_second: int, *flags: object) -> Trial:
    disk = stand.enter(made.slow_disk(stand.place, bytes_per_second))
    server = stand.start(name, data=disk.directory / "data")
    disk.group.take(server.pid)
    return Trial(_upsert(server.url, *server.flags, *flags), environment=server.env)


def _far_url(stand: Stand, url: str, port: int, milliseconds: float) -> str:
    return url.replace(f":{port}", f":{stand.enter(made.relay(port, milliseconds))}")


@making
def database_far(stand: Stand, name: str, milliseconds: float, *flags: object) -> Trial:
    server = stand.start(name)
    url = _far_url(stand, server.url, server.port, milliseconds)
    return Trial(_upsert(url, *server.flags, *flags, rows=20), made.at_once(), server.env)


@making
def mariadb_table_lock(stand: Stand, *flags: object) -> Trial:
    """Another connection has the table to itself nine tenths of the time."""

    import pymysql

    server = stand.start("mariadb")
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


@making
def mariadb_one_row(stand: Stand, *flags: object) -> Trial:
    """Every batch adds to the same rows, and a trigger sleeps while it holds their locks."""
    server = stand.start("mariadb")
    server.run_as_administrator("CREATE TABLE counted (k BIGINT PRIMARY KEY, hits BIGINT)")
    server.run_as_administrator(
        "CREATE TRIGGER takes_its_time BEFORE INSERT ON counted FOR EACH ROW DO SLEEP(0.0005)"
    )
    rows = stand.place / "counted.csv"
    rows.write_text("k,hits\n" + "".join(f"{k},1\n" for k in range(20)))
    data = ("--data", rows, "--key", "k", "--add", "hits", "--table", "counted", "--no-setup")
    words = ("--target", server.url, "--operation", "upsert", "--rows-per-batch", 20, *data)
    return Trial((*words, *server.flags, *flags, "--no-ceilings"), environment=server.env)


@making
def postgres_locked(stand: Stand, *flags: object) -> Trial:
    """As for MariaDB: the table is another connection's nine tenths of the time."""

    import psycopg

    server = stand.start("postgres")
    connection = stand.enter(database.postgres_connection(server, administrator=True, autocommit=False))

    def lock() -> None:
        try:
            connection.execute("LOCK TABLE venturi_usage IN EXCLUSIVE MODE")
        except psycopg.errors.UndefinedTable:
            connection.rollback()

    stand.enter(made.by_turns(lock, connection.rollback, held=0.045, free=0.002))
    return Trial(_upsert(server.url, *server.flags, *flags), environment=server.env)


def _redis(stand: Stand) -> Any:
    return stand.enter(redis_server.started())


@making
def redis(stand: Stand, *flags: object, rows: int = 500) -> Trial:
    return Trial(_upsert(_redis(stand).url, *flags, rows=rows))


@making
def redis_far(stand: Stand, milliseconds: float, *flags: object) -> Trial:
    server = _redis(stand)
    url = _far_url(stand, server.url, int(server.address.rsplit(":", 1)[1]), milliseconds)
    return Trial(_upsert(url, *flags, rows=20), made.at_once())


_SPIN = """
local began = redis.call('TIME')
local function passed() local now = redis.call('TIME')
return (now[1] - began[1]) * 1000000 + now[2] - began[2] end
while passed() < tonumber(ARGV[1]) do end
return 1
"""


@making
def redis_busy(stand: Stand, *flags: object) -> Trial:
    """Another client's script has the server's one thread nine tenths of the time."""
    server = _redis(stand)
    client = stand.enter(redis_server.Client(server))
    spin = lambda: client.ask("EVAL", _SPIN, "0", "20000")  # noqa: E731
    stand.enter(made.by_turns(spin, lambda: None, held=0.0, free=0.002))
    return Trial(_upsert(server.url, *flags))


# ---- time series


def _ingest(*target: object) -> tuple[object, ...]:
    return (*target, "--operation", "ingest", "--hosts", 100, "--no-ceilings")


@making
def sink(stand: Stand, behaviour: str, microseconds: int, *flags: object) -> Trial:
    server = stand.enter(made.slow_sink(behaviour, microseconds))
    return Trial((*_ingest("--target", f"akumuli://{server.address}"), "--verify", "none", *flags))


def _stop(store: Store) -> None:
    store.process.terminate()
    store.process.wait(timeout=20)


@making
def store_throttled(stand: Stand, cores: float, *flags: object) -> Trial:
    running = Store(stand.place / "points")
    stand.ends.callback(_stop, running)
    stand.enter(made.quota(running.process.pid, cores))
    return Trial((*_ingest(*running.flags), *flags))


@making
def store_on_a_slow_disk(stand: Stand, bytes_per_second: int, *flags: object) -> Trial:
    disk = stand.enter(made.slow_disk(stand.place, bytes_per_second))
    running = Store(disk.directory / "points", "--durable", "fsync")
    stand.ends.callback(_stop, running)
    disk.group.take(running.process.pid)
    return Trial((*_ingest(*running.flags), *flags))
