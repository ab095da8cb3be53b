"""The short form of the proofs, which comes before every run, and the command `venturi prove`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import venturi
from support.model import ModelExecutor
from support.recorded_proofs import NAMES, Recorded
from support.run import venturi as command
from venturi.analysis import results as results_module
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine.executor import CoreExecutor
from venturi.measure.kept import Kept, directory
from venturi.measure.kept import machine as kept_machine
from venturi.measure.prove import bench, registry, short
from venturi.measure.prove.outcome import Check, Name, Outcome, Proof, What
from venturi.report.page import page
from venturi.report.tables import machine, write
from venturi.report.text import markdown, proofs

Record = dict[str, Any]


# ---- before every run ------------------------------------------------------------------------------


def _short(outcome: Outcome, calls: list[int]) -> Callable[..., list[Proof]]:
    check = Check(What.LIE, "verification", "ok" if outcome is Outcome.FAILED else "verification")

    caught = 4.0 - (outcome is Outcome.FAILED)

    def made(note: Any) -> list[Proof]:
        calls.append(1)
        return [
            Proof(Name.RATE, Outcome.PASSED, figures={"off": 0.0028}),
            Proof(Name.LIES, outcome, (check,), figures={"lies": 4.0, "caught": caught}),
            Proof(Name.DIFFERENCE, Outcome.PASSED, figures={"detectable": 0.0371}),
        ]

    return made


def test_it_is_made_once_a_boot_and_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(short, "_made", _short(Outcome.PASSED, calls))

    def before(host: str) -> Record:
        found = short.before_run(CoreExecutor(), lambda *_: None, kept=Kept(tmp_path, host, 1, 1e9))
        assert found is not None
        return found

    assert [before("boot 1, build 1")["cached"] for _ in range(3)] == [False, True, True]
    assert before("boot 2, build 1")["cached"] is False and len(calls) == 2
    assert short.before_run(ModelExecutor(), lambda *_: None) is None


def test_what_told_nothing_is_asked_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(short, "_made", _short(Outcome.UNTOLD, calls))
    kept = Kept(tmp_path, "host", 1, 1e9)
    for _ in range(2):
        short.before_run(CoreExecutor(), lambda *_: None, kept=kept)
    assert len(calls) == 1
    monkeypatch.setattr(short, "_UNTOLD_SECONDS", 0)
    short.before_run(CoreExecutor(), lambda *_: None, kept=kept)
    assert len(calls) == 2


def test_a_proof_that_fails_stops_the_run_and_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(short, "_made", _short(Outcome.FAILED, calls))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = tmp_path / "run"
    given: dict[str, Any] = {"target": "sqlite://local", "duration": "50ms", "repeats": 1, "ceilings": False}
    for _ in range(2):
        with pytest.raises(VenturiError) as raised:
            venturi.run(out=out, **given)
        assert raised.value.exit_code is ExitCode.UNPROVEN and "lies" in raised.value.message
    assert len(calls) == 2 and not out.exists()
    run = venturi.run(out=out, unproven=True, **given)
    assert "marked as unproven" in capsys.readouterr().err
    found = run.results
    assert found.environment["proof"]["outcome"] == "failed"
    assert proofs.headline(found.environment).startswith("UNPROVEN: known lies failed")
    # Every figure: on the screen, in tables, JSON, Markdown, the page.
    assert write.with_verdicts(found).column("proven").to_pylist() == [False]
    document = machine.document(found)
    assert [cell["proven"] for cell in document["cells"]] == [False]
    assert document["proof"]["failed"] == ["lies"]
    assert "| no |" in markdown.text(found) and "(unproven)" in markdown.text(found)
    assert "(unproven)" in page.page(found)
    shown = command("show", str(out))
    assert "(unproven)" in shown.stdout and "UNPROVEN" in shown.stdout
    assert "(unproven)" in command("show", str(out), "--cell", "best").stdout
    for words in (
        ("best",),
        ("fit",),
        ("predict", "--checked"),
        ("compare", "--by", "streams"),
        ("sql", "select 1"),
    ):
        assert "its figures are unproven" in command(words[0], str(out), *words[1:]).stderr


def test_the_command_ends_with_its_code_and_goes_on_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    failed_here = short.summary(_short(Outcome.FAILED, [])(None))
    Kept(directory("proofs"), kept_machine(), short.FORMAT, 1e9).put(short._KEY, {"proof": failed_here})
    words = ("run", "--target", "sqlite://local", "--duration", "50ms", "--repeats", "1", "--no-ceilings")
    stopped = command(*words, "--out", str(tmp_path / "stopped"))
    assert stopped.returncode == ExitCode.UNPROVEN and not (tmp_path / "stopped").exists()
    assert "error: a proof of this instrument failed here: lies" in stopped.stderr
    assert "venturi prove says" in stopped.stderr and "--unproven" in stopped.stderr
    went_on = command(*words, "--unproven", "--out", str(tmp_path / "went-on"))
    assert went_on.returncode == 0 and "(unproven)" in went_on.stdout, went_on.stderr


def test_what_was_proved_is_said_with_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short, "_made", _short(Outcome.PASSED, []))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = venturi.run(
        out=tmp_path / "run", target="sqlite://local", duration="50ms", repeats=1, ceilings=False
    )
    said = (
        "this machine, today: differences from 3.8 % are detectable; rate right within 0.3 %; "
        "lies caught 4 of 4"
    )
    assert proofs.headline(run.environment) == said
    assert said in " ".join(command("show", str(run.path)).stdout.split())
    assert said in page.page(run.results)
    assert "unproven" not in page.page(run.results)
    assert write.with_verdicts(run.results).column("proven").to_pylist() == [True]


def test_runs_without_proofs_say_nothing_of_them(tmp_path: Path) -> None:
    run = venturi.run(
        out=tmp_path / "run", target="flight://local", duration="1s", repeats=1, executor=ModelExecutor()
    )
    assert "proof" not in run.environment and proofs.headline(run.environment) == ""
    assert "proven" not in write.with_verdicts(run.results).column_names
    assert "proof" not in machine.document(run.results)
    assert proofs.headline(results_module.load("reference:macbook-get").environment) == ""


# ---- the command -----------------------------------------------------------------------------------


def test_the_command_says_what_was_expected_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "Bench", Recorded)
    for name in NAMES:
        monkeypatch.setitem(registry.PROOFS, name, lambda bench, short, name=name: bench.made(name))
    names = [name.value for name in Name]
    shown = command("prove")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "5 of 5 kinds caught" in shown.stdout and "known lies" in shown.stdout
    told = json.loads(command("prove", "--format", "json", "-q").stdout)
    assert told["outcome"] == "passed" and [one["name"] for one in told["proofs"]] == names
    assert all(check["outcome"] == "passed" for one in told["proofs"] for check in one["checks"])
