"""Verdicts of cells over a link that was made for them, on records made to measure, and TCP's laws."""

from __future__ import annotations

from typing import Any

import pytest

from support.verdict import BLOCKED_SERVER, IDLE_CLIENT, cell_of, end, far, raw_tcp, trial
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
    *args: Any,
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
        *(args or (IDLE_CLIENT, BLOCKED_SERVER)), parameters=given, rate=share * free / 1.01, **ends,
        link=made(text, bits, trip_ms) | (seen or {}),
    )  # fmt: skip
    return judge(
        cell_of(record, probes=probes), ENVIRONMENT if environment is None else environment, packings
    )


def test_a_link_that_is_full() -> None:
    found = over("100mbit 10ms", 100 * MBIT, 0.97)
    assert (found.kind, found.cause, found.title) == ("link", Cause.LINK_FULL, "link"), found
    assert found.confidence == "high"
    assert "the link (100 Mbit/s) is full: 11.4 MB/s on the wire are 97 % of what TCP gets" in found.sentence
    assert "not known" not in found.sentence
    text = "; ".join(found.next)
    assert "--link '200mbit 10ms'" in text, text
    # The loopback, another host and more streams are no help to a link.
    assert "ceilings" not in text and "hosts" not in text and "--streams" not in text


def test_raw_tcp_stands_beside_a_full_link() -> None:
    probes = raw_tcp(11.7e6, link="100mbit 10ms", cross=None)
    found = over("100mbit 10ms", 100 * MBIT, 0.97, probes=probes)
    assert found.cause is Cause.LINK_FULL
    assert "raw TCP over the same link, with as many connections, does 11.7 MB/s" in found.sentence


@pytest.mark.parametrize(("share", "holds"), [(0.89, False), (0.91, True)])
def test_a_link_is_full_from_nine_tenths(share: float, holds: bool) -> None:
    assert (over("100mbit 10ms", 100 * MBIT, share).cause is Cause.LINK_FULL) is holds


def test_a_link_is_full_although_its_cores_are() -> None:
    """What it carries was measured apart from the trial."""
    busy = end(0.93, 2, network={"loopback": False})
    found = over("1gbit", 1000 * MBIT, 0.97, client_end=busy, server_end=busy)
    assert found.cause is Cause.LINK_FULL


def test_a_server_on_another_host_is_reached_over_its_own_path() -> None:
    full = end(0.99, 2, network={"loopback": False})
    stages = {"receive": 0.9, "await_input": 0.1}, {"send": 0.9, "await_output": 0.1}
    ends = {"client_end": full, "server_end": full, "cpu": (1.0, 0.95)}
    found = over("10gbit", 10_000 * MBIT, 0.5, *stages, **ends)
    assert found.cause is Cause.CORES_FULL, found
    (elsewhere,) = [text for text in found.next if "flight://HOST" in text]
    assert "--link" not in elsewhere, elsewhere


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
    full = end(0.99, 2, network={"loopback": False})
    stages = {"receive": 0.9, "await_input": 0.1}, {"send": 0.9, "await_output": 0.1}
    ends = {"client_end": full, "server_end": full, "cpu": (1.0, 0.95)}
    found = over(text, bits, 0.5, *stages, trip_ms=0.1, **ends)
    assert found.cause is Cause.CORES_FULL, found
    assert not helps or "CUBIC" in found.next[0]
    (advice,) = [text for text in found.next if "CUBIC in place of BBR" in text] or [""]
    assert advice.count("cubic") == helps, found.next


def test_pacing_is_not_what_is_slow_where_cores_compress() -> None:
    full = end(0.99, 2, network={"loopback": False})
    stages = {"decompress": 0.9, "await_input": 0.1}, {"compress": 0.9, "await_output": 0.1}
    found = over("50gbit bbr", 50e9, 0.03, *stages, client_end=full, server_end=full, cpu=(1.0, 0.95))
    assert found.next and "CUBIC" not in "; ".join(found.next), found


def test_a_full_link_of_which_others_take_a_part() -> None:
    found = over("100mbit 10ms", 100 * MBIT, 0.95, cross=30)
    assert (found.cause, found.title) == (Cause.LINK_SHARED, "link: traffic of others"), found
    assert "(100 Mbit/s) is full: others take 30 % of it, and 8.24 MB/s is what is left" in found.sentence
    assert "7.83 MB/s on the wire are 95 % of that" in found.sentence
    assert found.numbers["cross_share"] == pytest.approx(0.3)
    few = over("100mbit 10ms", 100 * MBIT, 0.95, cross=5)
    assert few.cause is Cause.LINK_FULL


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


