"""`venturi compare` as a user runs it: what differs, what cannot be judged, refusals, exit codes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support import run as run_support
from support.compare import (  # noqa: F401 - the fixtures too
    Line,
    base_run,
    chain,
    environment,
    run_like,
    said,
    slower,
    terminal,
    venturi,
)
from support.synthetic import ENVIRONMENT, cells, imported, make_run
from venturi.analysis.compare.likeness import without_port
from venturi.analysis.compare.runs import compare, compare_by
from venturi.analysis.results import load
from venturi.common.errors import ExitCode
from venturi.report.page.page import page
from venturi.report.text import versions


def test_the_same_thing_twice(base: Path, tmp_path: Path) -> None:
    done = run_support.venturi("compare", base, run_like(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "of 6 cells 0 slower, 0 faster, 6 without a significant difference" in said(done)
    assert re.search(r"detectable in a lone cell \(80 % power\): from [\d.]+ % slower on", said(done))
    assert done.stdout.count("none seen") == 6
    assert "the machine, or the change" not in done.stdout


def test_one_slower_cell_is_found_and_stops_the_gate(base: Path, tmp_path: Path) -> None:
    run = run_like(tmp_path, slower(1.1, "operation == 'put' and streams == 2"))
    done = venturi("compare", base, run)
    assert done.returncode == ExitCode.SLOWER == 8
    assert "of 6 cells 1 slower, 0 faster, 5 without a significant difference" in said(done)
    assert "beyond the threshold of 3 %: 1 cell" in said(done)
    (line,) = [x for x in done.stdout.splitlines() if x.endswith("slower!")]
    found = re.fullmatch(
        r"put, 2 streams +([\d,]+) +([\d,.]+) +([\d.]+) +([\d.]+)\.\.([\d.]+) +(<?[\d.]+) +slower!", line
    )
    assert found, line
    assert float(found[4]) < float(found[3]) < float(found[5]) < 1
    assert float(found[3]) == pytest.approx(1 / 1.1, abs=0.05)


def test_slower_within_the_threshold_passes(base: Path, tmp_path: Path) -> None:
    run = run_like(tmp_path, slower(1.1, "operation == 'put' and streams == 2"))
    done = venturi("compare", base, run, "--threshold", "20%")
    assert done.returncode == 0
    assert "1 slower" in said(done) and "slower!" not in done.stdout
    assert "beyond the threshold" not in done.stdout
    assert venturi("compare", base, run, "--threshold", "0").returncode == 8


def test_faster_never_stops_the_gate(base: Path, tmp_path: Path) -> None:
    done = venturi("compare", base, run_like(tmp_path, slower(0.8, "streams == 4")))
    assert done.returncode == 0
    assert "of 6 cells 0 slower, 2 faster" in said(done)


def test_a_common_shift_is_told_apart(base: Path, tmp_path: Path) -> None:
    edit = chain(slower(1.08), slower(1.3, "operation == 'get' and streams == 1"))
    later = environment() | {"started_unix_ns": ENVIRONMENT["started_unix_ns"] + 3 * 3600 * 10**9}
    done = venturi("compare", base, run_like(tmp_path, edit, environment=later))
    assert done.returncode == 8
    text = said(done)
    assert re.search(r"the 6 cells together are [78]\.\d % slower \(ratio 0\.9\d+ \[", text)
    assert "the machine, or the change? Runs made apart (3 hours) cannot tell" in text
    assert "different from what all have in common: get, 1 stream (ratio 0.7" in text


def test_trials_that_begin_to_fail(base: Path, tmp_path: Path) -> None:
    gone = run_like(tmp_path, name="gone", fail="streams == 4 and operation == 'get'")
    done = venturi("compare", base, gone)
    assert done.returncode == ExitCode.TRIALS_FAILED
    assert "of 6 cells 1 failed, 0 slower" in said(done)
    assert "trials of 1 cell fail that did not fail in the base" in said(done)
    assert "get, 4 streams: 5 of 5 trials failed in the run" in said(done)
    # The other way round nothing became worse; what cannot be compared is said.
    back = venturi("compare", gone, base)
    assert back.returncode == 0
    assert "5 of 5 trials failed in the base; no repeats in the base, 3 are needed" in said(back)
    # A cell that failed before is no news.
    again = run_like(tmp_path, name="again", fail="streams == 4 and operation == 'get'")
    assert venturi("compare", gone, again).returncode == 0


def test_a_failing_trial_comes_before_a_slower_cell(base: Path, tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        line = slower(1.2)(line)
        if line["repeat"] == 1 and not line["warmup"] and line["parameters"]["streams"] == 1:
            error = {"kind": "lost", "message": "gone", "stream": 0}
            line = line | {"outcome": "failed", "error": error}
        return line

    done = venturi("compare", base, run_like(tmp_path, edit))
    assert done.returncode == ExitCode.TRIALS_FAILED
    assert "1 of 5 trials failed in the run" in said(done)
    assert "6 slower" in said(done)


@pytest.mark.parametrize("repeats", [1, 2])
def test_few_repeats_cannot_be_judged(base: Path, tmp_path: Path, repeats: int) -> None:
    done = venturi("compare", base, run_like(tmp_path, slower(2.0), repeats=repeats))
    assert done.returncode == 0
    assert "of 6 cells 0 slower, 0 faster, 6 cannot be judged" in said(done)
    assert f"{repeats} repeat{'s' if repeats > 1 else ''} in the run, 3 are needed" in said(done)
    assert done.stdout.count("cannot tell") == 6 + ("cannot tell;" in said(done))


def test_unequal_repeats(base: Path, tmp_path: Path) -> None:
    run = run_like(tmp_path, slower(1.1, "streams == 2"), repeats=9)
    assert "of 6 cells 2 slower, 0 faster" in said(venturi("compare", base, run))


def test_cells_of_one_run_only_are_listed(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", cells(streams=(1, 2)), samples=False)
    two = make_run(tmp_path / "two", cells(streams=(2, 8)), samples=False)
    done = venturi("compare", one, two)
    assert "of 2 cells" in said(done)
    assert "only in 20261121-084500-synthetic: get, 1 stream; put, 1 stream" in said(done)
    assert "get, 8 streams; put, 8 streams" in said(done)


def test_no_cell_in_common(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", cells(streams=(1, 2)), samples=False)
    two = make_run(tmp_path / "two", cells(streams=(4, 8)), samples=False)
    done = venturi("compare", one, two)
    assert done.returncode == ExitCode.USAGE
    assert "error: no cell of " in done.stderr
    assert "hint: they share no value of: streams, threads" in done.stderr


def test_ports_and_folders_tell_no_cells_apart(base: Path, tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        line["parameters"]["target"] = line["parameters"]["target"].replace("31337", "40001")
        return line

    done = venturi("compare", base, run_like(tmp_path, edit))
    assert "6 without a significant difference" in said(done)
    assert "only in" not in done.stdout
    assert without_port("flight://127.0.0.1:31337/x") == "flight://127.0.0.1/x"
    assert without_port("[::1]:80") == "[::1]"
    assert without_port("flight+tls://h:1?command=a:3") == "flight+tls://h?command=a:3"
    assert without_port("flight://local") == "flight://local"


def test_parameters_that_one_side_does_not_know(tmp_path: Path) -> None:
    ours = make_run(tmp_path / "ours", samples=False)
    theirs = make_run(tmp_path / "theirs", edit=imported, samples=False, environment={})
    done = venturi("compare", ours, theirs)
    assert done.returncode == 0, done.stderr
    assert "of 6 cells" in said(done)
    # Without operation, streams would not do; with two sizes of ours, neither is theirs.
    two = make_run(tmp_path / "two", cells(("get",), (1,), rows=(1000, 2000)), samples=False)
    found = compare(load(two), load(two))
    assert len(found.rows) == 2


def test_a_setting_that_is_what_one_compares(base: Path, tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        line["parameters"] |= {"compression": "zstd", "row_bytes": 33.0}
        return slower(1.5)(line)

    done = venturi("compare", base, run_like(tmp_path, edit))
    assert done.returncode == 8
    assert "! compression: none -> zstd" in said(done)
    assert "6 slower" in said(done)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"cpu": "Other CPU"}, "the client's CPU differs (Model CPU | Other CPU)"),
        ({"cores": {"logical": 4, "physical": 4, "usable": 4}}, "the client's cores differs (8 | 4)"),
        ({"architecture": "aarch64"}, "the client's architecture differs (x86_64 | aarch64)"),
        ({"system": "Darwin"}, "the client's system differs (Linux | Darwin)"),
        ({"virtualised": "KVM"}, "the client's virtualised differs (no | KVM)"),
    ],
)
def test_unlike_machines_are_refused(base: Path, tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    run = run_like(tmp_path, environment=environment(**changes))
    done = venturi("compare", base, run)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert f"error: base and run are not alike: {named}" in done.stderr
    assert "--force" in done.stderr
    forced = venturi("compare", base, run, "--force")
    assert forced.returncode == 0
    assert "!! client: " in forced.stdout


def test_runs_verified_otherwise_are_refused(base: Path, tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        line["parameters"]["verify"] = "none"
        return line

    run = run_like(tmp_path, edit)
    done = venturi("compare", base, run)
    assert done.returncode == ExitCode.USAGE
    assert "verify differs (checksum | none)" in done.stderr
    assert "!! verify: checksum -> none" in said(venturi("compare", base, run, "--force"))


def test_what_matters_is_marked_and_what_does_not_is_not(base: Path, tmp_path: Path) -> None:
    changed = environment(
        kernel="6.9.0", governor="powersave", host="bench-7", loadavg=[3.0, 2.0, 1.0],
        software={"venturi": "0.2.0"}, memory={"total": 64 * 2**30 + 4096},
        sysctls={"net.core.rmem_max": "4194304", "vm.swappiness": "10"},
    )  # fmt: skip
    done = venturi("compare", base, run_like(tmp_path, environment=changed))
    assert done.returncode == 0
    for text in (
        "! client: kernel: 6.1.0 -> 6.9.0",
        "! client: governor: performance -> powersave",
        "! client: Venturi: 0.1.0 -> 0.2.0",
        "! client: net.core.rmem_max: 212992 -> 4194304",
    ):
        assert text in said(done)
    quiet = said(done).split("differs, but does not matter: ")[1]
    for name in ("client: host", "client: load before", "client: vm.swappiness"):
        assert name in quiet
    assert "memory" not in done.stdout


def test_a_busier_machine_is_marked(tmp_path: Path) -> None:
    """Two runs of the same thing on a machine that others use more in the second."""

    def with_load(busy: float) -> Any:
        def edit(line: Line) -> Line:
            host = {"cores": 8, "busy_share": busy, "steal_share": 0.001}
            process = {"user_ns": 10**9, "system_ns": 10**9}
            end = {"by": "self", "window_ns": 10**9, "process": process, "host": host}
            return line | {"resources": {"same_machine": False, "client": end, "server": None}}

        return edit

    runs = [
        run_like(tmp_path, with_load(busy), name=name)
        for name, busy in (("quiet", 0.27), ("noisy", 0.75), ("quieter", 0.26))
    ]
    text = said(venturi("compare", runs[0], runs[1]))
    assert "! client: CPU used by others: 2.0 % -> 50.0 %" in text
    assert "CPU used by others" not in said(venturi("compare", runs[0], runs[2]))


def test_server_software_is_shown(base: Path, tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        line["target"]["software"] = "venturi 0.2.0"
        return line

    done = venturi("compare", base, run_like(tmp_path, edit))
    assert "! server: software: model -> venturi 0.2.0" in said(done)


def test_several_runs_each_against_the_base(base: Path, tmp_path: Path) -> None:
    same, worse = run_like(tmp_path, name="same"), run_like(tmp_path, slower(1.2), name="worse")
    done = venturi("compare", base, same, worse)
    assert done.returncode == 8
    assert done.stdout.count("base: base") == 2
    assert "run: same" in said(done) and "run: worse" in said(done)


def test_within_one_run_by_a_parameter(tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        return slower(1.1, "place == 'new'")(line)

    matrix = cells(places=("old", "new"))
    run = make_run(tmp_path / "run", matrix, edit=edit, samples=False)
    done = venturi("compare", run, "--by", "place=old")
    assert done.returncode == 8, done.stdout + done.stderr
    assert "base: place=old run: place=new" in said(done)
    assert "of 6 cells 6 slower" in said(done)
    assert "their trials were interleaved, so it is not the machine's drift" in said(done)
    assert "place=old" in venturi("compare", run, "--by", "place").stdout
    # Threads follow streams, so they keep no cells apart.
    by = compare_by(load(run), "streams", "1")
    assert [one.run.name for one in by] == ["streams=2", "streams=4"]
    assert all(len(one.rows) == 4 for one in by)


def test_a_run_of_two_places_ends_with_their_ratio(tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        return slower(1.1, "place == 'new'")(line)

    one = load(make_run(tmp_path / "one", cells(("get",), (2,), ("old", "new")), edit=edit, samples=False))
    (told,) = versions.headline(one)
    assert re.fullmatch(r"new against old: slower, ratio 0\.\d+ \[0\.\d+\.\.0\.\d+\]", told)
    assert told in page(one)
    several = make_run(tmp_path / "several", cells(places=("old", "new")), edit=edit, samples=False)
    for form in ("table", "markdown"):
        text = said(venturi("show", several, "--format", form))
        assert "new against old: of 6 cells 6 slower" in text and "Places side by side" in text


def test_unlike_things_are_not_set_side_by_side(tmp_path: Path) -> None:
    """Local and remote have a section of their own; of two systems neither is the other's old build; nor have
    places whose cells differ in more, and imported ones, anything to compare."""
    matrices = {
        "here": cells(places=("local", "remote")),
        "mixed": cells(("get",), (2,), ("old",)) + cells(("get",), (2,), ("new",), target="charrow://h:1"),
        "apart": cells(("get",), (1,), ("old",)) + cells(("get",), (2,), ("new",)),
    }
    runs = [load(make_run(tmp_path / name, matrix, samples=False)) for name, matrix in matrices.items()]
    for one in (*runs, load("reference:akumuli")):
        assert versions.section(one) is None and versions.headline(one) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("BASE",), "a comparison needs two runs: BASE and RUN"),
        (("BASE", "BASE"), "are the same run"),
        (("BASE", "RUN", "--by", "place"), "--by compares within one run"),
        (("BASE", "--by", "colour"), "has no such parameter"),
        (("BASE", "--by", "place"), "has only one value of it"),
        (("BASE", "--by", "streams=3"), "has no such value"),
        (("BASE", "RUN", "--threshold", "much"), "--threshold: 'much'"),
        (("BASE", "RUN", "--confidence", "20%"), "--confidence: '20%' is under 50%"),
        (("BASE", "RUN", "--confidence", "100%"), "must lie between 0% and 100%"),
        (("BASE", "RUN", "--metric", "beauty"), "--metric"),
        (("BASE", "reference:nothing"), "there is no reference run"),
    ],
)
def test_misuse(base: Path, tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    run = run_like(tmp_path)
    done = venturi("compare", *({"BASE": base, "RUN": run}.get(w, w) for w in words))
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")
    assert text in done.stderr and "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_no_such_run(base: Path, tmp_path: Path) -> None:
    assert venturi("compare", base, tmp_path / "none").returncode == ExitCode.STORE


@pytest.mark.parametrize(
    ("metric", "edit", "word"),
    [
        ("steady", slower(1.2), "slower"),
        ("latency-p99", None, "slower"),
        ("latency-p50", None, "slower"),
        ("cpu-per-byte", None, "dearer"),
    ],
)
def test_other_metrics_know_which_way_is_worse(
    base: Path, tmp_path: Path, metric: str, edit: Any, word: str
) -> None:
    def heavier(line: Line) -> Line:
        for end in ("client", "server"):
            for kind in ("user_ns", "system_ns"):
                line["cpu"][end][kind] = int(line["cpu"][end][kind] * 1.5)
        kept = line["latency"]["service"]
        kept["percentiles"] = [[p, int(v * 1.5)] for p, v in kept["percentiles"]]
        return line

    run = run_like(tmp_path, edit or heavier)
    done = venturi("compare", base, run, "--metric", metric)
    assert done.returncode == 8
    assert f"of 6 cells 6 {word}" in said(done)
    assert venturi("compare", run, base, "--metric", metric).returncode == 0
    if metric == "cpu-per-byte":
        assert "base s/GB" in done.stdout


def test_rows_where_no_bytes_are_known(base: Path, tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        line["counts"] = {"rows": line["counts"]["rows"]}
        return line

    done = venturi("compare", base, run_like(tmp_path, chain(edit, slower(1.2))))
    assert done.returncode == 8
    assert "base Mrows/s" in done.stdout
