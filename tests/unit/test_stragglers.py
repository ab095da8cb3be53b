"""Stragglers: found where one was planted, and not where none was; records by formula, noise from seeds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from support.draws import draws, slack
from support.golden import kept
from support.mistakes import check
from support.verdict import summarise
from venturi.analysis.advice.stragglers import Straggler, advise, machines, stragglers
from venturi.analysis.cells.summary import Cell

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


def test_one_that_moves_nothing_is_furthest_behind() -> None:
    stuck = trial(EVEN, fixed_time=True)
    for stream in stuck["streams"][4:6]:
        stream |= {"payload_bytes": 0, "rows": 0, "end_ns": 0}
    (one,) = found(*[stuck] * 3)
    assert one.name == "loader-3" and one.ratio == pytest.approx(0.0, abs=1e-3)
    assert one.cost == pytest.approx(1 / 3)


# Who is accused: tests/data/texts/stragglers.txt.


SEVEN = [100e6, 50e6, 100e6, 100e6, 100e6, 40e6, 100e6]
READ: dict[str, Callable[[str], Any]] = {
    "addresses": str.split,
    "fixed_time": bool,
    "rate_kept": float,
    "server": str,
    "servers": lambda text: [float(word) for word in text.split()],
    "streams": lambda text: [int(word) for word in text.split()],
}
"""What a case may say of its trials, beside the rates of the loaders in MB/s."""


def told_by(case: str) -> list[Straggler]:
    """After its name a case has lines of trials that are alike: how many, their rates, and more of them."""
    trials, boots = [], {}
    for line in case.splitlines()[1:]:
        first, *more = line.split("; ")
        count, _, rates = first.partition(" x ")
        given = dict(one.split(" ", 1) for one in more)
        boots = {f"loader-{n}": boot for n, boot in enumerate(given.pop("boots", "").split(), 1)}
        options = {name: READ[name](text) for name, text in given.items()}
        trials += [trial([float(rate) * 1e6 for rate in rates.split()], **options)] * int(count)
    return found(*trials, boots=boots)


def test_who_is_accused() -> None:
    def said(case: str) -> str:
        lines = []
        for one in told_by(case):
            later = "" if one.later_ns is None else f", {one.later_ns / 1e9:g} s later"
            lines += [
                f"{one.name} at {one.address}: {one.ratio:.1%} in {one.behind} of {one.trials} trials, "
                f"cost {one.cost:.1%}{later}",
                f"beside {', '.join(one.others)}; hosts: {one.hosts}{'; one of two' * one.one_of_two}",
            ]
        return "\n".join(lines or ["nobody"])

    check("stragglers", said, "texts")


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
    "a slow port": signs(*({"network": {"speed_bits_per_second": speed}} for speed in (10**8, 10**10))),
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
        advice = advise([one for cell in cells for one in stragglers(cell)], cells, probes)
        assert advice is not None and advice.kind == "straggler", name
        told.append("\n".join([f"# {name}", advice.finding, advice.cause, advice.next, ""]))
    kept("stragglers", "\n".join(told))
    assert advise([], [], []) is None
