"""Every command line that the pages show is one that the program takes: runs are planned, others are parsed.

Planned is more than parsed: files are read, cells are made, and what cannot be measured together is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from test_docs import command_lines
from typer.testing import CliRunner

from support.run import ROOT
from venturi.cli import app

PAGES = [ROOT / "README.md", *sorted(set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "extend.md"})]
"""The commands of extend.md need its package: tests/unit/test_plugins.py types them where it is installed."""
PLACEHOLDER = re.compile(r"(^|[\s=/])(\.\.\.|…|[A-Z]{2,}(?![\w:=/.]))|HOST:PORT|<[a-z]")
"""`...`, `RUN`, `SCENARIO`: the form of a command, not one to be typed."""
MENTIONED = {
    *(f"venturi run{flag}" for flag in ("", " --json", " --resume", " --on spark", " --on here,...")),
    "venturi show RUN --cell",
}
"""A command or an option that a sentence names without what it works on."""
SCENARIO = '[target]\nurl = "flight://local"\n[workload]\noperation = "get"\n'


def collected() -> Iterator[tuple[str, str]]:
    seen = set()
    for page in PAGES:
        for line in command_lines(page.read_text()):
            line = " ".join(re.sub(r" [<>]+ ?\S+$", "", line).split())
            if line not in seen:
                seen.add(line)
                yield str(page.relative_to(ROOT)), line


LINES = list(collected())
RUNS = [
    (page, line)
    for page, line in LINES
    if line.split()[1:2] == ["run"] and line not in MENTIONED and not PLACEHOLDER.search(line)
]
OTHERS = [(page, line) for page, line in LINES if (page, line) not in RUNS and line not in MENTIONED]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that the pages speak of."""
    found = tmp_path_factory.mktemp("documented")
    rows = 8
    table = {
        **{name: pa.array(range(rows), pa.int64()) for name in ("id", "hits", "price")},
        "day": pa.array(range(rows), pa.date32()),
        **{
            name: pa.array([f"{name}-{n}" for n in range(rows)])
            for name in ("page", "site", "sensor", "name")
        },
        "ts": pa.array(range(rows), pa.timestamp("us")),
        "value": pa.array([n / 2 for n in range(rows)]),
    }
    for name in ("rows", "clicks", "trips", "states", "t"):
        pq.write_table(
            pa.table({k: v for k, v in table.items() if k not in ("ts", "value")}), found / f"{name}.parquet"
        )
    points = {k: table[k] for k in ("ts", "site", "sensor", "value")}
    pq.write_table(pa.table(points), found / "readings.parquet")
    (found / "my.toml").write_text(SCENARIO)
    (found / "ca.pem").write_text("")
    (found / "points").mkdir()
    (found / "points" / "manifest.json").write_text("{}")
    (found / "data").mkdir()
    return found


def test_pages_have_commands() -> None:
    """What is collected is what the pages have: a pattern that finds nothing would let all of them pass."""
    assert len(RUNS) > 40 and len(OTHERS) > 80


@pytest.mark.parametrize(("page", "line"), RUNS, ids=[line for _, line in RUNS])
def test_a_run_that_is_shown_can_be_planned(
    page: str, line: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for name in re.findall(r"--(?:password|token)-env[ =](\w+)", line):
        monkeypatch.setenv(name, "secret")
    words = shlex.split(line.replace(":///data/", f"://{place}/data/"))[1:]
    done = CliRunner().invoke(app, words if "--dry-run" in words else [*words, "--dry-run"])
    why = f"{page}: {line}\n{done.exception!r} {getattr(done.exception, 'hint', '')}\n{done.output}"
    assert done.exit_code == 0, why
    assert re.search(r"^cells: [1-9]", done.output, re.MULTILINE), why


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(app)


@pytest.mark.parametrize(("page", "line"), OTHERS, ids=[line for _, line in OTHERS])
def test_a_command_that_is_shown_is_parsed(page: str, line: str, root: Any) -> None:
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        pytest.fail(f"{page}: {line}: quotes do not match")
    node = root
    while words and hasattr(node, "get_command"):
        if words[0].startswith("-") or words[0] in ("COMMAND", "..."):
            return
        _, node, words = node.resolve_command(typer.Context(node), words)
    if hasattr(node, "get_command") or "..." in words:
        return
    words = [word for word in words if word not in ("--help", "-h")]
    # A sentence may name a command by itself; what it needs is said elsewhere.
    if words and not (len(words) == 1 and words[0].startswith("-")):
        node.make_context(node.name, words)
