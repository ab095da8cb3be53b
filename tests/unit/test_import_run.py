"""Importing into run directories: merging, refusals, errors that name the line, and garbage. What a sample of
each format becomes, figure by figure, is in tests/data/golden/imports.txt."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import synthetic
from support.golden import kept, known
from support.imports import FORMATS, SAMPLES, imported
from support.mistakes import check
from support.synthetic import cells, make_run
from venturi.analysis.cells.figures import per_second, throughput
from venturi.analysis.results import Results, load
from venturi.common.errors import ExitCode, ScenarioError, StoreError, VenturiError
from venturi.engine.record import trial_of
from venturi.report import tables
from venturi.report.page import page as html_page
from venturi.store.directory import RunDirectory
from venturi.store.importers import files
from venturi.store.importers.files import import_files, parse_settings
from venturi.store.importers.record import Origin, lines

LONG = 1_000_000
LINE = "0\t2\t2\t100000\t4096\t6.10352\t0.0122776\t497.126\n"


def put_file(folder: Path, text: str, name: str = "perf_stats.txt") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_run_directory(tmp_path: Path) -> None:
    results = imported(tmp_path / "run", "cassandra_stress.log")
    environment = results.environment
    assert (results.name, results.imported, results.scenario) == ("run", True, "")
    (entry,) = environment["imported"]
    assert entry["from"] == "cassandra_stress.log" and re.fullmatch("[0-9a-f]{64}", entry["sha256"])
    assert environment["server"] == {"cluster": "Test Cluster", "hosts": 3}
    assert environment["not_known"].startswith("verification")


def test_several_files_are_one_run_with_repeats_numbered_on(tmp_path: Path) -> None:
    first, second = put_file(tmp_path, LINE * 2, "a.txt"), put_file(tmp_path, LINE, "b.txt")
    import_files([first, second], tmp_path / "run")
    third = put_file(tmp_path, LINE + LINE.replace("\t4096", "\t1024"), "c.txt")
    import_files([third], tmp_path / "run")
    records = RunDirectory(tmp_path / "run").records()
    assert [r["repeat"] for r in records] == [0, 1, 2, 3, 0]
    assert [r["order"] for r in records] == [0, 1, 2, 3, 4]
    assert [r.imported.from_ for r in records] == ["a.txt", "a.txt", "b.txt", "c.txt", "c.txt"]
    assert len({r["trial"] for r in records}) == 5
    assert [c.good for c in load(tmp_path / "run").cells] == [1, 4]


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    file, twin = put_file(tmp_path, LINE), put_file(tmp_path, LINE, "twin.txt")
    import_files([file], tmp_path / "run")
    with pytest.raises(StoreError, match=r"holds twin.txt already, imported as perf_stats.txt"):
        import_files([twin], tmp_path / "run")
    assert len(RunDirectory(tmp_path / "run").records()) == 1


def test_a_run_of_venturis_own_is_left_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "own", cells(("get",), (1,)), repeats=1, warmup=0)
    before = (run / "trials.jsonl").read_bytes()
    with pytest.raises(StoreError, match="holds a run of Venturi's own"):
        import_files([put_file(tmp_path, LINE)], run)
    assert (run / "trials.jsonl").read_bytes() == before


def test_directories(tmp_path: Path) -> None:
    folder = tmp_path / "perf"
    folder.mkdir()
    for n in (10, 2, 1):
        put_file(folder, LINE.replace("\t2\t2\t", f"\t{n}\t{n}\t"), f"perf_stats_{n}.csv")
    put_file(folder, "What this is.\n", "README")
    _, found, skipped = import_files([folder], tmp_path / "run")
    assert [f.name for f in found] == ["perf_stats_1.csv", "perf_stats_2.csv", "perf_stats_10.csv"]
    assert [Path(s).name for s in skipped] == ["README"]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ScenarioError, match="no file in this directory"):
        import_files([empty], tmp_path / "other")


def test_errors_name_file_and_line(tmp_path: Path) -> None:
    """A case is the file's name, and its text with escapes."""

    def said(case: str) -> str:
        name, _, text = case.partition("\n")
        with pytest.raises(ScenarioError) as caught:
            import_files([put_file(tmp_path, text.encode().decode("unicode_escape"), name)], tmp_path / "run")
        assert caught.value.exit_code == ExitCode.SCENARIO and not (tmp_path / "run").exists()
        return f"{caught.value.message}\nhint: {caught.value.hint}".replace(f"{tmp_path}/", "")

    check("imports", said)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    with pytest.raises(ScenarioError, match="larger than"):
        import_files([put_file(tmp_path, LINE)], tmp_path / "run")
    monkeypatch.undo()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ScenarioError, match="the file is empty"):
        import_files([tmp_path / "pipe"], tmp_path / "run")
    monkeypatch.setattr(files, "MOST_TRIALS", 2)
    with pytest.raises(ScenarioError, match="more than 2 results"):
        import_files([put_file(tmp_path, LINE * 3)], tmp_path / "run")


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(LINE.encode())

    monkeypatch.setattr("sys.stdin", Input())
    _, (found,), _ = import_files(["-"], tmp_path / "run")
    assert (found.name, found.trials) == ("standard input", 1)


