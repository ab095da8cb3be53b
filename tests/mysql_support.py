"""Trials of `mysql://` by spec, and a relay that understands MySQL's packets and cheats."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any, Literal

from venturi import _core

WORKING_SET = 20_000


def spec(url: str, table: str, **more: Any) -> dict[str, Any]:
    """20,000 rows on two streams; `options` in `more` are added to the table's name."""
    options = {"table": table, **more.pop("options", {})}
    made: dict[str, Any] = {
        "trial": table,
        "target": url,
        "operation": "upsert",
        "data": {"source": "usage", "working_set": WORKING_SET, "seed": 1, "loaded_unix_s": 1_790_000_000},
        "rows_per_batch": 500,
        "rows_per_stream": 10_000,
        "streams": 2,
        "threads": 2,
        "timeout_ns": 20_000_000_000,
    }
    if "duration_ns" in more:
        made.pop("rows_per_stream")
    return {**made, **more, "options": options}


def run(url: str, table: str, **more: Any) -> dict[str, Any]:
    record = _core.run_trial(json.dumps(spec(url, table, **more)), _core.Control())
    made: dict[str, Any] = json.loads(record) if isinstance(record, str) else record
    return made


def found_sums(record: dict[str, Any]) -> dict[str, int]:
    """The sums that were found; each is what was acknowledged."""
    sums = {line["column"]: int(line["found"]) for line in record["verification"]["sums"]}
    for line in record["verification"]["sums"]:
        assert line["expected"] == line["found"] and line["in_doubt"] == "0"
    return sums


def refusal(url: str, table: str, **more: Any) -> str:
    """The line of a trial that must not begin."""
    record = run(url, table, **more)
    assert record["outcome"] == "failed", record
    message: str = record["error"]["message"]
    assert "\n" not in message and len(message) < 600, message
    return message


Trick = Literal["drop", "double", "none"]
OK = bytes([0, 1, 0, 2, 0, 0, 0])
QUERY, EXECUTE = 3, 23


class Relay:
    """Passes packets on; the n-th batch of a connection is answered but not sent, or sent twice."""

    def __init__(self, port: int, trick: Trick, batch: int = 3) -> None:
        self.port = port
        self.trick = trick
        self.batch = batch
        self.tricks = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Pair(self, client, server)


class Pair:
    """One connection through the relay."""

    def __init__(self, relay: Relay, client: socket.socket, server: socket.socket) -> None:
        self.relay, self.client, self.server = relay, client, server
        self.swallow = 0
        self.batches = 0
        for pump in (self._requests, self._answers):
            threading.Thread(target=pump, daemon=True).start()

    def _requests(self) -> None:
        for header, body in packets(self.client):
            # A command begins with sequence 0; what follows on a log-in does not.
            batch = header[3] == 0 and (body[0] == EXECUTE or body[:7] == bytes([QUERY]) + b"INSERT")
            self.batches += batch
            cheat = batch and self.batches == self.relay.batch and self.relay.trick != "none"
            self.relay.tricks += cheat
            with contextlib.suppress(OSError):
                if cheat and self.relay.trick == "drop":
                    self.client.sendall(bytes([len(OK), 0, 0, 1]) + OK)
                    continue
                if cheat:
                    self.swallow = 1
                    self.server.sendall(header + body)
                self.server.sendall(header + body)
        self._close()

    def _answers(self) -> None:
        for header, body in packets(self.server):
            if self.swallow:
                self.swallow -= 1
                continue
            with contextlib.suppress(OSError):
                self.client.sendall(header + body)
        self._close()

    def _close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def packets(end: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    with contextlib.suppress(OSError), end.makefile("rb") as stream:
        while len(header := stream.read(4)) == 4:
            length = int.from_bytes(header[:3], "little")
            body = stream.read(length)
            if len(body) < length:
                return
            yield header, body
