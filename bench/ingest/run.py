"""Venturi's store beside others that take the same points, and its loader beside `cat`. See bench/README.md.

A round measures every cell once, in shuffled order. All get the same points: ready-made files of messages,
one per connection, sent by `cat FILE > /dev/tcp/...`, so that a store's figures contain no loader's cost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench import shared
from bench.ingest import gauges
from bench.ingest.page import DATA, LOADERS, SCHEMES, page
from support import timeseries as stores
from support.processes import cpu_seconds
from support.wait import wait_until
from venturi import open as open_run

WORK = shared.target_directory() / "bench-ingest"


class Venturi(stores.Server):
    program = sys.executable
    protocols = ("resp", "opentsdb", "influx")

    def __init__(self, folder: Path, durable: str) -> None:
        super().__init__(folder)
        self.durable = durable
        self.name = f"venturi, {durable}"

    def command(self) -> list[str]:
        flags = [w for n in self.protocols for w in (f"--{'port' if n == 'resp' else n}", str(self.ports[n]))]
        words = [sys.executable, "-m", "venturi", "serve", "timeseries", "--data", str(self.folder)]
        return [*words, *flags, "--http", str(self.ports["http"]), "--durable", self.durable]

    def _stats(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(
            stores.fetch(f"http://127.0.0.1:{self.ports['http']}/api/stats")
        )
        return found

    def answers(self) -> bool:
        return "software" in self._stats()

    def stored(self) -> int:
        return int(str(self._stats()["points"]))


SERVERS: dict[str, Callable[[Path], stores.Server]] = {
    "venturi-none": lambda folder: Venturi(folder, "none"),
    "venturi-os": lambda folder: Venturi(folder, "os"),
    "venturi-fsync": lambda folder: Venturi(folder, "fsync"),
    "victoria-metrics": stores.VictoriaMetrics,
    "influxdb": stores.InfluxDb,
    "questdb": stores.QuestDb,
}
# What each promises when a point is taken.
DURABILITY = {
    "venturi-none": "nothing before a segment is sealed",
    "venturi-os": "log in the page cache",
    "venturi-fsync": "log on the disk",
    "victoria-metrics": "nothing before a flush to files, at most 5 s later",
    "influxdb": "log on the disk, batches of 10,000",
    "questdb": "log in the page cache, columns not compressed",
}
# Names that a store does not take in ready-made messages, and what to write instead.
RENAMED = {"questdb": ("instance-type", "instance_type")}
# Points of a loader's trial: so many that it takes two seconds or more. Made ahead, they have to fit 2 GiB.
LOADER_POINTS = {
    "cat": 200_000_000,
    "venturi": 200_000_000,
    "venturi --digits shortest": 50_000_000,
    "venturi --generate ahead": 50_000_000,
}
VERDICT_SECONDS = 5
LIMIT_SECONDS = 600.0


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "ingest", 3, "of every cell once")
    add = parser.add_argument
    add("--hosts", type=int, default=200, help="hosts, 10 series each (default 200)")
    add("--points", type=int, default=10_000_000, help="points of a trial (default 10,000,000)")
    add("--streams", type=int, default=2, help="connections (default 2)")
    add("--data", choices=DATA, default="walk", help="random walks of 17 digits, or gauges.py (stores only)")
    add("--seed", type=int, default=1, help="of the shuffle")
    names = [*SERVERS, "loader", "verdict"]
    add("--only", nargs="+", choices=names, metavar="NAME", help=" ".join(names))
    return parser.parse_args()


@contextlib.contextmanager
def sink(folder: Path | None = None) -> Iterator[int]:
    port = stores.free_port()
    words = [sys.executable, "-m", "bench.ingest.sink", str(port)]
    process = subprocess.Popen(
        [*words, *([str(folder)] if folder else [])], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield port
    finally:
        process.kill()
        process.wait()


def venturi(url: str, chosen: argparse.Namespace, *more: str, work: tuple[str, str] | None = None) -> Any:
    """The record of one trial of Venturi's loader; its run stays in WORK / "run" until the next one."""
    if chosen.data == "gauges":
        points: tuple[str, ...] = (
            "--data",
            str(gauge_file(chosen)),
            "--tags",
            "host",
            "--digits",
            "shortest",
        )
    else:
        work = work or ("--points-per-stream", str(chosen.points // chosen.streams))
        points = ("--hosts", str(chosen.hosts), "--start", gauges.START, *work)
    words = [sys.executable, "-m", "venturi", "run", "--target", url, *points]
    words += ["--streams", str(chosen.streams), "--repeats", "1", "--warmup", "0"]
    words += ["--no-ceilings", "--no-report", "--json", "--verify", "none", *more]
    folder = WORK / "run"
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([*words, "--out", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"venturi run {url}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def gauge_file(chosen: argparse.Namespace) -> Path:
    path = WORK / f"gauges-{chosen.hosts}-{chosen.points}.parquet"
    if not path.exists():
        gauges.write(path, chosen.hosts, chosen.points, chosen.seed)
    return path


def messages(protocol: str, chosen: argparse.Namespace) -> list[Path]:
    """Files of ready-made messages, one a connection; made once."""
    other = "" if chosen.data == "walk" else f"-{chosen.data}"
    folder = WORK / f"{protocol}-{chosen.hosts}-{chosen.points}-{chosen.streams}{other}"
    if not folder.is_dir():
        made = folder.with_name(folder.name + ".making")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        with sink(made) as port:
            venturi(f"{SCHEMES[protocol]}://127.0.0.1:{port}", chosen)
            time.sleep(0.5)
        made.rename(folder)
    found = sorted(folder.iterdir())
    if len(found) != chosen.streams:
        sys.exit(f"{folder}: {len(found)} files for {chosen.streams} connections; remove it")
    return found


def renamed(files: list[Path], names: tuple[str, str]) -> list[Path]:
    """The same messages with other names, beside the files; made once."""
    folder = files[0].parent.with_name(f"{files[0].parent.name}-{names[1]}")
    if not folder.is_dir():
        made = folder.with_name(folder.name + ".making")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        for file in files:
            with (made / file.name).open("wb") as out:
                subprocess.run(["sed", f"s/{names[0]}/{names[1]}/", str(file)], stdout=out, check=True)
        made.rename(folder)
    return sorted(folder.iterdir())


def cats(files: list[Path], port: int, times: int = 1) -> list[subprocess.Popen[bytes]]:
    """A `cat` a file, which sends it so many times."""
    named = [" ".join([f'"{file}"'] * times) for file in files]
    return [subprocess.Popen(["bash", "-c", f"cat {all} > /dev/tcp/127.0.0.1/{port}"]) for all in named]


def load(name: str, protocol: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """One trial: until the server has counted all points, and what it costs until all is written."""
    folder = WORK / "data"
    shutil.rmtree(folder, ignore_errors=True)
    server = SERVERS[name](folder)
    files = messages(protocol, chosen)
    if name in RENAMED:
        files = renamed(files, RENAMED[name])
    for file in files:
        with file.open("rb") as page:
            while page.read(1 << 24):
                pass  # into the page cache
    server.start()
    spent = 0.0
    try:
        spent, began = _spent(server), time.monotonic()
        senders = cats(files, server.ports[protocol])
        codes = [sender.wait(LIMIT_SECONDS) for sender in senders]
        stored = 0
        while time.monotonic() - began < LIMIT_SECONDS:
            stored = server.stored()
            if stored >= chosen.points or any(codes):
                break
            time.sleep(0.1)
        seconds = time.monotonic() - began
        _settle(server)
        _until_idle(server)
    finally:
        spent = server.stop() - spent
    return {
        "kind": "store", "name": name, "shown": server.name, "durability": DURABILITY[name],
        "protocol": protocol, "points": stored, "expected": chosen.points, "failed": any(codes),
        "seconds": seconds, "cpu_seconds": spent,
        "bytes": sum(f.stat().st_blocks * 512 for f in folder.rglob("*") if f.is_file()),
    }  # fmt: skip


def _settle(server: stores.Server) -> None:
    """Has what it holds in memory written to its files, as far as it can be asked to."""
    if isinstance(server, stores.VictoriaMetrics):
        stores.fetch(f"http://127.0.0.1:{server.ports['http']}/internal/force_flush")
        stores.fetch(f"http://127.0.0.1:{server.ports['http']}/internal/force_merge")
    elif isinstance(server, stores.QuestDb):
        # What its log holds goes into its tables.
        pending = "select count() from wal_tables() where writerTxn < sequencerTxn"
        wait_until(lambda: server.rows(pending) == [[0]])


def _spent(server: stores.Server) -> float:
    """CPU seconds of its process, all threads."""
    assert server.process is not None
    return cpu_seconds(server.process.pid)


def _until_idle(server: stores.Server) -> None:
    before, deadline = _spent(server), time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(1.5)
        now = _spent(server)
        if now - before < 0.05:
            return
        before = now


def loader(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Messages into a sink that discards them: by cat from files, by Venturi made inline, or made ahead."""
    times = max(1, LOADER_POINTS[name] // chosen.points)
    points = times * chosen.points
    with sink() as port:
        if name == "cat":
            files = messages("resp", chosen)
            began, before = time.monotonic(), os.times()
            for sender in cats(files, port, times):
                sender.wait()
            after = os.times()
            seconds = time.monotonic() - began
            spent = (
                after.children_user + after.children_system - before.children_user - before.children_system
            )
        else:
            work = ("--points-per-stream", str(points // chosen.streams))
            record = venturi(f"akumuli://127.0.0.1:{port}", chosen, *name.split()[1:], work=work)
            seconds = record["times"]["interval_ns"] / 1e9
            spent = sum(record["cpu"]["client"].values()) / 1e9
    return {"kind": "loader", "name": name, "points": points, "seconds": seconds, "cpu_seconds": spent}


def bottleneck(name: str, protocol: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """What limits this server if Venturi's loader feeds it for some seconds, by Venturi's verdict."""
    folder = WORK / "data"
    shutil.rmtree(folder, ignore_errors=True)
    server = SERVERS[name](folder)
    server.start()
    try:
        url = f"{SCHEMES[protocol]}://127.0.0.1:{server.ports[protocol]}"
        web = ("--http-port", str(server.ports["http"])) if protocol == "influx" else ()
        record = venturi(url, chosen, *web, work=("--duration", f"{VERDICT_SECONDS}s"))
    finally:
        server.stop()
    (verdict,) = open_run(WORK / "run").results.verdicts.values()
    return {
        "kind": "verdict", "name": name, "shown": server.name, "protocol": protocol,
        "points": record["counts"]["rows"], "seconds": record["times"]["interval_ns"] / 1e9,
        "cpu_seconds": sum(record["cpu"]["client"].values()) / 1e9, "verdict": verdict.kind,
        "title": verdict.title, "sentence": verdict.sentence, "confidence": verdict.confidence,
    }  # fmt: skip


def cells(chosen: argparse.Namespace, keep: Callable[[shared.Line], None]) -> list[tuple[str, str]]:
    found = []
    for name, make in SERVERS.items():
        wanted = chosen.only is None or name in chosen.only
        if not wanted and "verdict" not in chosen.only:
            continue
        server = make(WORK / "data")
        lacking = server.missing()
        if lacking:
            keep({"kind": "missing", "name": server.name, "missing": lacking})
            continue
        found += [(name, protocol) for protocol in server.protocols if wanted]
        if chosen.data == "gauges":
            continue
        peer = not name.startswith("venturi") and (chosen.only is None or "verdict" in chosen.only)
        found += [(f"verdict {name}", protocol) for protocol in server.protocols if peer]
    if chosen.data == "walk" and (not chosen.only or "loader" in chosen.only):
        found += [("loader", name) for name in LOADERS]
    return found


def measured(name: str, other: str, chosen: argparse.Namespace) -> dict[str, Any]:
    if name == "loader":
        return loader(other, chosen)
    if name.startswith("verdict "):
        return bottleneck(name.partition(" ")[2], other, chosen)
    return load(name, other, chosen)


def measure(chosen: argparse.Namespace, output: Path) -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    with output.open("w") as file:
        keep = shared.keeper(file)
        keep(
            shared.machine()
            | {n: getattr(chosen, n) for n in ("points", "hosts", "streams", "rounds", "data")}
        )
        wanted, chance = cells(chosen, keep), random.Random(chosen.seed)
        for number in range(chosen.rounds):
            for name, other in chance.sample(wanted, len(wanted)):
                line: shared.Line = {"kind": "cell", "round": number, "name": name, "protocol": other}
                # A port that was free may be somebody's by the time a server wants it.
                shared.attempted(line, partial(measured, name, other, chosen), (RuntimeError, OSError))
                keep(line)
                if "error" in line:
                    continue
                rate = line["points"] / line["seconds"] / 1e6
                cost = line["cpu_seconds"] / max(line["points"], 1) * 1e6
                print(f"{number + 1}: {name} {other}: {rate:.2f} M points/s, {cost:.3f} us", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(shared.run("ingest", arguments(), measure, page))
