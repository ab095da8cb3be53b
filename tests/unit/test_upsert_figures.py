"""Figures of upserts from records: rows a second, latency, doubts, what a batch costs; and their text."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from support.golden import kept
from support.run import venturi
from support.upsert import BATCH_NS, ROW_NS, make_run, repeated, sweep, trial
from support.verdict import summarise
from support.verdict import trial as transfer
from venturi.analysis.cells import writes
from venturi.analysis.cells.summary import by_operation, speed
from venturi.analysis.compare import best
from venturi.analysis.compare import runs as compare
from venturi.analysis.models.batch_cost import batch_costs
from venturi.analysis.results import load
from venturi.report import markdown, summary, tables
from venturi.report import run as runs
from venturi.report.draw import Drawing
from venturi.report.figures import latency
from venturi.report.figures import registry as figures
from venturi.report.page import page as html_page

REFUSED = {
    "refused": {"batches": 2, "rows": 1000},
    "in_doubt": {"batches": 1, "rows": 500},
    "retries": 3,
    "kinds": [
        {"kind": "server", "code": "1213", "count": 2, "message": "Deadlock found", "stream": 0},
        {"kind": "timeout", "code": None, "count": 1, "message": "no answer", "stream": 2},
    ],
}  # fmt: skip


def test_an_upsert_is_judged_by_rows() -> None:
    (cell,) = summarise(repeated())
    assert speed(cell).unit == "rows/s" and cell.main == cell.rows and cell.steady.unit == "rows/s"
    # Four connections, 500 rows a batch of 0.4 ms + 500 x 4 us.
    assert cell.rows.value == pytest.approx(4 * 500 / 2.4e-3, rel=0.02)
    # 0.2 cores of the client: five times as many rows a CPU-second.
    assert cell.per_cpu["client"].value == pytest.approx(5 * (cell.rows.value or 0), rel=0.01)
    assert cell.per_cpu["server"].value == pytest.approx((cell.rows.value or 0) / 2, rel=0.01)


def test_a_transfer_beside_it_keeps_its_bytes(tmp_path: Path) -> None:
    lines = [*sweep((1, 4)), *(transfer(repeat=r, cell="get-1") for r in range(5))]
    cells = summarise(lines)
    groups = by_operation(cells)
    assert [speed(c, g).unit for g in groups.values() for c in g][:1] == ["B/s"]
    assert {speed(c, groups["upsert"]).unit for c in groups["upsert"]} == {"rows/s"}
    columns = summary.columns(groups["upsert"])
    assert next(c for c in columns if c.head == "median").unit == "krows/s"
    assert next(c for c in summary.columns(groups["get"]) if c.head == "median").unit == "MB/s"


def test_stored_bytes_are_of_a_row() -> None:
    (cell,) = summarise(repeated())
    assert writes.stored_row(cell).value == 96_000_000 / 800_000


def test_what_a_batch_costs_is_found_again() -> None:
    cells = summarise(sweep((4,), (1, 10, 100, 500, 2000, 10_000)))
    (cost,) = batch_costs(cells)
    assert cost.fit is not None
    assert cost.fit.a == pytest.approx(BATCH_NS, rel=0.03)
    assert 1e9 / cost.fit.b == pytest.approx(ROW_NS, rel=0.03)
    assert cost.most.value == pytest.approx(4 * 1e9 / ROW_NS, rel=0.03)
    assert cost.knee.median == pytest.approx(9 * BATCH_NS / ROW_NS, rel=0.05)
    assert cost.knee.low < 9 * BATCH_NS / ROW_NS < cost.knee.high
    assert "90 % with" in cost.sentence and "krows/s" in cost.sentence
    # Streams that change along have a part in the time as well.
    zipped = [trial for n, rows in ((1, 10), (2, 100), (4, 1000)) for trial in sweep((n,), (rows,))]
    (cost,) = batch_costs(summarise(zipped))
    assert cost.fit is None and "batches in flight changes" in cost.sentence


def test_best_and_compare_use_rows(tmp_path: Path) -> None:
    cells = summarise(sweep((1, 2, 4, 8), (100, 1000)))
    (found,) = best.find(cells)
    assert found.fastest.speed.unit == "rows/s" and found.fastest.cost.unit == "ns/row"
    assert found.fastest.cell.parameters["rows_per_batch"] == 1000
    one = load(make_run(tmp_path / "one", sweep((4,), (100, 1000), repeats=6)))
    slower = [trial({"rows_per_batch": n}, repeat=r, batch_ns=1.2 * (BATCH_NS + n * ROW_NS))
              for n in (100, 1000) for r in range(6)]  # fmt: skip
    two = load(make_run(tmp_path / "two", slower))
    for metric, unit in (("throughput", "rows/s"), ("steady", "rows/s"), ("cpu-per-byte", "ns/row")):
        result = compare.compare(one, two, metric, force=True)
        assert {row.before.unit for row in result.rows} == {unit}
        assert {row.verdict for row in result.rows} == {"worse"}, metric


LOST = {"kind": "lost", "message": "the server went away", "stream": 1}


def test_the_text_of_runs(tmp_path: Path) -> None:
    shown: dict[str, tuple[list[dict[str, Any]], tuple[str, ...]]] = {
        "a trial that failed": (
            [*sweep((1, 4, 8), (1, 10, 100, 500, 2000)),
             trial({"streams": 4}, repeat=5, errors=REFUSED, outcome="failed", error=LOST)],
            ("show", "show --cell streams=4,rows_per_batch=500")),
        "doubts of good trials": (repeated({"max_errors": 10}, errors=REFUSED), ("show", "show --cell best")),
        "a rate that was held, and one that was not": (
            [*repeated({"rate": 500.0}), *repeated({"rate": 3000.0})], ("show", "show --cell rate=3000")),
        "what a batch costs": (sweep((4,), (1, 10, 100, 500, 2000)), ("fit",)),
        "no cost of a batch from three sizes": (sweep((4,), (1, 10, 100)), ("fit",)),
        "no cost of a batch in an open loop": (sweep((4,), (1, 10, 100, 500), rate=100.0), ("fit",)),
    }  # fmt: skip
    printed = []
    for number, (name, (lines, commands)) in enumerate(shown.items()):
        make_run(tmp_path / f"run-{number}", lines)
        for line in commands:
            verb, *words = line.split()
            done = venturi(verb, f"run-{number}", *words, cwd=tmp_path)
            assert (done.returncode, done.stderr) == (0, ""), name
            printed.append(f"# {name}: {line}\n{done.stdout}")
    kept("show-upserts", "\n".join(printed))


def test_csv_and_json_have_rows_in_columns_of_their_own(tmp_path: Path) -> None:
    results = load(make_run(tmp_path / "run", repeated(errors=REFUSED)))
    (row,) = csv.DictReader(io.StringIO(tables.text(tables.table(results, "cells"))))
    assert row["steady_bytes_per_second"] == "" == row["bytes_per_client_cpu_second"]
    assert float(row["steady_rows_per_second"]) > 0 and float(row["rows_per_client_cpu_second"]) > 0
    assert float(row["service_p99_ns"]) > float(row["service_mean_ns"]) > float(row["service_min_ns"])
    assert (row["batches_refused"], row["in_doubt_rows"], row["batches_retries"]) == ("10", "2500", "15")
    assert float(row["stored_bytes_per_row"]) == 120.0
    found = json.loads(venturi("show", tmp_path / "run", "--format", "json").stdout)
    assert found["cells"][0]["rows_total"] == float(row["rows_total"])
    text = markdown.text(runs.document(results))
    assert "per client CPU" in text and "rows in total" in text and "p99.9" in text


def test_the_published_four_lines(tmp_path: Path) -> None:
    lines = [*sweep((4,), (100, 500)), *(transfer(repeat=r, cell="get-1") for r in range(2))]
    results = load(make_run(tmp_path / "run", lines))
    text = tables.upsert_benchmark(results)
    blocks = text.strip().split("\n\n")
    assert len(blocks) == 2
    for block in blocks:
        head, total, rate, low, high = block.splitlines()
        assert head.startswith("### cell upsert-4x") and "of 5, the median by rows a second" in head
        assert total.endswith(" rows in total") and rate.endswith(" rows per second")
        assert low.startswith("Min query latency: ") and high.startswith("Max query latency: ")
        assert low.endswith(" ms") and high.endswith(" ms")
    told = venturi("show", tmp_path / "run", "--format", "seed")
    assert told.stdout == text
    written = venturi("report", tmp_path / "run", "--format", "seed")
    assert Path(written.stdout.strip()).read_text() == text
    # What is written in that form is read again.
    (tmp_path / "seed.md").write_text(text)
    assert venturi("import", tmp_path / "seed.md", "--out", tmp_path / "again", cwd=tmp_path).returncode == 0
    again = load(tmp_path / "again")
    assert {c.parameters["target"] for c in again.cells} == {"mysql"}
    for cell, own in zip(again.cells, [c for c in results.cells if c.in_rows], strict=True):
        assert cell.parameters["rows_per_batch"] == own.parameters["rows_per_batch"]
        assert cell.rows.value == pytest.approx(own.rows.value, rel=1e-6)
        assert cell.records[0]["latency"]["service"]["max"] == pytest.approx(
            sorted(r["latency"]["service"]["max"] for r in own.records)[2], rel=0.05
        )
    assert not [a for a in again.advice if a.kind == "note"]


def test_a_run_without_upserts_has_no_such_lines(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [transfer(repeat=r, cell="get-1") for r in range(2)])
    done = venturi("show", run, "--format", "seed")
    assert done.returncode == 2 and "has no upsert that succeeded" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_published_runs_print_their_own_lines() -> None:
    text = tables.upsert_benchmark(load("reference:memsql"))
    assert "51,983,500 rows in total\n5,198,350 rows per second\n" in text
    assert "Min query latency: 0.055 ms\nMax query latency: 172.780 ms\n" in text


def test_figures_of_an_upsert(tmp_path: Path) -> None:
    results = load(make_run(tmp_path / "run", sweep((1, 2, 4, 8), (1, 10, 100, 500, 2000))))
    drawn = {f.name: f for f in figures.build(results)}
    assert {"throughput-streams", "throughput-batch", "box-size", "latency", "model-scaling"} <= set(drawn)
    batch = drawn["throughput-batch"]
    assert batch.y_label == "throughput, krows/s" and batch.x_scale == "log"
    knees = [s for s in batch.panels[0].series if s.name == "knee"]
    assert len(knees) == 4 and all(800 < s.x[0] < 1000 for s in knees)
    assert "90 % of the fitted peak at" in batch.title
    assert drawn["throughput-streams"].y_label == "throughput, krows/s"
    assert "roofline" not in drawn
    for figure in drawn.values():
        assert Drawing.of(figure).svg().startswith("<svg")


def test_the_tail_over_nines(tmp_path: Path) -> None:
    results = load(make_run(tmp_path / "run", [*repeated({"rate": 500.0}), *repeated({"rate": 3000.0})]))
    figure = latency.latency(results)
    assert figure is not None
    assert figure.x_texts[:6] == ["min", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"][: len(figure.x_texts)]  # type: ignore[index]
    names = [s.name for s in figure.panels[0].series]
    assert names == ["rate 500", "rate 500, service", "rate 3k", "rate 3k, service"]
    (cell, _) = results.cells
    line = dict(latency.curve(cell, "service"))
    known = writes.latencies(cell, "service")
    for x, name in ((1.0, "min"), (10.0, "p90"), (100.0, "p99"), (1000.0, "p99.9")):
        at = min(line, key=lambda v, x=x: abs(v - x))  # type: ignore[misc]
        assert line[at] == pytest.approx(known[name].value, rel=0.01), name
    assert all(a <= b for a, b in zip(line.values(), list(line.values())[1:], strict=False))
    assert "the response time is" in figure.title and "x the service time" in figure.title


def test_the_tail_without_histograms_has_the_percentiles(tmp_path: Path) -> None:
    lines = repeated()
    for line in lines:
        line["latency"]["service"]["hdr"] = None
    (cell,) = summarise(lines)
    assert latency.curve(cell, "service")[0][1] == writes.latencies(cell, "service")["min"].value


def test_fit_as_json_has_what_a_batch_costs(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", sweep((4,), (1, 10, 100, 500, 2000)))
    (cost,) = json.loads(venturi("fit", run, "--format", "json").stdout)["batch_cost"]
    assert cost["a_ns"]["low"] < BATCH_NS < cost["a_ns"]["high"] and cost["under_way"] == 4


def test_published_hosts_are_drawn(tmp_path: Path) -> None:
    results = load("reference:memsql")
    figure = figures.one(results, "throughput-hosts")
    series = figure.panels[0].series
    assert [list(s.x) for s in series if s.name != "in proportion to the fewest"] == [[1.0, 5.0, 10.0]]
    assert figure.y_label == "throughput, Mrows/s"
    note = next(n for n in results.fits.notes if "hosts" in n)
    assert "only 3 different values" in note


def test_the_page_of_upserts_and_transfers(tmp_path: Path) -> None:
    get: list[dict[str, Any]] = [transfer(repeat=r, cell="get-1") for r in range(5)]
    run = make_run(tmp_path / "run", [*sweep((1, 4), (10, 100, 500, 2000)), *get])
    page = html_page.page(load(run))
    assert "krows/s" in page and "MB/s" in page and "cost of a batch of n rows" in page
    mixed = load(run)
    box = next(f for f in figures.build(mixed) if f.name == "box-size")
    assert {p.y_label for p in box.panels} == {None, "throughput, krows/s"} and box.y_label == "payload, MB/s"
    assert Drawing.of(box).png()


def test_published_upserts_are_judged_by_rows() -> None:
    cells = load("reference:upsert").cells
    assert {speed(c).unit for c in cells} == {"rows/s"}
