"""The reference store as its users meet it: what it says, what it keeps, what it refuses, how it ends."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.run import environment, venturi
from support.store import Store, row
from support.wait import wait_until

pytestmark = pytest.mark.usefixtures("core")
KILLS = int(os.environ.get("VENTURI_KILLS", "4"))


def test_it_says_where_it_listens_and_how_safe_points_are(tmp_path: Path) -> None:
    with Store(tmp_path / "data", "--durable", "fsync", "--threads", "2") as store:
        hello = store.hello
        assert set(hello["addresses"]) >= {"resp", "opentsdb", "influx", "http"}
        assert hello["settings"]["durable"] == "fsync" and hello["settings"]["threads"] == 2
        found = store.stats()
        assert found["software"].startswith("venturi ") and found["place"]["pid"] == hello["pid"]
        assert (found["points"], found["series"], found["durable"]) == (0, 0, "fsync")
        assert store.stop() == ""


def test_who_reads_it_himself_is_told_what_is_there(tmp_path: Path) -> None:
    ports = [word for name in ("port", "opentsdb", "influx", "http") for word in (f"--{name}", "0")]
    command = [
        sys.executable,
        "-m",
        "venturi",
        "serve",
        "timeseries",
        "--data",
        str(tmp_path / "data"),
        *ports,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
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


def test_points_by_every_protocol_are_one_set(tmp_path: Path) -> None:
    with Store(tmp_path / "data") as store:
        lines = {
            "resp": (row(1, 1.5, 2.5), b"+FLUSH\r\n", "+OK 2"),
            "opentsdb": (b"put cpu.user 1577836802 3.5 host=a\n", b"flush\n", "ok 1"),
            "influx": (b"cpu,host=a user=4.5,sys=5i 1577836803000000000\n", b"#flush\n", "ok 2"),
        }
        for name, (message, flush, said) in lines.items():
            line = store.connect(name)
            line.send(message)
            assert line.flush(flush) == said
            line.close()
        host, port = store.address("http")
        body = gzip.compress(b"cpu,host=a user=6.5 1577836804000000000\n")
        asked = urllib.request.Request(f"http://{host}:{port}/api/v2/write?bucket=x", body, method="POST")
        asked.add_header("Content-Encoding", "gzip")
        assert urllib.request.urlopen(asked, timeout=10).status == 204
        assert (store.stats()["points"], store.stats()["series"]) == (6, 2)
        found = store.get("/api/stored?metric=cpu.user")
        assert (found["points"], found["min"], found["max"], found["sum"]) == (4, 1.5, 6.5, 16.0)
        store.stop()
    done = venturi("sql", tmp_path / "data", "select series, metric, time, value from points order by value")
    assert done.stderr == ""
    assert [line.split()[-1] for line in done.stdout.splitlines()[2:]] == [
        "1.5",
        "2.5",
        "3.5",
        "4.5",
        "5",
        "6.5",
    ]
    query = "select metric, points, sum from series order by metric"
    done = venturi("sql", tmp_path / "data", query, "--format", "json")
    assert json.loads(done.stdout) == [
        {"metric": "cpu.sys", "points": 2, "sum": 7.5},
        {"metric": "cpu.user", "points": 4, "sum": 16.0},
    ]


@pytest.mark.parametrize(
    ("name", "garbage", "said"),
    [
        ("resp", b"+cpu host=a\r\nrubbish\r\n", "-PARSER"),
        ("resp", b"+cpu\r\n:1577836900000000000\r\n+1\r\n", "-PARSER"),
        ("resp", b"+a|b host=a\r\n:1577836900000000000\r\n*999999999\r\n", "-PARSER"),
        ("resp", b"+cpu.user host=a\r\n:1577836800000000001\r\n+1\r\n", "-DB late write"),
        ("opentsdb", b"put cpu.user now 1 host=a\n", "put: "),
        ("opentsdb", b"put cpu.user 1577836800 1 host=a\n", "database: late write"),
        ("influx", b"cpu,host=a user= 1577836900000000000\n", "error: "),
    ],
)
def test_garbage_gets_a_line_and_what_came_before_is_kept(
    tmp_path: Path, name: str, garbage: bytes, said: str
) -> None:
    with Store(tmp_path / "data") as store:
        other = store.connect()
        other.send(row(50, 1.0, 2.0))
        assert other.flush() == "+OK 2"
        line = store.connect(name)
        before = {
            "resp": row(60, 3.0, 4.0, host="b"),
            "opentsdb": b"put x 1577836900 3 host=b\nput x 1577836901 4 host=b\n",
            "influx": b"y,host=b v=3,w=4 1577836900000000000\n",
        }[name]
        line.send(before + garbage)
        assert line.answer().startswith(said)
        assert line.answer() == ""
        # Others are not disturbed, and what came before is there.
        other.send(row(70, 1.0, 2.0))
        assert other.flush() == "+OK 4"
        assert store.stats()["points"] == 6


def test_it_goes_on_with_what_is_there(tmp_path: Path) -> None:
    for start in range(3):
        with Store(tmp_path / "data") as store:
            assert store.stats()["points"] == 20 * start
            line = store.connect()
            line.send(b"".join(row(100 * start + n, 1.0, 2.0) for n in range(10)))
            assert line.flush() == "+OK 20"
            line.close()
            store.stop()
    with Store(tmp_path / "data") as store:
        line = store.connect()
        line.send(row(5, 1.0, 2.0))
        assert line.answer().startswith("-DB late write")
        assert store.stats()["late"] == 2
    with Store(tmp_path / "data", "--accept-late") as store:
        line = store.connect()
        line.send(row(5, 1.0, 2.0))
        assert line.flush() == "+OK 2"


def test_other_programs_read_every_kind_of_page(tmp_path: Path) -> None:
    chance = random.Random(5)
    kinds = {"levels": lambda: chance.randrange(100) / 100, "noise": chance.random, "one": lambda: 7.5}
    series = {f"{kind}{at} host=a": draw for at in range(3) for kind, draw in kinds.items()}
    sent = {
        (name, 1_577_836_800_000_000_000 + at * 10**9): draw()
        for at in range(3000)
        for name, draw in series.items()
    }
    with Store(tmp_path / "data", "--threads", "1") as store:
        line = store.connect("influx")
        for (name, time_ns), value in sent.items():
            metric, tag = name.split(" ")
            line.send(f"{metric},{tag} value={value!r} {time_ns}\n".encode())
        assert line.flush(b"#flush\n") == f"ok {len(sent)}"
        line.close()
        store.stop()
    (file,) = (tmp_path / "data" / "points").glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    assert {"RLE_DICTIONARY", "BYTE_STREAM_SPLIT"} <= set(group.column(3).encodings)
    table = pq.read_table(file, page_checksum_verification=True)
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


@pytest.mark.parametrize("durable", ["fsync", "os"])
def test_a_killed_store_loses_nothing_that_it_acknowledged(tmp_path: Path, durable: str) -> None:
    chance = random.Random(1)
    promised = 0
    for attempt in range(KILLS):
        with Store(tmp_path / "data", "--durable", durable, "--segment-points", "4096") as store:
            found = store.stats()["points"]
            assert found >= promised, f"start {attempt}: {found} points of {promised} that were acknowledged"
            counts = [[0], [0]]
            stop = threading.Event()
            threads = [
                threading.Thread(target=load, args=(store, stop, counts[i], 10**6 * (2 * attempt + i)))
                for i in range(2)
            ]
            for thread in threads:
                thread.start()
            # In the middle of writing, syncing or sealing, whatever it does then.
            wait_until(partial(_have, counts, chance.randrange(200, 10_000)))
            store.kill()
            for thread in threads:
                thread.join()
            promised = found + sum(c[0] for c in counts)
        for file in (tmp_path / "data" / "points").glob("*.parquet"):
            assert pq.read_metadata(file).num_rows > 0
    with Store(tmp_path / "data") as store:
        assert store.stats()["points"] >= promised > 0


def test_what_is_wrong_with_its_directory_is_said_in_a_line(tmp_path: Path) -> None:
    with Store(tmp_path / "data"):
        done = venturi("serve", "timeseries", "--data", tmp_path / "data", "--port", "0", "--http", "none",
                       "--opentsdb", "none", "--influx", "none")  # fmt: skip
        assert done.returncode == 4 and "is in use" in done.stderr and "Traceback" not in done.stderr
    file = tmp_path / "file"
    file.write_text("x")
    done = venturi("serve", "timeseries", "--data", file, "--port", "0")
    assert done.returncode == 4 and done.stderr.count("\n") <= 2 and str(file) in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--durable", "disk"), "--durable disk: is not one of none, os, fsync"),
        (("--memory", "lots"), "--memory: 'lots'"),
        (("--memory", "1MiB"), "need at least"),
        (("--port", "http"), "--port http: must be a port"),
        (("--http", "70000"), "--http 70000: must be a port"),
        (("--segment-points", "0"), "--segment-points 0: must be at least 1"),
    ],
)
def test_mistakes_on_its_command_line(words: tuple[str, ...], said: str) -> None:
    done = venturi("serve", "timeseries", *words)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


def test_a_flipped_byte_inside_a_page_is_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for host in ("a", "b"):
        with Store(data) as store:
            line = store.connect()
            line.send(b"".join(row(at, at / 7, at / 3, host=host) for at in range(3000)))
            assert line.flush() == "+OK 6000"
            store.stop()
    first, second = sorted((data / "points").glob("*.parquet"))
    whole = first.read_bytes()
    values = pq.ParquetFile(first).metadata.row_group(0).column(3)
    place = values.data_page_offset + values.total_compressed_size // 2
    first.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with Store(data) as store:
        (damaged,) = store.hello["recovered"]["damaged"]
        assert damaged["file"].endswith(first.name) and damaged["lost_bytes"] == len(whole)
        assert "value of row group 0: the page at byte" in damaged["why"]
        assert "does not have its checksum; the segment is left alone" in damaged["why"]
        assert store.stats()["points"] == 6000
    # Whoever reads the files himself can find it too, and finds all others in order.
    with pytest.raises(OSError, match="CRC checksum"):
        pq.read_table(first, page_checksum_verification=True)
    for file in (second, *(data / "series").glob("*.parquet")):
        assert pq.read_table(file, page_checksum_verification=True).num_rows > 0
