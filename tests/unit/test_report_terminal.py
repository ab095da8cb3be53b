"""What `venturi show` prints, to the letter, on runs made by formula; work beside a wait, the digits in which
a page is packed, and what a table of many cells leaves undone."""

from __future__ import annotations

import base64
import io
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from support.golden import kept
from support.packed import unpacked_text
from support.synthetic import cells, hostile, imported, make_run, without_server
from venturi.analysis.results import find, load
from venturi.analysis.verdict import judge
from venturi.analysis.verdict.rerun import Rerun
from venturi.common.errors import VenturiError
from venturi.common.runtime import beside
from venturi.report import markdown, tables
from venturi.report import run as runs
from venturi.report import terminal as on_terminal
from venturi.report.document import Column, Document, Lines, Section, Table, Text
from venturi.report.page.cells import LETTERS, Packer


def shown(run: Path, width: int = 80) -> str:
    return on_terminal.text(runs.document(load(run), brief=True), width).rstrip("\n")


def test_to_the_letter(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells(streams=(1, 2)), fail="operation == 'put' and streams == 1")
    kept("show", shown(run) + "\n")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_longer_than_the_terminal(tmp_path: Path, width: int) -> None:
    matrix = cells(streams=(1, 2), rows=(1_000_000, 10_000_000))
    text = shown(make_run(tmp_path / "run", matrix, repeats=2, warmup=0, fail="streams == 2"), width)
    assert max(map(len, text.splitlines())) <= width
    assert ("no room here for" in text) == (width < 120)


def test_columns_are_chosen(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "run", repeats=2))
    text = on_terminal.text(runs.document(run, brief=True, names=["P50", " rows "]), 80)
    head = next(line for line in text.splitlines() if line.startswith("streams")).split()
    assert head[:2] == ["streams", "median"] and {"p50", "rows", "ok", "fail"} <= set(head)
    assert not {"p99", "verdict", "TCP"} & set(head)
    assert "no room here for" not in text
    with pytest.raises(VenturiError, match="no column of this run is called p51"):
        runs.document(run, brief=True, names=["p51"])


@pytest.mark.parametrize(
    ("repeats", "head", "warned"), [(3, "75 % CI", True), (5, "93.75 % CI", False), (6, "95 % CI", False)]
)
def test_the_head_says_what_the_margin_covers(tmp_path: Path, repeats: int, head: str, warned: bool) -> None:
    text = shown(make_run(tmp_path / "run", cells(("get",), (1,)), repeats=repeats), 120)
    assert f" {head} " in text.splitlines()[4]
    assert ("an interval is their range" in text) == warned


def test_control_characters_and_markup_are_not_obeyed(tmp_path: Path) -> None:
    def edit(line: dict[str, object]) -> dict[str, object]:
        line = hostile(line)
        if line["outcome"] == "failed":
            line["error"] = {"kind": None, "message": "[red]x[/red]\x1b[2J\r\nend", "stream": None}
        return line

    text = shown(run := make_run(tmp_path / "run", cells(("get",), (1,)), edit=edit))
    assert "\x1b" not in text and "[red]x[/red]" in text
    failed = tables.machine(load(run))["failed"]
    assert failed and all(one["error"]["message"] for one in failed)
    found = Document("\x1b", [Table([Column("\x1b", "", ["\x1b"])]), Lines(["\x1b ````"]), Text("a b")])
    for text in (on_terminal.text(found, 80), markdown.text(found)):
        assert "\x1b" not in text and "````" in text
    assert "`````\n\ufffd ````\n`````\n" in text and "\nA b.\n" in text
    assert "<summary>a_b &lt;</summary>" in markdown.text(Document("", [Section("a_b <", [], folded=True)]))


def test_colours_only_on_a_terminal(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells(("get",), (1,)), repeats=1, warmup=0)
    out = io.StringIO()
    on_terminal.write(runs.document(load(run), brief=True), Console(file=out, width=80))
    assert "\x1b" not in out.getvalue()


def interrupted(line: dict[str, Any]) -> dict[str, Any] | None:
    cut = {"kind": "cancelled", "message": "cancelled while it ran", "stream": None}
    if line["order"] > 3:
        return None
    return {**line, "outcome": "interrupted", "error": cut} if line["order"] == 3 else line


