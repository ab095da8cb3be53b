"""Verdicts of what lies between the ends: the link, windows, buffers and acknowledgements."""

from __future__ import annotations

from typing import Any

import pytest

from support.verdict import BLOCKED_SERVER, FAR, IDLE_CLIENT, end, far, is_, raw_tcp, verdict
from venturi.analysis.verdict.causes import Cause


@pytest.mark.parametrize("probed", [True, False])
def test_link(probed: bool) -> None:
    found = verdict(
        IDLE_CLIENT, BLOCKED_SERVER, rate=118e6, same_machine=False, client_end=far(),
        server_end=far(rtt_ns=30_000_000, min_rtt_ns=200_000), probes=raw_tcp(119e6) if probed else None,
    )  # fmt: skip
    is_(found, "link")
    assert ("99 % of what raw TCP can do" in found.sentence) is probed
    assert found.confidence == ("high" if probed else "medium")
    assert any("queue" in e.name for e in found.evidence)


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


def test_a_full_interface_is_the_link() -> None:
    card = {**FAR, "tx_bytes": int(119e6), "speed_bits_per_second": 1_000_000_000}
    found = verdict(IDLE_CLIENT, {}, rate=115e6, same_machine=False,
                    client_end=end(0.1, network=FAR), server_end=end(0.1, network=card))  # fmt: skip
    assert found.kind == "link"
    assert "95 % of the interface's speed" in found.sentence


def test_loopback_is_no_link() -> None:
    found = verdict(IDLE_CLIENT, BLOCKED_SERVER, probes=raw_tcp(1.01e9))
    assert found.kind == "unknown"


def test_a_path_on_which_raw_tcp_is_much_faster_is_not_the_link() -> None:
    found = verdict(IDLE_CLIENT, BLOCKED_SERVER, rate=118e6, same_machine=False, client_end=far(),
                    server_end=far(), probes=raw_tcp(1000e6))  # fmt: skip
    assert found.kind == "unknown"


def test_window_and_its_bound() -> None:
    found = verdict(
        {"await_input": 0.97, "receive": 0.03}, {"await_window": 0.95, "send": 0.05}, rate=6.2e6,
        parameters={"window": 65536}, client_end=end(0.05),
        round_trip=10_000_000,
    )  # fmt: skip
    is_(found, "flow-control", None, "await_window")
    bound = "64 KiB / 10 ms = 6.55 MB/s at most, and 6.20 MB/s were moved (95 % of the bound)"
    assert bound in found.sentence
    assert found.next[0].endswith("--window none")
    assert found.confidence == "high"


def test_the_bound_counts_streams() -> None:
    found = verdict({"await_input": 0.97, "receive": 0.03}, {"await_window": 0.95, "send": 0.05}, rate=24e6,
                    parameters={"window": 65536, "streams": 4},
                    round_trip=10_000_000)  # fmt: skip
    assert "4 streams x 64 KiB / 10 ms = 26.2 MB/s" in found.sentence


def test_a_foreign_server_behind_a_small_window() -> None:
    found = verdict({"await_input": 0.97, "receive": 0.03}, {}, rate=6.2e6, parameters={"window": 65536},
                    server_end={}, cpu=(0.1, 0),
                    round_trip=10_000_000)  # fmt: skip
    assert found.kind == "flow-control"


def test_a_stranger_on_loopback_that_reads_slowly_has_no_window_too_small() -> None:
    # Real: pyarrow burns 1 ms a batch of half a megabyte; 64 KiB / 0.137 ms happen to be as much.
    theirs = {**end(), "by": "client", "host": None}
    found = verdict({"await_window": 0.71, "await_output": 0.14, "send": 0.14, "await_reply": 0.01}, {},
                    parameters={"operation": "put"}, rate=471e6, round_trip=136_916, cpu=(0.15, 0.98),
                    server_end=theirs)  # fmt: skip
    assert found.cause is Cause.SERVER_WAITED_FOR, found


def test_a_window_that_a_slow_receiver_closes_is_its_stage() -> None:
    found = verdict({"receive": 0.97, "await_input": 0.03}, {"await_window": 0.95, "send": 0.05},
                    parameters={"window": 65536})  # fmt: skip
    is_(found, "stage", "client", "receive")


def test_a_send_buffer_smaller_than_the_path() -> None:
    sender = end(0.05, network=FAR, sockets={"send_buffer_limited_share": 0.9, "min_rtt_ns": 50_000_000,
                                             "rtt_ns": 50_000_000})  # fmt: skip
    found = verdict({"await_input": 0.95, "receive": 0.05}, {"await_output": 0.95, "send": 0.05}, rate=5e6,
                    same_machine=False, server_end=sender, client_end=far(min_rtt_ns=50_000_000))  # fmt: skip
    assert found.title == "flow control: send buffer"
    assert "256 KiB / 50 ms = 5.24 MB/s" in found.sentence


def test_a_send_buffer_that_a_queue_fills_is_the_link() -> None:
    sender = end(0.05, network=FAR, sockets={"send_buffer_limited_share": 0.9, "rtt_ns": 30_000_000})
    found = verdict(IDLE_CLIENT, BLOCKED_SERVER, rate=118e6, same_machine=False, client_end=far(),
                    server_end=sender, probes=raw_tcp(119e6))  # fmt: skip
    assert found.kind == "link"


def test_acknowledgements() -> None:
    found = verdict({"await_reply": 0.9, "send": 0.1}, {"await_input": 0.95, "receive": 0.05},
                    parameters={"operation": "put", "ack": "batch"})  # fmt: skip
    is_(found, "flow-control", None, "await_reply")
    assert "--ack stream" in found.next[0]
