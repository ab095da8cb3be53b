"""A stranger's server of charrow that hands blocks out through shared memory, written from
docs/targets/charrow.md alone. It shares nothing with Venturi's own ends, and imports nothing of them."""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from support.charrow_peer import BLOCK, HELLO, Partition, number, sized
from support.charrow_peer_server import NewServer

FREED, FILLED = 2, 16


class RingServer(NewServer):
    """On a Unix socket. It lies as `lie` says:

    `none`: it knows of no rings; `no file`: it hands none out; `plain`: a pipe; `large`: twice what was asked
    for; `dies`: in the middle of block 3 it hangs up. Rust's own tests hold what else a ring may lie.
    """

    def __init__(
        self, path: Path, batches: Sequence[pa.RecordBatch], lie: str | None = None, endless: bool = False
    ) -> None:
        self._path, self.lie = path, lie
        self.freed = 0
        self._sent = 0
        self._rings: weakref.WeakKeyDictionary[Partition, _Ring] = weakref.WeakKeyDictionary()
        super().__init__(batches, endless=endless)

    def _listen(self) -> tuple[socket.socket, str]:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen()
        return listener, str(self._path)

    def _hello(self, peer: Partition, said: Mapping[str, str], parameters: Mapping[str, str]) -> None:
        wanted = int(parameters.get("ring", 0))
        if not wanted or self.lie == "none":
            super()._hello(peer, said, parameters)
            return
        told = 2 * wanted if self.lie == "large" else wanted
        self._rings[peer] = ring = _Ring(told, self.lie)
        lines = "\n".join(f"{key}={value}" for key, value in {**said, "ring": told}.items())
        files = [] if self.lie == "no file" else [ring.file]
        socket.send_fds(peer.socket, [number(HELLO) + sized(lines)], files)

    def _flag(self, peer: Partition) -> int:
        while (flag := peer.number()) == FREED:
            self._free(peer)
        return flag

    def _free(self, peer: Partition) -> None:
        count, ring = peer.number(), self._rings[peer]
        assert 0 < count <= ring.used
        ring.used -= count
        self.freed += count

    def _block(self, peer: Partition, payload: bytes) -> None:
        ring = self._rings[peer]
        at = self._sent
        self._sent += 1
        header = 8 + int.from_bytes(payload[4:8], "little")
        peer.send(number(BLOCK) + number(len(payload)) + payload[:header])
        body = payload[header:]
        while body:
            while ring.used == ring.length:
                assert peer.number() == FREED
                self._free(peer)
            room = min(ring.length - ring.used, 9000)
            piece, body = body[:room], body[room:]
            ring.write(piece)
            peer.send(number(FILLED) + number(len(piece)))
            if at == 3 and self.lie == "dies":
                raise EOFError


class _Ring:
    def __init__(self, length: int, lie: str | None) -> None:
        self.length, self.used, self._at = length, 0, 0
        if lie == "plain":
            self.file, other = os.pipe()
            os.close(other)
            return
        self.file = os.memfd_create("stranger", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, length)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self._memory = mmap.mmap(self.file, length)

    def write(self, piece: bytes) -> None:
        first = min(len(piece), self.length - self._at)
        self._memory[self._at : self._at + first] = piece[:first]
        self._memory[: len(piece) - first] = piece[first:]
        self._at = (self._at + len(piece)) % self.length
        self.used += len(piece)

    def __del__(self) -> None:
        os.close(self.file)
