"""The scenario language: what it accepts, what it means, and what it says to mistakes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.run import DATA
from support.scenarios import check_cells, same, scenario
from venturi.common import toml_text
from venturi.common.conditions import Condition
from venturi.common.environment import usable_cores
from venturi.common.errors import ScenarioError
from venturi.plan import matrix, scale
from venturi.plan.layers import Layer, builtin_names, file_layer
from venturi.plan.load import load, to_toml
from venturi.plan.scenario import Scenario
from venturi.plan.workload import SIZES


def axis(found: Scenario, name: str) -> list[Any]:
    return [cell.parameters[name] for cell in matrix.cells(found)]


@pytest.mark.parametrize("wing", ["transfers", "databases", "limits"])
def test_cells_of_a_scenario(wing: str) -> None:
    check_cells(wing)


def test_defaults() -> None:
    (cell,) = matrix.cells(scenario(""))
    p = cell.parameters
    assert (p["operation"], p["target"], p["place"]) == ("get", "flight://local", "local")
    assert p["data"] == "records"
    assert (p["streams"], p["threads"], p["rows_per_batch"], p["rows_per_stream"]) == (1, 1, 4096, 10_000_000)
    assert cell.options == {} and cell.payload_bytes == 320_000_000 and cell.message_bytes == 131_072


def test_conditions_know_suffixes_and_null() -> None:
    assert Condition("rows_per_stream >= '10M'")({"rows_per_stream": 10_000_000})
    assert Condition("duration > '2s'")({"duration": 3 * 10**9})
    assert not Condition("duration > 0")({"duration": None})
    assert Condition("1 < streams <= 4 and verify in ['none', 'count']")({"streams": 4, "verify": "none"})


def test_conditions_can_only_compare() -> None:
    for text in (
        "__import__('os')",
        "streams.real",
        "(lambda: 1)()",
        "[x for x in y]",
        "'a' * 10",
        "streams ** 2",
        "1 +",
    ):
        with pytest.raises(ValueError):
            Condition(text)({"streams": 1})


def test_flags_win_over_the_file_key_by_key() -> None:
    text = (
        '[workload]\nverify = "count"\nduration = "5s"\n[matrix]\nstreams = "1..8"\nrows_per_batch = [1, 2]'
    )
    found = scenario(text, {"workload": {"streams": "3", "rows_per_stream": "1k"}})
    assert axis(found, "streams") == [3, 3] and axis(found, "rows_per_batch") == [1, 2]
    # The ways to say how much exclude one another, so the flag takes the file's away.
    assert axis(found, "duration_ns") == [None, None] and axis(found, "rows_per_stream") == [1000, 1000]
    assert axis(found, "verify") == ["count", "count"]
    # And one for the target takes the places away.
    found = scenario('[places]\na = "flight://a"\nb = "flight://b"', {"target": {"url": "flight://c"}})
    assert axis(found, "target") == ["flight://c:31337"]


def test_a_mistake_on_the_command_line_names_the_flag() -> None:
    with pytest.raises(ScenarioError, match=r"^--streams: 0 must be at least 1"):
        scenario("[workload]\nstreams = 4", {"workload": {"streams": "0"}})


def test_files_are_found_beside_the_scenario(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[workload]\ndata = { source = "file", path = "t.csv" }')
    assert axis(load([file_layer(str(tmp_path / "s.toml"))]), "data") == [str(tmp_path / "t.csv")]


def loaded(name: str) -> Scenario:
    return load([file_layer(name)])


@pytest.mark.parametrize("name", builtin_names())
def test_builtin_scenarios_read_back_from_their_resolved_form(name: str) -> None:
    found = loaded(name)
    again = scenario(to_toml(found))
    assert same(found, again)
    assert [cell.id for cell in matrix.cells(found)] == [cell.id for cell in matrix.cells(again)]


def test_builtin_scenarios_are_those_of_the_seeds() -> None:
    cells = {name: matrix.cells(loaded(name)) for name in builtin_names()}
    known = tomllib.loads((DATA / "builtin.toml").read_text()) | {"ingest-akumuli": len({1, usable_cores()})}
    assert {name: len(found) for name, found in cells.items()} == known
    sizes = {cell.parameters["rows_per_stream"] for cell in cells["flight-remote"]}
    assert (min(sizes), max(sizes)) == (100_000, 4_000_000)


ALSO = """[matrix]
streams = [1, 2]
rows_per_stream = ["10k", "20k"]
also = [{ streams = [4, 8], rows_per_stream = ["100k", "50k"] }, { streams = [1], rows_per_stream = ["10k"] }]
"""


def sizes(found: Scenario) -> list[tuple[int, int]]:
    return [(c.parameters["streams"], c.parameters["rows_per_stream"]) for c in matrix.cells(found)]


def test_points_beside_the_product_of_the_axes() -> None:
    found = scenario(ALSO)
    assert same(found, scenario(to_toml(found)))
    # They shrink as the axes do, and go where a flag sets one of theirs.
    scaled, _ = scale.scale(scenario(ALSO), 0.5)
    assert sizes(scaled)[-2:] == [(4, 50_000), (8, 25_000)]
    flags = Layer("", {"workload": {"streams": 3}}, flags={("workload", "streams"): "--streams"})
    layer = Layer("s.toml", toml_text.parse(ALSO, "s.toml"), ALSO)
    assert sizes(load([layer, flags])) == [(3, 10_000), (3, 20_000)]


def test_scaling_shrinks_and_says_so() -> None:
    scaled, notes = scale.scale(loaded("flight-local"), 0.01)
    points = ["streams: 5 of 8 points", "rows_per_stream: 5 of 50 points"]
    assert notes == [*points, "rows_per_stream 10M..500M became 100k..5M", "repeats 5 became 3"]
    assert list(scaled.axes["streams"]) == [1, 3, 5, 6, 8] and len(matrix.cells(scaled)) == 50


@pytest.mark.parametrize("name", ["chspark", "flight-remote", "flight-local", "upsert-batch-size"])
@pytest.mark.parametrize("factor", [0.1, 1e-5])
def test_scaling_keeps_the_ends_and_the_middle_of_every_axis(name: str, factor: float) -> None:
    whole = loaded(name)
    scaled, _ = scale.scale(whole, factor)
    left, all_of_them = matrix.cells(scaled), matrix.cells(whole)
    for one in whole.axes:
        kept = {cell.parameters[one] for cell in left}
        if one in SIZES:
            assert len(kept) >= 3, "one size of many says nothing of sizes"
            continue
        there = {cell.parameters[one] for cell in all_of_them}
        before = [v for v in whole.axes[one] if v in there]
        assert {before[0], before[len(before) // 2], before[-1]} <= kept, one


def test_scaling_keeps_small_sizes_apart_and_makes_large_ones_as_small_as_asked() -> None:
    _, notes = scale.scale(loaded("flight-local"), 1e-5)
    assert any("became 4096..20480, the smallest by less, so that they still differ" in n for n in notes)
    far, _ = scale.scale(scenario('[matrix]\nrows_per_stream = ["10k", "20k", "1G"]'), 1e-4)
    assert axis(far, "rows_per_stream") == [4096, 8192, 100_000]
    two, _ = scale.scale(scenario('[matrix]\nrows_per_stream = ["1M", "10M"]'), 1e-9)
    assert axis(two, "rows_per_stream") == [4096, 8192]


def test_scaling_leaves_a_batch_and_a_while() -> None:
    tiny, _ = scale.scale(scenario("[workload]\nrows_per_stream = 100000"), 1e-9)
    assert axis(tiny, "rows_per_stream") == [4096]
    short, _ = scale.scale(scenario('[workload]\nduration = "10s"'), 1e-9)
    assert axis(short, "duration_ns") == [200_000_000]
    small, _ = scale.scale(scenario("[workload]\nrows_per_stream = 10"), 0.5)
    assert axis(small, "rows_per_stream") == [10]


_values = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
_keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)
_documents = st.recursive(
    st.dictionaries(_keys, st.one_of(_values, st.lists(_values, max_size=3)), max_size=4),
    lambda inner: st.dictionaries(_keys, st.one_of(_values, inner), max_size=4),
    max_leaves=10,
)


@given(_documents)
def test_what_the_toml_writer_writes_reads_back(document: dict[str, Any]) -> None:
    assert toml_text.parse(toml_text.dump(document), "x") == document


@given(
    st.lists(st.integers(1, 64), min_size=1, max_size=4, unique=True),
    st.integers(1, 2**31 - 1),
    st.sampled_from(["rows_per_stream", "bytes_per_stream", "duration"]),
    st.integers(1, 10**12),
    st.booleans(),
)
def test_resolved_scenarios_read_back(
    streams: list[int], batch: int, size: str, amount: int, shuffle: bool
) -> None:
    work = {"rows_per_batch": batch, size: f"{amount}ns" if size == "duration" else amount}
    run = {"shuffle": shuffle, "adaptive": "1.5%"}
    found = scenario(toml_text.dump({"workload": work, "matrix": {"streams": streams}, "run": run}))
    assert same(found, scenario(to_toml(found)))
