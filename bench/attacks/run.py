"""Venturi's servers under attack over loopback: their threads, memory and descriptors, and what a good client
has meanwhile.

Each attack is made by a process of its own upon a fresh server, as all of them that are kept open at once; a
connection that the server closes is replaced. A good client asks once a second, and has 10 seconds for its
answer. What was measured is in docs/server-limits.md. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench import Line, goals, shared
from bench.attacks.payloads import ATTACKS, PAYLOADS, Payload, token
from bench.page import Page
from support.charrow_peer import Partition

PATIENCE = 10.0
AT_ONCE, OPENED = 20, 0.04
"""Connections are opened in so many at a time, so many seconds apart: 500 a second."""
MEMORY = str(2**30)
COMMANDS = {
    "flight": ["venturi", "serve", "flight", "--memory", MEMORY],
    "http": ["venturi", "serve", "http", "--memory", MEMORY],
    "charrow": ["venturi", "serve", "charrow"],
    "timeseries": [
        *("venturi", "serve", "timeseries", "--opentsdb", "none", "--influx", "none", "--http", "0"),
        *("--memory", MEMORY, "--max-series", "1000000"),
    ],
    "chdb": ["venturi.servers.throwaway.chdb_http", "--memory", MEMORY],
}
THREADS = {"flight": 1200, "http": 1200, "charrow": 6000, "timeseries": 60, "chdb": 700}
"""Goals, by what the servers' own limits add up to: docs/server-limits.md."""
MEGABYTES = {"flight": 2500, "http": 2500, "charrow": 2500, "timeseries": 2500, "chdb": 4000}
DESCRIPTORS = {"flight": 6000, "http": 6000, "charrow": 3000, "timeseries": 16900, "chdb": 1500}


def get(kind: str, port: int) -> bool:
    """One good client, from its connection to its answer."""
    if kind == "flight":
        from pyarrow import flight

        with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
            within = flight.FlightCallOptions(timeout=PATIENCE)
            table = client.do_get(flight.Ticket(token(1000, 100)), within).read_all()
            return len(table) == 1000
    if kind == "charrow":
        with Partition(f"127.0.0.1:{port}", timeout=PATIENCE) as partition:
            partition.ask("", "SELECT * FROM records(rows = 1000)")
            return sum(map(len, iter(partition.block, None))) == 1000
    if kind == "timeseries":
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            client.sendall(b"+good t=1\r\n:%d\r\n+1\r\n+FLUSH\r\n" % time.time_ns())
            return client.recv(100) == b"+OK 1\r\n"
    path, body = ("/records?rows=1000", None) if kind == "http" else ("/", b"SELECT 7")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", body, PATIENCE) as answer:
        found = answer.read()
    return found == b"7\n" if body else len(found) > 32_000


def is_served(kind: str, port: int) -> str:
    """Nothing, or why it was not."""
    try:
        return "" if get(kind, port) else "another answer"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


