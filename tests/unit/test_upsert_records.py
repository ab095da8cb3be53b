"""Records of upserts: the schema knows them, tables have their figures, progress counts rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jsonschema
import pytest
from test_scenario import scenario

from support.model import ModelExecutor
from venturi.engine.spec import build_spec, completed, trial_line
from venturi.measure.observer import outcome_text
from venturi.plan import matrix
from venturi.plan.workload import USAGE_ROW_BYTES
from venturi.store import tables

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


@pytest.mark.parametrize("scheme", ["mysql", "cassandra", "postgres", "sqlite", "duckdb"])
def test_a_line_of_an_upsert_is_known_to_the_schema(scheme: str) -> None:
    jsonschema.validate(line(ModelExecutor(), f"{scheme}://local"), SCHEMA)
    jsonschema.validate(line(ModelExecutor(fail="true"), f"{scheme}://local"), SCHEMA)


def test_the_schema_knows_what_an_upsert_may_not_say() -> None:
    good = line(ModelExecutor())
    good["verification"]["sums"][0]["found"] = 5
    with pytest.raises(jsonschema.ValidationError, match="5 is not of type 'string'"):
        jsonschema.validate(good, SCHEMA)
    lost = line(ModelExecutor(fail="true"))
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
    record = ModelExecutor().run_trial(
        json.dumps(build_spec(cell, "t", "flight://h", _records())), _control()
    )
    made = trial_line(json.loads(record), run="r", trial="t", cell=cell, repeat=0, warmup=False, order=0)
    one = row(made)
    assert (one["errors_refused"], one["stored_bytes"], one["response_p50_ns"]) == (None, None, None)
    assert tables.errors([made]).num_rows == 0


def _records() -> dict[str, Any]:
    return {"source": "records", "columns": 4, "values": "random", "seed": 1}


def _control() -> Any:
    return ModelExecutor().control()


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
