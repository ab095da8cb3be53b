"""The self-test on recorded trials: each part passes, and fails if what it guards is broken; its short form,
which comes before every run; and the command `venturi prove`."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import venturi
from support.model import ModelExecutor, used
from support.recorded_proofs import MAKERS, Break, Recorded
from support.run import venturi as command
from venturi.analysis import results as results_module
from venturi.analysis.cells import figures, summary
from venturi.analysis.statistics.difference import differences
from venturi.common import hdr
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine.executor import CoreExecutor
from venturi.measure import prove
from venturi.measure.machine_cache import Kept
from venturi.measure.prove import answers, bench, difference, injected_faults, rate
from venturi.measure.prove.outcome import CheckKind, Checks, Outcome, Proof, ProofName, worst
from venturi.measure.prove.relay import FRAMINGS, Fault, Plan, Relay, _flipped
from venturi.report import markdown, proofs, tables
from venturi.report import run as runs
from venturi.report.page import page

Record = dict[str, Any]


@pytest.mark.parametrize("name", MAKERS)
def test_each_passes_on_recorded_trials(name: ProofName) -> None:
    proof = Recorded().made(name)
    assert (proof.name, proof.outcome, [*proof.missing]) == (name, Outcome.PASSED, [])
    assert proof.checks and all(check.right for check in proof.checks)
    if name is ProofName.INJECTED_FAULTS:
        assert proof.figures == {"lies": 5.0, "caught": 5.0}
        assert {check.of.get("lie") for check in proof.checks} - {None} == {one.value for one in Fault}


# ---- what a fault of the instrument would do to a record -----------------------------------------


def _scaled(place: str, name: str, by: float = 1.0, more: float = 0) -> Break:
    """One number of each record, multiplied and moved."""

    def change(record: Record, of: Any, plan: Any) -> None:
        if record[place]:
            record[place][name] = int(record[place][name] * by + more)

    return change


def _order_matters(record: Record, of: Any, plan: Plan | None) -> None:
    """What a checksum that depends on the order would say."""
    if plan is not None and plan.fault is Fault.SWAP:
        record.update(outcome="failed", error={"kind": "verification", "message": "", "stream": None})


def _second_side_faster() -> Break:
    done = []

    def change(record: Record, of: Any, plan: Any) -> None:
        # The order is 0 1 2, 2 1 0, so the second side's place in each round is the same.
        done.append(0)
        record["times"]["interval_ns"] = 10**6 if len(done) % 3 == 2 else 10**9

    return change


def _well(record: Record, of: Any, plan: Any) -> None:
    record.update(outcome="ok", error=None)


@pytest.mark.parametrize(
    ("name", "change", "whats"),
    [
        (ProofName.RATE, _scaled("times", "interval_ns", by=1 / 1.02), {CheckKind.BYTES_RATE}),
        (ProofName.RATE, _scaled("counts", "batches", more=-1), {CheckKind.BATCHES}),
        (ProofName.RATE, _scaled("schedule", "intended", more=-1), {CheckKind.SCHEDULE}),
        (ProofName.RATE, _scaled("counts", "wire_bytes", by=0.5), {CheckKind.WIRE}),
        (ProofName.RATE, _scaled("counts", "wire_bytes", by=2), {CheckKind.WIRE}),
        (ProofName.RATE, _scaled("times", "started_unix_ns", more=-(10**9)), {CheckKind.CLOCK}),
        (ProofName.INJECTED_FAULTS, _well, {CheckKind.FAULT}),
        (ProofName.INJECTED_FAULTS, _order_matters, {CheckKind.OUTCOME}),
        (ProofName.DIFFERENCE, _second_side_faster(), {CheckKind.ALIKE}),
    ],
)
def test_a_fault_of_the_instrument_fails(name: ProofName, change: Break, whats: set[CheckKind]) -> None:
    proof = Recorded(change=change).made(name)
    assert proof.outcome is Outcome.FAILED
    found = {check.what for check in proof.failures}
    assert whats <= found and (name is not ProofName.INJECTED_FAULTS or whats == found)
    if change is _well:
        assert proof.figures == {"lies": 5.0, "caught": 0.0}
    if change is _order_matters:
        assert [check.of["lie"] for check in proof.failures] == ["swap", "swap"]


@pytest.mark.parametrize(("noisy", "outcome"), [(False, Outcome.FAILED), (True, Outcome.INCONCLUSIVE)])
def test_other_work_makes_a_difference_too(noisy: bool, outcome: Outcome) -> None:
    """A fifth less where a twentieth was added is a fault, unless others used the machine."""
    base, more = [100.0, 101.0, 99.0, 100.5, 99.5], [80.0, 81.0, 79.0, 80.5, 79.5]
    assert difference._more(differences([(base, more)])[0], noisy).outcome is outcome


@pytest.mark.parametrize(
    ("place", "name", "broken", "parts"),
    [
        (vars(summary), "is_good", lambda record: True, {"good", "highest", "median"}),
        (vars(figures), "cpu_ns", lambda record, end: record["cpu"][end]["user_ns"], {"client-cores"}),
        (vars(hdr), "percentile", lambda counts, percent: min(counts), {"middle-of-a-histogram"}),
    ],
    ids=["failed-trials", "user-time", "rank"],
)
def test_what_sums_up_wrongly_fails_by_arithmetic(
    monkeypatch: pytest.MonkeyPatch, place: dict[str, Any], name: str, broken: Any, parts: set[str]
) -> None:
    monkeypatch.setitem(place, name, broken)
    assert parts <= {check.of["part"] for check in answers.prove(Recorded()).failures}


# ---- what is excused, the relay and its framings


def test_only_what_noise_can_do_is_excused() -> None:
    checks = Checks()
    checks.between(CheckKind.BYTES_RATE, 100.0, 90.0, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert checks.outcome is Outcome.INCONCLUSIVE and checks[0].timed
    checks.between(CheckKind.BYTES_RATE, 100.0, 102.0, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert checks.outcome is Outcome.FAILED and not checks[1].timed
    quiet = Checks()
    quiet.between(CheckKind.BYTES_RATE, 100.0, 90.0, "B/s", 99.0, 101.0, moves="down", noisy=False)
    quiet.between(CheckKind.BYTES_RATE, 100.0, None, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert [check.outcome for check in quiet] == [Outcome.FAILED] * 2
    assert worst([Outcome.NOT_APPLICABLE, Outcome.PASSED, Outcome.INCONCLUSIVE]) is Outcome.INCONCLUSIVE
    assert worst([]) is Outcome.NOT_APPLICABLE


def _h2(stream: int, message: bytes, kind: int = 0) -> bytes:
    body = b"\0" + len(message).to_bytes(4, "big") + message if kind == 0 else message
    return len(body).to_bytes(3, "big") + bytes((kind, 0)) + stream.to_bytes(4, "big") + body


def test_batches_are_found_wherever_a_stream_is_cut() -> None:
    values = b"\xc2\x3e" + bytes(2000)
    flight = b"P" * 24 + _h2(1, b"head", 1) + _h2(1, b"\x12schema") + _h2(1, values) + _h2(3, values)
    number = lambda *given: b"".join(n.to_bytes(8, "big") for n in given)  # noqa: E731
    charrow = number(10, 4) + b"scma" + number(11, 8) + b"12345678" + number(11, 0)
    dice = random.Random(1)
    for scheme, sent, to_server, batches in (
        ("flight", flight, True, 2),
        ("charrow", charrow, False, 1),
        ("opentsdb", b"put a 1 2 h=1\nput b 1 3 h=1\n", True, 2),
    ):
        for _ in range(20):
            framing, pieces, at = FRAMINGS[scheme](100, to_server), [], 0
            while at < len(sent):
                size = dice.randint(1, 40)
                pieces += framing.feed(sent[at : at + size])
                at += size
            assert b"".join(piece.data for piece in pieces) == sent
            assert sum(piece.batch for piece in pieces) == batches


def test_one_bit_is_flipped() -> None:
    data = bytes(range(20))
    (changed,) = (at for at in range(20) if data[at] != _flipped(data)[at])
    assert bin(data[changed] ^ _flipped(data)[changed]).count("1") == 1


@pytest.mark.parametrize(
    ("plan", "arrives"),
    [
        ({}, b"a1\nb2\nc3\n"),
        ({"fault": Fault.DROP}, b"a1\nc3\n"),
        ({"fault": Fault.DOUBLE}, b"a1\nb2\nb2\nc3\n"),
        # It stays a number.
        ({"fault": Fault.FLIP}, b"a1\nb3\nc3\n"),
        ({"fault": Fault.SWAP}, b"a1\nc3\nb2\n"),
        # The connection ends with the data that exceeds so much, which does not pass.
        ({"fault": Fault.CUT, "cut_after": 5}, b""),
        ({"fault": Fault.CUT, "cut_after": 9}, b"a1\nb2\nc3\n"),
    ],
)
def test_the_relay_injects_a_fault(plan: dict[str, Any], arrives: bytes) -> None:
    framing, got = None if "cut_after" in plan else FRAMINGS["opentsdb"], b""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Relay(*server.getsockname(), Plan(True, framing, 1, at=1, **plan)) as relay,
    ):
        with socket.create_connection(("127.0.0.1", relay.port)) as client:
            client.sendall(b"a1\nb2\nc3\n")
        connection, _ = server.accept()
        with connection:
            while data := connection.recv(100):
                got += data
        assert got == arrives
        assert (relay.counts.to_server, relay.counts.done) == (9, bool(plan) and plan.get("cut_after") != 9)


# ---- before every run ------------------------------------------------------------------------------


def _short(outcome: Outcome, calls: list[int]) -> Callable[..., list[Proof]]:
    def made(note: Any) -> list[Proof]:
        calls.append(1)
        caught = 4.0 - (outcome is Outcome.FAILED)
        return [
            Proof(ProofName.RATE, Outcome.PASSED, figures={"off": 0.0028}),
            Proof(ProofName.INJECTED_FAULTS, outcome, figures={"lies": 4.0, "caught": caught}),
            Proof(ProofName.DIFFERENCE, Outcome.PASSED, figures={"detectable": 0.0371}),
        ]

    return made


RUN: dict[str, Any] = {"target": "sqlite://local", "duration": "50ms", "repeats": 1, "ceilings": False}


def test_a_result_is_kept_for_a_boot_and_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cached(host: str, made: Outcome = Outcome.PASSED) -> bool:
        monkeypatch.setattr(prove, "_made", _short(made, []))
        found = prove.before_run(CoreExecutor(), lambda *_: None, kept=Kept(tmp_path, host, 1, 1e9))
        assert found is not None
        return bool(found["cached"])

    assert [cached("boot 1, build 1") for _ in range(3)] == [False, True, True]
    assert not cached("boot 2, build 1")
    assert [cached("boot 3", Outcome.INCONCLUSIVE) for _ in range(2)] == [False, True]
    # It is repeated after a while.
    monkeypatch.setattr(prove, "_INCONCLUSIVE_SECONDS", 0)
    assert not cached("boot 3", Outcome.INCONCLUSIVE)
    assert prove.before_run(ModelExecutor(), lambda *_: None) is None


def test_a_failure_stops_the_run_or_marks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(prove, "_made", _short(Outcome.FAILED, calls))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = tmp_path / "run"
    with pytest.raises(VenturiError) as raised:
        venturi.run(out=out, **RUN)
    assert raised.value.exit_code is ExitCode.UNPROVEN and "lies" in raised.value.message
    words = ("run", "--target", "sqlite://local", "--duration", "50ms", "--repeats", "1", "--no-ceilings")
    stopped = command(*words, "--out", str(out))
    assert stopped.returncode == ExitCode.UNPROVEN and not out.exists()
    assert "error: the self-test of this instrument failed here: lies" in stopped.stderr
    assert "venturi prove says" in stopped.stderr
    went_on = command(*words, "--unproven", "--out", str(out))
    assert went_on.returncode == 0 and "marked as unproven" in went_on.stderr, went_on.stderr
    # A failure is not kept.
    assert len(calls) == 3
    found = results_module.load(str(out))
    assert found.environment["proof"]["outcome"] == "failed"
    assert proofs.headline(found.environment).startswith("UNPROVEN: injected faults failed")
    # Every figure: on the screen, in tables, JSON, Markdown, the page.
    assert tables.with_verdicts(found).column("proven").to_pylist() == [False]
    document = tables.machine(found)
    assert [cell["proven"] for cell in document["cells"]] == [False]
    assert document["proof"]["failed"] == ["lies"]
    text = markdown.text(runs.document(found))
    assert "| no |" in text and "(unproven)" in text and "(unproven)" in page.page(found)
    assert "(unproven)" in went_on.stdout and "UNPROVEN" in command("show", str(out)).stdout
    assert command("show", str(out), "--cell", "best").stdout.count("(unproven)") > 5
    for line in ("best", "fit", "predict --streams 9", "compare --by streams", "sql"):
        name, *more = line.split()
        more += ["select 1"] if name == "sql" else []
        assert "its figures are unproven" in command(name, str(out), *more).stderr


def test_the_result_is_in_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "_made", _short(Outcome.PASSED, []))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = venturi.run(out=tmp_path / "run", **RUN)
    said = "this machine, at the time of the run: rate right within 0.3 %; 4 of 4 injected faults caught"
    assert proofs.headline(run.environment) == said
    assert said in " ".join(command("show", str(run.path)).stdout.split())
    text = page.page(run.results)
    assert said in text and "unproven" not in text
    assert tables.with_verdicts(run.results).column("proven").to_pylist() == [True]


def test_runs_without_proofs_say_nothing_of_them(tmp_path: Path) -> None:
    with used(ModelExecutor()):
        run = venturi.run(out=tmp_path / "run", target="flight://local", duration="1s", repeats=1)
    assert "proof" not in run.environment and proofs.headline(run.environment) == ""
    assert "proven" not in tables.with_verdicts(run.results).column_names
    assert "proof" not in tables.machine(run.results)
    assert proofs.headline(results_module.load("reference:macbook-get").environment) == ""


# ---- the command -----------------------------------------------------------------------------------


def test_the_command_says_what_was_expected_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "Bench", Recorded)
    for module, name in zip((rate, injected_faults, difference), MAKERS, strict=True):
        monkeypatch.setattr(module, "prove", lambda bench, short, name=name: bench.made(name))
    names = [name.value for name in ProofName]
    shown = command("prove")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "5 of 5 kinds caught" in shown.stdout and "injected faults" in shown.stdout
    told = json.loads(command("prove", "--format", "json", "-q").stdout)
    assert told["outcome"] == "passed" and [one["name"] for one in told["proofs"]] == names
    assert all(check["outcome"] == "passed" for one in told["proofs"] for check in one["checks"])
