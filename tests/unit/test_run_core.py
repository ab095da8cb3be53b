"""`venturi run` with the real engine and servers of our own, from the command to the run directory; how
injected delays and compression are asked for, and what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from pyarrow import flight

from support import read
from support.flight import ServerProcess, failed, gets, records, run_trial, succeeded
from support.link import alive, started
from support.mistakes import check
from support.run import command, environment, venturi
from support.wait import wait_until
from venturi.common.errors import ExitCode, VenturiError
from venturi.servers.reference import ReferenceServer
from venturi.targets.fields import handicap_text
from venturi.targets.system import handicap_ns

pytestmark = pytest.mark.usefixtures("core")

SMALL = ("--rows-per-stream", "200k", "--repeats", "1", "--no-report", "--quiet")


def affinities(pid: int) -> set[str]:
    """On which CPUs the threads of the trial in this process may run."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            if (task / "comm").read_text().startswith("client-"):
                status = (task / "status").read_text()
                found.add(re.search(r"Cpus_allowed_list:\s*(\S+)", status)[1])  # type: ignore[index]
    return found


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system pins no threads")
def test_pinned_threads_keep_to_their_cpu(tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    with ReferenceServer() as server:
        words = ("--target", f"flight://{server.address}", "--streams", 1, "--pin", cpu, "--duration", "600s")
        process = started("run", *words, "--no-ceilings", "--out", tmp_path / "run", cwd=tmp_path)
        try:
            # The first get warms the stream up, before the barrier; the second one is the trial's.
            wait_until(lambda: gets(server.address) >= 2 or process.poll() is not None)
            assert affinities(process.pid) == {str(cpu)}
        finally:
            process.kill()
            process.communicate()


def test_quick_ends_well(tmp_path: Path) -> None:
    fewer = ("--scale", "0.02", "--streams", "4", "--no-report", "--quiet", "--no-ceilings")
    done = venturi("run", "quick", *fewer, "--out", tmp_path / "r")
    assert (done.returncode, done.stderr) == (0, "")
    trials = read.records(tmp_path / "r")
    assert len(trials) == 4 * 4 and {trial["outcome"] for trial in trials} == {"ok"}
    for trial in trials:
        p, counts = trial["parameters"], trial["counts"]
        assert counts["rows"] == p["rows_per_stream"] * p["streams"]
        assert trial["target"]["reference"] and trial["verification"]["achieved"] == "checksum"
    found = json.loads((tmp_path / "r" / "environment.json").read_text())
    assert found["server"]["kernel"] == found["client"]["kernel"]
    assert found["command"] == ["venturi", "run", "quick", *fewer, "--out", str(tmp_path / "r")]


def test_every_reference_server_describes_its_host(tmp_path: Path) -> None:
    places = []
    with ReferenceServer() as server:
        for place, url in (("here", "flight://local"), ("there", f"flight://{server.address}/t")):
            places += ["--place", f"{place}={url}"]
        headers = ("--header", "x-a=hush", "--set", "target.headers.x-b=hush")
        done = venturi(
            "run", *places, *SMALL, *headers, "--no-ceilings", "--operation", "put", "--out", tmp_path / "r"
        )
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "r" / "environment.json").read_text()
    found = json.loads(text)
    assert list(found["servers"]) == ["here", "there"] and found["server"] == found["servers"]["here"]
    assert found["servers"]["there"]["software"]["venturi"] == found["client"]["software"]["venturi"]
    assert "hush" not in text and "x-a=***" in text and "target.headers.x-b=***" in text


def test_a_server_starts_and_ends_with_its_input() -> None:
    with ReferenceServer() as server:
        assert server.running and server.address.startswith("127.0.0.1:") and server.pid is not None
        pid = server.pid
    assert not alive([pid])


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(VenturiError, match="the server flight did not start: --memory: 'x'") as caught:
        ReferenceServer("--memory", "x").start()
    assert caught.value.exit_code == ExitCode.UNREACHABLE


def test_a_port_in_use_is_a_clear_line() -> None:
    with ReferenceServer() as server:
        done = venturi("serve", "flight", "--port", server.address.rsplit(":", 1)[1])
    assert done.returncode == 4 and done.stderr.startswith("error: cannot listen on 127.0.0.1:")
    assert done.stderr.count("\n") == 1


