"""A cell's parameters reach all that is made from them: tables, SQL, and the command that repeats it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from support.run import DATA
from venturi.analysis.cells.summary import PARAMETER_ORDER, summarise
from venturi.analysis.verdict.rerun import Rerun
from venturi.cli import run as cli
from venturi.common import toml_text
from venturi.engine.spec import failed_record, trial_line
from venturi.measure.endpoints import Endpoints
from venturi.plan.cell import Cell
from venturi.plan.layers import Layer, builtin_names, file_layer
from venturi.plan.load import load
from venturi.plan.scenario import Scenario
from venturi.store import tables
from venturi.targets.parameters import PARAMETERS
from venturi.targets.system import is_remote
from venturi.targets.urls import place_of

SCENARIOS = sorted((DATA / "parameters").glob("*.toml"))
"""Together they set every parameter to what it is not by itself."""


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "clicks.parquet"
    columns = {"day": [1, 1, 2], "page": ["a", "b", "a"], "hits": [1, 2, 3]}
    pq.write_table(pa.table({**columns, "at": pa.array([0, 1, 2], pa.timestamp("ns"))}), path)
    return path


@pytest.fixture(scope="module")
def cells(clicks: Path) -> list[Cell]:
    found: list[Cell] = []
    for path in SCENARIOS:
        text = path.read_text().replace("{clicks}", str(clicks))
        found += planned(load([Layer(path.name, toml_text.parse(text, path.name), text)]))
    over = {"link": "1gbit 5ms", "backplane": "2gbit", "cross": "10%", "loaders": 2}
    found += planned(load([Layer("", {"workload": {"streams": 4}, "hosts": over})]))
    placed = load([Layer("", {"workload": {"streams": 4}, "hosts": {"loaders": 2}})])
    found += [c for on in ("ray", "spark") for c in planned(replace(placed, on=on))]
    for name in builtin_names():
        layer = file_layer(name)
        empty = {label: "flight://h" for label, url in layer.tree.get("places", {}).items() if not url}
        scenario = load([layer, Layer("", {"places": empty})] if empty else [layer])
        # Servers on hosts of their own need a cluster, even to be planned.
        remote = any(map(is_remote, (scenario.target.url, *scenario.places.values())))
        of_it = planned(replace(scenario, on="ray" if remote else None))
        found += [of_it[0], of_it[-1]]
    return found


def planned(scenario: Scenario) -> list[Cell]:
    """The cells as a run has them, which has read the files."""
    with Endpoints(scenario, False, lambda level, text: None) as endpoints:
        return endpoints.cells


def line(cell: Cell) -> dict[str, Any]:
    ended = failed_record("server", "never mind")
    return trial_line(ended, run="r", trial="t", cell=cell, repeat=0, warmup=False, order=0)


def test_every_parameter_of_a_cell_is_in_the_one_list_and_each_of_the_list_in_a_cell(
    cells: list[Cell],
) -> None:
    for cell in cells:
        assert set(cell.parameters) == set(PARAMETERS)
    never = [name for name in PARAMETERS if all(cell.parameters[name] is None for cell in cells)]
    assert never == [], "no cell of this test has them, so the tests below say nothing of them"
    assert tuple(PARAMETERS) == PARAMETER_ORDER


def test_tables_have_every_parameter_with_its_value(cells: list[Cell]) -> None:
    rows = tables.trials([line(cell) for cell in cells]).to_pylist()
    for cell, row in zip(cells, rows, strict=True):
        assert {name: row[name] for name in PARAMETERS} == dict(cell.parameters), cell.id


def test_the_command_made_from_a_cell_measures_that_cell_again(cells: list[Cell]) -> None:
    for cell in cells:
        url = cell.parameters["target"]
        (seen,) = summarise([line(cell)])
        words = shlex.split(Rerun.of(seen, {}).but())
        assert words[:2] == ["venturi", "run"]
        printed = CliRunner().invoke(cli.app, [*words[2:], "--dry-run", "--quiet"], catch_exceptions=False)
        # The label of a place is a user's own word for the address, which the command names.
        named = Cell({**cell.parameters, "place": place_of(url)}, cell.options)
        assert printed.stdout.split()[0] == named.id, shlex.join(words)


def test_a_command_keeps_what_may_be_said_several_times() -> None:
    typed = "venturi run --target mysql://h/db --init 'SET a = 1' --init 'SET b = 2' --streams 2"
    (seen,) = summarise([line(Cell({"operation": "upsert", "streams": 2, "rows_per_batch": 500}))])
    again = Rerun.of(seen, {"command": shlex.split(typed)}).but(streams=4)
    assert shlex.split(again)[-6:] == ["--init", "SET a = 1", "--init", "SET b = 2", "--streams", "4"]
