"""Published sets as runs: figure by figure as published, and taken by the commands."""

from pathlib import Path

import pytest

from support.imports import imported
from support.run import venturi
from venturi.analysis.cells.figures import per_second, throughput
from venturi.analysis.results import load
from venturi.common.errors import VenturiError
from venturi.report.tables import perf_stats
from venturi.store import reference
from venturi.store.importers.record import Origin, lines

FLIGHT = ["macbook-get", "macbook-put", "cartesius-localhost", "cartesius-remote"]


def published(name: str) -> list[list[str]]:
    text = (Path(reference.__file__).parent / f"{name}.csv").read_text()
    return [line.split(",") for line in text.splitlines()[1:]]


@pytest.mark.parametrize("name", FLIGHT)
def test_flight_sets_are_exact(name: str) -> None:
    records = load(f"reference:{name}").records
    rows = published(name)
    assert len(records) == len(rows)
    for record, (kind, streams, threads, per_stream, batch, _, seconds, rate) in zip(
        records, rows, strict=True
    ):
        p = record["parameters"]
        assert [p[k] for k in ("operation", "streams", "threads", "rows_per_stream", "rows_per_batch")] == [
            kind,
            *map(int, (streams, threads, per_stream, batch)),
        ]
        assert throughput(record) == float(rate) * 2**20
        assert record["counts"]["payload_bytes"] == int(streams) * int(per_stream) * 32
        assert record["times"]["interval_ns"] == round(float(seconds) * 1e9)
        # What was published agrees with itself, so nothing needs a note.
        assert record["imported"]["note"] is None


def test_cells_and_repeats() -> None:
    macbook, cartesius = load("reference:macbook-get"), load("reference:cartesius-remote")
    assert (len(macbook.cells), {c.good for c in macbook.cells}) == (8 * 50, {1})
    assert (len(cartesius.cells), {c.good for c in cartesius.cells}) == (8 * 20, {10})
    assert sorted({r["repeat"] for r in cartesius.records}) == list(range(10))
    assert cartesius.places == ["remote"]
    both = load("reference:cartesius")
    assert (len(both.cells), len(both.records), both.places) == (320, 3200, ["local", "remote"])
    assert len({r["trial"] for r in both.records}) == 3200


def test_chspark_is_exact() -> None:
    results = load("reference:chspark")
    found = [
        [
            *(str(r["parameters"][k]) for k in ("partitions", "decoders", "encoders")),
            str(int(throughput(r) or 0)),
        ]
        for r in results.records
    ]
    assert found == published("chspark")
    assert sum(c.good == 2 for c in results.cells) == 4
    assert results.environment["server"]["cores"]["logical"] == 16


@pytest.mark.parametrize(("name", "sample"), [("upsert", "memsql.md"), ("akumuli", "akumuli.md")])
def test_packaged_texts_say_what_the_whole_ones_do(name: str, sample: str, tmp_path: Path) -> None:
    def figures(records: list[dict[str, object]]) -> list[object]:
        parts = ("parameters", "counts", "times", "rates", "latency")
        return sorted(repr([r[k] for k in parts]) for r in records)

    ours, theirs = load(f"reference:{name}").records, imported(tmp_path / "run", sample).records
    assert figures(ours) == figures(theirs)
    notes = {str(r["imported"]["note"]) for r in ours}  # type: ignore[index]
    assert notes == {str(r["imported"]["note"]) for r in theirs}  # type: ignore[index]


def test_rows_where_no_byte_was_counted() -> None:
    results = load("reference:memsql")
    assert [c.rows.value for c in results.cells] == [547_466, 2_672_233, 5_198_350]
    assert not any(c.throughput.known for c in results.cells)
    assert per_second(load("reference:akumuli").records[-1], "rows") == 16_000_000


def test_lines_go_back_to_perf_stats() -> None:
    back = perf_stats.text(load("reference:macbook-get")).splitlines()
    for line, fields in zip(back, published("macbook-get"), strict=True):
        assert line.split("\t")[1:7] == fields[1:7]


