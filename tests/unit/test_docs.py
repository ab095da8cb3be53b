"""The words of the project: links lead somewhere, commands and options exist, nothing is left unnamed. Runs
that the pages show are planned, which is more than parsed: what cannot be measured together is refused."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from support.run import ROOT
from venturi.analysis.verdict import types
from venturi.analysis.verdict.machine import COMPUTES, CORES, DISK, IDLE, MEMORY
from venturi.analysis.verdict.network import CLIENT_WAITS, LINK
from venturi.analysis.verdict.rules import RULES
from venturi.analysis.verdict.servers import AWAY, FEWER, NO_MORE
from venturi.analysis.verdict.workers import KEPT_UP, NEARLY, SCHEDULE_SPARE, WORKERS
from venturi.cli import COMMANDS, app
from venturi.targets.options import APPLIES, DEFAULTS
from venturi.targets.system import SYSTEMS

PAGES = sorted(
    page
    for folder in (".", "docs/**", "bench", "fuzz", "examples/*", "python/venturi/store/reference")
    for page in ROOT.glob(f"{folder}/*.md")
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FOREIGN = {"import.md"}
"""Pages that name options of other tools."""
PLUGGED = re.compile(r"--(mypipe|socketpair)-")
"""Options of targets in Python that a page or an example brings: test_plugins.py has them installed."""
HREF = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def prose(text: str) -> str:
    """The page without its code blocks."""
    return FENCE.sub("", text)


def anchors(page: Path) -> set[str]:
    """What its headings are called in a link: as GitHub does it."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page.read_text()), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", HREF.sub("", heading).lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    for link in HREF.findall(prose(page.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{link} leads out of the project"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def options(node: Any) -> set[str]:
    return {"--help", "-h"} | {
        name for p in node.params for name in (*p.opts, *p.secondary_opts) if name.startswith("-")
    }


def command_lines(text: str) -> Iterator[str]:
    """Every command line of venturi in code blocks and code spans."""
    blocks = "\n".join(block for kind, block in FENCE.findall(text) if kind in ("", "sh", "yaml"))
    lines = blocks.replace("\\\n", " ").splitlines() + re.findall(r"`([^`\n]+)`", prose(text))
    for line in lines:
        # What a run prints of itself is no command line of the page.
        for part in re.split(r"\s[|&;]+\s|\s#\s", line):
            line = part.strip().removeprefix("$ ").removeprefix("- run: ")
            if line and line.split()[0].rsplit("/", 1)[-1] == "venturi":
                yield line


def said(text: str) -> Iterator[list[str]]:
    """The same as words after `venturi`."""
    for line in command_lines(text):
        try:
            yield shlex.split(line)[1:]
        except ValueError:
            yield line.split()[1:]


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(app)


@pytest.fixture(scope="module")
def every(root: Any) -> set[str]:
    """The options of all commands."""
    found = options(root)
    todo = [root.get_command(None, name) for name in COMMANDS]
    while todo:
        node = todo.pop()
        found |= options(node)
        todo += [node.get_command(None, name) for name in getattr(node, "commands", ())]
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_and_options_exist(page: Path, root: Any, every: set[str]) -> None:
    text = page.read_text()
    for words in said(text):
        node: Any = root
        for word in words:
            if word.startswith("-") or not hasattr(node, "get_command") or word in ("COMMAND", "..."):
                break
            node = node.get_command(None, word)
            assert node is not None, f"venturi {' '.join(words)}: there is no {word}"
        known = every if words and words[0] == "COMMAND" else options(node)
        if words[:2] == ["cluster", "slurm"] or words[:1] == ["ab"]:  # end with words of `venturi run`
            known |= options(root.get_command(None, "run"))
        for word in words:
            flag = re.match(r"--?[a-z][a-z0-9-]*", word)
            if flag and not PLUGGED.match(flag[0]):
                assert flag[0] in known, f"venturi {' '.join(words)}: there is no {flag[0]}"
    if page.name not in FOREIGN and page.parts[-2] != "bench":
        for flag in re.findall(r"`(--[a-z][a-z0-9-]*)[^`]*`", prose(text)):
            assert flag in every or PLUGGED.match(flag), f"no command has {flag}"


def test_files_that_the_architecture_names_exist() -> None:
    folders = [ROOT / name for name in ("crates", "python", "tests", "tools")]
    files = [str(path) for folder in folders for path in folder.rglob("*.*")]
    named = re.findall(r"`([a-z0-9_/]+\.(?:py|rs|json))`", (ROOT / "docs" / "architecture.md").read_text())
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in files)] == []


