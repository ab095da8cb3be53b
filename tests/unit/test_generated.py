"""One record is all that a parameter needs: the rest is made of it (tools/generate)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.run import ROOT, TESTS

FIELD = """    hurry: Annotated[Nullable[Literal["some", "much"]], _flight("How much to hurry.")] = None
    connections: """
RUN = """
import sys
import venturi
from support.model import ModelExecutor
from support.run import venturi as typed
from venturi.analysis.verdict.rerun import Rerun
out = sys.argv[1]
keywords = dict(target="flight://h", streams=1, rows_per_stream=1000, ceilings=False, repeats=1, warmup=0)
print("--hurry" in typed("run", "--help").stdout)
planned = typed("run", "--target", "flight://h", "--hurry", "some,much", "--dry-run", "-q").stdout
print("hurry=some" in planned and "hurry=much" in planned)
run = venturi.run(hurry=["some", "much"], out=out, executor=ModelExecutor(), **keywords)
print(sorted(run.trials["hurry"].to_pylist()))
print(run.sql("select count(distinct hurry) as found from trials").to_pylist())
print(typed("sql", out, "select hurry from trials order by 1", "--format", "csv").stdout.split())
print(sorted(Rerun.of(cell, {}).but() for cell in run.results.cells))
"""


@pytest.fixture(scope="module")
def with_one_more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose Flight has one option more, and what is generated from it."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(
        ROOT / "python", root / "python", symlinks=True, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    for core in (ROOT / "python/venturi").glob("*.so"):
        (root / "python/venturi" / core.name).symlink_to(core)
    (root / "tools").mkdir()
    shutil.copy(ROOT / "tools/generate", root / "tools/generate")
    shutil.copytree(ROOT / "docs", root / "docs")
    shutil.copytree(ROOT / "tests/data/golden", root / "tests/data/golden")
    flight = root / "python/venturi/targets/flight.py"
    text = flight.read_text()
    assert text.count("    connections: ") == 1
    flight.write_text(text.replace("    connections: ", FIELD))
    python(root, root / "tools/generate")
    return root


def python(root: Path, *words: object) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "python"), str(TESTS)])}
    found = [sys.executable, *map(str, words)]
    done = subprocess.run(found, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_parameter_is_one_record(with_one_more: Path) -> None:
    root = with_one_more
    schema = json.loads((root / "python/venturi/schema/trial.schema.json").read_text())
    said = schema["properties"]["parameters"]["properties"]["hurry"]
    assert said == {"description": "How much to hurry.", "enum": ["some", "much", None]}
    *told, again = python(root, "-c", RUN, root / "run").splitlines()
    assert told == [
        "True", "True", "['much', 'some']", "[{'found': 2}]", "['hurry', 'much', 'some']",
    ]  # fmt: skip
    assert "--hurry some" in again and "--hurry much" in again
