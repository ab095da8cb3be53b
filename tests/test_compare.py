"""`venturi compare` as a user runs it: tables, Markdown, JUnit XML, JSON, refusals, exit codes."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import run_support
from synthetic import ENVIRONMENT, HOSTILE, cells, hostile, imported, make_run
from venturi.analysis.compare import compare, compare_by
from venturi.analysis.likeness import without_port
from venturi.analysis.results import load
from venturi.errors import ExitCode, VenturiError

Line = dict[str, Any]


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "110", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)


def venturi(*words: object) -> subprocess.CompletedProcess[str]:
    """The command line within this process: a start of Python a call would make these tests slow."""
    from venturi.cli import main

    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["venturi", *map(str, words)]
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.argv = before
    return subprocess.CompletedProcess(sys.argv, code, out.getvalue(), err.getvalue())


def slower(factor: float, when: str = "True") -> Any:
    """An edit that makes trials take longer where the condition over their parameters holds."""

    def edit(line: Line) -> Line:
        if eval(when, {}, line["parameters"]):
            times = line["times"]
            times["interval_ns"] = int(times["interval_ns"] * factor)
            times["steady_ns"] = int(times["steady_ns"] * factor)
        return line

    return edit


def fresh(seed: str) -> Any:
    """The same run once more: other noise, because the model draws it from the trial's id."""

    def edit(line: Line) -> Line:
        import random

        line["times"]["interval_ns"] = int(
            line["times"]["interval_ns"] * random.Random(seed + line["trial"]).gauss(1.0, 0.01)
        )
        return line

    return edit


def chain(*edits: Any) -> Any:
    def edit(line: Line) -> Line | None:
        for one in edits:
            line = one(line)
        return line

    return edit


def environment(**changes: Any) -> dict[str, Any]:
    found = copy.deepcopy(ENVIRONMENT)
    client = {
        "host": "bench-1", "system": "Linux", "kernel": "6.1.0", "architecture": "x86_64", "cpu": "Model CPU",
        "cores": {"logical": 8, "physical": 4, "usable": 8}, "governor": "performance", "virtualised": "no",
        "memory": {"total": 64 * 2**30}, "software": {"venturi": "0.1.0"}, "loadavg": [0.1, 0.1, 0.1],
        "sysctls": {"net.core.rmem_max": "212992", "vm.swappiness": "60"},
    }  # fmt: skip
    found["client"] = client | changes
    found["server"] = copy.deepcopy(found["client"])
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read only, so one is enough."""
    path = tmp_path_factory.mktemp("compare") / "base"
    return make_run(path, environment=environment() | {"run": "base"}, samples=False)


def run_like(path: Path, edit: Any = None, name: str = "run", repeats: int = 5, **more: Any) -> Path:
    """Another run of the same matrix with other noise."""
    changed = chain(fresh(name), edit) if edit else fresh(name)
    described = more.pop("environment", environment())
    return make_run(
        path / name,
        edit=changed,
        repeats=repeats,
        samples=False,
        environment=described | {"run": name},
        **more,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Standard output in one line, however it was folded."""
    return " ".join(done.stdout.split())


