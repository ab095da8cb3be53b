"""Spark beyond one process: executors on hosts of their own, what is lost there, and a run that is ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import needs_spark  # noqa: F401  # before what imports Spark
from support.charrow import serve_command
from support.hosts import Host, Hosts, hosts
from support.processes import fields
from support.read import records
from support.run import command, environment
from support.wait import wait_until

_PORT = 7077
_EXECUTOR = "CoarseGrainedExecutorBackend"
_WORKER = "pyspark.daemon"
_DRIVER = "SparkSubmit"


class Cluster:
    """A running one, as `start-master.sh` and `start-worker.sh` have it."""

    def __init__(self, on: Hosts, place: Path) -> None:
        self.driver, self.workers = on[0], list(on)[1:]
        self.master = f"spark://{self.driver.address}:{_PORT}"
        self.log = place / "log"

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def variables(self) -> dict[str, str]:
        """Of a driver on the first host: its address, and which Python executors shall have."""
        sizes = "--driver-memory 512m --executor-memory 512m"
        return {
            "SPARK_LOCAL_IP": self.driver.address,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"{sizes} pyspark-shell",
        }

    def start(self, *words: object) -> subprocess.Popen[str]:
        """`venturi` on the first host."""
        return self.driver.start(*command(*words), env=environment(**self.variables()))

    def pythons(self) -> dict[int, Host]:
        """The processes of tasks, by their ids: one on each host starts the others."""
        found = {host: set(host.signal(0, _WORKER)) for host in self.workers}
        return {pid: host for host, pids in found.items() for pid in pids if _parent(pid) in pids}

    def connected(self, host: Host, port: int) -> bool:
        """Whether something there speaks to that port of the driver's host."""
        for pid in host.processes():
            # Whoever is the first may end at any time; all have the same table.
            with contextlib.suppress(OSError):
                rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
                return any(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)
        return False

    def left(self) -> list[int]:
        """What there still is of a run: its Spark, executors and tasks. Each ends by itself, soon."""
        executors = [pid for host in self.workers for pid in host.signal(0, _EXECUTOR)]
        return self.driver.signal(0, _DRIVER) + executors + list(self.pythons())


def _parent(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return int(fields(pid)[1])
    return None


@contextlib.contextmanager
def spark_cluster(on: Hosts, place: Path, cores: int = 1) -> Iterator[Cluster]:
    """A worker with so many slots on each host but the first, until the end of the `with`."""
    import pyspark

    made = Cluster(on, place)
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    started: list[subprocess.Popen[str]] = []
    with open(made.log, "w") as log:

        def start(host: Host, name: str, *words: str) -> None:
            variables = {
                "SPARK_LOCAL_IP": host.address,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
            }
            where = ("--host", host.address, "--webui-port", "0")
            line = (program, f"org.apache.spark.deploy.{name}", *where, *words)
            started.append(
                host.start(*line, stdout=log, stderr=subprocess.STDOUT, env=environment(**variables))
            )

        try:
            start(made.driver, "master.Master", "--port", str(_PORT))
            for host in made.workers:
                folder = str(place / host.name)
                own = ("--cores", str(cores), "--memory", "512m", "--work-dir", folder)
                start(host, "worker.Worker", *own, made.master)
            _wait(made, started)
            yield made
        finally:
            for process in started:
                process.kill()
                process.wait()


def _wait(made: Cluster, started: list[subprocess.Popen[str]]) -> None:
    """Workers ask for a master again and again until it is there."""

    def registered() -> bool:
        assert all(process.poll() is None for process in started), made.said()[-2000:]
        return made.said().count("Successfully registered with master") == len(made.workers)

    wait_until(registered, lambda: made.said()[-2000:])


pytestmark = pytest.mark.usefixtures("core")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with hosts(3) as on, spark_cluster(on, tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    """A server on the driver's host that the others reach."""
    with cluster.driver.server(command=serve_command) as server:
        yield f"charrow://{server.address}"


def shape(cluster: Cluster, target: str, out: Path) -> tuple[object, ...]:
    quick = (
        *("--no-ceilings", "--no-report", "--no-shuffle", "--warmup", "0", "--repeats", "2"),
        *("--duration", "600s,300ms"),
    )
    where = ("--on", "spark", "--master", cluster.master)
    return ("run", "--target", target, "--streams", "2", *quick, *where, "--out", out)


def test_a_loader_that_dies_and_a_run_that_is_ended(cluster: Cluster, url: str, tmp_path: Path) -> None:
    """A long trial loses a loader and says which; the short one after it has fresh ones. The next long one is
    interrupted, and nothing of the run is left on any host."""
    out, port = tmp_path / "run", int(url.rpartition(":")[2])
    run = cluster.start(*shape(cluster, url, out))

    def moving(after: int) -> bool:
        assert run.poll() is None, run.communicate()
        connected = all(cluster.connected(host, port) for host in cluster.workers)
        return connected and len(records(out)) == after

    try:
        wait_until(lambda: moving(0))
        victim, host = next(iter(cluster.pythons().items()))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: moving(2))
        run.send_signal(signal.SIGINT)
        _, said = run.communicate()
    finally:
        run.kill()
    lost, good, ended = records(out)
    assert run.returncode == 130, said
    assert lost["outcome"] == "failed", lost
    assert "is gone" in lost["error"]["message"] and host.address in lost["error"]["message"], lost["error"]
    assert good["outcome"] == "ok", good["error"]
    assert [host["streams"] for host in good["hosts"]] == [[0, 1], [1, 1]]
    assert {host["address"] for host in good["hosts"]} == {host.address for host in cluster.workers}
    assert ended["outcome"] == "interrupted", ended
    wait_until(lambda: not cluster.left(), cluster.left)


READ = """
import json, socket, sys
from pyspark.sql import SparkSession
from venturi.spark import register

master, driver, url = sys.argv[1:]

def whose(batches):
    import pyarrow as pa
    import pyarrow.compute as pc
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((driver, 9))  # sends nothing: which address would speak to it
        here = probe.getsockname()[0]
    for batch in batches:
        total = pc.sum(batch["id"]).as_py()
        yield pa.RecordBatch.from_pydict({"host": [here], "rows": [batch.num_rows], "total": [total]})

spark = SparkSession.builder.master(master).config("spark.driver.host", driver).getOrCreate()
register(spark)
reader = spark.read.format("venturi").option("url", url).option("table", "numbers").option("partitions", 2)
found = reader.load().mapInArrow(whose, "host string, rows bigint, total bigint").collect()
print(json.dumps([row.asDict() for row in found]))
"""


def test_a_table_read_by_executors_on_other_hosts(cluster: Cluster, tmp_path: Path) -> None:
    """The data source's readers run where Spark's tasks do, and all rows come once."""
    path, rows = tmp_path / "numbers.parquet", 400_000
    pq.write_table(pa.table({"id": range(rows)}), path, row_group_size=20_000)
    host = cluster.driver
    with host.server("--table", f"numbers={path}", command=serve_command) as server:
        words = (sys.executable, "-c", READ, cluster.master, host.address, f"charrow://{server.address}")
        reader = host.start(*words, env=environment(**cluster.variables()))
        said, trouble = reader.communicate()
    assert reader.returncode == 0, trouble[-3000:]
    found = json.loads(said.splitlines()[-1])
    assert {piece["host"] for piece in found} <= {worker.address for worker in cluster.workers}
    assert sum(piece["rows"] for piece in found) == rows
    assert sum(piece["total"] for piece in found) == rows * (rows - 1) // 2