def test_the_index_names_every_page_and_command() -> None:
    index = ROOT / "docs" / "README.md"
    text = index.read_text()
    links = {(index.parent / link.partition("#")[0]).resolve() for link in HREF.findall(text)}
    for page in index.parent.rglob("*.md"):
        assert page in links or page == index, f"docs/README.md does not lead to {page.relative_to(ROOT)}"
    assert "](docs/README.md)" in (ROOT / "README.md").read_text()
    shown = {words[0] for words in said(text) if words} | {"run"}
    assert set(COMMANDS) <= shown


def test_every_dependency_is_named_with_its_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        asked += extra
    names = {re.split(r"[^\w.-]", text)[0] for text in asked}
    for manifest in (ROOT / "Cargo.toml", *ROOT.glob("crates/*/Cargo.toml"), ROOT / "fuzz/Cargo.toml"):
        read = tomllib.loads(manifest.read_text())
        tables = [read.get(key, {}) for key in ("dependencies", "dev-dependencies", "build-dependencies")]
        tables.append(read.get("workspace", {}).get("dependencies", {}))
        names |= {name for table in tables for name in table if not name.startswith("venturi")}
    missing = sorted(name for name in names if f"`{name}`" not in page)
    assert not missing, f"docs/dependencies.md does not name {missing}"


def test_verdicts_are_documented_with_the_thresholds_that_count() -> None:
    page = (ROOT / "docs" / "verdicts.md").read_text()
    rows = [
        [field.strip() for field in row.split("|")]
        for row in re.findall(r"^\| (?:\d+ )?\| .*\|$", page, re.MULTILINE)
    ]
    table = [(row[2].strip("`"), row[4]) for row in rows]
    assert {cause for row in rows for cause in re.findall("`(.*?)`", row[5])} == set(RULES)
    expected = [
        ("schedule", KEPT_UP), ("schedule", SCHEDULE_SPARE), ("load-generator", WORKERS), ("cores", CORES),
        ("stage", WORKERS), ("stage", NEARLY), ("link", LINK), ("disk", DISK), ("memory", MEMORY),
        ("server", CLIENT_WAITS),
    ]  # fmt: skip
    for kind, threshold in expected:
        proofs = [proof for name, proof in table if name == kind]
        assert any(f">= {threshold * 100:.0f} %" in proof for proof in proofs), (kind, threshold)
    databases = page.partition("\n## Databases\n")[2].partition("\n## ")[0]
    for words in (
        f"{COMPUTES * 100:.0f} % of that time or more on a CPU is computing",
        f"the round trip is {AWAY * 100:.0f} % or more",
        f"under {IDLE * 100:.0f} % of the time that it has a batch",
        f"at least {FEWER:g} times fewer batches in flight",
        f"within {NO_MORE * 100:.0f} %",
    ):
        assert words in databases, words
    for kind in get_args(types.Kind):
        assert kind in dict(table), f"{kind} is not in the order of proof"
        assert f"\n### {kind}\n" in page, f"{kind} has no paragraph"


_OPTIONS = re.compile(r"^\| key \| default \| meaning \|\n\|---.*\n((?:\|.*\n)+)", re.MULTILINE)
_TARGETS = sorted({path.stem for path in (ROOT / "docs" / "targets").glob("*.md")} - {"unix"})


