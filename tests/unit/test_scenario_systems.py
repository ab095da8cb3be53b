"""Scenarios of databases, stores of time series and charrow: what they accept and what follows from them;
their cells are in tests/data/scenarios."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.flight import mixed, write_ipc
from support.model import ModelExecutor
from support.scenarios import cell, cells, same, scenario, target
from support.verdict import summarise, trial
from venturi.analysis import wording
from venturi.analysis.cells.summary import Cell as Summed
from venturi.analysis.compare import best
from venturi.analysis.wording import nouns_of
from venturi.common import toml_text
from venturi.common.environment import usable_cores
from venturi.common.errors import ScenarioError
from venturi.common.suffixes import SEED_NS, parse_time, spell_time
from venturi.engine.record import Trial, trial_of
from venturi.engine.spec import build_spec, completed, trial_line
from venturi.inputs.files import DataStore
from venturi.inputs.tables import Columns
from venturi.inputs.tables import arranged as points_of
from venturi.measure import preflight
from venturi.measure.run_events import outcome_text
from venturi.measure.trial_targets import Endpoints
from venturi.plan import matrix, scale
from venturi.plan.cell import cell_labels
from venturi.plan.layers import Layer, builtin_names, file_layer
from venturi.plan.load import load, to_toml
from venturi.plan.rules import systems
from venturi.plan.rules.options import applies
from venturi.plan.workload import STATES_ROW_BYTES, USAGE_ROW_BYTES
from venturi.report import best as best_report
from venturi.report.figures import registry as figures
from venturi.store import tables
from venturi.targets.options import APPLIES, DEFAULTS, PARAMETERS, Options
from venturi.targets.parameters import WORKLOAD
from venturi.targets.system import is_charrow, is_time_series


def test_gets_and_puts_are_what_they_were() -> None:
    # These ids are in run directories of before there were upserts.
    text = "[workload]\nrows_per_stream = '1M'\n[matrix]\noperation = ['get', 'put']\nstreams = [1, 2]"
    assert [found.id for found in matrix.cells(scenario(text))] == [
        "get-1x4096-2672f245", "get-2x4096-970a93bd", "put-1x4096-66f968f6", "put-2x4096-411863d3",
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", DEFAULTS)
def test_parameters_are_the_options_in_force_and_null_where_they_mean_nothing(scheme: str) -> None:
    # Of these there is no server to be started for a run.
    host = {"clickhouse": "h", "flightsql": "h", "adbc": "sqlite"}.get(scheme, "local")
    url = f"{scheme}://" if scheme in ("empty", "exec") else f"{scheme}://{host}"
    gets = is_charrow(url) or scheme in ("adbc", "clickhouse", "exec", "flightsql", "http+arrow")
    operation = "ingest" if is_time_series(url) else "get" if gets else "upsert"
    p = cell(target(url, f"[workload]\noperation = '{operation}'")).parameters
    for name in PARAMETERS:
        expected = DEFAULTS[scheme].get(name) if applies(name, url, operation) else None
        if name == "durable" and is_time_series(url):
            expected = "os"  # of a store that is started for the run
        if is_charrow(url):
            # "auto" is a number that nobody knows yet.
            expected = {"block_checksum": False, "encoders": None}.get(name, expected)
        assert p[name] == (str(expected) if name == "digits" and expected else expected), name


def test_every_option_is_applied_somewhere() -> None:
    assert set(APPLIES) == set(Options.model_fields)


def test_an_option_at_its_default_makes_no_other_cell() -> None:
    plain = cell(target("sqlite://local"))
    assert cell(target("sqlite://local", "journal = 'wal'\nsetup = true")) == plain
    other = cell(target("sqlite://local", "journal = 'delete'"))
    assert other.options == {"journal": "delete"} and other.id != plain.id


def test_options_reach_the_spec() -> None:
    options: dict[str, Any] = {
        "init": ["USE a,b", "c"], "write": "insert", "batch": "logged", "batch_form": "statement",
        "consistency": "local_quorum", "replication": 3, "partition_key": 2, "token_aware": False,
        "compression": "lz4", "keep": True,
    }  # fmt: skip
    workload = {"in_flight": 4, "max_errors": 2, "retries": 1, "generate": "inline"}
    given = {"url": "cassandra://h", **options, "consistency": "LOCAL-QUORUM"}
    found = cell(toml_text.dump({"target": given, "workload": workload}))
    spec = build_spec(found, "t", "cassandra://h:9042", {"source": "usage"})
    assert spec["options"] == options
    assert (spec["in_flight"], spec["max_errors"], spec["retries"], spec["generate"]) == (4, 2, 1, "inline")
    assert "upsert" not in spec
    get = build_spec(cell(""), "t", "flight://h", {})
    assert not {"in_flight", "generate", "max_errors", "retries", "upsert"} & set(get)


def test_a_file_brings_its_key() -> None:
    for key in ("'a,b'", "['a', 'b']"):
        found = cell(target("mysql://h", f"[workload]\ndata = '/t.csv'\nkey = {key}\nadd = 'hits'"))
        assert build_spec(found, "t", "u", {})["upsert"] == {"key": ["a", "b"], "add": ["hits"]}
        assert found.parameters["working_set"] is None and found.parameters["key"] == ["a", "b"]


def test_one_stream_for_each_cpu() -> None:
    found = scenario(target("mysql://h", "[workload]\nstreams = 'cpus'\nthreads = 'cores'"))
    (one,) = matrix.cells(found)
    assert one.parameters["streams"] == one.parameters["threads"] == usable_cores()
    # The run says how many these were, and has as many on another machine.
    assert f"streams = {usable_cores()}\n" in to_toml(found)


def test_axes_may_be_options_and_ranges() -> None:
    text = "[matrix]\nin_flight = '1..8 x2'\nwrite = ['counter', 'insert']\nconsistency = ['one', 'quorum']"
    found = cells(target("cassandra://h", text))
    assert len({one.id for one in found}) == len(found) == 16
    (label, *_) = cell_labels(found).values()
    assert label == "upsert in_flight=1 write=counter consistency=one"


def test_another_address_takes_the_options_of_a_scenario_away() -> None:
    flags = Layer("", {"target": {"url": "mysql://h/db"}}, flags={("target", "url"): "--target"})
    found = load([file_layer("upsert-quick"), flags])
    assert [c.parameters["rows_per_batch"] for c in matrix.cells(found)] == [1, 10, 100, 1000]
    assert found.notes == ("left out, as it means nothing to mysql://: journal, synchronous",)
    # Who says both at once has made a mistake.
    tree = {"target": {"url": "mysql://h/db", "journal": "wal"}}
    both = Layer("", tree, flags={("target", "journal"): "--journal"})
    with pytest.raises(ScenarioError, match=r"^--journal: mysql:// has no option journal$"):
        load([file_layer("upsert-quick"), both])


@pytest.mark.parametrize("name", [name for name in builtin_names() if name.startswith("upsert")])
def test_builtin_scenarios_can_be_aimed_at_any_database(name: str) -> None:
    for url in ("mysql://h/db", "cassandra://h/ks", "postgres://h/db", "sqlite://local", "duckdb://local"):
        found = load([file_layer(name), Layer("", {"target": {"url": url}})])
        assert all(c.parameters["target"].startswith(url[:6]) for c in matrix.cells(found))
        again = scenario(to_toml(found))
        assert same(found, again)
        assert [c.id for c in matrix.cells(found)] == [c.id for c in matrix.cells(again)]


def test_scaling_shortens_what_lasts_ten_seconds() -> None:
    scaled, notes = scale.scale(scenario(target("mysql://h")), 0.1)
    assert (cell(to_toml(scaled)).parameters["duration_ns"], notes[0]) == (10**9, "duration 10s became 1s")


def checked(text: str) -> None:
    found = scenario(text)
    with Endpoints(found, False, lambda level, said: None):
        pass


def test_statements_made_inline_need_no_memory() -> None:
    checked(target("mysql://h", "[workload]\nworking_set = '1G'\ngenerate = 'inline'"))


def test_a_file_without_duckdb_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise ScenarioError("duckdb:// needs DuckDB's library")

    monkeypatch.setattr(preflight, "duckdb_library", missing)
    with pytest.raises(ScenarioError, match="needs DuckDB's library"):
        checked(target("duckdb://local"))


def test_rows_of_a_file_are_upserted_once_each(tmp_path: Path) -> None:
    path = str(tmp_path / "t.csv")
    Path(path).write_text("k,n\n" + "".join(f"{i},1\n" for i in range(10)))
    with DataStore() as store:
        once, filled = store.prepare(path), store.prepare(path, 4)
        assert (once.rows, filled.rows) == (10, 12)
    found = scenario(target("sqlite://local", f"[workload]\ndata = '{path}'\nkey = 'k'\nrows_per_batch = 4"))
    with Endpoints(found, False, lambda level, said: None) as endpoints:
        (one,) = endpoints.cells
        import pyarrow as pa

        with pa.OSFile(endpoints.data(one)["ipc"]) as file:
            assert pa.ipc.open_file(file).read_all().num_rows == 10


def test_usage_carries_the_time_of_the_run() -> None:
    found = scenario(target("sqlite://local", "[workload]\nseed = 7\nworking_set = 9"))
    with Endpoints(found, True, lambda level, said: None) as endpoints:
        (one,) = endpoints.cells
        data = endpoints.data(one)
        assert data | {"loaded_unix_s": 0} == {
            "source": "usage", "working_set": 9, "seed": 7, "loaded_unix_s": 0,
        }  # fmt: skip
        assert data == endpoints.data(one) and data["loaded_unix_s"] > 1_700_000_000
        url = endpoints.url(one)
        path = Path(url.removeprefix("sqlite://"))
        assert path.parent.is_dir() and json.dumps(endpoints.options(one)) == "{}"
    assert not path.parent.exists()


# ---- records of upserts: the schema knows them, tables have their figures


SCHEMA = json.loads((resources.files("venturi") / "schema" / "trial.schema.json").read_text())


def line(executor: ModelExecutor, url: str = "mysql://local", more: str = "") -> dict[str, Any]:
    (cell,) = matrix.cells(scenario(f"[target]\nurl = '{url}'\n[workload]\nstreams = 2\n{more}"))
    data = {"source": "usage", "working_set": 1000, "seed": 1, "loaded_unix_s": 0}
    spec = build_spec(cell, "t", url, data)
    record = completed(json.loads(executor.run_trial(json.dumps(spec), executor.control())))
    made = trial_line(record, run="r", trial="t", cell=cell, repeat=0, warmup=False, order=0)
    return {name: value for name, value in made.items() if name != "samples"}


def row(found: Mapping[str, Any]) -> dict[str, Any]:
    (one,) = tables.trials([trial_of(found)]).to_pylist()
    return one


def test_the_schema_knows_what_an_upsert_may_not_say() -> None:
    good, lost = line(ModelExecutor()), line(ModelExecutor(fail="true"))
    jsonschema.validate(good, SCHEMA)
    jsonschema.validate(lost, SCHEMA)
    good["verification"]["sums"][0]["found"] = 5
    with pytest.raises(jsonschema.ValidationError, match="5 is not of type 'string'"):
        jsonschema.validate(good, SCHEMA)
    lost["errors"]["kinds"][0]["query"] = "INSERT"
    with pytest.raises(jsonschema.ValidationError, match="query"):
        jsonschema.validate(lost, SCHEMA)


def test_figures_of_a_trial_are_columns() -> None:
    found = line(ModelExecutor(), more="in_flight = 1\nrate = 50")
    one = row(found)
    assert one["stored_bytes"] == found["counts"]["stored_bytes"] > 0
    assert (one["errors_refused"], one["errors_in_doubt"], one["batches_retried"]) == (0, 0, 0)
    for kind in ("service", "response"):
        figures = [one[f"{kind}_{name}_ns"] for name in ("min", "p50", "p95", "p99", "p999", "max")]
        assert figures == sorted(figures) and figures[0] > 0
        assert one[f"{kind}_mean_ns"] == found["latency"][kind]["mean"]
    assert (one["working_set"], one["statement"], one["connections"]) == (1_000_000, "text", None)
    assert one["rows_per_second"] == pytest.approx(one["bytes_per_second"] / USAGE_ROW_BYTES, rel=1e-3)


def test_gets_have_no_figures_of_errors() -> None:
    (cell,) = matrix.cells(scenario(""))
    executor = ModelExecutor()
    spec = build_spec(
        cell, "t", "flight://h", {"source": "records", "columns": 4, "values": "random", "seed": 1}
    )
    record = json.loads(executor.run_trial(json.dumps(spec), executor.control()))
    made = trial_line(record, run="r", trial="t", cell=cell, repeat=0, warmup=False, order=0)
    one = row(made)
    assert (one["errors_refused"], one["stored_bytes"], one["response_p50_ns"]) == (None, None, None)
    assert tables.errors([trial_of(made)]).num_rows == 0


def test_errors_are_rows_of_their_own() -> None:
    found = line(ModelExecutor(fail="true"))
    (one,) = tables.errors([trial_of(found)]).to_pylist()
    assert (one["kind"], one["code"], one["count"], one["cell"]) == ("lost", None, 2, found["cell"])
    assert row(found)["errors_in_doubt"] == 2


def test_progress_counts_rows() -> None:
    found = line(ModelExecutor())
    per_second = found["counts"]["rows"] * 1e9 / found["times"]["interval_ns"]
    assert outcome_text(found) == f"{per_second:,.0f} rows/s"
    errors = line(ModelExecutor(fail="true"))["errors"]
    assert outcome_text({**found, "errors": errors}).endswith(" rows/s, 2 batches (1,000 rows) are in doubt")


# ---- ingests


def never_noted(level: str, text: str) -> None:
    raise AssertionError(f"{level}: {text}")


def test_settings_reach_the_spec() -> None:
    text = target(
        "akumuli://h",
        "messages = 'values'\ndigits = 'shortest'\nhttp_port = 1234\n"
        "[workload]\nhosts = '1k'\ntick = '10s'\nseed = 7\nstart = 2020-02-03T04:05:06Z\ngenerate = 'ahead'\n"
        "points_per_stream = 1000\nstreams = 2",
    )
    found = scenario(text)
    with Endpoints(found, False, never_noted) as endpoints:
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
    with Endpoints(scenario(text), False, never_noted) as endpoints:
        (one,) = endpoints.cells
        assert endpoints.data(one)["start_unix_ns"] == SEED_NS
        endpoints.moved(one, {"streams": [{"rows": 1000}, {"rows": 1000}]})
        # 1000 points and a batch of 5000 begun are 120 steps of 5 hosts' 50 series, and one to be sure.
        assert endpoints.data(one)["start_unix_ns"] == SEED_NS + 121 * 10**9
        # Of a resumed run those that are stored, and one that was killed, which sent what it was asked to.
        endpoints.resumed([Trial(cell=one.id)])
        assert endpoints.data(one)["start_unix_ns"] == SEED_NS + (121 + 2 * 21) * 10**9
    with Endpoints(scenario(target("akumuli://local")), False, never_noted) as endpoints:
        (one,) = endpoints.cells
        endpoints.moved(one, {"streams": [{"rows": 1000}]})
        assert endpoints.data(one)["start_unix_ns"] == SEED_NS


def test_times() -> None:
    assert parse_time("2017-01-01") == SEED_NS
    assert spell_time(SEED_NS) == "2017-01-01T00:00:00Z"
    assert parse_time(spell_time(SEED_NS + 5_000)) == SEED_NS + 5_000
    assert parse_time("2017-01-01T01:00:00+01:00") == SEED_NS


def arranged(table: pa.Table, time: str | None = None, tags: str = "host", values: str = "") -> pa.Table:
    columns = Columns(time, tuple(tags.split(",")), tuple(values.split(",")) if values else ())
    return points_of("t", table, columns)


def test_a_file_becomes_points_in_the_order_of_their_times() -> None:
    at = [datetime(2020, 1, 1, 0, 0, s, tzinfo=UTC) for s in (2, 1, 1)]
    table = pa.table(
        {"ts": at, "host": ["a", "b", "a"], "n": [1, None, 3], "x": [0.5, 1.5, 2.5], "note": ["", "", ""]}
    )
    found, columns = arranged(table)
    assert columns == Columns("ts", ("host",), ("n", "x"))
    assert found.column_names == ["ts", "host", "n", "x"]
    assert found.schema.types == [pa.timestamp("ns", "UTC"), pa.string(), pa.int64(), pa.float64()]
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
    with Endpoints(scenario(text), False, never_noted) as endpoints:
        (one,) = endpoints.cells
        assert one.parameters["rows_per_stream"] is None and one.parameters["duration_ns"] is None
        spec = build_spec(one, "t", "u", endpoints.data(one), ingest=endpoints.ingest(one))
        assert pa.ipc.open_file(spec["data"]["ipc"]).read_all().column_names == ["ts", "h", "w"]
    assert spec["ingest"] == {"time": "ts", "tags": ["h"], "values": ["w"], "metric": "cpu"}
    assert json.dumps(spec)


# ---- charrow


def charrow(more: str) -> str:
    return target("charrow://local", more)


def test_states_are_asked_for_by_a_query() -> None:
    text = "[workload]\ndata = 'states'\nrows_per_stream = '1M'\nrows_per_batch = 1000\nstreams = 4\nseed = 7"
    found = cell(charrow(text))
    assert (
        systems.query_text(found) == "SELECT * FROM state_rows(rows = 4000000, seed = 7, block_rows = 1000)"
    )
    assert found.parameters["row_bytes"] == STATES_ROW_BYTES and found.parameters["seed"] == 7
    with Endpoints(scenario(charrow(text)), False, lambda *_: None) as endpoints:
        (one,) = endpoints.cells
        spec = build_spec(one, "t", "charrow://h:1", endpoints.data(one), options=endpoints.options(one))
    assert spec["data"] == {"source": "remote"}
    assert spec["options"] == {"query": systems.query_text(found)}
    timed = cell(charrow("[workload]\ndata = 'states'\nduration = '1s'"))
    assert systems.query_text(timed) == "SELECT * FROM state_rows(seed = 1, block_rows = 4096)"


def test_a_file_becomes_a_table_of_the_server_with_values_for_dictionaries(tmp_path: Path) -> None:
    path = write_ipc(mixed(1000), tmp_path / "my table.arrow")
    text = f"[workload]\ndata = '{path}'\nrows_per_batch = 300"
    with Endpoints(scenario(charrow(text)), False, lambda *_: None) as endpoints:
        (one,) = endpoints.cells
        assert endpoints.options(one) == {"query": 'SELECT * FROM "my-table-300"'}
        assert endpoints.data(one) == {"source": "remote"}
        assert (one.parameters["rows_per_stream"], one.parameters["duration_ns"]) == (None, None)
        served = endpoints._served(one)
        assert served is not None
        with pa.OSFile(str(served.ipc)) as file:
            reader = pa.ipc.open_file(file)
            sizes = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
            assert sizes == [300, 300, 300, 100]
            assert reader.schema.field("colour").type == pa.string()
            assert reader.read_all()["colour"].to_pylist() == mixed(1000)["colour"].to_pylist()


def test_dictionaries_are_unpacked_within_lists_and_structs(tmp_path: Path) -> None:
    words = pa.array(["a", "b", "a", None]).dictionary_encode()
    table = pa.table(
        {
            "list": pa.ListArray.from_arrays([0, 2, 4], words),
            "struct": pa.StructArray.from_arrays([words], ["w"]).slice(0, 2),
            "plain": pa.array([1, 2]),
        }
    )
    path = write_ipc(table, tmp_path / "t.arrow")
    with DataStore() as store, pa.OSFile(str(store.prepare_values(str(path)).ipc)) as file:
        found = pa.ipc.open_file(file).read_all()
    assert found.schema.field("list").type.value_type == pa.string()
    assert found.schema.field("struct").type.field("w").type == pa.string()
    assert found.to_pylist() == table.to_pylist()


def test_the_built_in_ones() -> None:
    published = load([file_layer("chspark")])
    cells = matrix.cells(published)
    settings = {tuple(c.parameters[n] for n in ("streams", "decoders", "encoders")) for c in cells}
    from venturi.store import reference

    rows = reference.SETS["chspark"].rows()
    assert settings == {(r["partitions"], r["decoders"], r["encoders"]) for r in rows}
    assert len(settings) == 41 and len(rows) == 45
    assert all(c.parameters["data"] == "states" for c in cells) and published.reference
    small, notes = scale.scale(published, 0.05)
    assert 8 <= len(matrix.cells(small)) < 25 and "duration 2s" in notes[0] + notes[-1] + " ".join(notes)
    transports = matrix.cells(load([file_layer("arrow-transports")]))
    assert {c.parameters["place"] for c in transports} == {
        *("charrow", "charrow-unix", "flight", "flight-unix", "http", "clickhouse", "exec")
    }
    assert len(transports) == 20 + 12 + 2


def published(**parameters: Any) -> dict[str, Any]:
    given = {"target": "charrow://local", "data": "states", "rows_per_batch": 65536, "row_bytes": 100.0}
    return {**given, "streams": 1, "threads": 1, "decoders": 1, "encoders": 1, **parameters}


def sweep(cores: int = 16) -> list[Summed]:
    """Rates as published: they follow the encoders up to the cores, and nothing else."""
    lines = []
    for streams in (1, 2, 4):
        for decoders in (1, 2):
            for encoders in (1, 2, 4, 8, 16, 32):
                rate = 120e6 * min(encoders, 0.5 * cores + 1) * (1 + 0.002 * streams)
                settings = published(streams=streams, threads=streams, decoders=decoders, encoders=encoders)
                name = f"{streams}-{decoders}-{encoders}"
                lines += [
                    trial(parameters=settings, rate=rate * (1 + 0.004 * r), cell=name, repeat=r, cpu=None)
                    for r in range(3)
                ]
    return summarise(lines)


def test_the_rule_of_the_published_figures_comes_out_of_our_own_runs() -> None:
    (found,) = best.find(sweep(), cores=9)
    said = best_report.sentences(found)
    assert any(s.startswith("encoders: 16 is enough") for s in said), said
    assert any(s.startswith("decoders: from 1 to 2 gains +0 %") for s in said), said
    assert any(s.startswith("partitions: from 1 to 4 gains +1 %") for s in said), said
    assert not any("stream" in s for s in said), said
    assert found.cost_name == "encoders x decoders x streams" and "query" in WORKLOAD


def test_streams_are_called_partitions_but_not_in_commands() -> None:
    one = sweep()[0]
    assert wording.label(one, ["streams", "encoders"]) == "1 partition, encoders 1"
    assert (nouns_of(one).row, nouns_of(one).stream) == ("row", "partition")
    flight = summarise([trial()])[0]
    assert nouns_of(flight).stream == "stream"


def test_the_published_figures_are_drawn_over_encoders_and_partitions(tmp_path: Path) -> None:
    from venturi.analysis import results

    loaded = results.load("reference:chspark")
    over = figures.one(loaded, "throughput-encoders", "chspark")
    drawn = [s for s in over.panels[0].series if s.colour.startswith("$reference")]
    assert [s.x for s in drawn] == [[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]]
    assert drawn[0].y[3] == pytest.approx((819.136412 + 813.52518) / 2)
