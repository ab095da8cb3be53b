"""What is said of ingests, on trials by a formula: in points, and what a point costs, wherever it is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.run import model, venturi
from venturi.analysis.cells import ingest
from venturi.analysis.results import load
from venturi.report.figures import registry as figures
from venturi.store import reference


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ingest")
    words = ("ingest-quick", "--streams", "1,2,4,8", "--points-per-batch", "1000,5000", "--repeats", 3)
    done = model(*words, "--quiet", "--no-report", "--out", "r", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "r"


def test_everything_is_told_in_points(run: Path) -> None:
    for words in (("show",), ("show", "--explain"), ("show", "--format", "markdown"), ("best",), ("fit",)):
        said = venturi(words[0], run, *words[1:])
        assert said.returncode == 0, said.stderr
        text = said.stdout.split("## Method")[0]
        assert "points/s" in text, text
        # The keys are rows_per_batch and rows_per_stream all the same.
        assert not re.search(r"\brows?\b", re.sub(r"rows[-\\_]+per", "", text)), text
    compared = venturi("compare", run, "--by", "durable", "--metric", "cpu-per-byte")
    assert "µs/point" in compared.stdout, compared.stdout
    predicted = venturi("predict", run, "--streams", 16)
    assert re.search(r"ingest with 16 streams: [\d.]+ Mpoints/s", predicted.stdout), predicted.stdout


def test_what_a_point_costs(run: Path) -> None:
    cell = load(run).cells[0]
    assert ingest.wire_point(cell).text("B") == "35.50 B [35.50..35.50]"
    for end in ("client", "server"):
        cost, rate = ingest.cpu_point(cell, end).value, cell.per_cpu[end].value
        assert cost is not None and rate is not None and cost == pytest.approx(1e9 / rate, rel=0.05)
    assert ingest.fairness(cell).value is None  # of one stream there is none
    several = next(c for c in load(run).cells if c.parameters["streams"] == 4)
    assert 0.9 < (ingest.fairness(several).value or 0) < 1.0
    assert "the slowest of 4 streams got" in (ingest.fairness_text(several) or "")


def test_figures_draw_cores_beside_the_rate(run: Path) -> None:
    results = load(run)
    panels = {panel.title: panel for panel in figures.one(results, "timeline").panels}
    assert list(panels)[:2] == ["points", "machine: each core"]
    assert [s.name for s in panels["machine: each core"].series][:2] == ["core 0", "core 1"]


def test_the_published_load_is_laid_over(run: Path) -> None:
    figure = figures.one(load(run), "throughput-streams", "akumuli")
    (line,) = (s for s in figure.panels[0].series if s.colour == "$reference")
    assert line.name == "Akumuli, c3.8xlarge, 32 streams" and line.y == [16.0, 16.0]
    assert reference.SETS["akumuli"].rows()[-1]["rows_per_second"] == 16e6


def test_cells_for_machines(run: Path) -> None:
    document = json.loads(venturi("show", run, "--format", "json").stdout)
    first = document["cells"][0]
    assert first["hosts"] == 100 and first["durable"] in ("none", "os") and first["digits"] == "17"
    assert first["rows_per_second"] > 0 and first["stored_bytes_per_row"] == pytest.approx(2.93, rel=0.01)
