"""Scenarios of ingests: what they accept, what follows from an address, and what is said to mistakes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.scenarios import cell, cells, same, scenario, target
from venturi.common.errors import ScenarioError
from venturi.common.times import SEED_NS, parse_time, spell_time
from venturi.engine.spec import build_spec
from venturi.inputs import points as points_file
from venturi.measure.endpoints import Endpoints
from venturi.plan.layers import Layer, file_layer
from venturi.plan.load import load
from venturi.plan.resolved import to_toml


def note(level: str, text: str) -> None:
    raise AssertionError(f"{level}: {text}")


def test_settings_reach_the_spec() -> None:
    text = target(
        "akumuli://h",
        "messages = 'values'\ndigits = 'shortest'\nhttp_port = 1234\n"
        "[workload]\nhosts = '1k'\ntick = '10s'\nseed = 7\nstart = 2020-02-03T04:05:06Z\ngenerate = 'ahead'\n"
        "points_per_stream = 1000\nstreams = 2",
    )
    found = scenario(text)
    with Endpoints(found, False, note) as endpoints:
        (one,) = endpoints.cells
        spec = build_spec(one, "t", "akumuli://h:8282", endpoints.data(one), ingest=endpoints.ingest(one))
    assert spec["options"] == {"format": "values", "digits": None, "http_port": 1234}
    assert spec["data"] == {
        "source": "metrics",
        "hosts": 1000,
        "seed": 7,
        "tick_ns": 10**10,
        "start_unix_ns": parse_time("2020-02-03T04:05:06"),
        "steps": None,
    }
    assert (spec["operation"], spec["generate"], spec["rows_per_stream"]) == ("ingest", "ahead", 1000)
    assert not {"in_flight", "max_errors", "retries", "upsert", "ingest"} & set(spec)
    # The resolved scenario reads back as an equal one.
    assert same(scenario(to_toml(found)), found)


def test_what_a_local_store_is_started_with_is_no_option_of_the_trial() -> None:
    found = cells(target("akumuli://local", "[matrix]\ndurable = ['none', 'os', 'fsync']\npool = [1, 2]"))
    assert len({c.id for c in found}) == 6
    # os is what it does of itself.
    assert cell(target("akumuli://local", "durable = 'os'")) == cell(target("akumuli://local"))
    flags = Layer("", {"target": {"url": "akumuli://h"}}, flags={("target", "url"): "--target"})
    other = load([file_layer("ingest-quick"), flags])
    assert other.notes == ("left out, as it means nothing to akumuli://: durable",)


def test_points_of_later_trials_are_later_where_a_store_keeps_them() -> None:
    text = target(
        "akumuli://h", "[workload]\nhosts = 10\nstreams = 2\npoints_per_stream = 1000\nstart = 2017-01-01"
    )
    with Endpoints(scenario(text), False, note) as endpoints:
        (one,) = endpoints.cells
        assert endpoints.data(one)["start_unix_ns"] == SEED_NS
        endpoints.moved(one, {"streams": [{"rows": 1000}, {"rows": 1000}]})
        # 1000 points and a batch of 5000 begun are 120 steps of 5 hosts' 50 series, and one to be sure.
        assert endpoints.data(one)["start_unix_ns"] == SEED_NS + 121 * 10**9
    with Endpoints(scenario(target("akumuli://local")), False, note) as endpoints:
        (one,) = endpoints.cells
        endpoints.moved(one, {"streams": [{"rows": 1000}]})
        assert endpoints.data(one)["start_unix_ns"] == SEED_NS


def test_times() -> None:
    assert parse_time("2017-01-01") == SEED_NS
    assert spell_time(SEED_NS) == "2017-01-01T00:00:00Z"
    assert parse_time(spell_time(SEED_NS + 5_000)) == SEED_NS + 5_000
    assert parse_time("2017-01-01T01:00:00+01:00") == SEED_NS


def arranged(table: pa.Table, time: str | None = None, tags: str = "host", values: str = "") -> pa.Table:
    columns = points_file.Columns(time, tuple(tags.split(",")), tuple(values.split(",")) if values else ())
    return points_file.arranged("t", table, columns)


def test_a_file_becomes_points_in_the_order_of_their_times() -> None:
    at = [datetime(2020, 1, 1, 0, 0, s, tzinfo=UTC) for s in (2, 1, 1)]
    table = pa.table(
        {"ts": at, "host": ["a", "b", "a"], "n": [1, None, 3], "x": [0.5, 1.5, 2.5], "note": ["", "", ""]}
    )
    found, columns = arranged(table)
    assert columns == points_file.Columns("ts", ("host",), ("n", "x"))
    assert found.column_names == ["ts", "host", "n", "x"]
    assert found.schema.field("ts").type == pa.timestamp("ns", "UTC")
    assert found.to_pydict()["host"] == ["b", "a", "a"] and found.to_pydict()["n"] == [None, 3.0, 1.0]


@pytest.mark.parametrize(
    ("value", "unit"), [(1_577_836_800, 1), (1_577_836_800_000, 1000), (1_577_836_800 * 10**9, 10**9)]
)
def test_times_that_are_integers(value: int, unit: int) -> None:
    found, _ = arranged(pa.table({"t": [value], "host": ["a"], "v": [1.0]}), "t")
    assert found.column("t")[0].value == value // unit * 10**9


@pytest.mark.parametrize(
    ("more", "flags", "said"),
    [
        ({}, {"time": "tz"}, "has no column tz"),
        ({}, {"tags": "hots"}, "did you mean host?"),
        ({}, {"values": "note"}, "is string, which is no number"),
        ({}, {"values": "host"}, "is the tag already"),
        ({"ts": ["x"]}, {"time": "ts"}, "is text that is no time"),
        ({"host": ["a b"]}, {}, "no blanks, commas"),
        ({"host": [None]}, {}, "has nulls; every series"),
        ({"ts": pa.array([None], pa.timestamp("us"))}, {}, "a point has a time"),
        ({"at": pa.array([0], pa.timestamp("us"))}, {}, "which column is the time"),
        ({"v": ["x"]}, {}, "holds numbers"),
    ],
)
def test_files_that_are_no_points(more: dict[str, Any], flags: dict[str, Any], said: str) -> None:
    columns = {"ts": pa.array([0], pa.timestamp("us")), "host": ["a"], "v": [1.0], "note": ["n"]} | more
    with pytest.raises(ScenarioError) as caught:
        arranged(pa.table(columns), **flags)
    assert said in caught.value.message


def test_columns_of_a_file_reach_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"ts": pa.array([1], pa.timestamp("s")), "h": ["a"], "v": [1], "w": [2]}), path)
    text = target("influx://h", f"[workload]\ndata = '{path}'\ntags = 'h'\nvalues = 'w'\nmetric = 'cpu'")
    with Endpoints(scenario(text), False, note) as endpoints:
        (one,) = endpoints.cells
        assert one.parameters["rows_per_stream"] is None and one.parameters["duration_ns"] is None
        spec = build_spec(one, "t", "u", endpoints.data(one), ingest=endpoints.ingest(one))
        assert pa.ipc.open_file(spec["data"]["ipc"]).read_all().column_names == ["ts", "h", "w"]
    assert spec["ingest"] == {"time": "ts", "tags": ["h"], "values": ["w"], "metric": "cpu"}
    assert json.dumps(spec)
