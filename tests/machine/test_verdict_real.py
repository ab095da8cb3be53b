"""Verdicts on bottlenecks made to measure: real servers, real trials, each narrow in one known place.

A noisy machine with two cores is enough: asked for are kind, end and stage, not figures, but where the figure
is the point (what a shaped link carries, what a window lets through).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.flight import ServerProcess, peer_command
from support.path import SERVER_ADDRESS, at_once, hosts, quota, relay, server
from support.run import environment, venturi
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results, load
from venturi.analysis.verdict.causes import Cause, FindingKind
from venturi.analysis.verdict.types import Verdict

CORES = len(os.sched_getaffinity(0))
DELAY_MS = 5.0
WINDOW = 64 * 1024


# That other processes hold the cores is a true verdict, but of this machine.
pytestmark = pytest.mark.noisy


def measure(
    path: Path,
    port: int | str,
    *flags: object,
    host: str = "127.0.0.1",
    within: Any = (),
    batch: str | None = "16Ki",
) -> Results:
    """`venturi run` of one cell against the server at that port."""
    out = path / "run"
    words = [*within, sys.executable, "-m", "venturi", "run", "--target", f"flight://{host}:{port}",
             "--operation", "get", "--duration", "1s", "--repeats", "3",
             "--out", str(out), "--no-report", "--quiet", *map(str, flags)]  # fmt: skip
    words += ["--rows-per-batch", batch] if batch else []
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=120,
                          check=False, stdin=subprocess.DEVNULL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return load(out)


def only(results: Results) -> tuple[Cell, Verdict]:
    (cell,) = results.cells
    return cell, results.verdicts[cell.name]


def rate(cell: Cell) -> float:
    assert cell.throughput.value is not None
    return cell.throughput.value


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_shaped_link(tmp_path: Path, core: object, operation: str) -> None:
    with hosts("1gbit") as two, server(within=two.inside(two.server), host=SERVER_ADDRESS) as end:
        found = measure(tmp_path, end.port, "--operation", operation, "--streams", 2, "--duration", "3s",
                        host=SERVER_ADDRESS, within=two.inside(two.client))  # fmt: skip
    cell, verdict = only(found)
    assert verdict.kind == "link", verdict
    share = rate(cell) * 8 / 1e9
    assert 0.93 < share < 0.97, f"{share:.1%} of 1 Gbit/s"
    assert not verdict.flagged


@pytest.mark.slow
def test_a_link_without_ceilings_is_told_by_its_sockets(tmp_path: Path, core: object) -> None:
    with hosts("1gbit") as two, server(within=two.inside(two.server), host=SERVER_ADDRESS) as end:
        found = measure(tmp_path, end.port, "--streams", 2, "--no-ceilings",
                        host=SERVER_ADDRESS, within=two.inside(two.client))  # fmt: skip
    assert only(found)[1].kind == "link", only(found)[1]


@pytest.mark.slow
def test_a_server_throttled_to_a_tenth_of_a_core(tmp_path: Path, core: object) -> None:
    with server() as end, quota(end.process.pid, 0.1):
        found = measure(tmp_path, end.port, "--duration", "2s", "--no-ceilings")
    _, verdict = only(found)
    assert (verdict.kind, verdict.end) == ("stage", "server"), verdict
    assert verdict.stage in ("generate", "encode", "send")
    assert "0.1 of a core" in verdict.sentence


@pytest.mark.slow
def test_a_server_with_an_added_encode_delay(tmp_path: Path, core: object) -> None:
    with server("--handicap", "encode=2ms") as end:
        found = measure(tmp_path, end.port)
    _, verdict = only(found)
    assert (verdict.kind, verdict.end, verdict.stage) == ("stage", "server", "encode"), verdict


@pytest.mark.slow
def test_a_slow_decoder_in_the_client_is_the_load_generator(tmp_path: Path, core: object) -> None:
    with server() as end:
        found = measure(tmp_path, end.port, "--handicap", "decode=2ms")
    _, verdict = only(found)
    assert (verdict.kind, verdict.end, verdict.stage) == ("load-generator", "client", "decode"), verdict
    assert verdict.flagged


@pytest.mark.slow
def test_small_windows_over_a_path_with_delay(tmp_path: Path, core: object) -> None:
    with server(within=at_once()) as end, relay(end.port, DELAY_MS) as port:
        found = measure(tmp_path, port, "--window", WINDOW, "--no-ceilings", within=at_once())
    cell, verdict = only(found)
    assert (verdict.kind, verdict.stage) == ("flow-control", "await_window"), verdict
    assert "64 KiB / 1" in verdict.sentence, verdict.sentence
    bound = WINDOW / (2 * DELAY_MS / 1000)
    assert 0.6 * bound < rate(cell) < 1.1 * bound
    assert any("--window none" in text for text in verdict.next)


@pytest.mark.slow
def test_the_relay_itself_limits_nothing_like_that(tmp_path: Path, core: object) -> None:
    with server() as end, relay(end.port, DELAY_MS) as port:
        found = measure(tmp_path, port, "--no-ceilings")
    cell, verdict = only(found)
    assert rate(cell) > 10 * WINDOW / (2 * DELAY_MS / 1000)
    assert verdict.stage != "await_window"


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "where"), [("get", "server"), ("put", "client")])
def test_a_heavy_compression_level(tmp_path: Path, core: object, operation: str, where: str) -> None:
    with server() as end:
        found = measure(tmp_path, end.port, "--operation", operation, "--compression", "zstd:15",
                        "--no-ceilings")  # fmt: skip
    _, verdict = only(found)
    assert (verdict.kind, verdict.end, verdict.stage) == ("stage", where, "encode"), verdict
    assert not verdict.flagged


@pytest.mark.slow
def test_all_cores_full(tmp_path: Path, core: object) -> None:
    with server() as end:
        found = measure(tmp_path, end.port, "--streams", 4 * CORES, "--duration", "2s", "--no-ceilings")
    _, verdict = only(found)
    assert verdict.kind == "cores", verdict
    assert verdict.end is None
    assert "receive" in verdict.sentence
    assert "send" in verdict.sentence


@pytest.mark.slow
def test_a_rate_that_is_kept_up(tmp_path: Path, core: object) -> None:
    with server() as end:
        found = measure(tmp_path, end.port, "--rate", 200, "--no-ceilings")
    _, verdict = only(found)
    assert verdict.kind == "schedule", verdict
    assert verdict.flagged


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "causes"),
    [
        # Of a get only the client's waiting is seen; raw TCP to that host is not measured.
        ("get", {Cause.SERVER_OR_PATH}),
        ("put", {Cause.SOCKET_BLOCKED, Cause.SERVER_OR_PATH}),
    ],
)
def test_a_foreign_server_behind_a_link_is_not_what_is_slow(
    tmp_path: Path, core: object, operation: str, causes: set[Cause]
) -> None:
    with hosts("200mbit") as two:
        end = ServerProcess([*two.inside(two.server), *peer_command("--host", SERVER_ADDRESS)])
        try:
            found = measure(tmp_path, f"{end.port}/sleeps/0", "--operation", operation, "--streams", 2,
                            host=SERVER_ADDRESS, within=two.inside(two.client),
                            batch="16Ki" if operation == "put" else None)  # fmt: skip
        finally:
            end.stop()
    assert only(found)[1].cause in causes, only(found)[1]


@pytest.mark.slow
@pytest.mark.parametrize("takes", ["sleeps/3000", "burns/1000"])
def test_a_foreign_server_that_takes_its_time_on_puts(
    tmp_path: Path, core: object, pyarrow_server: ServerProcess, takes: str
) -> None:
    """Neither a window nor an acknowledgement is what a stranger's own code waits for."""
    out, url = tmp_path / "run", f"flight://{pyarrow_server.address}/{takes}"
    done = venturi(
        "run", "--target", url, "--operation", "put", "--duration", "2s",
        "--repeats", 3, "--no-report", "--no-ceilings", "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, verdict = only(load(out))
    assert verdict.cause is Cause.SERVER_WAITED_FOR, verdict


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_server_that_does_one_thing_at_a_time(
    tmp_path: Path, core: object, pyarrow_server: ServerProcess, operation: str
) -> None:
    """Python's lock: one core whatever the streams, and of puts what its other threads receive."""
    out, url = tmp_path / "run", f"flight://{pyarrow_server.address}/burns/1000"
    done = venturi(
        "run", "--target", url, "--operation", operation, "--streams", "1,2,4", "--duration", "2s",
        "--repeats", 3, "--no-report", "--no-ceilings", "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = load(out)
    causes = {verdict.cause for verdict in results.verdicts.values()}
    assert causes == {Cause.SERIAL_SERVER}, results.verdicts
    (finding,) = results.findings
    assert finding.kind in (FindingKind.FLAT_THROUGHOUT, FindingKind.UNDECIDED), finding
    assert "it does one thing at a time" in finding.sentence
    assert any("py-spy top --pid PID" in step for step in finding.next)
