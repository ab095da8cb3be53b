"""Trials over charrow before our own server, and as runs of the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.charrow import served
from support.flight import mixed, run_trial, succeeded
from support.measured import ONCE, measured
from support.run import venturi

pytestmark = pytest.mark.usefixtures("core")
ROWS = 120_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("charrow-target")
    table = pa.table({"n": pa.array(range(ROWS), pa.int64()), "t": [f"row {i}" for i in range(ROWS)]})
    other = mixed(3000)
    at = other.schema.get_field_index("colour")
    other = other.set_column(at, "colour", other["colour"].cast(pa.string()))
    for name, rows in (("numbers", table), ("mixed", other)):
        with pa.ipc.new_file(folder / f"{name}.arrow", rows.schema) as writer:
            writer.write_table(rows, max_chunksize=1000)
    tables = {name: folder / f"{name}.arrow" for name in ("numbers", "mixed")}
    with served(tables, environment={"cores": {"usable": 2}}) as address:
        yield address


def get(address: str, text: str | None = None, **changes: Any) -> dict[str, Any]:
    options = changes.pop("options", {}) | ({"query": text} if text is not None else {})
    data = {"source": "remote"} if text is not None else {"source": "records", "columns": 4, "seed": 1}
    return run_trial(f"charrow://{address}", options=options, **{"data": data, **changes})


@pytest.mark.parametrize("options", [{"compression": "lz4"}, {"compression": "zstd"}, {"checksum": True}])
def test_blocks_may_be_compressed_and_summed(server: str, options: dict[str, Any]) -> None:
    record = succeeded(get(server, "SELECT * FROM mixed", streams=3, options=options))
    assert record["counts"]["rows"] == 3000 and record["verification"]["achieved"] == "checksum"
    if "compression" in options:
        plain = succeeded(get(server, "SELECT * FROM numbers"))["counts"]
        packed = succeeded(get(server, "SELECT * FROM numbers", options=options))["counts"]
        assert packed["payload_bytes"] == plain["payload_bytes"]
        assert packed["wire_bytes"] < 0.8 * plain["wire_bytes"]


def test_pools_and_stages_of_both_ends_are_in_the_record(server: str) -> None:
    options = {"encoders": 2, "decoders": 3}
    text = "SELECT * FROM state_rows(rows = 400000)"
    record = succeeded(get(server, text, streams=2, options=options))
    decoders, encoders = record["pools"]["client"]["decoders"], record["pools"]["server"]["encoders"]
    assert (decoders["threads"], encoders["threads"]) == (3, 2)
    for pool in (decoders, encoders):
        assert 0 < pool["busy_ns"] <= pool["time_ns"]
    assert record["workers"]["client"]["workers"] == 2 + 3
    assert record["workers"]["server"]["workers"] == 2 + 2
    assert record["stages"]["server"]["encode"] > 0 and record["stages"]["client"]["receive"] > 0
    for end in ("client", "server"):
        whole = record["workers"][end]["time_ns"]
        assert sum(record["stages"][end].values()) == pytest.approx(whole, rel=0.05)
    assert record["cpu"]["server"]["user_ns"] > 0 and record["target"]["software"].startswith("venturi ")


def test_a_block_over_the_limit_is_refused(server: str) -> None:
    record = get(server, "SELECT * FROM numbers", options={"max_block_bytes": 2000})
    assert record["outcome"] == "failed" and "block" in record["error"]["message"]


@pytest.mark.usefixtures("servers_in_process")
def test_a_run_with_a_server_of_our_own(tmp_path: Path) -> None:
    out = tmp_path / "run"
    axes = ["--streams", "2", "--encoders", "1,2", "--decoders", "0,1", "--data", "states"]
    lines = measured(out, "charrow://local", *axes, "--rows-per-stream", "20k", *ONCE, "--repeats", 2)
    assert len(lines) == 8 and all(line["outcome"] == "ok" for line in lines)
    assert json.loads((out / "environment.json").read_text())["server"]["cores"]["usable"] > 0
    shown = venturi("show", out)
    assert shown.returncode == 0 and "partitions" in shown.stdout, shown.stdout
    best = venturi("best", out)
    assert best.returncode == 0 and "encoders:" in best.stdout and "partition" in best.stdout


@pytest.mark.usefixtures("servers_in_process")
def test_a_file_over_charrow_is_moved_once_whatever_the_partitions(tmp_path: Path) -> None:
    words = ("--streams", "1,3", "--rows-per-batch", "1000,5000", "--data", "builtin:birdstrikes", *ONCE)
    for line in measured(tmp_path / "run", "charrow://local", *words):
        assert (line["outcome"], line["counts"]["rows"]) == ("ok", 10_000)
        assert line["counts"]["batches"] == 10_000 / line["parameters"]["rows_per_batch"]
        assert line["verification"]["achieved"] == "checksum"


def test_raw_tcp_is_measured_through_the_same_server(server: str) -> None:
    from venturi import _core

    spec = {"target": f"charrow://{server}", "options": {}, "direction": "get", "streams": 1,
            "duration_ns": 50_000_000}  # fmt: skip
    answer = json.loads(_core.probe_tcp(json.dumps(spec), _core.Control()))
    assert answer["outcome"] == "ok" and answer["bytes"] > 0, answer


def test_the_server_tells_its_environment(server: str) -> None:
    from venturi import _core

    answer = _core.charrow_environment(f"charrow://{server}", "{}")
    assert json.loads(answer)["cores"]["usable"] > 0
