"""The behaviours that every system has, or declares why not. support/behaviour.py says what each can do.

Tests of one system follow one another and share its server; the last of them kills it.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import random
import re
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.behaviour import (
    DATA,
    NEEDLE,
    RIGHT_ENV,
    STARTS,
    SYSTEMS,
    TABLE,
    UNSET_ENV,
    WRONG_ENV,
    Server,
    System,
    Way,
    needle_spec,
)
from support.core import run
from support.flight import Certificates, write_ipc
from support.flight import succeeded as good
from support.holding import HoldingRelay, during, while_held
from support.read import ran, records
from support.records_schema import offences
from support.run import venturi
from support.secret import ONCE, WRONG, Watch, right_and_wrong
from support.stranger import stranger
from support.wait import HANG_SECONDS

STREAMS, ROWS = 3, 500
ONE_BATCH = ("rows_per_stream", "rows_per_batch")
SOME = ("--rows-per-stream", "20k")


@dataclass
class Place:
    """What a behaviour is tested with."""

    scheme: str
    system: System
    server: Server
    folder: Path
    certificates: Certificates
    watch: Watch
    """Of what `ps` shows since before its server was started."""
    killed: bool = False
    """Its server is dead: the next behaviour needs another one."""
    before: frozenset[str] = frozenset()
    """What trials of other behaviours have left: those whose connections were cut could not clean up."""

    def left(self) -> set[str]:
        """What trials of this behaviour have left."""
        return {*self.server.left()} - self.before

    def spec(self, way: Way, url: str | None = None, **more: Any) -> dict[str, Any]:
        """A trial of a few batches on three streams."""
        options = {**self.server.options, **way.options, **more.pop("options", {})}
        if way.operation == "upsert" or (way.operation == "put" and self.system.blocks):
            options.setdefault("table", TABLE)
        spec = {
            **{"trial": f"{time.monotonic_ns():x}", "target": url or self.server.url},
            **{"operation": way.operation, "data": DATA[way.operation], "rows_per_batch": 100},
            **{"rows_per_stream": ROWS, "streams": STREAMS, "threads": more.get("streams", STREAMS)},
            **{"timeout_ns": 300_000_000_000},
            **way.more,
            **more,
            "options": {name: value for name, value in options.items() if value is not None},
        }
        if way.operation == "ingest" and "data" not in more:
            # Whatever was stored before is older.
            spec["data"] = {**spec["data"], "start_unix_ns": next(STARTS)}
        if spec.get("duration_ns"):
            del spec["rows_per_stream"]
            spec["generate"] = "inline"
        return spec

    def long(self, way: Way, url: str | None = None, **more: Any) -> dict[str, Any]:
        """One that is long enough to be ended."""
        if way.endless:
            remote = {"data": {"source": "remote"}, "rows_per_stream": None, "verify": "none"}
            options = {"query": way.endless, "split": "none", "table": None, **more.pop("options", {})}
            return self.spec(way, url, **remote, options=options, **more)
        return self.spec(way, url, **self.system.long, **more)

    def trial(self, way: Way, url: str | None = None, **more: Any) -> dict[str, Any]:
        return run(self.spec(way, url, **more))

    def refused(self, way: Way, url: str | None = None, **more: Any) -> tuple[str, str]:
        """Kind and line of the error of a trial that must not begin."""
        record = self.trial(way, url, **more)
        assert record["outcome"] == "failed", record
        message = record["error"]["message"]
        assert "\n" not in message and len(message) < 600, message
        assert not any(word in json.dumps(record) for word in (WRONG, self.system.password))
        return record["error"]["kind"], message

    @property
    def unlike(self) -> list[Way]:
        return [way for way in self.system.ways if not way.alike]

    @property
    def first(self) -> Way:
        return self.system.ways[0]


CANCEL = operator.methodcaller("cancel")
Behaviour = Callable[[Place], None]
BEHAVIOURS: dict[str, Behaviour] = {}


def behaviour(check: Behaviour) -> Behaviour:
    BEHAVIOURS[check.__name__] = check
    return check


# ---- the behaviours, in the order of their tests ------------------------------------------


@behaviour
def verified(place: Place) -> None:
    """Every way: what was moved is there once, by the count and the sums of Venturi and of somebody else."""
    for way in place.system.ways:
        record = good(place.trial(way, options={"keep": True} if way.operation == "upsert" else {}))
        found = record["verification"]
        assert found["achieved"] == (way.verified or place.system.verified), (way.name, found)
        assert found["rows"] == found["expected_rows"] > 0, way.name
        assert found["checksum"] == found["expected_checksum"]
        assert record["counts"]["rows"] == STREAMS * ROWS == sum(s["rows"] for s in record["streams"])
        assert record["errors"] is None
        target = record["target"]
        assert re.match(place.system.software, target["software"]) and target["pid"] == place.server.pid
        batches = record["counts"]["batches"]
        assert record["latency"]["service"]["count"] == batches
        planned = STREAMS * ROWS // way.more.get("rows_per_batch", 100)
        assert batches == planned or ((place.system.blocks or way.verified) and way.operation == "get")
        if way.operation == "get" and "format" in way.options:
            assert target["protocol"].endswith(f"-{way.options['format']}"), target
        sums = {column["column"]: column for column in found["sums"] or ()}
        assert all(column["found"] == column["expected"] for column in sums.values())
        if way.operation == "upsert":
            assert record["workers"]["client"]["workers"] == STREAMS * way.more.get("in_flight", 1)
            assert place.scheme == "cassandra" or record["counts"]["stored_bytes"] > 0
            if place.server.pid is not None:
                assert target["round_trip_ns"] > 0 and record["stages"]["client"]["await_reply"] > 0
                assert target["address"] == f"127.0.0.1:{place.server.port}"
                assert record["cpu"]["server"] is not None
            assert place.server.held() == (found["rows"], int(sums["hits"]["found"])), way.name
    inline = {"generate": "inline"} if place.first.operation == "upsert" else {}
    good(place.trial(place.first, **inline))  # which takes the table away
    assert place.left() == set()


@behaviour
def tables(place: Place) -> None:
    """Somebody else's table is left alone, and rows that were there before are no part of the result."""
    server, way = place.server, place.first
    assert server.ask is not None
    if place.server.pid is None:
        good(place.trial(way, verify="none"))  # for there to be a file
    for statement in place.system.theirs:
        server.ask(statement)
    before = server.ask("SELECT hits FROM sales")
    assert len(before) == 1
    kind, message = place.refused(way, options={"table": "sales"})
    assert kind == "usage" and re.search("not Venturi's|does not begin with venturi_", message), message
    assert "--no-setup" in message or place.scheme == "cassandra", message
    kind, message = place.refused(way, options={"table": "venturi_nowhere", "setup": False})
    assert kind in ("server", "usage") and "venturi_nowhere" in message, message
    assert server.ask("SELECT hits FROM sales") == before
    first, again = (
        good(place.trial(way, options={choice: choice == "keep"})) for choice in ("keep", "setup")
    )
    assert "were there before" in again["verification"]["note"]
    assert again["verification"]["rows"] == first["verification"]["rows"]
    assert again["verification"]["sums"] == first["verification"]["sums"]
    if way.operation == "upsert":
        hits = {line["column"]: int(line["found"]) for line in first["verification"]["sums"]}["hits"]
        assert server.held() == (first["verification"]["rows"], 2 * hits)
    good(place.trial(way, verify="none"))


