"""Stock Arrow C++, the implementation behind most Flight servers, against Venturi's client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.flight import ServerProcess, run_trial, succeeded
from support.needs import require
from support.run import ROOT

pytestmark = pytest.mark.usefixtures("core")


@pytest.fixture(scope="module")
def peers() -> dict[str, Path]:
    """The bench's C++ peers; stock Arrow C++ is the implementation behind most Flight servers."""
    build = [sys.executable, "-m", "bench.flight.build"]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    require(done.returncode == 0, f"a C++20 compiler or Arrow C++ ({done.stderr.strip()[-200:]})")
    return {Path(line).name: Path(line) for line in done.stdout.split()}


def test_trials_against_arrow_cpp(peers: dict[str, Path]) -> None:
    size = {"rows_per_stream": 200_001, "rows_per_batch": 4096, "data": {"source": "records", "columns": 4}}
    with ServerProcess([str(peers["peer_server"]), "--exit-with-parent"]) as server:
        for operation in ("get", "put"):
            for streams in (1, 3):
                target = f"flight://{server.address}"
                record = succeeded(run_trial(target, operation, streams=streams, **size))
                assert record["counts"]["rows"] == 200_001 * streams
                assert record["target"]["protocol"] == "perf"
