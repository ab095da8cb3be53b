"""The self-test on recorded trials: each part passes, and fails if what it guards is broken; its short form,
which comes before every run; and the command `venturi prove`."""

from __future__ import annotations

import json
import random
import socket
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import venturi
from support.model import ModelExecutor
from support.recorded_proofs import MAKERS, Break, Recorded
from support.run import DATA
from support.run import venturi as command
from venturi.analysis import results as results_module
from venturi.analysis.cells import figures, summary
from venturi.analysis.statistics.difference import differences
from venturi.common import hdr, suffixes, units
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine.executor import CoreExecutor
from venturi.measure.kept import Kept, directory
from venturi.measure.kept import machine as kept_machine
from venturi.measure.prove import answers, bench, difference, lies, rate, short
from venturi.measure.prove.framing import FRAMINGS
from venturi.measure.prove.outcome import Check, Checks, Name, Outcome, Proof, What, worst
from venturi.measure.prove.relay import Lie, Plan, Relay, _flipped
from venturi.report.page import page
from venturi.report.tables import machine, write
from venturi.report.text import markdown, proofs

Record = dict[str, Any]


def failed(proof: Proof) -> set[What]:
    assert proof.outcome is Outcome.FAILED, [check for check in proof.checks if not check.right]
    return {check.what for check in proof.failures}


@pytest.mark.parametrize("name", MAKERS)
def test_each_passes_on_recorded_trials(name: Name) -> None:
    proof = Recorded().made(name)
    assert (proof.name, proof.outcome, [*proof.missing]) == (name, Outcome.PASSED, [])
    assert proof.checks and all(check.right for check in proof.checks)
    if name is Name.LIES:
        assert proof.figures == {"lies": 5.0, "caught": 5.0}
        assert {check.of["lie"] for check in proof.checks if "lie" in check.of} == {lie.value for lie in Lie}


# ---- what a fault of the instrument would do to a record -----------------------------------------


def _scaled(*path: str, by: float = 1.0, more: float = 0) -> Break:
    """One number of each record, multiplied and moved."""

    def change(record: Record, of: Any, plan: Any) -> None:
        for name in path[:-1]:
            record = record.get(name) or {}
        if path[-1] in record:
            record[path[-1]] = int(record[path[-1]] * by + more)

    return change


def _batch_lost(record: Record, of: Any, plan: Any) -> None:
    for one in (record["counts"], record["streams"][-1]):
        one["payload_bytes"] -= one["payload_bytes"] // one["batches"]
        one["batches"] -= 1
        one["rows"] -= of["rows_per_batch"]


def _slot_skipped(record: Record, of: Any, plan: Any) -> None:
    if record["schedule"]:
        record["schedule"]["intended"] -= 1


def _order_matters(record: Record, of: Any, plan: Plan | None) -> None:
    """What a checksum that depends on the order would say."""
    if plan is not None and plan.lie is Lie.SWAP:
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


def faults() -> Iterator[Any]:
    makers = (_scaled, _second_side_faster)
    for proof, change, path, values, whats in tomllib.loads((DATA / "faults.toml").read_text())["faults"]:
        found: Any = globals()[change]
        made = found(*path, **values) if found in makers else found
        yield Name[proof], made, {What[one] for one in whats}


@pytest.mark.parametrize(("name", "change", "whats"), list(faults()))
def test_a_fault_of_the_instrument_fails(name: Name, change: Break, whats: set[What]) -> None:
    proof = Recorded(change=change).made(name)
    assert whats <= failed(proof)
    if name is Name.LIES:
        assert whats == failed(proof)
    if name is Name.LIES and change is _well:
        assert proof.figures == {"lies": 5.0, "caught": 0.0}
    if change is _order_matters:
        assert [check.of["lie"] for check in proof.failures] == ["swap", "swap"]


@pytest.mark.parametrize(("noisy", "outcome"), [(False, Outcome.FAILED), (True, Outcome.UNTOLD)])
def test_other_work_makes_a_difference_too(noisy: bool, outcome: Outcome) -> None:
    """A fifth less where a twentieth was added is a fault, unless others used the machine."""
    base, more = [100.0, 101.0, 99.0, 100.5, 99.5], [80.0, 81.0, 79.0, 80.5, 79.5]
    assert difference._more(differences([(base, more)])[0], noisy).outcome is outcome


@pytest.mark.parametrize(
    ("place", "broken", "parts"),
    [
        (suffixes._COUNTS, {"M": 2**20}, {"spelled-7M", "spelled-7MB"}),
        (units.FACTORS, {"krows": ("rows", 1024.0)}, {"printed-rows-4"}),
        (summary, {"is_good": lambda record: True}, {"good", "highest", "median"}),
        (figures, {"cpu_ns": lambda record, end: record["cpu"][end]["user_ns"]}, {"client-cores"}),
        (hdr, {"percentile": lambda counts, percent: min(counts)}, {"middle-of-a-histogram"}),
    ],
    ids=["suffix", "unit", "failed-trials", "user-time", "rank"],
)
def test_what_sums_up_wrongly_fails_by_arithmetic(
    monkeypatch: pytest.MonkeyPatch, place: Any, broken: dict[str, Any], parts: set[str]
) -> None:
    for name, value in broken.items():
        if isinstance(place, dict):
            monkeypatch.setitem(place, name, value)
        else:
            monkeypatch.setattr(place, name, value)
    wrong = {check.of["part"] for check in answers.prove(Recorded()).failures}
    assert parts <= wrong


