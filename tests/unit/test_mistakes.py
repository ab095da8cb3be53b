"""What nobody means to do: each ends with one helpful line and the code for it, and costs little.

The sentences are in tables, tests/data/mistakes/. Commands run in this process if they can; what is about
streams and memory has a process to itself.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.mistakes import check
from support.run import DATA, SMALL, command, environment, model, venturi
from venturi.common import links, toml_text
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say
from venturi.measure.run_events import outcome_text
from venturi.measure.trial_targets import Endpoints
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.targets.urls import check_url

LONG = "x" * 300
DEEP = 50_000
FILES = DATA / "mistakes" / "files"
CONDITION = "[matrix]\nstreams = [1, 2]\nexclude = ['''{}''']\n"
LARGE = {
    "long.toml": f'name = "{LONG}"\n',
    "brackets.toml": CONDITION.format("(" * DEEP + "streams" + ")" * DEEP + " > 1"),
    "not.toml": CONDITION.format("not " * DEEP + "streams"),
    "minus.toml": CONDITION.format("-" * DEEP + "streams"),
    "deep.toml": CONDITION.format("-" * 1900 + "streams"),
    "lists.toml": "[matrix]\nexclude = " + "[" * DEEP + "]" * DEEP + "\n",
    "huge.toml": CONDITION.format(f"streams * 1{'0' * 400} / 3.0 > 1"),
    "wide.csv": ",".join(f"column_{n}" for n in range(10_000)) + "\n" + ",".join("1" * 10_000) + "\n",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- tables of mistakes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tables speak of: files that are wrong, a run, and one of a later release."""
    found = Path(shutil.copytree(FILES, tmp_path_factory.mktemp("mistakes") / "files"))
    for name, text in LARGE.items():
        (found / name).write_text(text)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), found / "none.parquet")
    os.mkfifo(found / "pipe.csv")
    (archive,) = (DATA / "runs").glob("format-*.tar.xz")
    with tarfile.open(archive) as file:
        file.extractall(found, filter="data")
    (found / "newer").mkdir()
    (found / "newer" / "environment.json").write_text('{"format": 99}')
    (found / "newer" / "trials.jsonl").touch()
    return found


def refused(line: str, folder: Path) -> str:
    """What a command says that is refused, and its exit code; it leaves nothing."""
    before = {*os.listdir(folder)}
    done = venturi(*shlex.split(line.replace("LONG", LONG)), cwd=folder)
    assert done.stdout == "" and done.returncode in (2, 3, 4, 7), (line, done)
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") <= 2 and len(done.stderr) < 2000, (
        done
    )
    assert "Traceback" not in done.stderr and "fault of Venturi" not in done.stderr, done
    assert {*os.listdir(folder)} == before, line
    said = done.stderr.replace(f"{folder}/", "").replace(LONG, "LONG")
    return f"{said}exit code {done.returncode}"


@pytest.mark.parametrize("wing", ["commands", "commands-links", "commands-targets"])
def test_a_mistake_on_a_command_line_is_one_line_and_a_code(wing: str, folder: Path) -> None:
    check(wing, lambda line: refused(line, folder))


def planned(text: str) -> str:
    """What is said to a scenario; a last line `# on ray` says where its streams run."""
    where = text.rpartition("\n# on ")[2] if "\n# on " in text else None
    with pytest.raises(VenturiError) as caught:
        found = replace(load([Layer("my.toml", toml_text.parse(text, "my.toml"), text)]), on=where)
        Endpoints(found, False, lambda level, said: None).__enter__()
    assert caught.value.exit_code in (ExitCode.SCENARIO, ExitCode.USAGE)
    hint = f"\nhint: {caught.value.hint}" if caught.value.hint else ""
    return f"{caught.value.message}{hint}".replace(f"{Path.cwd()}/", "").replace(str(Path.cwd()), "HERE")