LOSSY = "200mbit 20ms loss 1% reno"


def test_losses_hold_tcp_back() -> None:
    # 1,448 B x 12.2 / 20 ms = 0.89 MB/s of 23.5.
    found = over(LOSSY, 200 * MBIT, 0.0405, trip_ms=20)
    assert (found.kind, found.cause, found.title) == ("link", Cause.LOSS, "link: losses"), found
    assert found.numbers["bound_bytes_per_second"] == pytest.approx(0.887e6, rel=0.01)
    assert found.numbers["streams_needed"] == 25
    assert "Reno takes a loss for a full link" in found.sentence
    assert "some 25 streams would fill the link" in found.sentence
    text = "; ".join(found.next)
    assert "--streams 25" in text and "--link '200mbit 20ms loss 1% bbr'" in text, text


@pytest.mark.parametrize(
    ("text", "share", "why_not"),
    [
        ("200mbit 20ms loss 1% bbr", 0.04, "BBR does not slow down for losses"),
        ("200mbit 20ms loss 1% reno", 0.30, "far more than losses would let through"),
        ("200mbit 20ms loss 0.0001% reno", 0.04, "too few are lost"),
        ("200mbit 20ms reno", 0.04, "none are lost"),
        ("200mbit 20ms loss 4% reno", 0.008, "far less than losses would let through"),
    ],
)
def test_what_is_not_held_back_by_losses(text: str, share: float, why_not: str) -> None:
    assert over(text, 200 * MBIT, share, trip_ms=20).cause is not Cause.LOSS, why_not


def test_a_database_that_is_slow_over_a_link_with_losses() -> None:
    # Real: 6.2 MB/s moved, of which losses would let through 11.
    counts = {"rows": 200_000, "batches": 200, "payload_bytes": 5_000_000, "wire_bytes": 6_200_000}
    found = over(
        "1gbit 5ms loss 0.1% cubic", 1000 * MBIT, 0.05, {"await_reply": 0.95, "send": 0.05}, {}, trip_ms=5,
        parameters={"operation": "upsert", "target": "mysql://local", "data": "usage"}, counts=counts,
    )  # fmt: skip
    assert found.cause is Cause.SERVER_WAITED_FOR, found


def test_a_faster_link_is_no_help_against_losses() -> None:
    found = over(
        "10gbit 20ms loss 1% reno",
        10_000 * MBIT,
        0.045,
        trip_ms=20,
        parameters={"streams": 64, "threads": 64},
    )
    assert found.cause is Cause.LOSS, found
    assert "20gbit" not in "; ".join(found.next) and "bbr" in "; ".join(found.next)


def test_the_congestion_control_is_that_of_the_record() -> None:
    """Else as was asked for, else that of the host."""
    told = {
        (seen, host): over(
            "200mbit 20ms loss 1%", 200 * MBIT, 0.0405, trip_ms=20, seen={"control": seen} if seen else {},
            environment={"client": {"sysctls": {"net.ipv4.tcp_congestion_control": host}}} if host else {},
        ).cause is Cause.LOSS
        for seen, host in (("reno", None), ("reno", "bbr"), ("bbr", "reno"), (None, "reno"), (None, None))
    }  # fmt: skip
    assert [*told.values()] == [True, True, False, True, False], told


@pytest.mark.parametrize(("share", "cause"), [(0.3, None), (0.97, Cause.LINK_FULL)])
def test_several_loaders_have_a_link_each(share: float, cause: Cause | None) -> None:
    """What they move together is held against what their links carry together."""
    together = {"loaders": 4, "backplane": "4gbit", "streams": 4, "threads": 4}
    words = "venturi run --target flight://local --link 1gbit --backplane 4gbit --loaders 4 --streams 4"
    command = {"command": words.split()}
    found = over("1gbit", 1000 * MBIT, 4 * share, parameters=together, environment=command)
    assert (found.cause is Cause.LINK_FULL) is (cause is Cause.LINK_FULL), found
    if cause is not None:
        assert found.numbers["link_share"] == pytest.approx(share, rel=0.01)
        assert found.numbers["link_bits_per_second"] == 4000 * MBIT
        assert "the links of 4 loaders (4 Gbit/s together) are full" in found.sentence
        (faster,) = [text for text in found.next if "twice as fast" in text]
        assert "--link 2gbit" in faster and "--backplane 8gbit" in faster, faster
    # What they share bounds them as one, and without more said it is as fast as one of the links.
    narrow = over("1gbit", 1000 * MBIT, 1.45, parameters=together | {"backplane": "1500mbit"})
    assert narrow.cause is Cause.LINK_FULL and narrow.numbers["link_share"] == pytest.approx(0.967, abs=0.01)
    one = over("1gbit", 1000 * MBIT, 0.97, parameters=together | {"backplane": None})
    assert one.cause is Cause.LINK_FULL and "the link (1 Gbit/s) is full" in one.sentence


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


