"""The Spark session of a run: started quietly, ended with it, its errors in our words."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from venturi.common import temporary
from venturi.common.credentials import masked
from venturi.common.errors import ExitCode, ScenarioError, VenturiError

DEFAULT_MASTER = "local[64]"
"""Tasks of a local Spark are processes on this machine; idle slots cost nothing."""
_MOST_TEXT = 300


class Session:
    """A Spark session: the one that is there already, or one for this run. Raises VenturiError."""

    def __init__(self, master: str | None) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise VenturiError(
                f"--on spark: pyspark cannot be loaded: {error}", hint="pip install 'venturi[spark]'"
            ) from None
        self._held: temporary.LockedTempDir | None = None
        before = SparkSession.getActiveSession()
        self._own = before is None
        self._session = before if before is not None else self._start(SparkSession, master)
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
            with _said_to(handle):
                return builder.getOrCreate()
        except Exception as error:
            output = log.read_text(errors="replace")
            self._forget_log()
            raise VenturiError(*_no_start(chosen, error, output)) from None
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
def _said_to(handle: int) -> Iterator[None]:
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


def _no_start(master: str, error: Exception, output: str) -> tuple[Any, ...]:
    """Arguments of a VenturiError."""
    text = f"{error}\n{output}"
    if "UnsupportedClassVersionError" in text or "JAVA_HOME is not set" in text or "JAVA_GATEWAY" in text:
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
        reason = f": {masked(last)[:_MOST_TEXT]}" if last else ""
        hint = "it needs Java 17 or later: install it, or set JAVA_HOME"
        return f"Spark does not start{reason}", ExitCode.USAGE, hint
    return f"Spark does not start with --master {master}: {_first(text)}", ExitCode.USAGE


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
