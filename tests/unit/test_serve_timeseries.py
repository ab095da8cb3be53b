"""The reference store as its users meet it: what it says, what it keeps, what it refuses, how it ends; what
`--durable` promises, by the calls that it makes before it answers; and its limits."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.mistakes import check
from support.needs import require
from support.run import TESTS, command, environment, venturi
from support.store import Line, Store, StoreInProcess, row
from support.wait import wait_until
from venturi.common.errors import VenturiError
from venturi.store.sql import ask

pytestmark = pytest.mark.usefixtures("core")
KILLS = int(os.environ.get("VENTURI_KILLS", "1"))


def test_it_says_where_it_listens_and_how_safe_points_are(tmp_path: Path) -> None:
    flags = ("--durable", "fsync", "--threads", "2", "--accept-late", "--max-series", "2")
    with Store(tmp_path / "data", *flags) as store:
        hello = store.hello
        assert set(hello["addresses"]) >= {"resp", "opentsdb", "influx", "http"}
        assert hello["settings"]["durable"] == "fsync" and hello["settings"]["threads"] == 2
        found = store.stats()
        assert found["software"].startswith("venturi ") and found["place"]["pid"] == hello["pid"]
        assert (found["points"], found["series"], found["durable"]) == (0, 0, "fsync")
        line = store.connect()
        line.send(row(9, 1.0, 2.0) + row(5, 1.0, 2.0))
        assert line.flush() == "+OK 4", "a late point is kept"
        line.send(row(9, 1.0, 2.0, host="other"))
        assert "too many series: max_series is 2" in line.answer()
        line.close()
        assert store.stop() == ""


def test_who_reads_it_himself_is_told_what_is_there(tmp_path: Path) -> None:
    ports = ["--port", "0", "--opentsdb", "0", "--influx", "0", "--http", "0"]
    words = command("serve", "timeseries", "--data", tmp_path / "data", *ports)
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as store:
        assert store.stdout is not None
        said = [store.stdout.readline() for _ in range(2)]
        assert said[0] == f"serving time series in {tmp_path / 'data'}  (Ctrl-C stops)\n"
        host, _, port = said[1].split()[0].removeprefix("akumuli://").rpartition(":")
        with socket.create_connection((host, int(port)), 60) as line:
            line.sendall(row(1, 1.0, 2.0) + b"+FLUSH\r\n")
            assert line.recv(100) == b"+OK 2\r\n"
        store.send_signal(signal.SIGINT)
        out, error = store.communicate(timeout=60)
        assert store.returncode == 0
        assert "stopped: 2 points of 2 series" in out + error and str(tmp_path / "data") in out + error


def test_other_programs_read_every_kind_of_page(tmp_path: Path) -> None:
    chance = random.Random(5)
    kinds = {"levels": lambda: chance.randrange(100) / 100, "noise": chance.random, "one": lambda: 7.5}
    series = {f"{kind}{at} host=a": draw for at in range(3) for kind, draw in kinds.items()}
    sent = {
        (name, 1_577_836_800_000_000_000 + at * 10**9): draw()
        for at in range(3000)
        for name, draw in series.items()
    }
    with StoreInProcess(tmp_path / "data", threads=1) as store:
        line = store.connect("influx")
        for (name, time_ns), value in sent.items():
            metric, tag = name.split(" ")
            line.send(f"{metric},{tag} value={value!r} {time_ns}\n".encode())
        assert line.flush(b"#flush\n") == f"ok {len(sent)}"
    (file,) = (tmp_path / "data" / "points").glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert {"RLE_DICTIONARY", "BYTE_STREAM_SPLIT"} <= set(group.column(3).encodings)
    table = pq.read_table(file)
    times = table["time"].cast("int64").to_pylist()
    keys = zip(table["series"].to_pylist(), times, strict=True)
    assert dict(zip(keys, table["value"].to_pylist(), strict=True)) == sent
    query = "select series, count(distinct value) as n, min(value) as low, max(value) as high from points"
    done = venturi("sql", tmp_path / "data", f"{query} group by series", "--format", "json")
    told = {line["series"]: (line["n"], line["low"], line["high"]) for line in json.loads(done.stdout)}
    values = {name: {sent[key] for key in sent if key[0] == name} for name in series}
    assert told == {name: (len(own), min(own), max(own)) for name, own in values.items()}


def load(store: Store, stop: threading.Event, flushed: list[int], base: int) -> None:
    """Rows as fast as they go, flushed now and then, until the store is gone."""
    line = store.connect()
    try:
        for n in range(1_000_000):
            line.send(b"".join(row(base + 20 * n + k, n + 0.25, k + 0.5, host=f"h{base}") for k in range(20)))
            said = line.flush()
            if not said.startswith("+OK "):
                return
            flushed[0] = int(said[4:])
            if stop.is_set():
                return
    except OSError:
        pass
    finally:
        line.close()


def _have(flushed: list[list[int]], wanted: int) -> bool:
    return sum(count[0] for count in flushed) >= wanted


def everything(data: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in data.glob("*/*")}


def fewer_series(store: Store) -> None:
    """Whoever allows fewer series than there are is told, and nothing changes."""
    before = everything(store.data)
    ports = [word for name in ("opentsdb", "influx", "http") for word in (f"--{name}", "none")]
    words = ("--data", store.data, "--port", "0", *ports, "--max-series", "3")
    done = venturi("serve", "timeseries", *words)
    assert done.returncode == 2 and "more series than --max-series 3 allows" in done.stderr, done.stderr
    assert everything(store.data) == before


def more_series(store: Store) -> None:
    with Store(store.data, "--max-series", "32Mi") as again:
        again.kill()


def damaged(store: Store) -> None:
    """A bit of a log turns. What is behind it is named, and is there once the log is mended."""
    log = max((store.data / "log").glob("*.log"), key=lambda file: file.stat().st_size)
    content = log.read_bytes()
    place = len(content) // 2
    log.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    kept = log.with_suffix(".log.damaged")
    for name in (log, kept):
        with Store(store.data) as again:
            named = [one["file"] for one in again.hello["recovered"]["damaged"]]
            assert named == [f"log/{name.name}"]
            again.kill()
    for file in store.data.glob(f"*/{log.stem}-*.parquet"):
        file.unlink()
    kept.unlink()
    log.write_bytes(content)


def limit_files(store: Store, most: int) -> None:
    """As for a full disk, a write takes less than it is given, or nothing: no file grows any more."""
    _, hard = resource.prlimit(store.hello["pid"], resource.RLIMIT_FSIZE)
    resource.prlimit(store.hello["pid"], resource.RLIMIT_FSIZE, (most, hard))


@pytest.mark.parametrize(
    ("durable", "full", "after"),
    [
        ("os", False, fewer_series),
        ("fsync", False, more_series),
        ("os", True, None),
        ("fsync", True, damaged),
    ],
)
def test_a_killed_store_loses_nothing_that_it_acknowledged(
    tmp_path: Path, durable: str, full: bool, after: Callable[[Store], None] | None
) -> None:
    chance = random.Random(1)
    promised = 0
    for attempt in range(KILLS):
        with Store(tmp_path / "data", "--durable", durable, "--segment-points", "8192") as store:
            found = store.stats()["points"]
            assert found >= promised, f"start {attempt}: {found} points of {promised} that were acknowledged"
            assert store.hello["recovered"]["damaged"] == []
            counts = [[0], [0]]
            stop = threading.Event()
            threads = [
                threading.Thread(target=load, args=(store, stop, counts[i], 10**6 * (2 * attempt + i)))
                for i in range(2)
            ]
            for thread in threads:
                thread.start()
            # In the middle of writing, syncing or sealing, whatever it does then.
            wait_until(partial(_have, counts, chance.randrange(200, 3_000)))
            if full:
                limit_files(store, 4_000)
                for thread in threads:
                    thread.join()
                # There is room again, and nobody is made to believe that more is stored.
                limit_files(store, resource.RLIM_INFINITY)
                assert store.connect().flush().startswith("-DB")
            store.kill()
            for thread in threads:
                thread.join()
            promised = found + sum(c[0] for c in counts)
        if after is not None:
            after(store)
        for file in (tmp_path / "data" / "points").glob("*.parquet"):
            assert pq.read_metadata(file).num_rows > 0
    with Store(tmp_path / "data") as store:
        assert store.stats()["points"] >= promised > 0


def test_what_is_wrong_with_its_directory_is_said_in_a_line(tmp_path: Path) -> None:
    with StoreInProcess(tmp_path / "data"):
        words = ["--port", "0", "--http", "none", "--opentsdb", "none", "--influx", "none"]
        done = venturi("serve", "timeseries", "--data", tmp_path / "data", *words)
        assert done.returncode == 4 and "is in use" in done.stderr and "Traceback" not in done.stderr
    file = tmp_path / "file"
    file.write_text("x")
    done = venturi("serve", "timeseries", "--data", file, "--port", "0")
    assert done.returncode == 4 and done.stderr.count("\n") <= 2 and str(file) in done.stderr


# ---- `venturi sql DIR`: it reads the sealed segments and nothing else, and names what is damaged


ASKED = (
    "select series, count(*) as n, sum(value) as total from points group by all order by series",
    "select * from points where time > '2020-01-01 00:00:05+00' and value > 3.5 order by all",
    "select * from points where series like '%host=a' order by all",
    "select * from series order by all",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two segments: of host a, and of host b. Rust's tests hold that damage at any byte is seen
    (crates/servers/src/timeseries/tests/damage.rs)."""
    data = tmp_path_factory.mktemp("store") / "data"
    for host in ("a", "b"):
        with StoreInProcess(data, threads=1) as store:
            line = store.connect()
            line.send(b"".join(row(at, at / 7, 3.0 + at % 2, host=host) for at in range(12)))
            assert line.flush() == "+OK 24"
    return data


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def files(data: Path) -> list[Path]:
    return sorted(data.glob("*/*.parquet"))