def test_settings(tmp_path: Path) -> None:
    chosen = parse_settings(
        ["operation=put", "place=remote", "streams=4", "rate=2.5", "tuned=true", "tag=v1"]
    )
    typed = {"operation": "put", "place": "remote", "streams": 4, "rate": 2.5, "tuned": True, "tag": "v1"}
    assert chosen == typed
    import_files([put_file(tmp_path, LINE[2:])], tmp_path / "run", settings=chosen)
    (record,) = RunDirectory(tmp_path / "run").records()
    assert {k: record["parameters"][k] for k in chosen} == chosen


def test_round_trip_through_perf_stats(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "own", cells(("get", "put"), (1, 2, 4)), repeats=3, warmup=1))
    file = put_file(tmp_path, tables.perf_stats(run))
    import_files([file], tmp_path / "back")
    back = load(tmp_path / "back")
    good = [r for c in run.cells for r in c.records]
    assert len(back.records) == len(good) == 18
    for ours, theirs in zip(good, back.records, strict=True):
        assert throughput(theirs) == pytest.approx(throughput(ours), rel=1e-5)
        assert theirs["counts"]["payload_bytes"] == ours["counts"]["payload_bytes"]
        assert theirs["times"]["interval_ns"] == pytest.approx(ours["times"]["interval_ns"], rel=1e-5)
        assert (theirs["repeat"], theirs["parameters"]["streams"]) == (
            ours["repeat"],
            ours["parameters"]["streams"],
        )
    assert tables.perf_stats(back).splitlines() != []


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_command_takes_an_imported_run(name: str, tmp_path: Path) -> None:
    results = imported(tmp_path / "run", name)
    page = html_page.page(results)
    assert name in page and "Another tool measured this" in page
    assert [
        a.kind for a in results.advice if a.kind in ("imported", "unverified", "no-ceiling", "steal")
    ] == ["imported"]
    table = results.directory.table("trials")
    assert table.num_rows == len(results.records)
    assert set(table.column("imported_from").to_pylist()) == {name}
    json.dumps(results.directory.table("stages").to_pylist())


