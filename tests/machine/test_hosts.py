"""Links between hosts as they are measured, here and now.

Twin: tests/servers/test_cluster_remote.py, test_several_servers, for which links a cell has."""

from __future__ import annotations

import json

from support.hosts import hosts


def test_the_link_to_each_of_two_servers(core: object) -> None:
    """One that is slower than the other is found, and what both carry at once is more than it."""
    with hosts(3) as three, three[1].server() as quick, three[2].server() as slow:
        three[2].shape("20mbit", burst="16kb")
        try:
            target = f"flight://{quick.address},{slow.address}"
            words = ("ceilings", target, "--only", "tcp", "--streams", 2, "--repeats", 1, "--duration", "1s")
            done = three[0].venturi(*words, "--format", "json", "--quiet")
        finally:
            three[2].unshape()
    assert done.returncode == 0, done.stderr
    found = [limit for limit in json.loads(done.stdout)["limits"] if limit["place"] != "local"]
    for direction in ("get", "put"):
        rates = {n["name"]: n["bytes_per_second"] for n in found if n["direction"] == direction}
        assert list(rates) == [None, "server-1", "server-2"]
        assert rates["server-2"] < 1.5 * 20e6 / 8 and rates["server-1"] > 3 * 20e6 / 8
        assert rates[None] > 2 * rates["server-2"]
    (way,) = [line["text"] for line in json.loads(done.stdout)["narrowest"] if target[9:] in line["text"]]
    assert f"{quick.address} and 1 more" in way and "alone" not in way