@contextlib.contextmanager
def serving(kind: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    module, *words = COMMANDS[kind]
    with tempfile.TemporaryDirectory(prefix="venturi-attacks-") as folder:
        words += {"chdb": [folder], "timeseries": ["--data", folder]}.get(kind, [])
        words += ["--port", "0"] + ([] if kind == "chdb" else ["--json"])
        with open(f"{folder}.log", "w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", module, *words], stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
            yield server, said if kind == "chdb" else int(said["address"].rpartition(":")[2])
        finally:
            server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(30)
            server.kill()
            server.communicate()
            Path(log.name).unlink()


def attack(payloads: list[Payload], count: int, port: int, seconds: float) -> int:
    """So many connections are kept open until it is over; how many were opened."""
    selector, until, opened, due = selectors.DefaultSelector(), time.monotonic() + seconds, 0, 0.0
    clients: dict[socket.socket, list[int]] = {}
    while (now := time.monotonic()) < until:
        for _ in range(min(AT_ONCE, count - len(clients)) if now >= due else 0):
            client = socket.socket()
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(("127.0.0.1", port))
            clients[client] = [opened, 0]
            selector.register(client, selectors.EVENT_WRITE | selectors.EVENT_READ)
            opened, due = opened + 1, now + OPENED
        for key, events in selector.select(OPENED):
            client = key.fileobj  # type: ignore[assignment]
            number, sent = clients[client]
            said = payloads[number % len(payloads)]
            text = said.bytes(number)
            try:
                if events & selectors.EVENT_READ and said.reads and not client.recv(1 << 18):
                    raise ConnectionError
                if events & selectors.EVENT_WRITE:
                    sent += client.send(text[sent : sent + (1 << 18)]) if text else 0
                    if sent == len(text) and said.then == "closes":
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        raise ConnectionError
                    sent = said.again if sent == len(text) and said.then == "again" else sent
                    clients[client][1] = sent
                    watched = selectors.EVENT_WRITE if sent < len(text) else 0
                    watched |= selectors.EVENT_READ if said.reads else 0
                    if watched:
                        selector.modify(client, watched)
                    else:
                        selector.unregister(client)
            except BlockingIOError:
                pass
            except OSError:
                selector.unregister(client)
                clients.pop(client)
                client.close()
    return opened


def has(pid: int, line: Line) -> None:
    """Adds its figures to the highest ones so far."""
    status = dict(row.split(":", 1) for row in Path(f"/proc/{pid}/status").read_text().splitlines())
    now = {"threads": int(status["Threads"]), "megabytes": int(status["VmHWM"].split()[0]) / 976.6}
    now["descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
    line |= {name: max(value, line.get(name, 0)) for name, value in now.items()}


def trial(kind: str, name: str, seconds: float) -> Line:
    line: Line = {"good": 0, "asked": 0, "refused": {}}
    with serving(kind) as (server, port):
        words = ["--attack", name, "--only", kind, "--port", str(port), "--seconds", str(seconds)]
        command = [sys.executable, "-m", "bench.attacks.run", *words]
        attacker = subprocess.Popen(command, cwd=shared.ROOT, stdout=subprocess.PIPE, text=True)
        try:
            due = time.monotonic() + 1
            while attacker.poll() is None:
                if server.poll() is not None:
                    raise ChildProcessError(f"the server ended with {server.returncode}")
                has(server.pid, line)
                if time.monotonic() >= due:
                    due = time.monotonic() + 1
                    why = is_served(kind, port)
                    line["asked"] += 1
                    line["good"] += not why
                    line["refused"][why] = line["refused"].get(why, 0) + 1
                time.sleep(0.2)
        finally:
            attacker.kill()
            line["connections"] = int(attacker.communicate()[0] or 0)
        until = time.monotonic() + 60
        while (why := is_served(kind, port)) and time.monotonic() < until:
            time.sleep(0.5)
        return line | {"after": not why}


def measure(options: argparse.Namespace, output: Path) -> None:
    with output.open("w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "seconds": options.seconds})
        for kind in options.only:
            for name in options.attacks:
                head = {"kind": "attack", "server": kind, "attack": name, "load": os.getloadavg()[0]}
                wrong = (OSError, ValueError, AssertionError)
                line = shared.attempted(head, lambda: trial(kind, name, options.seconds), wrong)  # noqa: B023
                keep(line)
                print(line, file=sys.stderr, flush=True)


def page(source: Path) -> Page:
    head, *lines = shared.lines(source)
    body = [
        "| server | attack | threads | MB | descriptors | connections | good clients | served after |",
        "| --- | --- |" + " ---: |" * 5 + " --- |",
    ]
    judged: list[goals.Judged] = []
    done = [line for line in lines if "error" not in line]
    for line in done:
        figures = (f"{line[name]:,.0f}" for name in ("threads", "megabytes", "descriptors", "connections"))
        after = "yes" if line["after"] else "no"
        served = f"{line['good']} of {line['asked']}"
        body.append(f"| {line['server']} | {line['attack']} | {' | '.join(figures)} | {served} | {after} |")
    for name, bounds in (("threads", THREADS), ("megabytes", MEGABYTES), ("descriptors", DESCRIPTORS)):
        for kind, most in bounds.items():
            found = [line[name] for line in done if line["server"] == kind]
            if found:
                judged.append(goals.exact(f"{kind}: {name}", max(found), most, most=True, unit=""))
    what = "threads, memory and descriptors of each server under attack, and good clients beside it."
    failed = shared.failures(lines, "server", "attack")
    repeats = f"each attack once for {head['seconds']:g} s"
    return Page("Servers under attack", what, head, lines, body, judged, "", repeats, failed)


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "attacks", 1)
    add = parser.add_argument
    add("--seconds", type=float, default=60, help="of each attack (default 60)")
    add("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS), metavar="SERVER")
    add("--attacks", nargs="+", choices=list(ATTACKS), default=list(ATTACKS), metavar="ATTACK")
    add("--attack", help=argparse.SUPPRESS)
    add("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    if options.attack:
        kind = options.only[0]
        count = ATTACKS[options.attack] * (4 if kind == "timeseries" else 1)
        print(attack(PAYLOADS[kind][options.attack], count, options.port, options.seconds))
        sys.exit()
    sys.exit(shared.run("attacks", options, measure, page))
