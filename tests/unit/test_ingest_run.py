"""Ingests into the reference store, from the command line to the table and the report, in points."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from support.read import ONCE, ran
from support.run import command, environment, model, venturi
from support.store import Store, row
from support.synthetic import lines
from support.wait import wait_until
from venturi.analysis.cells import writes
from venturi.analysis.results import load
from venturi.report.figures import registry as figures
from venturi.store import reference

pytestmark = pytest.mark.usefixtures("core")
SIZE = ("--hosts", "10", "--points-per-stream", "20k", "--points-per-batch", "1000")
SMALL = (*SIZE, *ONCE, "--quiet")


def ingested(folder: Path, *words: object, out: str = "r", code: int = 0) -> subprocess.CompletedProcess[str]:
    done = venturi("run", *words, "--out", out, cwd=folder)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize("scheme", ["akumuli", "influx+http"])
def test_points_are_stored_and_verified(tmp_path: Path, scheme: str) -> None:
    done = ingested(tmp_path, "--target", f"{scheme}://local", *SMALL, "--streams", "2")
    (trial,) = lines(tmp_path / "r")
    assert trial["outcome"] == "ok" and trial["counts"]["rows"] == 40_000
    assert trial["counts"]["payload_bytes"] == 40_000 * 16
    assert trial["verification"]["achieved"] == "checksum"
    assert trial["verification"]["rows"] == trial["verification"]["expected_rows"] == 40_000
    # Of 100 series with 400 points each.
    assert 2 < trial["counts"]["stored_bytes"] / 40_000 < 6 and trial["counts"]["wire_bytes"] > 40_000
    assert trial["target"]["reference"] is True and trial["cpu"]["server"] is not None
    assert "points/s" in done.stdout and "verified: checksum, every trial" in " ".join(done.stdout.split())


def test_the_same_points_in_every_form_of_message(tmp_path: Path) -> None:
    forms = ("--messages", "rows,values,dictionary", "--digits", "17,shortest")
    found = ran(tmp_path / "r", "--target", "akumuli://local", *forms, *SMALL, "--points-per-stream", "2k")
    assert len(found) == 6 and len({trial["verification"]["checksum"] for trial in found}) == 1


def test_points_by_udp_are_counted_afterwards(tmp_path: Path) -> None:
    # Slowly: what a socket's buffer does not hold is gone, and is no fault of anybody.
    slow = ("--rate", 50, "--points-per-stream", "2k", "--points-per-batch", 200, "--hosts", 10)
    (trial,) = ran(tmp_path / "r", "--target", "akumuli+udp://local", *slow, *ONCE)
    assert trial["verification"]["achieved"] == "checksum" and trial["counts"]["rows"] == 2000


def test_archives_are_made_and_loaded(tmp_path: Path) -> None:
    done = venturi("generate", "--archive", "a", "--archives", 2, "--hosts", 20, "--steps", 100, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert re.search(r"^host_range_10_19\.gz  10,000 points  .* [0-9a-f]{16}$", done.stdout, re.M)
    assert re.search(
        r"^2 archives in a: 20,000 points of 200 series; .* checksum [0-9a-f]{16}", done.stdout, re.M
    )
    assert "try: venturi run --target akumuli://local --data archive:a --streams 2" in done.stdout
    data = f"archive:{tmp_path}/a"
    (trial,) = ran(tmp_path / "r", "--target", "akumuli://local", "--data", data, "--streams", 2, *ONCE)
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert trial["verification"]["achieved"] == "checksum" and trial["counts"]["rows"] == 20_000
    assert trial["verification"]["checksum"] == manifest["checksum"]
    # Nothing is overwritten, and what is short is told.
    again = venturi("generate", "--archive", "a", cwd=tmp_path)
    assert again.returncode == 2 and "--archive a: is not empty" in again.stderr
    file = tmp_path / "a" / "host_range_0_9.gz"
    file.write_bytes(file.read_bytes()[:-100])
    (trial,) = ran(tmp_path / "short", "--target", "akumuli://local", "--data", data, *ONCE, code=5)
    assert "host_range_0_9.gz" in trial["error"]["message"]


def test_archives_made_for_a_run_are_those_points(tmp_path: Path) -> None:
    sums = []
    for data in ("archive", "metrics"):
        words = ("--data", data, "--hosts", 20, "--points-per-stream", "10k", "--streams", 2)
        (trial,) = ran(tmp_path / data, "--target", "akumuli://local", *words, *ONCE)
        sums.append(trial["verification"]["checksum"])
    assert sums[0] == sums[1]


@pytest.mark.parametrize("scheme", ["akumuli", "influx"])
def test_a_file_of_yours(tmp_path: Path, scheme: str) -> None:
    rows = [f"2020-01-01 00:00:{59 - n:02},h{n % 3},{n},{n / 8}" for n in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["at,host,hits,load", *rows]) + "\n")
    data = ("--data", tmp_path / "t.csv", "--tags", "host", "--metric", "web")
    (trial,) = ran(tmp_path / "r", "--target", f"{scheme}://local", *data, "--streams", 2, *ONCE)
    assert trial["counts"]["rows"] == 120 and trial["verification"]["achieved"] == "checksum"


def test_what_a_run_says(tmp_path: Path) -> None:
    often = ("--streams", 2, "--repeats", 2, "--warmup", 0, "--no-ceilings")
    done = ingested(tmp_path, "--target", "akumuli://local", *SIZE, *often)
    assert re.search(r"^\[1/2\] ingest repeat 0: [\d,]+ points/s$", done.stderr, re.M), done.stderr
    assert re.search(r"points/s", done.stdout) and "rows" not in done.stdout
    shown = venturi("show", "r", "--cell", "best", cwd=tmp_path).stdout
    for said in ("points in total 40.00 kpoints", "wire bytes a point", "stored bytes a point"):
        assert said in shown, shown
    # A server that worked for less than a tick tells no CPU time.
    assert "fairness the slowest" in shown and "client CPU a point" in shown
    page = (tmp_path / "r" / "report.html").read_text()
    assert "points/s" in page
    sql = venturi(
        "sql", "r", "select rows, hosts, durable, messages from trials", "--format", "json", cwd=tmp_path
    )
    assert json.loads(sql.stdout)[0] == {"rows": 40_000, "hosts": 10, "durable": "os", "messages": "rows"}


def test_every_trial_finds_an_empty_store_of_its_own_settings(tmp_path: Path) -> None:
    often = ("--durable", "none,fsync", "--repeats", 2)
    found = ran(tmp_path / "r", "--target", "akumuli://local", *SIZE, *ONCE, *often)
    assert len(found) == 4 and {t["outcome"] for t in found} == {"ok"}
    assert len({t["verification"]["checksum"] for t in found}) == 1


def test_a_store_of_yours_keeps_growing_and_what_others_put_there_does_not_pass_for_ours(
    tmp_path: Path,
) -> None:
    with Store(tmp_path / "data") as store:
        line = store.connect()
        line.send(row(1, 1.0, 2.0))
        assert line.flush() == "+OK 2"
        ingested(tmp_path, *store.flags, *SMALL, "--repeats", 3, "--warmup", 1)
        assert store.stats()["points"] == 4 * 20_000 + 2
        assert all(t["verification"]["rows"] == 20_000 for t in lines(tmp_path / "r"))


def test_a_late_write_ends_the_trial_with_the_stores_words(tmp_path: Path) -> None:
    with Store(tmp_path / "data") as store:
        flags = (*store.flags, *SMALL, "--start", "2020-01-01")
        ingested(tmp_path, *flags, out="a")
        assert "late write" in ingested(tmp_path, *flags, out="b", code=5).stderr
        (trial,) = lines(tmp_path / "b")
        assert trial["error"]["kind"] == "server" and "late write" in trial["error"]["message"]


def test_another_ports_peer_is_not_taken_for_a_store(tmp_path: Path) -> None:
    with Store(tmp_path / "data") as store:
        # OpenTSDB's port speaks no RESP: its words come back, and nothing is taken for stored.
        host, port = store.address("opentsdb")
        there = (f"akumuli://{host}:{port}", "--http-port", store.address("http")[1])
        (trial,) = ran(tmp_path / "r", "--target", *there, *SMALL, code=5)
        assert trial["outcome"] == "failed" and trial["error"]["kind"] == "server", trial["error"]
        assert "the server said: put: the only command is put" in trial["error"]["message"]
        assert store.stats()["points"] == 0


def test_an_interrupted_run_ends_its_store(tmp_path: Path) -> None:
    words = command("run", "--target", "akumuli://local", "--duration", "600s", *ONCE, "--out", "r")
    run = subprocess.Popen(words, cwd=tmp_path, env=environment() | {"TMPDIR": str(tmp_path)},
                           stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip
    logs = "venturi-store-*/data/log/*"
    wait_until(lambda: sum(log.stat().st_size for log in tmp_path.glob(logs)) > 1_000_000)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate()
    assert run.returncode == 130, said
    assert not list(tmp_path.glob("venturi-store-*"))
    assert lines(tmp_path / "r")[0]["outcome"] == "interrupted"


# ---- what is said of ingests, on trials by a formula


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ingest")
    words = ("ingest-quick", "--streams", "1,2,4,8", "--points-per-batch", "1000,5000", "--repeats", 3)
    done = model(*words, "--quiet", "--no-report", "--out", "r", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "r"


def test_everything_is_told_in_points(modelled: Path) -> None:
    for words in (("show",), ("show", "--explain"), ("show", "--format", "markdown"), ("best",), ("fit",)):
        said = venturi(words[0], modelled, *words[1:])
        assert said.returncode == 0, said.stderr
        text = said.stdout.split("## Method")[0]
        assert "points/s" in text, text
        # The keys are rows_per_batch and rows_per_stream all the same.
        assert not re.search(r"\brows?\b", re.sub(r"rows[-\\_]+per", "", text)), text
    compared = venturi("compare", modelled, "--by", "durable", "--metric", "cpu-per-byte")
    assert "µs/point" in compared.stdout, compared.stdout
    predicted = venturi("predict", modelled, "--streams", 16)
    assert re.search(r"ingest with 16 streams: [\d.]+ Mpoints/s", predicted.stdout), predicted.stdout


def test_what_a_point_costs(modelled: Path) -> None:
    cell = load(modelled).cells[0]
    assert writes.wire_point(cell).text("B") == "35.50 B [35.50..35.50]"
    for end in ("client", "server"):
        cost, rate = writes.cpu_point(cell, end).value, cell.per_cpu[end].value
        assert cost is not None and rate is not None and cost == pytest.approx(1e9 / rate, rel=0.05)
    assert writes.fairness(cell).value is None  # of one stream there is none
    several = next(c for c in load(modelled).cells if c.parameters["streams"] == 4)
    assert 0.9 < (writes.fairness(several).value or 0) < 1.0
    assert "the slowest of 4 streams got" in (writes.fairness_text(several) or "")


def test_figures_draw_cores_beside_the_rate(modelled: Path) -> None:
    results = load(modelled)
    panels = {panel.title: panel for panel in figures.one(results, "timeline").panels}
    assert list(panels)[:2] == ["points", "machine: each core"]
    assert [s.name for s in panels["machine: each core"].series][:2] == ["core 0", "core 1"]


def test_the_published_load_is_laid_over(modelled: Path) -> None:
    figure = figures.one(load(modelled), "throughput-streams", "akumuli")
    (line,) = (s for s in figure.panels[0].series if s.colour == "$reference")
    assert line.name == "Akumuli, c3.8xlarge, 32 streams" and line.y == [16.0, 16.0]
    assert reference.SETS["akumuli"].rows()[-1]["rows_per_second"] == 16e6


def test_cells_for_machines(modelled: Path) -> None:
    document = json.loads(venturi("show", modelled, "--format", "json").stdout)
    first = document["cells"][0]
    assert first["hosts"] == 100 and first["durable"] in ("none", "os") and first["digits"] == "17"
    assert first["rows_per_second"] > 0 and first["stored_bytes_per_row"] == pytest.approx(2.93, rel=0.01)