def test_files_are_called_and_cut_as_they_were_published(tmp_path: Path) -> None:
    """The plot scripts open them by name, one a number of streams."""
    out = tmp_path / "old"
    done = venturi("report", "reference:macbook-get", "--format", "perf_stats_7", "--out", out)
    assert done.returncode == 0, done.stderr
    written = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.csv"))
    assert written == [f"get/perf_stats_0{n}.csv" for n in range(1, 9)]
    lines = [line for name in written for line in (out / name).read_text().splitlines()]
    theirs = published("macbook-get")
    assert [line.split("\t")[:6] for line in lines] == [fields[1:7] for fields in theirs]

    files = perf_stats.files(load("reference:cartesius"))
    assert sorted(files) == [
        f"{place}/perf_stats_0_{streams}.csv" for place in ("local", "remote") for streams in range(1, 9)
    ]
    assert all(line.split("\t")[1] == "3" for line in files["remote/perf_stats_0_3.csv"].splitlines())


@pytest.mark.parametrize("name", reference.names())
def test_every_set_is_a_run_that_says_where_it_is_from(name: str) -> None:
    results = load(f"reference:{name}")
    assert results.imported and not results.directory.saved
    assert results.name == f"reference:{name}"
    assert results.directory.samples().num_rows == results.directory.ceilings().num_rows == 0
    assert results.directory.trials().num_rows == len(results.records)
    assert not {"no-ceiling", "unverified"} & {a.kind for a in results.advice}
    assert sum(a.kind == "imported" for a in results.advice) == 1


def test_unknown_name() -> None:
    with pytest.raises(
        VenturiError, match=r"no reference run 'macbok-get'; did you mean macbook-get"
    ) as caught:
        load("reference:macbok-get")
    assert "cartesius-remote" in (caught.value.hint or "") and "akumuli" in (caught.value.hint or "")


def test_no_draft_makes_no_line() -> None:
    assert lines([], "run", Origin("file", "format", "source")) == []


def test_show_and_sql_and_report(tmp_path: Path) -> None:
    shown = venturi("show", "reference:upsert", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "best 5.198 Mrows/s with memsql, hosts 10" in shown.stdout
    assert "MB/s" not in shown.stdout
    assert "they agree only if it ran" in " ".join(shown.stdout.split())
    query = "select max(bytes_per_second) from trials where encoders = 64"
    found = venturi("sql", "reference:chspark", query, "--format", "csv", cwd=tmp_path)
    assert found.stdout.splitlines()[1] == "1011309020.0"
    placeless = venturi("report", "reference:chspark", cwd=tmp_path)
    assert placeless.returncode == 2
    assert "error: reference:chspark is no directory that a report could go into\n" in placeless.stderr


def test_import_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "stats.txt"
    file.write_text("1\t2\t2\t100000\t4096\t6.10352\t0.0122776\t497.126\n")
    first = venturi("import", "stats.txt", "-o", "run", "--set", "place=lab", "--name", "ours", cwd=tmp_path)
    assert (first.returncode, first.stdout) == (0, "run\n")
    assert first.stderr == "info: stats.txt: 1 trial of Arrow C++ flight_benchmark (perf_stats file)\n"
    again = venturi("import", "stats.txt", "-o", "run", cwd=tmp_path)
    assert again.returncode == 7
    assert again.stderr.startswith("error: run: holds stats.txt already, imported as stats.txt\nhint: ")
    file.write_text("1\t2\t2\n")
    broken = venturi("import", "stats.txt", "--format", "perf_stats", cwd=tmp_path)
    assert broken.returncode == 3
    assert broken.stderr.startswith("error: stats.txt:1: 3 columns in '1 2 2'\nhint: expected 7 or 8 tab")
    assert not (tmp_path / "venturi-runs").exists()
    shown = venturi("show", "run", cwd=tmp_path)
    assert "put: 521.3 MB/s with 2 streams" in shown.stdout
