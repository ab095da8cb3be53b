"""The published figures: complete, in base units, labelled."""

from pathlib import Path

import pytest

from support import upsert as upsert_support
from support.synthetic import cells, make_run
from venturi.analysis.results import load
from venturi.common.errors import VenturiError
from venturi.report.figures import registry as figures
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
