"""The order of trials, when a sweep stops, what it does about failures; and physical limits measured between
the trials: shares of one round, what is a reference, what it may cost."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from test_ceilings import MEMORY, PARAMETERS, TCP, line

from support.mistakes import check
from support.model import ModelExecutor
from support.run import model, venturi
from support.scenarios import scenario
from support.verdict import summarise
from venturi.analysis.advice.trials import over_ceiling
from venturi.analysis.cells.cell_table import table
from venturi.analysis.cells.summary import Cell as Summed
from venturi.analysis.results import load
from venturi.common.errors import ExitCode
from venturi.engine.executor import Progress, TrialControl
from venturi.measure import runner
from venturi.measure.ceilings import LEAST, SHARE, SHORTEST, RoundProbes
from venturi.measure.run_events import Result, RunResult, Slot, exit_code, scenario_of
from venturi.measure.runner import execute
from venturi.measure.trial_targets import start_a_server
from venturi.plan.cell import Cell
from venturi.report import cell as cell_text
from venturi.report import summary
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


def test_trials_that_ran_again_count_by_their_last_line(tmp_path: Path) -> None:
    run(tmp_path / "r", ONCE, ModelExecutor(fail="streams == 3"))
    directory = RunDirectory(tmp_path / "r")
    path, found = directory.path / "trials.jsonl", scenario_of(directory)
    path.write_text(path.read_text().replace('"outcome":"failed"', '"outcome":"interrupted"', 1))
    for retry_failed in (False, True):
        again = execute(
            found, directory.path, ModelExecutor(), Recorder(), resume=True, retry_failed=retry_failed
        )
        assert again.result.trials == 1 and again.result.failed == 0
    results = load(directory.path)
    assert not results.failures and len(results.records) == 16 and len(directory.lines()) == 18
    assert {(cell.good, cell.failed, cell.interrupted) for cell in results.cells} == {(1, 0, 0)}
    assert [line["order"] for line in directory.lines()] == list(range(18))


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
        return exit_code(Result(trials, failed, interrupted=interrupted, kinds=set(kinds)))

    assert code(0) == 0
    assert code(1, "lost") == code(1, "unreachable") == code(4, "unreachable", "lost") == 5
    assert code(4, "unreachable") == 4
    assert code(2, "verification", "lost") == 6
    assert code(2, "lost", interrupted=True) == 130


# ---- limits measured between the trials


ROUNDS = EIGHT + '[run]\nsample_interval = "0"\n'
MOMENTS = (1.0, 0.5, 1.3, 0.7, 0.9, 1.1)
"""How fast the machine is in each round."""


def cell(rates: Mapping[int, float] | list[float], probes: list[dict[str, Any]], **parameters: Any) -> Summed:
    """A cell whose trial of round n moved rates[n]."""
    by_round = dict(enumerate(rates)) if isinstance(rates, list) else dict(rates)
    records = [
        {
            "kind": "trial", "cell": "c", "outcome": "ok", "repeat": number, "warmup": False,
            "parameters": PARAMETERS | parameters,
            "counts": {"rows": 4096, "batches": 1, "payload_bytes": int(rate), "wire_bytes": int(rate)},
            "times": {"interval_ns": 10**9},
        }
        for number, rate in by_round.items()
    ]  # fmt: skip
    return summarise(records, probes)[0]


def in_rounds(
    kind: str, rate: float, moments: tuple[float, ...] = MOMENTS, **more: Any
) -> list[dict[str, Any]]:
    return [line(kind, rate * moment, round=number, **more) for number, moment in enumerate(moments)]


def test_a_share_is_of_one_round() -> None:
    """The machine's moment is in both, so it is not in their quotient."""
    speeds = [4e9 * moment for moment in MOMENTS]
    found = cell(speeds, in_rounds("tcp", 5e9))
    assert found.share.value == pytest.approx(0.8) and found.share.low == pytest.approx(0.8, rel=1e-6)
    assert found.share.high == pytest.approx(0.8, rel=1e-6) and found.paired == {"raw TCP"}
    # The same numbers, but nobody knows of which round: the ends are divided crosswise.
    unknown = cell(speeds, [line("tcp", 5e9 * moment) for moment in MOMENTS])
    assert unknown.share.low is not None and unknown.share.low < 0.5 and not unknown.paired


