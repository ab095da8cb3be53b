"""`venturi compare` as a user runs it: what differs, what cannot be judged, refusals, exit codes, forms; what
it prints of each case is in tests/data/golden/compare-cases.txt. And `venturi history` and `venturi ab`."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from support.compare import Line, base_run, chain, environment, run_like, said, slower  # noqa: F401
from support.draws import draws, slack
from support.flight import served
from support.golden import kept
from support.link import alive, tree
from support.run import DATA, ROOT, command, venturi
from support.run import environment as variables
from support.synthetic import ENVIRONMENT, HOSTILE, cells, hostile, imported, make_run
from support.wait import wait_until
from venturi.analysis.compare.likeness import without_port
from venturi.analysis.compare.runs import compare, compare_by
from venturi.analysis.results import load
from venturi.analysis.statistics.difference import change_points
from venturi.common.errors import ExitCode, VenturiError
from venturi.report import hosts
from venturi.report.page.page import page
from venturi.store.directory import RunDirectory


def other_port(line: Line) -> Line:
    line["parameters"]["target"] = line["parameters"]["target"].replace("31337", "40001")
    return line


def compressed(line: Line) -> Line:
    line["parameters"] |= {"compression": "zstd", "row_bytes": 33.0}
    return slower(1.5)(line)


def other_server(line: Line) -> Line:
    line["target"]["software"] = "venturi 0.2.0"
    return line


def one_fails(line: Line) -> Line:
    """All are slower, and a trial of the cells with one stream is lost."""
    line = slower(1.2)(line)
    if line["repeat"] == 1 and not line["warmup"] and line["parameters"]["streams"] == 1:
        line |= {"outcome": "failed", "error": {"kind": "lost", "message": "gone", "stream": 0}}
    return line


def cut_off(line: Line) -> Line:
    cut = {"outcome": "interrupted", "error": {"kind": "cancelled", "message": "cancelled", "stream": None}}
    return line | (
        cut if line["parameters"]["streams"] == 4 and line["parameters"]["operation"] == "get" else {}
    )


def heavier(line: Line) -> Line:
    for end in ("client", "server"):
        for kind in ("user_ns", "system_ns"):
            line["cpu"][end][kind] = int(line["cpu"][end][kind] * 1.5)
    service = line["latency"]["service"]
    service["percentiles"] = [[p, int(v * 1.5)] for p, v in service["percentiles"]]
    return line


def without_server(line: Line) -> Line:
    line["cpu"]["server"] = None
    return line


def in_rows(line: Line) -> Line:
    line["counts"] = {"rows": line["counts"]["rows"]}
    return slower(1.2)(line)


def unverified(line: Line) -> Line:
    line["parameters"]["verify"] = "none"
    return line


def used_by_others(busy: float) -> Any:
    def edit(line: Line) -> Line:
        host = {"cores": 8, "busy_share": busy, "steal_share": 0.001}
        process = {"user_ns": 10**9, "system_ns": 10**9}
        end = {"by": "self", "window_ns": 10**9, "process": process, "host": host}
        return line | {"resources": {"same_machine": False, "client": end, "server": None}}

    return edit


def differs(case: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """How the run of a case differs from the base: its edit, and what it is made with."""
    makers = [(globals()[name], given) for name, *given in case.get("edit", [])]
    edits = [found(*given) if given else found for found, given in makers]
    run = case.get("run", {})
    if "later_hours" in case:
        began = ENVIRONMENT["started_unix_ns"] + case["later_hours"] * 3600 * 10**9
        run = run | {"environment": environment() | {"started_unix_ns": began}}
    if "environment" in case:
        run = run | {"environment": environment(**case["environment"])}
    if "all_streams" in case:
        run = run | {"matrix": cells(streams=tuple(case["all_streams"]))}
    return chain(*edits) if edits else None, run


CASES: dict[str, dict[str, Any]] = tomllib.loads((DATA / "compare.toml").read_text())


@pytest.fixture(scope="module")
def compared(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CompletedProcess[str]]:
    """What is said of each case; a metric also the other way round."""
    found = {}
    for name, case in CASES.items():
        edit, made = differs(case)
        words = case.get("words", ())
        run = run_like(tmp_path_factory.mktemp("run"), edit, **made)
        done = found[name] = venturi("compare", base, run, *words)
        for name_of in ("stdout", "stderr"):
            text = getattr(done, name_of).replace(f"{run.parent}/", "").replace(f"{base.parent}/", "")
            setattr(done, name_of, text)
        if "--metric" in words:
            found[f"back: {name}"] = venturi("compare", run, base, *words)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_run_beside_its_base(compared: dict[str, CompletedProcess[str]], name: str) -> None:
    case, done = CASES[name], compared[name]
    assert done.returncode == ExitCode[case.get("code", "ok").upper().replace("-", "_")]
    assert case["says"] in " ".join(f"{done.stdout} {done.stderr}".split())
    assert f"back: {name}" not in compared or compared[f"back: {name}"].returncode == 0


def test_what_is_printed(compared: dict[str, CompletedProcess[str]]) -> None:
    kept(
        "compare-cases",
        "\n".join(f"# {name}\n{compared[name].stdout}{compared[name].stderr}" for name in CASES),
    )


def test_a_cell_that_failed_before_is_no_news(base: Path, tmp_path: Path) -> None:
    gone, again = (
        run_like(tmp_path, name=name, fail="streams == 4 and operation == 'get'")
        for name in ("gone", "again")
    )
    # The other way round nothing became worse; what cannot be compared is said.
    back = venturi("compare", gone, base)
    assert back.returncode == 0
    assert "5 of 5 trials failed in the base; no repeats in the base, 3 are needed" in said(back)
    assert venturi("compare", gone, again).returncode == 0


@pytest.mark.parametrize(
    ("url", "without"),
    [
        ("flight://127.0.0.1:31337/x", "flight://127.0.0.1/x"),
        ("[::1]:80", "[::1]"),
        ("flight+tls://h:1?command=a:3", "flight+tls://h?command=a:3"),
        ("flight://local", "flight://local"),
    ],
)
def test_ports_tell_no_cells_apart(url: str, without: str) -> None:
    assert without_port(url) == without


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


def test_a_busier_machine_is_marked(tmp_path: Path) -> None:
    """Two runs of the same thing on a machine that others use more in the second."""
    shares = (0.27, 0.75, 0.26)
    runs = [run_like(tmp_path, used_by_others(busy), name=f"busy-{busy}") for busy in shares]
    text = said(venturi("compare", runs[0], runs[1]))
    assert "! client: CPU used by others: 2.0 % -> 50.0 %" in text
    assert "CPU used by others" not in said(venturi("compare", runs[0], runs[2]))


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
    assert "6 slower" in said(done)
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
    (told,) = hosts.headline(one)
    assert re.fullmatch(r"new against old: slower, ratio 0\.\d+ \[0\.\d+\.\.0\.\d+\]", told)
    assert told in page(one)
    several = make_run(tmp_path / "several", cells(places=("old", "new")), edit=edit, samples=False)
    for form in ("table", "markdown"):
        text = said(venturi("show", several, "--format", form))
        assert "ew against old: of 6 cells 6 slower" in text and "Places side by side" in text


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
        assert hosts._builds(one) is None and hosts.headline(one) == []


def test_no_such_run(base: Path, tmp_path: Path) -> None:
    assert venturi("compare", base, tmp_path / "none").returncode == ExitCode.STORE


# ---- forms, any terminal, published runs


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
    assert text.startswith("### ❌ run against base\n\n- **throughput**: of 6 cells 1 slower")
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


def test_junit_of_what_cannot_be_judged_or_is_missing(base: Path, tmp_path: Path) -> None:
    one = run_like(tmp_path, repeats=1, matrix=cells(("get",)))
    root = ElementTree.fromstring(venturi("compare", base, one, "--format", "junit").stdout)
    assert_junit(root)
    assert (root.get("skipped"), root.get("errors")) == ("3", "3")


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
    docs = (ROOT / "docs" / "compare.md").read_text()
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
def test_no_line_is_longer_than_the_terminal(tmp_path: Path, width: int) -> None:
    matrix = cells(rows=(1_000_000, 10_000_000))
    one = make_run(tmp_path / "one", matrix, samples=False)
    two = make_run(tmp_path / "two", matrix, samples=False, edit=slower(1.5))
    done = venturi("compare", one, two, columns=width)
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


# ---- history: change points on series with known truth, and runs that became slower


DAY_NS = 86_400 * 10**9


def test_series_without_a_change_have_none() -> None:
    """At a level of 1 %: of 300 series 3, and 9 or more in one of 250 such counts."""
    draw = np.random.default_rng(11)
    tries = draws(300)
    alarms = sum(bool(change_points(draw.normal(0.0, 0.02, 30))) for _ in range(tries))
    assert alarms / tries < 0.03 + slack(tries, 0.01)


@pytest.mark.parametrize(
    ("before", "after", "step", "noise", "share"),
    [(14, 10, -0.05, 0.015, 0.93), (5, 5, -0.22, 0.004, 1.0), (6, 4, -0.22, 0.004, 1.0)],
)
def test_a_change_is_found_where_it_is(
    before: int, after: int, step: float, noise: float, share: float
) -> None:
    draw, found = np.random.default_rng(12), 0
    # One that chance could make as well is put to the test a million times.
    tries = draws(100, 4 if share < 1 else 20)
    for _ in range(tries):
        series = np.concatenate([draw.normal(0.0, noise, before), draw.normal(step, noise, after)])
        places = [one.at for one in change_points(series)]
        found += len(places) == 1 and abs(places[0] - before) <= (share < 1)
    assert found / tries >= share - slack(tries, 0.02) * (share < 1)


def test_several_changes_and_none_to_see() -> None:
    steps = [0.0] * 12 + [0.1] * 12 + [-0.1] * 12
    noisy = np.asarray(steps) + np.random.default_rng(13).normal(0.0, 0.01, 36)
    assert [one.at for one in change_points(noisy)] == [12, 24]
    assert change_points([5.0] * 40) == []
    # Too few to tell: three against three come about by chance.
    assert change_points([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]) == change_points([]) == []
    with pytest.raises(ValueError, match="numbers"):
        change_points([1.0, float("nan")])


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen days of one scenario; from the ninth on puts take a tenth longer. One run is damaged."""
    made = tmp_path_factory.mktemp("runs")
    for day in range(14):
        environment = {**ENVIRONMENT, "started_unix_ns": 1_760_000_000 * 10**9 + day * DAY_NS}
        # The seed of the model's noise is the trial's name: another factor each day stands for its noise.
        factor = 1.0 + 0.004 * ((day * 7) % 5)
        worse = 1.1 if day >= 8 else 1.0

        def edit(line: dict, factor: float = factor, worse: float = worse) -> dict:
            put = line["parameters"]["operation"] == "put"
            return slower(factor * (worse if put else 1.0))(line)

        matrix = cells(streams=(2,))
        make_run(made / f"day-{day:02}", matrix, repeats=3, samples=False, edit=edit, environment=environment)
    # A machine that is twice as slow.
    other = environment | {"client": {**ENVIRONMENT.get("client", {}), "cpu": "Other CPU"}}
    make_run(made / "other", matrix, repeats=3, samples=False, edit=slower(2.0), environment=other)
    (made / "damaged").mkdir()
    (made / "damaged" / "trials.jsonl").write_text("no json\n" * 2)
    (made / "notes").mkdir()
    return made


