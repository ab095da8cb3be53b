"""Every command that is suggested is one that `venturi run --dry-run` takes; what is documented of causes and
their remedies is what they are; a cell's parameters reach all that is made from them."""

from __future__ import annotations

import re
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from support import random_cells
from support.draws import ALL, draws
from support.run import DATA
from support.verdict import summarise, trial
from venturi.analysis.cells.summary import PARAMETER_ORDER, Cell
from venturi.analysis.results import load
from venturi.analysis.verdict.findings import findings
from venturi.analysis.verdict.judge import verdicts
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.rules import RULES
from venturi.analysis.verdict.types import Finding, FindingKind, Remedy, Verdict
from venturi.cli import app
from venturi.cli import run as cli
from venturi.common import toml_text
from venturi.common.errors import VenturiError
from venturi.engine.record import trial_of
from venturi.engine.spec import failed_record, trial_line
from venturi.measure.trial_targets import Endpoints
from venturi.plan import matrix
from venturi.plan.cell import Cell as PlannedCell
from venturi.plan.layers import Layer, builtin_names, file_layer
from venturi.plan.load import load as load_scenario
from venturi.plan.load import scenario_of
from venturi.plan.rules.cells import check_room
from venturi.plan.scenario import Scenario
from venturi.store import reference, tables
from venturi.targets.parameters import PARAMETERS
from venturi.targets.system import is_remote
from venturi.targets.urls import place_of

CELLS = draws(2000, 4)
RUN: Any = typer.main.get_command(cli.app)


def accepted(words: list[str]) -> bool:
    """As `refusal`, where it need not say why: a tenth of the time."""
    try:
        typed = RUN.make_context("run", words).params.items()
        found = scenario_of({name: [*it] if isinstance(it, tuple) else it for name, it in typed if it != ()})
        for cell in matrix.cells(found):
            check_room(found, cell)
    except (VenturiError, ValueError):
        return False
    return True


@pytest.fixture(scope="module")
def refusal() -> Any:
    """Asks the command line for a plan: why it refuses; empty where it takes these words."""
    command: Any = typer.main.get_command(app)

    def ask(text: str) -> str:
        try:
            command.main([*shlex.split(text)[1:], "--dry-run", "--quiet"], standalone_mode=False)
        except Exception as error:
            return f"{text}\n{error!r}"
        return ""

    return ask


def judged(cells: list[Cell], environment: Mapping[str, Any]) -> tuple[dict[str, Verdict], list[Finding]]:
    found = verdicts(cells, environment)
    return found, findings(cells, found, environment)


@pytest.fixture(scope="module")
def by_chance() -> list[tuple[dict[str, Verdict], list[Finding]]]:
    groups = random_cells.groups(CELLS)
    return [judged([c for c in cells if possible(c, known)], known) for _, cells, known in groups]


def possible(cell: Cell, environment: Mapping[str, Any]) -> bool:
    """Whether a run could have measured this cell: only then can it be repeated with a change."""
    return accepted(shlex.split(Rerun.of(cell, environment).but())[2:])


def remedies(found: Mapping[str, Verdict], told: list[Finding]) -> Iterator[Remedy]:
    for one in (*found.values(), *told):
        yield from one.remedies


def commands(found: Mapping[str, Verdict], told: list[Finding]) -> set[str]:
    return {r.command for r in remedies(found, told) if r.command and r.command.startswith("venturi run")}


@pytest.mark.parametrize("name", [*reference.SETS, "cartesius"])
def test_of_reference_runs(name: str) -> None:
    results = load(f"reference:{name}")
    asked = sorted(commands(results.verdicts, results.findings))[:: 1 if ALL else 4]  # cells are alike
    assert [text for text in asked if not accepted(shlex.split(text)[2:])] == []


def test_of_golden_runs(tmp_path: Path, refusal: Any, capsys: Any) -> None:
    asked: set[str] = set()
    for archive in (DATA / "runs").glob("*.tar.xz"):
        with tarfile.open(archive) as file:
            file.extractall(tmp_path / archive.name, filter="data")
        for run in (tmp_path / archive.name).iterdir():
            if run.is_dir():
                results = load(run)
                asked |= commands(results.verdicts, results.findings)
    assert asked
    assert not [why for text in sorted(asked) if (why := refusal(text))]


def test_of_cells_by_chance(by_chance: Any) -> None:
    asked = sorted(set().union(*(commands(*one) for one in by_chance)))
    assert len(asked) > CELLS / 2
    assert [text for text in asked[:: 1 if ALL else 4] if not accepted(shlex.split(text)[2:])] == []


def test_a_command_that_would_be_refused_is_not_printed() -> None:
    """The system does not have the setting, or not this value, or the value is out of bounds."""
    (flight,) = summarise([{**trial(), "outcome": "ok"}])
    (store,) = summarise([trial(parameters={"target": "akumuli://local", "operation": "ingest"})])
    asked = {"window": 65_536}, {"window": 2**40}, {"method": "copy"}, {"streams": 2}
    made = [Rerun.of(flight, {}).proposed(Remedy("why", "words", changes)) for changes in asked]
    assert [command is not None for command in made] == [True, False, False, True]
    refused = Rerun.of(store, {}).proposed(Remedy("why", "words", {"send_buffer": 2**20}))
    assert refused is None and Remedy("why", "words", command=refused).text == "words"