def test_rounds_without_a_probe_or_a_trial_are_left_out() -> None:
    probes = in_rounds("tcp", 5e9)
    half = cell([4e9 * moment for moment in MOMENTS], probes[:3])
    assert half.share.value == pytest.approx(0.8) and half.paired
    # A third of the rounds does not stand for all of them.
    assert not cell([4e9 * moment for moment in MOMENTS], probes[:2]).paired
    gone = cell({0: 4e9, 5: 4.4e9, 9: 1e9}, probes)
    assert gone.share.value == pytest.approx(0.8) and gone.paired


def test_what_binds_is_what_most_is_reached_of_round_by_round() -> None:
    """By medians raw TCP is the lower limit; in every round in which both were probed it is the higher."""
    speeds = [1e9, 1e9, 1e9, 4e9, 4e9, 4e9]
    slow = [line("tcp", 2e9, round=number) for number in range(3)]
    tcp = slow + [line("tcp", rate, round=number) for number, rate in ((3, 9e9), (4, 2.2e10), (5, 2.2e10))]
    engine = [line("engine", 1.8 * rate, round=number) for number, rate in enumerate(speeds)]
    found = cell(speeds, tcp + engine)
    assert found.ceilings["engine"].value < found.ceilings["raw TCP"].value  # type: ignore[operator]
    assert found.binding == "engine" and found.share.value == pytest.approx(1 / 1.8)
    engine = [line("engine", 2.6 * rate, round=number) for number, rate in enumerate(speeds)]
    found = cell(speeds, slow + [line("tcp", 4.1e9, round=number) for number in (3, 4, 5)] + engine)
    assert found.binding == "raw TCP"


def test_memory_is_no_limit_where_raw_tcp_is_faster_in_the_same_rounds() -> None:
    speeds = [4e9 * moment for moment in MOMENTS]
    tcp = in_rounds("tcp", 6e9)
    slower, faster = (in_rounds("memory", rate) for rate in (5.9e9, 6.1e9))
    assert "memory copy" not in cell(speeds, tcp + slower).ceilings
    assert "memory copy" in cell(speeds, tcp + faster).ceilings


def test_what_is_passed_is_a_reference() -> None:
    speeds = [6e9 * moment for moment in MOMENTS]
    found = cell(speeds, in_rounds("tcp", 5e9))
    assert found.share.value == pytest.approx(1.2) and found.reference
    assert found.of_limit == "of raw TCP (a reference)"
    column = summary._of_limit([found])
    assert (column.head, column.cells) == ("raw TCP (reference)", ["120"])
    (row,) = table([found]).to_pylist()
    assert (row["binding_ceiling"], row["binding_is"]) == ("raw TCP", "reference")
    (limit,) = cell_text.limits(found)
    assert (limit.passed, limit.mark, limit.margin) == (True, "reference: passed", "[120..120]")
    (told,) = over_ceiling([found])
    assert told is not None and "(a reference)" in told.finding and "probed between the trials" in told.cause
    # Measured at another moment there is another reason, and something to do.
    (once,) = over_ceiling([cell([6e9] * 6, [line("tcp", 5e9), line("tcp", 5.1e9)])])
    assert once is not None and "another moment" in once.cause and "--ceilings rounds" in once.next


@pytest.mark.parametrize(
    ("speeds", "passed"),
    [
        ([5.1e9, 4.9e9, 5.05e9, 4.95e9, 5.1e9, 5.0e9], False),
        # Its interval reaches below, but so far above it is no limit that anybody could rely on.
        ([4e9, 5.4e9, 5.5e9, 5.4e9, 5.5e9, 5.5e9], True),
        ([5.05e9] * 6, True),
        ([5e9] * 6, False),
        ([5.01e9], True),
    ],
    ids=("within its interval", "far over", "surely over", "equal", "a single repeat"),
)
def test_when_a_limit_is_passed(speeds: list[float], passed: bool) -> None:
    found = cell(speeds, in_rounds("tcp", 5e9, (1.0,) * 6))
    assert found.reference is passed
    assert table([found]).to_pylist()[0]["binding_is"] == ("reference" if passed else "limit")


