"""What `venturi compare` prints: Markdown, JUnit XML, JSON, any terminal; published runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.compare import base_run, environment, run_like, said, slower  # noqa: F401 - the fixtures too
from support.run import ROOT, venturi
from support.synthetic import HOSTILE, cells, hostile, make_run
from venturi.analysis.compare.runs import compare, compare_by
from venturi.analysis.results import load
from venturi.common.errors import ExitCode, VenturiError


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
