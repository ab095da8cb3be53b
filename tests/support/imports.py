"""Samples of foreign files, true to their formats, and what the tests of importers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.run import DATA
from venturi.analysis.results import Results, load
from venturi.store.importers.files import import_files

SAMPLES = DATA / "import"
FORMATS = {
    "perf_stats_get_7.tsv": "perf_stats",
    "perf_stats_8.tsv": "perf_stats",
    "flight_benchmark.txt": "flight-benchmark",
    "testperf.txt": "testperf",
    "chspark.md": "chspark",
    "memsql.md": "memsql",
    "akumuli.md": "akumuli",
    "iperf3.json": "iperf3",
    "iperf3_reverse.json": "iperf3",
    "iperf3_udp.json": "iperf3",
    "iperf3_bidir.json": "iperf3",
    "iperf3_error.json": "iperf3",
    "cassandra_stress.log": "cassandra-stress",
    "cassandra_stress_auto.log": "cassandra-stress",
    "latte.log": "latte",
    "latte.json": "latte",
}


def imported(out: Path, *names: str, **settings: Any) -> Results:
    """The samples of these names as a run."""
    import_files([SAMPLES / name for name in names], out, settings=settings)
    return load(out)
