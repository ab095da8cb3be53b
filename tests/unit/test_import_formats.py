"""Each foreign format: what a sample of it becomes, figure by figure, is in tests/data/golden/imports.txt."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.golden import kept, known
from support.imports import FORMATS, SAMPLES, imported
from venturi.analysis.cells.figures import per_second, throughput
from venturi.analysis.results import Results
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


PARTS = (
    "outcome",
    "error",
    "parameters",
    "target",
    "counts",
    "times",
    "cpu",
    "latency",
    "streams",
    "resources",
)


def figures(results: Results) -> list[dict[str, Any]]:
    """The hosts of a run, and of each trial its own, the rates that are made of them, and its samples."""
    told: list[dict[str, Any]] = [{end: results.environment[end] for end in ("client", "server")}]
    for record in results.records:
        samples = results.directory.samples(record["trial"]).to_pydict()
        sampled = {name: values for name, values in samples.items() if any(v is not None for v in values)}
        own = {name: record["imported"][name] for name in ("line", "figures", "note")}
        rates = {"bytes/s": throughput(record), "rows/s": per_second(record, "rows")}
        told.append(
            {"repeat": record["repeat"], **own, **rates, **{name: record.get(name) for name in PARTS}}
        )
        told[-1]["samples"] = {name: sampled[name] for name in sampled if name not in ("trial", "end")}
    return told


def test_figures_of_every_sample(tmp_path: Path) -> None:
    lines = []
    for name in FORMATS:
        found = figures(imported(tmp_path / name, name))
        lines += [f"# {name}", *(json.dumps(known(one)) for one in found), ""]
    kept("imports", "\n".join(lines))


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


def test_perf_stats_of_other_records_keeps_the_printed_bytes(tmp_path: Path) -> None:
    file = tmp_path / "perf_stats.txt"
    file.write_text("0\t1\t1\t1000\t100\t1.5\t0.5\t3\n")
    import_files([file], tmp_path / "run")
    (record,) = RunDirectory(tmp_path / "run").records()
    assert record["counts"]["payload_bytes"] == 1.5 * 2**20
    assert "1.5 MiB are not 1,000 records of 32 bytes" in record["imported"]["note"]
    assert "row_bytes" not in record["parameters"]


def test_flight_benchmark_that_failed_is_a_failed_trial(tmp_path: Path) -> None:
    whole = (SAMPLES / "flight_benchmark.txt").read_text()
    file = tmp_path / "out.txt"
    file.write_text(whole[: whole.index("Nanos")] + "Failed with error: << IOError: gRPC failed\n")
    import_files([file], tmp_path / "run")
    (record,) = RunDirectory(tmp_path / "run").records()
    assert record["outcome"] == "failed"
    assert record["error"]["message"] == "Failed with error: << IOError: gRPC failed"


def test_testperf_with_a_decimal_comma() -> None:
    text = (
        "Transferred 1000 records totaling 32000 bytes at 1525,878906 MiB/s. "
        "5,000000 record/s. 1,000000 batch/s."
    )
    assert testperf.detect(text)
    (draft,) = testperf.parse(text, "x").drafts
    rates = {"bytes_per_second": 1525.878906 * 2**20, "rows_per_second": 5.0, "batches_per_second": 1.0}
    assert draft.rates == rates


def test_requests_a_second_are_drawn_over_time(tmp_path: Path) -> None:
    from venturi.report.figures.timeline import timeline

    figure = timeline(imported(tmp_path / "run", "cassandra_stress.log"))
    assert figure is not None
    (panel,) = figure.panels
    assert (panel.title, panel.y_label) == ("rows", "thousands/s")
    assert panel.series[0].y[:2] == [14.21, 18.9]


def test_iperf3_documents_after_each_other_are_repeats(tmp_path: Path) -> None:
    file = tmp_path / "many.json"
    text = (SAMPLES / "iperf3.json").read_text()
    file.write_text(text + text)
    import_files([file], tmp_path / "run")
    assert [r["repeat"] for r in RunDirectory(tmp_path / "run").records()] == [0, 1]
