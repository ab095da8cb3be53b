"""Links as text and as numbers, what may go over one, and what `venturi links` says of them."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.run import ROOT, venturi
from venturi.common import links, toml_text
from venturi.common.links import PRESETS, Link, canonical, parse
from venturi.common.units import bit_rate
from venturi.lab import programs, verified
from venturi.measure import checks
from venturi.measure.links import Looked
from venturi.plan import matrix
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.report.text import links as shown

GBIT = (1e9, 1e9)


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("1gbit", Link(rate=GBIT)),
        ("1Gbit/s", Link(rate=GBIT)),
        ("1000mbps", None),
        ("1000mbitps", Link(rate=GBIT)),
        ("100mbit/20mbit 30ms", Link(rate=(1e8, 2e7), round_trip_ns=30_000_000)),
        ("30ms 2.5gbit", Link(rate=(2.5e9, 2.5e9), round_trip_ns=30_000_000)),
        (
            "200mbit 30ms loss 0.1% jitter 1ms buffer 256KiB mtu 9000 cubic",
            Link((2e8, 2e8), 30_000_000, 1_000_000, (0.001, 0.001), 262_144, 9000, "cubic"),
        ),
        ("loss=1%/0", Link(loss=(0.01, 0.0))),
        ("5ms", Link(round_trip_ns=5_000_000)),
        ("unshaped", Link()),
        ("LTE", Link(rate=(1.2e7, 1.2e7), round_trip_ns=70_000_000)),
        ("lte 50ms loss 1%", Link((1.2e7, 1.2e7), 50_000_000, loss=(0.01, 0.01))),
        ("infiniband-fdr cubic", Link(rate=(5.45e10, 5.45e10), control="cubic")),
    ],
)
def test_a_link_is_read(text: str, link: Link | None) -> None:
    if link is None:
        with pytest.raises(ValueError):
            parse(text)
    else:
        assert parse(text) == link


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


FORM = 'write one as "1gbit", "100mbit/20mbit 30ms", "200mbit 30ms loss 0.1% jitter 1ms buffer 256KiB"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"an empty text is no link: {FORM}, or unshaped"),
        ("fast", f"'fast': 'fast' is no part of a link; {FORM}"),
        ("lpte", "'lpte': 'lpte' is no part of a link; did you mean lte?"),
        ("1gbit 2gbit", "'1gbit 2gbit': 2gbit says rate twice"),
        ("5ms 6ms", "'5ms 6ms': 6ms says round trip twice"),
        ("lte 5ms 6ms", "'lte 5ms 6ms': 6ms says round trip twice"),
        ("1ms wifi6", "'1ms wifi6': the name wifi6 comes first"),
        ("wifi6 lte", "'wifi6 lte': a link has one name, here wifi6"),
        ("lte unshaped", "'lte unshaped': unshaped does not go with a name"),
        (
            "wifi6 1ms",
            "'wifi6 1ms': a jitter of more than the round trip would arrive before it was sent; "
            "wifi6 has jitter 2ms",
        ),
        ("1gbit 5", f"'1gbit 5': '5' is no part of a link; {FORM}"),
        ("1gbit loss", "'1gbit loss': loss of what? Write loss 0.1%"),
        ("1gbit los 1%", "'1gbit los 1%': 'los' is no part of a link; did you mean loss?"),
        ("1gbit loss 100%", "'1gbit loss 100%': '100%' must lie between 0% and 100%"),
        ("1bit", "'1bit': 1bit is out of range: 100kbit to 400gbit"),
        ("1gbit/2gbit/3gbit", "'1gbit/2gbit/3gbit': '1gbit/2gbit/3gbit' has more than two values: down/up"),
        ("1gbit/x", "'1gbit/x': 'x' is no rate, as 200mbit or 1gbit"),
        ("1gbit 11s", "'1gbit 11s': 11,000,000,000 is out of range: a round trip of at most 10s"),
        ("1gbit buffer 1kB", "'1gbit buffer 1kB': a buffer holds 4 packets at the least, here 6,152 bytes"),
        ("mtu 100", "'mtu 100': 100 is out of range: an MTU of 576 to 9000 bytes"),
        (
            "1ms jitter 2ms",
            "'1ms jitter 2ms': a jitter of more than the round trip would arrive before it was sent",
        ),
    ],
)
def test_what_is_no_link(text: str, said: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(text)
    assert str(error.value) == said


def test_tcp_gets_what_ethernet_leaves() -> None:
    assert parse("1gbit").payload_part == pytest.approx(1448 / 1538)
    assert parse("1gbit mtu 9000").payload_part == pytest.approx(8948 / 9038)


def test_what_a_record_names_may_be_unknown() -> None:
    assert links.known("1gbit") == Link(rate=(1e9, 1e9)) and links.known("1gbit by pigeon") is None
    assert links.known_rates("4gbit/1gbit") == (4e9, 1e9)
    assert (
        links.known_rates("fast") is None and links.known_rates(4) is None and links.known_rates(None) is None
    )


def test_data_go_down_or_up() -> None:
    ways = {operation: links.way(operation) for operation in ("get", "put", "upsert", "ingest")}
    assert ways == {"get": "down", "put": "up", "upsert": "up", "ingest": "up"}


def test_a_buffer_is_what_passes_in_a_round_trip() -> None:
    assert parse("100mbit 40ms").buffers() == (500_000, 500_000)
    assert parse("100mbit/10mbit").buffers() == (125_000, 65_536)
    assert parse("100mbit 40ms buffer 10k").buffers() == (10_000, 10_000)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "--target flight://node7 --link 1gbit",
            "--link: flight://node7:31337 is somewhere else, on a link of its own",
        ),
        (
            "--target flight://{server}:5000 --link 1gbit",
            "--link: flight://{server}:5000 is a program's that is started there, and no --server is named",
        ),
        (
            "--target flight://{server}:5000 --operation get",
            "--target: {server} is the other end of a link, and none is named",
        ),
        (
            "--target flight://local --server cat",
            "--server: is started at the other end of a link, and no link is named",
        ),
        (
            "--target exec:// --command 'cat x' --link 1gbit",
            "--link: exec:// goes where code of others sends it, and no --server is there",
        ),
        (
            "--target exec:// --command 'cat x' --link 1gbit --server cat",
            "--link: exec://: nothing that is set names {server}, its other end",
        ),
        (
            "--target exec:// --command 'cat {server}'",
            "--command: {server} is the other end of a link, and none is named",
        ),
        (
            "--target adbc://flightsql --driver-option uri=grpc://{server}:1 --table t",
            "--driver-option: {server} is the other end of a link, and none is named",
        ),
        (
            "--target flight://node7:1,{server}:2 --operation get --link 1gbit --server cat",
            "--link: flight://node7:1,{server}:2 is somewhere else, on a link of its own",
        ),
        (
            "--target flight://local --link 1gbit --server cat",
            "--server: no address, command or driver option has {server} in it",
        ),
        (
            "flight-remote --link 1gbit --set matrix.place=local",
            "--link: leads to X://remote, and every cell is beside the client",
        ),
        (
            "--target flight://{server}:1 --operation get --link 1gbit --server no-such-program",
            "--server: no-such-program: no such program",
        ),
        (
            "--target exec:// --command 'cat {server}' --link 1gbit --server cat --loaders 2 --streams 2",
            "--loaders: exec:// is code of others in one process, which is not shared among loaders",
        ),
        (
            "--target flight://local --link 1gbit --server 'serve --password hunter2'",
            "--server: a secret in it would be stored with the run",
        ),
        ("--target flight+unix://local --link 1gbit", "--link: flight+unix://local stays on one host"),
        ("--target sqlite://local --link 1gbit", "--link: sqlite://local stays on one host"),
        ("--target pipe:// --operation get --link 1gbit", "--link: pipe:// goes through pipes of one host"),
        ("--target empty:// --operation get --link 1gbit", "--link: empty:// moves nothing"),
        ("--target flight://local --cross 30%", "--cross: is other traffic on a link, and no link is named"),
        (
            "--target flight://local --link 5ms --cross 30%",
            "--cross: is a share of a rate, and '5ms' has none",
        ),
        (
            "--target flight://local --link 1gbit --on local",
            "--link: is made on this host, and --on has others",
        ),
        (
            "--target flight://local --link 1gbit,none",
            "--link: some cells have a link and others have none, which are other places",
        ),
        (
            "flight-remote --link 1gbit --loaders 2 --streams 2",
            "--loaders: flight://local is beside one client, and over links no other reaches it",
        ),
        (
            "--target flight://remote --link 1gbit --servers 2",
            "--servers: a link leads to one server, not 2",
        ),
    ],
)
def test_what_goes_over_no_link(words: str, said: str) -> None:
    done = venturi("run", *shlex.split(words), "--dry-run")
    assert done.returncode == 3, done.stderr
    assert said in done.stderr


def test_a_server_that_is_not_there_yet_is_not_asked() -> None:
    done = venturi("run", "--target", "flight://{server}:5000", "--link", "1gbit", "--server", "cat")
    assert done.returncode == 2, done.stderr
    assert "{server}:5000 is started for the run, and cannot be asked before what it has" in done.stderr
    assert "--target flight://{server}:5000/TABLE, or --operation get,put" in done.stderr


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


NEAR_AND_FAR = """
[places]
local = "flight://local"
remote = "flight://remote"
[hosts]
loaders = 1
[matrix]
link = ["1gbit", "lte"]
streams = [1, 2]
"""


def test_near_and_far_are_cells_of_one_run() -> None:
    """The link leads to `remote`; `local` has none, and comes once however many links there are."""
    found = matrix.cells(load([Layer("my.toml", toml_text.parse(NEAR_AND_FAR, "my.toml"), NEAR_AND_FAR)]))
    assert [[c.parameters[name] for name in ("place", "link", "loaders", "streams")] for c in found] == [
        *(["local", None, 1, streams] for streams in (1, 2)),
        *(["remote", link, 1, streams] for link in ("1gbit", "lte") for streams in (1, 2)),
    ]


@pytest.mark.parametrize("text", [NEAR_AND_FAR, NEAR_AND_FAR.replace(', "lte"', "")])
def test_a_queued_cell_is_the_same_cell(text: str) -> None:
    """No other place is left where a prediction of it is checked."""
    text = text.replace("loaders = 1", "loaders = 1\ncross = 30")
    text += "also = [{ streams = [4] }]\n"
    whole = load([Layer("my.toml", toml_text.parse(text, "my.toml"), text)])
    for cell in matrix.cells(whole):
        assert checks._cell(whole, cell.parameters, "streams").id == cell.id


def found(
    rate: float = 1e8, trip: int = 20_000_000, lost: int = 0, sent: int = 400, apart: int = 0
) -> dict[str, Any]:
    """What a look at a path found, both ways alike."""
    ways = [{"rate": rate, "offered": 1.25 * rate, "sent": sent, "lost": lost}] * 2
    trips = {"sent": 31, "came_back": 31, "least_ns": trip, "median_ns": trip, "most_ns": trip + apart}
    return {"round_trip": trips, "ways": ways}


@pytest.mark.parametrize(
    ("text", "seen", "said"),
    [
        ("100mbit 20ms", found(), []),
        ("100mbit 20ms", found(rate=1.029e8, trip=21_190_000), []),
        (
            "100mbit 20ms",
            found(rate=1.04e8),
            [f"rate {way}: 100 Mbit/s were asked for, 104 Mbit/s found" for way in ("up", "down")],
        ),
        ("100mbit 20ms", found(trip=21_300_000), ["round trip: 20 ms was asked for, 21.3 ms found"]),
        ("100mbit 20ms", found(trip=18_700_000), ["round trip: 20 ms was asked for, 18.7 ms found"]),
        ("100mbit 20ms jitter 4ms", found(trip=21_900_000, apart=5_000_000), []),
        (
            "100mbit 20ms jitter 4ms",
            found(apart=1_000_000),
            ["jitter: 4 ms was asked for, and round trips lie 1 ms apart"],
        ),
        (
            "100mbit 20ms jitter 4ms",
            found(apart=9_000_000),
            ["jitter: 4 ms was asked for, and round trips lie 9 ms apart"],
        ),
        (
            "100mbit 20ms",
            found(lost=1),
            [f"loss {way}: 0 % was asked for, 1 of 400 packets were lost" for way in ("up", "down")],
        ),
        ("100mbit 20ms loss 1%", found(lost=85, sent=7000), []),
        (
            "100mbit 20ms loss 1%",
            found(lost=112, sent=7000),
            [f"loss {way}: 1 % was asked for, 112 of 7000 packets were lost" for way in ("up", "down")],
        ),
        (
            "100mbit 20ms loss 1%/0",
            found(lost=0, sent=2500),
            ["loss down: 1 % was asked for, 0 of 2500 packets were lost"],
        ),
    ],
)
def test_a_path_is_held_against_the_link(text: str, seen: dict[str, Any], said: list[str]) -> None:
    assert list(verified.faults(parse(text), seen)) == said


def test_a_rate_is_printed_without_an_exponent() -> None:
    assert [bit_rate(rate) for rate in (999.97e6, 999.4e6, 2.5e9, 1e3)] == [
        "1 Gbit/s", "999 Mbit/s", "2.5 Gbit/s", "1 kbit/s",
    ]  # fmt: skip
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
    golden = ROOT / "tests" / "data" / "links.txt"
    assert "".join(f"{line}\n" for line in shown.lines(looked())) == golden.read_text()
    assert next(iter(shown.lines(looked(wrong="rate")))) == "200mbit 20ms loss 0.1%/0%: NOT as asked: rate"
    (told,) = shown.document([looked()])["links"]
    assert told["as_asked"] and told["asked"]["raw_tcp_at_most"] == pytest.approx([188.296e6] * 2, rel=1e-4)


@pytest.mark.parametrize(
    ("words", "code", "said", "hint"),
    [
        ("fast", 3, "LINK: 'fast': 'fast' is no part of a link", "venturi links names those"),
        ("lte --client ''", 2, "--client: names no program", 'as in --client "iperf3 ..."'),
        ('lte --client "a \'b"', 2, '--client: "a \'b": no closing quotation', "as in --client"),
        ("lte --client no-such-program", 2, "no program 'no-such-program' is in PATH", ""),
        ("lte --client true --server no-such", 2, "--server: no program 'no-such' is in PATH", ""),
        ("--client true", 2, "--client goes over one link, and none of them were named", "as in venturi"),
        ("lte 1gbit --client true", 2, "--client goes over one link, and 2 of them were named", ""),
        ("lte --client true --json", 2, "--json does not go with --client", ""),
        ("lte --client true --repeats 2", 2, "--repeats does not go with --client", ""),
        ("lte --server true", 2, "--server goes with --client", "venturi links --help"),
        ("lte --cross 10%", 2, "--cross goes with --client", "venturi links --help"),
        ("5ms --cross 10% --client true", 2, "--cross is a share of a rate, and '5ms' has none", ""),
        (
            "lte --cross 200% --client true",
            2,
            "--cross: '200%' must lie between 0% and 100%",
            "as in --cross 5%",
        ),
        ("lte --repeats 0", 2, "--repeats: input should be greater", "venturi links --help"),
    ],
)
def test_wrong_use(words: str, code: int, said: str, hint: str) -> None:
    done = venturi("links", *shlex.split(words))
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr and hint in done.stderr


def test_a_command_has_the_addresses_of_the_ends() -> None:
    assert programs.read("--client", "sh -c 'ping {server}' {client}:7") == [
        *("sh", "-c", "ping 10.77.0.2", "10.77.0.1:7"),
    ]
