"""Each foreign format: what a sample of it becomes, figure by figure."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.imports import FORMATS, SAMPLES, imported, one
from venturi.analysis.cells.figures import per_second, percentile, throughput
from venturi.analysis.results import load
from venturi.store.directory import RunDirectory
from venturi.store.importers import formats, testperf
from venturi.store.importers.files import import_files


def test_every_sample_is_listed() -> None:
    assert set(FORMATS) == {p.name for p in SAMPLES.iterdir()}
    assert set(FORMATS.values()) == set(formats.FORMATS)


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_format_is_recognised_by_one_importer_only(name: str) -> None:
    text = (SAMPLES / name).read_text(encoding="utf-8")
    assert [f for f, module in formats.FORMATS.items() if module.detect(text)] == [FORMATS[name]]


@pytest.mark.parametrize("name", list(FORMATS))
def test_lines_follow_the_published_schema(name: str, tmp_path: Path) -> None:
    schema = json.loads((resources.files("venturi") / "schema" / "trial.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    records = imported(tmp_path / "run", name).records
    for record in records:
        validator.validate(record)
        assert record["imported"]["from"] == name
        assert record["imported"]["format"] == FORMATS[name]
        assert None not in record["parameters"].values()
    assert [r["order"] for r in records] == list(range(len(records)))
    assert len({r["trial"] for r in records}) == len(records)


def test_schema_lets_only_imported_trials_leave_out_figures(tmp_path: Path) -> None:
    schema = json.loads((resources.files("venturi") / "schema" / "trial.schema.json").read_text())
    record = imported(tmp_path / "run", "chspark.md").records[0]
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(record)
    del record["imported"]
    assert {e.json_path for e in validator.iter_errors(record)} >= {
        "$.counts.rows",
        "$.times.interval_ns",
        "$.parameters",
    }


def test_perf_stats_with_and_without_the_type(tmp_path: Path) -> None:
    seven = imported(tmp_path / "seven", "perf_stats_get_7.tsv").records
    assert [r["parameters"]["rows_per_stream"] for r in seven] == [10**7, 2 * 10**7, 3 * 10**7, 4 * 10**7]
    first = seven[0]
    assert first["parameters"]["operation"] == "get"
    assert first["counts"]["payload_bytes"] == 2 * 10**7 * 32
    assert first["counts"]["batches"] == 2 * 2442
    fields = (SAMPLES / "perf_stats_get_7.tsv").read_text().split("\n")[0].split("\t")
    assert throughput(first) == float(fields[6]) * 2**20
    assert first["times"]["interval_ns"] == round(float(fields[5]) * 1e9)
    eight = imported(tmp_path / "eight", "perf_stats_8.tsv").records
    repeats = [(r["parameters"]["operation"], r["repeat"]) for r in eight]
    assert repeats == [("get", 0), ("get", 1), ("get", 2), ("put", 0)]
    assert len({r["cell"] for r in eight}) == 2


def test_perf_stats_of_other_records_keeps_the_printed_bytes(tmp_path: Path) -> None:
    file = tmp_path / "perf_stats.txt"
    file.write_text("0\t1\t1\t1000\t100\t1.5\t0.5\t3\n")
    import_files([file], tmp_path / "run")
    (record,) = RunDirectory(tmp_path / "run").records()
    assert record["counts"]["payload_bytes"] == 1.5 * 2**20
    assert "1.5 MiB are not 1,000 records of 32 bytes" in record["imported"]["note"]
    assert "row_bytes" not in record["parameters"]


def test_flight_benchmark(tmp_path: Path) -> None:
    first, second, put = imported(tmp_path / "run", "flight_benchmark.txt").records
    assert (first["repeat"], second["repeat"], put["repeat"]) == (0, 1, 0)
    assert throughput(first) == 2338.51 * 2**20
    # The speed that it prints is that of bytes and time, if MB is MiB.
    assert throughput(first) == pytest.approx(1_280_000_000 / 0.522, rel=1e-5)
    counted = {"rows": 40_000_000, "batches": 9768, "payload_bytes": 1_280_000_000, "wire_bytes": None}
    assert first["counts"] == counted
    assert percentile(first, 95.0) == 402_000
    assert percentile(first, 100.0) == 2_410_000
    assert first["target"]["address"] == "10.0.0.7:31337"
    assert put["parameters"]["operation"] == "put"
    assert (put["parameters"]["compression"], put["parameters"]["compression_level"]) == ("zstd", 3)


def test_flight_benchmark_that_failed_is_a_failed_trial(tmp_path: Path) -> None:
    whole = (SAMPLES / "flight_benchmark.txt").read_text()
    file = tmp_path / "out.txt"
    file.write_text(whole[: whole.index("Nanos")] + "Failed with error: << IOError: gRPC failed\n")
    import_files([file], tmp_path / "run")
    (record,) = RunDirectory(tmp_path / "run").records()
    assert record["outcome"] == "failed"
    assert record["error"]["message"] == "Failed with error: << IOError: gRPC failed"


def test_testperf(tmp_path: Path) -> None:
    first, second = imported(tmp_path / "run", "testperf.txt").records
    assert throughput(first) == 1525.878906 * 2**20
    assert per_second(first, "rows") == 50_000_000
    assert first["times"]["interval_ns"] == pytest.approx(2e9, rel=1e-8)
    assert second["repeat"] == 1


def test_testperf_with_a_decimal_comma() -> None:
    text = (
        "Transferred 1000 records totaling 32000 bytes at 1525,878906 MiB/s. "
        "5,000000 record/s. 1,000000 batch/s."
    )
    assert testperf.detect(text)
    (draft,) = testperf.parse(text, "x").drafts
    rates = {"bytes_per_second": 1525.878906 * 2**20, "rows_per_second": 5.0, "batches_per_second": 1.0}
    assert draft.rates == rates


def test_chspark_knows_only_the_rate(tmp_path: Path) -> None:
    results = imported(tmp_path / "run", "chspark.md")
    assert (len(results.records), len(results.cells)) == (45, 41)
    first = results.records[0]
    assert throughput(first) == 121_108_364
    assert set(first["counts"].values()) == set(first["times"].values()) == {None}
    assert results.environment["server"]["cores"]["logical"] == 16


def test_memsql_and_what_does_not_go_together(tmp_path: Path) -> None:
    records = imported(tmp_path / "run", "memsql.md").records
    found = {
        (r["parameters"]["target"], r["parameters"]["hosts"]): (per_second(r, "rows"), r["counts"]["rows"])
        for r in records
    }
    assert found == {
        ("memsql", 10): (5_198_350, 51_983_500),
        ("cassandra", 10): (1_403_900, 14_039_000),
        ("memsql", 5): (2_672_233, 80_167_000),
        ("cassandra", 5): (1_019_266, 30_578_000),
        ("memsql", 1): (547_466, 16_424_000),
        ("cassandra", 1): (209_400, 6_282_000),
    }
    ten, five = records[0], records[2]
    assert ten["times"]["interval_ns"] is None and "agree only if it ran 10 s" in ten["imported"]["note"]
    assert five["times"]["interval_ns"] == 30 * 10**9 and five["imported"]["note"] is None
    assert (ten["latency"]["service"]["min"], ten["latency"]["service"]["max"]) == (55_000, 172_780_000)
    assert ten["parameters"]["rows_per_batch"] == 500


def test_akumuli(tmp_path: Path) -> None:
    earlier, main = imported(tmp_path / "run", "akumuli.md").records
    assert (per_second(earlier, "rows"), per_second(main, "rows")) == (4_500_000, 16_000_000)
    assert main["counts"]["rows"] == 2_764_832_000
    known = {"hosts": 4, "streams": 32, "place": "c3.8xlarge"}
    assert {k: main["parameters"][k] for k in known} == known
    assert main["imported"]["figures"] == {"stored_bytes": 11e9}


def test_iperf3_one_stream(tmp_path: Path) -> None:
    document = json.loads((SAMPLES / "iperf3.json").read_text())
    got = document["end"]["sum_received"]
    results = imported(tmp_path / "run", "iperf3.json")
    (record,) = results.records
    assert record["parameters"]["operation"] == "put"
    assert throughput(record) == pytest.approx(got["bits_per_second"] / 8, rel=1e-6)
    assert record["counts"]["payload_bytes"] == got["bytes"]
    cpu = document["end"]["cpu_utilization_percent"]
    assert record["cpu"]["server"]["system_ns"] == pytest.approx(cpu["remote_system"] / 100 * 2e9, rel=1e-3)
    assert record["resources"]["client"]["sockets"]["rtt_ns"] == 82_000
    assert record["imported"]["figures"]["retransmits"] == 0
    assert results.environment["client"]["host"] == "node1"
    assert results.started is not None


def test_iperf3_reverse_is_a_get_of_two_streams(tmp_path: Path) -> None:
    record = one(tmp_path / "run", "iperf3_reverse.json")
    assert (record["parameters"]["operation"], record["parameters"]["streams"]) == ("get", 2)
    assert len(record["streams"]) == 2
    assert sum(s["payload_bytes"] for s in record["streams"]) == record["counts"]["payload_bytes"]


def samples(run: Path, name: str) -> list[dict[str, Any]]:
    """Samples of the only trial, from the run's own file, without the columns of which nothing is known."""
    results = imported(run, name)
    (record,) = results.records
    table = results.directory.samples(record["trial"])
    assert table.num_rows == results.directory.samples().num_rows
    return [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]


