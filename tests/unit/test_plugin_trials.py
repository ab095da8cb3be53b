"""Trials of targets in Python: as they should be, and what is said of those that are not."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from support.plugin import Good, Takes, tried
from venturi.plugin import Trial, digest

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])


# ---- trials: as they should be


@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_trial_is_counted_checked_and_closed(operation: str) -> None:
    target = Good()
    record = tried(target, operation)
    assert record["error"] is None
    assert record["counts"]["rows"] == 2000 and record["counts"]["payload_bytes"] == 2000 * 16
    assert record["verification"]["achieved"] == "checksum"
    assert record["target"]["software"] == "Good (mine 0.1)"
    assert record["stages"]["client"]["plugin"] > 0
    assert target.closed == 1
    assert target.trial.parameters == {} and target.trial.rows_per_stream == 1000


@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_time_ends_it(operation: str) -> None:
    record = tried(Good(), operation, rows_per_stream=None, duration_ns=100_000_000)
    assert record["error"] is None and record["counts"]["rows"] > 0
    assert record["verification"]["achieved"] == "checksum"


def test_rows_of_its_own_are_counted() -> None:
    class Own(Good):
        gets = "own"
        rows = 600

        def produce(self, stream: int) -> Any:
            batch = pa.record_batch([pa.array(["x"] * 300)], names=["a"])
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])

    record = tried(Own(), data={"source": "remote"}, rows_per_stream=None)
    assert record["error"] is None
    assert (record["verification"]["achieved"], record["counts"]["rows"]) == ("count", 600)
    Own.rows = 601
    assert tried(Own(), data={"source": "remote"}, rows_per_stream=None)["error"]["kind"] == "verification"


def test_rows_without_a_digest_are_counted() -> None:
    class Counts(Takes):
        def finish(self) -> Any:
            return self.rows

    class Target(Good):
        def consume(self, stream: int) -> Any:
            return Counts()

    assert tried(Target(), "put")["verification"]["achieved"] == "count"


def test_the_digest_is_of_values_and_refuses_what_is_no_batch() -> None:
    one, other = (pa.record_batch([pa.array([n, 2])], names=["a"]) for n in (1, 3))
    assert digest(one) == digest(pa.record_batch([pa.array([1, 2])], names=["a"])) != digest(other)
    with pytest.raises(TypeError, match="list has no __arrow_c_array__"):
        digest([1, 2])


# ---- trials: as they should not be


def stream(batches: Callable[[], Iterator[pa.RecordBatch]]) -> Any:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def batch(rows: int = 100, **more: Any) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(rows), pa.int64())] * 2, names=["a", "b"])


def _raises() -> Iterator[pa.RecordBatch]:
    yield batch()
    raise ValueError("broken\nin two lines")


def _changes() -> Iterator[pa.RecordBatch]:
    yield batch()
    yield pa.record_batch([pa.array(["x"]), pa.array([2])], names=["a", "b"])


def _for_ever() -> Iterator[pa.RecordBatch]:
    while True:
        yield batch()


GETS: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda trial: 1 / 0, "plugin", r"mine 0.1: produce: ZeroDivisionError: .*trials.py, line \d+\)"),
    (lambda trial: sys.exit(3), "plugin", "produce: SystemExit: 3"),
    (lambda trial: None, "plugin", "produce: answered None, which is no Arrow stream"),
    (lambda trial: [batch()], "plugin", "object of builtins.list, which is no Arrow stream"),
    (lambda trial: stream(_raises), "plugin",
     r"mine 0.1: the next batch: .*broken in two lines \(test_plugin_trials.py, line \d+\)$"),
    (lambda trial: stream(_changes), "plugin", "the next batch: .*buffers"),
    (lambda trial: stream(lambda: iter([batch()])), "verification", "200 rows arrived, 2000 were expected"),
    (lambda trial: stream(_for_ever), "plugin", "more rows than were asked for: 1100 and not 1000"),
    (lambda trial: stream(lambda: (batch() for _ in range(10))), "verification", "checksum"),
    (lambda trial: pa.RecordBatchReader.from_batches(pa.schema([("a", pa.string())]), []), "plugin",
     "has the columns a: Utf8; those of the trial's rows are a: Int64, b: Int64"),
]  # fmt: skip


@pytest.mark.parametrize(("produce", "kind", "said"), GETS)
def test_a_get_that_goes_wrong_says_what(produce: Callable[[Any], Any], kind: str, said: str) -> None:
    class Target(Good):
        def produce(self, stream: int) -> Any:
            return produce(self.trial)

    target = Target()
    error = tried(target)["error"]
    assert error["kind"] == kind and re.search(said, error["message"]), error
    assert "Traceback" not in error["message"] and "\n" not in error["message"]
    assert target.closed == 1


def _fails(*_: Any) -> Any:
    raise OSError("the wire is cut")


PUTS: list[tuple[dict[str, Any], str, str]] = [
    ({"write": _fails}, "plugin", r"write: OSError: the wire is cut \(test_plugin_trials.py, line \d+\)"),
    ({"write": lambda self: None}, "plugin", "write: TypeError"),
    ({"finish": _fails}, "plugin", "finish: OSError"),
    ({"finish": lambda self: None}, "plugin", "finish: answered None; it is the number of rows"),
    ({"finish": lambda self: -1}, "plugin", "finish: answered -1"),
    ({"finish": lambda self: (1, 2, 3)}, "plugin", "finish: answered"),
    ({"finish": lambda self: self.rows - 1}, "verification", "took 999 rows, 1000 were sent"),
    ({"finish": lambda self: (self.rows, self.sum + 1)}, "verification", "digest"),
    ({"finish": None}, "plugin", "which has no finish"),
]


@pytest.mark.parametrize(("methods", "kind", "said"), PUTS)
def test_a_put_that_goes_wrong_says_what(methods: dict[str, Any], kind: str, said: str) -> None:
    class Target(Good):
        def consume(self, stream: int) -> Any:
            return type("Broken", (Takes,), methods)()

    error = tried(Target(), "put")["error"]
    assert error["kind"] == kind and re.search(said, error["message"]), error


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        (
            lambda: 1 / 0,
            r"mine 0.1: plan: ZeroDivisionError: division by zero \(test_plugin_trials.py, line \d+\)",
        ),
        (lambda: None, r"plan: its answer has no produce\(stream\)"),
        (lambda: type("P", (Good,), {"rows": -1})(), "rows is -1"),
        (lambda: type("P", (Good,), {"rows": 2**64})(), "rows is 18446744073709551616, which is no number"),
        (lambda: type("P", (Good,), {"pid": "7"})(), "pid is '7'"),
        (lambda: type("P", (Good,), {"pid": 2**32})(), "pid is 4294967296"),
        (lambda: type("P", (Good,), {"address": 7})(), "address is 7"),
    ],
)
def test_a_plan_that_goes_wrong_says_what(planned: Callable[[], Any], said: str) -> None:
    class Target(Good):
        def plan(self, trial: Trial) -> Any:
            return planned()

    error = tried(Target())["error"]
    assert error["kind"] == "plugin" and re.search(said, error["message"]), error


def test_the_whole_traceback_is_had_for_the_asking(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Target(Good):
        def plan(self, trial: Trial) -> Any:
            raise ValueError("why")

    tried(Target())
    assert "Traceback" not in capfd.readouterr().err
    monkeypatch.setenv("VENTURI_PLUGIN_TRACEBACKS", "on")
    tried(Target())
    assert "Traceback" in capfd.readouterr().err


def test_a_call_that_does_not_return_fails_the_trial_and_those_after_it() -> None:
    go = threading.Event()

    class Hangs(Takes):
        def write(self, batch: Any) -> None:
            go.wait(60)

    class Target(Good):
        def consume(self, stream: int) -> Any:
            return Hangs()

    try:
        error = tried(Target(), "put", timeout_ns=2_000_000_000)["error"]
        assert error["kind"] == "timeout"
        assert "the plugin has not returned from a call (write) for 2 s" in error["message"]
        error = tried(Good(), timeout_ns=200_000_000)["error"]
        assert error["kind"] == "plugin" and "of an earlier trial" in error["message"]
    finally:
        go.set()
    assert tried(Good())["error"] is None
