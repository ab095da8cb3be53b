"""Each verdict on records made to measure, the borders between them, and what is missing. Their words are in
tests/data/golden/verdicts.txt."""

from __future__ import annotations

import pickle
import shlex
from typing import Any, get_args

import pytest

from support.synthetic import imported, lines, make_run, without_server
from support.verdict import (
    BLOCKED_SERVER,
    ENVIRONMENT,
    FAR,
    IDLE_CLIENT,
    RECEIVING,
    SECOND,
    SENDING,
    Case,
    cell_of,
    cipher,
    end,
    far,
    found_as_expected,
    raw_tcp,
    trial,
    verdict,
    words_are_kept,
)
from venturi.analysis.advice.trials import stood_still
from venturi.analysis.cells.summary import summarise
from venturi.analysis.results import load
from venturi.analysis.verdict import crowding, types
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.judge import judge
from venturi.analysis.verdict.proof import ORDER, unknown
from venturi.analysis.verdict.rerun import Rerun

TLS = {"target": "flight+tls://127.0.0.1:1", "streams": 1, "threads": 1}
CIPHER = cipher(4e9, 1.2e9)


def both(resources: dict[str, Any]) -> dict[str, Any]:
    return {"client_end": resources, "server_end": resources}


def busy_with_others(delay: float = 0.02) -> dict[str, Any]:
    """Two full cores; the process waits so long for one, of the second that it could run."""
    half = SECOND // 2
    return end(1.0, 2, process={"run_delay_ns": int(2 * half * delay / (1 - delay)), "threads": []})


def throttled(quota: float, held_back: float) -> dict[str, Any]:
    """An end with a quota of so many cores, of whose CPUs so many were held back on average."""
    return end(0.2, 8, cgroup={"quota_cores": quota, "throttled_ns": int(held_back * SECOND)})


def foreign(*threads: dict[str, Any]) -> dict[str, Any]:
    """A server's process as the client's host sees it."""
    seen = {**end(), "by": "client", "host": None}
    return {**seen, "process": {**seen["process"], "threads": [*threads]}}


