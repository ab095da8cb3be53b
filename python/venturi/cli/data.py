"""`venturi sql`, `import`, `generate`, `scenarios`: queries, results of other tools, archives, scenarios."""

from __future__ import annotations

import enum
import json
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from venturi.cli import options, output
from venturi.cli.options import argument, flag
from venturi.common.errors import StoreError, VenturiError
from venturi.common.texts import say
from venturi.common.units import plural

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(rich_markup_mode=None, add_completion=False)


SQL = """\b
Tables: trials, streams, latency, stages, errors, resources, hosts, samples, ceilings; their columns
are in docs/format.md, or: venturi sql RUN "describe trials"
Of a store of time series (venturi serve timeseries --data DIR): points, series.
Examples:
  venturi sql RUN "select operation, streams, median(bytes_per_second) / 1e6 as mb_s
                   from trials where outcome = 'ok' and not warmup
                   group by all order by all"
  venturi sql DIR "select metric, count(*), avg(value) from points group by all"
"""


Format = enum.StrEnum("Format", ["table", "csv", "json"])
"""How rows are printed."""


@app.command("sql", epilog=SQL)
def sql(
    words: list[str] = argument(
        "Runs (directories, last, reference:NAME), or the directory of a store of time series; "
        "at the end the query.",
        ...,
        metavar="RUN... QUERY",
    ),
    format: Format = flag("table for people, csv, or json: one array of objects.", Format.table),
) -> None:
    """Query the trials of one or many runs, or the points of a store, by SQL."""
    *runs, query = words
    if not runs:
        raise VenturiError(
            "name a run directory and then a query", hint='venturi sql RUN "select * from trials"'
        )
    from venturi.store import sql as asking
    from venturi.store.open import open_run
    from venturi.store.sql import is_store

    table, damaged = asking.ask(runs, query)
    for run in runs:
        if not is_store(Path(run)):
            options.warn(run, open_run(run).environment)
    for one in damaged:
        say("warning", f"{one.file}: {one.why}; its segment is left out of the answer")
    _print_table(table, format)
    if damaged:
        count = plural(len(damaged), "damaged file")
        raise StoreError(
            f"{runs[0]}: {count}, named above: the answer is of the segments that are whole",
            hint="put back the files from a copy, or move them away to do without their points",
        )


def _print_table(table: pa.Table, format: Format) -> None:
    if format is Format.csv:
        from venturi.report import tables

        sys.stdout.write(tables.text(table))
        return
    if format is Format.json:
        print(json.dumps(table.to_pylist(), default=_json, ensure_ascii=False))
        return
    rows = [[_text(row[name]) for name in table.column_names] for row in table.to_pylist()]
    widths = [max(map(len, column)) for column in zip(table.column_names, *rows, strict=True)]
    numeric = [_is_number(field.type) for field in table.schema]
    for row in [table.column_names, ["-" * width for width in widths], *rows]:
        cells = zip(row, widths, numeric, strict=True)
        print("  ".join(f"{c:>{w}}" if right else f"{c:<{w}}" for c, w, right in cells).rstrip())


def _json(value: Any) -> Any:
    """What JSON has no word for: sums of integers are decimals in SQL, dates become texts."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


IMPORT = """\b
Examples:
  venturi import perf_stats/ -o venturi-runs/cartesius
  venturi import old/perf_stats_01.csv --set operation=get --set place=local
  iperf3 -c host -J -P 4 | venturi import - -o venturi-runs/link
  venturi import a.log b.log --format cassandra-stress --name nightly
Formats: perf_stats, flight-benchmark, testperf, chspark, memsql, iperf3, cassandra-stress,
latte; docs/import.md says what is taken from each.
Published sets need no import: venturi show reference:macbook-get
"""


@app.command("import", epilog=IMPORT)
def import_(
    files: list[str] = argument("Files, directories of them, or - for standard input.", ..., metavar="FILE"),
    out: Path | None = flag(
        "Run directory: a new one, or an imported one to add to. [default: below venturi-runs]",
        None,
        "--out",
        "-o",
    ),
    format: str = flag("The files' format; auto recognises it by their content.", "auto"),
    name: str | None = flag("The run's name. [default: that of its directory]"),
    set_: list[str] | None = flag(
        "A parameter that the files do not tell, put into every trial; can be repeated.",
        None,
        "--set",
        metavar="KEY=VALUE",
    ),
) -> None:
    """Copy results of other tools into a run directory, which every command takes; prints its name."""
    from venturi.store.importers.files import import_files, parse_settings

    run, found, skipped = import_files(files, out, format, name, parse_settings(set_ or []))
    for one in skipped:
        say("info", f"{one}: skipped, of no known format")
    for imported in found:
        say("info", f"{imported.name}: {plural(imported.trials, 'trial')} of {imported.source}")
    noted = sum(bool(draft.note) for one in found for draft in one.parsed.drafts)
    if noted:
        say("warning", f"{noted:,} figures need a note; venturi show {run} has it")
    print(run)


GENERATE = """\b
Examples:
  venturi generate --archive points                          # 4 archives, 100 hosts, 1000 steps: 1 M points
  venturi generate --archive seed --archives 32 --hosts 3200 --steps 86400   # as published: 2.76 G points
  venturi run --target akumuli://local --data archive:points --streams 4
"""


@app.command("generate", epilog=GENERATE)
def generate(
    archive: Path = flag("Directory to make them in; it must be empty or new.", ...),
    archives: str = flag("How many: one a stream is usual.", "4"),
    hosts: str = flag("Hosts in all of them, 10 series each.", "100"),
    steps: str = flag("Points of each series.", "1000"),
    tick: str = flag("Time between two of them.", "1s"),
    start: str = flag("Time of the first: a date, or a time in UTC.", "2017-01-01"),
    seed: str = flag("Seed of the values.", "1"),
    digits: str = flag("Digits of a value: 17, or shortest.", "17"),
    level: int = flag("How hard gzip tries: 1 quick to 9.", 6, min=1, max=9),
    threads: str = flag("Archives made at a time; cpus = one a CPU.", "cpus"),
) -> None:
    """Make gzip archives of points, as the published benchmark of Akumuli loads them."""
    settings = {name: value for name, value in dict(locals()).items() if name != "archive"}
    from venturi.common.runtime import load_core
    from venturi.measure.trial_targets import make_archives, plan_archives

    spec = plan_archives(archive, settings, "--")
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


SCENARIOS = """\b
Examples:
  venturi scenarios
  venturi scenarios quick
  venturi run quick
"""


@app.command("scenarios", epilog=SCENARIOS)
def scenarios(
    words: list[str] | None = argument(
        "The one to print, to copy and change it.",
        metavar="NAME",
        autocompletion=lambda: _scenario_names(),
    ),
) -> None:
    """List the built-in scenarios; with a NAME print that one."""
    from venturi.common import toml_text
    from venturi.plan.layers import builtin_text

    # `scenarios show NAME` and `scenarios list` were commands.
    if words == ["show"]:
        raise VenturiError("missing argument 'NAME'", hint="venturi scenarios --help")
    if words and words != ["list"]:
        for name in words[1:] if words[0] == "show" else words:
            print(builtin_text(name), end="")
        return
    names = _scenario_names()
    width = max(map(len, names))
    for name in names:
        tree = toml_text.parse(builtin_text(name), name)
        print(f"{name:<{width}}  {tree.get('description', '')}")


def _scenario_names() -> list[str]:
    from venturi.plan.layers import builtin_names

    return builtin_names()
