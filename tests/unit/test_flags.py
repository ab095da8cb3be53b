"""Options that no other test types: each is given on a command line, and does what it says."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import re
import shlex
import socket
import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from support.flight import Certificates, ServerProcess, records, run_trial, succeeded, write_ipc
from support.mistakes import check
from support.run import TESTS
from venturi.cli import app

OFFERED_BY_TYPER = {"--install-completion", "--show-completion"}


MODEL = "--executor support.model --quiet"


def typed(line: str, *more: object) -> Result:
    """A command in this process; it must be taken."""
    done = CliRunner().invoke(app, [*shlex.split(line), *map(str, more)])
    assert done.exit_code == 0, f"{done.exception!r} {done.output}"
    return done


FLIGHT = "--target flight://node7 --rows-per-stream 1k"


def flat(tree: dict[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in tree.items():
        inner = isinstance(value, dict) and name != "header_env"
        found |= flat(value, f"{above}{name}.") if inner else {f"{above}{name}": value}
    return found


def test_an_option_of_run_is_in_its_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table tells how each stored scenario differs from that of the first case."""
    monkeypatch.setenv("TENANT", "blue")
    number = itertools.count()

    def stored(line: str) -> dict[str, Any]:
        out = tmp_path / str(next(number))
        typed(f"{line} {MODEL} --no-ceilings --no-report --repeats 1 --warmup 0 --out", out)
        return flat(tomllib.loads((out / "scenario.toml").read_text()))

    plain = stored(f"run {FLIGHT}")

    def answer(line: str) -> str:
        words = line.removeprefix("venturi ")
        found, usual = stored(words), {} if words == f"run {FLIGHT}" else plain
        changed = (name for name, value in found.items() if usual.get(name) != value)
        return "\n".join(f"{name} = {json.dumps(found[name])}" for name in changed) or "as without it"

    check("flags", answer, "scenarios")


def test_the_report_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "run"
    line = f"run {FLIGHT} --executor support.model --repeats 1 --no-ceilings --report --out"
    assert "report: " in typed(line, out).output
    assert (out / "report.html").is_file()


def test_resources_by_which_hosts_are_chosen() -> None:
    line = "run flight-remote --on ray://127.0.0.1:10001 --dry-run"
    typed(f"{line} --loader-resource fast --server-resource large")


def test_the_version_is_told() -> None:
    assert re.fullmatch(r"venturi (\d+\.\d+.*|\(not installed.*)\n", typed("--version").output)


# ---- other commands --------------------------------------------------------------------


def test_every_fit_and_every_size(tmp_path: Path) -> None:
    out = tmp_path / "run"
    line = f"run --target flight://n {MODEL} --no-report --no-ceilings --sample-interval 0 --repeats 3"
    typed(f"{line} --operation get --streams 1,2,4,8 --rows-per-stream 100k,1M,4M,10M --out", out)
    for name in ("fit", "best"):
        few, every = typed(name, out).output, typed(name, out, "--all").output
        assert len(every.splitlines()) > len(few.splitlines()), name


def test_a_search_has_its_options_and_a_time(tmp_path: Path) -> None:
    line = "tune flight://n --values sequential --connections shared --send-buffer 64Ki --bytes-per-stream 1M"
    more = f"--streams 1,2 --seed 5 --trials 4 --minutes 1 {MODEL} --out"
    assert "best found: " in typed(f"{line} {more}", tmp_path / "run").output
    tree = tomllib.loads((tmp_path / "run" / "scenario.toml").read_text())
    assert tree["workload"]["values"] == "sequential" and tree["target"]["send_buffer"] == 65_536


def test_ceilings_of_other_values() -> None:
    assert "lz4 encode" in typed(f"ceilings {MODEL} --only codec --values sequential").output
    tls = f"ceilings flight+tls://n {MODEL} --only tcp --streams 1 --no-tls-insecure"
    assert "raw TCP get" in typed(f"{tls} --tls-server-name x.example").output


def test_a_job_is_asked_for_as_it_is_said() -> None:
    line = "cluster slurm --nodes 3 --print"
    more = "--partition short --account physics --sbatch=--constraint=haswell --exclusive quick"
    asked = re.findall(r"^#SBATCH (\S+)$", typed(f"{line} {more}").output, re.MULTILINE)
    assert {"--nodes=3", "--partition=short", "--account=physics", "--constraint=haswell", "--exclusive"} <= {
        *asked
    }
    assert "--exclusive" not in typed(f"{line} --share quick").output


def test_a_job_is_submitted_to_whoever_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = tmp_path / "script"
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\ncat > {taken}\necho Submitted batch job 7\n")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "7" in typed("cluster slurm --nodes 1 --submit quick").output
    assert taken.read_text().startswith("#!")


def test_pods_on_the_network_of_their_nodes() -> None:
    line = "cluster kubernetes --image venturi --ray 2.60.0"
    assert "hostNetwork: true" in typed(f"{line} --host-network").output
    assert "hostNetwork" not in typed(line).output


@pytest.mark.parametrize("flags", [("--no-token",), ("--token", "--client-port", "0")])
def test_a_cluster_on_a_host_that_nobody_reaches(flags: tuple[str, ...], tmp_path: Path) -> None:
    words = ("cluster", "up", "--hosts", "a", "--ssh", "false", "--directory", str(tmp_path / "d"), *flags)
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code != 0 and "Traceback" not in done.output
    assert ("without a token everyone" in done.output) == ("--no-token" in flags)


# ---- real servers ------------------------------------------------------------------------


