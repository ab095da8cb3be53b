"""Every system is judged by the same behaviours, or declares why not: tests/behaviour.py says what each can.

Tests of one system follow one another and share its server; the last of them kills it.
"""

from __future__ import annotations

import contextlib
import json
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

import pytest

from support.behaviour import (
    DATA,
    NEEDLE,
    NOT_JUDGED,
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
from support.database import once_it_runs
from support.flight import Certificates
from support.link import alive
from support.path import Relay
from support.run import venturi
from support.secret import ONCE, WRONG, Watch, right_and_wrong
from support.stranger import stranger
from venturi.targets.system import KNOWN

pytestmark = pytest.mark.usefixtures("core")
STREAMS = 3
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

    def spec(self, way: Way, url: str | None = None, **more: Any) -> dict[str, Any]:
        """A trial of some thousand rows on three streams."""
        options = {**self.server.options, **way.options, **more.pop("options", {})}
        if way.operation == "upsert" or (way.operation == "put" and self.system.blocks):
            options.setdefault("table", TABLE)
        spec = {
            "trial": f"{time.monotonic_ns():x}",
            "target": url or self.server.url,
            "operation": way.operation,
            "data": DATA[way.operation],
            "rows_per_batch": 100,
            "rows_per_stream": 2000,
            "streams": STREAMS,
            "threads": more.get("streams", STREAMS),
            "timeout_ns": 20_000_000_000,
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


def run(spec: dict[str, Any]) -> dict[str, Any]:
    from venturi import _core

    record: dict[str, Any] = json.loads(_core.run_trial(json.dumps(spec), _core.Control()))
    return record


def good(record: dict[str, Any]) -> dict[str, Any]:
    assert record["outcome"] == "ok" and record["error"] is None, record["error"]
    return record


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
        assert found["achieved"] == place.system.verified, (way.name, found)
        assert found["rows"] == found["expected_rows"] > 0, way.name
        assert found["checksum"] == found["expected_checksum"]
        assert record["counts"]["rows"] == STREAMS * 2000 == sum(s["rows"] for s in record["streams"])
        assert record["errors"] is None
        target = record["target"]
        assert re.match(place.system.software, target["software"]) and target["pid"] == place.server.pid
        batches = record["counts"]["batches"]
        assert record["latency"]["service"]["count"] == batches
        assert batches == STREAMS * 20 or (place.system.blocks and way.operation == "get")
        sums = {column["column"]: column for column in found["sums"] or ()}
        assert all(column["found"] == column["expected"] for column in sums.values())
        if way.operation == "upsert":
            assert place.scheme == "cassandra" or record["counts"]["stored_bytes"] > 0
            assert place.server.held() == (found["rows"], int(sums["hits"]["found"])), way.name
    good(place.trial(place.first))  # which takes the table away
    assert place.server.left() == []


@behaviour
def verify_modes(place: Place) -> None:
    """What is asked for is what is compared."""
    for asked in ("count", "none"):
        found = good(place.trial(place.first, verify=asked))["verification"]
        assert (found["requested"], found["achieved"]) == (asked, asked)
        assert asked == "none" or found["rows"] == found["expected_rows"] == found["rows"]


def caught(record: dict[str, Any]) -> None:
    assert record["outcome"] == "failed" and record["error"]["kind"] == "verification", record["error"]


def meddled(place: Place, way: Way, act: Callable[[], object] | None) -> dict[str, Any]:
    """The record of a trial in which somebody else changes the table. On a busy machine that comes too late:
    then a longer one is tried."""
    assert act is not None
    for factor in (1, 3, 9):
        longer = {name: value * factor for name, value in place.system.middle.items()}

        def meanwhile() -> None:
            with contextlib.suppress(Exception):  # the table has gone by then
                act()

        place.server.left()  # whose client is connected from here on
        record = once_it_runs(place.spec(way, **longer), meanwhile)
        if record["outcome"] != "ok":
            break
    return record


def through_a_relay(place: Place, way: Way, pattern: bytes, instead: bytes) -> dict[str, Any]:
    """The record of a trial of data with NEEDLE in them, of which the relay has found the pattern once."""
    for _ in range(3):  # bytes may be cut apart where the relay reads them
        url, given = place.server.url, dict[str, Any]()
        if way.operation == "get":
            path, options = place.server.needle
            url += path
            given = {"data": {"source": "remote"}, "options": options, "rows_per_stream": None}
        else:
            given = needle_spec(place.folder, way.operation)
        with Relay(place.server.port, pattern, instead) as relay:
            there = place.server.on(relay.own_port, url)
            record = place.trial(way, there, streams=1, rows_per_batch=500, **given)
        if relay.tricks:
            return record
    raise AssertionError(f"{way.name}: nothing has been altered: {record['error']}")


@behaviour
def altered(place: Place) -> None:
    """One value that is another one when it arrives fails the trial, however it was spoken."""
    for way in place.unlike:
        if place.server.alter is not None:
            caught(meddled(place, way, place.server.alter))
            continue
        for other in (NEEDLE - 1, NEEDLE + 1)[way is not place.first :]:
            caught(through_a_relay(place, way, re.escape(way.number(NEEDLE)), way.number(other)))
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
        began = time.monotonic()
        record = once_it_runs(place.spec(way, **place.system.long), batches=5)
        assert record["outcome"] == "interrupted" and record["error"]["kind"] == "cancelled", record
        assert record["counts"]["rows"] > 0 and time.monotonic() - began < 100
    good(place.trial(place.first))
    assert place.server.left() == []


@behaviour
def fair(place: Place) -> None:
    """Streams of a trial by time each do a part of the work; none is starved."""
    for seconds in (1, 3, 9):  # a busy machine may keep a thread waiting for most of a second
        record = good(
            place.trial(place.first, streams=4, **(place.system.long | {"duration_ns": seconds * 10**9}))
        )
        rows = [stream["rows"] for stream in record["streams"]]
        assert len(rows) == 4 and sum(rows) == record["counts"]["rows"]
        if min(rows) > sum(rows) / 4 / 8:
            return
    raise AssertionError(rows)


def in_two(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of the lead, with the first two streams, and of another process with the rest."""
    from venturi import _core

    parts = [{"first": 0, "count": 2, "lead": True}, {"first": 2, "count": whole["streams"] - 2}]
    controls = [_core.Control(), _core.Control()]
    with ThreadPoolExecutor(2) as pool:
        found = []
        for part, control in zip(parts, controls, strict=True):
            found.append(pool.submit(_core.run_trial, json.dumps({**whole, "share": part}), control))
            assert controls[0].wait("planned", 60)
        assert all(control.wait("ready", 60) for control in controls)
        start = time.time_ns() + 100_000_000
        for control in controls:
            control.start_at(start)
        assert all(control.wait("counted", 60) for control in controls)
        controls[0].conclude(controls[1].tallies() or "[]")
        return [json.loads(future.result(60)) for future in found]


@behaviour
def shared(place: Place) -> None:
    """Two processes' parts of one trial: the lead finds what both have moved."""
    for way in place.system.ways:
        lead, other = map(good, in_two(place.spec(way, streams=5)))
        assert other["verification"]["achieved"] == "none"
        assert "verified by the lead" in other["verification"]["note"]
        assert [stream["stream"] for stream in other["streams"]] == [2, 3, 4]
        found = lead["verification"]
        assert found["achieved"] == place.system.verified, way.name
        assert found["rows"] == found["expected_rows"] > 0
        assert found["checksum"] == found["expected_checksum"]
    assert place.server.left() == []


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
    """Whoever else answers there, by whatever bytes, is told in a line, soon, and in no memory."""
    for words in (*WORDS, None):
        with stranger(words) as port:
            most_memory()
            before, began = most_memory(), time.monotonic()
            url = place.server.on(port)
            web = {"http_port": port} if "http_port" in place.server.options else {}
            error = place.trial(place.first, url, timeout_ns=1_000_000_000, options=web)["error"]
            kind, message = error["kind"], error["message"]
            assert place.system.quotes or ("\n" not in message and len(message) < 600)
            if kind == "timeout":
                assert re.search("no answer (for|within) 1 s", message), (words, message)
                continue
            assert kind in ("protocol", "unreachable", "lost", "server"), (words, message)
            assert f":{port}" in message and re.search(place.system.stranger, message), (words, message)
            assert time.monotonic() - began < 30
            assert most_memory() - before < 100e6
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
    if place.scheme != "flight":  # whose endpoints may have TLS where the URL has none
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
    (name,) = (name for name in place.server.options if name.endswith("_env"))
    flags = ("--target", place.server.url, f"--{name.replace('_', '-')}", "MY_WORD", *ONCE)
    amount = ("--duration", "200ms", "--working-set", "1k") if place.first.operation == "upsert" else SOME
    what = ("--operation", place.first.operation, *amount, "--no-ceilings")
    right_and_wrong(place.folder, "MY_WORD", "run", *flags, *what, right=place.system.password)
    assert place.watch.seen and not place.watch.found


@behaviour
def killed(place: Place) -> None:
    """The server, in the middle of a run by the command: a failed row, the exit code, no hang."""
    out, began = Path(tempfile.mkdtemp(dir=place.folder)) / "run", time.monotonic()
    flags = [word for name, value in place.server.options.items()
             for word in (f"--{name.replace('_', '-')}", value)]  # fmt: skip
    if place.first.operation == "ingest":
        flags += ["--start", datetime.fromtimestamp(next(STARTS) / 1e9, UTC).strftime("%Y-%m-%d")]
    with Relay(place.server.port) as relay:

        def kill() -> None:
            until = time.monotonic() + 60
            while relay.passed < place.system.amount and time.monotonic() < until:
                time.sleep(0.01)
            assert place.server.pid is not None
            os.kill(place.server.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        done = venturi(
            "run", "--target", place.server.on(relay.own_port), "--operation", place.first.operation, *flags,
            *place.system.flags, "--streams", STREAMS, "--rows-per-batch", 100, "--repeats", 1, "--warmup", 0,
            "--timeout", "20s", "--no-report", "--no-ceilings", "--quiet", "--out", out,
        )  # fmt: skip
        killer.join()
    assert done.returncode == 5 and "Traceback" not in done.stderr, done.stderr
    assert time.monotonic() - began < 120
    (line,) = (out / "trials.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert record["outcome"] == "failed" and record["error"]["kind"] == "lost", record["error"]
    assert f"127.0.0.1:{relay.own_port}" in record["error"]["message"] and record["counts"]["rows"] > 0
    assert re.search(place.system.gone, record["error"]["message"]), record["error"]
    assert record["latency"]["service"]["count"] == record["counts"]["batches"]
    if place.first.operation == "upsert":
        doubt = record["errors"]["in_doubt"]
        assert record["errors"]["refused"]["batches"] == 0
        assert 1 <= doubt["batches"] <= STREAMS and doubt["rows"] == 100 * doubt["batches"]


# ---- each of them, for each system -----------------------------------------------------------


@pytest.fixture(scope="module")
def up(certificates: Certificates) -> Iterator[Callable[[str], Place]]:
    """The place of a system; its server is up until another system is asked for."""
    stack = contextlib.ExitStack()
    found: list[Place] = []

    def place(scheme: str) -> Place:
        pid = found[0].server.pid if found else None
        # `killed` may be run again, and needs a server to kill.
        if not found or found[0].scheme != scheme or (pid is not None and not alive([pid])):
            stack.close()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="venturi-behaviour-")))
            folder.chmod(0o755)  # the account which a server runs as for root can enter it
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setenv(WRONG_ENV, WRONG)
            patch.delenv(UNSET_ENV, raising=False)
            system = SYSTEMS[scheme]
            patch.setenv(RIGHT_ENV, system.password)
            watch = stack.enter_context(Watch(system.password))
            server = stack.enter_context(system.start(certificates, folder))
            found[:] = [Place(scheme, system, server, folder, certificates, watch)]
        return found[0]

    yield place
    stack.close()


JUDGED = [
    pytest.param(
        scheme,
        name,
        id=f"{scheme}-{name}",
        marks=[
            pytest.mark.xdist_group(scheme),
            *([pytest.mark.slow] if system.slow or name == "secrets" else []),
        ],
    )
    for scheme, system in SYSTEMS.items()
    for name in BEHAVIOURS
    if name not in system.without
]


@pytest.mark.parametrize(("scheme", "name"), JUDGED)
def test_behaviour(scheme: str, name: str, up: Callable[[str], Place]) -> None:
    BEHAVIOURS[name](up(scheme))


def test_whoever_is_not_judged_says_why() -> None:
    plain = {re.sub(r"\+(tls|unix|shm)$", "", scheme) for scheme in KNOWN}
    assert plain <= {*SYSTEMS, *NOT_JUDGED}
    for system in SYSTEMS.values():
        assert set(system.without) <= set(BEHAVIOURS) and all(system.without.values())
