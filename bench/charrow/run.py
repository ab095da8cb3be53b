"""charrow beside other ways to get the same Arrow table, interleaved in one run.

A round measures every way of every part once; parts come in shuffled order, and within a part the ways come
in shuffled order right after one another, so that ratios are taken at nearly the same moment. See
bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "flight"))

import build  # noqa: E402 - of bench/flight, as the next one
from peers import PAIRINGS, Bench, Cell, Server, TrialFailed  # noqa: E402

BLOCK_ROWS = 32_768  # of 32 bytes: 1 MiB
SEED_RATE = 120e6  # bytes/s of one encoder, as published
SQL = (
    "SELECT number AS id, number % 1000 AS customer, toString(number) AS name, "
    "toDecimal64(number % 100000, 2) AS price, toDateTime64(number, 3) AS at FROM numbers({rows})"
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rounds", type=int, default=7, help="how often every way is measured (default 7)")
    add("--bytes", type=float, default=1.5e9, help="payload of a trial (default 1.5e9)")
    add("--seed", type=int, default=1, help="of the shuffle")
    add("--parts", nargs="+", choices=("memory", "rows", "clickhouse"), metavar="PART")
    add("--clickhouse", metavar="URL", help="http://HOST:8123, a server with Arrow, for clickhouse-connect")
    add("--no-cpp", action="store_true", help="without Arrow C++, which wants a compiler")
    add("--record", action="store_true", help="keep the table as bench/charrow/results/<date>.md")
    add("--output", type=Path, help="the JSONL file (default target/bench-charrow/<date>.jsonl)")
    add("--from", dest="source", type=Path, help="measure nothing: the table of an earlier JSONL file")
    options = parser.parse_args()
    options.parts = options.parts or ["memory", "rows", "clickhouse"]
    return options


class Ways:
    """The servers, and every part's ways: what to ask which client process."""

    def __init__(self, options: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        self.rows = int(options.bytes) // 32
        self._servers: dict[str, Server] = {}
        self._cpp: Bench | None = None
        self._stack = stack
        self.parts: dict[str, dict[str, dict[str, Any]]] = {}
        if "memory" in options.parts:
            self.parts["memory"] = self._memory(options)
        if "rows" in options.parts:
            self.parts["rows"] = self._rows()
        if "clickhouse" in options.parts:
            self.parts["clickhouse"] = self._clickhouse(options)

    def _serve(self, name: str, *words: str) -> str:
        command = [
            sys.executable,
            "-m",
            "venturi",
            "serve",
            *words,
            "--port",
            "0",
            "--json",
            "--exit-with-parent",
        ]
        server = Server(command)
        self._stack.callback(server.stop)
        self._servers[name] = server
        return server.address

    def _memory(self, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
        """Batches that lie ready: 4 int64, 1 MiB, one and two connections."""
        charrow = f"charrow://{self._serve('charrow', 'charrow')}"
        ways: dict[str, dict[str, Any]] = {}
        for streams in (1, 2):
            common = {"streams": streams, "encoders": 1, "rows_per_batch": BLOCK_ROWS, "rows": self.rows}
            for decoders in (0, 1):
                name = f"charrow {streams}, decoders {decoders}"
                where = {"way": "venturi", "server": "charrow", "url": charrow, "decoders": decoders}
                ways[name] = {**where, **common}
            ways[f"raw TCP {streams}"] = {"way": "tcp", "server": "charrow", "url": charrow, **common}
        table = Path(self._stack.enter_context(tempfile.TemporaryDirectory())) / "records.arrow"
        _records(table, min(self.rows, 16_000_000))
        flight = f"flight://{self._serve('flight', 'flight', '--data', f'records={table}')}"
        for streams in (1, 2):
            common = {"streams": streams, "rows_per_batch": BLOCK_ROWS, "rows": self.rows, "encoders": 1}
            ways[f"Venturi Flight {streams}"] = {
                "way": "venturi",
                "server": "flight",
                "url": flight,
                **common,
            }
        ways["pyarrow.flight 1"] = {
            "way": "pyarrow-flight",
            "server": "flight",
            "url": flight,
            "path": "records",
        }
        if not options.no_cpp:
            self._cpp = Bench(build.build(quiet=True), ["cpp/cpp"], self.rows * 32)
            self._stack.callback(self._cpp.stop)
            for streams in (1, 2):
                ways[f"Arrow C++ Flight {streams}"] = {"way": "cpp", "streams": streams}
        return ways

    def _rows(self) -> dict[str, dict[str, Any]]:
        """Rows that encoders turn into columns."""
        url = f"charrow://{self._serve('rows', 'charrow')}"
        rows = self.rows * 32 // 137
        query = f"SELECT * FROM state_rows(rows = {rows}, block_rows = 16384)"
        return {
            f"charrow, encoders {n}": {
                "way": "venturi",
                "server": "rows",
                "url": url,
                "streams": 1,
                "encoders": n,
                "decoders": 1,
                "rows_per_batch": 16384,
                "query": query,
            }
            for n in sorted({1, 2, os.cpu_count() or 1})
        }

    def _clickhouse(self, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
        """A query that ClickHouse's engine executes; the engine's own time is in all of them."""
        query = SQL.format(rows=self.rows * 32 // 60)
        ways: dict[str, dict[str, Any]] = {"chdb in process": {"way": "chdb", "query": query}}
        url = f"charrow://{self._serve('chdb', 'charrow', '--engine', 'chdb')}"
        for streams in (1, 2):
            ways[f"charrow from chdb {streams}"] = {
                **{"way": "venturi", "server": "chdb", "url": url, "query": query},
                **{"streams": streams, "encoders": 1, "decoders": 1, "rows_per_batch": BLOCK_ROWS},
            }
        if options.clickhouse:
            ways["clickhouse-connect"] = {
                "way": "clickhouse-connect",
                "url": options.clickhouse,
                "query": query,
            }
        else:
            print("note: no --clickhouse URL, so clickhouse-connect is left out", file=sys.stderr)
        return ways

    def trial(self, part: str, name: str) -> dict[str, Any]:
        """One measured transfer: the client's numbers and the server's CPU time."""
        request = self.parts[part][name]
        if request["way"] == "cpp":
            assert self._cpp is not None
            found = self._cpp.trial(Cell("get", request["streams"], BLOCK_ROWS), PAIRINGS["cpp/cpp"])
            found["client_cpu_ns"] = found["user_ns"] + found["system_ns"]
            return found
        server = self._servers.get(request.get("server", ""))
        before = server.cpu_ns() if server else 0
        done = subprocess.run(
            [sys.executable, str(HERE / "client.py"), json.dumps(request)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
        )
        if done.returncode != 0:
            raise TrialFailed(f"{part}, {name}: {(done.stderr.strip() or done.stdout.strip())[-400:]}")
        result: dict[str, Any] = json.loads(done.stdout)
        result["server_cpu_ns"] = server.cpu_ns() - before if server else None
        return result


def _records(path: Path, rows: int) -> None:
    """The table of `records` for those who want a path: the same types and sizes, other random values."""
    import pyarrow as pa

    random_ = np.random.default_rng(1)
    names = ["a", "b", "c", "d"]
    schema = pa.schema([(name, pa.int64()) for name in names])
    columns = [pa.array(random_.integers(-(2**63), 2**63 - 1, BLOCK_ROWS)) for _ in names]
    batch = pa.record_batch(columns, schema=schema)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for _ in range(max(1, rows // BLOCK_ROWS)):
            writer.write_batch(batch)


def ticks() -> tuple[int, int]:
    """Whole-host CPU time and what was stolen of it, in ticks."""
    words = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(words), words[7]


def measure(options: argparse.Namespace, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack, open(output, "w") as file:
        ways = Ways(options, stack)

        def keep(line: dict[str, Any]) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        keep(environment(options) | {"ways": {part: list(names) for part, names in ways.parts.items()}})
        for part, names in ways.parts.items():  # one warm-up of each, not kept
            for name in names:
                ways.trial(part, name)
        shuffle = random.Random(options.seed).shuffle
        for number in range(options.rounds):
            parts = list(ways.parts)
            shuffle(parts)
            for part in parts:
                names = list(ways.parts[part])
                shuffle(names)
                for name in names:
                    before = ticks()
                    line = {"kind": "trial", "round": number, "part": part, "way": name}
                    try:
                        line |= ways.trial(part, name)
                    except (TrialFailed, subprocess.TimeoutExpired) as error:
                        line["error"] = str(error)
                        print(f"failed: {error}", file=sys.stderr)
                    after = ticks()
                    line["steal"] = (after[1] - before[1]) / max(1, after[0] - before[0])
                    keep(line)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)


def environment(options: argparse.Namespace) -> dict[str, Any]:
    import pyarrow

    described = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in described if line.startswith("model name")]
    commit = subprocess.run(
        ["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    return {
        "kind": "environment",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cpu": models[0] if models else platform.machine(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "arrow": pyarrow.__version__,
        "commit": commit,
        "load_before": os.getloadavg()[0],
        "rounds": options.rounds,
        "bytes": int(options.bytes),
    }


def bootstrap(values: list[float]) -> tuple[float, float]:
    drawn = np.random.default_rng(1).choice(np.array(values), size=(2000, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


def table(source: Path) -> tuple[str, bool]:
    """The Markdown table of a JSONL file, and whether every goal is met."""
    lines = [json.loads(text) for text in source.read_text().splitlines()]
    head = lines[0]
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for line in lines[1:]:
        if "error" not in line:
            found[line["part"]][line["way"]][line["round"]] = line
    steal = float(np.mean([line["steal"] for line in lines[1:]] or [0.0]))
    out = [
        f"# charrow beside other ways to an Arrow table: {head['date'][:10]}",
        "",
        f"{head['cpu']}, {head['cpus']} CPUs, Linux {head['kernel']}, Arrow {head['arrow']}; commit "
        f"{head['commit']}; {head['rounds']} rounds of {head['bytes'] / 1e9:g} GB a trial; load before "
        f"{head['load_before']:.2f}, CPU time stolen {100 * steal:.1f} %.",
        "",
        "Payload of decoded Arrow batches, medians; CPU-seconds per GB of client and server.",
    ]
    for part, names in head["ways"].items():
        ways = {name: found[part][name] for name in names if name in found[part]}
        out += ["", f"## {part}", "", "| way | MB/s | client + server, s/GB |", "|---|---|---|"]
        for name, trials in ways.items():
            speeds = [speed(t) for t in trials.values()]
            low, high = bootstrap(speeds)
            cpu = [
                f"{np.median([t[key] / t['bytes'] for t in trials.values()]):.2f}"
                if all(t.get(key) is not None for t in trials.values())
                else "-"
                for key in ("client_cpu_ns", "server_cpu_ns")
            ]
            out.append(
                f"| {name} | {np.median(speeds) / 1e6:,.0f} ({low / 1e6:,.0f}..{high / 1e6:,.0f}) "
                f"| {' + '.join(cpu)} |"
            )
    goals = _goals(found)
    met = all(ok for *_, ok in goals)
    out += ["", "## Goals", "", "| | median ratio in the same round | wanted | |", "|---|---|---|---|"]
    out += [
        f"| {what} | {text} | {wanted} | {'met' if ok else '**missed**'} |"
        for what, text, wanted, ok in goals
    ]
    failed = [line for line in lines[1:] if "error" in line]
    out += ["", f"{len(failed)} trials failed."] if failed else []
    return "\n".join([*out, ""]), met and not failed


def speed(trial: dict[str, Any]) -> float:
    return float(trial["bytes"]) / float(trial["interval_ns"]) * 1e9


def _goals(found: Any) -> list[tuple[str, str, str, bool]]:
    out = []

    def compare(what: str, part: str, one: str, other: str, wanted: float) -> None:
        pairs = [
            speed(t) / speed(found[part][other][n])
            for n, t in found.get(part, {}).get(one, {}).items()
            if n in found[part].get(other, {})
        ]
        if pairs:
            low, high = bootstrap(pairs)
            ratio = float(np.median(pairs))
            out.append((what, f"{ratio:.2f} ({low:.2f}..{high:.2f})", f">= {wanted:g}", ratio >= wanted))

    mine = "charrow 1, decoders 0"  # with one connection, another thread has nothing to share
    compare("charrow of raw TCP, 1 partition, 1 MiB", "memory", mine, "raw TCP 1", 0.85)
    compare("charrow over Arrow C++ Flight, 1 stream", "memory", mine, "Arrow C++ Flight 1", 1.5)
    rows = found.get("rows", {}).get("charrow, encoders 1", {})
    if rows:
        each = [speed(t) / SEED_RATE for t in rows.values()]
        low, high = bootstrap(each)
        ratio = float(np.median(each))
        text = f"{ratio:.2f} ({low:.2f}..{high:.2f})"
        out.append(("one encoder over the published 120 MB/s", text, ">= 4", ratio >= 4))
    return out


def main() -> int:
    options = arguments()
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%d-%H%M")
    source = options.source
    if source is None:
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        source = options.output or target / "bench-charrow" / f"{stamp}.jsonl"
        began = time.monotonic()
        measure(options, source)
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    text, met = table(source)
    print(text)
    if options.record:
        place = HERE / "results" / f"{source.stem}.md"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        print(f"recorded: {place.relative_to(ROOT)}", file=sys.stderr)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
