"""Verdicts of cells over a link that was made for them, on records made to measure
(tests/data/verdicts/links.toml), and TCP's laws. The words are in tests/data/golden/verdicts-links.txt."""

from __future__ import annotations

from typing import Any

import pytest

from support.verdict import (
    BLOCKED_SERVER,
    FAR,
    IDLE_CLIENT,
    cell_of,
    check_table,
    end,
    far,
    trial,
    with_ends,
    with_probes,
)
from venturi.analysis.models import tcp
from venturi.analysis.models.packing import Packing
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.judge import judge
from venturi.analysis.verdict.types import Verdict

MBIT = 1e6
PAYLOAD = 1448 / 1538
"""Of a link's rate, what TCP gets in full packets."""
ENVIRONMENT = {
    "command": ["venturi", "run", "--target", "flight://local", "--link", "100mbit 10ms"],
    "client": {"sysctls": {"net.ipv4.tcp_congestion_control": "cubic"}},
}


def made(text: str, bits: float | None, trip_ms: float, lost: int = 0) -> dict[str, Any]:
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
        link=made(text, bits, trip_ms) | (seen or {}),
    )  # fmt: skip
    return judge(
        cell_of(record, probes=probes), ENVIRONMENT if environment is None else environment, packings
    )


FULL = {"client_end": end(0.99, 2, network=FAR), "server_end": end(0.99, 2, network=FAR), "cpu": (1.0, 0.95)}
MOVING = {"receive": 0.9, "await_input": 0.1}, {"send": 0.9, "await_output": 0.1}
LOSSY = "200mbit 20ms loss 1% reno"
LABEL = "records, 4 columns, sequential"
PACKED = (Packing("zstd", LABEL, 100e6, 900e6, 4.0), Packing("lz4", LABEL, 900e6, 2e9, 2.5))


def case(packed: bool = False, **given: Any) -> Verdict:
    return over(packings=PACKED if packed else (), **with_probes(with_ends(given)))


def test_causes_and_words() -> None:
    check_table("links", case)


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
    assert found.cause is Cause.CORES_FULL, found
    assert not helps or "CUBIC" in found.next[0]
    (advice,) = [text for text in found.next if "CUBIC in place of BBR" in text] or [""]
    assert advice.count("cubic") == helps, found.next


def test_the_way_that_the_data_take_is_the_one_that_counts() -> None:
    slow_up = made("1gbit/100mbit 10ms", 1000 * MBIT, 10.0) | {"up_bits_per_second": 100 * MBIT}
    given = {"link": "1gbit/100mbit 10ms", "cross": None, "target": "flight://local"}
    ends = {"client_end": far(), "server_end": far()}
    causes = {}
    for operation, stages in (("put", (BLOCKED_SERVER, IDLE_CLIENT)), ("get", (IDLE_CLIENT, BLOCKED_SERVER))):
        asked = {**given, "operation": operation}
        record = trial(*stages, parameters=asked, rate=11.5e6, **ends, link=slow_up)
        causes[operation] = judge(cell_of(record), ENVIRONMENT).cause
    assert causes["put"] is Cause.LINK_FULL
    assert causes["get"] is not Cause.LINK_FULL


@pytest.mark.parametrize(
    ("parameters", "seen"),
    [
        ({"loaders": 4, "backplane": "as fast as light"}, {}),
        ({"link": "by carrier pigeon"}, {}),
        ({"cross": "some"}, {}),
        ({"cross": 100}, {}),
        ({}, {"round_trip_ns": 0}),
        ({}, {"round_trip_ns": None, "down_bits_per_second": "fast"}),
        ({}, {"down_bits_per_second": 0, "control": 7}),
        ({}, {"down_bits_per_second": -1.0}),
    ],
)
@pytest.mark.parametrize("text", ["1gbit", LOSSY])
def test_a_newer_or_damaged_record_is_judged_too(
    parameters: dict[str, Any], seen: dict[str, Any], text: str
) -> None:
    told = over(text, 1000 * MBIT, 0.04, trip_ms=20, parameters=parameters, seen=seen)
    assert told.cause is not Cause.LINK_FULL and told.sentence


def test_what_was_measured_of_a_link_may_be_no_object() -> None:
    given = {"link": LOSSY, "cross": None, "target": "flight://local"}
    record = trial(IDLE_CLIENT, BLOCKED_SERVER, parameters=given, link=["100mbit"])
    assert judge(cell_of(record), ENVIRONMENT).sentence


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
        assert len(causes) == 2 and causes & {Cause.SLOW_START, Cause.LOSS}, causes


# TCP's laws


def test_the_laws_of_losses() -> None:
    reno = tcp.loss_bound("reno", 1460, 0.1, 0.0001)
    assert reno == pytest.approx(1460 / 0.1 * 122.47, rel=1e-3)
    # RFC 9438's table 1: at 10 Gbit/s-like windows, p = 0.0001 and 0.1 s, CUBIC has 187 packets.
    assert tcp.loss_bound("cubic", 1, 0.1, 0.0001) * 0.1 == pytest.approx(187, rel=0.01)
    # Over short ways CUBIC does what Reno does.
    assert tcp.loss_bound("cubic", 1460, 0.001, 0.01) == tcp.loss_bound("reno", 1460, 0.001, 0.01)


def test_the_start() -> None:
    assert tcp.trips_to_fill(80.0, 10.0) == 3
    assert tcp.trips_to_fill(5.0, 10.0) == 0
    # One trip without data, then 10, 20, 40, and 80 in each of the last six.
    assert tcp.started_share(10, 80.0, 10.0) == pytest.approx((70 + 6 * 80) / 800)
    assert tcp.started_share(0, 80.0, 10.0) == 0.0
    assert tcp.started_share(1e9, 80.0, 10.0) == pytest.approx(1.0)
    shares = [tcp.started_share(trips / 4, 1e6, 1e4) for trips in range(1, 200)]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