def turned(file: Path, place: int) -> bytes:
    """Turns a bit at this byte; returns what was there."""
    content = file.read_bytes()
    file.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
    return content


def answers(data: Path) -> tuple[list[Any], list[str]]:
    """What all queries answer, and the files that are named."""
    found = [ask([data], query) for query in ASKED]
    (named,) = {tuple(one.file for one in damaged) for _, damaged in found}
    return [table.to_pylist() for table, _ in found], list(named)


def without(whole: Path, file: Path, folder: Path) -> list[Any]:
    """What is answered where the segment of a file is not there."""
    rest = shutil.copytree(whole, folder)
    for one in files(rest):
        if one.name[:16] == file.name[:16]:
            one.unlink()
    found, named = answers(rest)
    assert named == []
    return found


@pytest.mark.parametrize(("folder", "share"), [("points", 0.05), ("series", 0.95)])
def test_the_command_names_it_and_ends_with_its_code(
    whole: Path, data: Path, tmp_path: Path, folder: str, share: float
) -> None:
    file = sorted((data / folder).glob("*.parquet"))[0]
    turned(file, int(file.stat().st_size * share))
    others = without(whole, file, tmp_path / "without")
    assert answers(data) == (others, [str(file)])
    done = venturi("sql", data, ASKED[0], "--format", "csv")
    assert done.returncode == 7
    warning, error, hint = done.stderr.splitlines()
    assert warning.startswith(f"warning: {file}: ") and warning.endswith("left out of the answer")
    assert error.startswith(f"error: {data}: 1 damaged file") and hint.startswith("hint: ")
    assert done.stdout.splitlines()[1:] == [",".join(map(str, line.values())) for line in others[0]]


