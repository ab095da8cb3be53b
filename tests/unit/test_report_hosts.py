"""Several hosts in a report, and local beside remote: against known truths, published figures, the author's
words, and where there are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.golden import kept
from support.hosts_records import both_places, placed, record, shown, spread
from support.packed import unpacked
from support.synthetic import HOSTILE, Edit, cells, make_run
from support.verdict import summarise
from venturi.analysis.cells import hosts as host_figures
from venturi.analysis.cells.summary import Cell
from venturi.analysis.models import splits
from venturi.analysis.results import load
from venturi.report import hosts, markdown, tables, terminal
from venturi.report import run as runs
from venturi.report.cell import document as cell_document
from venturi.report.draw import Drawing
from venturi.report.figures import registry as figures
from venturi.report.page import page as html_page

LOADERS = [{**p, "loaders": n} for n in (1, 2, 4) for p in cells(("get",), (8,))]


def changed(edit: Edit, **fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The same, with these fields of each host."""

    def more(line: dict[str, Any]) -> dict[str, Any]:
        found = edit(line)
        assert found is not None
        for host in found["hosts"]:
            host |= fields
        return found

    return more


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1, 2 and 4 loaders, eight streams in all, two servers; the second loader is slow."""
    place = tmp_path_factory.mktemp("several") / "run"
    return make_run(place, placed(LOADERS), repeats=3, edit=spread(4, 2, slow=1))


@pytest.fixture(scope="module")
def placed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return both_places(tmp_path_factory.mktemp("places") / "run", (1, 2))


def test_efficiency_over_loaders(several: Path) -> None:
    (one,) = host_figures.scaled(load(several).cells)
    assert [step.hosts for step in one.steps] == [1, 2, 4]
    first = one.steps[0].cell.main.value or 0.0
    for step in one.steps[1:]:
        # As many streams in all, so the model moves as much, whatever the number of hosts.
        own = (step.cell.main.value or 0.0) / step.hosts / first
        assert step.efficiency.value == pytest.approx(own)
        assert step.efficiency.low is not None and step.efficiency.low < own
        assert step.slowest == pytest.approx(0.5, abs=0.01)


def test_streams_that_grow_with_loaders_are_one_row() -> None:
    records = [
        record("upsert", 16 * n, 1000, 1e9 / (0.9 if n > 1 else 1), on="ray", loaders=n, threads=16 * n)
        for n in (1, 5, 10)
    ]
    (one,) = host_figures.scaled(summarise(records))
    assert [step.hosts for step in one.steps] == [1, 5, 10]
    assert [round(step.efficiency.value or 0, 3) for step in one.steps] == [1.0, 0.9, 0.9]


def test_loaders_of_one_machine_are_no_more_hosts(tmp_path: Path) -> None:
    """As `--on local` has them."""
    matrix = placed([{**p, "loaders": n} for n in (1, 2) for p in cells(("get",), (2,))])
    here = changed(spread(2), node="here")
    text = shown(load(make_run(tmp_path / "run", matrix, repeats=2, warmup=0, edit=here)))
    assert "Efficiency over loaders of one machine" in text and "over hosts" not in text
    assert "each of 2 does 5" in text


def test_who_sent_how_much_to_whom(several: Path) -> None:
    by_loaders = {c.parameters["loaders"]: c for c in load(several).cells}
    found = host_figures.payload_flows(by_loaders[4])
    assert found is not None and found.by_server
    assert found.senders == ("10.77.0.10:31337", "10.77.0.11:31337")
    assert found.receivers == tuple(f"loader-{i}" for i in (1, 2, 3, 4))
    # Two streams each, the even one from the first server, the odd one from the second.
    ways = {(sender, receiver) for sender in found.senders for receiver in found.receivers}
    assert {(f.sender, f.receiver) for f in found.flows} == ways
    assert [f.payload_bytes for f in found.flows] == pytest.approx([320e6] * 8)
    assert found.total == pytest.approx(2.56e9)


def with_target(cell: Cell, **target: Any) -> Cell:
    for trial in cell.records:
        for name, value in target.items():
            setattr(trial.target, name, value)
    return cell


def test_servers_that_cannot_be_told_apart_stand_as_one(several: Path) -> None:
    results = load(several)
    cell = next(c for c in results.cells if c.parameters["loaders"] == 2)
    found = host_figures.payload_flows(with_target(cell, protocol="path", reference=False))
    assert found is not None and not found.by_server
    assert found.senders == ("10.77.0.10:31337, 10.77.0.11:31337",)
    assert [f.payload_bytes for f in found.flows] == pytest.approx([1.28e9] * 2)
    assert "not known here" in figures.one(results, "flows", cell=cell).caption


def test_one_process_and_several_servers(tmp_path: Path) -> None:
    def edit(line: dict[str, Any]) -> dict[str, Any]:
        line["target"]["address"] = "a:1,b:1"
        return line

    results = load(make_run(tmp_path / "run", cells(("get",), (3,)), repeats=1, warmup=0, edit=edit))
    found = host_figures.payload_flows(results.cells[0])
    assert found is not None
    assert [(f.sender, f.payload_bytes) for f in found.flows] == [("a:1", 640e6), ("b:1", 320e6)]
    figure = figures.one(results, "flows")
    assert figure.title.endswith("960.0 MB from 2 servers to this process")
    assert [(s.name, s.x, s.y) for s in figure.panels[0].series] == [
        ("this process", pytest.approx([200 / 3, 100 / 3]), ["a:1", "b:1"])
    ]
    assert "Loaders" not in shown(results)


def test_a_put_goes_the_other_way(tmp_path: Path) -> None:
    matrix = placed(cells(("put",), (4,)), 2)
    (cell,) = load(make_run(tmp_path / "run", matrix, repeats=1, warmup=0, edit=spread(2))).cells
    found = host_figures.payload_flows(cell)
    assert found is not None
    assert (found.senders, found.receivers) == (("loader-1", "loader-2"), ("10.77.0.10:31337",))


def test_of_many_ends_the_smallest_stand_as_one(tmp_path: Path) -> None:
    matrix = placed(cells(("get",), (100,)), 100)
    run = make_run(tmp_path / "run", matrix, repeats=1, warmup=0, samples=False, edit=spread(100))
    results = load(run)
    (panel,) = figures.one(results, "flows").panels
    assert [s.name for s in panel.series][-1] == "85 others"
    assert sum(share for s in panel.series for share in s.x) == pytest.approx(100)
    text = shown(results)
    assert "88 more between those shown" in text
    assert html_page.page(results).count("loader-") > 100


# What a reader sees


def test_nothing_is_new_with_one_host_one_place_and_no_link(tmp_path: Path) -> None:
    results = load(make_run(tmp_path / "run", cells(streams=(1, 2, 4)), repeats=2))
    assert runs.sections(results) == []
    assert results.convergences == results.link_fits == []
    page = html_page.page(results)
    for text in ('id="places"', 'id="hosts"', 'id="figure-flows"', '"loaders":'):
        assert text not in page
    drawn = {"flows", "convergence", "throughput-hosts", "throughput-delay", "throughput-link-rate"}
    assert not {f.name for f in figures.build(results)} & drawn
    assert set(tables.machine(results)) == {"run", "cells", "findings", "failed", "warnings"}
    written = {path.stem for path in tables.write(results, tmp_path / "tables", "csv")}
    assert not written & {"hosts", "places", "efficiency", "convergence", "flows"}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_longer_than_the_terminal(several: Path, placed_run: Path, width: int) -> None:
    for run in (several, placed_run):
        assert max(map(len, shown(load(run), width).splitlines())) <= width


def test_the_words(several: Path) -> None:
    """The screen of the run, and that of a cell."""
    results = load(several)
    cell = next(c for c in results.cells if c.parameters["loaders"] == 4)
    own = terminal.text(cell_document(results, cell, 100), 100)
    kept("show-hosts", f"{shown(results, 100)}\n{'-' * 80}\n{own}")


def test_page(several: Path, placed_run: Path) -> None:
    page = html_page.page(load(several))
    body = page.split("<script")[0]
    assert 'id="hosts"' in body and 'id="places"' not in body
    top = hosts.chosen(load(several))[0].parameters["loaders"]
    assert f"get, {top} loaders: 2.560 GB from 2 servers to {top} loaders" in body
    assert 'id="figure-flows"' in body
    assert '"loaders": {"heads": ' in json.dumps(unpacked(page)["documents"])
    body = html_page.page(load(placed_run)).split("<script")[0]
    assert 'id="places"' in body and 'id="hosts"' not in body
    assert "get: remote does " in body


def test_markdown_and_files(several: Path, tmp_path: Path) -> None:
    results = load(several)
    text = markdown.text(runs.document(results))
    for part in ("## Efficiency over hosts", "## Loaders", "| loader-2 ! | 10.77.0.3 |"):
        assert part in text
    written = {path.stem: path for path in tables.write(results, tmp_path / "tables", "csv")}
    assert {"hosts", "efficiency", "flows"} <= set(written) and "places" not in written
    lines = written["flows"].read_text().splitlines()
    assert lines[0] == "cell,sender,receiver,payload_bytes,share"
    assert len(lines) == 1 + 2 + 4 + 8
    assert len(written["hosts"].read_text().splitlines()) == 1 + 4 * (1 + 2 + 4)
    found = json.loads(json.dumps(tables.machine(results), allow_nan=False))
    assert [step["hosts"] for step in found["efficiency"]] == [1, 2, 4]
    (warning,) = (w for w in found["warnings"] if w["kind"] == "straggler")
    assert warning["finding"].startswith("loader-2 (10.77.0.3) is a straggler: 50 % of the median rate")
    assert found["efficiency"][2]["slowest_over_fastest"] == pytest.approx(0.5, abs=0.01)


def test_table_hosts(several: Path) -> None:
    found = load(several).directory.table("hosts").to_pylist()
    own = [row for row in found if row["trial"] == found[-1]["trial"]]
    assert sum(row["share"] for row in own) == pytest.approx(1.0)
    assert {row["host_cores"] for row in found} == {8}
    assert {row["host_busy_share"] for row in found} == {0.1, 0.2, 0.1 * 3, 0.4}


def test_figures_as_files(several: Path) -> None:
    results = load(several)
    for name in ("flows", "throughput-hosts"):
        drawn = Drawing.of(figures.one(results, name))
        assert drawn.svg() == drawn.svg() and drawn.png() == drawn.png()
    cell = next(c for c in results.cells if c.parameters["loaders"] == 4)
    figure = figures.one(results, "flows", cell=cell)
    assert figure.title == "get, 4 loaders: 2.560 GB from 2 servers to 4 loaders"
    assert [s.name for s in figure.panels[0].series] == [f"loader-{i}" for i in (1, 2, 3, 4)]


def test_hostile_hosts_stay_text(tmp_path: Path) -> None:
    plain = changed(spread(2, 2), host=HOSTILE, address=HOSTILE, node=HOSTILE)

    def edit(line: dict[str, Any]) -> dict[str, Any]:
        found = plain(line)
        for at, host in enumerate(found["hosts"]):
            host["host"] += str(at)
        found["target"]["address"] = f"{HOSTILE},{HOSTILE}2"
        return found

    run = make_run(tmp_path / "run", placed(cells(("get",), (4,)), 2), repeats=2, warmup=0, edit=edit)
    results = load(run)
    assert HOSTILE not in html_page.page(results)
    assert "<img" not in html_page.page(results).split("<script>")[0]
    assert "\x1b" not in shown(results)
    Drawing.of(figures.one(results, "flows")).svg()


def test_trials_without_resources_or_clocks(tmp_path: Path) -> None:
    unknown = dict.fromkeys(("cpu", "resources", "address", "node"))
    bare = changed(spread(2), clock={"offset_ns": 0, "uncertainty_ns": 0}, **unknown)
    matrix = placed(cells(("get",), (2,)), 2)
    results = load(make_run(tmp_path / "run", matrix, repeats=1, warmup=0, edit=bare))
    assert "loader-2" in shown(results)
    assert html_page.page(results)


# ---- places


MIB = 2**20


# Local and remote


def test_the_ratio_of_places_is_the_truth(placed_run: Path) -> None:
    rows = host_figures.place_rows(load(placed_run).cells)
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
    (row,) = host_figures.place_rows(summarise(records))
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
    rows = host_figures.place_rows(summarise(records))
    assert [(row.where, row.largest.ratio.value) for row in rows] == [
        ({"link": link, "streams": streams}, pytest.approx(ratio))
        for link, ratio in (("100mbit", 0.25), ("1gbit", 0.5))
        for streams in (1, 2)
    ]
    unlike = [r for r in records if r["parameters"]["link"] != "1gbit"]
    (one, two) = host_figures.place_rows(summarise(unlike))
    assert [row.where for row in (one, two)] == [{"streams": 1}, {"streams": 2}]


def test_other_places_are_no_pair() -> None:
    records = [record("get", 1, 1000, 1e6, place=place) for place in ("a", "b", "local")]
    assert host_figures.place_rows(summarise(records)) == []


def test_published_places_side_by_side() -> None:
    results = load("reference:cartesius")
    rows = host_figures.place_rows(results.cells)
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
    assert hosts._tends(one).endswith(why)


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
    assert Drawing.of(figure).svg().startswith("<svg")
    body = html_page.page(results).split("<script")[0]
    assert "get, remote, 4M rows in all" in body and 'id="figure-convergence"' in body
    table = tables.table(results, "convergence").to_pylist()
    assert len(table) == 8 and {row["total_rows"] for row in table} == {4_000_000}
