"""What the authors of a published benchmark wrote, beside what a run says of the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.synthetic import cells, make_run
from venturi.analysis.results import load
from venturi.report.page.page import page
from venturi.report.text import markdown, published
from venturi.store import reference


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
