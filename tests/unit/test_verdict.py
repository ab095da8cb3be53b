"""Each verdict on records made to measure, the borders between them, and what is missing."""

from __future__ import annotations

import pickle
import re
import shlex
from typing import Any, get_args

import pytest

from support.synthetic import imported, lines, make_run, without_server
from support.verdict import (
    BLOCKED_SERVER,
    ENVIRONMENT,
    IDLE_CLIENT,
    RECEIVING,
    SECOND,
    SENDING,
    cell_of,
    cipher,
    end,
    far,
    is_,
    raw_tcp,
    trial,
    verdict,
)
from venturi.analysis.cells.summary import summarise
from venturi.analysis.results import load
from venturi.analysis.verdict import crowding, types
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.judge import judge
from venturi.analysis.verdict.proof import ORDER, unknown
from venturi.analysis.verdict.rerun import Rerun

# Each kind


def test_both_cores() -> None:
    full = end(0.97, 2)
    found = verdict(
        {"receive": 0.6, "decode": 0.1, "verify": 0.2, "await_input": 0.1},
        {"send": 0.7, "encode": 0.1, "await_output": 0.2},
        client_end=full, server_end=full, cpu=(1.0, 0.9), parameters={"streams": 4, "rows_per_batch": 1024},
    )  # fmt: skip
    is_(found, "cores", None, "send")
    assert found.sentence == (
        "both cores are busy 97 %: send 41 %, receive 35 %, verify 12 %, encode 6 %, decode 6 %"
    )
    assert found.title == "both cores"
    assert found.confidence == "high"
    assert not found.flagged
    assert found.next[0].endswith("venturi run quick --streams 1,2,4 --rows-per-batch 8192")


def test_only_the_cores_of_the_server() -> None:
    found = verdict(
        same_machine=False, client_end=end(0.2), server_end=end(0.98, 4), cpu=(0.5, 3.9),
        client={"await_input": 0.8, "receive": 0.2}, server={"encode": 0.7, "send": 0.3},
    )  # fmt: skip
    is_(found, "cores", "server", "encode")
    assert found.sentence.startswith("all 4 cores of the server are busy 98 %: encode 70 %, send 30 %")


def test_a_verdict_can_be_sent_to_another_process() -> None:
    found = verdict(RECEIVING, SENDING)
    sent = pickle.loads(pickle.dumps(found))
    assert (sent.sentence, sent.next, sent.confidence) == (found.sentence, found.next, found.confidence)


TLS = {"target": "flight+tls://127.0.0.1:1", "streams": 1, "threads": 1}


def test_the_cipher_of_tls() -> None:
    probes = cipher(4e9, 1.2e9)
    found = verdict(RECEIVING, SENDING, probes=probes, parameters=TLS)
    is_(found, "stage", "client", "receive")
    assert found.title == "client: TLS's cipher"
    assert found.sentence == (
        "the client's cores open 83 % of the 1,200 MB/s that they can with AES-128-GCM alone"
    )
    assert "--streams" in found.next[0]
    # Two cores open twice as much; another host's are not known; plain text has no cipher.
    more = {**TLS, "streams": 2, "threads": 2}
    two = verdict(RECEIVING, SENDING, probes=probes, parameters=more)
    assert two.cause is not Cause.CIPHER_REACHED
    put = {"operation": "put", **TLS}
    far = verdict(SENDING, RECEIVING, probes=probes, parameters=put, same_machine=False)
    assert far.cause is not Cause.CIPHER_REACHED
    plain = verdict(RECEIVING, SENDING, probes=probes)
    assert plain.cause is not Cause.CIPHER_REACHED


def test_what_was_stolen_is_not_free() -> None:
    stolen = end(0.78, 2, host={"steal_share": 0.2, "busy_share": 0.78, "cores": 2})
    found = verdict(RECEIVING, SENDING, client_end=stolen, server_end=stolen, cpu=(0.8, 0.75))
    assert found.kind == "cores"
    assert "20 % of the CPU time was stolen" in found.sentence
    assert found.confidence != "high"


def test_cores_that_others_hold() -> None:
    full = end(0.99, 2, process={"run_delay_ns": SECOND, "threads": []})
    found = verdict(RECEIVING, SENDING, client_end=full, server_end=full, cpu=(0.4, 0.3))
    is_(found, "cores")
    assert "other processes" in found.sentence
    assert found.confidence == "low"
    assert "venturi doctor" in found.next[0]


