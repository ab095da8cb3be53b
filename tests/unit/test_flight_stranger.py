"""A stranger's Flight server, an engineer's own with a table `t`: what can be said of it, and asked."""

from __future__ import annotations

import json
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.flight
import pytest
from typer.testing import CliRunner

from support.flight import ServerProcess, served
from support.flight_peer import peer
from support.read import ONCE, ran
from support.run import helper, venturi
from support.stranger import stranger
from support.synthetic import lines
from support.verdict import SECOND, summarise, trial
from venturi.analysis.advice import Advice, collect
from venturi.analysis.cells.summary import Cell
from venturi.analysis.verdict.evidence import facts, medians, seen
from venturi.analysis.verdict.findings import findings
from venturi.analysis.verdict.judge import remedies, verdicts
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.rules import RULES
from venturi.analysis.verdict.types import Diagnosis
from venturi.cli import app
from venturi.measure.run_events import scenario_of
from venturi.plan import matrix
from venturi.plan.layers import file_layer
from venturi.plan.load import load, to_toml
from venturi.report import cell as one_cell
from venturi.store.directory import RunDirectory

OTHERS = {"server-limit", "pool-busy", "calls-busy", "calls-take-turns", "calls-wait", "slow-start"}
"""Causes of other systems: of databases, of targets in Python, of ends with pools of threads, of links that
were made."""
TABLE = {"target": "flight://10.0.0.2:31337/t", "data": "remote", "operation": "get", "row_bytes": None}


