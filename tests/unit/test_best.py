"""The best setting: on the published figures, on runs with a known answer, and where there is none."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from support.golden import kept
from support.run import venturi
from support.verdict import summarise
from venturi.analysis.compare import best
from venturi.analysis.statistics.difference import effect
from venturi.measure.tune import Recorded
from venturi.report import best as report


def records(
    speed: Any, cpu: Any = lambda p: 2e9, noise: float = 0.01, repeats: int = 5, **axes: list[Any]
) -> list[dict[str, Any]]:
    """Trials of a full factorial; `speed` in B/s and `cpu` in ns of both ends for 1 GB, by parameters."""
    draw = random.Random(3)
    cells: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        cells = [{**c, name: v} for c in cells for v in values]
    out = []
    for cell in cells:
        parameters = {"operation": "get", "place": "local", "rows_per_stream": 1000, **cell}
        for repeat in range(repeats):
            rate = speed(cell) * math.exp(noise * draw.gauss(0, 1))
            out.append(
                {
                    "kind": "trial",
                    "outcome": "ok",
                    "cell": repr(sorted(parameters.items(), key=str)),
                    "repeat": repeat,
                    "parameters": parameters,
                    "counts": {"rows": 1000, "payload_bytes": 10**9},
                    "times": {"interval_ns": int(1e18 / rate)},
                    "cpu": {
                        "client": {"user_ns": cpu(cell) / 2, "system_ns": 0},
                        "server": {"user_ns": cpu(cell) / 2, "system_ns": 0},
                    },
                }
            )
    return out


def bent(cell: dict[str, Any]) -> float:
    """Encoders bring something up to four, and cost something beyond."""
    return 0.5e9 * min(cell["encoders"], 4) * (0.85 if cell["encoders"] > 4 else 1.0)


def without_cpu(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [trial | {"cpu": {"client": {"user_ns": 5, "system_ns": 0}, "server": None}} for trial in trials]


CASES: dict[str, list[dict[str, Any]]] = {
    # 4 and 8 streams are equally fast: the one that is not the fastest is tied with it.
    "an optimum that is known": records(
        lambda c: min(1e9 * c["streams"], 4e9) * (1.0 if c["rows_per_batch"] == 8192 else 0.7),
        lambda c: 1e9 + 2e8 * c["streams"], streams=[1, 2, 4, 8], rows_per_batch=[1024, 8192]),
    "both ends on four CPUs": records(bent, streams=[1, 2, 4], decoders=[1, 2], encoders=[1, 2, 4, 8]),
    "repeats that scatter": records(
        lambda c: 1e9, noise=0.6, streams=[1, 2], decoders=[1, 2, 4], encoders=[1, 2]),
    "a setting that does nothing, and one that is a word": records(
        lambda c: 1e9 * (0.5 if c["compression"] == "zstd" else 1.0), streams=[1, 2, 4],
        compression=[None, "zstd"]),
    "what is faster costs more": records(
        lambda c: 1e9 * c["streams"] ** 0.5, lambda c: 1e9 * c["streams"], streams=[1, 2, 4, 8, 16]),
    "one cell": records(lambda c: 1e9, streams=[2]),
    "two workloads": records(lambda c: 1e9 * c["streams"], streams=[1, 2], operation=["get", "put"]),
    "no figures of CPU time": without_cpu(records(lambda c: min(c["streams"], 4) * 1e9, streams=[1, 4, 8])),
    "loaders share the streams": without_cpu(records(
        lambda c: c["streams"] * 1e9, streams=[4, 8], loaders=[1, 4], connections=["shared", "per-stream"])),
    "what a smaller value gives": records(
        lambda c: 1e9 * min(c["streams"], 4), streams=[1, 2, 4, 8], rows_per_batch=[1, 2]),
    # A trial that moved nothing is good, and of no use for a ratio.
    "an empty table": [
        one | ({"counts": {"rows": 0, "payload_bytes": 0}} if one["repeat"] == 2 else {})
        for one in records(lambda c: 1e9 * c["streams"], streams=[1, 2])],
    "a median of nothing": [
        one | ({"counts": {"rows": 0, "payload_bytes": 0}} if n in (4, 5) else {})
        for n, one in enumerate(records(lambda c: 1e9, streams=[1, 2, 4], repeats=3))],
    # Real: "highest with 1", and "in short: encoders 4", which has the higher mean.
    "means and medians disagree": records(
        lambda c, each={1: [905, 902, 1326, 1330, 1328], 4: [1196, 1199, 1194, 1200, 1197],
                        16: [803, 801, 799, 802, 800]}: each[c["encoders"]].pop() * 1e6 * c["streams"] ** 0.1,
        noise=0, repeats=5, streams=[1], encoders=[1, 4, 16]),
    # Where nothing else is on the front, no cell of it can be compared with the fastest; others can.
    **{f"{repeats} repeats": records(
        lambda c: 1e8 * c["streams"], lambda c: 2e9 / c["streams"], repeats=repeats, streams=[1, 2, 4])
       for repeats in (6, 3, 2)},
}  # fmt: skip


def test_the_words() -> None:
    told = []
    for name, trials in CASES.items():
        told.append(f"# {name}")
        for one in best.find(summarise(trials), cores=4):
            table = report.front(one)
            told += [
                report.title(one),
                *report.sentences(one),
                *report.notes(one),
                " | ".join(c.head for c in table.columns),
                *(" | ".join(table.row(i)) for i in range(table.rows)),
                "",
            ]
    kept("best-cases", "\n".join(told))


def test_sizes_are_one_workload_unless_all_are_asked_for() -> None:
    trials = records(lambda c: 1e9 * c["streams"], streams=[1, 2], rows_per_stream=[10, 100, 1000])
    cells = summarise(trials)
    (one,) = best.find(cells)
    assert one.workload["rows_per_stream"] == 1000 and one.skipped == 2
    assert len(best.find(cells, every=True)) == 3


@pytest.mark.parametrize("name", ["macbook-get", "macbook-put", "cartesius-remote", "memsql", "akumuli"])
def test_every_published_set_has_an_answer(name: str) -> None:
    shown = venturi("best", f"reference:{name}")
    assert shown.returncode == 0, shown.stderr
    assert "- highest: " in shown.stdout or "- fastest: " in shown.stdout or "one setting" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 110


def test_json_and_markdown() -> None:
    document = json.loads(venturi("best", "reference:chspark", "--format", "json").stdout)
    assert document[0]["fastest"]["settings"]["encoders"] == 64
    assert document[0]["settings"][0]["levels"]
    assert "| setting |" in venturi("best", "reference:chspark", "--format", "markdown").stdout


def test_a_bound_on_latency() -> None:
    """Larger batches are faster, and each takes longer: 10 ms a row, and up to 8 % more by repeat."""
    lines = records(lambda p: 1e9 * p["rows_per_batch"], rows_per_batch=[1, 2, 4])
    for line in lines:
        took = 10e6 * line["parameters"]["rows_per_batch"] * (1 + 0.02 * line["repeat"])
        line["latency"] = {"service": {"count": 10_000, "percentiles": [[99.0, took]]}}
    cells = summarise(lines)

    def fastest(bound: float | None) -> object:
        (one,) = best.find(cells, p99_ns=bound)
        assert len(one.slow) == 3 - one.cells
        return one.fastest.cell.parameters["rows_per_batch"]

    # The median of two rows is 20.8 ms, and its interval ends at 21.6 ms.
    assert [fastest(bound) for bound in (None, 22e6, 21e6)] == [4, 2, 1]
    (one,) = best.find(cells, p99_ns=22e6)
    assert "p99 20.8" in report.sentences(one)[0]
    assert report.notes(one) == ["1 cell is left out: its p99 may be over 22 ms, or is not known"]
    # One that is left is named all the same.
    (one,) = best.find(cells, p99_ns=21e6)
    assert report.sentences(one)[0].startswith("highest: 1 row/batch: ")
    assert best.too_slow(cells, False, 22e6) == best.find(cells, p99_ns=5e6) == []
    (none,) = best.too_slow(cells, False, 5e6)
    assert report.too_slow(none, 5e6, cells).startswith(
        "get: in no cell did 99 % of the batches surely take no longer than 5 ms; the lowest p99 was 10.4"
    )
    (untimed,) = best.too_slow(summarise(records(lambda p: 1e9, streams=[1, 2])), False, 5e6)
    assert report.too_slow(untimed, 5e6, untimed) == "get: too few batches were timed to know 99 % of them"


def test_too_few_pairs_are_no_proof_of_no_effect() -> None:
    """Two levels in three blocks: even a tenfold difference cannot get p under 0.25."""
    one = effect([{"a": 1.0, "b": 10.0}, {"a": 2.0, "b": 22.0}, {"a": 3.0, "b": 29.0}])
    assert one is not None and not one.significant and not one.testable
    assert one.p == pytest.approx(one.least, abs=0.02) and one.least == pytest.approx(0.25)
    many = effect([{"a": 1.0 + i, "b": 1.0 + i + 0.01 * (-1) ** i} for i in range(8)])
    assert many is not None and many.testable and not many.significant
    said = " ".join(venturi("fit", "reference:upsert").stdout.split())
    assert "3 settings of the others are too few to test it (p = 0.25 at best)" in said
    assert "no significant effect" not in said


def test_requests_a_second_are_enough() -> None:
    """Tools that count neither bytes nor rows, as some logs of cassandra-stress."""
    trials = records(lambda p: 1e9 * p["streams"], streams=[1, 2, 4])
    for trial in trials:
        rate = 1e6 / trial["times"]["interval_ns"] * 1e9
        trial["counts"] = {"rows": None, "payload_bytes": None, "batches": 1000}
        trial["rates"] = {"batches_per_second": rate}
        trial["cpu"] = None
    (one,) = best.find(summarise(trials))
    assert one.fastest.cell.parameters["streams"] == 4 and one.fastest.speed.unit == "batches/s"
    assert (
        report.sentences(one)[0].startswith("fastest: 4 streams: ")
        and "batches/s" in report.sentences(one)[0]
    )
    assert one.fastest.speed.value == pytest.approx(4e6, rel=0.03)
    searched = Recorded(summarise(trials))
    assert searched.trials == 15 and searched.share(searched.fastest) == 1.0


def test_workloads_of_foreign_targets_are_told_apart() -> None:
    said = venturi("best", "reference:upsert").stdout
    assert "upsert, cassandra, " in said and "upsert, memsql, " in said
    assert "--repeats" not in said and "(hosts: 10)" in said
