"""Links as text, `200mbit 30ms loss 0.1%`, and as numbers.

A rate is what the link itself carries, with all that Ethernet adds to a packet, as that of a network card is:
raw TCP gets 94.1 % of it in packets of 1,500 bytes. Of short packets it carries somewhat more than a card
would: 24 of the bytes that Ethernet adds are counted in proportion, not by packet. A delay is a round trip,
as ping shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from venturi.common.suffixes import parse_count, parse_duration, parse_percent, spell_duration
from venturi.common.texts import meant

Rates = tuple[float, float]
"""bits/s with all that Ethernet adds: down (server to client) and up (client to server)."""

Way = Literal["down", "up"]
WAYS: tuple[Way, Way] = ("down", "up")
"""In the order of a link's pairs: down is from the server to the client."""

FAST = 10e9
"""bits/s from which on two ends and a path that share a few CPUs may be slower than the link."""

UNSHAPED = "unshaped"
"""Two hosts with a cable that nothing is asked of."""
CONTROLS = ("bbr", "cubic", "reno")
"""TCP's congestion controls, which the kernel has or not."""
SERVER_END = "{server}"
"""Stands for the address of a link's end where the server is."""
LINK_SETTINGS = ("link", "backplane", "cross")
"""What is set of a link that is made here."""
ETHERNET = 14 + 4 + 8 + 12
"""Bytes that Ethernet adds to a packet (IEEE 802.3, 3.1, 4.4): header, checksum, preamble, gap."""
TCP_HEADERS = 20 + 20 + 12
"""Of a packet: IP's, TCP's, and TCP's time stamps (RFC 7323), which Linux has on."""
_BITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12}
_RATE = re.compile(r"(\d+(?:\.\d+)?)(t|g|m|k)?bit(?:/s|ps)?", re.IGNORECASE)
_PER_SECOND = re.compile("bit/s(?=/|$)", re.IGNORECASE)
_LEAST_RATE, _MOST_RATE = 100_000.0, 400e9
_MOST_TRIP = 10_000_000_000
_LEAST_BUFFER, _MOST_BUFFER = 4, 1 << 30
"""Packets, and bytes."""
_FORM = 'as "1gbit", "100mbit/20mbit 30ms", "200mbit 30ms loss 0.1% jitter 1ms buffer 256KiB"'


@dataclass(frozen=True)
class Link:
    """One link. Pairs are down (server to client) and up (client to server)."""

    rate: Rates | None = None
    """bits/s, with all that Ethernet adds; None: as fast as it goes."""
    round_trip_ns: int = 0
    jitter_ns: int = 0
    """A packet's round trip lies within so much more or less of it."""
    loss: tuple[float, float] = (0.0, 0.0)
    """The part of packets that is lost, each by itself."""
    buffer: int | None = None
    """Bytes that wait before the slowest place; None: what passes in a round trip, or in 10 ms."""
    mtu: int = 1500
    """Bytes of a packet."""
    control: str | None = None
    """TCP's congestion control at both ends; None: the host's."""

    @property
    def text(self) -> str:
        """In the one spelling of it; `parse` reads it back."""
        words = []
        if self.rate is not None:
            words.append("/".join(dict.fromkeys(map(_spelt, self.rate))))
        if self.round_trip_ns:
            words.append(spell_duration(self.round_trip_ns))
        if any(self.loss):
            words += ["loss", "/".join(dict.fromkeys(f"{_plain(100 * one)}%" for one in self.loss))]
        if self.jitter_ns:
            words += ["jitter", spell_duration(self.jitter_ns)]
        if self.buffer is not None:
            words += ["buffer", f"{self.buffer}"]
        if self.mtu != 1500:
            words += ["mtu", str(self.mtu)]
        if self.control is not None:
            words.append(self.control)
        return " ".join(words) or UNSHAPED

    def of(self, operation: str) -> float | None:
        """bits/s of the way that an operation's data take; None: as fast as it goes."""
        return None if self.rate is None else self.rate[WAYS.index(way(operation))]

    def buffers(self) -> tuple[int, int]:
        """Bytes that wait at most, down and up: as asked, else what passes in a round trip or in 10 ms, and
        64 KiB, which TCP may send at once, to 1 GiB."""
        if self.buffer is not None:
            return self.buffer, self.buffer
        seconds = max(self.round_trip_ns, 10_000_000) / 1e9
        return tuple(  # type: ignore[return-value]
            min(max(65_536, int(rate / 8 * seconds)), _MOST_BUFFER)
            for rate in (self.rate or (_MOST_RATE, _MOST_RATE))
        )

    @property
    def packet(self) -> int:
        """Payload bytes of a full packet of TCP."""
        return self.mtu - TCP_HEADERS

    @property
    def payload_part(self) -> float:
        """Of the rate, what TCP gets through as payload, in full packets."""
        return self.packet / (self.mtu + ETHERNET)


