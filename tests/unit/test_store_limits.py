"""The reference store at its limits: crowds, a full disk, series without end; others are never harmed."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.store import Line, Store, row

pytestmark = pytest.mark.usefixtures("core")

IDLE = 10_000


@pytest.fixture
def many_files() -> Iterator[int]:
    """How many connections this process may hold; the store raises its own limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(IDLE, hard - 500) if hard != resource.RLIM_INFINITY else IDLE
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident(pid: int) -> int:
    """Bytes of memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def test_idle_connections_cost_next_to_nothing(tmp_path: Path, many_files: int) -> None:
    with Store(tmp_path / "data") as store:
        before = resident(store.hello["pid"])
        crowd: list[socket.socket] = []
        try:
            for _ in range(many_files):
                crowd.append(socket.create_connection(store.address("resp"), 10))
            # A few of them have begun to say something, and go on a byte at a time.
            message = row(1, 1.0, 2.0, host="slow")
            for byte in message[:40]:
                for slow in crowd[:20]:
                    slow.send(bytes([byte]))
            line = store.connect()
            for second in range(100):
                line.send(row(second, 1.0, 2.0))
            assert line.flush() == "+OK 200"
            assert store.stats()["connections"] >= many_files
            assert resident(store.hello["pid"]) - before < many_files * 4096 + (16 << 20)
            crowd[0].sendall(message[40:] + b"+FLUSH\r\n")
            assert Line(crowd[0]).answer() == "+OK 2"
        finally:
            for connection in crowd:
                connection.close()


@pytest.mark.parametrize("message", [b"+cpu host=", b"+a host=b\r\n:1577836800000000000\r\n+1", b"*2\r\n+"])
def test_a_line_without_end_is_ended(tmp_path: Path, message: bytes) -> None:
    with Store(tmp_path / "data") as store:
        line = store.connect()
        line.send(message)
        try:
            for _ in range(64):
                line.send(b"1" * (1 << 20))
        except OSError:
            pass  # it has hung up
        else:
            assert line.answer().startswith("-PARSER")
        assert resident(store.hello["pid"]) < 300 << 20
        assert store.connect().flush() == "+OK 0"


def test_a_tag_for_everything_is_refused(tmp_path: Path) -> None:
    tags = b" ".join(b"t%d=1" % at for at in range(1_000_000))
    with Store(tmp_path / "data") as store:
        for name, text in {
            "resp": b"+cpu " + tags + b"\r\n:1\r\n+1\r\n",
            "opentsdb": b"put cpu 1 1 " + tags + b"\n",
            "influx": b"cpu," + tags.replace(b" ", b",") + b" v=1 1\n",
        }.items():
            line = store.connect(name)
            try:
                line.send(text)
                said = line.answer()
            except OSError:
                continue  # it hung up before it had all of it
            assert said.split()[0] in ("-PARSER", "put:", "error:"), said
        assert store.stats()["points"] == 0


def test_a_full_disk_is_told_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    flushed = 0
    with Store(tmp_path / "data", "--durable", "fsync") as store:
        line = store.connect()
        # As for a full disk, a write takes less than it is given, or nothing: no file grows any more.
        resource.prlimit(store.hello["pid"], resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        said = ""
        for second in range(100_000):
            try:
                line.send(row(second, *range(200), metrics="|".join(f"m{at}" for at in range(200))))
                said = line.flush()
            except OSError:
                break
            if not said.startswith("+OK"):
                break
            flushed = int(said.split()[1])
        assert flushed > 10_000
        assert said.startswith("-DB") and "log" in said and "started again" in said, said
        # Counts are still told, and nobody is made to believe that more is stored.
        assert store.stats()["points"] >= flushed
        again = store.connect()
        again.send(row(1, 1.0, 2.0, host="new"))
        assert again.flush().startswith("-DB")
        store.kill()
    with Store(tmp_path / "data") as store:
        assert store.stats()["points"] >= flushed
        line = store.connect()
        line.send(row(200_000, 1.0, 2.0))
        assert line.flush() == "+OK 2"


def test_series_without_end_are_bounded(tmp_path: Path) -> None:
    with Store(tmp_path / "data", "--max-series", "1000") as store:
        line = store.connect()
        said = ""
        for host in range(2_000):
            try:
                line.send(row(1, 1.0, 2.0, host=f"h{host}"))
            except OSError:
                break
        said = line.answer()
        assert said.startswith("-DB") and "max_series is 1000" in said
        assert store.stats()["series"] <= 1000 and store.stats()["points"] >= 900
