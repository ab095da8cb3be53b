"""All benches, each made small: which goals are met and missed on this machine, in some 20 minutes.

A goal is met or missed if the whole 95 % interval is; with so few rounds, much is inconclusive. For figures
to rely on, run one bench alone with its defaults, on a machine that does nothing else. The exit status is 1
if a goal is missed or a bench failed. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench import goals, shared

SMALL = {
    "flight": "--rounds 6 --bytes 0.5e9 --streams 1 2 --rows 4096 32768 --pairings cpp/cpp venturi/venturi "
    "probe",
    "charrow": "--rounds 6 --bytes 0.4e9",
    "overhead": "--rounds 7 --rows 300000 --bytes 300000000 --seconds 0.5",
    "read": "--rounds 6 --rows 200000",
    "upsert": "--rounds 6 --seconds 0.7 --rows 20000 --only mariadb-500 counter-500 empty",
    "ingest": "--rounds 6 --points 10000000 --only venturi-os victoria-metrics",
    "wide": "--rounds 6 --only strings 4",
    "links": "--rounds 2 --seconds 0.7 --links 50mbit 100mbit=20ms 200mbit=5ms 500mbit=10ms 1gbit "
    "1gbit=20ms 200mbit=40ms --sets flight --operations get --streams 1",
    "scale": "--rounds 6 --cells 1000",
    "cluster": "--rounds 6 --starts 6 --repeats 6 --loaders 10",
    "compare": "--rounds 2 --repeats 5 --rows 3000000",
    "models": "--rounds 10 --curves 1000",
    "verdicts": "--rounds 2 --only encode decode",
    "attacks": "--seconds 2 --attacks silent resets",
}
"""By a bench's name its flags."""
LEFT_OUT = {"mutation": "each fault is a build"}
SECONDS = 600
"""A bench's most time: one builds a peer at its first use."""


def one(name: str, place: Path) -> tuple[list[goals.Judged], list[str], list[str]]:
    """The goals of a bench, what failed, and what could not be measured here."""
    source = place / f"{name}.jsonl"
    command = [sys.executable, "-m", f"bench.{name}.run", *SMALL[name].split(), "--output", str(source)]
    result = shared.goals_of(source)
    result.unlink(missing_ok=True)
    with (place / f"{name}.log").open("w") as log:
        bench = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=shared.ROOT
        )
        try:
            bench.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return [], [f"not done in {SECONDS} s; see {log.name}"], []
        finally:
            _end(bench)
    if not result.exists():
        last = Path(log.name).read_text(errors="replace").strip().splitlines()[-1:]
        return [], [f"{last[0] if last else 'it ended without a word'}; see {log.name}"], []
    found = json.loads(result.read_text())
    return [goals.Judged(**goal) for goal in found["goals"]], found["failed"], found["missing"]


def _end(bench: subprocess.Popen[bytes]) -> None:
    """It ends itself what it has started; what is left of its group goes then."""
    bench.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        bench.wait(30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(bench.pid, signal.SIGKILL)
    bench.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(SMALL), default=list(SMALL), metavar="BENCH")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    head, place = shared.machine(), shared.target_directory() / "bench" / shared.stamp()
    place.mkdir(parents=True, exist_ok=True)
    print(f"{head['date']}; commit {head['commit']}; load before {head['load_before']:.2f}")
    judged: list[goals.Judged] = []
    broken, unmeasured = [], 0
    for name in options.only:
        began = time.monotonic()
        found, failed, missing = one(name, place)
        print(f"\n## {name}: {time.monotonic() - began:.0f} s, make bench-{name} BENCH='{SMALL[name]}'\n")
        print("\n".join(goals.table(found)))
        for word, lines in (("failed", failed), ("not measured", missing)):
            print("".join(f"{word}: {line}\n" for line in lines), end="", flush=True)
        unmeasured += len(missing)
        judged += found
        broken += [name] if failed else []
    counts = {word: sum(goal.verdict == word for goal in judged) for word in goals.VERDICTS}
    counts["not measured"] = unmeasured
    counted = ", ".join(f"{count} {word}" for word, count in counts.items())
    print(f"\nGoals: {counted}." + (f" Failed: {', '.join(broken)}." if broken else ""))
    print("\n".join(f"Left out: {name}: {why}." for name, why in LEFT_OUT.items()))
    return 1 if broken or counts["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
