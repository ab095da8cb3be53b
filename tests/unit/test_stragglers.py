"""Stragglers: found where one was planted, and not where none was; records by formula, noise from seeds."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from support.draws import draws, slack
from support.golden import kept
from venturi.analysis.advice import straggler_advice
from venturi.analysis.advice.stragglers import Straggler, machines, stragglers
from venturi.analysis.cells.summary import Cell, summarise

WORK = 1e8
"""Bytes of a stream, where the work is fixed."""
DURATION_NS = 10**9
EVEN = [100e6] * 4
SLOW = [100e6, 100e6, 40e6, 100e6]
"""Bytes a second of each stream, by loader; the third is the straggler."""


def trial(
    rates: Sequence[float],
    *,
    streams: Sequence[int] | None = None,
    fixed_time: bool = False,
    addresses: Sequence[str] | None = None,
    parts: Mapping[int, Mapping[str, Any]] | None = None,
    servers: Sequence[float] = (1.0,),
    server: str = "10.0.0.100",
    rate_kept: float | None = None,
    late_ns: Mapping[int, int] | None = None,
) -> dict[str, Any]:
    """As much of a record as several loaders of one cell leave. `servers`: by what each multiplies rates;
    `parts`: more of a loader's item of `hosts`; `late_ns`: how much later a loader's streams begin."""
    counts = streams or [2] * len(rates)
    hosts, listed, first = [], [], 0
    for i, (speed, count) in enumerate(zip(rates, counts, strict=True)):
        own = []
        for number in range(first, first + count):
            each, begun = speed * servers[number % len(servers)], (late_ns or {}).get(i, 0)
            moved = each * (DURATION_NS - begun) / 1e9 if fixed_time else WORK
            end = DURATION_NS if fixed_time else begun + round(WORK / each * 1e9)
            one = {"stream": number, "payload_bytes": moved, "rows": 1, "start_ns": begun, "end_ns": end}
            own.append(one)
        host = {"host": f"loader-{i + 1}", "node": f"node{i + 1}", "streams": [first, count]}
        host["address"] = addresses[i] if addresses else f"10.0.0.{i + 1}"
        host["interval_ns"] = max(stream["end_ns"] for stream in own)
        host["payload_bytes"] = sum(stream["payload_bytes"] for stream in own)
        hosts.append(host | dict((parts or {}).get(i) or {}))
        listed += own
        first += count
    interval = max(stream["end_ns"] for stream in listed)
    size = {"duration_ns": DURATION_NS} if fixed_time else {"rows_per_stream": 1}
    moved = sum(stream["payload_bytes"] for stream in listed)
    address = ",".join(f"{server}{n or ''}:31337" for n in range(len(servers)))
    return {
        "cell": "one", "outcome": "ok", "times": {"interval_ns": interval}, "hosts": hosts, "streams": listed,
        "parameters": {"operation": "get", "place": "remote", "target": "flight://remote", "on": "ray",
                       "streams": len(listed), "loaders": len(rates), "rows_per_stream": None,
                       "duration_ns": None, **size},
        "target": {"address": address, "protocol": "perf", "reference": True},
        "counts": {"payload_bytes": moved, "rows": len(listed),
                   "batches": (rate_kept or 0.0) * interval / 1e6},
        "schedule": {"rate": 1000.0} if rate_kept is not None else None,
    }  # fmt: skip


def cell_of(trials: Sequence[Mapping[str, Any]]) -> Cell:
    (cell,) = summarise([{**one, "repeat": n} for n, one in enumerate(trials)])
    return cell


def found(*trials: Mapping[str, Any], **more: Any) -> list[Straggler]:
    return stragglers(cell_of(trials), **more)


def noisy(
    loaders: int,
    repeats: int,
    seed: int,
    spread: float,
    planted: float | None = None,
    hosts: float = 0.03,
    disturbed: float = 0.05,
) -> tuple[Cell, str]:
    """A cell whose trials differ as real ones do, and who was planted: rates of a trial have a factor in
    common, hosts differ for good, each trial of each host again by `spread` (log-normal), and now and then
    one is disturbed to a fifth to four fifths of its rate."""
    chance = random.Random(seed)
    usual = [math.exp(chance.gauss(0, hosts)) for _ in range(loaders)]
    who = chance.randrange(loaders)
    if planted is not None:
        usual[who] *= planted
    trials = []
    for _ in range(repeats):
        common = 1e8 * math.exp(chance.gauss(0, 0.1))
        rates = []
        for own in usual:
            disturbance = chance.uniform(0.2, 0.8) if chance.random() < disturbed else 1.0
            rates.append(common * own * math.exp(chance.gauss(0, spread)) * disturbance)
        trials.append(trial(rates))
    return cell_of(trials), f"loader-{who + 1}"


@pytest.mark.parametrize("loaders", [3, 4, 8, 32])
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_a_planted_one_is_found_and_nobody_else(loaders: int, repeats: int) -> None:
    for seed in range(draws(30)):
        cell, who = noisy(loaders, repeats, seed, 0.02, planted=0.5, disturbed=0.0)
        assert [one.names for one in stragglers(cell)] == [(who,)], seed


@pytest.mark.parametrize(("spread", "disturbed"), [(0.02, 0.05), (0.08, 0.05), (0.15, 0.02), (0.3, 0.0)])
@pytest.mark.parametrize("loaders", [2, 3, 4, 8])
def test_where_none_was_planted_none_is_found(loaders: int, spread: float, disturbed: float) -> None:
    """At most one run in a hundred is told of one that chance made, however much trials differ."""
    seeds = draws(100)
    accused = sum(
        bool(stragglers(noisy(loaders, repeats, seed, spread, disturbed=disturbed)[0]))
        for repeats in (3, 5)
        for seed in range(seeds)
    )
    assert accused / (2 * seeds) <= 0.01 + slack(2 * seeds, 0.01)


@pytest.mark.parametrize("loaders", [4, 8])
def test_a_planted_one_is_mostly_found_in_noise_too(loaders: int) -> None:
    hits, tries = 0, draws(50)
    for seed in range(tries):
        cell, who = noisy(loaders, 5, seed, 0.08, planted=0.4)
        accused = [one.name for one in stragglers(cell)]
        assert accused in ([], [who]), seed
        hits += accused == [who]
    assert hits >= 0.9 * tries


def test_the_figures_of_fixed_work() -> None:
    (one,) = found(*[trial(SLOW)] * 4, trial(EVEN))
    assert (one.name, one.address, one.behind, one.trials) == ("loader-3", "10.0.0.3", 4, 5)
    assert one.others == ("loader-1", "loader-2", "loader-4") and not one.one_of_two
    assert one.ratio == pytest.approx(0.4)
    # 2.5 s beside 1 s.
    assert one.later_ns == pytest.approx(1.5e9) and one.cost == pytest.approx(0.6)
    # Of fixed time 60 of 340 MB a second are lacking.
    (one,) = found(*[trial(SLOW, fixed_time=True)] * 3)
    assert one.later_ns is None and one.cost == pytest.approx(60 / 340)


def test_one_that_moves_nothing_is_furthest_behind() -> None:
    stuck = trial(EVEN, fixed_time=True)
    for stream in stuck["streams"][4:6]:
        stream |= {"payload_bytes": 0, "rows": 0, "end_ns": 0}
    (one,) = found(*[stuck] * 3)
    assert one.name == "loader-3" and one.ratio == pytest.approx(0.0, abs=1e-3)
    assert one.cost == pytest.approx(1 / 3)
    # One that begins late is behind by that.
    (one,) = found(*[trial(EVEN, late_ns={1: 3 * 10**9})] * 3)
    assert one.name == "loader-2" and one.ratio == pytest.approx(0.25)


# Who is accused.


def others(slow: float, count: int = 4, at: int = 2) -> list[float]:
    """Rates of so many loaders, of which one is slower."""
    return [slow if n == at else 100e6 for n in range(count)]


BOOTS = {f"loader-{n}": "ab" if n in (3, 4) else str(n) for n in range(1, 6)}
TWICE = [100e6, 100e6, 50e6, 50e6, 100e6]
SEVEN = [100e6, 50e6, 100e6, 100e6, 100e6, 40e6, 100e6]
ONE_EACH = [1] * 6
ACCUSED: dict[str, tuple[list[dict[str, Any]], dict[str, Any], list[tuple[str, ...]]]] = {
    "all alike": ([trial(EVEN)] * 5, {}, []),
    "one trial is no habit": ([trial(SLOW)], {}, []),
    "two trials are no habit": ([trial(SLOW)] * 2, {}, []),
    "just not far enough": ([trial(others(81e6))] * 5, {}, []),
    "another one each time": ([trial(others(30e6, at=n)) for n in (0, 1, 2, 3, 0)], {}, []),
    "disturbed now and then": ([trial(SLOW)] * 2 + [trial(EVEN)] * 3, {}, []),
    # Nobody knows what is usual.
    "half of them": ([trial([100e6, 100e6, 40e6, 40e6])] * 5, {}, []),
    "two of three": ([trial([100e6, 40e6, 40e6])] * 5, {}, []),
    "hosts that all differ": ([trial([100e6, 75e6, 56e6, 42e6])] * 5, {}, []),
    "of two, in too few trials": ([trial([100e6, 40e6])] * 4, {}, []),
    "of two": ([trial([100e6, 40e6])] * 5, {}, [("loader-2",)]),
    "one alone": ([trial([100e6])] * 5, {}, []),
    "two of many": ([trial(SEVEN)] * 3, {}, [("loader-6",), ("loader-2",)]),
    "a schedule that was kept": ([trial(SLOW, rate_kept=1.0)] * 5, {}, []),
    "a schedule that was not kept": ([trial(SLOW, rate_kept=0.6)] * 5, {}, [("loader-3",)]),
    "two on one machine": ([trial(TWICE, addresses=[*"abccd"])] * 5, {}, []),
    # As --on local has them.
    "all on one address": ([trial(SLOW, addresses=["127.0.0.1"] * 4)] * 5, {}, []),
    "two on one machine by its boot": ([trial(TWICE)] * 5, {"boots": BOOTS}, []),
    "all on one machine by its boot": (
        [trial(SLOW)] * 5, {"boots": dict.fromkeys(BOOTS, "ab")}, [("loader-3",)]),
    "a host with as many loaders as the others": (
        [trial([100e6] * 4 + [40e6] * 2 + [100e6] * 2, addresses=[*"aabbccdd"])] * 3, {},
        [("loader-5", "loader-6")]),
    "of two hosts, in too few trials": (
        [trial([100e6] * 2 + [40e6] * 2, addresses=[*"aabb"])] * 4, {}, []),
    "of two hosts": (
        [trial([100e6] * 2 + [40e6] * 2, addresses=[*"aabb"])] * 5, {}, [("loader-3", "loader-4")]),
    "one beside the server": ([trial(others(40e6, at=0), server="10.0.0.1")] * 5, {}, []),
    # 3, 2, 2 and 2 streams share as much of a host; and as much of a stream.
    "more streams on one": (
        [trial([200e6, 300e6, 300e6, 300e6], streams=[3, 2, 2, 2], fixed_time=True)] * 5, {}, []),
    "fewer streams on one": ([trial(EVEN, streams=[3, 1, 3, 3], fixed_time=True)] * 5, {}, []),
    # Loaders 3 and 6 have all of their one stream at the third of three servers.
    "a slow server": (
        [trial([100e6] * 6, streams=ONE_EACH, servers=(1.0, 1.0, 0.3))] * 5, {}, []),
    "alone at a slow server": ([trial([100e6] * 3, streams=[1] * 3, servers=(1.0, 1.0, 0.3))] * 5, {}, []),
    # At the server of the second one is only the fifth beside it.
    "beside one other at its server": (
        [trial(others(40e6, 6, at=1), streams=ONE_EACH, servers=(1.0, 1.0, 1.0))] * 5, {}, [("loader-2",)]),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCUSED)
def test_who_is_accused(name: str) -> None:
    trials, more, names = ACCUSED[name]
    assert [one.names for one in found(*trials, **more)] == names


def test_a_host_is_named_by_its_address_and_by_the_others() -> None:
    (one,) = found(*ACCUSED["a host with as many loaders as the others"][0])
    assert one.address == "c" and len(one.others) == 6 and one.hosts == 3 and not one.one_of_two
    for name in ("of two", "of two hosts"):
        (one,) = found(*ACCUSED[name][0])
        assert one.one_of_two


def test_machines_of_an_environment() -> None:
    hosts = {"loader-1": {"boot_id": "x"}, "loader-2": {"boot_id": None}}
    assert machines({"hosts": hosts}) == {"loader-1": "x"}
    assert machines({}) == {}


# What is said of it, in words in tests/data/golden/stragglers.txt.


def probe(name: str, rate: float) -> dict[str, Any]:
    return {
        "kind": "tcp", "place": "remote", "direction": "get", "name": name, "streams": 2, "outcome": "ok",
        "bytes": rate, "interval_ns": 10**9,
    }  # fmt: skip


def resources(groups: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    return {"cpu": {"user_ns": 10**8, "system_ns": 10**8}, "resources": {"window_ns": 10**9, **groups}}


def signs(own: Mapping[str, Any], others: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Trials of which the straggler has other resources than the others."""
    return [trial(SLOW, parts={n: resources(own if n == 2 else others) for n in range(4)})] * 3