ONE = cells(("get",), (1,))
ODD: dict[str, dict[str, Any]] = {
    "empty": {"matrix": []},
    "one trial, which has no margin": {"matrix": ONE, "repeats": 1, "warmup": 0},
    "all failed": {"fail": "streams > 0", "kind": "unreachable"},
    "interrupted": {"matrix": cells(("get",), (1, 2)), "edit": interrupted},
    "imported: dashes, no faults": {"edit": imported, "ceilings": False, "environment": {}},
    "a foreign server": {"edit": without_server, "samples": False},
}


def test_odd_runs_to_the_letter(tmp_path: Path) -> None:
    runs = {name: make_run(tmp_path / str(n), **given) for n, (name, given) in enumerate(ODD.items())}
    kept("show-odd", "\n".join(f"# {name}\n{shown(run)}\n" for name, run in runs.items()))


def test_cpu_of_trials_shorter_than_a_tick_is_not_known(tmp_path: Path) -> None:
    def no_tick(line: dict[str, Any]) -> dict[str, Any]:
        if line["repeat"] != 1:
            return line
        short = {"times": line["times"] | {"interval_ns": 5_000_000}}
        return line | short | {"cpu": line["cpu"] | {"server": {"user_ns": 0, "system_ns": 0}}}

    run = make_run(tmp_path / "run", cells(("get",), (1,)), edit=no_tick)
    (cell,) = load(run).cells
    assert (
        cell.cpu["client"].measured
        and not cell.cpu["server"].measured
        and not cell.per_cpu["server"].measured
    )
    assert "CPU client" in shown(run)


def test_columns_that_find_room_are_kept_and_a_long_text_is_cut() -> None:
    def column(head: str, width: int, rank: int, text: bool = False) -> Column:
        return Column(head, "", ["x" * width], rank, text)

    offered = [column("a", 10, 0), column("verdict", 30, 1, True), column("tcp", 8, 2), column("p50", 9, 3)]

    def kept(room: int) -> tuple[list[tuple[str, int]], list[str]]:
        found, left = on_terminal.fit(offered, room, 0)
        return [(c.head, len(c.cells[0])) for c in found], [c.head for c in left]

    assert kept(57) == ([("a", 10), ("verdict", 30), ("tcp", 8), ("p50", 9)], [])
    assert kept(50) == ([("a", 10), ("verdict", 30), ("tcp", 8)], ["p50"])
    # The short number beside the text comes before the text's end.
    assert kept(35) == ([("a", 10), ("verdict", 17), ("tcp", 8)], ["p50"])
    # Where both do not fit, the text comes first; a stub of it is not worth the room.
    assert kept(28) == ([("a", 10), ("verdict", 18)], ["tcp", "p50"])
    assert kept(20) == ([("a", 10), ("tcp", 8)], ["verdict", "p50"])
    assert kept(5) == ([("a", 10)], ["verdict", "tcp", "p50"])
    # Nor does a number of less weight stand for it; what yields to it goes first.
    assert kept(19) == ([("a", 10), ("tcp", 8)], ["verdict", "p50"])
    offered[3] = column("p50", 5, 3)
    assert kept(16) == ([("a", 10)], ["verdict", "tcp", "p50"])
    offered[3] = replace(column("CI", 9, 0), yields=2)
    assert kept(40) == ([("a", 10), ("verdict", 21), ("CI", 9)], ["tcp"])
    assert kept(30) == ([("a", 10), ("verdict", 20)], ["tcp", "CI"])
    # A narrow terminal: counts go before the median, and are named.
    offered = [column("streams", 7, 0), column("median", 9, 0), column("ok", 4, 0), column("fail", 4, 0)]
    assert kept(20) == ([("streams", 7), ("median", 9), ("ok", 4)], ["fail"])
    assert kept(16) == ([("streams", 7), ("median", 9)], ["ok", "fail"])


def test_a_long_table_shows_the_fastest_of_each_stream_count(tmp_path: Path) -> None:
    matrix = cells(operations=("get",), streams=(1, 2), rows=range(1_000_000, 41_000_000, 1_000_000))
    run = make_run(tmp_path / "run", matrix, repeats=1, warmup=0, samples=False)
    text = shown(run)
    assert "the fastest of each stream count; 78 more cells" in text


