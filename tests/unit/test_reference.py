"""The published figures: complete, in base units, labelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import upsert as upsert_support
from support.synthetic import cells, make_run
from venturi.analysis.results import load
from venturi.common.errors import VenturiError
from venturi.report.figures import registry as figures
from venturi.report.page.page import page
from venturi.report.tables import perf_stats
from venturi.report.text import markdown, published
from venturi.store import reference

ROWS = {
    "macbook-get": 400,
    "macbook-put": 400,
    "cartesius-localhost": 1600,
    "cartesius-remote": 1600,
    "chspark": 45,
    "memsql": 3,
    "cassandra": 3,
    "akumuli": 2,
}


@pytest.mark.parametrize("name", list(reference.SETS))
def test_sets_are_complete(name: str) -> None:
    assert len(reference.SETS[name].rows()) == ROWS[name]


@pytest.mark.parametrize("name", [n for n, s in reference.SETS.items() if s.place is not None])
def test_units_are_converted(name: str) -> None:
    for row in reference.SETS[name].rows():
        assert row["payload_bytes"] == row["streams"] * row["rows_per_stream"] * 32
        # Rate and time were published independently; they agree only if MB meant MiB.
        assert row["bytes_per_second"] == pytest.approx(
            row["payload_bytes"] / row["interval_ns"] * 1e9, rel=1e-4
        )


def test_first_published_line() -> None:
    first = reference.SETS["macbook-get"].drafts()[0]
    assert first.rates["bytes_per_second"] == pytest.approx(1625.05 * 2**20)
    assert (first.operation, first.parameters["streams"]) == ("get", 1)
    assert first.times["interval_ns"] == 187_795_000


def test_groups_and_unknown_names() -> None:
    assert [s.name for s in reference.sets("cartesius")] == ["cartesius-localhost", "cartesius-remote"]
    with pytest.raises(VenturiError) as caught:
        reference.sets("macbok")
    assert "macbook" in (caught.value.hint or "")


def test_readme_names_every_set() -> None:
    text = (Path(reference.__file__).parent / "README.md").read_text()
    assert all(f"`{name}`" in text for name in reference.names())


def test_published_upserts_are_laid_over_rows_alone(tmp_path: Path) -> None:
    run = load(upsert_support.make_run(tmp_path / "run", upsert_support.sweep((1, 4), (100, 500))))
    figure = figures.one(run, "throughput-streams", "upsert")
    overlay = {s.name: s for s in figure.panels[0].series if s.colour.startswith("$reference")}
    assert list(overlay) == [f"{s}, m4.10xlarge, 1 host, 500 rows/batch" for s in ("MemSQL", "Cassandra")]
    assert [s.y[0] for s in overlay.values()] == pytest.approx([547.466, 209.4])
    point = [s for s in figures.one(run, "throughput-batch", "memsql").panels[0].series if s.mark == "points"]
    assert [(s.x, s.y) for s in point if s.colour == "$reference"] == [([500.0], [pytest.approx(547.466)])]
    own = load(make_run(tmp_path / "get", cells(("get",)), repeats=2, warmup=0))
    names = [s.name for s in figures.one(own, "throughput-streams", "upsert").panels[0].series]
    assert not any("MemSQL" in n for n in names)


def test_overlay_is_labelled_and_not_scaled(tmp_path: Path) -> None:
    results = load(make_run(tmp_path / "run", cells(("get",)), repeats=2, warmup=0))
    figure = figures.one(results, "throughput-streams", "macbook")
    (overlay,) = [s for s in figure.panels[0].series if s.dash == "dot"]
    assert overlay.name == "MacBook Pro 2018, 10M rows/stream"
    assert overlay.x == list(range(1, 9))
    assert overlay.y[0] == pytest.approx(1625.05 * 2**20 / 1e6)
    assert "nothing scaled" in figure.caption
    sides = {p.title for p in figures.one(results, "box-size", "macbook").panels}
    assert {"get, 1 stream", "get, MacBook Pro 2018, 1 stream"} <= sides


# ---- published runs beside those that reproduce them


def _run(tmp_path: Path, says: bool) -> Path:
    run = make_run(tmp_path / "run", cells(("get",), (1, 2, 4)), samples=False)
    scenario = run / "scenario.toml"
    scenario.write_text(f"reference = {str(says).lower()}\n{scenario.read_text()}")
    return run


def test_a_scenario_that_reproduces_a_publication_is_set_beside_it(tmp_path: Path) -> None:
    results = load(_run(tmp_path, says=True))
    (one,) = published.beside(results)
    assert one.label == "get, MacBook Pro 2018" and "below 5 streams" in one.said
    best, title, *_ = one.here
    assert best.startswith("best ") and "with 4 streams" in best
    assert title == next(f.title for f in results.findings if f.axis == "streams")
    assert one.said in page(results) and f"## Published: {one.label}" in markdown.text(results)


def test_others_only_where_it_is_asked_for(tmp_path: Path) -> None:
    results = load(_run(tmp_path, says=False))
    assert published.beside(results) == []
    assert [one.label for one in published.beside(results, "macbook")] == ["get, MacBook Pro 2018"]
    # Upserts alone were published there.
    assert published.beside(results, "upsert") == []


@pytest.mark.parametrize("name", reference.SETS)
def test_every_set_has_a_sentence(name: str) -> None:
    (one,) = reference.sets(name)
    assert one.said or published._figures(one)


# ---- the seeds' own lines: numbers as a C++ ostream prints them, and the round trip


SETS = ["macbook-get", "macbook-put", "cartesius-localhost", "cartesius-remote"]


def published_lines(name: str) -> list[list[str]]:
    text = (Path(reference.__file__).parent / f"{name}.csv").read_text()
    return [line.split(",") for line in text.splitlines()[1:]]


@pytest.mark.parametrize("name", SETS)
def test_published_lines_come_back_from_counts(name: str) -> None:
    for kind, streams, threads, rows, batch, mebibytes, seconds, rate in published_lines(name):
        # Each number is printed as it was published.
        numbers = (mebibytes, seconds, rate)
        assert tuple(perf_stats.ostream(float(text)) for text in numbers) == numbers
        given = {"streams": streams, "threads": threads, "rows_per_stream": rows, "rows_per_batch": batch}
        moved = int(streams) * int(rows)
        record = {
            "outcome": "ok",
            "parameters": {"operation": kind, **{name: int(text) for name, text in given.items()}},
            "counts": {"rows": moved, "payload_bytes": moved * 32},
            "times": {"interval_ns": float(seconds) * 1e9},
        }
        found = perf_stats.line(record)
        assert found is not None
        fields = found.split("\t")
        number = "0" if kind == "get" else "1"
        assert fields[:7] == [number, streams, threads, rows, batch, mebibytes, seconds]
        # Their rate came from nanoseconds, their seconds are rounded to six digits: the sixth may differ.
        assert float(fields[7]) == pytest.approx(float(rate), rel=2e-5)


def test_exponents_as_in_c_plus_plus() -> None:
    shown = {
        1e6: "1e+06",
        123456.7: "123457",
        1234567.0: "1.23457e+06",
        1e-5: "1e-05",
        1e-4: "0.0001",
        3.0: "3",
    }
    assert {number: perf_stats.ostream(number) for number in shown} == shown


def test_lines_of_a_run(tmp_path: Path) -> None:
    fail = "streams == 2 and operation == 'put'"
    run = make_run(tmp_path / "run", cells(streams=(1, 2)), repeats=2, fail=fail)
    lines = perf_stats.text(load(run)).splitlines()
    # Warm-ups and failed trials are not in it: 3 good cells x 2 repeats.
    assert len(lines) == 6
    assert [line.split("\t")[:5] for line in lines[::2]] == [
        [*head, "10000000", "4096"] for head in (("0", "1", "1"), ("0", "2", "2"), ("1", "1", "1"))
    ]
    for row in perf_stats.parse("\n".join(lines)):
        assert row["mebibytes"] / row["seconds"] == pytest.approx(row["mebibytes_per_second"], rel=1e-4)
        assert row["mebibytes"] == pytest.approx(
            row["streams"] * row["rows_per_stream"] * 32 / 2**20, rel=1e-5
        )


def test_places_cannot_be_told_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells(("get",), (1,), ("local", "remote")), repeats=1, warmup=0)
    with pytest.raises(VenturiError, match="no column for the place"):
        perf_stats.text(load(run))


@pytest.mark.parametrize(
    ("text", "message"), [("1\t2", "line 1: 2 columns"), ("\n" + "x\t" * 7 + "1", "line 2")]
)
def test_parse_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        perf_stats.parse(text)
