"""Venturi's servers under attack over loopback: what they take of the machine, and what good clients have.

Each attack runs in its own process against a fresh server, and replaces each connection that is closed. A
good client asks once a second and waits 10 seconds at most. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import trustme

from bench import Line, goals, shared
from bench.attacks.attackers import ATTACKS, CONTEXT, GOOD, TLS
from bench.page import Page

MEMORY = f"--memory {2**30}"
COMMANDS = {
    "flight": f"venturi serve flight --port 0 --json {MEMORY}",
    "http": f"venturi serve http --port 0 --json {MEMORY}",
    "charrow": "venturi serve charrow --port 0 --json",
    "timeseries": "venturi serve timeseries --port 0 --json --opentsdb none --influx none --http none "
    f"{MEMORY} --max-series 1000000 --data",
    "chdb": f"venturi.servers.throwaway.chdb_http {MEMORY}",
}
WITH_TLS = ("flight", "http", "charrow")
FIGURES = {"threads": 5900, "megabytes": 2500, "descriptors": 6000}
"""With the most of each that a server may take by its limits (docs/server-limits.md)."""


def missed(kind: str, port: int, tls: bool) -> str:
    """Why a good client was not served; nothing if it was."""
    said, wanted = GOOD[kind]
    heard = b""
    try:
        with contextlib.ExitStack() as ends:
            client = ends.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            if tls:
                client = ends.enter_context(CONTEXT.wrap_socket(client))
            client.sendall(said)
            while wanted not in heard:
                if not (piece := client.recv(1 << 16)):
                    return str(heard[-200:])
                heard += piece
        return ""
    except OSError as error:
        return str(error)


@contextlib.contextmanager
def serving(kind: str, tls: bool) -> Iterator[tuple[subprocess.Popen[str], int]]:
    with tempfile.TemporaryDirectory(prefix="venturi-attacks-") as folder:
        words = [*COMMANDS[kind].split(), *[folder] * (kind in ("timeseries", "chdb"))]
        if tls:
            leaf = trustme.CA().issue_cert("localhost")
            leaf.private_key_and_cert_chain_pem.write_to_path(f"{folder}/server.pem")
            words += ["--tls-certificate", f"{folder}/server.pem", "--tls-key", f"{folder}/server.pem"]
        server = subprocess.Popen(
            [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
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


def trial(kind: str, name: str, seconds: float, addresses: int) -> Line:
    line: Line = {"good": 0, "asked": 0, "refused": []}
    tls = name in TLS
    with serving(kind, tls) as (server, port):
        words = ["-m", "bench.attacks.attackers", kind, name, *map(str, (port, seconds, addresses))]
        attacker = subprocess.Popen(
            [sys.executable, *words], cwd=shared.ROOT, stdout=subprocess.PIPE, text=True
        )
        try:
            due = time.monotonic() + 1
            while attacker.poll() is None:
                if server.poll() is not None:
                    raise ChildProcessError(f"the server ended with {server.returncode}")
                status = Path(f"/proc/{server.pid}/status").read_text().splitlines()
                had = dict(row.split(":", 1) for row in status)
                files = len(os.listdir(f"/proc/{server.pid}/fd"))
                now = int(had["Threads"]), int(had["VmHWM"].split()[0]) / 1000, files
                for figure, value in zip(FIGURES, now, strict=True):
                    line[figure] = max(value, line.get(figure, 0))
                if time.monotonic() >= due:
                    due = time.monotonic() + 1
                    line["refused"] += filter(None, [missed(kind, port, tls)])
                    line["asked"] += 1
                time.sleep(0.2)
        finally:
            attacker.kill()
            line["connections"] = int(attacker.communicate()[0] or 0)
        until = time.monotonic() + 60
        while (why := missed(kind, port, tls)) and time.monotonic() < until:
            time.sleep(0.5)
        return line | {"good": line["asked"] - len(line["refused"]), "after": "no" if why else "yes"}


def measure(options: argparse.Namespace, output: Path) -> None:
    with output.open("w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "seconds": options.seconds})
        for kind in options.only:
            for name in (it for it in options.attacks if kind in WITH_TLS or it not in TLS):
                head = {"kind": "attack", "server": kind, "attack": name, "load": os.getloadavg()[0]}
                measured = partial(trial, kind, name, options.seconds, options.addresses)
                keep(shared.attempted(head, measured, (OSError, ValueError, KeyError)))


def page(source: Path) -> Page:
    head, *lines = shared.lines(source)
    done = [line for line in lines if "error" not in line]
    body = ["| server | attack | threads | MB | descriptors | connections | good clients | served after |"]
    body.append("| --- | --- |" + " ---: |" * 5 + " --- |")
    for line in done:
        figures = " | ".join(f"{line[name]:,.0f}" for name in (*FIGURES, "connections"))
        served = f"{line['good']} of {line['asked']}"
        body.append(f"| {line['server']} | {line['attack']} | {figures} | {served} | {line['after']} |")
    judged = [
        goals.exact(name, max(line[name] for line in done), most, most=True, unit="")
        for name, most in FIGURES.items()
        if done
    ]
    what = "threads, memory and descriptors of each server under attack, and good clients beside it."
    failed = shared.failures(lines, "server", "attack")
    repeats = f"each attack once for {head['seconds']:g} s"
    return Page("Servers under attack", what, head, lines, body, judged, "", repeats, failed)


if __name__ == "__main__":
    parser = shared.arguments(__doc__, "attacks", 1)
    parser.add_argument("--seconds", type=float, default=60, help="of each attack (default 60)")
    parser.add_argument("--addresses", type=int, default=1, help="of attackers, each with all (default 1)")
    parser.add_argument("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS), metavar="SERVER")
    parser.add_argument(
        "--attacks", nargs="+", choices=list(ATTACKS), default=list(ATTACKS), metavar="ATTACK"
    )
    sys.exit(shared.run("attacks", parser.parse_args(), measure, page))