def test_iperf3_intervals_are_samples(tmp_path: Path) -> None:
    rows = samples(tmp_path / "run", "iperf3_reverse.json")
    assert [row["t_ns"] for row in rows] == [0, 1_000_113_000, 2_000_135_000]
    assert [row["payload_bytes"] for row in rows] == [0, 2_523_398_144, 5_007_998_976]
    # The receiving end keeps no counters of the sender's.
    assert not any("socket_rtt_ns" in row for row in rows)


def test_iperf3_sockets_of_the_sender_are_samples(tmp_path: Path) -> None:
    results = imported(tmp_path / "run", "iperf3_bidir.json")
    put, get = results.records
    rows = results.directory.samples(put["trial"]).to_pylist()
    assert (rows[0]["socket_retransmits"], rows[1]["socket_retransmits"]) == ([0], [8])
    assert rows[0]["socket_rtt_ns"] == [None]
    assert (rows[1]["socket_rtt_ns"], rows[1]["socket_cwnd_bytes"]) == ([861_000], [4_059_946])
    assert rows[1]["payload_bytes"] == 1_153_433_600
    other = results.directory.samples(get["trial"]).to_pylist()
    assert other[1]["payload_bytes"] == 1_075_576_832 and other[1].get("socket_rtt_ns") is None


