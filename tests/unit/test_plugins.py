"""Targets in Python of other packages: found or refused, measured, and what goes wrong in them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import venturi
from support.mistakes import check
from support.plugin import EXAMPLE, PAGE, Beside, Good, installed, package, venturi_with
from support.run import environment
from support.run import venturi as venturi_here
from support.verdict import end, verdict
from venturi.analysis.verdict.rules import RULES
from venturi.plugin import Parameter
from venturi.targets import plugins
from venturi.targets.system import SCHEMES


def found(monkeypatch: pytest.MonkeyPatch, *sites: Path) -> tuple[dict[str, plugins.Plugin], dict[str, str]]:
    for site in sites:
        monkeypatch.syspath_prepend(str(site))
    return plugins.find(SCHEMES)


# ---- which are used, and which are refused

GOOD = """
class Target:
    interface = 1
    name = "Mine"
    operations = ("get",)
    def plan(self, trial):
        raise RuntimeError("not today")
"""


def test_a_package_is_found_with_its_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from venturi.plugin import Parameter\n" + GOOD.replace(
        "    def", '    parameters = (Parameter("chunk", "Rows", int, 5),)\n    def', 1
    )
    package(tmp_path, "its-name", source, version="2.5", scheme="my-own")
    good, refused = found(monkeypatch, tmp_path)
    assert refused == {} and list(good) == ["my-own"]
    assert (good["my-own"].package, good["my-own"].operations) == ("its-name 2.5", ["get"])
    (known,) = good["my-own"].records
    assert (known.flag, known.key, known.kind) == ("--my-own-chunk", "my_own_chunk", "int")
    assert known.table == "target"
    monkeypatch.setenv(plugins.OFF, "off")
    assert plugins.find(SCHEMES) == ({}, {})


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import of_nothing", "mine 0.1 cannot be imported: ModuleNotFoundError: .*mine.py, line 1"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("Other = 1", "cannot be imported: AttributeError"),
        (GOOD.replace("= 1", "= 7"), "written for interface 7 of plugins, and Venturi .* has interface 1: "
                                     "install a newer version of Venturi"),
        (GOOD.replace("= 1", "= 0"), "interface 0 .* interface 1: install a newer version of that package"),
        (GOOD.replace("    interface = 1\n", ""), "has no interface"),
        (GOOD.replace("plan", "plane"), "has no plan"),
        (GOOD + "    parameters = property(lambda self: 1 / 0)\n", "cannot be read: ZeroDivisionError"),
        (GOOD.replace('("get",)', '("upsert",)'), "its operations are .*upsert"),
        (GOOD.replace('("get",)', "None"), "its operations are None"),
        (GOOD.replace('("get",)', '("get",)\n    gets = "all"'), "its gets is 'all'"),
        (GOOD.replace('("get",)', '("get",)\n    parameters = ("a",)'), "parameter 'a' is no venturi.plugin"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "mine", source)
    try:
        good, refused = found(monkeypatch, tmp_path)
    finally:
        sys.modules.pop("mine", None)
    assert good == {}
    assert re.search(said, refused["mine"]), refused


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        (Parameter("Chunk", ""), "called otherwise"),
        (Parameter("chunk", "", list), "of kind"),
        (Parameter("chunk", "", int, "5"), "which is no int"),
        (Parameter("chunk", "", str, "c", ("a", "b")), "its default one of them"),
        (Parameter("buffer", ""), "called send_buffer, which is a setting of Venturi's own"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameter: Parameter, said: str) -> None:
    class Target(Good):
        parameters = (parameter,)

    assert said in (next(plugins._wrong("send", Target()), "") or "")


def test_one_scheme_has_one_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path / "a", "one", GOOD)
    package(tmp_path / "b", "other", GOOD)
    package(tmp_path / "c", "bold", GOOD, scheme="flight")
    package(tmp_path / "d", "loud", GOOD, scheme="No+")
    good, refused = found(monkeypatch, *(tmp_path / name for name in "abcd"))
    assert good == {} and set(refused) == {"mine", "flight", "No+"}
    assert "two packages have a target of this name, one 0.1 and other 0.1" in refused["mine"]
    named = "from venturi.plugin import Parameter\n" + GOOD + "    parameters = (Parameter('NAME', 'It'),)\n"
    package(tmp_path / "e", "short", named.replace("NAME", "own_size"), scheme="its")
    package(tmp_path / "f", "long", named.replace("NAME", "size"), scheme="its-own")
    good, refused = found(monkeypatch, tmp_path / "e", tmp_path / "f")
    assert len(good) == 1 and re.search("its setting its_own_size is one of its", str(refused))
    assert "Venturi's own" in refused["flight"]


# ---- what the verdict says of it


def judged(calls: dict[str, float], cores: float, streams: int = 1, **more: Any) -> Any:
    parameters = {"operation": "get", "streams": streams, "threads": streams, "target": "mine://there",
                  "rows_per_batch": 1024}  # fmt: skip
    return verdict(calls, {}, parameters=parameters, cpu=(cores, 0.0), client_end=end(0.2), **more)


@pytest.mark.parametrize(
    ("cores", "streams", "cause"),
    [
        (1.0, 1, "calls-busy"),
        (3.9, 4, "calls-busy"),
        (1.1, 4, "calls-take-turns"),
        (0.2, 1, "calls-wait"),
        (0.2, 4, "calls-wait"),
    ],
)
def test_the_verdict_says_that_it_was_your_code(cores: float, streams: int, cause: str) -> None:
    found = judged({"plugin": 0.98, "verify": 0.02}, cores, streams)
    assert found.cause == cause and found.title.startswith("your code: ")
    assert "is spent in your code: its producer sets the pace" in found.sentence
    assert set(found.numbers) <= set(RULES[cause].numbers)
    changed = {name for remedy in found.remedies for name in remedy.changes}
    assert "rows_per_batch" in changed and changed <= set(RULES[cause].changes)
    assert ("streams" in changed) == (cause != "calls-take-turns")


def test_a_plugin_that_is_not_busy_is_not_accused() -> None:
    found = judged({"plugin": 0.3, "await_schedule": 0.7}, 0.2)
    assert found.cause is not None and not found.cause.startswith("calls")
    assert "raw TCP" not in found.sentence and "report its stages" not in found.sentence


# ---- packages, by the command line


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example and the package of the page, built and installed; and one that does not import."""
    place = tmp_path_factory.mktemp("plugins")
    found = place / "site"
    installed(EXAMPLE, found)
    source = place / "mypipe"
    source.mkdir()
    blocks = dict(re.findall(r"^```(toml|python)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    assert sum(block.count("\n") for block in blocks.values()) <= 50
    (source / "pyproject.toml").write_text(blocks["toml"])
    (source / "mypipe.py").write_text(blocks["python"])
    installed(source, found)
    package(found, "rotten", "import of_nothing", scheme="rotten")
    return found


@pytest.fixture(scope="module")
def beside(site: Path) -> Iterator[Beside]:
    with Beside(site) as beside:
        yield beside


FEW = ("--repeats", "2", "--warmup", "0", "--ceilings", "none", "--unproven")


@pytest.fixture(scope="module")
def run(beside: Beside, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the example: both operations, and an axis of its own."""
    out = tmp_path_factory.mktemp("run") / "run"
    done = beside(
        "run", "--target", "socketpair://", "--operation", "get,put", "--streams", "1,2", "--rows-per-stream",
        "200k", "--socketpair-codec", "none,lz4", "--out", out, *FEW, cwd=out.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (out / "report.html").is_file()
    return out


def test_the_example_is_measured_and_verified(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    assert len(lines) == 16
    for line in lines:
        assert line["outcome"] == "ok" and line["verification"]["achieved"] == "checksum"
        assert line["stages"]["client"]["plugin"] > 0
        assert line["target"]["software"] == ("Arrow IPC through a socket pair (venturi-target-example 0.1)")
        assert line["counts"]["rows"] == 200_000 * line["parameters"]["streams"]
        assert line["parameters"]["socketpair_buffer"] == 256 * 1024
    assert {line["parameters"]["socketpair_codec"] for line in lines} == {None, "lz4"}


def test_a_run_is_read_without_the_package(run: Path, tmp_path: Path) -> None:
    for words in (
        ("show", run), ("show", run, "--cell", "best"), ("report", run, "--out", tmp_path / "report.html"),
        ("compare", run, "--by", "socketpair_codec"), ("best", run), ("fit", run),
        ("report", run, "--format", "csv"),
        ("sql", run, "select distinct socketpair_codec, socketpair_buffer from trials"),
    ):  # fmt: skip
        done = venturi_here(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert "lz4" in done.stdout and "262144" in done.stdout.replace(",", "")
    read = venturi.open(run)
    assert {"socketpair_codec", "socketpair_buffer"} <= set(read.cells.column_names)


def test_the_page_is_followed_to_a_measured_target(beside: Beside, tmp_path: Path) -> None:
    shown = [line for line in PAGE.read_text().splitlines() if line.startswith("venturi run --target mypipe")]
    assert len(shown) == 2
    for number, line in enumerate(shown):
        words = line.replace("2s", "200ms").split()[1:]
        done = beside(*words, *FEW, "--out", tmp_path / str(number), cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "verified: checksum, every trial" in " ".join(done.stdout.split())


def test_a_scenario_and_python_have_its_settings(site: Path, beside: Beside, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(
        'name = "mine"\n[target]\nurl = "socketpair://"\nsocketpair_codec = "lz4"\n'
        '[workload]\nrows_per_stream = "100k"\n[matrix]\nsocketpair_buffer = ["64Ki", "1Mi"]\n'
    )
    done = beside("run", "my.toml", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0 and "cells: 2" in done.stdout, done.stdout + done.stderr
    script = (
        "import venturi\n"
        "run = venturi.run(target='socketpair://', operation='put', socketpair_buffer=[65536, 131072],\n"
        "    rows_per_stream=100_000, repeats=1, warmup=0, ceilings='none', unproven=True, out='run')\n"
        "print(sorted(set(run.trials['socketpair_buffer'].to_pylist())))\n"
    )
    found = environment(PYTHONPATH=f"{site}:{environment()['PYTHONPATH']}")
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=found, check=False)
    assert done.returncode == 0 and "[65536, 131072]" in done.stdout, done.stdout + done.stderr


def test_what_cannot_be_run_is_refused(beside: Beside, tmp_path: Path) -> None:
    def refused(line: str) -> str:
        done = beside("run", *shlex.split(line), cwd=tmp_path)
        assert done.returncode != 0 and done.stdout == "" and list(tmp_path.iterdir()) == []
        return f"{done.stderr}exit code {done.returncode}"

    check("plugins", refused)
    for url in ("pipe://", "mypipe://h/t?a=1#b"):
        assert beside("run", "--target", url, "--dry-run", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("forever", ["pass", "threading.Event().wait()"])
def test_a_process_ends_beside_a_call_that_does_not(forever: str, tmp_path: Path) -> None:
    source = GOOD.replace('raise RuntimeError("not today")', f"return self\n    def produce(self, stream):\n"
                          f"        while True: {forever}")  # fmt: skip
    package(tmp_path / "site", "mine", f"import threading\n{source}")
    done = venturi_with(
        tmp_path / "site", "run", "--target", "mine://", "--operation", "get", "--repeats", "1", "--warmup",
        "0", "--timeout", "200ms", "--ceilings", "none", "--no-report", "--unproven", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 5, done.stdout + done.stderr
    assert "no answer for 0.2 s" in done.stderr + done.stdout


def test_doctor_names_them(beside: Beside, tmp_path: Path) -> None:
    done = beside("doctor", cwd=tmp_path)
    text = " ".join(done.stdout.split())
    assert "socketpair:// of venturi-target-example 0.1" in text
    assert "rotten:// cannot be used" in text and "of_nothing" in text
