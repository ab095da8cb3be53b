"""Typical outputs, to the letter, so that a change of words shows in review: tests/data/golden/.

After a wanted change: VENTURI_UPDATE=1 pytest tests/unit/test_golden.py, and read the difference before it is
committed.
"""

from __future__ import annotations

import re
import shlex
import tarfile
from pathlib import Path
from typing import Any

import pytest

from support.golden import kept
from support.run import DATA, TESTS, venturi
from support.synthetic import ENVIRONMENT, cells, make_run, without_server

HERE = DATA
TYPED = {
    # Runs that were made by an earlier release, on a machine of two cores.
    "show-flight": "venturi show flight",
    "show-charrow": "venturi show charrow",
    "show-ingest": "venturi show ingest",
    "show-upsert": "venturi show upsert",
    "cell-flight": "venturi show flight --cell best",
    "cell-charrow": "venturi show charrow --cell best",
    "cell-ingest": "venturi show ingest --cell best",
    "cell-upsert": "venturi show upsert --cell best",
    "best-flight": "venturi best flight",
    "best-upsert": "venturi best upsert",
    # Published figures.
    "show-published": "venturi show reference:chspark",
    "show-published-upserts": "venturi show reference:memsql",
    "best-published": "venturi best reference:chspark",
    "fit-curve": "venturi fit reference:cartesius-localhost --over streams",
    "fit-published": "venturi fit reference:macbook-get",
    "predict-published": "venturi predict reference:macbook-get --streams 12",
    # Made by formula.
    "show-gets": "venturi show gets",
    "show-foreign": "venturi show foreign",
    "show-failed": "venturi show failed",
    "show-places": "venturi show places",
    "compare": "venturi compare old new",
    "compare-markdown": "venturi compare old new --format markdown",
    "history": "venturi history nights",
    "dry-run": "venturi run quick --target flight://HOST --streams 1,2 --dry-run",
}


def slower(line: dict[str, Any]) -> dict[str, Any]:
    """A fifth more time."""
    times = line["times"] | {"interval_ns": int(line["times"]["interval_ns"] * 1.2)}
    return line | {"times": times}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all runs in it."""
    at = tmp_path_factory.mktemp("golden")
    (archive,) = (HERE / "runs").glob("format-*.tar.xz")
    with tarfile.open(archive) as file:
        file.extractall(at, filter="data")
    make_run(at / "gets", cells(("get",), (1, 2, 4)))
    make_run(at / "foreign", cells(("get",), (1, 2, 4)), edit=without_server)
    make_run(at / "failed", cells(streams=(1, 2)), fail="operation == 'put' and streams == 1")
    make_run(at / "places", cells(("get",), (1, 2), ("local", "remote")))
    make_run(at / "old", cells(streams=(1, 2)))
    make_run(at / "new", cells(streams=(1, 2)), edit=slower)
    for night in range(12):
        began = int(ENVIRONMENT["started_unix_ns"]) + night * 86_400 * 10**9
        make_run(
            at / "nights" / f"night-{night:02}", cells(("get",), (2,)), repeats=5,
            edit=slower if night >= 6 else None, environment=ENVIRONMENT | {"started_unix_ns": began},
        )  # fmt: skip
    return at


def output(line: str, runs: Path) -> str:
    done = venturi(*shlex.split(line)[1:], cwd=runs)
    text = f"$ {line}\n{done.stdout}{done.stderr}".replace(f"{runs}/", "")
    return text if done.returncode == 0 else f"{text}(exit code {done.returncode})\n"


@pytest.mark.parametrize("name", TYPED)
def test_to_the_letter(name: str, runs: Path) -> None:
    kept(name, output(TYPED[name], runs))


def test_nothing_is_kept_that_is_not_compared() -> None:
    sources = "\n".join(path.read_text() for path in (TESTS / "unit").glob("test_*.py"))
    named = re.findall(r'kept\(\s*"([\w-]+)"', sources)
    named += [f"verdicts-{table}" for table in re.findall(r'check_table\("([\w-]+)"', sources)]
    assert {path.stem for path in (HERE / "golden").iterdir()} == {*TYPED, *named}
