"""Raw Unix sockets as a limit, measured on this machine. Which limit a cell has, and what a probe answers,
are facts of tests/unit/test_unix.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.read import ran
from support.run import venturi
from venturi.analysis.results import load as results_of
from venturi.measure import ceilings
from venturi.servers.reference import SocketServer

pytestmark = pytest.mark.usefixtures("core")


def test_both_ways_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its twin: `test_a_cell_over_a_socket_has_that_as_its_limit`."""
    # Of trials so short, a part would not do for all probes on a busy machine.
    monkeypatch.setattr(ceilings, "LEAST", 60.0)
    file = tmp_path / "both.toml"
    file.write_text('name = "x"\n[matrix]\ntarget = ["flight://local", "flight+unix://local"]\n')
    words = ["--duration", "1s", "--streams", "1", "--repeats", "2", "--warmup", "0", "--no-report"]
    ran(tmp_path / "run", file, "--operation", "get", *words)
    results = results_of(tmp_path / "run")
    limits = {cell.parameters["target"]: set(cell.ceilings) for cell in results.cells}
    assert "raw TCP" in limits["flight://local"] and "raw Unix socket" not in limits["flight://local"]
    assert (
        "raw Unix socket" in limits["flight+unix://local"] and "raw TCP" not in limits["flight+unix://local"]
    )
    lines = [json.loads(line) for line in (tmp_path / "run" / "ceilings.jsonl").read_text().splitlines()]
    assert {line["round"] for line in lines if line["kind"] == "unix"} == {0, 1}


def test_the_limits_of_this_machine_have_both() -> None:
    """Its twin: `test_raw_sockets_are_probed_beside_the_servers_own`."""
    done = venturi(
        "ceilings", "--only", "tcp,unix", "--streams", "1", "--repeats", "1", "--duration", "50ms", "-q"
    )
    assert done.returncode == 0, done.stderr
    assert "raw TCP get, 1 connection" in done.stdout and "raw Unix socket put, 1 connection" in done.stdout
    assert "the lowest limit of a transfer over a Unix socket" in " ".join(done.stdout.split())
    with SocketServer() as server:
        done = venturi(
            "ceilings", server.url, "--only", "unix", "--streams", "1", "--repeats", "1",
            "--duration", "50ms", "--format", "json", "-q",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        places = {limit["place"] for limit in json.loads(done.stdout)["limits"]}
        assert places == {"local", server.address}