# ---- what is excused, the relay and its framings


def test_only_what_noise_can_do_is_excused() -> None:
    checks = Checks()
    checks.between(What.BYTES_RATE, 100.0, 90.0, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert checks.outcome is Outcome.UNTOLD and checks[0].timed
    checks.between(What.BYTES_RATE, 100.0, 102.0, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert checks.outcome is Outcome.FAILED and not checks[1].timed
    quiet = Checks()
    quiet.between(What.BYTES_RATE, 100.0, 90.0, "B/s", 99.0, 101.0, moves="down", noisy=False)
    quiet.between(What.BYTES_RATE, 100.0, None, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert [check.outcome for check in quiet] == [Outcome.FAILED] * 2
    assert worst([Outcome.IMPOSSIBLE, Outcome.PASSED, Outcome.UNTOLD]) is Outcome.UNTOLD
    assert worst([]) is Outcome.IMPOSSIBLE


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


def test_one_bit_is_flipped_and_text_stays_a_number() -> None:
    data = bytes(range(20))
    (changed,) = (at for at in range(20) if data[at] != _flipped(data)[at])
    assert bin(data[changed] ^ _flipped(data)[changed]).count("1") == 1
    line = b"put a 1 2.5 host=h\n"
    assert _flipped(line) == b"put a 1 2.4 host=h\n"


@pytest.mark.parametrize(
    ("lie", "arrives"),
    [
        (None, b"a1\nb2\nc3\n"),
        (Lie.DROP, b"a1\nc3\n"),
        (Lie.DOUBLE, b"a1\nb2\nb2\nc3\n"),
        (Lie.FLIP, b"a1\nb3\nc3\n"),
        (Lie.SWAP, b"a1\nc3\nb2\n"),
    ],
)
def test_the_relay_does_what_it_is_told(lie: Lie | None, arrives: bytes) -> None:
    got = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(100):
                    got.extend(data)

        thread = threading.Thread(target=take)
        thread.start()
        plan = Plan(True, FRAMINGS["opentsdb"], 1, lie, at=1)
        with Relay("127.0.0.1", server.getsockname()[1], plan) as relay:
            with socket.create_connection(("127.0.0.1", relay.port)) as client:
                client.sendall(b"a1\nb2\nc3\n")
            thread.join(10)
        assert bytes(got) == arrives
        assert (relay.seen.batches, relay.seen.to_server, relay.seen.done) == (3, 9, lie is not None)


def test_the_relay_ends_a_connection_once_so_much_has_passed() -> None:
    plan = Plan(True, lie=Lie.CUT, cut_after=5)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Relay("127.0.0.1", server.getsockname()[1], plan) as relay,
        socket.create_connection(("127.0.0.1", relay.port), 10) as client,
    ):
        connection, _ = server.accept()
        with connection:
            connection.settimeout(10)
            client.sendall(b"a1\n")
            assert connection.recv(100) == b"a1\n"
            client.sendall(b"b2\nc3\n")
            # Neither end has anything of it.
            assert (connection.recv(100), client.recv(100)) == (b"", b"")
        assert (relay.seen.to_server, relay.seen.done) == (9, 1)


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
    assert proofs.headline(found.environment).startswith("UNPROVEN: injected faults failed")
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
    assert "error: the self-test of this instrument failed here: lies" in stopped.stderr
    assert "venturi prove says" in stopped.stderr and "--unproven" in stopped.stderr
    went_on = command(*words, "--unproven", "--out", str(tmp_path / "went-on"))
    assert went_on.returncode == 0 and "(unproven)" in went_on.stdout, went_on.stderr


def test_what_was_proved_is_said_with_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short, "_made", _short(Outcome.PASSED, []))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run = venturi.run(
        out=tmp_path / "run", target="sqlite://local", duration="50ms", repeats=1, ceilings=False
    )
    said = "this machine, today: rate right within 0.3 %; 4 of 4 injected faults caught"
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
    for module, name in ((rate, Name.RATE), (lies, Name.LIES), (difference, Name.DIFFERENCE)):
        monkeypatch.setattr(module, "prove", lambda bench, short, name=name: bench.made(name))
    names = [name.value for name in Name]
    shown = command("prove")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "5 of 5 kinds caught" in shown.stdout and "injected faults" in shown.stdout
    told = json.loads(command("prove", "--format", "json", "-q").stdout)
    assert told["outcome"] == "passed" and [one["name"] for one in told["proofs"]] == names
    assert all(check["outcome"] == "passed" for one in told["proofs"] for check in one["checks"])
