"""`venturi run --on spark`: the streams of a trial run in the tasks of a Spark barrier stage.

A loader is a task; Spark starts all of them or none, and hands a running task nothing but a barrier. So each
connects to the driver, says who it is in a line, `{"token", "index"}`, and answers calls
(`venturi.engine.calls`). From there on a trial goes as over any other loaders. docs/spark.md.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import queue
import re
import secrets
import socket
import struct
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from venturi.cluster.trial.clock import ONE_MACHINE
from venturi.cluster.trial.loaders_executor import LoadersExecutor, identify, on_this_host
from venturi.common import temporary
from venturi.common.credentials import masked
from venturi.common.errors import ScenarioError, VenturiError
from venturi.common.texts import Note
from venturi.engine.calls import Caller, serve
from venturi.engine.executor import TrialControl
from venturi.targets.system import is_unix
from venturi.targets.urls import is_loopback

if TYPE_CHECKING:
    from venturi.plan.cell import Cell


DEFAULT_MASTER = "local[64]"
"""Tasks of a local Spark are processes on this machine; idle slots cost nothing."""
_MOST_TEXT = 300


class SparkSession:
    """A Spark session: the one that is there already, or one for this run. Raises VenturiError."""

    def __init__(self, master: str | None) -> None:
        try:
            from pyspark.sql import SparkSession as Spark
        except ImportError as error:
            raise VenturiError(
                f"--on spark: pyspark cannot be loaded: {error}", hint="pip install 'venturi[spark]'"
            ) from None
        self._held: temporary.LockedTempDir | None = None
        before = Spark.getActiveSession()
        self._own = before is None
        self._session = before if before is not None else self._start(Spark, master)
        self.context: Any = self._session.sparkContext
        settings = self.context.getConf()
        self.master = str(self.context.master)
        self.host = str(settings.get("spark.driver.host"))
        self.bind_host = str(settings.get("spark.driver.bindAddress", self.host))

    def _start(self, kind: Any, master: str | None) -> Any:
        chosen = master or DEFAULT_MASTER
        settings = {
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.ui.showConsoleProgress": "false",
            # A barrier stage starts all tasks at once; a failed loader is not retried.
            "spark.dynamicAllocation.enabled": "false",
            "spark.stage.maxConsecutiveAttempts": "1",
            # Remote executors may take two minutes to start.
            "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "3s",
            "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": (
                "4" if chosen.startswith("local") else "40"
            ),
        }
        if chosen.startswith("local"):
            # Nothing beyond this machine needs to reach it.
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = kind.builder.master(chosen).appName("venturi").config(map=settings)
        self._held = temporary.make("spark")
        log = self._held.path / "spark.log"
        handle = os.open(log, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with _output_to(handle):
                return builder.getOrCreate()
        except Exception as error:
            output = log.read_text(errors="replace")
            self._forget_log()
            raise _no_start(chosen, error, output) from None
        finally:
            os.close(handle)

    def check_slots(self, count: int) -> None:
        """Raises ScenarioError if a local Spark has fewer slots than loaders; others' are not known."""
        slots = int(self.context.defaultParallelism)
        if self.master.startswith("local") and count > slots:
            raise ScenarioError(_too_few(self.master, count, slots))

    def close(self) -> None:
        if self._own:
            with contextlib.suppress(Exception):
                self._session.stop()
        self._forget_log()

    def _forget_log(self) -> None:
        if self._held is not None:
            self._held.remove()


@contextlib.contextmanager
def _output_to(handle: int) -> Iterator[None]:
    """Redirects the output of processes started meanwhile: Java is verbose on both streams."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError):
            stream.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number, _ in kept:
            os.dup2(handle, number)
        yield
    finally:
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)


def _too_few(master: str, count: int, slots: int | None) -> str:
    slots_text = "fewer" if slots is None else str(slots)
    more = f"--master 'local[{count}]'" if master.startswith("local") else "a cluster with more free cores"
    return f"{count} loaders run at a time, and {master} has {slots_text} slots: fewer --loaders, or {more}"


def _no_start(master: str, error: Exception, output: str) -> VenturiError:
    text = f"{error}\n{output}"
    if "UnsupportedClassVersionError" in text or "JAVA_HOME is not set" in text or "JAVA_GATEWAY" in text:
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
        reason = f": {masked(last)[:_MOST_TEXT]}" if last else ""
        hint = "it needs Java 17 or later: install it, or set JAVA_HOME"
        return VenturiError(f"Spark does not start{reason}", hint=hint)
    return VenturiError(f"Spark does not start with --master {master}: {_first(text)}")


def in_our_words(error: Exception, master: str, count: int) -> str:
    """Why a stage of loaders failed, in a line."""
    text = str(error)
    if "SPARK-24819" in text or "more slots than the total number of slots" in text:
        return _too_few(master, count, None)
    if found := re.search(r"No module named '(venturi[\w.]*|pyarrow)'", text):
        return (
            f"executors have no {found[1]}: pip install 'venturi[spark]' on each of them, or name the Python "
            "there that has it by PYSPARK_PYTHON"
        )
    return _first(text)


def _first(text: str) -> str:
    """The most telling line: the last of Python's tracebacks, the first of Java's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit)\b.*: ", line)]
    chosen = errors[0] if errors else lines[0] if lines else type(text).__name__
    return re.sub(r"^(?:[\w]+\.)+", "", masked(chosen))[:_MOST_TEXT]