@dataclass(frozen=True)
class Preset:
    """A link with a name."""

    text: str
    source: str


PRESETS: Mapping[str, Preset] = {
    "1GbE": Preset("1gbit 0.2ms", "IEEE 802.3ab; the round trip is that of two hosts at one switch"),
    "10GbE": Preset("10gbit 0.1ms", "IEEE 802.3ae; the round trip is that of two hosts at one switch"),
    "25GbE": Preset("25gbit 0.1ms", "IEEE 802.3by; the round trip is that of two hosts at one switch"),
    "infiniband-fdr": Preset(
        "54.5gbit",
        "InfiniBand, four lanes of FDR at 14.0625 GBd in 64b/66b, sold as 56 Gbit/s: the published "
        "supercomputer's (`flight-remote`); its own round trip is less than this host's",
    ),
    "wifi6": Preset(
        "700mbit 4ms jitter 2ms",
        "802.11ax, 80 MHz, two streams: 1,201 Mbit/s at the radio (MCS 11), of which some 60 % are frames",
    ),
    "lte": Preset("12mbit 70ms", "WebPageTest's connection profile LTE"),
    "same-zone": Preset(
        "10gbit 0.5ms", "a host of 10 Gbit/s; within a zone clouds promise round trips under a millisecond"
    ),
    "cross-region": Preset(
        "5gbit 65ms",
        "EC2's limit to other regions for hosts under 32 CPUs; some 4,000 km of fibre there and back, "
        "with detours",
    ),
    "satellite": Preset(
        "50mbit/5mbit 560ms", "geostationary: 260 ms a way (ITU-T G.114), and what the modems take"
    ),
}
"""By name, as they are; a link as they stand here is no promise of anybody's."""


def canonical(value: object) -> str:
    """A link's name, or its text in the one spelling of it. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no link: write one {_FORM}")
    named = _preset(value)
    return named if named is not None else parse(value).text


def canonical_rate(value: object) -> str:
    """A rate in the one spelling of it. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no rate, as 1gbit or 100mbit/20mbit")
    return Link(rate=rates(value)).text


def parse(text: str) -> Link:
    """The link of this text: words, or a name and what differs from its link. Raises ValueError, which says
    what is wrong with it."""
    written = text.replace("=", " ").split()
    if not written:
        raise ValueError(f"an empty text is no link: write one {_FORM}, or {UNSHAPED}")
    named = _preset(written[0])
    words = iter(written if named is None else written[1:])
    found: dict[str, object] = {}

    def put(name: str, value: object, word: str) -> None:
        if name in found:
            raise ValueError(f"{word} says {name.removesuffix('_ns').replace('_', ' ')} twice")
        found[name] = value

    for word in words:
        try:
            if named is not None and word == UNSHAPED:
                raise ValueError(f"{word} does not go with a name")
            if named is not None and _preset(word) is not None:
                raise ValueError(f"a link has one name, here {named}")
            _take(word, words, put)
        except ValueError as error:
            raise ValueError(f"{text!r}: {error}") from None
    base = Link() if named is None else parse(PRESETS[named].text)
    link = replace(base, **found)  # type: ignore[arg-type]
    least = _LEAST_BUFFER * (link.mtu + ETHERNET)
    if link.buffer is not None and link.buffer < least:
        raise ValueError(
            f"{text!r}: a buffer holds {_LEAST_BUFFER} packets at the least, here {least:,} bytes"
        )
    if link.jitter_ns > link.round_trip_ns:
        named_too = f"; {named} has jitter {spell_duration(base.jitter_ns)}" if base.jitter_ns else ""
        raise ValueError(
            f"{text!r}: a jitter of more than the round trip would arrive before it was sent{named_too}"
        )
    return link


