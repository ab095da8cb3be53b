"""The reference store as its users meet it: what it says, what it keeps, what it refuses, how it ends."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import threading
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.run import command, environment, venturi
from support.store import Store, StoreInProcess, row
from support.wait import wait_until

pytestmark = pytest.mark.usefixtures("core")
KILLS = int(os.environ.get("VENTURI_KILLS", "2"))


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
    table = pq.read_table(file, page_checksum_verification=True)
    times = table["time"].cast("int64").to_pylist()
    keys = zip(table["series"].to_pylist(), times, strict=True)
    assert dict(zip(keys, table["value"].to_pylist(), strict=True)) == sent
    query = "select series, count(distinct value) as n, min(value) as low, max(value) as high from points"
    done = venturi("sql", tmp_path / "data", f"{query} group by series", "--format", "json")
    told = {line["series"]: (line["n"], line["low"], line["high"]) for line in json.loads(done.stdout)}
    values = {name: {sent[key] for key in sent if key[0] == name} for name in series}
    assert told == {name: (len(own), min(own), max(own)) for name, own in values.items()}
    # Whoever reads the files himself finds a flipped byte too.
    place, whole = group.column(3).data_page_offset + 1000, bytearray(file.read_bytes())
    whole[place] ^= 1
    file.write_bytes(whole)
    with pytest.raises(OSError, match="CRC checksum"):
        pq.read_table(file, page_checksum_verification=True)


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
            wait_until(partial(_have, counts, chance.randrange(200, 3_000)))
            store.kill()
            for thread in threads:
                thread.join()
            promised = found + sum(c[0] for c in counts)
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