@pytest.mark.parametrize(
    "text",
    [
        " " * LONG + "x",
        "* " + "1 cores " * (LONG // 8),
        '{"start": "iperf", "intervals": ' + "[" * LONG,
        "SUMMARY STATS ═══\n" + " " * 20 + "a " * LONG,
    ],
    ids=["spaces", "words", "brackets", "summary"],  # a worker sends what a test is called
)
def test_long_lines_come_to_an_end(text: str) -> None:
    """Quadratic patterns would take hours for them."""
    for module in files.FORMATS.values():
        module.detect(text)
        with contextlib.suppress(VenturiError):
            module.parse(text, "file")


TEXTS = st.one_of(
    st.text(max_size=400),
    st.binary(max_size=400).map(lambda b: b.decode("latin-1")),
    st.sampled_from(list(FORMATS)).flatmap(
        lambda name: st.builds(
            lambda start, cut, insert: _mangled(
                (SAMPLES / name).read_text(encoding="utf-8"), start, cut, insert
            ),
            st.floats(0, 1),
            st.integers(0, 200),
            st.text(alphabet='0123456789.,:-{}[]"eE \n\tNaInf', max_size=12),
        )
    ),
)


def _mangled(text: str, start: float, cut: int, insert: str) -> str:
    at = int(start * len(text))
    return text[:at] + insert + text[at + cut :]


@pytest.mark.parametrize("format", list(files.FORMATS))
@given(text=TEXTS)
def test_garbage_raises_nothing_but_errors_for_users(format: str, text: str) -> None:
    module = files.FORMATS[format]
    assert module.detect(text) in (True, False)
    try:
        drafts = module.parse(text, "file").drafts
    except VenturiError as error:
        assert "file" in error.message and error.hint
        return
    for line in lines(drafts, "run", Origin("file", format, "test")):
        json.dumps(line, allow_nan=False)
        for part in ("counts", "times"):
            assert all(v is None or (isinstance(v, int) and 0 <= v < 2**63) for v in line[part].values())


def headlines(text: str, path: Path) -> list[tuple[float | None, float | None]]:
    """Bytes and rows a second of each good result, rows unless a note doubts them. None if it is refused."""
    path.write_text(text, encoding="utf-8")
    try:
        drafts = files._one(str(path), FORMATS[path.name], {}).parsed.drafts
    except VenturiError:
        return []
    found = [trial_of(r) for r in lines(drafts, "run", Origin("", "", "")) if r["outcome"] == "ok"]
    return [(throughput(r), None if r.imported.note else per_second(r, "rows")) for r in found]


def test_a_receiver_that_told_no_bytes(tmp_path: Path) -> None:
    """The sender's count then, of the sum and of each stream."""
    document = json.loads((SAMPLES / "iperf3.json").read_text())
    found = [document["end"]["sum_received"], *(one["receiver"] for one in document["end"]["streams"])]
    for one in found:
        one.update(bytes=0, bits_per_second=0.0)
    (tmp_path / "x.json").write_text(json.dumps(document))
    (draft,) = files._one(str(tmp_path / "x.json"), "auto", {}).parsed.drafts
    total = document["end"]["sum_sent"]["bytes"]
    assert draft.counts["payload_bytes"] == total == sum(s["payload_bytes"] for s in draft.streams)


TWICE = ("perf_stats_8.tsv", "flight_", "testperf", "iperf3", "cassandra", "latte")


@pytest.mark.parametrize("name", [n for n in FORMATS if n.startswith(TWICE) and n != "iperf3_error.json"])
def test_no_changed_number_becomes_the_headline(name: str, tmp_path: Path) -> None:
    """These formats have every rate twice: as printed, and by amount and time."""
    text = (SAMPLES / name).read_text(encoding="utf-8")
    true, draw = headlines(text, tmp_path / name), random.Random(name)
    digits = [at for at, character in enumerate(text) if character.isdigit()]
    for _ in range(int(os.environ.get("VENTURI_MUTATIONS", 240)) // 12):
        at, put = draw.choice(digits), draw.choice(("", ".", ",", *"0123456789", "00", "-1", "e3"))
        for found in headlines(text[:at] + put + text[at + 1 :], tmp_path / name):
            pairs = [[(a, b) for a, b in zip(found, one, strict=True) if a and b] for one in true]
            near = [all(abs(a / b - 1) < 0.06 for a, b in pair) for pair in pairs]
            assert any(near), (at, text[max(0, at - 40) : at + 40], put, found)


# ---- formats


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_format_is_recognised_by_one_importer_only(name: str) -> None:
    text = (SAMPLES / name).read_text(encoding="utf-8")
    assert [f for f, module in files.FORMATS.items() if module.detect(text)] == [FORMATS[name]]


@pytest.mark.parametrize("name", list(FORMATS))
def test_lines_follow_the_published_schema(name: str, tmp_path: Path) -> None:
    schema = json.loads((resources.files("venturi") / "schema" / "trial.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    imported(tmp_path / "run", name)
    records = synthetic.lines(tmp_path / "run")
    for record in records:
        validator.validate(record)
        assert trial_of(record).imported["from"] == name
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
    for record, line in zip(results.records, synthetic.lines(results.directory.path), strict=True):
        samples = results.directory.samples(record.trial).to_pydict()
        sampled = {name: values for name, values in samples.items() if any(v is not None for v in values)}
        own = {name: line["imported"][name] for name in ("line", "figures", "note")}
        rates = {"bytes/s": throughput(record), "rows/s": per_second(record, "rows")}
        told.append({"repeat": record.repeat, **own, **rates, **{name: line.get(name) for name in PARTS}})
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
    imported(tmp_path / "run", "chspark.md")
    record = synthetic.lines(tmp_path / "run")[0]
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(record)
    del record["imported"]
    assert {e.json_path for e in validator.iter_errors(record)} >= {
        "$.counts.rows",
        "$.times.interval_ns",
        "$.parameters",
    }


def test_requests_a_second_are_drawn_over_time(tmp_path: Path) -> None:
    from venturi.report.figures.timeline import timeline

    figure = timeline(imported(tmp_path / "run", "cassandra_stress.log"))
    assert figure is not None
    (panel,) = figure.panels
    assert (panel.title, panel.y_label) == ("rows", "thousands/s")
    assert panel.series[0].y[:2] == [14.21, 18.9]
