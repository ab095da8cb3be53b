"""`venturi run --on spark`: the streams of a trial run in the tasks of a Spark barrier stage.

A loader is a task; Spark starts all of them or none, and hands a running task nothing but a barrier. So each
connects to the driver, says who it is in a line, `{"token", "index"}`, and answers calls
(`venturi.engine.calls`). From there on a trial goes as over any other loaders. docs/spark.md.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import queue
import secrets
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from venturi.cluster.spark_session import Session, in_our_words
from venturi.cluster.trial.clock import ONE_MACHINE
from venturi.cluster.trial.loaders_executor import LoadersExecutor, identify, is_here
from venturi.common.errors import VenturiError
from venturi.common.texts import Note
from venturi.engine.calls import Caller, serve
from venturi.engine.executor import TrialControl
from venturi.targets.system import is_unix
from venturi.targets.urls import is_loopback

if TYPE_CHECKING:
    from venturi.plan.cell import Cell

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

    def __init__(self, session: Session, count: int) -> None:
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
    """Measures by loaders in Spark's tasks: as many as the spec has `loaders`. To be closed.

    One Spark session for all trials, and one stage of as many tasks as the largest of them needs; a trial
    takes the first ones. Raises VenturiError if there is no Spark, or it does not start.
    """

    def __init__(self, master: str | None = None, note: Note | None = None) -> None:
        self._note = note or (lambda level, text: None)
        self._session = Session(master)
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
        remote = next((loader for loader in loaders if not is_here(loader.identity)), None)
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