def test_a_mistake_in_a_scenario_is_named_with_line_and_field(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    check("scenarios", planned)


def test_what_is_no_address_is_explained_and_keeps_its_secrets() -> None:
    def said(url: str) -> str:
        with pytest.raises(ValueError) as caught:
            check_url(url.replace("\\x07", "\x07"))
        return str(caught.value)

    check("addresses", said)


def test_what_is_no_link() -> None:
    def said(text: str) -> str:
        with pytest.raises(ValueError) as caught:
            links.parse(text.removeprefix('""'))
        return str(caught.value)

    check("links", said)


# ---- flags over a file, and files that are fine


ONE_OF_EACH = "\n".join(
    ("get-1x4096-8aa3ca50  get rows_per_stream=4000000 streams=1",
     "get-2x4096-04a9f76b  get rows_per_stream=2000000 streams=2",
     "get-4x4096-4ecef2dd  get rows_per_stream=500000 streams=4")
)  # fmt: skip
NOTE = "info: streams and {} advance together, as zip.toml:5: matrix.zip says; --set matrix.zip=[] makes a "


def test_flags_over_a_zipped_axis_stay_zipped(here: Path) -> None:
    shutil.copy(FILES / "zipped.toml", here / "zip.toml")
    done = venturi("run", "zip.toml", "--dry-run", "--streams", "1,2,4")
    assert done.returncode == 0 and done.stdout.startswith(ONE_OF_EACH)
    assert done.stderr == NOTE.format("rows_per_stream") + "product of them\n"
    # A size that takes another one's place takes its place in the zip too.
    done = venturi("run", "zip.toml", "--dry-run", "--bytes-per-stream", "1M,2M,4M")
    assert "cells: 3," in done.stdout and done.stderr == NOTE.format("bytes_per_stream") + "product of them\n"
    # Whoever asks for the product gets it; one value is no axis.
    done = venturi("run", "zip.toml", "--dry-run", "--streams", "1,2", "--set", "matrix.zip=[]")
    assert "cells: 6," in done.stdout and done.stderr == ""
    done = venturi("run", "zip.toml", "--dry-run", "--streams", 2)
    assert "cells: 3," in done.stdout and done.stderr == ""


def test_quoted_csv_is_read(here: Path) -> None:
    """Line ends, quotes and long values inside of quotes, also beyond what is read in one piece."""
    from venturi.inputs.files import read_table

    rows = [f'{n},"line one\nline ""{n}"", {"z" * 200}"' for n in range(20_000)]
    text = "a,b\n" + "\n".join([*rows, f'20000,"{"y" * 300_000}"', '20001,5" pipe']) + "\n"
    (here / "quoted.csv").write_text(text)
    found = read_table("quoted.csv")
    assert found.num_rows == 20_002 and found["b"][7].as_py() == f'line one\nline "7", {"z" * 200}'
    assert found["b"][20_001].as_py() == '5" pipe' and len(found["b"][20_000].as_py()) == 300_000


# ---- runs that are damaged


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, core: object) -> Path:
    """A run with samples; tests change copies of it."""
    path = tmp_path_factory.mktemp("measured") / "r"
    words = ("--target", "flight://local", "--operation", "get", "--streams", "1,2", "--duration", "300ms")
    quiet = ("--repeats", 2, "--no-ceilings", "--no-report", "--quiet", "--unproven")
    done = venturi("run", *words, *quiet, "--out", path)
    assert done.returncode == 0 and len(list((path / "samples").iterdir())) == 6, done.stderr
    return path


@pytest.fixture
def run(measured: Path, here: Path) -> Iterator[Path]:
    """A copy to damage. It goes with the test: records that stay are held against the schema (conftest)."""
    shutil.copytree(measured, here / "r")
    yield here / "r"
    shutil.rmtree(here / "r")


def changed(run: Path, paths: Sequence[tuple[Any, ...]], text: str) -> None:
    """Puts a text in the place of one value of each line, from the third one on."""
    file = run / "trials.jsonl"
    lines = file.read_text().splitlines()
    for number, path in enumerate(paths, 2):
        record = json.loads(lines[number])
        within = record
        for key in path[:-1]:
            within = within[key]
        within[path[-1]] = "@@@"
        lines[number] = json.dumps(record).replace('"@@@"', text)
    file.write_text("\n".join(lines) + "\n")


HUGE = "1" + "0" * 40
PLACES: list[tuple[Any, ...]] = [
    ("counts", "payload_bytes"), ("times", "interval_ns"), ("repeat",), ("cell",), ("parameters", "streams"),
    ("latency", "service", "p99"), ("latency", "service", "percentiles", 1), ("stages", "client"),
    ("cpu", "client", "user_ns"),
]  # fmt: skip


@pytest.mark.parametrize("value", ["NaN", "Infinity", HUGE, '"many"', "[]", "true", "1e400"])
def test_damaged_records_are_named(value: str, run: Path) -> None:
    """Nothing that a line of a run may hold is a fault of ours: it is named, or it does no harm."""
    whole = (run / "trials.jsonl").read_text()
    for place in PLACES:
        (run / "trials.jsonl").write_text(whole)
        changed(run, [place], value)
        more = ("sql r 'from trials'", "report r --out x.html") if place[0] == "parameters" else ()
        for done in (venturi(*shlex.split(words)) for words in ("show r", *more)):
            if done.returncode:
                named = re.match(r"error: r/trials\.jsonl:3: .*damaged", done.stderr)
                assert done.returncode == 7 and named, (place, done.stderr)
            else:
                assert value not in ("NaN", "Infinity") and place[0] not in ("counts", "times"), place


def test_a_run_with_a_damaged_record_is_not_gone_on_with(run: Path) -> None:
    changed(run, [("counts", "rows")], "NaN")
    before = (run / "trials.jsonl").read_bytes()
    done = venturi("run", "--resume", "r", "--no-report", "--quiet")
    assert done.returncode == 7
    assert done.stderr.startswith("error: r/trials.jsonl:3: not JSON: ")
    assert (run / "trials.jsonl").read_bytes() == before