def test_losses_that_were_not_counted_are_not_told() -> None:
    for count, said in ((10_000, True), (None, False)):
        found = over(LOSSY, 200 * MBIT, 0.0405, trip_ms=20, seen={"down_packets": count, "down_lost": 100})
        told = {e.name: e.text for e in found.evidence}
        assert ("1 % of the packets lost" in told["path"]) is said, told
        assert ("of the packets lost" in told["path"]) is said, told


def test_few_losses_have_not_yet_done_their_worst() -> None:
    # Real: CUBIC over 1 Gbit/s filled it in its start, and had seven losses in two seconds.
    found = over("1gbit 20ms loss 0.01% cubic", 1000 * MBIT, 0.45, trip_ms=20)
    assert found.cause is Cause.LOSS, found
    assert found.confidence != "high"
    assert found.numbers["streams_needed"] == 14
    assert "a stream lost 4 packets, so its start still counts" in found.sentence


def test_raw_tcp_that_suffers_as_much_does_not_hide_losses() -> None:
    probes = raw_tcp(0.95e6, link=LOSSY, cross=None)
    assert over(LOSSY, 200 * MBIT, 0.04, trip_ms=20, probes=probes).cause is Cause.LOSS


def test_raw_tcp_that_does_no_more_is_the_last_reason() -> None:
    probes = raw_tcp(7.6e6, link="100mbit 1ms", cross=None)
    found = over("100mbit 1ms", 100 * MBIT, 0.62, trip_ms=1, probes=probes)
    assert found.cause is Cause.RAW_TCP_REACHED, found


def test_the_start_of_tcp() -> None:
    # Five round trips; 100 Mbit/s x 200 ms are 16 times ten packets and a batch.
    found = over("100mbit 200ms", 100 * MBIT, 0.12, trip_ms=200)
    assert (found.kind, found.cause) == ("flow-control", Cause.SLOW_START), found
    assert found.title == "flow control: TCP's start"
    assert found.numbers["round_trips"] == pytest.approx(5)
    assert found.numbers["trips_to_fill"] == 4
    assert found.numbers["started_share"] == pytest.approx(0.2, abs=0.005)
    assert "5 round trips of 200 ms" in found.sentence and "2.24 MiB" in found.sentence
    assert "--duration 8s" in found.next[0]
    # Over a short way it is over at once; and what does not fill even its start has another reason.
    assert over("100mbit 1ms", 100 * MBIT, 0.5, trip_ms=1).cause is not Cause.SLOW_START
    assert over("100mbit 200ms", 100 * MBIT, 0.001, trip_ms=200).cause is not Cause.SLOW_START


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


def test_a_window_says_what_the_link_holds_and_how_large_it_must_be() -> None:
    found = over(
        "200mbit 20ms", 200 * MBIT, 0.14, {"await_input": 0.97, "receive": 0.03},
        {"await_window": 0.95, "send": 0.05}, trip_ms=20, parameters={"window": 65536}, round_trip=20_000_000,
    )  # fmt: skip
    assert found.cause is Cause.HTTP2_WINDOW, found
    assert "23.5 MB/s x 20 ms = 460 KiB (its bandwidth-delay product)" in found.sentence
    assert "--window 1048576" in found.next[0], found.next
    assert "--window none" in found.next[1]


def test_a_send_buffer_is_told_how_large_it_must_be() -> None:
    small = far(send_buffer_limited_share=0.9, send_buffer_bytes=65536, min_rtt_ns=20_000_000)
    found = over(
        "200mbit 20ms", 200 * MBIT, 0.12, {"await_output": 0.95, "send": 0.05},
        {"await_input": 0.95, "receive": 0.05}, trip_ms=20,
        parameters={"operation": "put", "send_buffer": 65536}, client_end=small,
    )  # fmt: skip
    assert found.cause is Cause.SEND_BUFFER, found
    assert "--send-buffer 1048576" in found.next[0], found.next


def test_a_receive_window_is_told_how_large_it_must_be() -> None:
    small = far(receive_window_limited_share=0.9, min_rtt_ns=20_000_000)
    found = over(
        "200mbit 20ms", 200 * MBIT, 0.12, {"await_input": 0.95, "receive": 0.05},
        {"await_output": 0.95, "send": 0.05}, trip_ms=20, server_end=small,
    )  # fmt: skip
    assert found.cause is Cause.RECEIVE_WINDOW, found
    assert "TCP buffers of 1 MiB at the client (net.ipv4.tcp_rmem)" in found.next[0], found.next