def test_no_server_is_left_after_kill_9(tmp_path: Path) -> None:
    words = command("run", "--duration", "600s", "--out", tmp_path / "r", "--no-report", "--unproven")
    with open(os.devnull, "r+") as null:
        process = subprocess.Popen(words, stdin=null, stdout=null, stderr=null, env=environment())
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    found = wait_until(lambda: children.read_text().split())
    process.kill()
    process.wait()
    wait_until(lambda: not alive([*map(int, found)]))


def test_a_put_and_a_get_of_a_users_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{i},row {i}\n" for i in range(50)))
    done = venturi(
        *("run", "--operation", "get,put", "--data", "t.csv", "--rows-per-batch", "100", "--streams", "1,2"),
        *("--out", "r", "--no-ceilings", *SMALL),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {trial["outcome"] for trial in read.records(tmp_path / "r")} == {"ok"}


# ---- injected delays and compression


def test_a_schedule_is_waited_for_in_peace(reference_server: ServerProcess) -> None:
    """Streams that could not read, because others had not taken what was theirs, woke one another all the
    while: up to 100,000 readings of the clock a batch."""
    work = {"rows_per_batch": 4096, "streams": 4, "threads": 1, "rows_per_stream": 10 * 4096, "rate": 400.0}
    shared = {"data": {"source": "records"}, "options": {"connections": "shared"}}
    record = succeeded(run_trial(f"flight://{reference_server.address}", "get", **shared, **work))
    assert record["counts"]["batches"] == 40
    assert record["instrument"]["clock_reads"] <= 12 * record["counts"]["batches"]


def test_a_handicap_of_a_stage_that_is_not_there(reference_server: ServerProcess) -> None:
    target = f"flight://{reference_server.address}"
    options = {"handicap": {"encode": 1000}}
    record = run_trial(target, "get", data={"source": "records"}, rows_per_stream=10, options=options)
    assert "decode, verify" in failed(record, "usage")


def test_a_table_comes_compressed(reference_server: ServerProcess) -> None:
    table = records(100_000)
    with flight.connect(f"grpc://{reference_server.address}") as client:
        writer, _ = client.do_put(flight.FlightDescriptor.for_path("squeezed"), table.schema)
        with writer:
            writer.write_table(table)
    target = f"flight://{reference_server.address}/squeezed"
    plain = succeeded(run_trial(target))
    small = succeeded(run_trial(target, options={"compression": "zstd:9"}))
    assert small["counts"]["rows"] == plain["counts"]["rows"] == 100_000
    assert small["counts"]["wire_bytes"] < 0.7 * plain["counts"]["wire_bytes"]


def test_an_independent_reader_of_every_level(pyarrow_server: ServerProcess) -> None:
    for name in ("zstd:1", "zstd:22", "lz4"):
        target = f"flight://{pyarrow_server.address}/level/{name.replace(':', '-')}"
        options = {"compression": name}
        record = run_trial(target, "put", rows_per_stream=5000, options=options)
        assert succeeded(record)["counts"]["rows"] == 5000
        with flight.connect(f"grpc://{pyarrow_server.address}") as client:
            path = flight.FlightDescriptor.for_path("level", name.replace(":", "-"))
            info = client.get_flight_info(path)
            assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 5000


def test_a_foreign_server_cannot_be_asked_to_compress(pyarrow_server: ServerProcess) -> None:
    record = run_trial(f"flight://{pyarrow_server.address}/empty", options={"compression": "zstd:9"})
    assert "only Venturi's own server" in failed(record, "usage")


def test_handicaps_are_read_and_normalised() -> None:
    assert handicap_text(" verify = 1500us+decode=1ms") == "decode=1ms+verify=1500us"

    def said(text: str) -> str:
        with pytest.raises(ValueError) as caught:
            handicap_ns(text)
        return str(caught.value)

    check("handicaps", said)


def test_a_scenario_with_a_handicap_and_a_level() -> None:
    planned = venturi(
        "run", "--operation", "get", "--handicap", "none,decode=1000us", "--compression", "zstd:9,zstd:3",
        "--dry-run",
    )  # fmt: skip
    assert planned.returncode == 0, planned.stderr
    assert "handicap=decode=1ms" in planned.stdout
    assert "zstd:9" in planned.stdout
    assert "not its true figures" in planned.stderr