def test_the_same_thing_twice(base: Path, tmp_path: Path) -> None:
    done = run_support.venturi("compare", base, run_like(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "of 6 cells 0 slower, 0 faster, 6 without a significant difference" in said(done)
    assert re.search(r"smallest difference that .* in a lone cell: [\d.]+ % slower", said(done))
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


def test_markdown_is_short_with_the_rest_folded(base: Path, tmp_path: Path) -> None:
    run = run_like(tmp_path, slower(1.1, "operation == 'put' and streams == 2"))
    out = tmp_path / "comparison.md"
    done = venturi("compare", base, run, "-o", out)
    assert done.returncode == 8
    assert done.stdout.splitlines() == [
        "run against base: of 6 cells 1 slower, 0 faster, 5 without a significant difference",
        str(out),
    ]
    text = out.read_text()
    assert text.startswith("### ❌ run against base\n\n**throughput**: of 6 cells 1 slower")
    in_sight = text.split("<details>")[0]
    assert in_sight.count("| put, 2 streams |") == 1
    assert "get, 1 stream" not in in_sight
    assert text.count("<details>") == text.count("</details>") == 2
    assert "conditions: none that matters differs" in text
    same = venturi("compare", base, run_like(tmp_path, name="same"), "--format", "markdown").stdout
    assert same.startswith("### ✅ same against base")
    assert same.split("<details>")[0].count("|") == 0


def test_junit_xml(base: Path, tmp_path: Path) -> None:
    edit = slower(1.1, "operation == 'put' and streams == 2")
    run = run_like(tmp_path, edit, fail="operation == 'get' and streams == 4")
    out = tmp_path / "venturi.xml"
    assert venturi("compare", base, run, "--out", out).returncode == ExitCode.TRIALS_FAILED
    root = ElementTree.fromstring(out.read_text())
    assert_junit(root)
    assert {k: root.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6", "failures": "1", "errors": "1", "skipped": "0",
    }  # fmt: skip
    (failure,) = root.iter("failure")
    assert re.fullmatch(r"[\d.]+ % slower, over the threshold of 3 %", failure.get("message") or "")
    assert re.search(r"MB/s \[.*\] -> .* MB/s \[.*\]; ratio 0\.9\d* \[.*\], p .*: slower", failure.text or "")
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == 6
    assert ("venturi.put", "put, 2 streams") in names


def assert_junit(root: ElementTree.Element) -> None:
    """Structure and attributes as Jenkins' junit-10.xsd has them, which other readers take as well."""
    assert root.tag == "testsuites"
    number = re.compile(r"\d+(\.\d+)?")
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("name")
        tags = [child.tag for child in suite]
        order = ["properties", "testcase", "system-out"]
        assert [t for t in order if t in tags] == list(dict.fromkeys(tags))
        cases = suite.findall("testcase")
        assert int(suite.get("tests") or -1) == len(cases)
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(key) or -1) == sum(case.find(tag) is not None for case in cases)
        assert number.fullmatch(suite.get("time") or "")
        for case in cases:
            assert case.get("name") and case.get("classname")
            assert number.fullmatch(case.get("time") or "")
            assert len([c for c in case if c.tag in ("failure", "error", "skipped")]) <= 1
            assert {c.tag for c in case} <= {"failure", "error", "skipped", "system-out"}
            for child in case:
                if child.tag in ("failure", "error"):
                    assert child.get("message") and child.get("type")
                if child.tag == "skipped":
                    assert child.get("message")


def test_junit_of_what_cannot_be_judged(base: Path, tmp_path: Path) -> None:
    done = venturi("compare", base, run_like(tmp_path, repeats=1), "--format", "junit")
    root = ElementTree.fromstring(done.stdout)
    assert_junit(root)
    assert root.get("skipped") == "6"


def test_json(base: Path, tmp_path: Path) -> None:
    run = run_like(tmp_path, slower(1.1, "operation == 'put' and streams == 2"))
    done = venturi("compare", base, run, "--format", "json")
    found = json.loads(done.stdout)
    assert (found["kind"], found["exit_code"], done.returncode) == ("comparison", 8, 8)
    (one,) = found["comparisons"]
    assert one["counts"] == {"worse": 1, "better": 0, "no-difference": 5, "unknown": 0, "failed": 0}
    (cell,) = [c for c in one["cells"] if c["verdict"] == "worse"]
    assert cell["parameters"]["streams"] == 2 and cell["parameters"]["operation"] == "put"
    assert cell["ratio_low"] < cell["ratio"] < cell["ratio_high"] < 1
    assert cell["p"] <= cell["p_adjusted"] < 0.05
    assert cell["beyond_threshold"] and not cell["newly_failing"]
    assert cell["base"]["good"] == cell["run"]["good"] == 5
    assert 0 < cell["detectable"] < 0.2
    assert {f["name"] for f in one["environment"]} >= {"CPU", "kernel", "memory"}


def test_every_field_of_the_json_is_in_the_docs(base: Path, tmp_path: Path) -> None:
    done = venturi("compare", base, run_like(tmp_path), "--format", "json")
    docs = (Path(__file__).parent.parent / "docs" / "compare.md").read_text()
    found = json.loads(done.stdout)
    (one,) = found["comparisons"]
    for name in [*found, *one, *one["cells"][0], *one["cells"][0]["base"], *one["environment"][0]]:
        assert f"`{name}`" in docs, name


@pytest.mark.parametrize("format", ["table", "markdown", "junit", "json"])
def test_hostile_names_are_not_obeyed(tmp_path: Path, format: str) -> None:
    one = make_run(
        tmp_path / "one", cells(("get",), (1, 2)), edit=hostile, samples=False, environment=environment()
    )
    two = make_run(
        tmp_path / "two", cells(("get",), (1, 2)), edit=hostile, samples=False,
        environment=environment() | {"run": HOSTILE + "\x00"},
    )  # fmt: skip
    done = venturi("compare", one, two, "--format", format)
    assert done.returncode == 0, done.stderr
    if format == "json":
        json.loads(done.stdout)
    else:
        assert "\x1b" not in done.stdout and "\x00" not in done.stdout
    if format == "markdown":
        assert "<script>" not in done.stdout and "<img" not in done.stdout
    if format == "junit":
        assert_junit(ElementTree.fromstring(done.stdout))


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_longer_than_the_terminal(
    tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    matrix = cells(rows=(1_000_000, 10_000_000))
    one = make_run(tmp_path / "one", matrix, samples=False)
    two = make_run(tmp_path / "two", matrix, samples=False, edit=slower(1.5))
    done = venturi("compare", one, two)
    assert max(map(len, done.stdout.splitlines())) <= width
    assert "rows/stream" in done.stdout


def test_published_runs_put_against_get() -> None:
    """One repeat a cell: no cell can be judged, but all together they tell."""
    done = venturi("compare", "reference:macbook-get", "reference:macbook-put")
    assert done.returncode == 0, done.stderr
    assert "! operation: get -> put" in said(done)
    assert "of 400 cells 0 slower, 0 faster, 400 cannot be judged" in said(done)
    assert "the 400 cells together are" in said(done)


def test_published_runs_remote_against_local() -> None:
    """Ten repeats: a network between the hosts costs a sixth, and nearly every cell shows it."""
    found = compare(load("reference:cartesius-localhost"), load("reference:cartesius-remote"))
    assert len(found.rows) == 160 and not found.only_base and not found.only_run
    assert found.count("worse") > 150 and found.count("better") == 0
    assert found.shift is not None and 0.8 < found.shift.ratio < 0.87
    assert found.exit_code is ExitCode.SLOWER


def test_by_needs_no_like_environment_but_a_known_name() -> None:
    with pytest.raises(VenturiError, match="no such parameter"):
        compare_by(load("reference:chspark"), "colour")