def test_requests_a_second_are_drawn_over_time(tmp_path: Path) -> None:
    from venturi.report.figures.timeline import timeline

    found = samples(tmp_path / "run", "cassandra_stress.log")
    assert [row["rows"] for row in found[:3]] == [0, 14210, 33110]
    figure = timeline(load(tmp_path / "run"))
    assert figure is not None
    (panel,) = figure.panels
    assert (panel.title, panel.y_label) == ("rows", "thousands/s")
    assert panel.series[0].y[:2] == [14.21, 18.9]


def test_iperf3_both_ways_and_udp_and_error(tmp_path: Path) -> None:
    put, get = imported(tmp_path / "both", "iperf3_bidir.json").records
    assert (put["parameters"]["operation"], get["parameters"]["operation"]) == ("put", "get")
    assert put["counts"]["payload_bytes"] == 1_153_433_600
    assert get["counts"]["payload_bytes"] == 1_075_576_832
    assert (put["imported"]["figures"]["retransmits"], get["imported"]["figures"]["retransmits"]) == (8, 4)
    udp = one(tmp_path / "udp", "iperf3_udp.json")
    assert (udp["parameters"]["transport"], udp["imported"]["figures"]["packets"]) == ("udp", 191)
    failed = one(tmp_path / "failed", "iperf3_error.json")
    assert failed["error"]["message"] == "unable to connect to server: Connection refused"


def test_iperf3_documents_after_each_other_are_repeats(tmp_path: Path) -> None:
    file = tmp_path / "many.json"
    text = (SAMPLES / "iperf3.json").read_text()
    file.write_text(text + text)
    import_files([file], tmp_path / "run")
    assert [r["repeat"] for r in RunDirectory(tmp_path / "run").records()] == [0, 1]


def test_cassandra_stress(tmp_path: Path) -> None:
    record = one(tmp_path / "run", "cassandra_stress.log")
    assert record["parameters"]["operation"] == "upsert"
    assert (record["parameters"]["threads"], record["parameters"]["consistency"]) == (16, "LOCAL_ONE")
    assert per_second(record, "rows") == 17_713
    assert record["counts"]["rows"] == 71_200
    percentiles = {50.0: 0.7, 95.0: 1.6, 99.0: 2.9, 99.9: 9.6, 100.0: 18.2}
    assert {p: percentile(record, p) / 1e6 for p in percentiles} == percentiles
    assert record["imported"]["note"] is None


def test_cassandra_stress_that_was_cut_off(tmp_path: Path) -> None:
    good, cut = imported(tmp_path / "run", "cassandra_stress_auto.log").records
    assert (good["parameters"]["streams"], cut["parameters"]["streams"]) == (4, 8)
    assert good["imported"]["note"] == "3 operations ended in errors"
    assert cut["error"]["message"] == "the log ends before the results of this run"


def test_latte_text_and_json(tmp_path: Path) -> None:
    read = one(tmp_path / "text", "latte.log")
    assert (read["parameters"]["operation"], read["parameters"]["concurrency"]) == ("get", 128)
    assert per_second(read, "rows") == per_second(read, "batches") == 41_667
    assert percentile(read, 99.9) == 11_900_000
    assert read["times"]["interval_ns"] == 3 * 10**9
    write = one(tmp_path / "json", "latte.json")
    assert write["parameters"]["operation"] == "upsert"
    assert per_second(write, "rows") is None and per_second(write, "batches") == 50_000
    assert [percentile(write, p) for p in (50.0, 99.0, 99.9)] == [2_600_000, 8_100_000, 11_900_000]
    assert write["cpu"]["client"] == {"user_ns": 2_410_000_000, "system_ns": None}
