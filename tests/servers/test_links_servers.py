"""Somebody else's servers over links: reached by Venturi's own client, by a program, a target in Python and a
driver; none gets more than the link carries."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

import venturi as api
from support.adbc import driver
from support.link import gone, host_has_namespaces, only_the_first, started, tree, until  # noqa: F401 - a fixture
from support.plugin import package, venturi_with
from support.read import ran, records
from support.run import venturi
from support.wait import wait_until
from venturi.common.links import Link
from venturi.netlab.network import address

pytestmark = pytest.mark.usefixtures("core")

QUIET = ("--no-ceilings", "--no-report", "--repeats", "1", "--warmup", "0", "--duration", "1s")
LINK, RATE = "40mbit 10ms", 4e7
FLIGHT = """
import sys
import pyarrow as pa
import pyarrow.flight as flight

class Server(flight.FlightServerBase):
    def get_flight_info(self, context, descriptor):
        return flight.FlightInfo(ROWS.schema, descriptor, [flight.FlightEndpoint(b"t", [])], -1, -1)
    def do_get(self, context, ticket):
        return flight.RecordBatchStream(pa.Table.from_batches([ROWS] * 1000))

ROWS = pa.record_batch({"a": pa.array(range(10_000))})
Server(f"grpc://{sys.argv[1]}:5000").serve()
"""
SOCKET = """
import contextlib
import os
import socket
import sys
import threading
import pyarrow as pa

def serve(client):
    with contextlib.suppress(OSError), client, client.makefile("wb") as file:
        with pa.ipc.new_stream(file, ROWS.schema) as writer:
            for n in range(10_000):
                writer.write_batch(ROWS)

ROWS = pa.record_batch({"a": pa.array(range(10_000))})
server = socket.create_server((sys.argv[1], 5000))
if "--once" in sys.argv:
    serve(server.accept()[0])
    os._exit(0)
while True:
    threading.Thread(target=serve, args=[server.accept()[0]]).start()
"""
CLIENT = """
import shutil
import socket
import sys
shutil.copyfileobj(socket.create_connection((sys.argv[1], 5000)).makefile("rb"), sys.stdout.buffer)
"""
PLUGIN = """
import socket
from urllib.parse import urlsplit
import pyarrow as pa

class Target:
    interface, name, operations, gets = 1, "Arrow IPC over a socket", ("get",), "own"
    def plan(self, trial):
        self.place = urlsplit(trial.url)
        return self
    def produce(self, stream):
        connection = socket.create_connection((self.place.hostname, self.place.port))
        return pa.ipc.open_stream(connection.makefile("rb"))
"""


FAR = "flight://{server}:5000/t"


def script(folder: Path, text: str) -> str:
    """The beginning of a command that runs it."""
    file = folder / "script.py"
    file.write_text(text)
    return f"{sys.executable} {file}"


def client(folder: Path) -> tuple[str, str]:
    """The setting of a program that reads what a server of SOCKET sends."""
    (folder / "client.py").write_text(CLIENT)
    return "command", f"{sys.executable} {folder}/client.py {{server}}"


@pytest.mark.parametrize("way", ["flight", "program", "python", "driver"])
def test_it_is_measured_and_no_faster_than_the_link(tmp_path: Path, way: str) -> None:
    server = f"{script(tmp_path, FLIGHT if way == 'flight' else SOCKET)} {{server}}"
    words: tuple[str, ...] = (
        "--target",
        {"flight": FAR, "program": "exec://"}.get(way, "mine://{server}:5000"),
    )
    if way == "program":
        words += ("--command", client(tmp_path)[1])
    elif way == "driver":
        driver("postgresql")
        server = f"{sys.executable} -m venturi serve postgres --host {{server}} --port 5433"
        words = ("--target", "adbc://postgresql", "--operation", "put", "--rows-per-batch", "10k")
        words += ("--driver-option", "uri=postgresql://venturi@{server}:5433/venturi")
    package(tmp_path / "site", "mine", PLUGIN)
    out = tmp_path / "run"
    words += ("--server", server, "--link", LINK, *QUIET, "--out", str(out))
    done = venturi_with(tmp_path / "site", "run", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (found,) = records(out)
    assert (found["parameters"]["link"], found["outcome"]) == (LINK, "ok"), found["error"]
    part = found["counts"]["payload_bytes"] * 8e9 / found["times"]["interval_ns"]
    # What is in buffers when the clock starts is more than the link carries.
    assert 0 < part < 1.35 * RATE * Link().payload_part
    if way == "flight":
        assert found["parameters"]["target"] == FAR
        assert found["target"]["address"] == f"{address('server')}:5000"
        # Its process is in another namespace, and is found there.
        assert found["cpu"]["server"] is not None


def test_one_that_ends_is_started_again(tmp_path: Path) -> None:
    """It serves one client. The second trial begins when nothing of it is left."""
    server = script(tmp_path, SOCKET)

    def told(event: api.Event) -> None:
        if event.number == 1 and event.record is not None and event.record["outcome"] == "ok":
            wait_until(lambda: "--once" not in " ".join(tree(os.getpid()).values()))

    run = api.run(
        out=tmp_path / "run", target="exec://", server=f"{server} {{server}} --once", link=["2mbit"],
        duration="1s", repeats=2, warmup=0, ceilings=False, progress=told, **dict([client(tmp_path)]),
    )  # fmt: skip
    assert [trial["outcome"] for trial in run.trials.to_pylist()] == ["ok", "ok"]


def test_one_that_takes_its_time_beside_ours(tmp_path: Path) -> None:
    """Ours listens in the same place meanwhile."""
    server = script(tmp_path, f"import time\ntime.sleep(2)\n{FLIGHT}")
    places = ("--place", f"own={FAR}", "--place", "ours=flight://local")
    words = ("--server", f"{server} {{server}}", "--operation", "get", "--link", "40mbit")
    found = ran(tmp_path / "run", *places, *words, *QUIET)
    assert [line["outcome"] for line in found] == ["ok", "ok"]


def test_one_that_does_not_serve(tmp_path: Path) -> None:
    words = ("--target", FAR, "--link", "20mbit", "--server", "sh -c 'echo no; exit 3'")
    done = venturi("run", *words, *QUIET, "--out", tmp_path / "run")
    assert done.returncode == 4, done.stderr
    assert "error: --server sh: ended before anybody could connect to it: no" in done.stderr


def test_a_ctrl_c_is_heard_while_it_is_waited_for(tmp_path: Path) -> None:
    words = ("--target", FAR, "--link", "20mbit", "--server", "sleep 1000")
    run = started("run", *words, *QUIET, "--out", tmp_path / "run", cwd=tmp_path)
    until(run.pid, "sleep 1000")
    everybody = list(tree(run.pid))
    run.send_signal(signal.SIGINT)
    run.communicate()
    assert run.returncode == 130
    gone(everybody)


def test_it_serves_a_resumed_run_too(tmp_path: Path) -> None:
    """As if the run had been killed in its second trial."""
    out = tmp_path / "run"
    words = ("--target", FAR, "--server", f"{script(tmp_path, FLIGHT)} {{server}}")
    given = (*words, "--operation", "get", "--link", "20mbit", *QUIET, "--repeats", 2, "--out", out)
    for step in (("run", *given), ("run", "--resume", out)):
        only_the_first(out)
        done = venturi(*step)
        assert done.returncode == 0, done.stderr
        assert [line["outcome"] for line in records(out)] == ["ok"] * 2
