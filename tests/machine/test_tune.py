"""The search against a real target, here and now. Twin: tests/unit/test_tune.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.hosts import hosts
from support.read import records
from support.run import venturi


@pytest.mark.parametrize(("rate", "pays"), [("100mbit", True), (None, False)])
def test_a_link_decides_about_compression(tmp_path: Path, core: object, rate: str | None, pays: bool) -> None:
    """A slow one carries more rows where they are smaller; two cores are busy enough without a codec where
    nothing slows the link."""
    with hosts(2) as two, two[1].server() as end:
        if rate is not None:
            two[1].shape(rate)
        done = two[0].venturi(
            *("tune", f"flight://{end.address}", "--operation", "put", "--data", "builtin:birdstrikes"),
            *("--duration", "300ms", "--trials", 20, "--json", "--no-ceilings", "--out", tmp_path / "run"),
        )
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