def test_a_table_of_limits_and_references_names_each() -> None:
    over, under = (cell([rate] * 6, in_rounds("tcp", 5e9, (1.0,) * 6)) for rate in (6e9, 4e9))
    assert summary._of_limit([over, under]).cells == ["120 % raw TCP (reference)", "80 % raw TCP"]


def test_lines_without_a_round_are_judged_as_before() -> None:
    found = cell([4e9] * 6, [TCP, MEMORY])
    assert (found.binding, found.share.value, found.paired) == ("raw TCP", 0.8, frozenset())


# How they are measured.


def lines_of(path: Path) -> list[dict[str, Any]]:
    return RunDirectory(path).ceiling_records()


def places(lines: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("kind", "name", "threads", "direction", "streams", "round")
    return sorted((tuple(line.get(name) for name in names) for line in lines), key=repr)


def test_every_round_has_its_probes(tmp_path: Path) -> None:
    run(tmp_path / "r", ROUNDS + "repeats = 3\nwarmup = 2\n")
    lines = lines_of(tmp_path / "r")
    assert {line["kind"] for line in lines} == {"tcp", "memory", "engine"}
    for number in range(3):
        tcp = [x for x in lines if x["kind"] == "tcp" and x["round"] == number]
        assert sorted(x["streams"] for x in tcp) == list(range(1, 9))
    assert len(places(lines)) == len(set(places(lines))) and {x["repeat"] for x in lines} == {0}
    cells = load(tmp_path / "r").cells
    assert all(c.paired and c.share.has_margin for c in cells)


@pytest.mark.parametrize(("given", "means"), [("true", "once"), ("false", "none"), ('"rounds"', "rounds")])
def test_files_of_before_there_were_rounds(given: str, means: str) -> None:
    assert scenario(ROUNDS + f"ceilings = {given}\n").run.ceilings == means


@pytest.mark.parametrize(
    ("words", "means"),
    [((), "rounds"), (("--ceilings", "once"), "once"), (("--no-ceilings",), "none")],
)
def test_the_flag(tmp_path: Path, words: tuple[str, ...], means: str) -> None:
    small = ("--streams", 1, "--rows-per-stream", "1k", "--repeats", 1, "--warmup", 0)
    done = model(*small, *words, "--no-report", "--quiet", "--out", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert scenario_of(RunDirectory(tmp_path / "r")).run.ceilings == means
    wrong = model(*small, "--ceilings", "often", "--out", tmp_path / "w")
    assert wrong.returncode == 3 and "rounds" in wrong.stderr and "Traceback" not in wrong.stderr


def test_a_resumed_run_does_not_repeat_what_is_there(tmp_path: Path) -> None:
    text = ROUNDS + "repeats = 3\nwarmup = 1\n"
    run(tmp_path / "whole", text)
    run(tmp_path / "r", text)
    whole, directory = lines_of(tmp_path / "whole"), RunDirectory(tmp_path / "r")
    # Killed in the middle of the second round: 8 warm-ups, 8 trials of the first, 3 of the second.
    trials = directory.path / "trials.jsonl"
    trials.write_text("".join(trials.read_text().splitlines(keepends=True)[: 8 + 8 + 3]))
    there = [x for x in whole if x["round"] == 0] + [x for x in whole if x["round"] == 1][:3]
    (directory.path / "ceilings.jsonl").write_text("".join(json.dumps(x) + "\n" for x in there))
    execute(scenario_of(directory), directory.path, ModelExecutor(), Recorder(), resume=True)
    assert lines_of(directory.path)[: len(there)] == there
    assert places(lines_of(directory.path)) == places(whole)


def test_a_probe_that_is_interrupted_ends_the_run(tmp_path: Path) -> None:
    class Stopped(ModelExecutor):
        def probe(self, spec: str, control: TrialControl) -> str:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)
            return json.dumps({"bytes": 0, "interval_ns": 0, "outcome": "interrupted", "error": None})

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "r", ROUNDS + "repeats = 1\nwarmup = 0\n", Stopped())
    assert len(RunDirectory(tmp_path / "r").records()) == 8
    assert {x["kind"] for x in lines_of(tmp_path / "r")} == {"tcp", "engine"}


