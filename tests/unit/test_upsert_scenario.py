"""Scenarios of upserts: what they accept, what follows from an address, and what is said to mistakes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.model import ModelExecutor
from support.scenarios import cell, cells, same, scenario, target
from venturi.common import toml_text
from venturi.common.environment import usable_cores
from venturi.common.errors import ScenarioError
from venturi.engine.spec import build_spec, completed, trial_line
from venturi.inputs.files import DataStore
from venturi.measure import preflight
from venturi.measure.endpoints import Endpoints
from venturi.measure.observer import outcome_text
from venturi.plan import matrix, scale
from venturi.plan.cell_names import labels
from venturi.plan.layers import Layer, builtin_names, file_layer
from venturi.plan.load import load
from venturi.plan.resolved import to_toml
from venturi.plan.rules.options import applies
from venturi.plan.workload import USAGE_ROW_BYTES
from venturi.store import tables
from venturi.targets.options import APPLIES, DEFAULTS, PARAMETERS, Options
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
    (label, *_) = labels(found).values()
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
    (one,) = tables.trials([found]).to_pylist()
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
    assert tables.errors([made]).num_rows == 0


def test_errors_are_rows_of_their_own() -> None:
    found = line(ModelExecutor(fail="true"))
    (one,) = tables.errors([found]).to_pylist()
    assert (one["kind"], one["code"], one["count"], one["cell"]) == ("lost", None, 2, found["cell"])
    assert row(found)["errors_in_doubt"] == 2


def test_progress_counts_rows() -> None:
    found = line(ModelExecutor())
    per_second = found["counts"]["rows"] * 1e9 / found["times"]["interval_ns"]
    assert outcome_text(found) == f"{per_second:,.0f} rows/s"
    errors = line(ModelExecutor(fail="true"))["errors"]
    assert outcome_text({**found, "errors": errors}).endswith(" rows/s, 2 batches (1,000 rows) are in doubt")
