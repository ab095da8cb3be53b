"""One table read into Spark by every way there is, interleaved in one run.

A round reads it once by each way, in shuffled order; every reading is summed up over all columns and must
come to what the source has. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[1:1] = [str(HERE.parent), str(ROOT / "tests")]

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

import shared  # noqa: E402 - of bench/
from support import charrow as charrow_support  # noqa: E402 - of the tests, as the next ones but one
from support import flight as flight_support  # noqa: E402
from support.clickhouse import Server, started  # noqa: E402
from support.spark import read, sales, session, sums  # noqa: E402

POM = HERE / "jdbc.pom.xml"
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
TRIAL_SECONDS = 600
WAYS = (
    *("parquet", "charrow", "flight", "clickhouse"),
    *("charrow-chdb", "jdbc", "jdbc-old-server"),
)
OLD_TABLE = (
    "CREATE TABLE sales (id Int64, quantity Int32, ratio Nullable(Float64), region Nullable(String), "
    "name String, price Nullable(Decimal(18, 2)), day Date, at Nullable(DateTime('UTC')), ok UInt8) "
    "ENGINE = MergeTree ORDER BY id"
)
Frame = Callable[[], Any]


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "spark", 5)
    add = parser.add_argument
    add("--rows", type=int, default=2_000_000, help="of the table, 80 bytes each in Arrow (default 2M)")
    add("--partitions", type=int, default=os.cpu_count() or 1, help="Spark's tasks (default one a CPU)")
    add("--only", nargs="+", choices=WAYS, metavar="WAY", help=f"of {', '.join(WAYS)}")
    add("--seed", type=int, default=1, help="of the shuffle")
    return parser.parse_args()


def driver_jar() -> Path:
    """ClickHouse's JDBC driver in the user's cache, which Maven fetches there once. Raises LookupError."""
    version = re.findall(r"<version>(.*\..*)</version>", POM.read_text())[0]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "venturi"
    jar = cache / f"clickhouse-jdbc-{version}-all.jar"
    if jar.exists():
        return jar
    if shutil.which("mvn") is None:
        raise LookupError("ClickHouse's JDBC driver (mvn fetches it; Debian: package maven)")
    with tempfile.TemporaryDirectory() as folder:
        command = ["mvn", "-B", "-q", "-f", str(POM), GOAL, f"-DoutputDirectory={folder}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise LookupError(f"ClickHouse's JDBC driver: {(done.stdout + done.stderr).strip()[-300:]}")
        cache.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(folder) / jar.name, jar)
    return jar


class Ways:
    """The servers with the table in them, and by way how Spark gets at it."""

    def __init__(self, options: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        import pyarrow.parquet as pq

        self._options = options
        self._stack = stack
        wanted = options.only or WAYS
        self._place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._file = self._place / "sales.parquet"
        source = sales(options.rows, micros=False)
        self.bytes = source.nbytes
        pq.write_table(source, self._file, row_group_size=131_072)
        del source
        jar = self._jar() if any(name.startswith("jdbc") for name in wanted) else None
        more = {} if jar is None else {"spark.driver.extraClassPath": str(jar)}
        self.spark = stack.enter_context(session(options.partitions, **more))
        self._truth = self.spark.read.parquet(str(self._file))
        self.expected = sums(self._truth)
        self.frames: dict[str, Frame] = {}
        for name in wanted:
            if jar is None and name.startswith("jdbc"):
                continue
            try:
                self.frames[name] = getattr(self, "_" + name.replace("-", "_"))()
            except LookupError as error:
                _note(f"{name} is left out: not here: {error}")

    def _jar(self) -> Path | None:
        try:
            return driver_jar()
        except LookupError as error:
            _note(f"JDBC is left out: not here: {error}")
            return None

    def _venturi(self, url: str, **more: Any) -> Frame:
        # A frame of its own each time: Spark remembers what it has planned.
        return lambda: read(self.spark, url, **more)

    def _parquet(self) -> Frame:
        return lambda: self.spark.read.parquet(str(self._file))

    def _charrow(self, *arguments: str, **query: str) -> Frame:
        arguments = arguments or ("--table", f"sales={self._file}")
        server = self._stack.enter_context(charrow_support.serving(*arguments))
        what = query or {"table": "sales"}
        return self._venturi(f"charrow://{server.address}", partitions=self._options.partitions, **what)

    def _charrow_chdb(self) -> Frame:
        query = f"SELECT * FROM file('{self._file}', Parquet)"
        return self._charrow("--engine", "chdb", query=query)

    def _flight(self) -> Frame:
        server = flight_support.ServerProcess(
            flight_support.serve_command("--data", f"sales={self._file}"), {}
        )
        self._stack.callback(server.stop)
        return self._venturi(f"flight://{server.address}", table="sales")

    def _engine(self) -> Server:
        if not hasattr(self, "_today"):
            self._today = self._stack.enter_context(started("chdb"))
            made = "CREATE TABLE sales ENGINE = MergeTree ORDER BY tuple() AS SELECT"
            # With a zone in its type Spark refuses to have it from the driver.
            at = "CAST(toUnixTimestamp(at), 'Nullable(DateTime)') AS at"
            self._today.ask(f"{made} * REPLACE ({at}) FROM file('{self._file}', Parquet)")
        return self._today

    def _clickhouse(self) -> Frame:
        parts = {"partitions": self._options.partitions, "split_by": "id"}
        return self._venturi(self._engine().url, table="sales", **parts)

    def _jdbc(self) -> Frame:
        return self._over_jdbc(self._engine(), "com.clickhouse.jdbc.ClickHouseDriver")

    def _jdbc_old_server(self) -> Frame:
        import duckdb

        server = self._stack.enter_context(started("server"))
        text = self._place / "sales.tsv"
        # Seconds since 1970 are read as such only where they have ten digits.
        at = "strftime(make_timestamp(epoch_us(\"at\")), '%Y-%m-%d %H:%M:%S')"
        duckdb.sql(
            f"COPY (SELECT * REPLACE ({at} AS \"at\", ok::TINYINT AS ok) FROM '{self._file}') "
            f"TO '{text}' (DELIMITER '\t', HEADER false, QUOTE '', NULLSTR '\\N')"
        )
        server.ask(OLD_TABLE)
        server.put("INSERT INTO sales FORMAT TabSeparated", text)
        text.unlink()
        return self._over_jdbc(server, "ru.yandex.clickhouse.ClickHouseDriver")

    def _over_jdbc(self, server: Server, driver: str) -> Frame:
        told = {
            "url": f"jdbc:{server.url}?compress=0",
            "driver": driver,
            "user": "venturi",
            "dbtable": "sales",
            "partitionColumn": "id",
            "lowerBound": "0",
            "upperBound": str(self._options.rows),
            "numPartitions": str(self._options.partitions),
        }
        return lambda: self._as_parquet(self.spark.read.format("jdbc").options(**told).load())

    def _as_parquet(self, frame: Any) -> Any:
        """The types of the source, where a driver has others for the same values."""
        return frame.select([frame[f.name].cast(f.dataType) for f in self._truth.schema])

    def trial(self, name: str) -> dict[str, Any]:
        """Spark reads all of it and sums it up. Raises ValueError where it is not what the source has."""
        before, began = busy_s(), time.perf_counter()
        found = sums(self.frames[name]())
        seconds, busy = time.perf_counter() - began, busy_s() - before
        if found != self.expected:
            raise ValueError(f"{found} and not {self.expected}")
        return {"seconds": seconds, "cpu_s": busy, "rows": found[0]}


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def busy_s() -> float:
    """CPU time of all processes of this machine since it was started, in seconds (Linux)."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    user, nice, system, _, _, irq, softirq = map(int, words)
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def measure(options: argparse.Namespace, output: Path) -> None:
    head = {**shared.machine(), "arrow": pa.__version__}
    head |= {name: getattr(options, name) for name in ("rounds", "rows", "partitions")}
    with contextlib.ExitStack() as stack, open(output, "w") as file:
        ways = Ways(options, stack)
        keep = shared.keeper(file)
        keep(head | {"bytes": ways.bytes, "ways": list(ways.frames), "spark": ways.spark.version})
        shuffle = random.Random(options.seed).shuffle
        for number in range(-1, options.rounds):  # the first one warms up and is not kept
            names = list(ways.frames)
            shuffle(names)
            for name in names:
                line = {"kind": "trial", "round": number, "way": name}
                # Whatever Spark raises is kept, and the exit status says so.
                shared.attempted(line, functools.partial(ways.trial, name), (Exception,))
                if number >= 0 or "error" in line:
                    keep(line)
            if number >= 0:
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr)


