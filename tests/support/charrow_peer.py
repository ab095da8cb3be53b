"""A stranger's client of charrow, 1.1 and 1.2, written from docs/targets/charrow.md alone: plain sockets,
Arrow by pyarrow. It shares nothing with Venturi's own ends, and imports nothing of them."""

from __future__ import annotations

import itertools
import json
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

HEADER, ERROR, SCHEMA, BLOCK = 0, 8, 10, 11
ASK, HELLO, CHECKED_BLOCK, STATISTICS, ANSWER = 1, 12, 13, 14, 15  # 1.2


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


_ids = itertools.count()


def fresh(name: str) -> str:
    """An id of a query or a trial. Servers remember them: a test that is run again, as after a failure on
    a busy machine, would get the end of its first query under the same one."""
    return f"{name}-{next(_ids)}"


def query(identity: str, text: str) -> bytes:
    return number(HEADER) + sized(identity) + sized(text)


class Refused(Exception):
    """The server's Error."""


class Partition:
    """One connection of the 1.1 client."""

    flags = frozenset((ERROR, SCHEMA, BLOCK))
    """Of the messages that it knows."""

    def __init__(self, address: str, encoders: int = 1, timeout: float = 15.0, **hello: Any) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.sendall(handshake(encoders, **hello))
        self.schema: pa.Schema | None = None
        self.statistics: dict[str, dict[str, int]] | None = None
        self.checksums: list[tuple[int, bytes]] = []
        self._counts = [0, 0]

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

    def message(self) -> tuple[int, bytes]:
        """The next one, but for an Error, which is raised as Refused. A checksum is kept with its block."""
        flag = self.number()
        assert flag in self.flags, f"a message of this version is never {flag}"
        checksum = self.number() if flag == CHECKED_BLOCK else None
        payload = self.exactly(self.number())
        if flag == ERROR:
            raise Refused(payload.decode())
        if checksum is not None:
            self.checksums.append((checksum % 2**64, payload))
        return flag, payload

    def block(self) -> pa.RecordBatch | None:
        """The next block; None at the end. Raises Refused where the server says so. From 1.2 on, what has
        come is what the server has counted for this partition."""
        while True:
            flag, payload = self.message()
            if flag == SCHEMA:
                assert self.schema is None, "a second schema"
                self.schema = pa.ipc.read_schema(pa.py_buffer(payload))
                self.statistics, self._counts = None, [0, 0]
            elif flag == STATISTICS:
                self.statistics = json.loads(payload)
            elif flag == BLOCK and not payload:
                if STATISTICS in self.flags:
                    assert self.statistics is not None, "the end came without statistics"
                    told = self.statistics["partition"]
                    assert [told["blocks"], told["rows"]] == self._counts
                return None
            else:
                assert flag in (BLOCK, CHECKED_BLOCK), flag
                assert self.schema is not None, "a block before the schema"
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(payload), self.schema)
                batch.validate(full=True)
                self._counts = [self._counts[0] + 1, self._counts[1] + batch.num_rows]
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


class NewPartition(Partition):
    """One connection of the 1.2 client; parameters as `partition=0, partitions=2`."""

    flags = Partition.flags | {HELLO, CHECKED_BLOCK, STATISTICS, ANSWER}

    def __init__(
        self, address: str, encoders: int = 1, *, user: str = "", password: str = "", **parameters: Any
    ) -> None:
        lines = ["stranger 1.0", *(f"{key}={value}" for key, value in parameters.items())]
        super().__init__(address, encoders, minor=2, client="\n".join(lines), user=user, password=password)
        flag, payload = self.message()
        assert flag == HELLO, flag
        self.hello = dict(line.split("=", 1) for line in payload.decode().splitlines())

    def question(self, name: str, payload: str = "") -> bytes:
        self.send(number(ASK) + sized(name) + sized(payload))
        flag, answer = self.message()
        assert flag == ANSWER, flag
        return answer


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
