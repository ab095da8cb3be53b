"""Parts of proofs: what is excused, the relay and its framings."""

from __future__ import annotations

import random
import socket
import threading

import pytest

from venturi.measure.prove import stall
from venturi.measure.prove.framing import FRAMINGS
from venturi.measure.prove.outcome import Checks, Outcome, What, worst
from venturi.measure.prove.relay import Lie, Plan, Relay, _flipped


def test_only_what_noise_can_do_is_excused() -> None:
    checks = Checks()
    checks.between(What.BYTES_RATE, 100.0, 90.0, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert checks.outcome is Outcome.UNTOLD and checks[0].timed
    checks.between(What.BYTES_RATE, 100.0, 102.0, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert checks.outcome is Outcome.FAILED and not checks[1].timed
    quiet = Checks()
    quiet.between(What.BYTES_RATE, 100.0, 90.0, "B/s", 99.0, 101.0, moves="down", noisy=False)
    quiet.between(What.BYTES_RATE, 100.0, None, "B/s", 99.0, 101.0, moves="down", noisy=True)
    assert [check.outcome for check in quiet] == [Outcome.FAILED] * 2
    assert worst([Outcome.IMPOSSIBLE, Outcome.PASSED, Outcome.UNTOLD]) is Outcome.UNTOLD
    assert worst([]) is Outcome.IMPOSSIBLE


def test_responses_to_a_stall_are_those_of_a_queue() -> None:
    found = stall.responses(200e6, 0.0, 80)
    # 200 ms at 500 a second: 100 batches fall due meanwhile, 2 ms apart.
    assert sum(ns > 0 for ns in found) == 100 and found[-1] == 200e6
    assert found[-100:] == pytest.approx([2e6 * n for n in range(1, 101)])
    assert stall._rank([1.0, 2.0, 3.0, 4.0], 50.0) == 2.0 and stall._rank([1.0], 99.0) == 1.0


def _h2(stream: int, message: bytes, kind: int = 0) -> bytes:
    body = b"\0" + len(message).to_bytes(4, "big") + message if kind == 0 else message
    return len(body).to_bytes(3, "big") + bytes((kind, 0)) + stream.to_bytes(4, "big") + body


def test_batches_are_found_wherever_a_stream_is_cut() -> None:
    values = b"\xc2\x3e" + bytes(2000)
    flight = b"P" * 24 + _h2(1, b"head", 1) + _h2(1, b"\x12schema") + _h2(1, values) + _h2(3, values)
    number = lambda *given: b"".join(n.to_bytes(8, "big") for n in given)  # noqa: E731
    charrow = number(10, 4) + b"scma" + number(11, 8) + b"12345678" + number(11, 0)
    dice = random.Random(1)
    for scheme, sent, to_server, batches in (
        ("flight", flight, True, 2),
        ("charrow", charrow, False, 1),
        ("opentsdb", b"put a 1 2 h=1\nput b 1 3 h=1\n", True, 2),
    ):
        for _ in range(20):
            framing, pieces, at = FRAMINGS[scheme](100, to_server), [], 0
            while at < len(sent):
                size = dice.randint(1, 40)
                pieces += framing.feed(sent[at : at + size])
                at += size
            assert b"".join(piece.data for piece in pieces) == sent
            assert sum(piece.batch for piece in pieces) == batches


def test_one_bit_is_flipped_and_text_stays_a_number() -> None:
    data = bytes(range(20))
    (changed,) = (at for at in range(20) if data[at] != _flipped(data)[at])
    assert bin(data[changed] ^ _flipped(data)[changed]).count("1") == 1
    line = b"put a 1 2.5 host=h\n"
    assert _flipped(line) == b"put a 1 2.4 host=h\n"


@pytest.mark.parametrize(
    ("lie", "arrives"),
    [
        (None, b"a1\nb2\nc3\n"),
        (Lie.DROP, b"a1\nc3\n"),
        (Lie.DOUBLE, b"a1\nb2\nb2\nc3\n"),
        (Lie.FLIP, b"a1\nb3\nc3\n"),
        (Lie.SWAP, b"a1\nc3\nb2\n"),
    ],
)
def test_the_relay_does_what_it_is_told(lie: Lie | None, arrives: bytes) -> None:
    got = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(100):
                    got.extend(data)

        thread = threading.Thread(target=take)
        thread.start()
        plan = Plan(True, FRAMINGS["opentsdb"], 1, lie, at=1)
        with Relay("127.0.0.1", server.getsockname()[1], plan) as relay:
            with socket.create_connection(("127.0.0.1", relay.port)) as client:
                client.sendall(b"a1\nb2\nc3\n")
            thread.join(10)
        assert bytes(got) == arrives
        assert (relay.seen.batches, relay.seen.to_server, relay.seen.done) == (3, 9, lie is not None)


def test_the_relay_ends_a_connection_once_so_much_has_passed() -> None:
    plan = Plan(True, lie=Lie.CUT, cut_after=5)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Relay("127.0.0.1", server.getsockname()[1], plan) as relay,
        socket.create_connection(("127.0.0.1", relay.port), 10) as client,
    ):
        connection, _ = server.accept()
        with connection:
            connection.settimeout(10)
            client.sendall(b"a1\n")
            assert connection.recv(100) == b"a1\n"
            client.sendall(b"b2\nc3\n")
            # Neither end has anything of it.
            assert (connection.recv(100), client.recv(100)) == (b"", b"")
        assert (relay.seen.to_server, relay.seen.done) == (9, 1)