class Timed(ModelExecutor):
    """A model whose trials and probes take time, on a clock of its own."""

    measures = True

    def __init__(self, trial: float, more: float = 0.01) -> None:
        super().__init__()
        self.now, self._trial, self._more = 0.0, trial, more
        self.probed: list[tuple[str, float]] = []
        self.trials = 0.0

    def run_trial(self, spec: str, control: TrialControl) -> str:
        fields = json.loads(spec)
        if fields["trial"] == "engine":
            self._spend("engine", fields)
        else:
            self.now += self._trial
            self.trials += self._trial
        return super().run_trial(spec, control)

    def _spend(self, kind: str, fields: Mapping[str, Any]) -> None:
        took = fields["duration_ns"] / 1e9 + self._more
        self.now += took
        self.probed.append((kind, took))

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        self._spend("tcp", json.loads(spec))
        return super().probe_tcp(spec, control)

    def probe(self, spec: str, control: TrialControl) -> str:
        self._spend(json.loads(spec)["kind"], json.loads(spec))
        return super().probe(spec, control)


def timed(monkeypatch: pytest.MonkeyPatch, path: Path, executor: Timed, text: str) -> list[dict[str, Any]]:
    monkeypatch.setattr(runner, "RoundProbes", functools.partial(RoundProbes, clock=lambda: executor.now))
    run(path, text, executor)
    return lines_of(path)


@pytest.mark.parametrize("trial", [0.05, 0.6, 1.0, 5.0])
def test_probes_take_a_fifth_of_the_trials_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trial: float
) -> None:
    executor = Timed(trial)
    lines = timed(monkeypatch, tmp_path / "r", executor, ROUNDS + "repeats = 6\nwarmup = 1\n")
    spent = sum(took for _, took in executor.probed)
    # The last one may begin in time and end late.
    assert spent <= max(LEAST, SHARE * executor.trials) + max(took for _, took in executor.probed)
    tcp = [x for x in lines if x["kind"] == "tcp"]
    assert min(x["interval_ns"] for x in tcp) >= SHORTEST * 1e9
    if trial >= 0.3:
        # Raw TCP comes first, in every round; nearly all that may be spent is.
        assert len(tcp) == 6 * 8 and (trial > 1 or spent >= 0.9 * SHARE * executor.trials)
    assert {x["kind"] for x in lines} >= ({"tcp", "memory", "engine"} if trial > 0.1 else {"tcp"})


def test_what_moves_slowly_is_measured_in_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = timed(monkeypatch, tmp_path / "r", Timed(0.6), ROUNDS + "repeats = 6\nwarmup = 1\n")
    often: dict[tuple[Any, ...], int] = {}
    for x in lines:
        if x["kind"] != "tcp":
            key = (x["kind"], x["threads"], x["streams"])
            often[key] = often.get(key, 0) + 1
    assert max(often.values()) - min(often.values()) <= 1 and len(often) == 8 + len(
        {x["threads"] for x in lines if x["kind"] == "memory"}
    )


def test_show_names_the_margin_of_a_share(tmp_path: Path) -> None:
    run(tmp_path / "r", ROUNDS + "repeats = 6\n")
    done = venturi("show", tmp_path / "r", "--cell", "streams=8")
    found = re.search(r"raw TCP +[\d,.]+ MB/s +(\d+) % +\[(\d+)\.\.(\d+)\] +<- lowest", done.stdout)
    assert found is not None, done.stdout
    median, low, high = map(int, found.groups())
    assert low <= median <= high and low < high
