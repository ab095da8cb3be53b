"""Scenarios of charrow: what they accept, the query that follows from them, what is said to mistakes, and how
results are worded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.flight import mixed, write_ipc
from support.scenarios import cell, scenario, target
from support.verdict import trial
from venturi.analysis.cells.summary import Cell as Summed
from venturi.analysis.cells.summary import summarise
from venturi.analysis.search import best
from venturi.analysis.words import labels
from venturi.analysis.words.wording import nouns_of
from venturi.engine.spec import build_spec
from venturi.inputs.files import DataStore
from venturi.measure.endpoints import Endpoints
from venturi.plan import matrix, scale
from venturi.plan.layers import file_layer
from venturi.plan.load import load
from venturi.plan.rules import charrow as queries
from venturi.plan.workload import STATES_ROW_BYTES
from venturi.report.figures import registry as figures
from venturi.report.text import best as best_report


def charrow(more: str) -> str:
    return target("charrow://local", more)


def test_states_are_asked_for_by_a_query() -> None:
    text = "[workload]\ndata = 'states'\nrows_per_stream = '1M'\nrows_per_batch = 1000\nstreams = 4\nseed = 7"
    found = cell(charrow(text))
    assert queries.text(found) == "SELECT * FROM state_rows(rows = 4000000, seed = 7, block_rows = 1000)"
    assert found.parameters["row_bytes"] == STATES_ROW_BYTES and found.parameters["seed"] == 7
    with Endpoints(scenario(charrow(text)), False, lambda *_: None) as endpoints:
        (one,) = endpoints.cells
        spec = build_spec(one, "t", "charrow://h:1", endpoints.data(one), options=endpoints.options(one))
    assert spec["data"] == {"source": "remote"}
    assert spec["options"] == {"query": queries.text(found)}
    timed = cell(charrow("[workload]\ndata = 'states'\nduration = '1s'"))
    assert queries.text(timed) == "SELECT * FROM state_rows(seed = 1, block_rows = 4096)"


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
    assert found.cost_name == "streams x encoders x decoders" and "query" in best.WORKLOAD


def test_streams_are_called_partitions_but_not_in_commands() -> None:
    one = sweep()[0]
    assert labels.label(one, ["streams", "encoders"]) == "1 partition, encoders 1"
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