_MOST_HELLO = 1024
_PATIENCE = 10.0  # seconds, to connect, to say who one is, and for a peer to take what it is sent


def _patient(connection: socket.socket) -> None:
    """Reads wait while the peer is alive, writes for a limited time."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A peer whose host is gone never hangs up.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(_PATIENCE), 0))


def answer_calls(host: str, port: int, token: str, index: int, loader: Any) -> str | None:
    """Answers the driver's calls to a task's loader until the driver hangs up, then ends the trial. Returns
    what kept it from the driver, or None."""
    try:
        connection = socket.create_connection((host, port), _PATIENCE)
    except OSError as error:
        return f"the driver cannot be reached at {host}:{port}: {error}"
    _patient(connection)
    with (
        contextlib.suppress(OSError),
        connection,
        connection.makefile("rb") as reader,
        connection.makefile("wb") as writer,
    ):
        with contextlib.suppress(OSError):
            writer.write(json.dumps({"token": token, "index": index}).encode() + b"\n")
            writer.flush()
            serve(reader, writer, loader)
        loader.cancel()
        # Its streams end before the task does.
        loader.result(_PATIENCE)
    return None


class TaskLoader(Caller):
    """A loader in a task: a `venturi.cluster.trial.loaders.Handle`."""

    def __init__(self, connection: socket.socket, index: int) -> None:
        self.index = index
        self.address: str | None = str(connection.getpeername()[0])
        self.identity: Mapping[str, Any] = {}
        self.clock = ONE_MACHINE
        self._connection = connection
        super().__init__(f"loader-{index + 1}", connection.makefile("rb"), connection.makefile("wb"))

    def close(self) -> None:
        """Hangs up: the task cancels what still runs, and ends."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Switchboard:
    """Where the driver waits for its tasks. It hangs up on peers without the token."""

    def __init__(self, host: str) -> None:
        self.token = secrets.token_hex(16)
        try:
            family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
            self._listener = socket.create_server((host, 0), family=family)
        except OSError as error:
            raise VenturiError(f"the driver cannot listen on {host}: {error}") from None
        self.port = int(self._listener.getsockname()[1])
        self._loaders: queue.SimpleQueue[TaskLoader] = queue.SimpleQueue()
        threading.Thread(target=self._accept, name="venturi-switchboard", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_PATIENCE)
            # Unbuffered: what comes after the line is an answer to a call.
            with connection.makefile("rb", buffering=0) as reader:
                hello = json.loads(reader.readline(_MOST_HELLO))
            if not hmac.compare_digest(str(hello["token"]), self.token):
                raise OSError("not a task of this run")
            _patient(connection)
            self._loaders.put(TaskLoader(connection, int(hello["index"])))
        except (OSError, KeyError, TypeError, ValueError):
            connection.close()

    def loaders(self, count: int, seconds: float, broken: threading.Event) -> list[TaskLoader]:
        """As many tasks as were started, in their order; fewer if time ran out or `broken` was set."""
        found: dict[int, TaskLoader] = {}
        deadline = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline and not broken.is_set():
            with contextlib.suppress(queue.Empty):
                loader = self._loaders.get(timeout=0.05)
                found[loader.index] = loader
        return [found[index] for index in sorted(found)]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # A blocked accept does not notice a close.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


_START_SECONDS = 180.0
_ANSWER_SECONDS = 60.0
_END_SECONDS = 20.0


def _task(host: str, port: int, token: str) -> Callable[[Iterator[Any]], Iterator[str]]:
    """What each task of the stage does: it has a loader, and ends when the driver hangs up."""

    def work(_: Iterator[Any]) -> Iterator[str]:
        from pyspark import BarrierTaskContext

        from venturi.engine.loader import Loader

        context = BarrierTaskContext.get()
        yield answer_calls(host, port, token, context.partitionId(), Loader()) or ""

    return work


