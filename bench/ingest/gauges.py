"""Points as monitoring has them: gauges of a hundred levels, about half of the time as before.

The published data set whose points take 1.37 bytes (Pelkonen et al., "Gorilla", VLDB 2015) is not to be had;
this follows its description: times are regular, and 51 % of the values repeat the one before.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# What a level is worth: percents with and without a fraction, pages of memory, prices.
STEPS = (0.1, 0.1, 0.01, 0.5, 4096.0, 1.0, 1.0, 0.25, 0.001, 100.0)
LEVELS = 101
SAME = 0.51
FURTHEST = 3
TICK_NS = 10_000_000_000
START = "2017-01-01"


def write(path: Path, hosts: int, points: int, seed: int = 1) -> None:
    """A Parquet file of rows: time, the tag host, and a column a gauge; all hosts in turn at each time."""
    chance = np.random.default_rng(seed)
    times = points // (hosts * len(STEPS))
    start = np.datetime64(START, "ns").astype(np.int64)
    time = np.repeat(start + TICK_NS * np.arange(times), hosts)
    columns = {
        "time": pa.array(time, pa.timestamp("ns", "UTC")),
        "host": pa.array([f"host_{host}" for host in range(hosts)] * times),
    }
    for number, step in enumerate(STEPS):
        level = chance.integers(0, LEVELS, hosts)
        levels = np.empty((times, hosts), np.int64)
        for at in range(times):
            move = chance.integers(1, FURTHEST + 1, hosts) * chance.choice((-1, 1), hosts)
            level = np.clip(level + np.where(chance.random(hosts) < SAME, 0, move), 0, LEVELS - 1)
            levels[at] = level
        # A level's double is the one that its shortest decimal reads back as.
        doubles = np.array([float(f"{level * step:.3f}") for level in range(LEVELS)])
        columns[f"gauge.g{number}"] = pa.array(doubles[levels.reshape(-1)])
    made = path.with_suffix(".making")
    pq.write_table(pa.table(columns), made)
    made.rename(path)