def read_link(text: object) -> Link | None:
    """The link that a record names; None if it is none of this Venturi's: a newer one's, or damaged."""
    try:
        return parse(text) if isinstance(text, str) else None
    except ValueError:
        return None


def read_rates(text: object) -> Rates | None:
    """The rates that a record names; None if they are none of this Venturi's, as with `read_link`."""
    try:
        return rates(text) if isinstance(text, str) else None
    except ValueError:
        return None


def way(operation: object) -> Way:
    """Which way the data of an operation go."""
    return "down" if operation == "get" else "up"


def _take(word: str, words: Iterator[str], put: object) -> None:
    assert callable(put)
    if word == UNSHAPED:
        return
    if word in ("loss", "jitter", "buffer", "mtu"):
        value = next(words, None)
        if value is None:
            raise ValueError(f"{word} of what? Write {_EXAMPLES[word]}")
        _take_named(word, value, put)
    elif word in CONTROLS:
        put("control", word, word)
    elif _RATE.fullmatch(word.partition("/")[0]):
        put("rate", rates(word), word)
    else:
        try:
            trip = parse_duration(word) if not word[-1].isdigit() else None
        except ValueError:
            trip = None
        if trip is None:
            if _preset(word) is not None:
                raise ValueError(f"the name {word} comes first")
            accepted = (*PRESETS, *_EXAMPLES, *CONTROLS, UNSHAPED)
            raise ValueError(f"{word!r} is no part of a link; {meant(word, accepted, f'write one {_FORM}')}")
        put("round_trip_ns", _within(trip, 0, _MOST_TRIP, "a round trip of at most 10s"), word)


def _take_named(word: str, value: str, put: object) -> None:
    assert callable(put)
    if word == "loss":
        # A percentage's hundredth is no binary number: its text is to be read back as the same.
        parts = [
            round(parse_percent(part) / 100, 12) if part not in ("0", "0%") else 0.0
            for part in value.split("/")
        ]
        put("loss", _pair(parts, value), word)
    elif word == "jitter":
        put("jitter_ns", _within(parse_duration(value), 0, _MOST_TRIP, "a jitter of at most 10s"), word)
    elif word == "buffer":
        put("buffer", _within(parse_count(value), 1, _MOST_BUFFER, "a buffer of at most 1GiB"), word)
    else:
        put("mtu", _within(parse_count(value), 576, 9_000, "an MTU of 576 to 9000 bytes"), word)


_EXAMPLES = {"loss": "loss 0.1%", "jitter": "jitter 1ms", "buffer": "buffer 256KiB", "mtu": "mtu 9000"}


def _within(value: int, least: int, most: int, what: str) -> int:
    if not least <= value <= most:
        raise ValueError(f"{value:,} is out of range: {what}")
    return value


def rates(word: str) -> Rates:
    """`1gbit`, or `100mbit/20mbit`. Raises ValueError."""
    parts = []
    for part in _PER_SECOND.sub("bit", word).split("/"):
        match = _RATE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no rate, as 200mbit or 1gbit")
        rate = float(Decimal(match[1]) * _BITS[f"{(match[2] or '').lower()}bit"])
        if not _LEAST_RATE <= rate <= _MOST_RATE:
            raise ValueError(f"{part} is out of range: 100kbit to 400gbit")
        parts.append(rate)
    return _pair(parts, word)


def _pair(parts: list[float], word: str) -> tuple[float, float]:
    if len(parts) > 2:
        raise ValueError(f"{word!r} has more than two values: down/up")
    return parts[0], parts[-1]


def _spelt(rate: float) -> str:
    for unit, bits in reversed(_BITS.items()):
        if rate >= bits:
            return f"{_plain(rate / bits)}{unit}"
    return f"{_plain(rate)}bit"


def _plain(number: float) -> str:
    """A number without an exponent and without zeros at its end."""
    return f"{Decimal(repr(round(number, 9))).normalize():f}"


def _preset(text: str) -> str | None:
    """The name in its own spelling."""
    return {name.lower(): name for name in PRESETS}.get(text.strip().lower())
