"""A stranger's servers of charrow, 1.1 and 1.2, written from docs/targets/charrow.md alone: plain sockets,
Arrow by pyarrow. They share nothing with Venturi's own ends, and import nothing of them."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from support.charrow_peer import (
    ANSWER,
    ASK,
    BLOCK,
    ERROR,
    HEADER,
    HELLO,
    SCHEMA,
    STATISTICS,
    Partition,
    number,
    sized,
)


def text(peer: Partition) -> str:
    return peer.exactly(peer.number()).decode()


def handshake(peer: Partition) -> dict[str, Any]:
    """What the client has said behind the 0 that a handshake begins with."""
    seen: dict[str, Any] = {"major": peer.number(), "minor": peer.number()}
    seen |= {name: text(peer) for name in ("client", "database", "user", "password", "encoder")}
    return seen | {"encoder_version": peer.number(), "encoders": peer.number()}


def lines(name: str) -> dict[str, str]:
    """`key=value` behind the first line, which is the name."""
    return dict(line.split("=", 1) for line in name.split("\n")[1:] if "=" in line)


@dataclass
class Session:
    """One query of the 1.2 server. What is dealt is counted here and by each partition."""

    text: str
    left: list[int]
    partitions: int | None
    came: int = 0
    dealt: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("blocks", "rows", "bytes"), 0))


class Wrong(Exception):
    """What the client is told before it is hung up on."""


class NewServer:
    """A server of 1.2, with a thread a connection. It answers the questions that it is given answers for, and
    refuses all others. Block 3 is dealt with as `fault` says:

    `left out`: it is counted and not sent; `lost`: only the query counts it; `twice`: it is sent twice;
    `trailing`: 64 bytes follow its body; `schema`: 64 bytes follow the schema; `silent`: no statistics.
    """

    def __init__(
        self,
        batches: Sequence[pa.RecordBatch],
        answers: Mapping[str, Callable[[str], str]] | None = None,
        *,
        fault: str | None = None,
        endless: bool = False,
        lists: bool = True,
    ) -> None:
        self.batches, self.fault, self.endless = list(batches), fault, endless
        self.answers = dict(answers or {})
        self.lists = lists
        """Whether Hello tells which questions are answered."""
        self.handshakes: list[dict[str, Any]] = []
        self.questions: list[tuple[str, str]] = []
        self.early = 0
        """Questions that came before Hello was said."""
        self.late = 0
        """How many clients have to ask a query before they hear Hello, however long they take for that."""
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._listener, self.address = self._listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _listen(self) -> tuple[socket.socket, str]:
        listener = socket.create_server(("127.0.0.1", 0))
        return listener, f"127.0.0.1:{listener.getsockname()[1]}"

    def __enter__(self) -> Any:
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
            try:
                parameters = self._greet(peer)
                while (flag := self._flag(peer)) in (HEADER, ASK):
                    one, other = text(peer), text(peer)
                    if flag == HEADER:
                        self._query(peer, one, other, parameters)
                    elif parameters is None:
                        raise Wrong("a question is of version 1.2")
                    else:
                        self._answer(peer, one, other)
            except Wrong as error:
                peer.send(number(ERROR) + sized(str(error)))

    def _greet(self, peer: Partition) -> dict[str, str] | None:
        """The parameters of 1.2; None for a client of 1.1."""
        if peer.number() != HEADER:
            raise Wrong("a handshake begins with 0")
        self.handshakes.append(seen := handshake(peer))
        if seen["major"] != 1 or seen["minor"] not in (1, 2):
            raise Wrong(f"version {seen['major']}.{seen['minor']}: this server speaks 1.1 and 1.2")
        if (seen["encoder"], seen["encoder_version"]) != ("Arrow", 1) or not 1 <= seen["encoders"] <= 1024:
            raise Wrong("there is an encoder Arrow, version 1, of 1 to 1024 threads")
        if seen["minor"] == 1:
            return None
        parameters = lines(seen["client"])
        if any(parameters.get(key, "none") != "none" for key in ("compression", "checksum")):
            raise Wrong("this server has neither compression nor checksums")
        if self.late:
            self.late -= 1
            begun = peer.socket.recv(8, socket.MSG_PEEK | socket.MSG_WAITALL)
            self.early += begun == number(ASK)
        said = {"version": "1.2", "software": "stranger 1.0", "future": "ignored"}
        if self.lists:
            said["asks"] = ",".join(self.answers)
        self._hello(peer, said, parameters)
        return parameters

    def _flag(self, peer: Partition) -> int:
        """Of the next message."""
        return peer.number()

    def _hello(self, peer: Partition, said: Mapping[str, str], parameters: Mapping[str, str]) -> None:
        """The first words, to a client with these parameters."""
        peer.send(number(HELLO) + sized("\n".join(f"{key}={value}" for key, value in said.items())))

    def _payload(self, at: int) -> bytes:
        """Of that block."""
        return self.batches[at].serialize().to_pybytes()  # type: ignore[no-any-return]

    def _block(self, peer: Partition, payload: bytes) -> None:
        peer.send(number(BLOCK) + sized(payload))

    def _answer(self, peer: Partition, name: str, payload: str) -> None:
        self.questions.append((name, payload))
        if name not in self.answers:
            raise Wrong(f"this server does not answer {name}")
        peer.send(number(ANSWER) + sized(self.answers[name](payload)))

    def _join(self, identity: str, asked: str, parameters: Mapping[str, str]) -> Session:
        count = int(parameters["partitions"]) if "partitions" in parameters else None
        with self._lock:
            made = Session(asked, list(range(len(self.batches))), count)
            session = self._sessions.setdefault(identity, made) if identity else made
            if session.text != asked:
                raise Wrong("this query id has another text")
            if count is not None and session.partitions not in (None, count):
                raise Wrong("the query has another number of partitions")
            session.came += 1
            return session

    def _query(
        self, peer: Partition, identity: str, asked: str, parameters: Mapping[str, str] | None
    ) -> None:
        session = self._join(identity, asked, parameters or {})
        schema = self.batches[0].schema.serialize().to_pybytes()
        peer.send(number(SCHEMA) + sized(schema + bytes(64 if self.fault == "schema" else 0)))
        mine = dict.fromkeys(session.dealt, 0)
        while (at := self._deal(session, mine)) is not None:
            payload = self._payload(at)
            times = 1
            if at == 3:
                payload += bytes(64 if self.fault == "trailing" else 0)
                times = {"left out": 0, "lost": 0, "twice": 2}.get(self.fault or "", 1)
            for _ in range(times):
                self._block(peer, payload)
        if parameters is not None and self.fault != "silent":
            index = int(parameters.get("partition", 0))
            with self._lock:
                query = session.dealt | {"partitions": session.came}
            told = {"partition": mine | {"index": index}, "query": query}
            peer.send(number(STATISTICS) + sized(json.dumps(told)))
        peer.send(number(BLOCK) + number(0))

    def _deal(self, session: Session, mine: dict[str, int]) -> int | None:
        with self._lock:
            if not session.left:
                return None
            at = session.left.pop(0)
            if self.endless:
                session.left.append(at)
            batch = self.batches[at]
            counters = [session.dealt] if (self.fault, at) == ("lost", 3) else [session.dealt, mine]
            for dealt in counters:
                dealt["blocks"] += 1
                dealt["rows"] += batch.num_rows
                dealt["bytes"] += batch.nbytes
            return at


class OldServer(NewServer):
    """A server of 1.1 that knows nothing of 1.2: it ignores what stands in the client name."""

    def __init__(self, batches: Sequence[pa.RecordBatch], refuse_minor_2: str | None = None) -> None:
        self.refuse = refuse_minor_2
        """How a minor version of 2 is met: `error`, `close`, or None: it is not looked at."""
        self.asked: list[tuple[str, str]] = []
        self.error: str | None = None
        self.change: Callable[[int, bytes], bytes | None] = lambda at, payload: payload
        """What becomes of block `at`: its payload, another one, or None: the connection breaks there."""
        super().__init__(batches)

    def _greet(self, peer: Partition) -> None:
        assert peer.number() == HEADER
        self.handshakes.append(seen := handshake(peer))
        if seen["minor"] > 1 and self.refuse:
            raise Wrong("unsupported protocol version") if self.refuse == "error" else EOFError

    def _join(self, identity: str, asked: str, parameters: Mapping[str, str]) -> Session:
        self.asked.append((identity, asked))
        if self.error is not None:
            raise Wrong(self.error)
        return super()._join(identity, asked, parameters)

    def _payload(self, at: int) -> bytes:
        payload = self.change(at, super()._payload(at))
        if payload is None:
            raise EOFError
        return payload