QUOTA = {"cgroup": {"throttled_ns": 4e8}}
SAID: dict[str, list[dict[str, Any]]] = {
    "fixed work": [trial(SLOW)] * 3,
    "fixed time": [trial(SLOW, fixed_time=True)] * 3,
    "one of two": [trial([100e6, 40e6])] * 5,
    "two of seven": [trial(SEVEN)] * 3,
    "a late start": [trial(EVEN, late_ns={1: 3 * 10**9})] * 3,
    "a quota": signs(QUOTA, {"cgroup": {"throttled_ns": 0}}),
    "a quota that all have": signs(QUOTA, QUOTA),
    "stolen time": signs({"host": {"steal_share": 0.3}}, {"host": {"steal_share": 0.01}}),
    "a busy host": signs(*({"host": {"busy_share": share, "cores": 8}} for share in (0.97, 0.3))),
    "a smaller host": signs({"host": {"cores": 2}}, {"host": {"cores": 8}}),
    "a slow port": signs(*({"network": {"speed_bits_per_second": speed}} for speed in (1e8, 1e10))),
    "retransmits": signs({"sockets": {"retransmits": 900}}, {"sockets": {"retransmits": 3}}),
    "drops": signs({"network": {"rx_drops": 70, "tx_drops": 7}}, {"network": {"rx_drops": 0, "tx_drops": 0}}),
    "far away": signs({"sockets": {"rtt_ns": 48e6}}, {"sockets": {"rtt_ns": 2e5}}),
    "a slow link": [trial(SLOW)] * 3,
    "a link as quick as the others'": [trial(SLOW)] * 3,
    "the worst of several cells": [
        {**trial(rates), "cell": str(n)}
        for n, rates in enumerate((SLOW, [100e6, 100e6, 20e6, 100e6], EVEN))
        for _ in range(3)
    ],
}
LINKS = {"a slow link": 5e6, "a link as quick as the others'": 110e6}
"""What raw TCP carries from the straggler alone."""


def test_what_is_said() -> None:
    told = []
    for name, trials in SAID.items():
        cells = summarise([{**one, "repeat": n} for n, one in enumerate(trials)])
        rates = [LINKS[name] if n == 3 else 110e6 for n in range(1, 5)] if name in LINKS else []
        probes = [probe(f"loader-{n}", rate) for n, rate in enumerate(rates, 1)]
        advice = straggler_advice.advise([one for cell in cells for one in stragglers(cell)], cells, probes)
        assert advice is not None and advice.kind == "straggler", name
        told.append("\n".join([f"# {name}", advice.finding, advice.cause, advice.next, ""]))
    kept("stragglers", "\n".join(told))
    assert straggler_advice.advise([], [], []) is None
