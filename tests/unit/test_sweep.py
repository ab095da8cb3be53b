"""The order of trials, when a sweep stops, and what it does about failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.mistakes import check
from support.model import ModelExecutor
from support.scenarios import scenario
from venturi.analysis.results import load
from venturi.common.errors import ExitCode
from venturi.engine.executor import Progress
from venturi.measure.observer import Slot
from venturi.measure.outcome import Result, RunResult, exit_code, scenario_of
from venturi.measure.runner import execute
from venturi.measure.unreachable import start_a_server
from venturi.plan.cell import Cell
from venturi.store.directory import RunDirectory


class Recorder:
    def __init__(self) -> None:
        self.lines: list[Mapping[str, Any]] = []
        self.notes: list[str] = []

    def begin(self, cells: Sequence[Cell]) -> None: ...
    def started(self, number: int, total: int, slot: Slot) -> None: ...
    def progress(self, progress: Progress) -> None: ...
    def unstored(self, line: Mapping[str, Any]) -> None: ...

    def ended(self, line: Mapping[str, Any]) -> None:
        self.lines.append(line)

    def note(self, level: str, text: str) -> None:
        self.notes.append(f"{level}: {text}")


def run(path: Path, text: str, executor: ModelExecutor | None = None) -> tuple[RunResult, Recorder]:
    recorder = Recorder()
    return execute(scenario(text), path, executor or ModelExecutor(), recorder), recorder


EIGHT = '[workload]\nrows_per_stream = "100k"\n[matrix]\nstreams = "1..8"\n'
ONCE = EIGHT + "[run]\nrepeats = 1\n"
"""With its warm-up that is two trials of each."""


def rounds(recorder: Recorder, size: int) -> list[list[int]]:
    streams = [line["parameters"]["streams"] for line in recorder.lines]
    return [streams[i : i + size] for i in range(0, len(streams), size)]


def test_every_round_covers_all_cells_in_an_order_of_its_own(tmp_path: Path) -> None:
    text = EIGHT + "[run]\nrepeats = 1\nwarmup = 2\n"
    _, recorder = run(tmp_path / "r", text)
    found = rounds(recorder, 8)
    assert len(found) == 3 and all(sorted(order) == list(range(1, 9)) for order in found)
    assert len({tuple(order) for order in found}) == 3
    assert [line["warmup"] for line in recorder.lines] == [True] * 16 + [False] * 8
    assert [line["order"] for line in recorder.lines] == list(range(24))
    assert len({line["trial"] for line in recorder.lines}) == 24
    _, again = run(tmp_path / "again", text)
    assert rounds(again, 8) == found
    _, other = run(tmp_path / "other", text + "seed = 2\n")
    assert rounds(other, 8) != found


def test_without_shuffle_the_order_is_the_matrix(tmp_path: Path) -> None:
    _, recorder = run(tmp_path / "r", EIGHT + "[run]\nrepeats = 2\nwarmup = 0\nshuffle = false\n")
    assert rounds(recorder, 8) == [list(range(1, 9))] * 2


def test_an_adaptive_sweep_goes_on_where_the_interval_is_wide(tmp_path: Path) -> None:
    text = EIGHT + '[run]\nrepeats = 3\nwarmup = 0\nadaptive = "4%"\nmax_repeats = 12\n'
    _, recorder = run(tmp_path / "r", text)
    repeats = [sum(line["parameters"]["streams"] == n for line in recorder.lines) for n in range(1, 9)]
    # Below six repeats no interval reaches 95 %; some cells settle, some need all that is allowed.
    assert min(repeats) >= 6 and max(repeats) <= 12 and len(set(repeats)) > 1


def test_failures_are_rows_and_the_sweep_goes_on(tmp_path: Path) -> None:
    ended, _recorder = run(tmp_path / "r", ONCE, ModelExecutor(fail="streams == 3"))
    assert (ended.result.trials, ended.result.failed) == (16, 2)
    assert ended.exit_code == ExitCode.TRIALS_FAILED
    failed = [line for line in RunDirectory(tmp_path / "r").records() if line["outcome"] == "failed"]
    assert [line["error"]["kind"] for line in failed] == ["lost", "lost"]


def test_a_sweep_stops_at_the_first_failure_where_asked(tmp_path: Path) -> None:
    text = EIGHT + '[run]\nshuffle = false\nwarmup = 0\non_failure = "stop"\n'
    ended, recorder = run(tmp_path / "r", text, ModelExecutor(fail="streams == 3"))
    assert len(recorder.lines) == 3 and ended.result.failed == 1
    assert recorder.notes[-1].startswith("error: stopped at the first failure")


def test_an_address_that_never_answers_is_given_up(tmp_path: Path) -> None:
    text = '[places]\na = "flight://127.0.0.1:1"\nb = "flight://127.0.0.1:2"\n' + ONCE
    executor = ModelExecutor(fail="target == 'flight://127.0.0.1:1'", kind="unreachable")
    ended, recorder = run(tmp_path / "r", text, executor)
    assert ended.result.failed == 2 and ended.exit_code == ExitCode.TRIALS_FAILED
    assert ended.result.trials == 2 + 8 * 2
    assert any(note.startswith("error: flight://127.0.0.1:1 never answered;") for note in recorder.notes)
    ended, _ = run(tmp_path / "r2", EIGHT, ModelExecutor(fail="streams > 0", kind="unreachable"))
    assert ended.result.trials == 2 and ended.exit_code == ExitCode.UNREACHABLE


def test_what_is_said_of_an_address_that_never_answers() -> None:
    check("never-answered", start_a_server)


@pytest.mark.parametrize("kind", ["tls", "auth", "protocol", "timeout"])
def test_an_address_that_lets_no_trial_begin_is_given_up(tmp_path: Path, kind: str) -> None:
    ended, recorder = run(tmp_path / "r", EIGHT, ModelExecutor(fail="streams > 0", kind=kind))
    assert ended.result.trials == 2 and ended.exit_code == ExitCode.TRIALS_FAILED
    assert recorder.notes == ["error: flight://local let no trial begin; its other trials are left out"]


def test_where_something_went_well_a_failure_is_the_cells_own(tmp_path: Path) -> None:
    ended, _ = run(tmp_path / "s", ONCE, ModelExecutor(fail="streams == 3", kind="timeout"))
    assert ended.result.trials == 8 * 2


def test_an_operation_that_a_server_does_not_offer_is_given_up_at_once(tmp_path: Path) -> None:
    text = ONCE.replace("[matrix]\n", '[matrix]\noperation = ["get", "put"]\n')
    refusing = ModelExecutor(fail="operation == 'get'", kind="unsupported")
    ended, recorder = run(tmp_path / "r", text, refusing)
    assert ended.result.failed == 1 and ended.result.trials == 1 + 8 * 2
    assert recorder.notes == ["error: flight://local let no get begin; its other gets are left out"]
    # Where a get went well, another one's failure is its own.
    ended, _ = run(
        tmp_path / "s", ONCE + "shuffle = false\n", ModelExecutor(fail="streams == 3", kind="unsupported")
    )
    assert ended.result.trials == 8 * 2 and ended.result.failed == 2


def test_a_cell_that_asks_for_something_impossible_is_tried_once(tmp_path: Path) -> None:
    ended, _ = run(tmp_path / "r", ONCE, ModelExecutor(fail="streams == 3", kind="usage"))
    assert ended.result.failed == 1 and ended.result.trials == 7 * 2 + 1


@pytest.mark.parametrize("keep", [0, 5, 13])
def test_a_resumed_sweep_runs_what_is_missing(tmp_path: Path, keep: int) -> None:
    _, whole = run(tmp_path / "whole", ONCE)
    run(tmp_path / "r", ONCE)
    path = tmp_path / "r" / "trials.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:keep]))
    directory = RunDirectory(tmp_path / "r")
    recorder = Recorder()
    ended = execute(scenario_of(directory), directory.path, ModelExecutor(), recorder, resume=True)
    assert ended.result.trials == 16 - keep and ended.exit_code == ExitCode.OK
    order = [(line["cell"], line["repeat"], line["warmup"]) for line in directory.records()]
    assert order == [(line["cell"], line["repeat"], line["warmup"]) for line in whole.lines]


def test_failed_trials_are_kept_or_run_again_on_resume(tmp_path: Path) -> None:
    run(tmp_path / "r", ONCE, ModelExecutor(fail="streams == 3"))
    directory = RunDirectory(tmp_path / "r")
    found = scenario_of(directory)
    assert execute(found, directory.path, ModelExecutor(), Recorder(), resume=True).result.trials == 0
    again = execute(found, directory.path, ModelExecutor(), Recorder(), resume=True, retry_failed=True)
    assert again.result.trials == 2 and again.result.failed == 0


def test_ceilings_are_measured_once_for_each_kind_of_trial(tmp_path: Path) -> None:
    run(tmp_path / "r", EIGHT + '[run]\nrepeats = 1\nceilings = "once"\n')
    lines = RunDirectory(tmp_path / "r").ceiling_records()
    tcp = [line for line in lines if line["kind"] == "tcp"]
    assert len(tcp) == 8 * 3 and {line["message_bytes"] for line in tcp} == {None}
    assert {line["round"] for line in lines} == {None} and {line["repeat"] for line in lines} == {0, 1, 2}
    assert not any(cell.paired for cell in load(tmp_path / "r").cells)
    assert {line["kind"] for line in lines} == {"tcp", "memory", "engine"}
    # Interrupted while it probed, a resumed run makes the missing ones.
    path = tmp_path / "r" / "ceilings.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    directory = RunDirectory(tmp_path / "r")
    execute(scenario_of(directory), directory.path, ModelExecutor(), Recorder(), resume=True)
    assert directory.ceiling_records() == lines
    run(tmp_path / "none", EIGHT + "[run]\nrepeats = 1\nceilings = false\n")
    assert RunDirectory(tmp_path / "none").ceiling_records() == []


def test_a_foreign_host_has_no_ceiling_and_says_why(tmp_path: Path) -> None:
    text = '[target]\nurl = "flight://node7"\n' + EIGHT
    _, recorder = run(tmp_path / "r", text + "[run]\nrepeats = 1\n", ModelExecutor(probes=False))
    # The limits of this host are known all the same.
    assert {x["kind"] for x in RunDirectory(tmp_path / "r").ceiling_records()} == {"memory", "engine"}
    assert recorder.notes == ["info: flight://node7:31337: no raw TCP ceiling: it is not a reference server"]
    run(tmp_path / "ours", text + "[run]\nrepeats = 3\n")
    lines = RunDirectory(tmp_path / "ours").ceiling_records()
    assert sum(line["kind"] == "tcp" for line in lines) == 8 * 3


def test_exit_codes() -> None:
    def code(failed: int, *kinds: str, trials: int = 4, interrupted: bool = False) -> int:
        return exit_code(Result(trials, failed, interrupted, set(kinds)))

    assert code(0) == 0
    assert code(1, "lost") == code(1, "unreachable") == code(4, "unreachable", "lost") == 5
    assert code(4, "unreachable") == 4
    assert code(2, "verification", "lost") == 6
    assert code(2, "lost", interrupted=True) == 130