def test_the_day_from_which_on_it_is_slower(nights: Path, tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    done = venturi("history", nights, "--out", page)
    assert done.returncode == 0, done.stderr
    assert "warning: left out: " in done.stderr and "damaged" in done.stderr
    assert "on (run day-08)" in said(done) and "1 run of other machines not counted" in said(done)
    assert page.read_text().count("<svg") == 2 and "day-08" in page.read_text()
    document = json.loads(venturi("history", nights, "--format", "json").stdout)
    (put,) = [one for one in document if one["parameters"]["operation"] == "put"]
    (change,) = put["changes"]
    assert change["at"] == 8 and change["low"] < 1 / 1.1 < change["high"]
    assert len(put["points"]) == 14 and put["points"][0]["run"].endswith("day-00")


def test_one_cell_has_a_line_a_run(nights: Path) -> None:
    done = venturi("history", nights, "--where", "operation == 'put'")
    assert [line.split()[-1] for line in done.stdout.splitlines()[-14:]].count("change") == 1
    assert "2025-10-09" in done.stdout
    # A change smaller than what is asked for is none.
    assert "no change of the level seen" in venturi("history", nights, "--least", "20%").stdout


def test_mistakes_are_named(nights: Path, tmp_path: Path) -> None:
    for words, text in (
        ([tmp_path], "there is no run in it"),
        ([nights, "--where", "streams == 3"], "leaves no cell"),
    ):
        done = venturi("history", *words)
        assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr
    twins = tmp_path / "twins"
    for name in ("first", "second"):
        ports = [cell for n in (1, 2) for cell in cells(("get",), (1,), target=f"flight://127.0.0.1:{n}")]
        make_run(twins / name, ports, repeats=1, samples=False)
    assert "no two runs of one machine have a cell in common" in venturi("history", twins).stderr
    (tmp_path / "one").mkdir()
    make_run(tmp_path / "one" / "run", cells(streams=(1,)), repeats=1, samples=False)
    assert "no two runs of one machine have a cell in common" in venturi("history", tmp_path / "one").stderr
    make_run(tmp_path / "one" / "again", cells(streams=(1,)), repeats=1, samples=False)
    assert "fewer than 10 runs are too few to tell" in said(venturi("history", tmp_path / "one"))
    # Of a machine that nobody described, and without a good trial.
    make_run(tmp_path / "one" / "failed", cells(streams=(1,)), repeats=1, fail="streams == 1", environment={})
    found = json.loads(venturi("history", tmp_path / "one", "--format", "json").stdout)
    assert {(len(one["points"]), one["unit"]) for one in found} == {(3, "B/s")}


# ---- ab: two servers that it starts itself, measured in turns


SERVER = f"{shlex.quote(sys.executable)} -m venturi serve flight --port {{port}}"
MEASURED = ("--operation", "get", "--rows-per-stream", "20k", "--repeats", 3, "--no-ceilings", "--no-report")
COMPARED = (0, 8)
"""Exit codes of a comparison of equal servers: which of them is slower on a busy machine is luck."""


@pytest.mark.usefixtures("core")
def test_a_slower_build_is_found_and_both_are_stopped(tmp_path: Path) -> None:
    out = tmp_path / "run"
    slow = f"{SERVER} --handicap encode=10ms"
    done = venturi("ab", SERVER, slow, "--out", out, *MEASURED, "--repeats", 6)
    assert done.returncode == 8, done.stderr
    assert "of 1 cell 1 slower" in done.stdout and f"run: {out}" in done.stdout
    # Measured in one run, in turns.
    found = load(out)
    assert {c.parameters["place"] for c in found.cells} == {"base", "head"}
    ports = {int(str(c.parameters["target"]).rpartition(":")[2]) for c in found.cells}
    assert len(ports) == 2
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.usefixtures("core")
def test_servers_that_run_already(tmp_path: Path) -> None:
    with served("flight") as one, served("flight") as other:
        urls = f"flight://{one}", f"flight://{other}"
        third = ("--place", f"third={urls[0]}")
        done = venturi("ab", *urls, *third, "--out", tmp_path / "run", *MEASURED)
    assert done.returncode in COMPARED, done.stderr
    assert done.stdout.count("of 1 cell") == 2 and "run:  place=third" in done.stdout


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ab_that_is_ended_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    """Its run ends with it, and keeps no trial of servers that have gone."""
    out, given = tmp_path / "run", variables(TMPDIR=str(tmp_path))
    with served("flight") as other:
        words = (SERVER, f"flight://{other}")
        begun = command("ab", *words, "--out", out, *MEASURED)
        with (tmp_path / "said").open("w") as said, subprocess.Popen(begun, env=given, stderr=said) as ab:
            wait_until(lambda: (out / "trials.jsonl").exists() and (out / "trials.jsonl").read_bytes())
            family = [*tree(ab.pid)]
            ab.send_signal(number)
        wait_until(lambda: not alive(family))
        assert ab.returncode == (130 if number == signal.SIGTERM else -number)
        assert number == signal.SIGKILL or not [*tmp_path.glob(".*.lock")]
        again = shlex.join(["venturi", "ab", *words[:2], "--resume", str(out)])
        assert number == signal.SIGKILL or f"go on with: {again}\n" in (tmp_path / "said").read_text()
        assert '"failed"' not in (out / "trials.jsonl").read_text()
        done = venturi("ab", *words, "--resume", out)
    assert done.returncode in COMPARED and "of 1 cell" in done.stdout, done.stderr
    trials = [it for it in RunDirectory(out).records() if it["outcome"] == "ok"]
    assert len(trials) == 8 == len({(it["cell"], it["repeat"], it["warmup"]) for it in trials})


@pytest.mark.usefixtures("core")
def test_where_a_server_is_found(tmp_path: Path) -> None:
    """`--url` names the system and the table of a server that a command starts: here there is none of it."""
    with served("flight") as other:
        done = venturi(
            "ab", SERVER, f"flight://{other}", "--url", "flight://127.0.0.1:{port}/none",
            "--confidence", "90%", "--out", tmp_path / "run", *MEASURED,
        )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "failed" in done.stdout
    (failed,) = [it.next for it in load(tmp_path / "run").advice if it.kind == "failed"]
    assert "`venturi ab BASE HEAD --resume RUN --retry-failed`" in failed


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("base", "code", "said"),
    [
        ("no-such-server {port}", 4, "no-such-server {port}: does not listen on port"),
        ("sh -c 'echo broken {port}; exit 3'", 4, "broken"),
    ],
)
def test_mistakes_of_ab_are_named(tmp_path: Path, base: str, code: int, said: str) -> None:
    done = venturi("ab", base, "flight://127.0.0.1:1", "--out", tmp_path / "run", *MEASURED)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()
