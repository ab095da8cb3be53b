"""Each verdict on records made to measure, the borders between them, and what is missing; and TCP's laws. The
cases are in tests/data/verdicts, their words in tests/data/golden/verdicts-*.txt."""

from __future__ import annotations

import inspect
import pickle
import shlex
from collections.abc import Callable
from typing import Any, get_args

import pytest

from support import upsert as upserts
from support.synthetic import imported, make_run, without_server
from support.verdict import (
    BLOCKED_SERVER,
    ENVIRONMENT,
    FAR,
    IDLE_CLIENT,
    RECEIVING,
    SECOND,
    SENDING,
    cell_of,
    check_table,
    end,
    far,
    summarise,
    trial,
    verdict,
    with_ends,
    with_probes,
)
from venturi.analysis.advice.trials import disturbances
from venturi.analysis.models import link_law
from venturi.analysis.models.batch_cost import Packing
from venturi.analysis.results import load
from venturi.analysis.verdict import machine, network, servers, types, workers
from venturi.analysis.verdict.judge import judge, verdicts
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.rules import RULES
from venturi.analysis.verdict.types import Verdict


def busy_with_others() -> dict[str, Any]:
    """Two full cores; the process waits for one for 2 % of the second that it could run."""
    return end(1.0, 2, process={"run_delay_ns": SECOND // 49, "threads": []})


def case(two_of_five: dict[str, Any] | None = None, **given: Any) -> Verdict:
    """The verdict of five trials, of which two may differ."""
    given = with_probes(with_ends(given))
    if two_of_five is None:
        return verdict(**given)
    return judge(cell_of(*[trial(**given)] * 3, *[trial(**given | two_of_five)] * 2))


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
    assert found.cause != "cores-full", found
    # More in flight would wait for the CPUs that the compiler holds.
    assert "more stream" not in (told := "; ".join(found.next)) and "venturi doctor" in told


# Borders, doubts, what is missing


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


def of_a_tool(line: dict[str, Any]) -> dict[str, Any]:
    return imported(line) | {"imported": {"format": "perf_stats"}}


@pytest.mark.parametrize("edit", [None, of_a_tool, without_server, lambda _: {"cell": "x", "outcome": "ok"}])
def test_runs_of_every_completeness(tmp_path: Any, edit: Any) -> None:
    results = load(make_run(tmp_path / "run", repeats=2, edit=edit))
    assert set(results.verdicts) == {c.name for c in results.cells}
    for found in results.verdicts.values():
        assert found.sentence and found.confidence in get_args(types.Confidence)
        assert found.next or found.kind != "unknown" or edit is not None
    # Streams are the run's one axis of numbers, so each operation has one finding; of trials without any
    # figure there is nothing to say.
    assert len(results.findings) == (2 if results.cells[0].throughput.measured else 0)
    assert (edit is None or edit in (of_a_tool, without_server)) == results.cells[0].throughput.measured
    assert ("by another tool" in str(results.advice)) == results.imported == (edit is of_a_tool)


@pytest.mark.parametrize("field", ["stages", "workers", "resources", "cpu", "counts", "times", "streams",
                                   "schedule", "instrument", "target", "parameters"])  # fmt: skip
def test_any_field_may_be_missing(field: str) -> None:
    for nothing in (None, () if field == "streams" else {}):
        found = judge(cell_of({**trial(RECEIVING, SENDING), field: nothing}), ENVIRONMENT)
        assert found.kind in get_args(types.Kind)


@pytest.mark.parametrize("name", ["macbook-get", "macbook-put", "cartesius-localhost", "chspark"])
def test_published_runs_are_not_known_and_say_so(name: str) -> None:
    results = load(f"reference:{name}")
    assert {v.kind for v in results.verdicts.values()} == {"unknown"}
    assert results.findings


def test_every_cause_is_found_by_a_proof_and_every_kind_is_one_of_the_contract() -> None:
    """By the names in the modules of the proofs: a cause that nothing finds would be documented in vain."""
    proofs = "".join(map(inspect.getsource, (machine, network, servers, workers)))
    assert all(f'"{name}"' in proofs for name in RULES)
    assert {rule.kind for rule in RULES.values()} == set(get_args(types.Kind))


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
    (advice,) = disturbances([cell], [])
    assert advice.kind == "paused"
    assert advice.finding == "the server did not run for 0.03 s of 1 s (2 of 3 trials had a pause)"
    assert disturbances([cell_of(trial())], []) == []


# ---- databases


def of(given: dict[str, Any] | None = None, **settings: Any) -> Verdict:
    """The verdict of five like trials."""
    probes = [
        {"kind": "disk", "end": "client", "name": "commit", "bytes": 4096 * each, "interval_ns": SECOND}
        for each in settings.pop("commits", [])
    ]
    (cell,) = summarise(upserts.repeated(given, **settings), probes)
    typed = ["venturi", "run", "--target", cell.parameters["target"], "--operation", "upsert"]
    return judge(cell, upserts.ENVIRONMENT | {"command": typed})


def database(server_process: dict[str, Any] | None = None, **given: Any) -> Verdict:
    seen = {"server_end": upserts.process(**server_process)} if server_process else {}
    return of(**with_ends(given, upserts.end), **seen)


def swept(cells: list[dict[str, Any]], at: int = -1, **shared: Any) -> Verdict:
    """The verdict of one of the cells of a run; each has what is its own."""
    lines: list[dict[str, Any]] = []
    for number, one in enumerate(cells):
        own = {**shared, **one}
        if "batch_ns" in own:
            own["given"] = {**shared.get("given", {}), **one.get("given", {})}
            lines += upserts.repeated(**with_ends(own, upserts.end))
        else:
            own["parameters"] = {**shared.get("parameters", {}), **one.get("parameters", {})}
            for repeat in range(5):
                of_it = {"cell": f"{number}", "repeat": repeat, "rate": own["rate"] * (1 + repeat / 500)}
                lines.append(trial(**with_ends(own | of_it)))
    return list(verdicts(summarise(lines), OVER_LINKS).values())[at]


@pytest.mark.parametrize("rows", [1, 10, 500])
def test_cassandra_is_not_asked_for_batches_that_it_refuses(rows: int) -> None:
    found = of({"target": "cassandra://local/venturi", "rows_per_batch": rows, "batch": "unlogged"})
    larger = [text for text in found.next if "larger batches" in text]
    assert bool(larger) == (rows < 500)
    assert all(int(text.rpartition(" ")[2]) <= 500 for text in larger)


# ---- pools of threads


OF_CHARROW = {"command": ["venturi", "run", "--target", "charrow://10.0.0.2:9006"]}


def pool(threads: int, busy: float) -> dict[str, int]:
    return {"threads": threads, "busy_ns": int(busy * threads * SECOND), "time_ns": threads * SECOND}


def judged(
    encoders: tuple[int, float] = (1, 0.3),
    decoders: tuple[int, float] = (1, 0.3),
    *,
    client: dict[str, float] | None = None,
    server: dict[str, float] | None = None,
    cores: int = 8,
    busy: float = 0.4,
    streams: int = 1,
    **parameters: Any,
) -> Verdict:
    settings = {
        "target": "charrow://10.0.0.2:9006", "streams": streams, "threads": streams,
        "encoders": encoders[0], "decoders": decoders[0], **parameters,
    }  # fmt: skip
    host = end(busy, cores)
    half = busy * cores / 2
    return verdict(
        client if client is not None else {"await_input": 0.7, "receive": 0.1, "decode": 0.2},
        server if server is not None else {"await_input": 0.3, "generate": 0.1, "encode": 0.4, "send": 0.2},
        parameters=settings,
        client_end=host,
        server_end=host,
        cpu=(half, half),
        pools={"client": {"decoders": pool(*decoders)}, "server": {"encoders": pool(*encoders)}},
        environment=OF_CHARROW,
    )


@pytest.mark.parametrize(
    "missing", [None, {}, {"client": None, "server": None}, {"server": {"encoders": None}}]
)
def test_records_without_pools_are_judged_as_ever(missing: Any) -> None:
    line = trial({"await_input": 0.05, "receive": 0.9}, parameters={"target": "charrow://h:9006"}) | {
        "pools": missing
    }
    found = verdicts(summarise([line]), OF_CHARROW)
    assert [v.title for v in found.values()] == ["client: receive"]


# ---- links


MBIT = 1e6
PAYLOAD = 1448 / 1538
"""Of a link's rate, what TCP gets in full packets."""
OVER_LINKS = {
    "command": ["venturi", "run", "--target", "flight://local", "--link", "100mbit 10ms"],
    "client": {"sysctls": {"net.ipv4.tcp_congestion_control": "cubic"}},
}


def made_link(text: str, bits: float | None, trip_ms: float, lost: int = 0) -> dict[str, Any]:
    """What was measured of a link, the same both ways."""
    found: dict[str, Any] = {"asked": text, "round_trip_ns": int(trip_ms * 1e6)}
    for way in ("up", "down"):
        found |= {f"{way}_bits_per_second": bits, f"{way}_packets": 10_000, f"{way}_lost": lost}
    return found


def over(
    text: str,
    bits: float | None,
    share: float,
    client: dict[str, float] = IDLE_CLIENT,
    server: dict[str, float] = BLOCKED_SERVER,
    trip_ms: float = 10.0,
    cross: float | None = None,
    parameters: dict[str, Any] | None = None,
    probes: list[dict[str, Any]] | None = None,
    environment: dict[str, Any] | None = None,
    packings: tuple[Packing, ...] = (),
    seen: dict[str, Any] | None = None,
    **settings: Any,
) -> Verdict:
    """The verdict of five trials that move so much of what is left of such a link; `seen` is what else was
    measured of it."""
    free = (bits or 1e8) / 8 * PAYLOAD * (1 - (cross or 0) / 100)
    given = {"link": text, "cross": cross, "target": "flight://local", **(parameters or {})}
    ends = {"client_end": far(), "server_end": far()} | settings
    record = trial(
        client, server, parameters=given, rate=share * free / 1.01, **ends,
        link=made_link(text, bits, trip_ms) | (seen or {}),
    )  # fmt: skip
    return judge(cell_of(record, probes=probes), OVER_LINKS if environment is None else environment, packings)


FULL = {"client_end": end(0.99, 2, network=FAR), "server_end": end(0.99, 2, network=FAR), "cpu": (1.0, 0.95)}
MOVING = {"receive": 0.9, "await_input": 0.1}, {"send": 0.9, "await_output": 0.1}
LOSSY = "200mbit 20ms loss 1% reno"
LABEL = "records, 4 columns, sequential"
PACKED = (Packing("zstd", LABEL, 100e6, 900e6, 4.0), Packing("lz4", LABEL, 900e6, 2e9, 2.5))


def link(packed: bool = False, **given: Any) -> Verdict:
    return over(packings=PACKED if packed else (), **with_probes(with_ends(given)))


@pytest.mark.parametrize(
    ("table", "make"),
    [("transfers", case), ("upserts", database), ("charrow", judged), ("links", link), ("sweeps", swept)],
)
def test_causes_and_words(table: str, make: Callable[..., Verdict]) -> None:
    check_table(table, make)


@pytest.mark.parametrize(
    ("text", "bits", "helps"),
    [
        ("50gbit bbr", 50e9, True),
        ("unshaped bbr", None, True),
        ("50gbit cubic", 50e9, False),
        ("50gbit loss 0.1% bbr", 50e9, False),
        ("1gbit bbr", 1e9, False),
        ("50gbit 65ms bbr", 50e9, False),
        ("50gbit/1gbit bbr", 50e9, True),
        ("1gbit/50gbit bbr", 1e9, False),
    ],
)
def test_pacing_is_left_where_the_ends_are_what_is_slow(text: str, bits: float | None, helps: bool) -> None:
    found = over(text, bits, 0.5, *MOVING, trip_ms=0.1, **FULL)
    assert found.cause == "cores-full", found
    assert not helps or "CUBIC" in found.next[0]
    (advice,) = [text for text in found.next if "CUBIC instead of BBR" in text] or [""]
    assert advice.count("cubic") == helps, found.next


def test_the_way_that_the_data_take_is_the_one_that_counts() -> None:
    slow_up = made_link("1gbit/100mbit 10ms", 1000 * MBIT, 10.0) | {"up_bits_per_second": 100 * MBIT}
    given = {"link": "1gbit/100mbit 10ms", "cross": None, "target": "flight://local"}
    ends = {"client_end": far(), "server_end": far()}
    causes = {}
    for operation, stages in (("put", (BLOCKED_SERVER, IDLE_CLIENT)), ("get", (IDLE_CLIENT, BLOCKED_SERVER))):
        asked = {**given, "operation": operation}
        record = trial(*stages, parameters=asked, rate=11.5e6, **ends, link=slow_up)
        causes[operation] = judge(cell_of(record), OVER_LINKS).cause
    assert causes["put"] == "link-full"
    assert causes["get"] != "link-full"


@pytest.mark.parametrize(
    ("parameters", "seen"),
    [
        ({"loaders": 4, "backplane": "as fast as light"}, {}),
        ({"link": "by carrier pigeon"}, {}),
        ({"cross": "some"}, {}),
        ({"cross": 100}, {}),
        ({}, {"round_trip_ns": 0}),
        ({}, {"down_bits_per_second": 0}),
        ({}, {"down_bits_per_second": -1.0}),
    ],
)
@pytest.mark.parametrize("text", ["1gbit", LOSSY])
def test_a_newer_or_damaged_record_is_judged_too(
    parameters: dict[str, Any], seen: dict[str, Any], text: str
) -> None:
    told = over(text, 1000 * MBIT, 0.04, trip_ms=20, parameters=parameters, seen=seen)
    assert told.cause != "link-full" and told.sentence


def test_datagrams_know_no_start_and_no_losses() -> None:
    for text, trip in (("100mbit 200ms", 200), (LOSSY, 20)):
        causes = {
            over(
                text, 100 * MBIT, 0.12, {"send": 0.4, "await_output": 0.6}, {}, trip_ms=trip,
                parameters={"operation": "ingest", "target": f"akumuli{way}://local", "ack": None},
                counts={"rows": 1000, "batches": 10, "payload_bytes": 100_000, "wire_bytes": 700_000},
            ).cause
            for way in ("", "+udp")
        }  # fmt: skip
        assert len(causes) == 2 and causes & {"slow-start", "loss"}, causes


# TCP's laws


def test_the_laws_of_losses() -> None:
    reno = link_law.loss_bound("reno", 1460, 0.1, 0.0001)
    assert reno == pytest.approx(1460 / 0.1 * 122.47, rel=1e-3)
    # RFC 9438's table 1: at 10 Gbit/s-like windows, p = 0.0001 and 0.1 s, CUBIC has 187 packets.
    assert link_law.loss_bound("cubic", 1, 0.1, 0.0001) * 0.1 == pytest.approx(187, rel=0.01)
    # Over short ways CUBIC does what Reno does.
    assert link_law.loss_bound("cubic", 1460, 0.001, 0.01) == link_law.loss_bound("reno", 1460, 0.001, 0.01)


def test_the_start() -> None:
    assert link_law.trips_to_fill(80.0, 10.0) == 3
    assert link_law.trips_to_fill(5.0, 10.0) == 0
    # One trip without data, then 10, 20, 40, and 80 in each of the last six.
    assert link_law.started_share(10, 80.0, 10.0) == pytest.approx((70 + 6 * 80) / 800)
    assert link_law.started_share(0, 80.0, 10.0) == 0.0
    assert link_law.started_share(1e9, 80.0, 10.0) == pytest.approx(1.0)
    shares = [link_law.started_share(trips / 4, 1e6, 1e4) for trips in range(1, 200)]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
