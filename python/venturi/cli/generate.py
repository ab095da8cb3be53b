"""`venturi generate`: archives of points, to be loaded again and again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from venturi.cli import output

app = typer.Typer(rich_markup_mode=None)

EXAMPLES = """\b
Examples:
  venturi generate --archive points                          # 4 archives, 100 hosts, 1000 steps: 1 M points
  venturi generate --archive seed --archives 32 --hosts 3200 --steps 86400   # as published: 2.76 G points
  venturi run --target akumuli://local --data archive:points --streams 4
"""


@app.command(epilog=EXAMPLES)
def generate(
    archive: Annotated[
        Path, typer.Option("--archive", help="Directory to make them in; it must be empty or new.")
    ],
    archives: Annotated[str, typer.Option("--archives", help="How many: one a stream is usual.")] = "4",
    hosts: Annotated[str, typer.Option("--hosts", help="Hosts in all of them, 10 series each.")] = "100",
    steps: Annotated[str, typer.Option("--steps", help="Points of each series.")] = "1000",
    tick: Annotated[str, typer.Option("--tick", help="Time between two of them.")] = "1s",
    start: Annotated[
        str, typer.Option("--start", help="Time of the first: a date, or a time in UTC.")
    ] = "2017-01-01",
    seed: Annotated[str, typer.Option("--seed", help="Seed of the values.")] = "1",
    digits: Annotated[str, typer.Option("--digits", help="Digits of a value: 17, or shortest.")] = "17",
    level: Annotated[
        int, typer.Option("--level", min=1, max=9, help="How hard gzip tries: 1 quick to 9.")
    ] = 6,
    threads: Annotated[
        str, typer.Option("--threads", help="Archives made at a time; cpus = one a CPU.")
    ] = "cpus",
) -> None:
    """Make gzip archives of points, as the published benchmark of Akumuli loads them."""
    from venturi.common.runtime import load_core
    from venturi.measure.trial_targets import make_archives, plan_archives

    given = {
        **{"archives": archives, "hosts": hosts, "steps": steps, "tick": tick, "start": start, "seed": seed},
        **{"digits": digits, "level": level, "threads": threads},
    }
    spec = plan_archives(archive, given, "--")
    began = time.monotonic()
    line = output.LiveLine()

    def progress(done: int, total: int) -> None:
        rate = done / max(time.monotonic() - began, 1e-9)
        left = f", {(total - done) / rate:,.0f} s left" if rate > 0 else ""
        line.draw(f"{100 * done // max(total, 1)} % of {total:,} points, {rate / 1e6:,.1f} M points/s{left}")

    try:
        made = make_archives(load_core(), spec, progress)
    finally:
        line.close()
    print(_summary(archive, made, time.monotonic() - began))
    print(f"try: venturi run --target akumuli://local --data archive:{archive} --streams {spec['archives']}")


def _summary(archive: Path, made: dict[str, Any], seconds: float) -> str:
    from venturi.common.suffixes import format_bytes

    files = made.get("archives") or []
    lines = [
        f"{one['file']}  {one['points']:,} points  {format_bytes(one['compressed_bytes'])}  {one['checksum']}"
        for one in files
    ]
    text, packed = int(made.get("bytes") or 0), int(made.get("compressed_bytes") or 0)
    lines.append(
        f"{len(files)} archives in {archive}: {made['points']:,} points of {made['series']:,} series; "
        f"{format_bytes(text)} of text in {format_bytes(packed)}, {text / max(packed, 1):.1f} to 1; "
        f"checksum {made['checksum']}; in {seconds:.1f} s"
    )
    return "\n".join(lines)