def busy_with_others(delay: float = 0.02) -> dict[str, Any]:
    """Two full cores; the process waits so long for one, of the second that it could run."""
    half = SECOND // 2
    return end(1.0, 2, process={"run_delay_ns": int(2 * half * delay / (1 - delay)), "threads": []})


def test_cores_that_are_full_with_others_are_not_of_the_ends_that_need_one() -> None:
    # Real: one worker encodes all the time, a compiler has the other core, and the sum is two.
    found = verdict({"await_input": 0.9, "receive": 0.1}, {"encode": 0.9, "send": 0.1}, cpu=(0.06, 0.92),
                    client_end=busy_with_others(), server_end=busy_with_others())  # fmt: skip
    is_(found, "stage", "server", "encode")
    assert "other processes used 51 % of this host" in found.sentence
    assert found.confidence != "high"


def test_cores_that_both_ends_would_fill_alone_are_theirs_although_others_take_some() -> None:
    # Eight streams want more than there is, and a compiler a third of it.
    found = verdict({"receive": 0.9, "await_input": 0.1}, {"send": 0.9, "await_output": 0.1}, cpu=(0.7, 0.6),
                    client_end=busy_with_others(0.6), server_end=busy_with_others(0.6),
                    parameters={"streams": 8})  # fmt: skip
    is_(found, "cores", None, "receive")
    assert "other processes 35 %" in found.sentence


def test_a_server_that_accounts_for_no_cpu_time_is_known_by_its_process() -> None:
    # Real: a store of time series idles while a compiler has both cores.
    record = trial({"await_output": 0.9, "send": 0.1}, {}, cpu=(0.05, 0.0), client_end=busy_with_others(),
                   server_end=busy_with_others(), parameters={"operation": "put"})  # fmt: skip
    record["cpu"]["server"] = None
    found = judge(cell_of(record), ENVIRONMENT)
    assert found.cause is not Cause.CORES_FULL, found


@pytest.mark.parametrize(("delay", "cause"), [(0.02, Cause.STAGE_BUSY), (0.7, Cause.CORES_OF_OTHERS)])
def test_a_stage_beside_others_is_one_as_long_as_it_gets_its_core(delay: float, cause: Cause) -> None:
    working = 1 - delay
    found = verdict({"await_input": 0.9, "receive": 0.1}, {"send": 0.5, "encode": 0.5}, cpu=(0.05, working),
                    client_end=busy_with_others(), server_end=busy_with_others(delay))  # fmt: skip
    assert found.cause is cause, found


def test_two_places_equally_narrow() -> None:
    """A tenth apart: opening one alone gains little, so both are said."""
    found = verdict({"receive": 0.91, "await_input": 0.09}, {"encode": 0.99, "send": 0.01})
    is_(found, "stage", "server", "encode")
    assert found.title == "server: encode, client: receive"
    assert "two places, equally narrow: the client's worker is busy 91 %" in found.sentence
    assert found.also is not None and (found.also.cause, found.also.end) == (Cause.STAGE_BUSY, "client")
    alone = verdict({"receive": 0.85, "await_input": 0.15}, {"encode": 0.99, "send": 0.01})
    assert alone.also is None and alone.title == "server: encode"


def test_a_stage_and_the_path_equally_narrow() -> None:
    found = verdict({"await_input": 0.9, "receive": 0.1},
                    {"encode": 0.92, "send": 0.05, "await_output": 0.03}, rate=0.96e9,
                    same_machine=False, client_end=far(), server_end=far(), probes=raw_tcp(1e9))  # fmt: skip
    is_(found, "stage", "server", "encode")
    assert found.title == "server: encode, link"
    assert found.also is not None and found.also.cause is Cause.RAW_TCP_REACHED
    assert "two places, equally narrow: the path carries" in found.sentence


def test_of_two_ends_at_their_quotas_the_tighter_one_is_named() -> None:
    def held(share: float) -> dict[str, Any]:
        return end(0.2, 8, cgroup={"quota_cores": 0.2, "throttled_ns": int(share * SECOND)})

    found = verdict({"receive": 0.9, "await_input": 0.1}, {"send": 0.5, "await_output": 0.5}, cpu=(0.2, 0.18),
                    client_end=held(0.8), server_end=held(0.3))  # fmt: skip
    assert (found.cause, found.end) == (Cause.CPU_QUOTA_UNDER_ONE_CORE, "client"), found
    assert found.also is not None and found.also.end == "server"