def test_numbers_and_changes_are_those_that_are_documented(by_chance: Any) -> None:
    for found, _ in by_chance:
        for one in found.values():
            if one.kind != "unknown":
                assert set(one.numbers) <= set(RULES[one.cause].numbers), one.cause
                changed = {name for remedy in one.remedies for name in remedy.changes}
                may = {name for it in (one, one.also) if it for name in RULES[it.cause].changes}
                assert changed <= may, (one.cause, one.next)


def test_most_causes_come_up_by_chance(by_chance: Any) -> None:
    """What the tests above say is said of these."""
    seen = {one.cause for found, _ in by_chance for one in found.values()}
    kinds = {RULES[cause].kind for cause in seen}
    assert kinds >= {"cores", "stage", "disk", "link", "flow-control", "server"}
    assert len(seen) > (20 if CELLS == 2000 else 14), sorted(RULES.keys() - seen)


def test_names_are_words_in_kebab_case_and_each_has_its_words(by_chance: Any) -> None:
    proposed = {remedy.why: remedy.words for one in by_chance for remedy in remedies(*one)}
    for name in (*RULES, *proposed, *map(str, FindingKind)):
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert all(proposed.values()) and all(rule.meaning.endswith(".") for rule in RULES.values())


# ---- parameters


SCENARIOS = sorted((DATA / "parameters").glob("*.toml"))
"""Together they set every parameter to what it is not by itself."""


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "clicks.parquet"
    columns = {"day": [1, 1, 2], "page": ["a", "b", "a"], "hits": [1, 2, 3]}
    pq.write_table(pa.table({**columns, "at": pa.array([0, 1, 2], pa.timestamp("ns"))}), path)
    return path


@pytest.fixture(scope="module")
def cells(clicks: Path) -> list[PlannedCell]:
    found: list[PlannedCell] = []
    for path in SCENARIOS:
        text = path.read_text().replace("{clicks}", str(clicks))
        found += planned(load_scenario([Layer(path.name, toml_text.parse(text, path.name), text)]))
    over = {"link": "1gbit 5ms", "backplane": "2gbit", "cross": "10%", "loaders": 2}
    found += planned(load_scenario([Layer("", {"workload": {"streams": 4}, "hosts": over})]))
    placed = load_scenario([Layer("", {"workload": {"streams": 4}, "hosts": {"loaders": 2}})])
    found += [c for on in ("ray", "spark") for c in planned(replace(placed, on=on))]
    for name in builtin_names():
        layer = file_layer(name)
        empty = {label: "flight://h" for label, url in layer.tree.get("places", {}).items() if not url}
        scenario = load_scenario([layer, Layer("", {"places": empty})] if empty else [layer])
        # Servers on hosts of their own need a cluster, even to be planned.
        remote = any(map(is_remote, (scenario.target.url, *scenario.places.values())))
        of_it = planned(replace(scenario, on="ray" if remote else None))
        found += [of_it[0], of_it[-1]]
    return found


def planned(scenario: Scenario) -> list[PlannedCell]:
    """The cells as a run has them, which has read the files."""
    with Endpoints(scenario, False, lambda level, text: None) as endpoints:
        return endpoints.cells


def line(cell: PlannedCell) -> dict[str, Any]:
    ended = failed_record("server", "never mind")
    return trial_line(ended, run="r", trial="t", cell=cell, repeat=0, warmup=False, order=0)


def test_every_parameter_of_a_cell_is_in_the_one_list_and_each_of_the_list_in_a_cell(
    cells: list[PlannedCell],
) -> None:
    for cell in cells:
        assert set(cell.parameters) == set(PARAMETERS)
    never = [name for name in PARAMETERS if all(cell.parameters[name] is None for cell in cells)]
    assert never == [], "no cell of this test has them, so the tests below say nothing of them"
    assert tuple(PARAMETERS) == PARAMETER_ORDER


def test_tables_have_every_parameter_with_its_value(cells: list[PlannedCell]) -> None:
    rows = tables.trials([trial_of(line(cell)) for cell in cells]).to_pylist()
    for cell, row in zip(cells, rows, strict=True):
        assert {name: row[name] for name in PARAMETERS} == dict(cell.parameters), cell.id


def test_the_command_made_from_a_cell_measures_that_cell_again(cells: list[PlannedCell]) -> None:
    for cell in cells:
        url = cell.parameters["target"]
        (seen,) = summarise([line(cell)])
        words = shlex.split(Rerun.of(seen, {}).but())
        assert words[:2] == ["venturi", "run"]
        printed = CliRunner().invoke(cli.app, [*words[2:], "--dry-run", "--quiet"], catch_exceptions=False)
        # The label of a place is a user's own word for the address, which the command names.
        named = PlannedCell({**cell.parameters, "place": place_of(url)}, cell.options)
        assert printed.stdout.split()[0] == named.id, shlex.join(words)


def test_a_command_keeps_what_may_be_said_several_times() -> None:
    typed = "venturi run --target mysql://h/db --init 'SET a = 1' --init 'SET b = 2' --streams 2"
    (seen,) = summarise([line(PlannedCell({"operation": "upsert", "streams": 2, "rows_per_batch": 500}))])
    again = Rerun.of(seen, {"command": shlex.split(typed)}).but(streams=4)
    assert shlex.split(again)[-6:] == ["--init", "SET a = 1", "--init", "SET b = 2", "--streams", "4"]