def read(repeat: int = 0, parameters: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A trial that read the table `t` of a server that tells nothing of itself, in batches of 4,096 rows."""
    given = {**TABLE, **(parameters or {})}
    record = trial(
        {"await_input": 0.9, "receive": 0.1}, {}, parameters=given, repeat=repeat,
        cell=f"get-{given.get('rows_per_batch', 4096)}", cpu=None, **more,
    )  # fmt: skip
    record["counts"] |= {"rows": 409_600, "batches": 100}
    return record


def summed(**more: Any) -> list[Cell]:
    return summarise([read(n, **more) for n in range(5)])


# ---- what is proposed ----------------------------------------------------------------


def refusal(words: list[str]) -> str:
    """Why `venturi` refuses these words; empty where it takes them."""
    done = CliRunner().invoke(app, words)
    return "" if done.exit_code == 0 else f"{done.exception!r} {done.output}"


@pytest.mark.parametrize(
    ("path", "typed"),
    [
        ("/t", ["--data", "remote"]),
        ("/sales/2026", ["--data", "remote", "--token-env", "TOKEN", "--tls-insecure"]),
        ("?command=SELECT%201", ["--data=remote", "--user", "ada", "--password-env", "PASSWORD"]),
        ("?ticket=x", []),
    ],
)
def test_what_is_proposed_can_be_run(path: str, typed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "PASSWORD"):
        monkeypatch.setenv(name, "x")
    tls = "--tls-insecure" in typed
    url = f"flight{'+tls' if tls else ''}://10.0.0.2:31337{path}"
    (cell,) = summed(parameters={"target": url})
    environment = {"command": ["venturi", "run", "--target", url, "--operation", "get", *typed]}
    known = seen(cell, medians([facts(r, {}) for r in cell.records]), 5)
    rerun = Rerun.of(cell, environment)
    texts = {text: "the verdict" for text in verdicts([cell], environment)[cell.name].next}
    for cause in RULES.keys() - OTHERS:
        hit = Diagnosis(
            cause, None if RULES[cause].kind == "cores" else "client", "receive", 1.0, {"quota_cores": 1.0}
        )
        found = [replace(r, command=rerun.proposed(r)) for r in remedies(known, hit)]
        texts |= {remedy.text: cause for remedy in found}
    commands: dict[str, str] = {}
    for text, cause in texts.items():
        assert "--rows-per-batch" not in text and "--compression" not in text, cause
        assert f"ceilings {url}" not in text, "it does not answer the probe"
        commands |= dict.fromkeys(re.findall(r"venturi run .*", text), cause)
    assert commands
    for command, cause in commands.items():
        assert refusal([*shlex.split(command)[1:], "--dry-run"]) == "", (cause, command)


def test_a_table_goes_along_to_the_server_that_takes_its_place() -> None:
    (cell,) = summed()
    environment = {
        "command": ["venturi", "run", "--place", "there=flight://10.0.0.2:31337/t", "--data", "remote"]
    }
    (text,) = [t for t in verdicts([cell], environment)[cell.name].next if "venturi serve flight" in t]
    assert text.endswith(
        "venturi serve flight --host 0.0.0.0 --table t=FILE there, then "
        "venturi run --data remote --target flight://HOST:31337/t"
    )


# ---- how large a batch is -------------------------------------------------------------


def test_rows_a_batch_are_ours_to_choose_but_for_its_table() -> None:
    for words in (
        ["--target", "flight://h/t", "--operation", "put"],
        ["--target", "flight://h"],
        ["--place", "a=flight://a", "--place", "b=flight://b"],
    ):
        assert refusal(["run", *words, "--rows-per-batch", "1k,4k", "--dry-run"]) == ""


def test_rows_a_batch_of_a_file_are_left_out_where_a_run_begins_and_kept_where_one_goes_on(
    tmp_path: Path,
) -> None:
    """The names of its cells are made of them: those that it has would all be measured again."""
    file = tmp_path / "scenario.toml"
    (tmp_path / "trials.jsonl").touch()
    for data in ("remote", "records"):
        file.write_text(
            f"[target]\nurl = 'flight://h/t'\n[workload]\noperation = 'get'\ndata = '{data}'\n"
            "[matrix]\nrows_per_batch = [1024, 16384]\nstreams = [1, 2]\n"
            "zip = [['rows_per_batch', 'streams']]\nalso = [{ rows_per_batch = [1, 2], streams = [3, 4] }]\n"
        )
        begun = load([file_layer(str(file))])
        assert [cell.parameters["rows_per_batch"] for cell in matrix.cells(begun)] == [4096] * 4
        going = scenario_of(RunDirectory(tmp_path))
        assert [c.parameters["rows_per_batch"] for c in matrix.cells(going)] == [1024, 16384, 1, 2]
        file.write_text(to_toml(begun))
        again = matrix.cells(scenario_of(RunDirectory(tmp_path)))
        assert [c.id for c in again] == [c.id for c in matrix.cells(begun)]


def test_batches_that_arrived_alike_compare_nothing() -> None:
    """As runs have them that were made before such flags were refused, and as a perf server may send them."""
    for target in ("flight://10.0.0.2:31337/t", "flight://10.0.0.2:31337"):
        cells = summarise(
            [
                read(n, {"rows_per_batch": rows, "target": target}, rate=rate)
                for rows, rate in ((4096, 1e9), (16384, 1.01e9), (65536, 0.99e9))
                for n in range(5)
            ]
        )
        (found,) = findings(cells, verdicts(cells))
        assert found.sentence == (
            "4,096 to 65,536 rows per batch were asked for and 4,096 rows per batch came each time: "
            "nothing is compared"
        )
        assert not found.next


def test_batches_that_a_stream_cannot_fill_are_no_choice_of_the_server() -> None:
    cells = summarise(
        [
            read(n, {"operation": "put", "rows_per_batch": rows, "rows_per_stream": 50_000}, rate=rate)
            for rows, rate in ((65536, 1e9), (262144, 1.01e9))
            for n in range(5)
        ]
    )
    (found,) = findings(cells, verdicts(cells))
    assert found.title == "put: a stream fits into one batch"
    assert found.sentence.endswith(
        "a stream has only 50,000 rows, so no batch is larger: nothing is compared"
    )


# ---- what is warned of ------------------------------------------------------------------


def warned(cells: list[Cell], kind: str) -> Advice | None:
    found = collect.advise(cells, [r for c in cells for r in c.records], [])
    return next((a for a in found if a.kind == kind), None)


@pytest.mark.parametrize("asked", ["checksum", "count"])
@pytest.mark.parametrize("achieved", ["none", "acknowledged"])
def test_what_could_not_be_verified_was_not_left_out_on_purpose(asked: str, achieved: str) -> None:
    verification = {"requested": asked, "achieved": achieved, "note": "the server does not say"}
    cells = summed(verification=verification)
    assert warned(cells, "unverified") is None
    told = warned(cells, "weaker")
    assert told is not None and told.cause == "the server does not say" and asked in told.finding
    assert told.next.startswith("Neither values nor rows were compared")


def test_verify_none_is_still_called_by_its_name() -> None:
    cells = summed(verification={"requested": "none", "achieved": "none"})
    told = warned(cells, "unverified")
    assert told is not None and told.cause == 'the scenario asks for verify = "none"'


def timed(batches: int, ns: float) -> dict[str, Any]:
    percentiles = [[p, ns] for p in (50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0)]
    service = {"count": batches, "min": ns, "mean": ns, "max": ns, "percentiles": percentiles}
    return {"latency": {"service": service, "response": None}}


@pytest.mark.parametrize(
    ("batches", "known"),
    [
        (1, [100.0]),
        (2, [50.0, 100.0]),
        (99, [50.0, 90.0, 95.0, 100.0]),
        (100, [50.0, 90.0, 95.0, 99.0, 100.0]),
    ],
)
def test_a_percentile_has_a_batch_beyond_it(batches: int, known: list[float]) -> None:
    (cell,) = summed(**timed(batches, 2.13e9))
    assert sorted(cell.latency) == known
    shown = dict(one_cell.figures(cell))
    assert shown["batches timed"].startswith(f"{batches} a trial at least")
    assert ("p99 needs 100" in shown["batches timed"]) == (batches < 100)


def test_a_trial_that_is_over_before_a_batch_is() -> None:
    cells = summed(parameters={"duration_ns": SECOND // 2}, **timed(1, 2.13e9))
    told = warned(cells, "cut")
    assert told is not None and "2.130 s against --duration 500.0 ms" in told.finding
    assert told.next == "Measure ten batches or more: --duration 22s"
    assert warned(summed(parameters={"duration_ns": SECOND}, **timed(100, 1e7)), "cut") is None


def test_a_table_that_is_read_to_its_end_is_not_made_longer_by_a_flag() -> None:
    cells = summed(parameters={"duration_ns": 5 * SECOND})
    for cell in cells:
        for record in cell.records:
            record.times.interval_ns = 4_000_000
    cells = summarise([r for c in cells for r in c.records])
    told = warned(cells, "short")
    assert told is not None and told.next == "The server has sent all that it holds: read a larger table"


# ---- a real one ----------------------------------------------------------------------------


def run(tmp_path: Path, *words: object, expect: int = 0) -> tuple[list[dict[str, Any]], str]:
    """The trials of a small run, and what it said."""
    out = tmp_path / "run"
    done = venturi(
        "run", *words, "--operation", "get,put", "--repeats", 2, "--warmup", 0, "--rows-per-stream", 1000,
        "--no-report", "--no-ceilings", "--out", out,
    )  # fmt: skip
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    return lines(out), done.stderr


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("kind", [(), ("--one-table",)])
def test_a_server_without_the_perf_protocol_fails_one_get(kind: tuple[str, ...], tmp_path: Path) -> None:
    with peer(*kind) as address:
        trials, said = run(tmp_path, "--target", f"flight://{address}", "--streams", "1,2", expect=5)
    failed = [t for t in trials if t["outcome"] != "ok"]
    assert [t["error"]["kind"] for t in failed] == ["unsupported"]
    message = failed[0]["error"]["message"]
    assert f"{address} does not speak Arrow's perf protocol" in message
    assert f"name a table of it (flight://{address}/TABLE)" in message
    assert "it lists /mixed, /records, /t" in message
    assert len([t for t in trials if t["parameters"]["operation"] == "put"]) == 4, "puts go well"
    assert f"flight://{address} let no get begin; its other gets are left out" in said


def found_out(tmp_path: Path, url: str, *more: object) -> tuple[set[tuple[str, str, int]], str]:
    """What is measured where only an address is typed: targets, operations and streams; and what is said."""
    out = tmp_path / "found"
    done = venturi("run", "--target", url, *ONCE, *more, "--out", out)
    assert done.returncode == 0, done.stderr
    trials = lines(out)
    # What was found out is a part of the command, for the next one is made of it.
    typed = json.loads((out / "environment.json").read_text())["command"]
    assert typed[typed.index("--streams") + 1] == "1,2,4" and typed.count("--target") == 1
    assert typed[typed.index("--target") + 1] == trials[0]["parameters"]["target"]
    return {
        (t["parameters"]["target"], t["parameters"]["operation"], t["parameters"]["streams"]) for t in trials
    }, done.stderr


@pytest.mark.usefixtures("core")
def test_of_an_address_alone_the_largest_flight_is_read(tmp_path: Path) -> None:
    with peer() as address:
        url = f"flight://{address}"
        measured, said = found_out(tmp_path, url)
    assert measured == {(f"{url}/t", "get", streams) for streams in (1, 2, 4)}
    assert "lists /mixed (1k rows), /records (10k rows), /t (20k rows)" in said
    assert f"/t is read; another by: --target '{url}/mixed'" in said


@pytest.mark.usefixtures("core")
def test_of_an_address_alone_a_server_of_records_makes_them(tmp_path: Path) -> None:
    with served("flight") as address:
        url = f"flight://{address}"
        measured, said = found_out(tmp_path, url, "--scale", "0.1")
    assert measured == {(url, operation, n) for operation in ("get", "put") for n in (1, 2, 4)}
    assert "makes records on demand (Arrow's perf protocol)" in said


def test_of_an_address_alone_a_database_is_swept_too() -> None:
    said = venturi("run", "--target", "sqlite://local", "--dry-run").stdout
    cells = [line.split()[1:] for line in said.splitlines()[:4]]
    assert cells[:3] == [["upsert", f"streams={streams}"] for streams in (1, 2, 4)]
    assert "cells: 3," in said


def test_a_dry_run_asks_no_server() -> None:
    done = venturi("run", "--target", "flight://h", "--dry-run")
    assert "cells: 6," in done.stdout
    assert "h:31337 is not asked what it has" in done.stderr


@pytest.mark.usefixtures("core")
def test_an_address_where_nothing_can_be_found_out(tmp_path: Path) -> None:
    def refused(port: int) -> tuple[int, str]:
        out = tmp_path / "run"
        done = venturi("run", "--target", f"flight://127.0.0.1:{port}", *ONCE, "--out", out)
        assert not out.exists()
        return done.returncode, done.stderr

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, said = refused(port)
    assert code == 4 and "nothing listens there" in said
    with stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        code, said = refused(port)
    assert code == 4 and "does it speak HTTP/2 (gRPC) on this port?" in said
    with pyarrow.flight.FlightServerBase("grpc://127.0.0.1:0") as server:
        code, said = refused(server.port)
    assert code == 2 and "does not list its flights, and makes no records on demand" in said
    assert f"hint: venturi run --target flight://127.0.0.1:{server.port}/TABLE" in said


@pytest.mark.usefixtures("core")
def test_its_own_ceilings_cannot_be_probed(pyarrow_server: ServerProcess) -> None:
    url = f"flight://{pyarrow_server.address}/t"
    done = venturi("ceilings", url, "--only", "tcp", "--streams", "1", "--repeats", "1", "-q")
    assert done.returncode == 5
    assert "it is no `venturi serve`, which alone answers this probe" in done.stderr
    assert "hint: start one on that host, and name it: venturi serve flight" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("limit", [[], ["--duration", "20s"]])
def test_a_table_read_to_its_end_is_counted(
    pyarrow_server: ServerProcess, tmp_path: Path, limit: list[str]
) -> None:
    url = f"flight://{pyarrow_server.address}/t"
    trials = ran(tmp_path / "run", "--target", url, "--operation", "get", *limit, *ONCE)
    assert {(t["counts"]["rows"], t["verification"]["achieved"]) for t in trials} == {(20_000, "count")}
    assert "remote, 4k rows/batch" in venturi("show", tmp_path / "run").stdout.replace("\n", " ")


@pytest.fixture(params=["tcp", "unix"])
def relayed(
    pyarrow_server: ServerProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[ServerProcess]:
    listen = "127.0.0.1" if request.param == "tcp" else str(tmp_path / "relay.sock")
    relay = ServerProcess(helper("delay_relay", pyarrow_server.port, 0, listen))
    yield relay
    relay.stop()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are told by /proc")
@pytest.mark.usefixtures("core")
def test_what_a_proxy_uses_is_not_told_as_the_servers(
    relayed: ServerProcess, pyarrow_server: ServerProcess, tmp_path: Path
) -> None:
    def at(place: str) -> str:
        return f"flight+unix://{place}:/slow/30" if place.startswith("/") else f"flight://{place}/slow/30"

    for server, proxied in ((relayed, True), (pyarrow_server, False)):
        out = tmp_path / str(proxied)
        (record,) = ran(out, "--target", at(server.address), "--operation", "get", *ONCE)
        assert (record["cpu"]["server"] is None) == proxied
        assert (record["target"]["pid"] == server.process.pid) != proxied
        assert ("relay" in record["target"]) == proxied
        if proxied:
            to = f"has a connection of its own to {pyarrow_server.address}"
            assert record["target"]["relay"].endswith(to)
            assert str(server.process.pid) in record["target"]["relay"]
            shown = " ".join(venturi("show", out, "--cell", "best").stdout.split())
            assert "it may be a proxy, so nothing of it is reported as the server's" in shown