def test_answers_to_each_batch() -> None:
    put = {"operation": "put", "ack": "batch"}
    stages = {"await_reply": 0.9, "send": 0.1}, {"await_input": 0.95, "receive": 0.05}
    found = over("100mbit 20ms", 100 * MBIT, 0.5, *stages, trip_ms=20, parameters=put, round_trip=20_000_000)
    assert found.cause is Cause.ACKNOWLEDGEMENTS, found
    assert "a batch in flight each can move 50 batches/s" in found.sentence
    # The one answer to a whole stream is late because all before it is.
    put["ack"] = "stream"
    assert over("100mbit 20ms", 100 * MBIT, 0.5, *stages, trip_ms=20, parameters=put).cause is not (
        Cause.ACKNOWLEDGEMENTS
    )


LABEL = "records, 4 columns, sequential"
ROWS = {"data": "records", "columns": 4, "values": "sequential"}


def test_when_compression_pays_on_a_link() -> None:
    heavy = Packing("zstd", LABEL, 100e6, 900e6, 4.0)
    light = Packing("lz4", LABEL, 900e6, 2e9, 2.5)
    slow = over("100mbit 10ms", 100 * MBIT, 0.97, parameters=ROWS, packings=(heavy, light))
    assert "zstd, which makes these data 4 times smaller: about 4 times as fast" in slow.next[0]
    assert "--compression zstd" in slow.next[0]
    # On a faster link the heavy codec's cores are the limit.
    fast = over("2gbit", 2000 * MBIT, 0.97, parameters=ROWS, packings=(heavy, light))
    assert "--compression lz4" in fast.next[0], fast.next
    slower = over("10gbit", 10_000 * MBIT, 0.97, parameters=ROWS, packings=(heavy, light))
    assert "--compression" not in "; ".join(slower.next)


def test_without_codecs_measured_the_command_that_measures_them() -> None:
    found = over("100mbit 10ms", 100 * MBIT, 0.97, parameters=ROWS)
    assert "--compression lz4" in found.next[0]
    assert "venturi ceilings --only codec --columns 4 --values sequential" in found.next[1], found.next


def test_nothing_is_said_of_raw_tcp_where_the_link_was_measured() -> None:
    found = over("100mbit 1ms", 100 * MBIT, 0.6, trip_ms=1)
    assert found.kind == "unknown"
    assert "raw TCP" not in found.sentence
    told = {e.name: e.text for e in found.evidence}
    assert "measured 100 Mbit/s, a round trip of 1 ms" in told["path"]


FEW = {"rows": 1000, "batches": 100, "payload_bytes": 1_000_000, "wire_bytes": int(11.4e6)}


def test_rows_over_a_full_link_are_told_by_their_bytes() -> None:
    found = over(
        "100mbit 1ms", 100 * MBIT, 0.3, {"await_reply": 0.9, "send": 0.1}, {}, trip_ms=1, counts=FEW,
        parameters={"operation": "upsert", "target": "mysql://local", "data": "usage"},
    )  # fmt: skip
    assert found.cause is Cause.LINK_FULL, found
    assert found.numbers["link_share"] == pytest.approx(0.97, abs=0.01)


def test_a_protocol_of_many_bytes_fills_a_link_with_little_payload() -> None:
    # Real: PostgreSQL's own form takes 1.7 bytes for one of payload.
    counts = {"rows": 210_000, "batches": 50, "payload_bytes": 6_700_000, "wire_bytes": int(11.5e6)}
    found = over("100mbit 10ms", 100 * MBIT, 0.3, {"await_input": 0.93, "receive": 0.07}, {}, counts=counts,
                 parameters={"target": "postgres://local"})  # fmt: skip
    assert found.cause is Cause.LINK_FULL, found


def test_what_was_packed_and_came_down_is_told_by_its_bytes() -> None:
    """More of it was on its way when the trial ended, and was checked, but not counted."""
    counts = {"rows": 900_000, "batches": 220, "payload_bytes": 28_800_000, "wire_bytes": int(13.5e6)}
    checked = {"verification": {"achieved": "checksum", "rows": 1_000_000}, "counts": counts}
    for bits, cause in ((103 * MBIT, Cause.LINK_FULL), (200 * MBIT, Cause.NOTHING_AT_ITS_LIMIT)):
        share = 28.8e6 / (bits / 8 * PAYLOAD)
        packed = {"compression": "lz4"}
        found = over("100mbit 1ms", bits, share, trip_ms=1, parameters=packed, **checked)
        assert found.cause is cause, found


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