@behaviour
def users_table(place: Place) -> None:
    """A file with every type that is kept, nulls, and awkward text in its key. Of two rows with one key the
    last one stays, and their counters are added up."""
    reads = place.system.reads
    assert reads is not None and place.server.ask is not None
    columns = {name: reads.file[name] for name in reads.file.column_names}
    signed = place.scheme == "sqlite"  # it has no other integers
    hits, kind = ([2**40, 5, 7], pa.int64()) if signed else ([2**63, 5, 7], pa.uint64())
    columns |= {"id": pa.array([1, 2, 1], pa.int32()), "hits": pa.array(hits, kind)}
    columns["awkward"] = pa.array(['it\'s \\ "ö" \U0001f30d', "\\", 'it\'s \\ "ö" \U0001f30d'])
    ipc = write_ipc(pa.table(columns), place.folder / "users.arrow")
    given = {"data": {"source": "file", "path": "x", "ipc": str(ipc)}, **dict.fromkeys(ONE_BATCH, 3)}
    second, third = pa.table(columns).to_pylist()[1:]
    expected = [{**third, "hits": hits[0] + hits[2]}, second]
    for way in place.unlike:
        if way.operation != "upsert":
            continue
        record = place.trial(
            way,
            **given,
            upsert={"key": ["id", "awkward"], "add": ["hits"]},
            streams=1,
            options={"keep": True},
        )
        # These two take no key twice in one statement.
        noted = "1 rows of the file" in (good(record)["verification"]["note"] or "")
        assert noted is (place.scheme in ("postgres", "duckdb"))
        found = place.server.ask(f"SELECT {', '.join(columns)} FROM {TABLE} ORDER BY id")
        assert [dict(zip(columns, row, strict=True)) for row in found] == expected, way.name
    good(place.trial(place.first, verify="none"))


