"""What processes and hosts did while a trial ran: that the figures fit one another.

Twin: tests/unit/test_resources.py, for which figures there are; crates/base/src/meter, for the readers."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from support.flight import ServerProcess, run_trial, succeeded
from support.hosts import hosts
from support.run import environment

RECORDS: dict[str, Any] = {"data": {"source": "records", "columns": 4, "seed": 1}, "rows_per_batch": 4096}
ONE_TRIAL = """
import json, sys
from support.flight import run_trial
print(json.dumps(run_trial(sys.argv[1], **json.loads(sys.argv[2]))))
"""


def cpu(process: dict[str, Any]) -> int:
    return int(process["user_ns"] + process["system_ns"])


@pytest.mark.parametrize("operation", ["get", "put"])
def test_both_ends_of_a_trial(reference_server: ServerProcess, operation: str) -> None:
    address = f"flight://{reference_server.address}"
    record = succeeded(run_trial(address, operation, streams=2, duration_ns=1_200_000_000, **RECORDS))
    found = record["resources"]
    assert found["same_machine"] is True
    assert found["clock"] == {"offset_ns": 0, "uncertainty_ns": 0}
    client, server_end = found["client"], found["server"]
    for end, name in ((client, "client"), (server_end, "server")):
        assert end["by"] == "self"
        # From just before the start to just after the end.
        assert record["times"]["interval_ns"] * 0.95 < end["window_ns"] < record["times"]["interval_ns"] * 1.2
        accounted = cpu(record["cpu"][name])
        assert abs(cpu(end["process"]) - accounted) < 0.1 * accounted + 5e6
        threads = end["process"]["threads"]
        shares = [thread["cpu_share"] for thread in threads]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) * end["window_ns"] == pytest.approx(cpu(end["process"]), rel=0.15, abs=2e7)
        host = end["host"]
        assert host["cores"] == len(host["core_busy_share"])
        kinds = [host[f"{kind}_share"] for kind in ("user", "system", "softirq", "irq")]
        assert sum(kinds) == pytest.approx(host["busy_share"], abs=1e-6)
        assert host["memory_available_min_bytes"] > 10**8
        assert end["process"]["rss_max_bytes"] > 10**7
        network = end["network"]
        assert network["loopback"] and network["interface"] == "lo"
        assert network["rx_bytes"] >= 0.9 * record["counts"]["wire_bytes"]
    worked = {thread["name"] for thread in client["process"]["threads"] if thread["cpu_share"] > 0.01}
    assert {"client-0", "client-1"} <= worked
    # What the host did includes what the two processes did; it is counted in ticks of 10 ms.
    busy = client["host"]["busy_share"] * client["host"]["cores"] * client["window_ns"]
    assert busy > 0.9 * (cpu(client["process"]) + cpu(server_end["process"])) - 5e7
    sampler = found["sampler"]
    assert sampler["samples"] >= 20
    assert 0 < sampler["share"] < 0.05
    for end in ("client", "server"):
        columns = record["samples"][end]
        rows = len(columns["t_ns"])
        assert columns["t_ns"] == sorted(columns["t_ns"])
        for name, values in columns.items():
            lists = values if values and isinstance(values[0], list) else [values]
            assert name == "thread_names" or all(len(column) == rows for column in lists), name
        assert len(columns["thread_names"]) == len(columns["thread_cpu_ns"])
        near = [t for t in columns["t_ns"] if abs(t) < 60e6]
        assert near, "a row at the start"
    assert record["samples"]["client"]["payload_bytes"][-1] == record["counts"]["payload_bytes"]
    sender = server_end if operation == "get" else client
    for end in (client, server_end):
        assert end["sockets"]["count"] == 2
        assert end["sockets"]["rtt_ns"] > 0 and end["sockets"]["receive_buffer_bytes"] > 0
    assert sender["sockets"]["busy_share"] > 0.1
    for end in ("client", "server"):
        assert len(record["samples"][end]["socket_rtt_ns"]) == 2


def test_hosts_of_their_own() -> None:
    """Two network namespaces: each end's interface carries what the sockets carried."""
    with hosts(2) as two, two[1].server() as serving:
        spec = json.dumps({**RECORDS, "streams": 2, "rows_per_stream": 4_000_000})
        words = (sys.executable, "-c", ONE_TRIAL, f"flight://{serving.address}", spec)
        done = two[0].run(*words, env=environment(), timeout=None, check=True)
        record = succeeded(json.loads(done.stdout))
    client, serving_end = (record["resources"][end]["network"] for end in ("client", "server"))
    wire = record["counts"]["wire_bytes"]
    for network in (client, serving_end):
        assert network["interface"] == "eth0" and not network["loopback"]
        assert network["speed_bits_per_second"] is None, "of a virtual interface there is none"
    # Headers of TCP/IP and Ethernet add up to some percent; the server's first row may hold some warm-up.
    assert wire * 0.97 < client["rx_bytes"] < wire * 1.06
    assert wire * 0.97 < serving_end["tx_bytes"] < wire * 1.06
    assert record["resources"]["same_machine"] is True