def damage(run: Path, how: str) -> Path:
    file = sorted((run / "samples").glob("*.parquet"))[0]
    whole = file.read_bytes()
    if how == "another table":
        pq.write_table(pa.table({"t_ns": ["text"], "end": [1]}), file)
    else:
        file.write_bytes({"empty": b"", "garbage": b"PAR1 no more", "cut": whole[: len(whole) // 2]}[how])
    return file


@pytest.mark.parametrize("how", ["empty", "garbage", "cut", "another table"])
def test_one_damaged_sample_file_is_as_none(how: str, run: Path) -> None:
    file = damage(run, how).relative_to(run.parent)
    said = f"warning: {file}: cannot be read: "
    counted = venturi("sql", "r", "select count(*) as n from trials", "--format", "csv")
    assert (counted.returncode, counted.stdout) == (0, "n\n6\n") and counted.stderr.startswith(said)
    others = venturi("sql", "r", "select count(distinct trial) as n from samples", "--format", "csv")
    assert (others.returncode, others.stdout) == (0, "n\n5\n")
    for words in ("show r", *{"cut": ("report r --out x.html", "run --resume r --quiet")}.get(how, ())):
        done = venturi(*shlex.split(words))
        assert done.returncode == 0 and "error" not in done.stderr, done.stderr
        assert done.stderr.count("\n") <= 1, done.stderr


def test_samples_of_a_missing_file_are_no_news(run: Path) -> None:
    sorted((run / "samples").glob("*.parquet"))[0].unlink()
    done = venturi("sql", "r", "select count(*) as n from trials", "--format", "csv")
    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n6\n", "")


DELETED = (
    "run quick --executor support.model --no-report", "run quick --dry-run", "show last",
    "sql RUN 'select 1'",
    "run --target empty:// --operation put --data x.csv", "report r", "serve flight --port 0 --tls-key x",
)  # fmt: skip


@pytest.mark.parametrize("words", DELETED)
def test_a_deleted_working_directory(words: str, measured: Path, here: Path) -> None:
    (here / "gone").mkdir()
    os.chdir(here / "gone")
    (here / "gone").rmdir()
    done = venturi(*(str(measured) if word == "RUN" else word for word in shlex.split(words)))
    assert done.returncode in (2, 7) and "fault" not in done.stderr, done.stderr
    assert done.stderr.count("error: ") == 1
    if words.startswith(("run quick", "sql")):
        assert done.stderr.startswith("error: the working directory has been deleted\n")
        assert done.returncode == 7


# From here on in processes of their own.


@pytest.mark.parametrize("encoding", ["ascii:strict"])
def test_an_encoding_that_lacks_letters(encoding: str, here: Path) -> None:
    extra = {"env": environment(PYTHONIOENCODING=encoding), "cwd": here, "check": False}
    words = command("run", "--executor", "support.model", *SMALL, "--place", "K\u00f6ln\u2603=flight://local", "--out", "r", "--json")  # fmt: skip # noqa: E501
    ran = subprocess.run(words, capture_output=True, **extra)
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.decode(encoding.partition(":")[0]).splitlines()]
    assert {line["parameters"]["place"] for line in lines} == {"K\u00f6ln\u2603"}
    shown = subprocess.run(command("show", "r"), capture_output=True, **extra)
    assert shown.returncode == 0 and not shown.stderr and b"median" in shown.stdout


# A process counts the memory of the one that it was forked from, and that of the tests is large.
USED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[2:])
with open(sys.argv[1], "w") as told:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=told)
sys.exit(done.returncode)
"""


def test_what_a_server_says_is_one_line_that_no_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "no\x1b]0;x\x07 way\nerror: " + "x" * 1_000_000
    line = {"outcome": "failed", "error": {"kind": "server", "message": evil}, "parameters": {}, "counts": {}}
    say("error", evil)
    for said in (capsys.readouterr().err.removesuffix("\n"), outcome_text(line)):
        assert said.isprintable() and 3000 < len(said) < 5000 and "way error: x" in said


def test_an_error_of_20_mb_costs_little(here: Path) -> None:
    assert model("--out", here / "r", *SMALL, "--quiet").returncode == 0
    lines = (here / "r" / "trials.jsonl").read_text().splitlines()
    record = json.loads(lines[5])
    error = {"kind": "server", "message": "no way " * 3_000_000, "stream": 0}
    record |= {"outcome": "failed", "error": error}
    (here / "r" / "trials.jsonl").write_text("\n".join([*lines[:5], json.dumps(record), *lines[6:]]) + "\n")
    for words in (("show", "r"), ("report", "r", "--out", "x.html")):
        used, child = here / "used", [sys.executable, "-c", USED, here / "used", *command(*words)]
        done = subprocess.run(child, cwd=here, env=environment(), capture_output=True)
        said = done.stdout + done.stderr
        assert done.returncode == 0 and len(said) < 20_000, said[:2000]
        assert int(used.read_text()) < 400 * 2**10, "kilobytes"
    assert (here / "x.html").stat().st_size < 10 * 2**20
