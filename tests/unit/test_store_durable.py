"""What `--durable` promises, seen from the system's side: which calls the store makes before it answers. And
the store at its limits."""

from __future__ import annotations

import re
import resource
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.needs import require
from support.run import TESTS
from support.store import Line, Store, StoreInProcess, row
from support.wait import wait_until

pytestmark = pytest.mark.usefixtures("core")


class Noted:
    """A store whose calls are noted."""

    def __init__(self, tmp_path: Path, library: Path, durable: str) -> None:
        self.notes, self.fail = tmp_path / "notes", tmp_path / "fail"
        self.data = tmp_path / "data"
        flags = ("--durable", durable, "--threads", "1")
        given = {"LD_PRELOAD": str(library), "NOTES": str(self.notes), "FAIL": str(self.fail)}
        self.store = Store(self.data, *flags, **given)

    def calls(self) -> list[list[str]]:
        """What was noted of the store's files so far: the call, and what it was given."""
        lines = [line.split() for line in self.notes.read_text().splitlines()]
        return [line for line in lines if line[0] == "answer" or line[1].startswith(str(self.data))]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes the calls of the program that loads it (LD_PRELOAD)."""
    source, library = TESTS / "support" / "store_notes.c", tmp_path_factory.mktemp("notes") / "notes.so"
    try:
        words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(words, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        require(False, "a C compiler")
    return library


@pytest.fixture
def noted(tmp_path: Path, library: Path) -> Callable[[str], Noted]:
    return lambda durable: Noted(tmp_path, library, durable)


FLUSHES = 20


def flushed(store: Store) -> None:
    line = store.connect()
    for second in range(FLUSHES):
        line.send(row(second, 1.0, 2.0))
        assert line.flush() == f"+OK {2 * (second + 1)}"


def test_fsync_answers_what_the_disk_has(noted: Callable[[str], Noted]) -> None:
    of = noted("fsync")
    with of.store as store:
        flushed(store)
        calls = of.calls()
    answers = [place for place, call in enumerate(calls) if call[0] == "answer"]
    assert len(answers) == FLUSHES
    size = 0
    for before, answer in zip([0, *answers], answers, strict=False):
        synced = [call for call in calls[before:answer] if call[0] == "fdatasync"]
        assert synced, f"answer {calls[answer]} came without a sync since the one before"
        assert "/log/" in synced[-1][1]
        # The whole of what was answered was in the file by then.
        assert int(synced[-1][2]) > size
        size = int(synced[-1][2])


@pytest.mark.parametrize("durable", ["os", "none"])
def test_others_do_not_wait_for_the_disk(noted: Callable[[str], Noted], durable: str) -> None:
    of = noted(durable)
    with of.store as store:
        flushed(store)
        store.post("/api/seal")
        calls = [call[0] for call in of.calls()]
    assert calls.count("answer") == FLUSHES
    assert "fdatasync" not in calls and "fsync" not in calls


def test_what_the_disk_does_not_take_is_not_acknowledged(noted: Callable[[str], Noted]) -> None:
    of = noted("fsync")
    with of.store as store:
        line = store.connect()
        line.send(row(1, 1.0, 2.0))
        assert line.flush() == "+OK 2"
        of.fail.touch()
        line.send(row(2, 1.0, 2.0))
        said = line.flush()
        assert said.startswith("-DB cannot sync a log: Input/output error") and "started again" in said
        # The disk may be well again: what it has lost meanwhile, nobody knows.
        of.fail.unlink()
        assert store.connect().flush().startswith("-DB cannot sync a log")
        assert "cannot sync a log" in store.stats()["failure"]


def test_a_log_goes_when_its_segment_is_on_the_disk(noted: Callable[[str], Noted]) -> None:
    of = noted("fsync")
    with of.store as store:
        flushed(store)
        store.post("/api/seal")
        # It answers when all is on the disk, and the log may go a moment later.
        wait_until(
            lambda: any(name == "unlink" and "/log/" in path for name, path, *_ in of.calls()), of.calls
        )
        calls = of.calls()

    def place(wanted: str) -> int:
        (found,) = [at for at, call in enumerate(calls) if re.search(wanted, " ".join(call))]
        return found

    order = [
        place(r"^fsync \S*/points/0{15}1\.parquet\.tmp "),
        place(r"^fsync \S*/series/0{15}1\.parquet\.tmp "),
        place(r"^rename \S* \S*/series/0{15}1-"),
        place(r"^fsync \S*/data/series "),
        place(r"^rename \S* \S*/points/0{15}1-"),
        place(r"^fsync \S*/data/points "),
        place(r"^unlink \S*/log/0{15}1\.log "),
    ]
    assert order == sorted(order)


# ---- the store at its limits: crowds, a full disk; others are never harmed


IDLE = 10_000
LOG_BYTES = 100_000
"""The most that a log takes, as if the disk were full."""


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


def test_lines_without_end_are_ended(tmp_path: Path) -> None:
    with Store(tmp_path / "data") as store:
        for message in (b"+cpu host=", b"+a host=b\r\n:1577836800000000000\r\n+1", b"*2\r\n+"):
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
    with StoreInProcess(tmp_path / "data") as store:
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
        resource.prlimit(store.hello["pid"], resource.RLIMIT_FSIZE, (LOG_BYTES, LOG_BYTES))
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
        assert flushed > 1_000
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
