"""Local beside remote, and one amount over more streams: against known truths and the author's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.hosts_records import both_places, record, shown
from support.synthetic import cells, make_run
from venturi.analysis.cells import places
from venturi.analysis.cells.summary import Cell, summarise
from venturi.analysis.models import splits
from venturi.analysis.results import load
from venturi.report.draw import matplotlib_figures
from venturi.report.figures import registry as figures
from venturi.report.page import page as html_page
from venturi.report.tables import write as table_files
from venturi.report.text import places as texts

MIB = 2**20


@pytest.fixture(scope="module")
def placed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return both_places(tmp_path_factory.mktemp("places") / "run", (1, 2))


# Local and remote


def test_the_ratio_of_places_is_the_truth(placed_run: Path) -> None:
    rows = places.rows(load(placed_run).cells)
    assert [row.where for row in rows] == [{"streams": 1}, {"streams": 2}]
    for row in rows:
        ratio = row.largest.ratio
        assert ratio.low is not None and ratio.high is not None
        assert ratio.low < 0.7 < ratio.high
        assert ratio.value == pytest.approx(0.7, abs=0.05)
        # The model's ends are as busy in both places, so what was moved costs more where less of it was.
        assert row.largest.cost("client").value == pytest.approx(1 / (ratio.value or 0), rel=1e-6)
        assert row.sizes is None


def test_sizes_are_taken_together_and_the_largest_is_shown() -> None:
    records = [
        record("get", 2, rows, 1e6 + rows * (10 if place == "local" else factor), repeat, place=place)
        for rows, factor in ((100_000, 10), (1_000_000, 20), (2_000_000, 40))
        for place in ("local", "remote")
        for repeat in range(6)
    ]
    (row,) = places.rows(summarise(records))
    assert row.where == {}
    assert [pair.local.parameters["rows_per_stream"] for pair in row.pairs] == [100_000, 1_000_000, 2_000_000]
    assert row.largest.ratio.value == pytest.approx(21 / 81)
    assert row.sizes == pytest.approx((11 / 21, 21 / 81, 1.0))


def test_one_beside_the_client_is_set_against_each_link() -> None:
    """Cells without a link, beside those at the end of two links."""
    links = {"local": (None,), "remote": ("1gbit", "100mbit")}
    took = {None: 1000, "1gbit": 2000, "100mbit": 4000}
    records = [
        record("get", streams, 1000, took[link], n, place=at, link=link)
        for at, names in links.items()
        for link in names
        for streams in (1, 2)
        for n in range(6)
    ]
    rows = places.rows(summarise(records))
    assert [(row.where, row.largest.ratio.value) for row in rows] == [
        ({"link": link, "streams": streams}, pytest.approx(ratio))
        for link, ratio in (("100mbit", 0.25), ("1gbit", 0.5))
        for streams in (1, 2)
    ]
    (one, two) = places.rows(summarise([r for r in records if r["parameters"]["link"] != "1gbit"]))
    assert [row.where for row in (one, two)] == [{"streams": 1}, {"streams": 2}]


def test_other_places_are_no_pair() -> None:
    records = [record("get", 1, 1000, 1e6, place=place) for place in ("a", "b", "local")]
    assert places.rows(summarise(records)) == []


def test_published_places_side_by_side() -> None:
    results = load("reference:cartesius")
    rows = places.rows(results.cells)
    assert [row.where["streams"] for row in rows] == list(range(1, 9))
    assert all(len(row.pairs) == 20 for row in rows)
    # "Slower, but the speed is not drastically decreased."
    for row in rows:
        assert row.sizes is not None
        assert 0.75 < row.sizes[0] < 0.95
    text = shown(results)
    assert "Local and remote" in text and "remote/local" in text
    assert results.convergences == [], "their sizes were not chosen to divide one amount"


# One amount over more and more streams


@pytest.mark.parametrize(
    ("place", "read", "converges"),
    [("local", (820, 1450, 1850, 1900), 1950), ("remote", (850, 1250, 1450, 1550), 1600)],
)
def test_what_the_author_foresaw_comes_out(place: str, read: tuple[int, ...], converges: int) -> None:
    """4M rows over 1, 2, 4, 8 streams, as read from the published plots, and where its author saw them go."""
    own = [c for c in load("reference:cartesius").cells if c.parameters["place"] == place]
    payload = 4_000_000 * 32
    fitted, _ = splits._fitted(own)
    limit, why = splits.limit(fitted, payload)
    assert why == "" and limit is not None
    for n, rate in zip((1, 2, 4, 8), read, strict=True):
        assert (splits._rate(fitted[n], payload, None).value or 0) / MIB == pytest.approx(rate, rel=0.12)
    assert (limit.rate.value or 0) / MIB == pytest.approx(converges, rel=0.02)
    assert limit.rate.low is not None and limit.rate.high is not None
    assert limit.rate.low / MIB < converges < limit.rate.high / MIB
    # Between two nodes every stream costs start-up.
    assert place == "local" or (limit.startup.value or 0.0) == pytest.approx(0.9e6, rel=0.2)


def sweep(startup: Any, rate: Any, off: float = 1.0) -> list[Cell]:
    """t = a(N) + n / b(N), within 0.1 %; the cells of 4M rows take `off` times as long."""
    amounts = {(n, 4_000_000 // n) for n in (1, 2, 4, 8)}
    grid = {(n, rows) for n in range(1, 9) for rows in (100_000, 300_000, 900_000, 1_700_000, 2_900_000)}
    records = []
    for place in ("local", "remote"):
        for n, rows in sorted(amounts | grid):
            time = startup(n) + 32 * n * rows / rate(n) * 1e9
            time *= off if (n, rows) in amounts else 1.0
            records += [
                record("get", n, rows, time * (1 + 0.001 * (repeat - 2)), repeat, place=place)
                for repeat in range(5)
            ]
    return summarise(records)


def test_start_up_of_every_stream_and_the_rate_give_the_limit() -> None:
    """a = 10 + N ms, b = 1 GB/s a stream up to 4: 128 MB are fastest over 4 streams, in 14 + 32 ms."""
    found = splits.convergences(sweep(lambda n: 1e6 * (10 + n), lambda n: 1e9 * min(n, 4)))
    assert [one.where for one in found] == [{"place": "local"}, {"place": "remote"}]
    for one in found:
        assert one.rows == 4_000_000 and one.payload_bytes == 128e6
        assert [s.streams for s in one.splits] == [1, 2, 4, 8]
        assert one.limit is not None
        assert one.limit.rate.value == pytest.approx(128e6 / 46e-3, rel=0.01)
        assert one.limit.at == 4 and one.limit.loses
        assert one.limit.startup.value == pytest.approx(1e6, rel=0.05)
        for split in one.splits:
            assert split.error == pytest.approx(0.0, abs=0.01)


def test_the_amount_itself_is_held_out() -> None:
    laws = (lambda n: 10e6, lambda n: 1e9 * min(n, 4))
    true, slow = (splits.convergences(sweep(*laws, off))[0] for off in (1.0, 1.5))
    for one, other in zip(true.splits, slow.splits, strict=True):
        assert one.predicted == other.predicted
        assert other.error == pytest.approx(0.5, abs=0.02) and other.inside is False
    assert true.limit is not None and not true.limit.startup.known
    assert true.reached == pytest.approx(1.0, abs=0.01)


def test_a_sweep_whose_products_meet_by_chance_divides_nothing() -> None:
    grid = [(n, rows) for n in (1, 2, 3) for rows in (1000, 2000, 3000)]
    records = [record("get", n, rows, 1e7 + n * rows, place="local") for n, rows in grid]
    assert splits.convergences(summarise(records)) == []


def test_a_split_without_a_sweep_says_what_is_missing() -> None:
    records = [record("get", n, 4_000_000 // n, 1e8 / n, place="local") for n in (1, 2, 4, 8)]
    (one,) = splits.convergences(summarise(records))
    assert one.limit is None and one.refused.endswith("a law over streams needs 4")
    assert all(s.refused == "no other size was measured with so many streams" for s in one.splits)
    why = "1, 2, 4 and 8 streams: no other size was measured with so many streams"
    assert texts._tends(one).endswith(why)


def test_a_run_of_splits_is_reported(tmp_path: Path) -> None:
    sizes = (100_000, 500_000, 1_500_000, 2_500_000, 3_500_000)
    matrix = cells(("get",), (1, 2, 4, 8), ("local", "remote"), sizes)
    for place in ("local", "remote"):
        for n in (1, 2, 4, 8):
            own = cells(("get",), (n,), (place,), (4_000_000 // n,))
            matrix += [p for p in own if p not in matrix]
    results = load(make_run(tmp_path / "run", matrix, repeats=3, warmup=0, samples=False))
    local, remote = results.convergences
    for one in (local, remote):
        divided = [(n, 4_000_000 // n) for n in (1, 2, 4, 8)]
        assert [(s.streams, s.rows_per_stream) for s in one.splits] == divided
        assert all(abs(s.error or 1.0) < 0.08 for s in one.splits)
    assert local.limit is not None and remote.limit is not None
    # The model's limits: 4.2 GB/s and 0.7 of it, less start-up of 1.6 ms.
    assert (remote.limit.rate.value or 0) / (local.limit.rate.value or 1) == pytest.approx(0.71, abs=0.03)
    text = shown(results)
    assert "One amount over more and more streams" in text and "converges at" in text
    figure = figures.one(results, "convergence")
    assert [p.title for p in figure.panels] == ["get, local", "get, remote"]
    assert {"measured", "predicted"} <= {s.name for s in figure.panels[0].series}
    assert matplotlib_figures.render(figure, "svg").startswith(b"<?xml")
    body = html_page.page(results).split("<script")[0]
    assert "get, remote, 4M rows in all" in body and 'id="figure-convergence"' in body
    table = table_files.table(results, "convergence").to_pylist()
    assert len(table) == 8 and {row["total_rows"] for row in table} == {4_000_000}
