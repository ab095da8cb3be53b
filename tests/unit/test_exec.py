"""Programs that write rows or read them, as a user runs them; trials with them, and what goes wrong, are in
crates/targets/src/exec/tests.rs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.run import command, environment, venturi
from support.verdict import end, verdict
from support.wait import wait_until
from venturi.common import toml_text
from venturi.measure import ceilings
from venturi.plan import matrix
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.servers import program

SHORT = ("--repeats", "1", "--warmup", "0", "--no-report")
QUIET = (*SHORT, "--no-ceilings")


def lines(run: Path, name: str = "trials") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines()]


def trial(run: Path, *words: object) -> dict[str, Any]:
    done = venturi("run", "--target", "exec://", *words, *QUIET, "--out", run)
    found = lines(run)[0]
    assert (done.returncode == 0) is (found["outcome"] == "ok"), done.stderr
    return found


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """An Arrow stream of 10,000 rows in 5 batches, as another program writes it."""
    path = tmp_path / "rows.arrows"
    table = pa.table({"id": range(10_000), "name": [f"n{n}" for n in range(10_000)]})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=2000)
    return path


@pytest.mark.usefixtures("short_probes")
def test_venturis_own_program_moves_rows_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of trials so short, a part would not do for all probes on a busy machine.
    monkeypatch.setattr(ceilings, "LEAST", 60.0)
    run = tmp_path / "run"
    words = ("--operation", "get,put", "--streams", "2", "--rows-per-stream", "200k")
    done = venturi("run", "--target", "exec://", *words, *SHORT, "--out", run)
    assert done.returncode == 0, done.stderr
    found = lines(run)
    assert len(found) == 2
    for record in found:
        assert record["counts"]["rows"] == 400_000
        assert record["verification"]["achieved"] == "checksum"
        assert record["resources"]["same_machine"] and record["cpu"]["server"] is not None
    probes = lines(run, "ceilings")
    asked = {(p["direction"], p["streams"]) for p in probes if p["kind"] == "pipe"}
    assert asked == {("get", 2), ("put", 2)}
    assert not [p for p in probes if p["kind"] == "tcp" or p["outcome"] != "ok"]
    shown = venturi("show", run)
    assert "raw pipe" in shown.stdout, shown.stdout


def test_a_file_is_what_venturis_own_program_moves(tmp_path: Path, stream: Path) -> None:
    for operation in ("get", "put"):
        words = ("--data", stream, "--operation", operation, "--rows-per-stream", "25k")
        found = trial(tmp_path / operation, *words, "--rows-per-batch", "1000")
        assert (found["counts"]["rows"], found["verification"]["achieved"]) == (25_000, "checksum")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells what is left in a pipe")
def test_what_a_program_leaves_unread_is_not_acknowledged(tmp_path: Path) -> None:
    # It stays until its input is closed, so all of it finds room.
    leaves = "import os, select; os.read(0, 1000); end = select.poll(); end.register(0, 0); end.poll()"
    command = f'{sys.executable} -c "{leaves}"'
    words = ("--command", command, "--operation", "put", "--rows-per-stream", "1000")
    done = venturi(
        "run", "--target", "exec://", *words, *SHORT, "--ceilings", "none", "--out", tmp_path / "r"
    )
    assert done.returncode == 5 and "of its standard input unread" in done.stderr, done.stderr


def test_a_program_in_python_takes_what_is_put(tmp_path: Path) -> None:
    script = tmp_path / "take.py"
    script.write_text(
        "import os, sys\n"
        "import pyarrow as pa\n"
        "rows = sum(batch.num_rows for batch in pa.ipc.open_stream(sys.stdin.buffer))\n"
        "assert sys.argv[1:] == [os.environ['VENTURI_STREAM'], os.environ['VENTURI_ROWS']]\n"
        "print(f'rows={rows}')\n"
    )
    words = ("--command", f"{sys.executable} {script} {{stream}} {{rows}}", "--operation", "put")
    found = trial(tmp_path / "run", *words, "--streams", "2", "--rows-per-stream", "50k")
    assert found["verification"]["achieved"] == "count", found
    assert found["verification"]["expected_rows"] == 100_000


def test_a_program_that_is_waited_for_sets_the_pace() -> None:
    programs = {"target": "exec://", "command": "slow", "data": "remote", "row_bytes": None}
    theirs = {**end(), "by": "client"}
    found = verdict({"await_input": 0.95, "receive": 0.05}, {}, parameters=programs, server_end=theirs)
    assert (found.cause, found.end) == ("server-waited-for", "server")
    assert "the program sets the pace" in found.sentence and "use 0.50 cores" in found.sentence


def test_the_address_has_nothing_behind_it() -> None:
    done = venturi("run", "--target", "exec://cat", "--dry-run")
    assert done.returncode != 0 and "--command" in done.stderr, done.stderr


def test_what_a_program_writes_is_remote_unless_rows_are_named() -> None:
    def data(text: str) -> list[str]:
        whole = f'[target]\nurl = "exec://"\n{text}'
        found = load([Layer("my.toml", toml_text.parse(whole, "my.toml"), whole)])
        return [cell.parameters["data"] for cell in matrix.cells(found)]

    assert data("") == ["records"]
    assert data("command = 'cat x'") == ["remote"]
    assert data("command = 'cat x'\n[workload]\ndata = 'records'") == ["records"]
    assert data("command = 'cat'\n[matrix]\noperation = ['get', 'put']") == ["records", "records"]
    assert data("[matrix]\ncommand = ['cat x', 'cat y']") == ["remote", "remote"]


def _running(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            dead = line and ") Z " in (entry / "stat").read_text()
        except OSError:
            continue
        if word.encode() in line and not dead and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_no_program_outlives_venturi(tmp_path: Path) -> None:
    """That a trial which is cancelled leaves none, crates/targets/src/exec/tests.rs holds."""
    mark = f"venturi-mark-{os.getpid()}"
    script = tmp_path / mark
    script.write_text(
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: print('row')\n"
    )
    words = ("--command", f"{sys.executable} {script}", "--writes", "lines", "--duration", "60s", *QUIET)
    typed = command("run", "--target", "exec://", "--streams", "2", *words, "--out", tmp_path / "run")
    nothing = subprocess.DEVNULL
    run = subprocess.Popen(typed, env=environment(), stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        wait_until(lambda: len([pid for pid in _running(mark) if pid != run.pid]) == 2)
        run.kill()
        run.wait()
        wait_until(lambda: not _running(mark), lambda: "programs are left")
    finally:
        run.kill()
        run.wait()


def test_venturis_own_program_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main({}) == 2
    assert "venturi run --target exec://" in capsys.readouterr().err
