"""A Spark cluster on hosts of a test: master and driver on the first one, a worker on each of the others."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.hosts import Host, Hosts
from support.processes import fields
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
        found = {host: set(running(host, _WORKER)) for host in self.workers}
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
        executors = [pid for host in self.workers for pid in running(host, _EXECUTOR)]
        return running(self.driver, _DRIVER) + executors + list(self.pythons())


def running(host: Host, containing: str) -> list[int]:
    """Processes of a host with this in their command line."""
    return host.signal(0, containing)


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