CASES: dict[str, Case] = {
    "cores: both": (Cause.CORES_FULL, None, "send", lambda: verdict(
        {"receive": 0.6, "decode": 0.1, "verify": 0.2, "await_input": 0.1},
        {"send": 0.7, "encode": 0.1, "await_output": 0.2}, client_end=end(0.97, 2), server_end=end(0.97, 2),
        cpu=(1.0, 0.9), parameters={"streams": 4, "rows_per_batch": 1024})),
    "cores: of the server alone": (Cause.CORES_FULL, "server", "encode", lambda: verdict(
        {"await_input": 0.8, "receive": 0.2}, {"encode": 0.7, "send": 0.3}, same_machine=False,
        client_end=end(0.2), server_end=end(0.98, 4), cpu=(0.5, 3.9))),
    "cores: what was stolen is not free": (Cause.CORES_FULL, None, "send", lambda: verdict(
        RECEIVING, SENDING, **both(end(0.78, 2, host={"steal_share": 0.2, "busy_share": 0.78, "cores": 2})),
        cpu=(0.8, 0.75))),
    "cores: held by others": (Cause.CORES_OF_OTHERS, None, None, lambda: verdict(
        RECEIVING, SENDING, **both(end(0.99, 2, process={"run_delay_ns": SECOND, "threads": []})),
        cpu=(0.4, 0.3))),
    # Eight streams want more than there is, and a compiler a third of it.
    "cores: of both ends although others take some": (Cause.CORES_FULL, None, "receive", lambda: verdict(
        {"receive": 0.9, "await_input": 0.1}, {"send": 0.9, "await_output": 0.1}, cpu=(0.7, 0.6),
        **both(busy_with_others(0.6)), parameters={"streams": 8})),
    "cores: a pinned client fills its own": (Cause.CORES_FULL, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, pin=[1], cpu=(0.95, 0.5),
        **both(end(0.3, 8, host={"busy_share": 0.3, "core_busy_share": [0.1, 0.99] + [0.2] * 6})))),
    "cores: a quota of two": (Cause.CPU_QUOTA, "server", "encode", lambda: verdict(
        {"await_input": 0.9, "receive": 0.1}, {"encode": 0.8, "send": 0.2}, cpu=(0.1, 2.0),
        server_end=throttled(2.0, 0.5))),
    # Throttled time is summed over CPUs, and is no share of the interval.
    "cores: a quota that holds 1.5 CPUs back": (Cause.CPU_QUOTA, "server", "encode", lambda: verdict(
        {"await_input": 0.9, "receive": 0.1}, {"encode": 0.8, "send": 0.2}, cpu=(0.1, 2.0),
        server_end=throttled(2.0, 1.5))),
    "cores: before the load generator and the stage": (Cause.CORES_FULL, None, "decode", lambda: verdict(
        {"decode": 0.99}, SENDING, **both(end(0.99, 2)), cpu=(1.3, 0.6))),
    # A throttled thread stops in any of its stages: here most of the time in one that waits.
    "stage: a tenth of a core": (Cause.CPU_QUOTA_UNDER_ONE_CORE, "server", "send", lambda: verdict(
        {"await_input": 0.95, "receive": 0.05}, {"await_output": 0.7, "send": 0.3}, cpu=(0.1, 0.099),
        server_end=throttled(0.1, 0.9))),
    "stage: of two ends at their quotas the tighter one": (
        Cause.CPU_QUOTA_UNDER_ONE_CORE, "client", "receive", lambda: verdict(
        {"receive": 0.9, "await_input": 0.1}, {"send": 0.5, "await_output": 0.5}, cpu=(0.2, 0.18),
        client_end=throttled(0.2, 0.8), server_end=throttled(0.2, 0.3))),
    "stage: a quota that is not used up": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, server_end=throttled(4.0, 0.02), cpu=(0.9, 0.6))),
    "stage: of the client": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(RECEIVING, SENDING)),
    # Real: one worker encodes all the time, a compiler has the other core, and the sum is two.
    "stage: beside others that fill the cores": (Cause.STAGE_BUSY, "server", "encode", lambda: verdict(
        {"await_input": 0.9, "receive": 0.1}, {"encode": 0.9, "send": 0.1}, cpu=(0.06, 0.92),
        **both(busy_with_others()))),
    "stage: beside others that leave it its core": (Cause.STAGE_BUSY, "server", "send", lambda: verdict(
        {"await_input": 0.9, "receive": 0.1}, {"send": 0.5, "encode": 0.5}, cpu=(0.05, 0.98),
        client_end=busy_with_others(), server_end=busy_with_others(0.02))),
    "cores: beside others that leave it no core": (Cause.CORES_OF_OTHERS, None, None, lambda: verdict(
        {"await_input": 0.9, "receive": 0.1}, {"send": 0.5, "encode": 0.5}, cpu=(0.05, 0.3),
        client_end=busy_with_others(), server_end=busy_with_others(0.7))),
    # A tenth apart: opening one alone gains little, so both are said.
    "stage: two, equally narrow": (Cause.STAGE_BUSY, "server", "encode", lambda: verdict(
        {"receive": 0.91, "await_input": 0.09}, {"encode": 0.99, "send": 0.01})),
    "stage: two, one a little wider": (Cause.STAGE_BUSY, "server", "encode", lambda: verdict(
        {"receive": 0.85, "await_input": 0.15}, {"encode": 0.99, "send": 0.01})),
    "stage: and the path, equally narrow": (Cause.STAGE_BUSY, "server", "encode", lambda: verdict(
        {"await_input": 0.9, "receive": 0.1}, {"encode": 0.92, "send": 0.05, "await_output": 0.03},
        rate=0.96e9, same_machine=False, **both(far()), probes=raw_tcp(1e9))),
    "stage: a get's codec that was asked for": (Cause.STAGE_BUSY, "server", "encode", lambda: verdict(
        {"await_input": 0.9, "decode": 0.1}, {"encode": 0.97, "send": 0.03},
        parameters={"operation": "get", "compression": "zstd:19"})),
    "stage: a put's codec that was asked for": (Cause.STAGE_BUSY, "client", "encode", lambda: verdict(
        {"encode": 0.97, "send": 0.03}, {"await_input": 0.9, "decode": 0.1},
        parameters={"operation": "put", "compression": "zstd:19"})),
    "stage: beside other load": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, **both(end(0.6, 8)), cpu=(1.0, 0.7))),
    "stage: without resources": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, resources=None)),
    "stage: of five repeats two disagree": (Cause.STAGE_BUSY, "client", "receive", lambda: judge(cell_of(
        *[trial(RECEIVING, SENDING)] * 3,
        *[trial({"await_input": 0.8, "receive": 0.2}, {"send": 0.98, "await_output": 0.02})] * 2))),
    "stage: a window that a slow receiver closes": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(
        {"receive": 0.97, "await_input": 0.03}, {"await_window": 0.95, "send": 0.05},
        parameters={"window": 65536})),
    "stage: a schedule that was not kept": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, rate=32 * 4096 * 500.0,
        schedule={"rate": 1000.0, "intended": 1000, "late": 900})),
    "stage: a disk that is busy with something else": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, server_end=end(0.2, disk={"busy_share": 0.97, "written_bytes": 1000}))),
    "stage: the cipher of TLS": (Cause.CIPHER_REACHED, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, probes=CIPHER, parameters=TLS)),
    # Two cores open twice as much; another host's are not known; plain text has no cipher.
    "stage: the cipher of TLS on two cores": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, probes=CIPHER, parameters={**TLS, "streams": 2, "threads": 2})),
    "stage: the cipher of TLS of another host": (Cause.STAGE_BUSY, "server", "receive", lambda: verdict(
        SENDING, RECEIVING, probes=CIPHER, parameters={"operation": "put", **TLS}, same_machine=False)),
    "stage: a cipher without TLS": (Cause.STAGE_BUSY, "client", "receive", lambda: verdict(
        RECEIVING, SENDING, probes=CIPHER)),
    "load generator: a decoder that nobody asked for": (Cause.OWN_WORK, "client", "decode", lambda: verdict(
        {"decode": 0.95, "receive": 0.04, "await_input": 0.01}, {"await_output": 0.9, "send": 0.1})),
    "load generator: a handicap, even with compression": (Cause.OWN_WORK, "client", "decode", lambda: verdict(
        {"decode": 0.95, "receive": 0.05}, {"await_output": 0.9, "send": 0.1},
        parameters={"compression": "zstd", "handicap": {"decode": 2_000_000}})),
    "load generator: a checksum that takes longest": (Cause.OWN_WORK, "client", "verify", lambda: verdict(
        {"verify": 0.6, "receive": 0.38, "await_input": 0.02}, SENDING)),
    "load generator: too few threads": (Cause.TOO_FEW_THREADS, "client", "await_thread", lambda: verdict(
        {"await_thread": 0.74, "receive": 0.2, "verify": 0.045, "await_input": 0.015},
        {"await_output": 0.8, "send": 0.2}, parameters={"streams": 8, "threads": 2})),
    "load generator: a clock that takes too long": (Cause.CLOCK_READING, "client", None, lambda: verdict(
        {"receive": 0.9, "verify": 0.1}, SENDING, instrument={"share": 0.2, "clock_read_ns": 1000.0})),
    "disk": (Cause.DISK_BUSY, "server", None, lambda: verdict(
        {"await_reply": 0.9, "send": 0.1}, {"apply": 0.5, "await_input": 0.5},
        server_end=end(0.2, disk={"busy_share": 0.97, "written_bytes": SECOND}))),
    "memory": (Cause.MEMORY_BANDWIDTH, None, None, lambda: verdict(probes=[
        {"kind": "memory", "name": "copy", "end": "client", "threads": n, "bytes": int(1.1e9),
         "interval_ns": SECOND, "repeat": i, "outcome": "ok"} for n in (1, 8) for i in range(3)])),
    "server: a foreign one that is waited for": (Cause.SERVER_WAITED_FOR, "server", None, lambda: verdict(
        {"await_input": 0.8, "receive": 0.2}, {}, server_end=foreign({"name": "grpc-0", "cpu_share": 0.98}))),
    "server: or the path": (Cause.SERVER_OR_PATH, None, None, lambda: verdict(
        {"await_input": 0.8, "receive": 0.2}, {}, server_end={}, cpu=(0.2, 0), same_machine=False,
        client_end=far())),
    "server: not the path": (Cause.SERVER_WAITED_FOR, "server", None, lambda: verdict(
        {"await_input": 0.8, "receive": 0.2}, {}, server_end={}, cpu=(0.2, 0), rate=1e9,
        same_machine=False, client_end=far(), probes=raw_tcp(4e9))),
    # Real: pyarrow burns 1 ms a batch of half a megabyte; 64 KiB / 0.137 ms happen to be as much.
    "server: a stranger on loopback has no window too small": (
        Cause.SERVER_WAITED_FOR, "server", None, lambda: verdict(
        {"await_window": 0.71, "await_output": 0.14, "send": 0.14, "await_reply": 0.01}, {},
        parameters={"operation": "put"}, rate=471e6, round_trip=136_916, cpu=(0.15, 0.98),
        server_end=foreign())),
    "schedule: kept": (Cause.SCHEDULE_KEPT, "client", "await_schedule", lambda: verdict(
        {"await_schedule": 0.8, "await_input": 0.1, "receive": 0.1}, rate=32 * 4096 * 999.0,
        parameters={"rate": 1000.0}, schedule={"rate": 1000.0, "intended": 1000, "late": 3})),
    "schedule: polling for slots is not the cores": (
        Cause.SCHEDULE_KEPT, "client", "await_schedule", lambda: verdict(
        {"await_schedule": 0.8, "receive": 0.2}, rate=32 * 4096 * 999.0, **both(end(0.97, 2)),
        schedule={"rate": 1000.0, "intended": 1000, "late": 0})),
    "link: probed": (Cause.RAW_TCP_REACHED, None, None, lambda: verdict(
        IDLE_CLIENT, BLOCKED_SERVER, rate=118e6, same_machine=False, client_end=far(),
        server_end=far(rtt_ns=30_000_000, min_rtt_ns=200_000), probes=raw_tcp(119e6))),
    "link: not probed": (Cause.SOCKET_BLOCKED, None, None, lambda: verdict(
        IDLE_CLIENT, BLOCKED_SERVER, rate=118e6, same_machine=False, client_end=far(),
        server_end=far(rtt_ns=30_000_000, min_rtt_ns=200_000))),
    "link: a full interface": (Cause.INTERFACE_FULL, None, None, lambda: verdict(
        IDLE_CLIENT, {}, rate=115e6, same_machine=False, client_end=end(0.1, network=FAR),
        server_end=end(0.1, network={**FAR, "tx_bytes": int(119e6), "speed_bits_per_second": 10**9}))),
    "link: a send buffer that a queue fills": (Cause.RAW_TCP_REACHED, None, None, lambda: verdict(
        IDLE_CLIENT, BLOCKED_SERVER, rate=118e6, same_machine=False, client_end=far(),
        server_end=far(0.05, send_buffer_limited_share=0.9, rtt_ns=30_000_000), probes=raw_tcp(119e6))),
    "link: none over loopback": (Cause.NOTHING_AT_ITS_LIMIT, None, None, lambda: verdict(
        IDLE_CLIENT, BLOCKED_SERVER, probes=raw_tcp(1.01e9))),
    "link: raw TCP is much faster": (Cause.NOTHING_AT_ITS_LIMIT, None, None, lambda: verdict(
        IDLE_CLIENT, BLOCKED_SERVER, rate=118e6, same_machine=False, **both(far()), probes=raw_tcp(1000e6))),
    "flow control: a window": (Cause.HTTP2_WINDOW, None, "await_window", lambda: verdict(
        {"await_input": 0.97, "receive": 0.03}, {"await_window": 0.95, "send": 0.05}, rate=6.2e6,
        parameters={"window": 65536}, client_end=end(0.05), round_trip=10_000_000)),
    "flow control: windows of four streams": (Cause.HTTP2_WINDOW, None, "await_window", lambda: verdict(
        {"await_input": 0.97, "receive": 0.03}, {"await_window": 0.95, "send": 0.05}, rate=24e6,
        parameters={"window": 65536, "streams": 4}, round_trip=10_000_000)),
    "flow control: a foreign server behind a small window": (Cause.HTTP2_WINDOW, None, None, lambda: verdict(
        {"await_input": 0.97, "receive": 0.03}, {}, rate=6.2e6, parameters={"window": 65536}, server_end={},
        cpu=(0.1, 0), round_trip=10_000_000)),
    "flow control: a send buffer smaller than the path": (Cause.SEND_BUFFER, None, None, lambda: verdict(
        {"await_input": 0.95, "receive": 0.05}, {"await_output": 0.95, "send": 0.05}, rate=5e6,
        same_machine=False, client_end=far(min_rtt_ns=50_000_000),
        server_end=far(0.05, send_buffer_limited_share=0.9, min_rtt_ns=50_000_000, rtt_ns=50_000_000))),
    "flow control: acknowledgements": (Cause.ACKNOWLEDGEMENTS, None, "await_reply", lambda: verdict(
        {"await_reply": 0.9, "send": 0.1}, {"await_input": 0.95, "receive": 0.05},
        parameters={"operation": "put", "ack": "batch"})),
    "unknown: what is nearest, and what would settle it": (
        Cause.NOTHING_AT_ITS_LIMIT, None, None, lambda: verdict(
        {"await_input": 0.6, "receive": 0.4}, {"await_output": 0.6, "send": 0.4})),
    "unknown: a start that takes most of the trial": (Cause.START_MEASURED, None, None, lambda: verdict(
        streams=[{"stream": 0, "first_batch_ns": SECOND // 2}])),
    "unknown: trials too short for shares of CPU time": (Cause.TOO_SHORT, None, None, lambda: verdict(
        **both(end(host=None)), times={"interval_ns": SECOND // 20, "setup_ns": 0})),
    "unknown: no good trial": (Cause.NO_GOOD_TRIAL, None, None, lambda: judge(
        summarise([trial(outcome="failed")])[0], {})),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_cause(name: str) -> None:
    found_as_expected(CASES[name])


def test_the_words() -> None:
    words_are_kept("verdicts", CASES)


def test_a_verdict_can_be_sent_to_another_process() -> None:
    found = verdict(RECEIVING, SENDING)
    sent = pickle.loads(pickle.dumps(found))
    assert (sent.sentence, sent.next, sent.confidence) == (found.sentence, found.next, found.confidence)


def test_a_server_that_accounts_for_no_cpu_time_is_known_by_its_process() -> None:
    # Real: a store of time series idles while a compiler has both cores.
    record = trial({"await_output": 0.9, "send": 0.1}, {}, cpu=(0.05, 0.0), client_end=busy_with_others(),
                   server_end=busy_with_others(), parameters={"operation": "put"})  # fmt: skip
    record["cpu"]["server"] = None
    found = judge(cell_of(record), ENVIRONMENT)
    assert found.cause is not Cause.CORES_FULL, found


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


def test_what_would_show_the_link_can_be_asked_there() -> None:
    def next_of(server: dict[str, float], **parameters: Any) -> str:
        ends = {"client_end": far(), "server_end": far(rtt_ns=30_000_000, min_rtt_ns=200_000)}
        return "; ".join(
            verdict(IDLE_CLIENT, server, rate=118e6, same_machine=False, parameters=parameters, **ends).next
        )

    # Random numbers get no smaller.
    assert "--compression" not in next_of(BLOCKED_SERVER, data="records", values="random")
    ours = next_of(BLOCKED_SERVER, data="records", values="sequential")
    assert "--compression lz4" in ours and "venturi ceilings flight://10.0.0.2:31337" in ours
    assert "--compression" not in next_of(BLOCKED_SERVER, http_compression="gzip")
    # Its protocol has none here.
    assert "--compression" not in next_of(BLOCKED_SERVER, target="postgres://h/db", table="rows")
    assert "--compression lz4" in next_of(BLOCKED_SERVER, target="cassandra://h/db", table="rows")
    for url in ("clickhouse://h/db", "flightsql://h:1"):
        theirs = next_of(BLOCKED_SERVER, target=url)
        assert "venturi ceilings flight://HOST:31338" in theirs and f"ceilings {url}" not in theirs, theirs


@pytest.mark.parametrize(
    "edit", [None, imported, without_server, lambda line: {"cell": "x", "outcome": "ok"}]
)
def test_runs_of_every_completeness(tmp_path: Any, edit: Any) -> None:
    results = load(make_run(tmp_path / "run", repeats=2, edit=edit))
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


# ---- an end that stood still


def test_a_short_pause_is_a_warning() -> None:
    """It names the end that stood still longest, and in how many trials one did."""
    still, short = (end(process={"paused_ns": ns}) for ns in (30_000_000, 20_000_000))
    cell = cell_of(trial(client_end=short), trial(server_end=still, repeat=1), trial(repeat=2))
    advice = stood_still([cell])
    assert advice is not None and advice.kind == "paused"
    assert advice.finding == "the server did not run for 0.03 s of 1 s (2 of 3 trials had a pause)"


def test_where_nothing_stood_still_there_is_none() -> None:
    assert stood_still([cell_of(trial())]) is None