def test_a_query_reads_no_other_file_and_writes_none(whole: Path) -> None:
    file = next((whole / "points").glob("*.parquet"))

    def refused(query: str) -> str:
        with pytest.raises(VenturiError) as refused:
            ask([whole], query.removeprefix("''").replace("STORE", str(whole)).replace("SEGMENT", str(file)))
        return refused.value.message.replace(str(whole), "STORE")

    check("queries", refused)


# ---- what `--durable` promises, seen from the system's side


class Noted(Store):
    """A store whose calls are noted."""

    def __init__(self, folder: Path, library: Path, durable: str) -> None:
        self.notes, self.fail = folder / "notes", folder / "fail"
        given = {"LD_PRELOAD": str(library), "NOTES": str(self.notes), "FAIL": str(self.fail)}
        super().__init__(folder / "data", "--durable", durable, "--threads", "1", **given)

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
    return partial(Noted, tmp_path, library)


FLUSHES = 20


def flushed(store: Store) -> None:
    line = store.connect()
    for second in range(FLUSHES):
        line.send(row(second, 1.0, 2.0))
        assert line.flush() == f"+OK {2 * (second + 1)}"


def test_fsync_answers_what_the_disk_has(noted: Callable[[str], Noted]) -> None:
    with noted("fsync") as store:
        flushed(store)
        calls = store.calls()
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
    with noted(durable) as store:
        flushed(store)
        store.post("/api/seal")
        calls = [call[0] for call in store.calls()]
    assert calls.count("answer") == FLUSHES
    assert "fdatasync" not in calls and "fsync" not in calls


def test_what_the_disk_does_not_take_is_not_acknowledged(noted: Callable[[str], Noted]) -> None:
    with noted("fsync") as store:
        line = store.connect()
        line.send(row(1, 1.0, 2.0))
        assert line.flush() == "+OK 2"
        store.fail.touch()
        line.send(row(2, 1.0, 2.0))
        said = line.flush()
        assert said.startswith("-DB cannot sync a log: Input/output error") and "started again" in said
        # The disk may be well again: what it has lost meanwhile, nobody knows.
        store.fail.unlink()
        assert store.connect().flush().startswith("-DB cannot sync a log")
        assert "cannot sync a log" in store.stats()["failure"]


def test_a_log_goes_when_its_segment_is_on_the_disk(noted: Callable[[str], Noted]) -> None:
    with noted("fsync") as store:
        flushed(store)
        store.post("/api/seal")
        # It answers when all is on the disk, and the log may go a moment later.
        wait_until(
            lambda: any(name == "unlink" and "/log/" in path for name, path, *_ in store.calls()), store.calls
        )
        calls = store.calls()

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


def test_a_full_disk_is_told_by_the_store_and_its_exit_code(tmp_path: Path) -> None:
    with Store(tmp_path / "data", "--durable", "fsync") as store:
        line = store.connect()
        line.send(row(1, 1.0, 2.0))
        assert line.flush() == "+OK 2"
        limit_files(store, 100)
        line.send(row(2, 1.0, 2.0))
        said = line.flush()
        assert said.startswith("-DB cannot write ") and "File too large" in said and "started again" in said
        # Counts are still told.
        assert store.stats()["points"] >= 2
        assert "points were refused: cannot write" in store.stop()
        assert store.process.returncode == 7
    with Store(tmp_path / "data") as store:
        assert store.stats()["points"] >= 2
        line = store.connect()
        line.send(row(3, 1.0, 2.0))
        assert line.flush() == "+OK 2"
