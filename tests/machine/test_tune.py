"""The search against a real target, here and now. Twin: tests/unit/test_tune.py."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.path import SERVER_ADDRESS, hosts, server
from support.read import records
from support.run import command, environment, venturi


@pytest.mark.parametrize(("rate", "pays"), [("100mbit", True), (None, False)])
def test_a_link_decides_about_compression(tmp_path: Path, core: object, rate: str | None, pays: bool) -> None:
    """A slow one carries more rows where they are smaller; two cores are busy enough without a codec where
    nothing slows the link."""
    with hosts(rate) as two, server(within=two.inside(two.server), host=SERVER_ADDRESS) as end:
        words = command(
            *("tune", f"flight://{end.address}", "--operation", "put", "--data", "builtin:birdstrikes"),
            *("--duration", "300ms", "--trials", 20, "--json", "--no-ceilings", "--out", tmp_path / "run"),
        )
        done = subprocess.run(
            [*two.inside(two.client), *words],
            capture_output=True, text=True, env=environment(), check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["best"]["settings"]["compression"] not in (None, "none")) == pays, found["best"]


def test_a_search_over_a_link_searches_compression_too(tmp_path: Path) -> None:
    """As towards another host: over a slow link the smaller data win."""
    out = tmp_path / "run"
    given = ("--operation", "get", "--data", "builtin:birdstrikes", "--link", "50mbit 2ms")
    budget = ("--duration", "300ms", "--trials", 8, "--no-ceilings", "--out", out)
    done = venturi("tune", "flight://remote", *given, *budget)
    assert done.returncode == 0, done.stderr
    lines = records(out)
    assert {line["parameters"]["link"] for line in lines} == {"50mbit 2ms"}
    assert {line["parameters"]["compression"] for line in lines} & {"lz4", "zstd"}