def test_a_pinned_client_fills_its_own_core() -> None:
    one = end(0.3, 8, host={"busy_share": 0.3, "core_busy_share": [0.1, 0.99] + [0.2] * 6})
    found = verdict(RECEIVING, SENDING, client_end=one, server_end=one, pin=[1], cpu=(0.95, 0.5))
    assert (found.kind, found.end) == ("cores", "client")
    assert "the core that the client is pinned to is busy 99 %" in found.sentence
    assert any("--pin none" in text for text in found.next)


def test_a_quota_of_some_cores_is_the_cores_of_that_end() -> None:
    held = end(0.2, 8, cgroup={"quota_cores": 2.0, "throttled_ns": SECOND // 2})
    found = verdict({"await_input": 0.9, "receive": 0.1}, {"encode": 0.8, "send": 0.2},
                    server_end=held, cpu=(0.1, 2.0))  # fmt: skip
    is_(found, "cores", "server", "encode")
    assert "2 cores" in found.sentence


def test_a_tenth_of_a_core_is_a_stage_of_that_end() -> None:
    # A throttled thread stops in any of its stages: here most of the time in one that waits.
    held = end(0.2, 8, cgroup={"quota_cores": 0.1, "throttled_ns": int(0.9 * SECOND)})
    found = verdict({"await_input": 0.95, "receive": 0.05}, {"await_output": 0.7, "send": 0.3},
                    server_end=held, cpu=(0.1, 0.099))  # fmt: skip
    is_(found, "stage", "server", "send")
    assert "0.1 of a core" in found.sentence and "0.9 of its CPUs were held back on average" in found.sentence


def test_throttled_time_is_summed_over_cpus_and_no_share_of_the_interval() -> None:
    held = end(0.2, 8, cgroup={"quota_cores": 2.0, "throttled_ns": 3 * SECOND // 2})
    found = verdict({"await_input": 0.9, "receive": 0.1}, {"encode": 0.8, "send": 0.2},
                    server_end=held, cpu=(0.1, 2.0))  # fmt: skip
    said = found.sentence + " ".join(map(str, found.evidence))
    assert "1.5 of its CPUs were held back on average" in said
    assert not re.search(r"1[0-9][0-9] % of the (interval|time)", said), said


def test_a_quota_that_is_not_used_up_is_no_reason() -> None:
    held = end(0.2, 8, cgroup={"quota_cores": 4.0, "throttled_ns": SECOND // 50})
    assert verdict(RECEIVING, SENDING, server_end=held, cpu=(0.9, 0.6)).kind == "stage"


def test_one_stage_at_the_client() -> None:
    found = is_(verdict(RECEIVING, SENDING), "stage", "client", "receive")
    assert "receive 70 %, verify 20 %, decode 5 %" in found.sentence
    assert "the server is blocked sending 38 %" in found.sentence
    assert any("--streams 2" in text for text in found.next)
    assert not found.flagged


@pytest.mark.parametrize(
    ("operation", "client", "server", "where"),
    [
        ("get", {"await_input": 0.9, "decode": 0.1}, {"encode": 0.97, "send": 0.03}, "server"),
        ("put", {"encode": 0.97, "send": 0.03}, {"await_input": 0.9, "decode": 0.1}, "client"),
    ],
)
def test_a_codec_that_was_asked_for_is_a_stage(operation: str, client: Any, server: Any, where: str) -> None:
    settings = {"operation": operation, "compression": "zstd:19"}
    found = is_(verdict(client, server, parameters=settings), "stage", where, "encode")
    assert "zstd:19" in found.sentence
    assert not found.flagged
    assert any("--compression lz4" in text for text in found.next)


def test_a_decoder_that_nobody_asked_for_is_the_load_generator() -> None:
    found = is_(
        verdict({"decode": 0.95, "receive": 0.04, "await_input": 0.01}, {"await_output": 0.9, "send": 0.1}),
        "load-generator", "client", "decode",
    )  # fmt: skip
    assert found.flagged


def test_a_handicap_is_the_load_generators_even_with_compression() -> None:
    settings = {"compression": "zstd", "handicap": {"decode": 2_000_000}}
    found = verdict(
        {"decode": 0.95, "receive": 0.05}, {"await_output": 0.9, "send": 0.1}, parameters=settings
    )
    is_(found, "load-generator", "client", "decode")
    assert "on purpose" in found.sentence


def test_a_checksum_that_takes_longest_is_the_load_generators() -> None:
    found = verdict({"verify": 0.6, "receive": 0.38, "await_input": 0.02}, SENDING)
    is_(found, "load-generator", "client", "verify")
    assert "--verify count" in found.next[0]


def test_too_few_threads() -> None:
    found = verdict(
        {"await_thread": 0.74, "receive": 0.2, "verify": 0.045, "await_input": 0.015},
        {"await_output": 0.8, "send": 0.2},
        parameters={"streams": 8, "threads": 2},
    )
    is_(found, "load-generator", "client", "await_thread")
    assert "2 client threads serve 8 streams" in found.sentence
    assert "--threads 8" in found.next[0]


def test_a_clock_that_takes_too_long() -> None:
    found = verdict({"receive": 0.9, "verify": 0.1}, SENDING,
                    instrument={"share": 0.2, "clock_read_ns": 1000.0})  # fmt: skip
    is_(found, "load-generator", "client")


def test_full_cores_come_before_the_load_generator_and_the_stage() -> None:
    full = end(0.99, 2)
    found = verdict({"decode": 0.99}, SENDING, client_end=full, server_end=full, cpu=(1.3, 0.6))
    assert found.kind == "cores"


def test_disk() -> None:
    busy = end(0.2, disk={"busy_share": 0.97, "written_bytes": SECOND})
    found = verdict({"await_reply": 0.9, "send": 0.1}, {"apply": 0.5, "await_input": 0.5}, server_end=busy)
    is_(found, "disk", "server")


def test_a_disk_that_is_busy_with_something_else() -> None:
    busy = end(0.2, disk={"busy_share": 0.97, "written_bytes": 1000})
    assert verdict(RECEIVING, SENDING, server_end=busy).kind == "stage"


def test_memory() -> None:
    probe = [{"kind": "memory", "name": "copy", "end": "client", "threads": n, "bytes": int(1.1e9),
              "interval_ns": SECOND, "repeat": i, "outcome": "ok"}
             for n in (1, 8) for i in range(3)]  # fmt: skip
    found = verdict(probes=probe)
    is_(found, "memory")
    assert "91 % of what all cores copy" in found.sentence


def test_a_foreign_server_that_is_waited_for() -> None:
    theirs = {**end(), "by": "client", "host": None}
    theirs["process"] = {**theirs["process"], "threads": [{"name": "grpc-0", "cpu_share": 0.98}]}
    found = is_(verdict({"await_input": 0.8, "receive": 0.2}, {}, server_end=theirs), "server", "server")
    assert "grpc-0" in found.sentence
    assert found.confidence == "high"
    opaque = verdict({"await_input": 0.8, "receive": 0.2}, {}, server_end={}, cpu=(0.2, 0),
                     same_machine=False, client_end=far())  # fmt: skip
    is_(opaque, "unknown")
    assert (opaque.cause, opaque.title) == (Cause.SERVER_OR_PATH, "server or path")
    assert "the client waits for input 80 %: the server or the path to it sets the pace" in opaque.sentence
    assert any("venturi ceilings" in text for text in opaque.next)
    probed = verdict({"await_input": 0.8, "receive": 0.2}, {}, server_end={}, cpu=(0.2, 0), rate=1e9,
                     same_machine=False, client_end=far(), probes=raw_tcp(4e9))  # fmt: skip
    is_(probed, "server", "server")


def test_schedule() -> None:
    settings = {"rate": 1000.0}
    record = trial({"await_schedule": 0.8, "await_input": 0.1, "receive": 0.1}, rate=32 * 4096 * 999.0,
                   parameters=settings, schedule={"rate": 1000.0, "intended": 1000, "late": 3})  # fmt: skip
    found = is_(judge(cell_of(record), ENVIRONMENT), "schedule", "client", "await_schedule")
    assert found.flagged
    assert "not a limit" in found.sentence
    assert any("--rate none" in text for text in found.next)


def test_polling_for_slots_is_not_the_cores() -> None:
    full = end(0.97, 2)
    found = verdict({"await_schedule": 0.8, "receive": 0.2}, rate=32 * 4096 * 999.0, client_end=full,
                    server_end=full, schedule={"rate": 1000.0, "intended": 1000, "late": 0})  # fmt: skip
    assert found.kind == "schedule"


def test_a_schedule_that_did_not_keep_up_has_a_real_reason() -> None:
    found = verdict(RECEIVING, SENDING, rate=32 * 4096 * 500.0,
                    schedule={"rate": 1000.0, "intended": 1000, "late": 900})  # fmt: skip
    is_(found, "stage", "client", "receive")


# Borders, doubts, what is missing


@pytest.mark.parametrize(("busy", "kind"), [(0.951, "cores"), (0.949, "stage")])
def test_the_border_of_cores(busy: float, kind: str) -> None:
    found = verdict(RECEIVING, SENDING, client_end=end(busy, 2), server_end=end(busy, 2), cpu=(1.0, 0.85))
    assert found.kind == kind
    if kind == "cores":
        assert found.confidence != "high"


@pytest.mark.parametrize(
    ("share", "kind", "confidence"), [(0.92, "stage", None), (0.8, "stage", "low"), (0.7, "unknown", "low")]
)
def test_the_border_of_a_stage(share: float, kind: str, confidence: str | None) -> None:
    found = verdict({"receive": share, "await_input": 1 - share}, {"send": 0.5, "await_output": 0.5})
    assert found.kind == kind, found
    assert confidence in (None, found.confidence)


@pytest.mark.parametrize(("share", "kind"), [(0.91, "link"), (0.77, "unknown"), (0.65, "unknown")])
def test_the_border_of_the_link(share: float, kind: str) -> None:
    found = verdict(IDLE_CLIENT, BLOCKED_SERVER, rate=1e8, same_machine=False, client_end=far(),
                    server_end=far(), probes=raw_tcp(1e8 / share))  # fmt: skip
    assert found.kind == kind


def test_repeats_that_disagree_lower_the_confidence() -> None:
    stage = trial(RECEIVING, SENDING)
    other = trial({"await_input": 0.8, "receive": 0.2}, {"send": 0.98, "await_output": 0.02})
    sure = judge(cell_of(stage))
    torn = judge(cell_of(*[stage] * 3, *[other] * 2))
    assert (sure.confidence, torn.confidence) == ("high", "low") or torn.confidence != "high"
    assert "of 5 repeats" in torn.sentence


def test_other_load_is_said() -> None:
    noisy = end(0.6, 8)
    found = verdict(RECEIVING, SENDING, client_end=noisy, server_end=noisy, cpu=(1.0, 0.7))
    assert found.kind == "stage"
    assert "other processes used 39 % of this host" in found.sentence
    assert found.confidence != "high"


def test_unknown_says_what_is_nearest_and_what_would_settle_it() -> None:
    found = verdict({"await_input": 0.6, "receive": 0.4}, {"await_output": 0.6, "send": 0.4})
    is_(found, "unknown")
    assert found.confidence == "low"
    assert "nearest are" in found.sentence
    assert any("--streams 2" in text for text in found.next)


def test_a_start_that_takes_most_of_the_trial() -> None:
    found = verdict(streams=[{"stream": 0, "first_batch_ns": SECOND // 2}])
    is_(found, "unknown")
    assert "50 % of the trial" in found.sentence
    assert any("--duration 5s" in text for text in found.next)


def test_trials_too_short_for_shares_of_cpu_time() -> None:
    blind = end(host=None)
    times = {"interval_ns": SECOND // 20, "setup_ns": 0}
    found = verdict(client_end=blind, server_end=blind, times=times)
    is_(found, "unknown")
    assert "trials of 50 ms are too short" in found.sentence
    assert any("--duration 1s" in text for text in found.next)
    assert not any("--sample-interval" in text for text in found.next)


def test_without_resources() -> None:
    found = verdict(RECEIVING, SENDING, resources=None)
    is_(found, "stage", "client", "receive")
    assert "not known: whether the client's host had a core to spare" in found.sentence
    assert found.confidence != "high"


def test_no_good_trial() -> None:
    found = judge(summarise([trial(outcome="failed")])[0], {})
    is_(found, "unknown")
    assert "no trial of this cell was good" in found.sentence


@pytest.mark.parametrize(
    "edit", [None, imported, without_server, lambda line: {"cell": "x", "outcome": "ok"}]
)
def test_runs_of_every_completeness(tmp_path: Any, edit: Any) -> None:
    results = load(make_run(tmp_path / "run", edit=edit))
    assert set(results.verdicts) == {c.name for c in results.cells}
    for found in results.verdicts.values():
        assert found.sentence
        assert found.next or found.kind != "unknown" or edit is not None
    # Streams are the run's one axis of numbers, so each operation has one finding; of trials without any
    # figure there is nothing to say.
    assert len(results.findings) == (2 if results.cells[0].throughput.known else 0)
    assert (edit is None or edit in (imported, without_server)) == results.cells[0].throughput.known


@pytest.mark.parametrize("field", ["stages", "workers", "resources", "cpu", "counts", "times", "streams",
                                   "schedule", "instrument", "target", "parameters"])  # fmt: skip
@pytest.mark.parametrize("empty", [None, {}, [], "text"])
def test_any_field_may_be_missing_or_odd(field: str, empty: Any) -> None:
    record = trial(RECEIVING, SENDING)
    found = judge(cell_of({**record, field: empty if field != "parameters" else {}}), ENVIRONMENT)
    assert found.kind in get_args(types.Kind)


@pytest.mark.parametrize("name", ["macbook-get", "macbook-put", "cartesius-localhost", "chspark"])
def test_published_runs_are_not_known_and_say_so(name: str) -> None:
    results = load(f"reference:{name}")
    assert {v.kind for v in results.verdicts.values()} == {"unknown"}
    assert results.findings


def test_every_cause_is_found_by_a_proof_and_every_kind_is_one_of_the_contract() -> None:
    """By the names in the modules of the proofs: a cause that nothing finds would be documented in vain."""
    import ast
    import inspect

    found = set()
    for module in {inspect.getmodule(proof) for proof in ORDER} | {unknown, crowding}:
        assert module is not None
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "Cause":
                found.add(Cause[node.attr])
    assert found == set(Cause)
    assert {cause.kind for cause in Cause} == set(get_args(types.Kind))


def test_commands_are_ones_that_the_program_has(tmp_path: Any) -> None:
    """Every command that any verdict proposes is parsed by the command line itself."""
    from support.run import venturi
    from venturi.cli import COMMANDS

    settings = {"operation": "put", "rows_per_batch": 512, "compression": "zstd", "window": 65536,
                "handicap": {"decode": 1}, "ack": "batch", "streams": 4, "threads": 2}  # fmt: skip
    texts: set[str] = set()
    ends = [RECEIVING, {"verify": 0.95}, {"await_reply": 1.0}, {"await_input": 0.5, "receive": 0.5}]
    for operation in ("get", "put"):
        for client in ends:
            for server in (SENDING, {}, {"await_window": 0.9}, {"encode": 1.0}, {"await_input": 1.0}):
                for place in (end(), end(0.99, 2), far()):
                    changed = {**settings, "operation": operation}
                    found = verdict(client, server, parameters=changed, client_end=place, server_end=place,
                                    same_machine=None)  # fmt: skip
                    texts.update(found.next)
    commands = [t[t.index("venturi run") :] for t in texts if "venturi run" in t]
    assert len(commands) > 5
    assert "run" in COMMANDS
    flags = {word.partition("=")[0] for text in commands for word in text.split() if word.startswith("--")}
    known = venturi("run", "--help").stdout
    assert not {flag for flag in flags if flag not in known}
    longest = max(commands, key=lambda text: text.count("--"))
    planned = venturi(*shlex.split(longest)[1:], "--dry-run")
    assert planned.returncode == 0, planned.stderr


def test_lines_of_a_run_are_judged_as_written(tmp_path: Any) -> None:
    path = make_run(tmp_path / "run", repeats=1)
    assert lines(path)
    assert all(v.confidence in get_args(types.Confidence) for v in load(path).verdicts.values())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("run quick --streams 1,2 --out x", "run quick --streams 8"),
        ("run quick --streams=1 --rate 5", "run quick --rate 5 --streams 8"),
        ("run quick --duration 1s --duration 2s", "run quick --duration 2s --streams 8"),
        ("run quick --set a.b=1 --set c.d=2 -q", "run quick --set a.b=1 --set c.d=2 --streams 8"),
        ("run --resume last", "run --target flight://10.0.0.2:31337 --operation get --rows-per-batch 4096 "
         "--streams 8"),
    ],
)  # fmt: skip
def test_a_command_repeats_what_was_typed_with_one_change(typed: str, expected: str) -> None:
    rerun = Rerun.of(cell_of(trial()), {"command": ["venturi", *shlex.split(typed)]})
    assert rerun.but(streams=8) == f"venturi {expected}"
