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

from venturi.analysis import results
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

# Together they set every parameter to what it is not by itself.
SCENARIOS = {
    "flight": """
        [target]
        url = "flight://h:31337"
        connections = "shared"
        window = "4Mi"
        send_buffer = "1Mi"
        protocol = "perf"
        ack = "batch"
        compression = "zstd:7"
        handicap = "encode=200us"
        [workload]
        operation = "put"
        columns = 7
        values = "sequential"
        seed = 5
        rows_per_batch = 100
        bytes_per_stream = "1Mi"
        streams = 4
        threads = 2
        rate = 1234567.0
        verify = "count"
        include_setup = true
        pin = [0, 1]""",
    "flight-table": '[target]\nurl = "flight://h:31337/trips"\n[workload]\nduration = "1500ms"',
    "charrow": """
        [target]
        url = "charrow://local"
        encoders = 3
        decoders = 2
        compression = "lz4"
        block_checksum = true
        [workload]
        data = "states"
        rows_per_stream = 12345""",
    "charrow-query": """
        [target]
        url = "charrow://h:9006"
        query = "SELECT a, b FROM t WHERE x IN (1, 2)"
        wire_version = "1.1"
        [workload]
        duration = "2s\"""",
    "charrow-shared": """
        [target]
        url = "charrow+shm://local"
        ring = "64Ki"
        [workload]
        rows_per_stream = 1000""",
    "clickhouse": """
        [target]
        url = "clickhouse://h/db"
        table = "trips"
        wire_format = "rowbinary"
        split = "key"
        split_by = "id"
        server_settings = "max_block_size=8192,max_threads=4"
        [workload]
        streams = 2""",
    "clickhouse-put": """
        [target]
        url = "clickhouse://h/db"
        storage = "Memory"
        [workload]
        operation = "put\"""",
    "adbc": """
        [target]
        url = "adbc://sqlite"
        driver_options = ["uri=/a b.db", "statement:adbc.sqlite.query.batch_rows=10"]
        table = "trips"
        init = ["PRAGMA a = 1, b = 2"]""",
    "http-put": """
        [target]
        url = "http+arrow://h/upload-{stream}?of=2"
        body = "length"
        http_method = "PUT"
        http_compression = "zstd"
        compression = "lz4"
        [workload]
        operation = "put"
        rows_per_stream = 12345
        streams = 2""",
    "exec": '''
        [target]
        url = "exec://"
        command = "cat 'a b' {stream}"
        writes = "csv"''',
    "mysql": """
        [target]
        url = "mysql://a,b/db"
        setup = true
        init = ["SET x = 1, y = 2", "SET z = 3"]
        statement = "prepared"
        storage = "rowstore"
        shard_key = ["day", "page"]
        partitions = 4
        [workload]
        working_set = 5000
        max_errors = 3
        retries = 2
        generate = "inline"
        rows_per_stream = 1000""",
    "mysql-no-setup": '[target]\nurl = "mysql://a/db"\ntable = "counters"\nsetup = false',
    "file": """
        [target]
        url = "postgres://h/db"
        method = "copy"
        synchronous = "off"
        [workload]
        data = "{clicks}"
        key = ["day", "page"]
        add = ["hits"]
        in_flight = 3
        duration = "3s\"""",
    "cassandra-get": """
        [target]
        url = "cassandra://h/ks"
        query = "SELECT a FROM t WHERE token(a) >= ? AND token(a) <= ?"
        split = "parts"
        page_size = 100
        consistency = "one"
        [workload]
        operation = "get"
        streams = 3""",
    "cassandra": """
        [target]
        url = "cassandra://h/ks"
        write = "insert"
        batch = "logged"
        batch_form = "statement"
        consistency = "quorum"
        replication = 3
        partition_key = 2
        token_aware = false""",
    "sqlite": """
        [target]
        url = "sqlite://local"
        journal = "off"
        synchronous = "full"
        without_rowid = false""",
    "empty": '[target]\nurl = "empty://"\ndialect = "postgres"\n[workload]\noperation = "upsert"',
    "akumuli": """
        [target]
        url = "akumuli://local"
        messages = "dictionary"
        digits = "shortest"
        durable = "fsync"
        pool = 2
        [workload]
        hosts = 7
        tick = "10s"
        start = "2017-01-01T00:00:00Z"
        rows_per_stream = 10000""",
    "ingest-file": """
        [target]
        url = "influx+http://h/db"
        [workload]
        data = "{clicks}"
        time = "at"
        tags = ["page", "day"]
        metric = "web"
        values = ["hits"]""",
}  # fmt: skip


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "clicks.parquet"
    columns = {
        "day": pa.array([1, 1, 2]),
        "page": pa.array(["a", "b", "a"]),
        "hits": pa.array([1, 2, 3]),
        "at": pa.array([0, 1, 2], pa.timestamp("ns")),
    }
    pq.write_table(pa.table(columns), path)
    return path


def cells(clicks: Path) -> list[Cell]:
    found: list[Cell] = []
    for name, text in SCENARIOS.items():
        text = text.replace("{clicks}", str(clicks))
        found += planned(load([Layer(name, toml_text.parse(text, name), text)]))
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


def test_every_parameter_of_a_cell_is_in_the_one_list_and_each_of_the_list_in_a_cell(clicks: Path) -> None:
    found = cells(clicks)
    for cell in found:
        assert set(cell.parameters) == set(PARAMETERS)
    never = [name for name in PARAMETERS if all(cell.parameters[name] is None for cell in found)]
    assert never == [], "no cell of this test has them, so the tests below say nothing of them"
    assert tuple(PARAMETERS) == PARAMETER_ORDER


def test_tables_have_every_parameter_with_its_value(clicks: Path) -> None:
    found = cells(clicks)
    rows = tables.trials([line(cell) for cell in found]).to_pylist()
    for cell, row in zip(found, rows, strict=True):
        assert {name: row[name] for name in PARAMETERS} == dict(cell.parameters), cell.id


def test_the_command_made_from_a_cell_measures_that_cell_again(clicks: Path) -> None:
    for cell in cells(clicks):
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


@pytest.mark.parametrize("name", ["chspark", "macbook-get", "cartesius-remote"])
def test_what_another_tool_did_becomes_a_command_that_is_taken(name: str) -> None:
    """Its parameters may have names that mean something else here, or nothing."""
    words = shlex.split(Rerun.of(results.load(f"reference:{name}").cells[0], {}).but())
    printed = CliRunner().invoke(cli.app, [*words[2:], "--dry-run", "--quiet"], catch_exceptions=False)
    assert printed.stdout.startswith("get-"), shlex.join(words)