def gets(place: Place) -> list[Way]:
    return [way for way in place.system.ways if way.operation == "get"]


@behaviour
def comes_back(place: Place) -> None:
    """Rows of ours, and those of a file, come back by every split, as they went in."""
    reads = place.system.reads
    assert reads is not None
    ipc = write_ipc(reads.file, place.folder / "file.arrow")
    data = {"source": "file", "path": "x", "ipc": str(ipc)}
    for way in gets(place):
        for split in ("", *reads.splits):
            options, times = {"split": split or None}, STREAMS if split == "none" else 1
            record = good(place.trial(way, options=options))
            rows = times * STREAMS * ROWS
            assert record["counts"]["rows"] == record["verification"]["rows"] == rows, split
            assert record["counts"]["payload_bytes"] == rows * 16
            stages = set(record["stages"]["client"])
            # What had all come before it was asked for takes no time to receive.
            assert {"decode", "verify"} <= stages and stages & {"apply", "await_input", "receive"}
            assert place.server.pid is None or record["counts"]["wire_bytes"] > rows * 8
            assert record["verification"]["achieved"] == "checksum", split
            record = good(place.trial(way, data=data, options=options, rows_per_stream=200))
            rounded = way.options.get("format") in reads.rounded
            assert record["verification"]["achieved"] == ("sums" if rounded else "checksum"), split
    assert place.left() == set()


@behaviour
def asked_wrong(place: Place) -> None:
    """What cannot be read is refused in a line, and so is a query that fails in the middle."""
    reads = place.system.reads
    assert reads is not None
    given: dict[str, Any] = {"data": {"source": "remote"}, "rows_per_stream": None, "streams": 1}
    for way in gets(place):
        if place.server.pid is None:
            good(place.trial(way, options={"keep": True}))  # for there to be a file
        for options, kind, said in (
            ({}, "usage", "table or query"),
            ({"query": "SELECT 1 AS a", "table": "t"}, "usage", "not both"),
            ({"query": "SELEC 1"}, "server", reads.wrong),
            ({"table": "nowhere"}, "server", reads.nowhere),
        ):
            assert place.refused(way, **given, options=options)[0] == kind, options
            assert re.search(said, place.refused(way, **given, options=options)[1]), options
        if reads.late[0]:
            kind, message = place.refused(way, **given, options={"query": reads.late[0]}, verify="none")
            assert kind == "server" and re.search(reads.late[1], message), message
            assert re.search(r"after \d+ rows: ", message), message
        good(place.trial(way))


@behaviour
def commanded(place: Place) -> None:
    """Gets as a user does them: rows that are there, shared by their key."""
    reads = place.system.reads
    assert reads is not None
    out = Path(tempfile.mkdtemp(dir=place.folder)) / "run"
    forms = [way.options["format"] for way in gets(place) if "format" in way.options]
    flags = place.server.flags if place.server.pid is not None else []
    shared = ("--split", "key", "--split-by", "id") if "key" in reads.splits else ("--split", "none")
    found = ran(
        *(out, "--target", place.server.url, *flags, "--query", reads.table, *shared, *reads.flags),
        *("--streams", "1,2", *(("--wire-format", ",".join(forms)) if forms else ())),
        *(*ONCE[2:], "--no-ceilings", "--no-report"),
    )
    assert len(found) == 2 * max(1, len(forms))
    for record in found:
        given = record["parameters"]
        assert record["verification"]["achieved"] in ("sums", "count") and given["operation"] == "get"
        # What belongs to upserts is not set.
        assert not {given.get(name) for name in ("write", "statement", "journal")} - {None}


@behaviour
def verify_modes(place: Place) -> None:
    """What is asked for is what is compared."""
    for way in (place.first, *gets(place)[:1]):
        for asked in ("count", "none"):
            found = good(place.trial(way, verify=asked, streams=1))["verification"]
            assert (found["requested"], found["achieved"]) == (asked, asked)
            assert asked == "none" or found["rows"] == found["expected_rows"] > 0


def caught(record: dict[str, Any]) -> None:
    assert record["outcome"] == "failed" and record["error"]["kind"] == "verification", record["error"]


