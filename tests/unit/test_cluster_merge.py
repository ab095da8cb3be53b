"""Records of loaders merged, against a truth that is known."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import venturi
from support.cluster import AGREED, MS, ROW_BYTES, moved, part, record, stream
from support.golden import kept, known
from support.verdict import end
from venturi.cluster.trial.clock import Clock, Stamps, measure, of, stale
from venturi.cluster.trial.loaders import Part, Share, divide, lost, spec_of, threads_of
from venturi.cluster.trial.merge import merge, merged_latency
from venturi.common import hdr
from venturi.common.errors import ScenarioError
from venturi.engine.record import Trial, trial_of
from venturi.store.samples import samples_of

FAST = [stream(0, 0, 4000, 200), stream(1, 1, 4000, 220)]
SLOW = [stream(2, 0, 1000, 400, start_ms=3), stream(3, 0, 2000, 390)]


def two(**more: Any) -> list[Part]:
    return [
        part(1, record(FAST, {1000: 5, 2000: 5}), 0, lead=True),
        part(2, record(SLOW, {3000: 10}), 2, **more),
    ]


def test_shares_are_even_and_whole() -> None:
    assert divide(8, 3) == [Share(0, 3), Share(3, 3), Share(6, 2)]
    for streams in range(1, 40):
        for loaders in range(1, streams + 1):
            shares = divide(streams, loaders)
            assert [s.first for s in shares] == [sum(s.count for s in shares[:n]) for n in range(loaders)]
            assert sum(s.count for s in shares) == streams
            assert max(s.count for s in shares) - min(s.count for s in shares) <= 1
    with pytest.raises(ScenarioError, match="2 streams cannot be shared by 3 loaders"):
        divide(2, 3)


def test_the_specs_of_loaders() -> None:
    spec = {"streams": 8, "threads": 4, "loaders": 3, "rate": 100.0}
    specs = [spec_of(spec, share, n == 0) for n, share in enumerate(divide(8, 3))]
    assert [s["share"] for s in specs] == [
        {"first": 0, "count": 3, "lead": True},
        {"first": 3, "count": 3, "lead": False},
        {"first": 6, "count": 2, "lead": False},
    ]
    assert [s["threads"] for s in specs] == [2, 2, 1]
    # Streams and rate stay those of the whole trial, and the engine has not heard of loaders.
    assert all(s["streams"] == 8 and s["rate"] == 100.0 and "loaders" not in s for s in specs)
    assert threads_of({"streams": 8, "threads": 1}, Share(0, 2)) == 1


def test_a_clock_that_is_wrong() -> None:
    """The estimate lies within its own error, whatever the ways there and back take."""
    chance = random.Random(5)
    for _ in range(200):
        true, now = chance.randrange(-(10**10), 10**10), AGREED
        exchanges = []
        for _ in range(8):
            there, back, thinking = (chance.randrange(1, 3 * MS) for _ in range(3))
            received = now + there + true
            exchanges.append(Stamps(now, received, received + thinking, now + there + thinking + back))
            now += 10 * MS
        clock = of(exchanges)
        assert abs(clock.offset_ns - true) <= clock.uncertainty_ns + 1
        assert clock.uncertainty_ns <= min(e.round_trip_ns for e in exchanges) // 2 + 1
        assert clock.to_driver(clock.to_host(AGREED)) == AGREED
    assert Clock(5, 10, AGREED).at(AGREED + 10**9).uncertainty_ns == 10 + 50_000
    assert Clock().at(AGREED).uncertainty_ns == 0


def answered(now: Callable[[], int]) -> Future[int]:
    call: Future[int] = Future()
    call.set_result(now())
    return call


def test_measuring_asks_the_other_host() -> None:
    ticks = iter(range(AGREED, AGREED + 10**9, MS))
    ask = partial(answered, lambda: next(ticks) + 7 * 10**9)
    (clock,) = measure([ask], 1.0, rounds=4, local_now=lambda: next(ticks))
    assert clock == Clock(7 * 10**9, MS, AGREED + 2 * MS, MS)


@pytest.mark.parametrize(
    ("trips", "before", "asked"),
    [
        ([2.0, 0.9, 0.1], 0.0, 2),
        ([2.0] * 9, 0.0, 4),
        # Of a host that is far away, or busy, no exchange tells more than before.
        ([7.0, 5.0, 2.0], 2.0, 2),
    ],
)
def test_a_clock_that_is_known_well_enough_is_not_asked_again(
    trips: list[float], before: float, asked: int
) -> None:
    now, calls = AGREED, 0

    def there() -> int:
        nonlocal now, calls
        now += round(trips[calls] * MS)
        calls += 1
        return now

    known = [Clock(0, round(before * MS), AGREED, round(before * MS))]
    measure([partial(answered, there)], 1.0, known, rounds=4, local_now=lambda: now)
    assert calls == asked


def test_a_clock_does_not_get_worse_from_one_measuring_to_the_next() -> None:
    """Held against the one before, each might be half as wrong again."""
    now = AGREED

    def there(error_ms: float) -> int:
        nonlocal now
        now += round(2 * error_ms * MS)
        return now

    known = [Clock()]
    for error in (2.0, 2.8, 4.0, 5.8):
        known = measure([partial(answered, partial(there, error))], 1.0, known, 4, lambda: now)
    assert known[0].best_ns == 2 * MS
    # Of these 2.8 ms is about as good as ever; in all others the host was asked four times.
    assert now - AGREED == 2 * MS * (4 * 2.0 + 2.8 + 4 * 4.0 + 4 * 5.8)


def test_hosts_are_asked_together_and_each_for_itself() -> None:
    """Their answers come in any order; whose takes longer is the less certain one."""
    now = itertools.count(AGREED, MS).__next__
    waiting: list[Answer] = []

    class Answer(Future[int]):
        def result(self, timeout: float | None = None) -> int:
            for number, call in reversed([*enumerate(waiting)]):
                if not call.done():
                    call.set_result(now() + number * 10**12)
            return super().result(timeout)

    def ask() -> Answer:
        waiting.append(Answer())
        return waiting[-1]

    found = measure([ask] * 3, 60.0, rounds=1, local_now=now)
    assert len(waiting) == 3
    for number, clock in enumerate(found):
        assert abs(clock.offset_ns - number * 10**12) <= clock.uncertainty_ns
    assert found[2].uncertainty_ns < found[1].uncertainty_ns < found[0].uncertainty_ns


def test_a_clock_is_asked_again_when_drift_comes_near_its_error() -> None:
    def ages(uncertainty_ns: int) -> list[bool]:
        return [stale(Clock(0, uncertainty_ns, AGREED), AGREED + age * 10**9) for age in (9, 11, 21, 61)]

    assert stale(Clock(), AGREED)
    assert ages(1000) == [False, True, True, True]
    assert ages(MS) == [False, False, True, True]
    assert ages(100 * MS) == [False, False, False, True]


@pytest.mark.parametrize("samples", [10, None])
def test_the_steady_window_is_that_of_all_streams(samples: int | None) -> None:
    """From 34 ms, the first batch of the last stream to begin, until 200 ms, the end of the first to end."""
    parts = [
        part(1, record(FAST, {1: 1}, samples), 0, lead=True),
        part(2, record(SLOW, {1: 1}, samples), 2, late_ns=30 * MS),
    ]
    times = merge(parts, AGREED)["times"]
    low, high = 34 * MS, 200 * MS
    shifted = [{**s, "start_ns": s["start_ns"] + 30 * MS, "end_ns": s["end_ns"] + 30 * MS} for s in SLOW]
    truth = sum(moved(s, high) - moved(s, low) for s in [*FAST, *shifted])
    assert times["steady_ns"] == high - low
    assert times["steady_rows"] == pytest.approx(truth, rel=0.01)
    assert times["steady_payload_bytes"] == pytest.approx(truth * ROW_BYTES, rel=0.01)


def test_no_steady_window_where_a_stream_never_moved() -> None:
    still = [{**stream(2, 0, 0, 400), "first_batch_ns": 0}]
    parts = [part(1, record(FAST, {1: 1}), 0, lead=True), part(2, record(still, {1: 1}), 2)]
    assert merge(parts)["times"]["steady_ns"] == 0


@given(
    st.lists(st.dictionaries(st.integers(1, 10**9), st.integers(1, 50), min_size=1, max_size=30), min_size=2)
)
def test_percentiles_are_of_all_batches(parts: list[dict[int, int]]) -> None:
    """As if one recorder had had them all, and never means of percentiles."""
    whole: dict[int, int] = {}
    for counts in parts:
        for value, count in counts.items():
            whole[value] = whole.get(value, 0) + count
    # The slots' resolution is that of the encoding.
    exact = hdr.decode(hdr.encode(whole))
    found = merged_latency([hdr.summary(counts) for counts in parts])
    assert found is not None
    assert hdr.decode(found["hdr"]) == exact
    assert found["count"] == sum(whole.values())
    for percent, value in found["percentiles"]:
        assert value == hdr.percentile(exact, percent)
    assert {50.0, 95.0, 99.0, 99.9, 100.0} <= {percent for percent, _ in found["percentiles"]}
    mean = sum(value * count for value, count in whole.items()) / sum(whole.values())
    assert found["mean"] == pytest.approx(mean, rel=1e-6, abs=0.2)
    assert (found["min"], found["max"]) == (min(whole), max(whole))
    spread = sum(count * (value - mean) ** 2 for value, count in whole.items()) / sum(whole.values())
    assert found["stdev"] == pytest.approx(spread**0.5, rel=1e-3, abs=0.5)


def test_samples_add_up_at_common_instants() -> None:
    """Two loaders that were sampled at other moments: the sum is that of the truth at each instant."""
    other = record(SLOW, {1: 1}, 7)
    found = merge([two()[0], part(2, other, 2)])["samples"]
    assert set(found) == {"client", "server", "client:loader-1", "client:loader-2"}
    client = found["client"]
    for at, rows in zip(client["t_ns"], client["rows"], strict=True):
        truth = sum(moved(s, at) for s in [*FAST, *SLOW])
        # Between two samples progress is taken as even, which a stream's end is not.
        assert rows == pytest.approx(truth, abs=250)
    assert client["rows"][-1] == 11_000 and client["payload_bytes"][-1] == 88_000
    assert [items[-1] for items in client["streams"]] == [32_000, 32_000, 8_000, 16_000]
    assert client["rows"] == sorted(client["rows"])
    assert client["thread_names"] == ["loader-1/client-0", "loader-2/client-0"]
    assert found["client:loader-2"]["t_ns"] == other["samples"]["client"]["t_ns"]


def test_a_machine_that_two_loaders_share_is_counted_once() -> None:
    parts = two()
    one = {"boot_id": "same", "network": "n", "hostname": "h"}
    shared = [Part(**{**vars(p), "identity": {**one, "pid": n}}) for n, p in enumerate(parts)]
    apart = merge(parts)["samples"]["client"]
    together = merge(shared)["samples"]["client"]
    assert together["host_busy_ns"][-1] < apart["host_busy_ns"][-1]
    # Two processes have their own CPU time, on one machine too; one process has one.
    assert together["user_ns"] == apart["user_ns"]
    inside = [Part(**{**vars(p), "identity": {**one, "pid": 1}}) for p in parts]
    assert merge(inside)["cpu"]["client"] == {"user_ns": 100, "system_ns": 20}


def changed(given_: Part, **fields: Any) -> Part:
    """The same part with other fields of its record."""
    return Part(**{**vars(given_), "record": {**given_.record, **fields}})


def with_resources(given_: Part, cores: int, busy: float, rx: int, sockets: int, rtt: int) -> Part:
    shares = ("user", "system", "softirq", "irq", "steal", "iowait", "psi_cpu", "psi_memory", "psi_io")
    process = {name: 10 for name in ("user_ns", "system_ns", "run_delay_ns", "rss_max_bytes")}
    packets = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_drops", "tx_drops")
    client = end(
        busy, cores, process=process | {"threads": [{"name": "client-0", "cpu_share": busy}]},
        host={f"{name}_share": busy for name in shares} | {"memory_available_min_bytes": cores * 100},
        cgroup={"throttled_ns": 3}, disk={"read_bytes": 1, "written_bytes": 2, "busy_share": busy},
        network={"loopback": False, **dict.fromkeys(packets, rx), "speed_bits_per_second": 10**9},
        sockets={"count": sockets, "rtt_ns": rtt, "retransmits": 4, "busy_share": 0.5},
    )  # fmt: skip
    lead = {"same_machine": False, "clock": {"offset_ns": 4, "uncertainty_ns": 2}, "server": {"by": "self"},
            "helpers": {"relay": {"by": "client"}}}  # fmt: skip
    of_all = {"client": client, "sampler": {"samples": 3, "cpu_ns": 2, "share": 0.1}}
    return changed(given_, resources=dict.fromkeys(lead) | (lead if given_.lead else {}) | of_all)


def test_a_server_on_the_common_line_has_the_errors_of_both_clocks() -> None:
    one, other = (with_resources(part, 2, 0.5, 1, 1, 1) for part in two())
    found = merge([replace(one, clock=Clock(0, 3)), other])
    assert found["resources"]["clock"] == {"offset_ns": 4, "uncertainty_ns": 5}


def with_errors(given_: Part, code: str, first: int) -> Part:
    kind = {"kind": "server", "code": code, "count": 2, "message": code, "stream": 0, "first_ns": first}
    both = {**kind, "code": "both", "message": f"at {first}"}
    counts = {"refused": {"batches": 2, "rows": 20}, "in_doubt": {"batches": 1, "rows": 10}, "retries": 3}
    return changed(given_, errors={**counts, "kinds": [kind, both]})


def merged() -> dict[str, dict[str, Any]]:
    one, other = two()
    gone = lost("is gone (12:00:00 UTC)", {"rows": 700, "payload_bytes": 5600, "elapsed_ns": 90 * MS}, AGREED)
    cancelled = {"outcome": "interrupted", "error": {"kind": "cancelled", "message": "x", "stream": None}}
    never = [Part(f"loader-{n}", Share(n, 1), lost("is gone", {}), lead=n == 0) for n in range(3)]
    ahead = Clock(5 * 10**9, 200_000, AGREED)
    return {
        "two loaders": merge([one, other]),
        # One clock is five seconds ahead, its loader began 30 ms late, and the clock may be 0.2 ms wrong.
        "clocks that disagree": merge(two(clock=ahead, late_ns=30 * MS), AGREED),
        "all began late": merge(
            [part(1, one.record, 0, True, late_ns=20 * MS), part(2, other.record, 2, late_ns=50 * MS)], AGREED
        ),
        "resources": merge(
            [with_resources(one, 2, 1.0, 100, 2, 50), with_resources(other, 6, 0.2, 300, 5, 90)]
        ),
        "errors of batches": merge([with_errors(one, "a", 50), with_errors(other, "b", 10)]),
        "a lost loader": merge([changed(one, **cancelled), Part(**{**vars(other), "record": gone})]),
        "a trial that never began": merge(never),
    }


def test_merged_records() -> None:
    """Counts and times of both are sums, streams are all there, what was counted until a loss is kept. Of all
    but the first the fields are told that differ from it."""
    found, lines, usual = merged(), [], dict[str, Any]()
    for name in found:
        assert all(s["end_ns"] <= found[name]["times"]["interval_ns"] for s in found[name]["streams"])
        # Percentiles and samples are compared with the truth below.
        fields = {field: one for field, one in found[name].items() if field not in ("latency", "samples")}
        changed = known({field: one for field, one in fields.items() if usual.get(field) != one})
        lines += [f"# {name}", *(f"{field}: {json.dumps(one)}" for field, one in changed.items()), ""]
        usual = usual or fields
    kept("merged", "\n".join(lines))


def test_one_loader_is_itself() -> None:
    alone = two()[0]
    found = merge([alone])
    for name in ("counts", "streams", "latency", "cpu", "samples", "workers", "verification"):
        assert found[name] == alone.record[name]
    assert found["times"] == dict(alone.record["times"])
    assert len(found["hosts"]) == 1


def test_a_merged_record_is_a_line_as_the_schema_has_it() -> None:
    import jsonschema

    from venturi.engine.spec import trial_line
    from venturi.plan.cell import Cell

    found = merge(two())
    del found["samples"]
    parameters = {"operation": "get", "place": "far", "target": "flight://far", "data": "records"}
    parameters |= {"streams": 4, "threads": 4, "rows_per_batch": 10, "verify": "checksum"}
    cell = Cell({**parameters, "loaders": 2, "on": "ray"})
    line = trial_line(found, run="r", trial="t", cell=cell, repeat=0, warmup=False, order=0)
    path = Path(venturi.__file__).parent / "schema" / "trial.schema.json"
    jsonschema.validate(json.loads(json.dumps(line)), json.loads(path.read_text()))


def test_tables_of_hosts_and_their_samples() -> None:
    from venturi.store import tables

    found = merge(two())
    line = {"run": "r", "trial": "t", **found}
    rows = tables.hosts([trial_of(line), Trial(run="r", trial="u")]).to_pylist()
    assert [(r["host"], r["first_stream"], r["streams"], r["rows"]) for r in rows] == [
        ("loader-1", 0, 2, 8000),
        ("loader-2", 2, 2, 3000),
    ]
    assert rows[0]["rows_per_second"] == pytest.approx(8000 / 0.22)
    samples = samples_of(found["samples"])
    assert set(samples["end"].to_pylist()) == {"client", "client:loader-1", "client:loader-2"}
