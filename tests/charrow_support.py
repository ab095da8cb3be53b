"""An independent peer of the protocol charrow 1.1, written from its published facts alone: a client and a
server of plain sockets, Arrow by pyarrow. It shares nothing with Venturi's own ends."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flight_support import ServerProcess

HEADER, ERROR, SCHEMA, BLOCK = 0, 8, 10, 11


def number(value: int) -> bytes:
    return struct.pack(">q", value)


def sized(value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return number(len(raw)) + raw


def handshake(
    encoders: int = 1,
    *,
    minor: int = 1,
    client: str = "test",
    database: str = "",
    user: str = "",
    password: str = "",
    encoder: str = "Arrow",
    encoder_version: int = 1,
    major: int = 1,
) -> bytes:
    return b"".join(
        (
            number(HEADER),
            number(major),
            number(minor),
            sized(client),
            sized(database),
            sized(user),
            sized(password),
            sized(encoder),
            number(encoder_version),
            number(encoders),
        )
    )


def query(identity: str, text: str) -> bytes:
    return number(HEADER) + sized(identity) + sized(text)


class Refused(Exception):
    """The server's Error."""


class Partition:
    """One connection of the 1.1 client."""

    def __init__(self, address: str, encoders: int = 1, timeout: float = 15.0, **hello: Any) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.sendall(handshake(encoders, **hello))
        self.schema: pa.Schema | None = None

    def __enter__(self) -> Partition:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Goes away as a killed process does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def ask(self, identity: str, text: str) -> None:
        self.schema = None
        self.send(query(identity, text))

    def exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = self.socket.recv(min(count - len(found), 1 << 20))
            if not piece:
                raise EOFError(f"closed after {len(found)} of {count} bytes")
            found += piece
        return bytes(found)

    def number(self) -> int:
        return int(struct.unpack(">q", self.exactly(8))[0])

    def block(self) -> pa.RecordBatch | None:
        """The next block; None at the end. Raises Refused where the server says so."""
        while True:
            flag = self.number()
            payload = self.exactly(self.number())
            if flag == ERROR:
                raise Refused(payload.decode())
            if flag == SCHEMA:
                assert self.schema is None, "a second schema"
                self.schema = pa.ipc.read_schema(pa.py_buffer(payload))
                continue
            assert flag == BLOCK, f"a message of 1.1 is never {flag}"
            assert self.schema is not None, "a block before the schema"
            if not payload:
                return None
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(payload), self.schema)
            batch.validate(full=True)
            return batch

    def blocks(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.block()) is not None:
            yield batch

    def table(self, identity: str, text: str) -> pa.Table:
        """The whole result of a query that nobody shares."""
        self.ask(identity, text)
        batches = list(self.blocks())
        return pa.Table.from_batches(batches, self.schema)

    def closed(self) -> bool:
        """Whether the server has closed this connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def shared(
    address: str, text: str, partitions: int, encoders: int = 1, identity: str = "shared", **hello: Any
) -> list[list[pa.RecordBatch]]:
    """What each of these partitions gets of one query, all asking at the same time."""
    found: list[list[pa.RecordBatch]] = [[] for _ in range(partitions)]
    wrong: list[BaseException] = []
    ready = threading.Barrier(partitions)

    def work(at: int) -> None:
        try:
            with Partition(address, encoders, **hello) as partition:
                ready.wait(15)
                partition.ask(identity, text)
                found[at] += partition.blocks()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(partitions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if wrong:
        raise wrong[0]
    return found


def together(found: Sequence[Sequence[pa.RecordBatch]]) -> pa.Table:
    return pa.Table.from_batches([batch for each in found for batch in each])


def encapsulated(batch: pa.RecordBatch) -> bytes:
    return batch.serialize().to_pybytes()


@dataclass
class Run:
    """One query of the 1.1 server: blocks in a queue, handed to whoever asks next."""

    text: str
    blocks: queue.SimpleQueue[pa.RecordBatch | None] = field(default_factory=queue.SimpleQueue)


class OldServer:
    """A server of 1.1 that knows nothing of 1.2: it ignores what stands in the client name, and hands the
    batches of a table to all who ask by one query id."""

    def __init__(self, batches: Sequence[pa.RecordBatch], refuse_minor_2: str | None = None) -> None:
        self.batches = list(batches)
        self.refuse = refuse_minor_2
        """How a minor version of 2 is met: `error`, `close`, or None: it is not looked at."""
        self.handshakes: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str]] = []
        self.error: str | None = None
        self.change: Callable[[int, bytes], bytes | None] = lambda at, payload: payload
        """What becomes of block `at`: its payload, another one, or None: the connection breaks there."""
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> OldServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), connection:
            peer = Partition.__new__(Partition)
            peer.socket = connection

            def text() -> str:
                return peer.exactly(peer.number()).decode()

            assert peer.number() == HEADER
            seen: dict[str, Any] = {"major": peer.number(), "minor": peer.number(), "client": text()}
            seen |= {"database": text(), "user": text(), "password": text(), "encoder": text()}
            seen |= {"encoder_version": peer.number(), "encoders": peer.number()}
            self.handshakes.append(seen)
            if seen["minor"] > 1 and self.refuse:
                if self.refuse == "error":
                    connection.sendall(number(ERROR) + sized("unsupported protocol version"))
                return
            while True:
                assert peer.number() == HEADER
                self._answer(connection, text(), text())

    def _answer(self, connection: socket.socket, identity: str, asked: str) -> None:
        self.asked.append((identity, asked))
        if self.error is not None:
            connection.sendall(number(ERROR) + sized(self.error))
            raise EOFError
        with self._lock:
            if identity not in self._runs:
                self._runs[identity] = Run(asked)
                for batch in (*self.batches, None):
                    self._runs[identity].blocks.put(batch)
        run = self._runs[identity]
        connection.sendall(number(SCHEMA) + sized(self.batches[0].schema.serialize().to_pybytes()))
        while (batch := run.blocks.get()) is not None:
            at = self.batches.index(batch) if len(self.batches) < 100 else 0
            payload = self.change(at, encapsulated(batch))
            if payload is None:
                raise EOFError
            connection.sendall(number(BLOCK) + sized(payload))
        run.blocks.put(None)  # the end is for all
        connection.sendall(number(BLOCK) + number(0))


def serve_command(*arguments: str) -> list[str]:
    import sys

    common = ["--port", "0", "--json", "--exit-with-parent"]
    return [sys.executable, "-m", "venturi", "serve", "charrow", *common, *arguments]


@contextlib.contextmanager
def serving(*arguments: object, **environment: str) -> Iterator[ServerProcess]:
    """`venturi serve charrow` with these arguments, as long as the block lasts."""
    server = ServerProcess(serve_command(*map(str, arguments)), environment)
    try:
        yield server
    finally:
        server.stop()