def meddled(place: Place, way: Way, act: Callable[[], object] | None) -> dict[str, Any]:
    """The record of a trial in which somebody else changes the table."""
    assert act is not None
    if place.server.pid is not None:
        return while_held(place.spec(way, rows_per_stream=2000), lambda *_: act())
    # A file: somebody else has left a trigger there.
    good(place.trial(way, options={"keep": True}))
    act()
    return place.trial(way, options={"setup": False})


def through_a_relay(place: Place, way: Way, pattern: bytes, instead: bytes) -> dict[str, Any]:
    """The record of a trial of data with NEEDLE in them, of which the relay has found the pattern once."""
    url, given = place.server.url, dict[str, Any]()
    if way.operation == "get":
        path, options = place.server.needle
        url += path
        remote = {"data": {"source": "remote"}, "rows_per_stream": None}
        given = {**remote, "options": {"table": None, **options}}
    else:
        given = {"rows_per_stream": 2000, **needle_spec(place.folder, way.operation)}
    with HoldingRelay(place.server.port, pattern=pattern, instead=instead) as relay:
        there = place.server.on(relay.own_port, url)
        record = place.trial(way, there, streams=1, rows_per_batch=500, **given)
    assert relay.altered == 1, f"{way.name}: nothing has been altered: {record['error']}"
    return record


@behaviour
def altered(place: Place) -> None:
    """One value that is another one when it arrives fails the trial, however it was spoken."""
    for way in place.unlike:
        if place.server.pid is None:
            if way.operation == "get":
                continue  # nobody comes between its ends
            caught(meddled(place, way, place.server.alter))
            continue
        for other in (NEEDLE - 1, NEEDLE + 1)[way is not place.first :]:
            # Without the zeros around them, with which other messages end.
            found, instead = (way.number(value).strip(b"\0") for value in (NEEDLE, other))
            caught(through_a_relay(place, way, re.escape(found), instead))
    good(place.trial(place.first))


@behaviour
def lost(place: Place) -> None:
    """Rows that are gone again, or never came, fail it too."""
    for way in place.unlike:
        if way.operation == "get" or way.options.get("write") == "insert":
            continue  # the next batch with a row of such an insert has all of it again
        if place.system.message is None:
            caught(meddled(place, way, place.server.lose))
        else:
            caught(through_a_relay(place, way, place.system.message % NEEDLE, b""))
    good(place.trial(place.first))


@behaviour
def cancelled(place: Place) -> None:
    """In the middle: what was done is told, nothing is left, and the server is as well as before."""
    for way in place.unlike:
        record = during(place.long(way), lambda control: control.progress()["batches"] >= 5, CANCEL)
        assert record["outcome"] == "interrupted" and record["error"]["kind"] == "cancelled", record
        assert record["counts"]["rows"] > 0
    good(place.trial(place.first))
    assert place.left() == set()


@behaviour
def severed(place: Place) -> None:
    """Connections that end in the middle: a failed trial that says how far it came, of every way."""
    for way in place.unlike:
        record = while_held(place.long(way), lambda relay, _: relay.cut(), place.system.amount)
        assert record["outcome"] == "failed" and record["error"]["kind"] == "lost", (
            way.name,
            record["error"],
        )
        assert record["counts"]["rows"] > 0
        if way.endless and place.system.reads:
            assert re.search(r": after \d+ rows: ", record["error"]["message"]), record["error"]


@behaviour
def fair(place: Place) -> None:
    """None of the streams that one thread serves is starved: all four have moved their part before the time
    of the trial is over."""
    spec = {**place.long(place.first, streams=4), "threads": 1}
    with HoldingRelay(place.server.port) as relay:
        spec["target"] = place.server.on(relay.own_port, spec["target"])
        record = during(spec, lambda _: sum(n > 200_000 for n in relay.connections) >= 4, CANCEL)
    assert record["outcome"] == "interrupted", record
    rows = [stream["rows"] for stream in record["streams"]]
    assert len(rows) == 4 and min(rows) > 0 and sum(rows) == record["counts"]["rows"]