def told(source: Path) -> shared.Told:
    head, *trials = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(trials, "way")
    out = [
        f"# Ways into Spark: {head['date'][:10]}",
        "",
        f"{shared.described(head)}; Spark {head['spark']}, Arrow {head['arrow']}; {head['rounds']} rounds of "
        f"{head['rows'] / 1e6:g} M rows ({head['bytes'] / 1e6:.0f} MB in Arrow), {head['partitions']} "
        f"partitions; load before {head['load_before']:.2f}, {shared.steal(trials)}.",
        "",
        "Medians with their 95 % intervals. The ratio is of the same round; CPU is the whole machine's.",
        "",
        "| way | M rows/s | MB/s | times JDBC | times Parquet | CPU, s per M rows |",
        "|---|---|---|---|---|---|",
    ]
    for name in (name for name in head["ways"] if name in found):
        own = found[name]
        rate = shared.middle(own, _rate)
        peers = (shared.ratios(own, found.get(peer, {}), _rate) for peer in ("jdbc", "parquet"))
        ratios = [f"{np.median(values):.2f}" if values else "-" for values in peers]
        cpu = shared.middle(own, lambda line: float(line["cpu_s"] / line["rows"] * 1e6))
        out.append(
            f"| {name} | {shared.spread([_rate(line) for line in own.values()], 3)} "
            f"| {rate * head['bytes'] / head['rows']:,.0f} | {' | '.join(ratios)} | {cpu:.2f} |"
        )
    return shared.Told("\n".join(out), [], shared.failures(trials, "way"))


def _rate(line: shared.Line) -> float:
    """M rows/s."""
    return float(line["rows"] / line["seconds"] / 1e6)


def main() -> int:
    return shared.run("spark", arguments(), measure, told)


if __name__ == "__main__":
    sys.exit(main())