class _TaskGroup:
    """So many tasks at a time, from their start until `close`."""

    def __init__(self, session: SparkSession, count: int) -> None:
        self.count = count
        self._session = session
        self._board = Switchboard(session.bind_host)
        self._group = f"venturi-{uuid.uuid4().hex}"
        self._over = threading.Event()
        self._trouble: str | None = None
        self._job = threading.Thread(target=self._run, name="venturi-spark-job", daemon=True)
        self._job.start()
        self.loaders: list[TaskLoader] = []
        try:
            self.loaders = self._board.loaders(count, _START_SECONDS, self._over)
            if len(self.loaders) < count:
                raise VenturiError(self._missing())
            identify(self.loaders, _ANSWER_SECONDS)
        except BaseException:
            self.close()
            raise

    def _run(self) -> None:
        context = self._session.context
        try:
            # A failed task must be reported, not silently retried.
            context.setJobGroup(self._group, "venturi's loaders", interruptOnCancel=True)
            work = _task(self._session.host, self._board.port, self._board.token)
            answers = (
                context.parallelize(range(self.count), self.count).barrier().mapPartitions(work).collect()
            )
            self._trouble = next(filter(None, answers), None)
        except Exception as error:  # of Spark's many; said when the trial is
            self._trouble = in_our_words(error, self._session.master, self.count)
        finally:
            self._over.set()

    def _missing(self) -> str:
        if self._over.is_set():
            return f"Spark ({self._session.master}): {self._trouble or 'the loaders ended at once'}"
        return (
            f"Spark ({self._session.master}) has started {len(self.loaders)} of {self.count} loaders in "
            f"{_START_SECONDS:.0f} s: it needs as many free cores as loaders, all at a time"
        )

    def healthy(self) -> bool:
        return not self._over.is_set() and not any(loader.gone for loader in self.loaders)

    def close(self) -> None:
        """Hangs up; the tasks cancel what still runs and end, or Spark ends them."""
        for loader in self.loaders:
            loader.close()
        self._board.close()
        self._job.join(_END_SECONDS if len(self.loaders) == self.count else 0.0)
        if self._job.is_alive():
            with contextlib.suppress(Exception):
                self._session.context.cancelJobGroup(self._group)
            self._job.join(_END_SECONDS)


class SparkExecutor(LoadersExecutor):
    """Measures by loaders in Spark's tasks: as many as the spec has `loaders`. To be closed. One Spark
    session for all trials, and one stage of as many tasks as the largest of them needs; a trial takes the
    first ones. Raises VenturiError if there is no Spark, or it does not start."""

    def __init__(self, master: str | None = None, note: Note | None = None) -> None:
        self._note = note or (lambda level, text: None)
        self._session = SparkSession(master)
        self._tasks: _TaskGroup | None = None
        self._most = 1

    def check(self, cells: Sequence[Cell]) -> None:
        """Whether there are slots for what these cells ask for. Raises ScenarioError."""
        self._most = max((int(cell.parameters.get("loaders") or 1) for cell in cells), default=1)
        self._session.check_slots(self._most)

    def environments(self) -> dict[str, dict[str, Any]]:
        """What each loader's host and software are, by its name."""
        loaders = self._loaders(self._most)
        return {loader.name: dict(loader.identity["environment"]) for loader in loaders}

    def run_trial(self, text: str, control: TrialControl) -> dict[str, Any]:
        record = super().run_trial(text, control)
        if record["outcome"] != "ok":
            # After a failure the next trial starts new tasks, whatever is left of these.
            self._dismiss()
        return record

    def ready(self, count: int, spec: Mapping[str, Any]) -> list[TaskLoader]:
        loaders = self._loaders(count)
        if spec:
            self._check_reach(spec, loaders)
        return loaders

    def _loaders(self, count: int) -> list[TaskLoader]:
        """So many tasks that answer. Raises VenturiError."""
        if self._tasks is not None and (self._tasks.count < count or not self._tasks.healthy()):
            self._dismiss()
        if self._tasks is None:
            self._tasks = _TaskGroup(self._session, max(count, self._most))
        return self._tasks.loaders[:count]

    def _dismiss(self) -> None:
        if self._tasks is not None:
            self._tasks.close()
            self._tasks = None

    def _check_reach(self, spec: Mapping[str, Any], loaders: Sequence[TaskLoader]) -> None:
        """Raises ValueError, the word for a cell that asks for something impossible."""
        remote = next((loader for loader in loaders if not on_this_host(loader.identity)), None)
        if remote is None:
            return
        where = f"{remote.name} runs on {remote.identity['hostname']}"
        if is_unix(str(spec["target"])):
            raise ValueError(
                f"{spec['target']} is a Unix socket of this machine, and {where}: start the server with "
                "--host 0.0.0.0 and name its address"
            )
        if is_loopback(str(spec["target"])):
            raise ValueError(
                f"{spec['target']} is on this machine's loopback, and {where}: start the server by itself "
                "(venturi serve ... --host 0.0.0.0) and name its address"
            )
        if (spec.get("data") or {}).get("ipc"):
            raise ValueError(
                f"the rows of a file lie on this machine, and {where}: --on ray sends them there"
            )

    def close(self) -> None:
        """Ends the tasks, and Spark where it was started for this."""
        self._dismiss()
        self._session.close()