def in_two(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of the lead, with the first two streams, and of another process with the rest."""
    from venturi import _core

    parts = [{"first": 0, "count": 2, "lead": True}, {"first": 2, "count": whole["streams"] - 2}]
    controls = [_core.Control(), _core.Control()]
    with ThreadPoolExecutor(2) as pool:
        found = []

        def reached(phase: str, *by: Any) -> None:
            # A trial that has failed is past every phase.
            if not all(control.wait(phase, HANG_SECONDS) for control in by):
                raise AssertionError([json.loads(each.result())["error"] for each in found if each.done()])

        for part, control in zip(parts, controls, strict=True):
            found.append(pool.submit(_core.run_trial, json.dumps({**whole, "share": part}), control))
            reached("planned", controls[0])
        reached("ready", *controls)
        start = time.time_ns() + 100_000_000
        for control in controls:
            control.start_at(start)
        reached("counted", *controls)
        controls[0].conclude(controls[1].tallies() or "[]")
        return [json.loads(future.result()) for future in found]


@behaviour
def shared(place: Place) -> None:
    """Two processes' parts of one trial: the lead finds what both have moved."""
    for way in place.system.ways:
        lead, other = map(good, in_two(place.spec(way, streams=5)))
        assert other["verification"]["achieved"] == "none"
        assert "verified by the lead" in other["verification"]["note"]
        assert [stream["stream"] for stream in other["streams"]] == [2, 3, 4]
        found = lead["verification"]
        assert found["achieved"] == (way.verified or place.system.verified), way.name
        assert found["rows"] == found["expected_rows"] > 0
        assert found["checksum"] == found["expected_checksum"]
    assert place.left() == set()


WORDS = (
    *(b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n"),
    *(b"\xff" * 100_000, b"\0" * 100_000, b"\x7f" * 100_000, random.Random(7).randbytes(100_000)),
)


def most_memory() -> int:
    """Bytes that this process has had at most since it was last asked."""
    found = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return 1024 * int(next(line.split()[1] for line in found.splitlines() if line.startswith("VmHWM")))


@behaviour
def strangers(place: Place) -> None:
    """Whoever else answers there, by whatever bytes, is told in a line, and in no memory."""
    for words in (*WORDS, None):
        with stranger(words) as port:
            most_memory()
            before = most_memory()
            url = place.server.on(port)
            web = {"http_port": port} if "http_port" in place.server.options else {}
            error = place.trial(place.first, url, timeout_ns=1_000_000_000, options=web)["error"]
            kind, message = error["kind"], error["message"]
            assert most_memory() - before < 100e6
            assert place.system.quotes or ("\n" not in message and len(message) < 600)
            if kind == "timeout":
                assert re.search(r"(no a\w+[^:]* (for|within)|takes nothing for) (1|0\.\d+) s", message), (
                    words,
                    message,
                )
                continue
            assert kind in ("protocol", "unreachable", "lost", "server"), (words, message)
            assert f":{port}" in message and re.search(place.system.stranger, message), (words, message)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kind, message = place.refused(place.first, place.server.on(port))
    assert kind == "unreachable" and "nothing listens there" in message


@behaviour
def tls(place: Place) -> None:
    files = place.certificates
    known = {"tls_ca": str(files.ca)}
    with place.server.over_tls() as url:
        for way in place.system.ways:
            good(place.trial(way, url, options=known))
        for more in ({"tls_insecure": True}, {**known, "tls_server_name": "localhost"}):
            good(place.trial(place.first, url, options=more))
        for more, said in (
            ({}, "tls_ca"),
            ({"tls_ca": str(files.other_ca)}, "certificate|UnknownIssuer"),
            ({**known, "tls_server_name": "elsewhere.example"}, "tls_server_name"),
        ):
            kind, message = place.refused(place.first, url, options=more)
            assert kind == "tls" and re.search(said, message), message
    if not place.scheme.startswith("flight"):  # whose endpoints may have TLS where the URL has none
        # Without this the rows would go in the clear.
        kind, message = place.refused(place.first, options={"tls_insecure": True})
        assert kind == "usage" and f"{place.server.url.partition('://')[0]}+tls://" in message


@behaviour
def credentials(place: Place) -> None:
    (name,) = (name for name in place.server.options if name.endswith("_env"))
    for variable, kind, said in (
        (WRONG_ENV, "auth", place.system.denied),
        (None, "auth", "password|token"),
        (UNSET_ENV, "usage", f"{UNSET_ENV}.*not set"),
    ):
        found, message = place.refused(place.first, options={name: variable})
        assert found == kind and re.search(said, message), message
    good(place.trial(place.first))


@behaviour
def secrets(place: Place) -> None:
    """By the command, with its report: nothing that is printed, stored or shown by `ps` has any."""
    login = [word if word != RIGHT_ENV else "MY_WORD" for word in place.server.flags]
    flags = ("--target", place.server.url, *login, *ONCE)
    amount = ("--duration", "200ms", "--working-set", "1k") if place.first.operation == "upsert" else SOME
    what = ("--operation", place.first.operation, *amount, "--no-ceilings")
    right_and_wrong(place.folder, "MY_WORD", "run", *flags, *what, right=place.system.password)
    # A server that others use too was started before: tests/servers/test_serve_databases.py looks at that.
    assert (place.watch.seen or place.system.shared) and not place.watch.found


@behaviour
def killed(place: Place) -> None:
    """The server, in the middle of a run by the command: a failed row and the exit code."""
    out = Path(tempfile.mkdtemp(dir=place.folder)) / "run"
    flags = place.server.flags
    if place.first.operation == "ingest":
        flags += ["--start", datetime.fromtimestamp(next(STARTS) / 1e9, UTC).strftime("%Y-%m-%d")]
    with HoldingRelay(place.server.port, hold_after=place.system.amount) as relay:

        def kill() -> None:
            relay.held.wait()
            if place.system.shared:
                relay.cut()
            else:
                assert place.server.pid is not None
                place.killed = True
                os.kill(place.server.pid, signal.SIGKILL)
            relay.release()

        threading.Thread(target=kill, daemon=True).start()
        done = venturi(
            "run", "--target", place.server.on(relay.own_port), "--operation", place.first.operation, *flags,
            *place.system.flags, "--streams", STREAMS, "--rows-per-batch", 100, "--repeats", 1, "--warmup", 0,
            "--timeout", "300s", "--no-report", "--no-ceilings", "--quiet", "--out", out,
        )  # fmt: skip
        assert relay.held.is_set()
    assert done.returncode == 5 and "Traceback" not in done.stderr, done.stderr
    (record,) = records(out)
    assert record["outcome"] == "failed" and record["error"]["kind"] == "lost", record["error"]
    assert f"127.0.0.1:{relay.own_port}" in record["error"]["message"] and record["counts"]["rows"] > 0
    assert re.search(place.system.gone, record["error"]["message"]), record["error"]
    assert record["latency"]["service"]["count"] == record["counts"]["batches"]
    if place.first.operation == "upsert":
        doubt = record["errors"]["in_doubt"]
        assert record["errors"]["refused"]["batches"] == 0
        assert 1 <= doubt["batches"] <= STREAMS and doubt["rows"] == 100 * doubt["batches"]


# ---- each of them, for each system -----------------------------------------------------------


@pytest.fixture(scope="session")
def judged(certificates: Certificates, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Place]]:
    """The place of a system; its server is up until another system is asked for."""
    stack = contextlib.ExitStack()
    found: list[Place] = []

    def ended() -> None:
        broken = [each for old in found for each in offences(old.folder)]
        stack.close()
        assert not broken, broken

    def place(scheme: str) -> Place:
        if not found or found[0].scheme != scheme or found[0].killed:
            ended()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="venturi-behaviour-")))
            folder.chmod(0o755)  # the account which a server runs as for root can enter it
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv(WRONG_ENV, WRONG)
            patch.delenv(UNSET_ENV, raising=False)
            system = SYSTEMS[scheme]
            if system.shared:
                request.getfixturevalue(scheme)
            patch.setenv(RIGHT_ENV, system.password)
            watch = stack.enter_context(Watch(system.password))
            server = stack.enter_context(system.start(certificates, folder))
            found[:] = [Place(scheme, system, server, folder, certificates, watch)]
        found[0].before = frozenset(found[0].server.left())
        return found[0]

    yield place
    ended()


NEEDS: dict[str, Callable[[System], object]] = {
    **dict.fromkeys(("comes_back", "asked_wrong", "commanded"), lambda system: system.reads),
    "tables": lambda system: system.has_tables,
    "users_table": lambda system: system.reads and system.ways[0].operation == "upsert",
}
"""What a system must have for a behaviour to apply to it."""


def cases(ours: bool) -> pytest.MarkDecorator:
    """One test for each behaviour of each system: of the systems whose servers are ours, or of the others."""
    return pytest.mark.parametrize(
        ("scheme", "name"),
        [
            pytest.param(scheme, name, id=f"{scheme}-{name}", marks=pytest.mark.xdist_group(scheme))
            for scheme, system in SYSTEMS.items()
            for name in BEHAVIOURS
            if name not in system.without and system.ours is ours and NEEDS.get(name, lambda _: True)(system)
        ],
    )
