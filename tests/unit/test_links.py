"""Links as text and as numbers, what may go over one, and what `venturi links` says of them."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.golden import kept
from support.mistakes import check
from support.run import ROOT, venturi
from venturi.common import links
from venturi.common.links import PRESETS, Link, canonical, parse
from venturi.common.units import bit_rate
from venturi.measure.links import Looked
from venturi.netlab import laboratory, programs
from venturi.netlab.network import Hosts, address
from venturi.report import limits as shown
from venturi.report import terminal


def read(text: str) -> str:
    try:
        return repr(parse(text))
    except ValueError as error:
        return f"error: {error}"


def test_links_are_read() -> None:
    check("links", read, "texts")


_RATES = st.integers(100_000, 400 * 10**9).map(float)
_LOSSES = st.integers(0, 999_999).map(lambda millionths: millionths / 1e6)


@st.composite
def some_links(draw: st.DrawFn) -> Link:
    trip = draw(st.integers(0, 10 * 10**9))
    return Link(
        rate=draw(st.none() | st.tuples(_RATES, _RATES)),
        round_trip_ns=trip,
        jitter_ns=draw(st.integers(0, trip)),
        loss=draw(st.tuples(_LOSSES, _LOSSES)),
        buffer=draw(st.none() | st.integers(40_000, 1 << 30)),
        mtu=draw(st.integers(576, 9000)),
        control=draw(st.sampled_from([None, *links.CONTROLS])),
    )


@given(some_links())
def test_a_link_is_read_as_it_is_spelled(link: Link) -> None:
    assert parse(link.text) == link
    assert canonical(link.text) == link.text


@given(st.text(max_size=60))
def test_any_text_is_a_link_or_an_error(text: str) -> None:
    try:
        found = parse(text)
    except ValueError as error:
        assert str(error)
    else:
        assert parse(found.text) == found


@pytest.mark.parametrize("name", PRESETS)
def test_links_with_names(name: str) -> None:
    assert canonical(name.upper()) == name
    assert parse(f"{name} reno") == replace(parse(name), control="reno")
    assert parse(name.lower()) == parse(PRESETS[name].text)
    page = (ROOT / "docs" / "links.md").read_text()
    assert f"| `{name}` | `{PRESETS[name].text}` | {PRESETS[name].source} |" in page


def test_tcp_gets_what_ethernet_leaves() -> None:
    assert parse("1gbit").payload_part == pytest.approx(1448 / 1538)
    assert parse("1gbit mtu 9000").payload_part == pytest.approx(8948 / 9038)


def test_what_a_record_names_may_be_unknown() -> None:
    assert links.read_link("1gbit") == Link(rate=(1e9, 1e9)) and links.read_link("1gbit by pigeon") is None
    assert links.read_rates("4gbit/1gbit") == (4e9, 1e9)
    assert [links.read_rates(it) for it in ("fast", 4, None)] == [None] * 3


def test_data_go_down_or_up() -> None:
    ways = {operation: links.way(operation) for operation in ("get", "put", "upsert", "ingest")}
    assert ways == {"get": "down", "put": "up", "upsert": "up", "ingest": "up"}


def test_a_buffer_is_what_passes_in_a_round_trip() -> None:
    assert parse("100mbit 40ms").buffers() == (500_000, 500_000)
    assert parse("100mbit/10mbit").buffers() == (125_000, 65_536)
    assert parse("100mbit 40ms buffer 10k").buffers() == (10_000, 10_000)


def test_links_are_axes(tmp_path: Any) -> None:
    words = ("--target", "flight://local", "--link", "100mbit 10ms, LTE,200MBIT", "--cross", "10%,none")
    done = venturi("run", *words, "--operation", "get", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "cells: 6" in done.stdout and "included, at the rates of the links" in done.stdout
    (tmp_path / "a.toml").write_text(
        '[target]\nurl = "flight://local"\n[workload]\noperation = "get"\n'
        '[hosts]\nlink = "lte"\n[matrix]\ncross = ["none", "20%"]\n'
    )
    done = venturi("run", tmp_path / "a.toml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "cells: 2" in done.stdout


def found(
    rate: float = 1e8, trip: int = 20_000_000, lost: int = 0, sent: int = 400, apart: int = 0
) -> dict[str, Any]:
    """What a look at a path found, both ways alike."""
    ways = [{"rate": rate, "offered": 1.25 * rate, "sent": sent, "lost": lost}] * 2
    trips = {"sent": 31, "came_back": 31, "least_ns": trip, "median_ns": trip, "most_ns": trip + apart}
    return {"round_trip": trips, "ways": ways}


def test_a_path_is_held_against_the_link() -> None:
    """A case is the link, and what a look at the path found."""

    def faults(case: str) -> str:
        text, _, seen = case.partition("\n")
        return "\n".join(laboratory.path_faults(parse(text), found(**tomllib.loads(seen)))) or "as asked"

    check("paths", faults, "texts")


def test_a_rate_is_printed_without_an_exponent() -> None:
    shown = {999.97e6: "1 Gbit/s", 999.4e6: "999 Mbit/s", 2.5e9: "2.5 Gbit/s", 1e3: "1 kbit/s"}
    assert {rate: bit_rate(rate) for rate in shown} == shown
    assert bit_rate(999.97e6, 4) == "1 Gbit/s" and bit_rate(999.92e6, 4) == "999.9 Mbit/s"


def test_links_with_names_are_listed() -> None:
    done = venturi("links")
    assert done.returncode == 0 and done.stderr == ""
    for line, (name, preset) in zip(done.stdout.splitlines(), PRESETS.items(), strict=True):
        assert line.startswith(f"{name} ") and preset.text in line and line.endswith(preset.source)
    listed = json.loads(venturi("links", "--json").stdout)
    assert listed["presets"] == [
        {"name": name, "text": one.text, "source": one.source} for name, one in PRESETS.items()
    ]


def looked(**more: Any) -> Looked:
    look = {
        "round_trip_ns": 20_051_000,
        "up_bits_per_second": 1.991e8, "down_bits_per_second": 2.003e8,
        "up_packets": 400, "down_packets": 25_000, "up_lost": 0, "down_lost": 24,
    }  # fmt: skip
    again = look | {"round_trip_ns": 20_064_000, "down_lost": 30}
    tcp = {"down": [1.5e8, 1.6e8], "up": [1.871e8, 1.872e8]}
    return Looked("200mbit 20ms loss 0.1%/0%", parse("200mbit 20ms loss 0.1%/0"), [look, again], tcp, **more)


def test_what_was_asked_stands_over_what_was_found() -> None:
    kept("links", terminal.text(shown.link_document(looked()), 80))
    (section,) = shown.link_document(looked(wrong="rate")).blocks
    assert section.title == "200mbit 20ms loss 0.1%/0%: NOT as asked: rate"
    (told,) = shown.links_machine([looked()])["links"]
    assert told["as_asked"] and told["asked"]["raw_tcp_at_most"] == pytest.approx([188.296e6] * 2, rel=1e-4)


def test_a_command_has_the_addresses_of_the_ends() -> None:
    assert programs.read("--client", "sh -c 'ping {server}' {client}:7") == [
        *("sh", "-c", "ping 10.77.0.2", "10.77.0.1:7"),
    ]


# ---- the laboratory without any: addresses of its hosts, programs that are not here


def test_every_host_has_an_address_of_its_own() -> None:
    hosts = Hosts(600)
    addresses = [address(end) for end in hosts.ends]
    assert len(set(addresses)) == len(hosts.ends) == 601
    assert all(0 < int(part) < 255 for it in addresses for part in it.split(".")[2:] if it[6:8] != "0.")
    assert hosts.middle == ("trunk-s", "toward-s") and Hosts().middle == ("toward-c", "toward-s")
    assert max(map(len, hosts.ports)) <= 15, "an interface's name"


def test_a_program_that_is_needed_and_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = venturi("links", "100mbit")
    assert done.returncode == 4
    assert "--link needs the program unshare, which is not here" in done.stderr
    assert "hint: Debian's package util-linux has it" in done.stderr