@pytest.mark.parametrize("scheme", _TARGETS)
def test_the_page_of_a_target_has_its_options_with_their_defaults(scheme: str) -> None:
    page = (ROOT / "docs" / "targets" / f"{scheme}.md").read_text()
    # A page is called as the first word of its system.
    scheme = next(system.scheme for system in SYSTEMS if system.scheme.partition("+")[0] == scheme)
    known = {name for name, systems in APPLIES.items() if scheme in systems}
    assert {name for name in known if f"`{name}`" not in page} == set()
    for row in "".join(_OPTIONS.findall(page)).splitlines():
        keys, default = (cell.strip() for cell in row.split("|")[1:3])
        named = re.findall(r"`(\w+)`", keys)
        assert named and set(named) <= known, row
        usual = DEFAULTS.get(scheme, {}).get(named[0])
        if usual is not None and len(named) == 1:
            said = str(usual).lower() if isinstance(usual, bool) else str(usual)
            assert re.match(rf"`?{re.escape(said)}\b", default), row


# ---- command lines


TYPED_PAGES = [
    ROOT / "README.md",
    *sorted(set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "extend.md"}),
]
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
    for page in TYPED_PAGES:
        for line in command_lines(page.read_text()):
            line = " ".join(re.sub(r" [<>]+ ?\S+$", "", line).split())
            if line not in seen and line not in MENTIONED:
                seen.add(line)
                yield str(page.relative_to(ROOT)), line


RUNS, OTHERS = dict[str, list[str]](), dict[str, list[str]]()
"""The lines of each page."""
for page, line in collected():
    is_run = line.split()[1:2] == ["run"] and not PLACEHOLDER.search(line)
    (RUNS if is_run else OTHERS).setdefault(page, []).append(line)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that the pages speak of."""
    found = tmp_path_factory.mktemp("documented")
    numbers, texts = pa.array(range(8), pa.int64()), pa.array([f"text-{n}" for n in range(8)])
    rows = pa.table(
        {
            **dict.fromkeys(("id", "hits", "price"), numbers),
            **dict.fromkeys(("page", "site", "sensor", "name"), texts),
            "day": pa.array(range(8), pa.date32()),
        }
    )
    for name in ("rows", "clicks", "trips", "states", "t"):
        pq.write_table(rows, found / f"{name}.parquet")
    points = {"ts": pa.array(range(8), pa.timestamp("us")), "site": texts, "sensor": texts, "value": numbers}
    pq.write_table(pa.table(points), found / "readings.parquet")
    (found / "my.toml").write_text(SCENARIO)
    (found / "ca.pem").write_text("")
    (found / "points").mkdir()
    (found / "points" / "manifest.json").write_text("{}")
    (found / "data").mkdir()
    return found


def test_pages_have_commands() -> None:
    """What is collected is what the pages have: a pattern that finds nothing would let all of them pass."""
    assert sum(map(len, RUNS.values())) > 40 and sum(map(len, OTHERS.values())) > 80


@pytest.mark.parametrize("page", RUNS)
def test_a_run_that_is_shown_can_be_planned(page: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for line in RUNS[page]:
        for name in re.findall(r"(?:--(?:password|token)-env[ =]|\{env:)(\w+)", line):
            monkeypatch.setenv(name, "secret")
        words = shlex.split(line.replace(":///data/", f"://{place}/data/"))[1:]
        done = CliRunner().invoke(app, words if "--dry-run" in words else [*words, "--dry-run"])
        why = f"{line}\n{done.exception!r} {getattr(done.exception, 'hint', '')}\n{done.output}"
        assert done.exit_code == 0, why
        assert re.search(r"^cells: [1-9]", done.output, re.MULTILINE), why


@pytest.mark.parametrize("page", OTHERS)
def test_commands_that_are_shown_are_parsed(page: str, root: Any) -> None:
    for line in OTHERS[page]:
        try:
            parsed(root, shlex.split(line)[1:])
        except Exception as error:
            pytest.fail(f"{line}: {error!r}")


def parsed(node: Any, words: list[str]) -> None:
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
