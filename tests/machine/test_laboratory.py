"""Links as they are made: rate, round trip, jitter, loss by ping and iperf3, which know nothing of them.

Twins: crates/core/src/link for the relay, tests/unit/test_links.py for what a link is made of and when it is
not as asked."""

from __future__ import annotations

import contextlib
import math
import shlex
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import redis as redis_support
from support.link import IPERF_PORT, SERVER, inside, iperf3, laboratory, listening, ping
from support.needs import require_server
from support.read import ran
from venturi.analysis.advice.trials import unbalanced
from venturi.analysis.cells.machines import cpu_balance
from venturi.common.links import parse
from venturi.engine.record import trial_of
from venturi.netlab.laboratory import RATE_OFF, TRIP_OFF, TRIP_OFF_NS, Laboratory, WrongLink

pytestmark = pytest.mark.usefixtures("core")

SURELY = 4.5
"""Standard deviations."""
UDP = "--udp"
_FAST, _SPARE = 5e9, 1.3
"""bits/s from which on iperf3 may be what is too slow, and how much more than a link it has to carry."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Laboratory]:
    with laboratory() as made:
        yield made


LINKS = ("50mbit 100ms", "200mbit 30ms", "500mbit 5ms", "1gbit 1ms", "2.5gbit", "10gbit")


@pytest.mark.parametrize("text", LINKS)
def test_a_link_is_what_was_asked_for(lab: Laboratory, text: str) -> None:
    """By tools that know nothing of it: rate within 3 %, round trip within 5 % + 0.2 ms."""
    link = parse(text)
    assert link.rate is not None
    # iperf3 itself may be what is too slow.
    least = 1 - RATE_OFF
    if max(link.rate) >= _FAST:
        lab.ready(parse("unshaped"), None)
        least = min(least, _filled(lab, link.mtu) / _SPARE / max(link.rate))
    lab.ready(link, None)
    trip = min(ping(lab, 20, 0.02))
    assert abs(trip - link.round_trip_ns / 1e6) <= (TRIP_OFF * link.round_trip_ns + TRIP_OFF_NS) / 1e6
    with lab.held(lambda: None):
        for way, asked in zip(((), ("--reverse",)), reversed(link.rate), strict=True):
            found = _rate(lab, link.mtu, asked, *way)
            assert least <= found / asked <= 1 + RATE_OFF, f"{way or 'up'}: {found / 1e6:.2f} Mbit/s"


def _rate(lab: Laboratory, mtu: int, asked: float, *way: str) -> float:
    """Bits/s on the wire that iperf3 fills the link with: datagrams, or where a core cannot send as many,
    some streams of TCP."""
    if asked <= 1e8:
        size = mtu - 28
        words = (UDP, "--bitrate", round(1.2 * asked), "--length", size, "--time", 2, "--omit", 1)
        end = iperf3(lab, *words, *way)["sum_received"]
        return float(end["bits_per_second"]) * (mtu + 38) / size
    return _filled(lab, mtu, *way)


def _filled(lab: Laboratory, mtu: int, *way: str) -> float:
    words = ("--parallel", 4, "--time", 2, "--omit", 1, "--zerocopy")
    end = iperf3(lab, *words, *way)["sum_received"]
    return float(end["bits_per_second"]) / parse(f"mtu {mtu}").payload_part


def test_a_link_that_is_not_alike_both_ways(lab: Laboratory) -> None:
    link = parse("100mbit/20mbit 30ms mtu 1200")
    lab.ready(link, None)
    down, up = _rate(lab, 1200, 1e8, "--reverse"), _rate(lab, 1200, 2e7)
    assert down == pytest.approx(1e8, rel=RATE_OFF) and up == pytest.approx(2e7, rel=RATE_OFF)


def test_jitter_is_as_asked(lab: Laboratory) -> None:
    """A round trip has two ways; on each the delay wanders within half of it, straight between values
    that are drawn, all alike."""
    lab.ready(parse("100mbit 20ms jitter 6ms"), None)
    trips = ping(lab, 200, 0.02)
    assert len(trips) == 200
    assert min(trips) >= 14 and max(trips) <= 26 + 2
    # Two such ways: values of variance 3^2 / 3, of which between two 2/3 is left on average.
    spread = math.sqrt(2 * 3 * 2 / 3)
    assert statistics.mean(trips) == pytest.approx(20, abs=SURELY * spread / math.sqrt(100) + 0.3)
    assert statistics.stdev(trips) == pytest.approx(spread, rel=0.2)


def test_losses_are_as_asked(lab: Laboratory) -> None:
    lab.ready(parse("50mbit 4ms loss 2%/1%"), None)
    sent = 1000
    came = len(ping(lab, sent, 0.004))
    part = 1 - 0.98 * 0.99
    assert abs(sent - came - sent * part) <= SURELY * math.sqrt(sent * part * (1 - part))
    for way, loss in (((), 0.01), (("--reverse",), 0.02)):
        end = iperf3(lab, UDP, "--bitrate", "20M", "--length", 1472, "--time", 2, *way)["sum_received"]
        spread = SURELY * math.sqrt(end["packets"] * loss * (1 - loss))
        assert abs(end["lost_packets"] - end["packets"] * loss) <= spread, end


def test_a_buffer_is_as_asked(lab: Laboratory) -> None:
    """What waits before the slowest place: so long is a packet late while somebody fills the link."""
    lab.ready(parse("20mbit 10ms buffer 100kB"), None)
    words = ("iperf3", "--client", SERVER, UDP, "--bitrate", "30M", "--length", 1472, "--time", 4)
    with contextlib.ExitStack() as ends:
        for end, given in (("server", ("iperf3", "--server", "--one-off")), ("client", words)):
            running = subprocess.Popen(inside(lab, end, *given), stdout=subprocess.DEVNULL)
            ends.callback(running.wait)
            ends.callback(running.kill)
            if end == "server":
                listening(lab.within("server"), IPERF_PORT)
        late = [trip for trip in ping(lab, 60, 0.04) if trip > 20]
    # 100 kB at 20 Mbit/s are 40 ms.
    assert late and statistics.median(late) == pytest.approx(50, rel=0.15), late


def test_a_path_that_is_changed_behind_its_back_is_found_out(lab: Laboratory) -> None:
    link = parse("50mbit 10ms")
    lab.ready(link, None)
    middle = f"--net=/proc/{lab._line._child.pid}/ns/net"
    bucket = "root tbf rate 40mbit burst 20000 limit 65536"
    for interface, way in (("toward-c", "down"), ("toward-s", "up")):
        words = ["nsenter", middle, "--", "tc", "qdisc", "replace", "dev", interface, *bucket.split()]
        subprocess.run(words, check=True)
        with pytest.raises(WrongLink) as wrong:
            lab.look(link)
        text = str(wrong.value)
        assert text.startswith(f"the path is not 50mbit 10ms: rate {way}: 50 Mbit/s were asked for, 40")
        assert wrong.value.found[f"{way}_bits_per_second"] == pytest.approx(4.06e7, rel=0.02)
        lab._now = None
        lab.ready(link, None)


@pytest.mark.parametrize("operation", ["get", "put"])
def test_others_take_their_share(tmp_path: Path, operation: str) -> None:
    words = ("--target", "flight://local", "--operation", operation, "--link", "100mbit 5ms")
    once = ("--duration", "2s", "--repeats", 1, "--warmup", 0, "--no-ceilings", "--no-report")
    rates = {}
    for trial in ran(tmp_path / "run", *words, "--cross", "50%,none", "--streams", 1, *once):
        rate = trial["counts"]["payload_bytes"] * 8e9 / trial["times"]["interval_ns"]
        rates[trial["parameters"]["cross"]] = rate / (1e8 * parse("100mbit").payload_part)
    assert rates[None] == pytest.approx(1.0, abs=0.08) and rates[50.0] == pytest.approx(0.5, abs=0.1), rates


_GOOD = ("--duration", "1s", "--repeats", "1", "--warmup", "0", "--no-report", "--no-ceilings")
# The others are in test_verdicts.py.
_TARGETS = {
    "http+arrow": "--target http+arrow://local --operation get,put",
    "cassandra": "--target cassandra://local",
    "redis": "--target redis://local",
    "clickhouse": "--target clickhouse://local --operation put",
    "influx": "--target influx://local --hosts 100",
}


@pytest.mark.parametrize("name", _TARGETS)
def test_systems_over_a_link(tmp_path: Path, name: str) -> None:
    with redis_support.found() if name == "redis" else contextlib.nullcontext():
        if name in ("cassandra", "redis", "clickhouse"):
            require_server(name)
        trials = ran(tmp_path / "run", *shlex.split(_TARGETS[name]), "--link", "200mbit 4ms", *_GOOD)
    assert trials
    for trial in trials:
        assert trial["outcome"] == "ok" and trial["counts"]["rows"] > 0
        assert trial["verification"]["achieved"] in ("checksum", "sums", "count", "acknowledged")
        assert trial["link"]["round_trip_ns"] == pytest.approx(4_000_000, abs=400_000)
        rate = trial["counts"]["payload_bytes"] * 8e9 / trial["times"]["interval_ns"]
        assert rate < 2e8
        # What the relay used is Venturi's, and no more than the host was busy.
        found = cpu_balance(trial_of(trial))
        assert found is not None and found.parts["relay"] > 0 and not [*unbalanced([trial_of(trial)])]