@pytest.mark.parametrize(
    "matrix",
    [
        cells(streams=(1, 2)),
        cells(("get",), (1, 2), window=None) + cells(("get",), (1, 2), window=4096),
        cells(("put",), (1,), rows=(10, 20)),
        cells(("get",), (1, 2), query="SELECT 1, 2"),
        cells(("get",), (1,), query="SELECT 1, 2") + cells(("get",), (1,), query="SELECT 3"),
    ],
)
def test_the_hint_names_a_cell_of_this_run(tmp_path: Path, matrix: list[dict[str, object]]) -> None:
    run = make_run(tmp_path / "run", matrix, repeats=1, warmup=0)
    hint = next(line for line in shown(run, 200).splitlines() if line.startswith("one cell on one screen"))
    name = hint.rpartition(" or ")[2]
    results = load(run)
    assert find(results, name).name == results.cells[0].name and " " not in name


def test_the_rows_a_batch_are_those_that_came(tmp_path: Path) -> None:
    """Of what the server has of its own, it cuts the batches, whatever was asked for."""

    def cut(line: dict[str, object]) -> dict[str, object]:
        counts = {**line["counts"], "rows": 65_217 * 40, "batches": 40}  # type: ignore[dict-item]
        return {**line, "counts": counts, "parameters": {**line["parameters"], "data": "remote"}}  # type: ignore[dict-item]

    text = shown(make_run(tmp_path / "run", cells(("get",), (1, 2)), repeats=1, edit=cut), 200)
    assert "65,217 rows/batch" in text and "4,096 rows/batch" not in text
    plain = shown(make_run(tmp_path / "plain", cells(("get",), (1, 2)), repeats=1), 200)
    assert "4,096 rows/batch" in plain


# ---- beside a wait, and many cells


def test_work_has_ended_when_the_wait_has() -> None:
    going, done = threading.Event(), []

    def slow() -> None:
        assert going.wait()
        done.append("first")

    with beside(slow, lambda: done.append("second")):
        assert not done
        going.set()
    assert done == ["first", "second"]


def test_what_fails_is_left_to_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told, done = [], []
    monkeypatch.setattr(threading, "excepthook", told.append)

    def missing() -> None:
        import venturi.no_such_module  # noqa: F401

    def broken() -> None:
        raise AttributeError("a library that is half there")

    with beside(missing, broken, lambda: done.append("rest")):
        pass
    assert (told, done) == ([], ["rest"])


def test_an_error_of_the_wait_waits_for_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_for, done = threading.Event(), []
    join = threading.Thread.join

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        waited_for.set()
        join(thread, timeout)

    def slow() -> None:
        assert waited_for.wait()
        done.append(True)

    monkeypatch.setattr(threading.Thread, "join", joined)
    with pytest.raises(ValueError, match="server"), beside(slow):
        raise ValueError("server")
    assert done == [True]


@given(st.text(), st.dictionaries(st.text(), st.one_of(st.none(), st.integers(), st.text())))
def test_what_is_packed_is_unpacked(script: str, document: dict[str, object]) -> None:
    packed = Packer([script]).finish({"one": document})
    assert unpacked_text(packed.text, packed.letters, packed.bytes) == {
        "scripts": [script],
        "documents": {"one": document},
    }
    assert not set(packed.text) - set(LETTERS)


@given(st.binary(max_size=400))
def test_digits_are_those_of_rfc_1924(data: bytes) -> None:
    from venturi.report.page.cells import letters

    assert letters(data).replace(",", "<") == base64.b85encode(data, pad=True).decode()


def test_a_table_of_many_cells_makes_no_command_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load(make_run(tmp_path / "run", cells(rows=range(1_000_000, 11_000_000, 1_000_000)), samples=False))
    planned, judged = [], []
    proposed, first = Rerun.proposed, judge.first
    monkeypatch.setattr(Rerun, "proposed", lambda run, it: planned.append(it) or proposed(run, it))
    monkeypatch.setattr(judge, "first", lambda seen: judged.append(seen.trials) or first(seen))
    on_terminal.text(runs.document(run, brief=True), 80)
    assert len(run.cells) == 60
    # Each cell once, and the repeats of a few.
    assert judged.count(5) == 60 and judged.count(1) < 100 and len(planned) < 60
    for verdict in run.verdicts.values():
        assert verdict.remedies is verdict.remedies
    assert judged.count(1) == 5 * sum(v.kind != "unknown" for v in run.verdicts.values())
