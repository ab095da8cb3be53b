"""Work beside a wait, the digits in which a page is packed, and what a table of many cells leaves undone."""

from __future__ import annotations

import base64
import io
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from support.draws import draws
from support.packed import unpacked_text
from support.synthetic import cells, make_run
from venturi.analysis.results import load
from venturi.analysis.verdict import judge, rerun
from venturi.common.beside import beside
from venturi.report.page.packed import LETTERS, Packer
from venturi.report.text.terminal import print_results


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


@settings(max_examples=draws(100, 4))
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
    from venturi.report.page.packed import letters

    assert letters(data).replace(",", "<") == base64.b85encode(data, pad=True).decode()


def test_a_table_of_many_cells_plans_no_command_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load(make_run(tmp_path / "run", cells(rows=range(1_000_000, 11_000_000, 1_000_000)), samples=False))
    planned, judged = [], []
    accepted, first = rerun._accepted, judge.first
    monkeypatch.setattr(rerun, "_accepted", lambda words: planned.append(words) or accepted(words))
    monkeypatch.setattr(judge, "first", lambda seen: judged.append(seen.trials) or first(seen))
    print_results(run, Console(file=io.StringIO(), width=80))
    assert len(run.cells) == 60
    # Each cell once, and the repeats of a few.
    assert judged.count(5) == 60 and judged.count(1) < 100 and len(planned) < 60
    for verdict in run.verdicts.values():
        assert verdict.remedies is verdict.remedies
    assert judged.count(1) == 5 * sum(v.kind != "unknown" for v in run.verdicts.values())
