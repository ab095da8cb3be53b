"""Trials over charrow: before a server of version 1.1 that is not ours, before our own, and as runs of the
command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.charrow import OldServer, serving
from support.flight import ServerProcess, failed, mixed, run_trial, succeeded
from support.run import venturi

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]
ROWS = 120_000


def batches(rows: int = ROWS, of: int = 1000) -> list[pa.RecordBatch]:
    table = pa.table(
        {"n": pa.array(range(rows), pa.int64()), "t": pa.array([f"row {i}" for i in range(rows)])}
    )
    return table.to_batches(max_chunksize=of)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("charrow-target")
    pq.write_table(pa.Table.from_batches(batches()), folder / "numbers.parquet")
    pq.write_table(mixed(3000), folder / "mixed.parquet")
    tables = [f"{name}={folder / name}.parquet" for name in ("numbers", "mixed")]
    with serving("--table", tables[0], "--table", tables[1], "--rows-per-block", "1000") as running:
        yield running


def get(address: str, text: str | None = None, **changes: Any) -> dict[str, Any]:
    options = changes.pop("options", {}) | ({"query": text} if text is not None else {})
    data = {"source": "remote"} if text is not None else {"source": "records", "columns": 4, "seed": 1}
    return run_trial(f"charrow://{address}", options=options, **{"data": data, **changes})


@pytest.mark.parametrize("partitions", range(1, 9))
def test_an_old_server_is_read_by_any_number_of_partitions(partitions: int) -> None:
    with OldServer(batches()) as old:
        record = succeeded(get(old.address, "SELECT 1", streams=partitions, options={"encoders": 3}))
        assert record["counts"]["rows"] == ROWS and record["counts"]["batches"] == ROWS // 1000
        assert sum(stream["rows"] for stream in record["streams"]) == ROWS
        assert record["target"]["reference"] is False
        assert {seen["encoders"] for seen in old.handshakes} == {3}
        assert {seen["encoder"] for seen in old.handshakes} == {"Arrow"}
        asked = set(old.asked)
        assert len(asked) == 1 and asked.pop()[1] == "SELECT 1"


@pytest.mark.parametrize("decoders", [0, 1, 3])
@pytest.mark.parametrize("refuses", [None, "error", "close"])
def test_old_servers_meet_a_new_client_in_three_ways(refuses: str | None, decoders: int) -> None:
    with OldServer(batches(), refuses) as old:
        record = succeeded(get(old.address, "SELECT 1", streams=2, options={"decoders": decoders}))
        assert record["counts"]["rows"] == ROWS
        # What was offered first, and what was spoken in the end.
        assert {seen["minor"] for seen in old.handshakes} == {1, 2}
        assert [seen["minor"] for seen in old.handshakes][-2:] == [1, 1]


def test_version_1_1_says_nothing_of_1_2() -> None:
    with OldServer(batches()) as old:
        succeeded(get(old.address, "SELECT 1", options={"version": "1.1", "user": "me"}))
        assert {seen["minor"] for seen in old.handshakes} == {1}
        assert {seen["user"] for seen in old.handshakes} == {"me"}
        assert not any("\n" in seen["client"] for seen in old.handshakes)


def test_what_a_server_refuses_is_said() -> None:
    with OldServer(batches()) as old:
        old.error = "Code: 60. DB::Exception: Table default.nothing doesn't exist"
        said = failed(get(old.address, "SELECT * FROM nothing"), "protocol", "server", "refused", "remote")
        assert "Table default.nothing doesn't exist" in said


@pytest.mark.parametrize("change", ["cut", "shorter", "noise", "huge", "other"])
def test_a_server_that_breaks_off_or_lies_is_an_error_and_no_result(change: str) -> None:
    other = pa.record_batch({"x": pa.array([1.5])})

    def changed(at: int, payload: bytes) -> bytes | None:
        if at != 7:
            return payload
        return {
            "cut": None,
            "shorter": payload[:-100],
            "noise": payload[:16] + b"\xff" * (len(payload) - 16),
            "huge": payload[:8] + b"\xff\xff\xff\x7f" + payload[12:],
            "other": other.serialize().to_pybytes(),
        }[change]

    with OldServer(batches(20_000)) as old:
        old.change = changed
        record = get(old.address, "SELECT 1")
        assert record["outcome"] == "failed" and record["error"]["message"]


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize(("streams", "encoders", "decoders"), [(1, 1, 1), (4, 2, 0), (2, 3, 2), (8, 1, 1)])
def test_our_own_server_is_verified_by_checksum(
    server: ServerProcess, version: str, streams: int, encoders: int, decoders: int
) -> None:
    options = {"version": version, "encoders": encoders, "decoders": decoders}
    for text in ("SELECT * FROM numbers", "SELECT * FROM mixed", "SELECT * FROM state_rows(rows = 40000)"):
        record = succeeded(get(server.address, text, streams=streams, options=options))
        if version == "1.2":
            assert record["verification"]["achieved"] == "checksum", record["verification"]
            assert record["verification"]["checksum"] == record["verification"]["expected_checksum"]
    record = succeeded(get(server.address, streams=streams, options=options, rows_per_stream=50_000))
    assert record["counts"]["rows"] == 50_000 * streams


@pytest.mark.parametrize("options", [{"compression": "lz4"}, {"compression": "zstd"}, {"checksum": True}])
def test_blocks_may_be_compressed_and_summed(server: ServerProcess, options: dict[str, Any]) -> None:
    record = succeeded(get(server.address, "SELECT * FROM mixed", streams=3, options=options))
    assert record["counts"]["rows"] == 3000 and record["verification"]["achieved"] == "checksum"
    if "compression" in options:
        plain = succeeded(get(server.address, "SELECT * FROM numbers"))["counts"]
        packed = succeeded(get(server.address, "SELECT * FROM numbers", options=options))["counts"]
        assert packed["payload_bytes"] == plain["payload_bytes"]
        assert packed["wire_bytes"] < 0.8 * plain["wire_bytes"]


def test_a_duration_ends_an_endless_query(server: ServerProcess) -> None:
    for text in (None, "SELECT * FROM state_rows()"):
        record = succeeded(get(server.address, text, streams=2, duration_ns=300_000_000))
        assert 0.25e9 < record["times"]["interval_ns"] < 30e9 and record["counts"]["rows"] > 0


def test_pools_and_stages_of_both_ends_are_in_the_record(server: ServerProcess) -> None:
    options = {"encoders": 2, "decoders": 3}
    text = "SELECT * FROM state_rows(rows = 400000)"
    record = succeeded(get(server.address, text, streams=2, options=options))
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


@pytest.mark.parametrize(
    ("options", "said"),
    [({"encoders": 0}, "encoders"), ({"decoders": 1000}, "decoders"), ({"nothing": 1}, "nothing")],
)
def test_options_that_are_none_are_named(server: ServerProcess, options: dict[str, Any], said: str) -> None:
    record = get(server.address, "SELECT * FROM numbers", options=options)
    assert record["outcome"] == "failed" and said in record["error"]["message"]


def test_a_block_over_the_limit_is_refused(server: ServerProcess) -> None:
    record = get(server.address, "SELECT * FROM numbers", options={"max_block_bytes": 2000})
    assert record["outcome"] == "failed" and "block" in record["error"]["message"]


def run_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


SHORT = ("--repeats", "2", "--warmup", "0", "--no-report", "--no-ceilings")


def test_a_run_with_a_server_of_our_own(tmp_path: Path) -> None:
    out = tmp_path / "run"
    axes = ["--streams", "1,2", "--encoders", "1,2", "--decoders", "0,1", "--data", "states"]
    done = venturi("run", "--target", "charrow://local", *axes, "--duration", "200ms", *SHORT, "--out", out)
    assert done.returncode == 0, done.stderr
    lines = run_lines(out)
    assert len(lines) == 16 and all(line["outcome"] == "ok" for line in lines)
    schema = json.loads((resources.files("venturi") / "schema" / "trial.schema.json").read_text())
    check = jsonschema.Draft202012Validator(schema)
    for line in lines:
        check.validate(line)
    assert json.loads((out / "environment.json").read_text())["server"]["cores"]["usable"] > 0
    shown = venturi("show", out)
    assert shown.returncode == 0 and "partitions" in shown.stdout, shown.stdout
    best = venturi("best", out)
    assert best.returncode == 0 and "encoders:" in best.stdout and "partition" in best.stdout


def test_a_file_over_charrow_is_moved_once_whatever_the_partitions(tmp_path: Path) -> None:
    out = tmp_path / "run"
    axes = ["--streams", "1,3", "--rows-per-batch", "1000,5000"]
    data = ["--data", "builtin:birdstrikes"]
    done = venturi("run", "--target", "charrow://local", *axes, *data, *SHORT, "--out", out)
    assert done.returncode == 0, done.stderr
    for line in run_lines(out):
        assert (line["outcome"], line["counts"]["rows"]) == ("ok", 10_000)
        assert line["counts"]["batches"] == 10_000 / line["parameters"]["rows_per_batch"]
        assert line["verification"]["achieved"] == "checksum"


def test_all_transports_of_the_same_records(tmp_path: Path) -> None:
    require_chdb()
    out = tmp_path / "run"
    done = venturi(
        "run", "arrow-transports", "--rows-per-stream", "200k", "--streams", "1", *SHORT, "--out", out
    )
    assert done.returncode == 0, done.stderr
    lines = run_lines(out)
    assert {(line["parameters"]["place"], line["outcome"]) for line in lines} == {
        ("charrow", "ok"),
        ("charrow-unix", "ok"),
        ("flight", "ok"),
        ("flight-unix", "ok"),
        ("http", "ok"),
        ("clickhouse", "ok"),
        ("exec", "ok"),
    }
    ours = [line for line in lines if line["parameters"]["place"] != "clickhouse"]
    assert len({line["verification"]["checksum"] for line in ours}) == 1, (
        "the same values, whatever they came by"
    )
    assert {line["verification"]["rows"] for line in lines} == {200_000}


def test_raw_tcp_is_measured_through_the_same_server(server: ServerProcess) -> None:
    from venturi import _core

    spec = {"target": f"charrow://{server.address}", "options": {}, "direction": "get", "streams": 1,
            "duration_ns": 50_000_000}  # fmt: skip
    answer = json.loads(_core.probe_tcp(json.dumps(spec), _core.Control()))
    assert answer["outcome"] == "ok" and answer["bytes"] > 0, answer


def test_the_server_tells_its_environment(server: ServerProcess) -> None:
    from venturi import _core

    answer = _core.charrow_environment(f"charrow://{server.address}", "{}")
    assert json.loads(answer)["cores"]["usable"] > 0


def require_chdb() -> None:
    from support.needs import require

    try:
        import chdb  # noqa: F401
    except ImportError:
        require(False, "chdb (pip install 'venturi[chdb]')")


def test_chdb_answers_queries_of_clickhouses_sql() -> None:
    require_chdb()
    text = "SELECT number AS n, toString(number) AS t, toDecimal64(number, 2) AS d FROM numbers(1000000)"
    with serving("--engine", "chdb") as server:
        for streams in (1, 3):
            record = succeeded(get(server.address, text, streams=streams, options={"encoders": 2}))
            assert record["counts"]["rows"] == 1_000_000
            assert record["verification"]["achieved"] == "checksum"
        said = get(server.address, "SELECT nothing FROM numbers(3)")
        assert said["outcome"] == "failed" and "UNKNOWN_IDENTIFIER" in said["error"]["message"]
        # And the next one finds the engine well.
        assert succeeded(get(server.address, "SELECT 1 AS one"))["counts"]["rows"] == 1