@pytest.mark.usefixtures("core")
def test_archives_by_their_seed_step_and_level(tmp_path: Path) -> None:
    texts = {}
    flags = {"usual": "", "quick": "--level 1", "other": "--seed 9", "slow": "--tick 1h"}
    for name, flag in flags.items():
        typed(f"generate --archives 1 --hosts 2 --steps 50 {flag} --archive", tmp_path / name)
        (file,) = (tmp_path / name).glob("*.gz")
        texts[name] = (gzip.decompress(file.read_bytes()), file.stat().st_size)
    assert texts["quick"][0] == texts["usual"][0] and texts["quick"][1] > texts["usual"][1]
    assert len({text for text, _ in texts.values()}) == 3


@contextlib.contextmanager
def serving(*words: object) -> Iterator[ServerProcess]:
    common = ("--port", 0, "--json", "--exit-with-parent")
    server = ServerProcess([sys.executable, "-m", "venturi", "serve", *map(str, (*words, *common))])
    try:
        yield server
    finally:
        server.stop()


ROWS: dict[str, Any] = {"data": {"source": "records", "columns": 4, "seed": 1}, "rows_per_stream": 1000}


@pytest.mark.usefixtures("core")
def test_one_connection_more_than_a_server_takes() -> None:
    with serving("flight", "--max-connections", 2, "--send-buffer", "64Ki") as server:
        succeeded(run_trial(f"flight://{server.address}", streams=1, **ROWS))
        record = run_trial(f"flight://{server.address}", streams=6, timeout_ns=3_000_000_000, **ROWS)
        assert record["outcome"] == "failed"


@pytest.mark.usefixtures("core")
def test_a_server_for_clients_with_a_certificate(certificates: Certificates) -> None:
    keys = ("--tls-certificate", certificates.server, "--tls-key", certificates.server_key)
    own = {"tls_certificate": str(certificates.client), "tls_key": str(certificates.client_key)}
    with serving("flight", *keys, "--tls-client-ca", certificates.ca) as server:
        for options, outcome in ((own, "ok"), ({}, "failed")):
            trusts = {"tls_ca": str(certificates.ca), **options}
            record = run_trial(f"flight+tls://{server.address}", streams=1, options=trusts, **ROWS)
            assert record["outcome"] == outcome, record["error"]


@pytest.mark.usefixtures("core")
def test_a_server_of_queries_with_a_table_that_is_ready(tmp_path: Path) -> None:
    ready = write_ipc(records(1000), tmp_path / "t.arrow")
    limits = ("--max-connections", 8, "--max-queries", 1, "--send-buffer", "64Ki", "--patience", "200ms")
    with serving("charrow", "--ready", f"t={ready}", *limits) as server:
        options = {"query": "SELECT * FROM t", "encoders": 1}
        record = succeeded(run_trial(f"charrow://{server.address}", options=options))
        assert record["counts"]["rows"] == 1000
        host, port = server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as begun, begun.makefile("rb") as answer:
            begun.sendall(b"\0")
            assert b"within 0.2 s" in answer.read()


@pytest.mark.usefixtures("core")
def test_points_in_datagrams() -> None:
    from venturi import _core

    with serving("timeseries", "--udp", 0) as server:
        port = next(str(v).rsplit(":", 1)[1] for k, v in server.ready["addresses"].items() if "udp" in k)
        spec = {
            "trial": "t", "target": f"akumuli+udp://127.0.0.1:{port}", "operation": "ingest", "streams": 1,
            "threads": 1, "rows_per_batch": 100, "rows_per_stream": 1000, "verify": "none", "options": {},
            "data": {"source": "metrics", "hosts": 1, "seed": 1, "tick_ns": 10**9, "start_unix_ns": 0},
            "timeout_ns": 10**10,
        }  # fmt: skip
        record = json.loads(_core.run_trial(json.dumps(spec), _core.Control()))
        assert (record["outcome"], record["counts"]["rows"]) == ("ok", 1000), record["error"]


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("flag", ["--without-rowid", "--no-without-rowid"])
def test_a_table_that_is_its_keys_index(flag: str, tmp_path: Path) -> None:
    file = tmp_path / "u.db"
    line = f"run {flag} --keep --working-set 1k --duration 50ms --repeats 1 --warmup 0 --quiet"
    typed(f"{line} --no-ceilings --no-report --target sqlite://{file} --out", tmp_path / "run")
    with contextlib.closing(sqlite3.connect(file)) as database:
        (made,) = database.execute("select sql from sqlite_master where type = 'table'").fetchone()
    assert made.upper().rstrip().endswith("WITHOUT ROWID") == (flag == "--without-rowid")


def test_a_directory_that_holds_no_cassandra(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["serve", "cassandra", "--cassandra-home", str(tmp_path)])
    assert f"--cassandra-home {tmp_path}: holds no lib/apache-cassandra-*.jar" in str(done.exception)


# ---- none left ---------------------------------------------------------------------------


def options() -> Iterator[tuple[str, str]]:
    """Every long option with the command that has it."""

    def walk(path: str, node: Any) -> Iterator[tuple[str, str]]:
        for parameter in node.params:
            for name in (*parameter.opts, *parameter.secondary_opts):
                if name.startswith("--") and name not in OFFERED_BY_TYPER:
                    yield name, path
        for name in node.list_commands(None) if hasattr(node, "list_commands") else ():
            yield from walk(f"{path} {name}", node.get_command(None, name))

    return walk("venturi", typer.main.get_command(app))


def test_every_option_is_typed_in_some_test() -> None:
    """By their text alone: that an option is typed says little, that it never is says enough."""
    files = [*TESTS.rglob("*.py"), *TESTS.glob("data/*/*.txt"), *TESTS.glob("data/*.toml")]
    typed = {word for path in files for word in re.findall(r"--[\w-]*\w", path.read_text())}
    assert {name for name, _ in options()} - typed == set()
