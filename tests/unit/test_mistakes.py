"""What nobody means to do: each ends with one helpful line and the code for it, and costs little.

Commands run inside this process where they can, as their users type them; a process of its own has what is
about streams, memory and time.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.run import SMALL, command, environment, model
from venturi.cli import main
from venturi.common.say import say
from venturi.measure.observer import outcome_text
from venturi.store import directory as store

LONG = "x" * 300
DEEP = 50_000


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one error line; fails where there is none, or more."""
        (line,) = (line for line in self.err.splitlines() if line.startswith("error: "))
        return line.removeprefix("error: ")


def typed(*words: object) -> Ended:
    """A command, as `venturi WORDS` has it, in this process."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["venturi", *map(str, words)]
    store._read.clear()
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as end,
        ):
            main()
    finally:
        sys.argv = before
    return Ended(int(end.value.code or 0), out.getvalue(), err.getvalue())


def check_refused(ended: Ended, code: int, error: str) -> None:
    assert error in ended.error, ended.err
    assert ended.code == code and ended.out == "", ended
    assert "Traceback" not in ended.err and "fault of Venturi" not in ended.err
    assert len(ended.err) < 2000 and ended.err.count("\n") <= 3


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, core: object) -> Path:
    """A run with samples; tests change copies of it."""
    path = tmp_path_factory.mktemp("measured") / "r"
    done = typed(
        *(
            "run",
            "--target",
            "flight://local",
            "--operation",
            "get",
            "--streams",
            "1,2",
            "--duration",
            "300ms",
        ),
        *("--repeats", 2, "--no-ceilings", "--no-report", "--quiet", "--out", path),
    )
    assert done.code == 0 and len(list((path / "samples").iterdir())) == 6, done.err
    return path


@pytest.fixture
def run(measured: Path, here: Path) -> Iterator[Path]:
    """A copy to damage. It goes with the test: records that stay are held against the schema (conftest)."""
    shutil.copytree(measured, here / "r")
    yield here / "r"
    shutil.rmtree(here / "r")


ZIPPED = """
[matrix]
streams = [1, 2, 8]
rows_per_stream = ["4M", "2M", "500k"]
zip = [["streams", "rows_per_stream"]]
"""
CONDITION = "[matrix]\nstreams = [1, 2]\nexclude = ['''{}''']\n"
FILES = {
    "zip.toml": ZIPPED,
    "nul.toml": 'name = "a\\u0000b"\n',
    "nul-data.toml": '[workload]\noperation = "put"\ndata = "a\\u0000b.csv"\n',
    "nul-key.toml": '[places]\n"a\\u0000b" = "flight://local"\n',
    "long.toml": f'name = "{LONG}"\n',
    "nested.toml": '[matrix]\nstreams = [1, 2]\nzip = [[["streams"]]]\n',
    "newline.toml": 'name = "a\\nb"\n',
    "brackets.toml": CONDITION.format("(" * DEEP + "streams" + ")" * DEEP + " > 1"),
    "not.toml": CONDITION.format("not " * DEEP + "streams"),
    "minus.toml": CONDITION.format("-" * DEEP + "streams"),
    "deep.toml": CONDITION.format("-" * 1900 + "streams"),
    "lists.toml": "[matrix]\nexclude = " + "[" * DEEP + "]" * DEEP + "\n",
    "huge.toml": CONDITION.format(f"streams * 1{'0' * 400} / 3.0 > 1"),
    "latin.csv": b"a,b\n1,x\n2,K\xf6ln\n",
    "open.csv": b'a,b\n1,x\n2,"y\n3,z\n',
    "two-open.csv": b'a,b\n1,"x\n2,"y\n3,z\n',
    "last-open.csv": b'a,b\n1,"x\nx"\n2,"y',
    "wide.csv": ",".join(f"column_{n}" for n in range(10_000)) + "\n" + ",".join("1" * 10_000) + "\n",
}
DATA = "run --target sqlite://local --operation upsert --dry-run --data"
POINTS = "run --target akumuli://local --dry-run --data"
# What is typed, the exit code, and what its one error line has in it.
TYPED: list[tuple[str, int, str]] = [
    ("run quick --dry-run --scale inf", 2, "--scale inf: must be a number"),
    ("run quick --dry-run --scale 1e30", 2, "--scale 1e+30: bytes_per_stream 500M becomes too large"),
    ("run quick --dry-run --scale nan", 2, "--scale nan: must be above 0"),
    ("run quick --dry-run --scale -1", 2, "--scale -1: must be above 0"),
    ("run nul.toml --dry-run", 3, "nul.toml:1: name: has a NUL character in it"),
    ("run nul-data.toml --dry-run", 3, "nul-data.toml:3: workload.data: has a NUL character in it"),
    ("run nul-key.toml --dry-run", 3, "nul-key.toml"),
    (
        "run nested.toml --dry-run",
        3,
        "nested.toml:3: matrix.zip: must be a list of lists of axes",
    ),
    ("run newline.toml --dry-run", 3, "cannot be part of a directory's name"),
    ("run long.toml --dry-run", 3, "300 characters are too many for a part of a directory's name"),
    (f"run quick --dry-run --set name={LONG}", 3, "--set name: 300 characters are too many"),
    (f"run {LONG}", 3, "no such scenario, neither a file nor built in"),
    (f"run {LONG}.toml", 3, "cannot be read: File name too long"),
    (f"{DATA} {LONG}.csv --key a", 3, "cannot be read: File name too long"),
    (f"run --executor support.model --operation get --out {LONG}", 7, "File name too long"),
    *((f"{name} {LONG}", 7, "File name too long") for name in ("show", "report", "best", "fit")),
    (f"run --resume {LONG}", 7, "File name too long"),
    (f"sql {LONG} select", 7, "File name too long"),
    (f"generate --archive {LONG} --hosts 10 --steps 10", 7, "File name too long"),
    ("run brackets.toml --dry-run", 3, "a condition has 100,011 characters; the most are 2,000"),
    ("run not.toml --dry-run", 3, "a condition has 200,007 characters; the most are 2,000"),
    ("run minus.toml --dry-run", 3, "a condition has 50,007 characters"),
    ("run deep.toml --dry-run", 3, "deep.toml:3: matrix.exclude: "),
    ("run lists.toml --dry-run", 3, "not valid TOML: nested too deeply"),
    ("run huge.toml --dry-run", 3, "makes a number that is too large"),
    ("run quick --dry-run --repeats 10000000000", 3, "--repeats: 10000000000 must be at most 1000000"),
    ("run quick --dry-run --warmup 10000000000", 3, "--warmup: 10000000000 must be at most 1000000"),
    ("run quick --dry-run --max-repeats 10000000000", 3, "must be at most 1000000"),
    ("run quick --dry-run --repeats 1000000", 3, "--repeats: 12,000,012 trials, warm-up included; the most"),
    (f"{DATA} wide.csv --key colum", 3, "wide.csv has no column colum; did you mean column_"),
    (f"{DATA} wide.csv --key day", 3, "wide.csv has no column day; it has column_0, column_1, "),
    (f"{DATA} wide.csv --key {LONG}", 3, "and 9,988 more"),
    (f"{POINTS} wide.csv --time day", 3, "wide.csv has no column day; it has column_0, column_1, "),
    (
        "run zip.toml --dry-run --streams 1,2",
        3,
        "zip.toml:5: matrix.zip: zipped axes must be of one length; ",
    ),
    (
        f"{DATA} latin.csv --key a",
        3,
        "latin.csv: not readable as CSV: row 2, column b: byte 0xf6 is no UTF-8",
    ),
    (f"{DATA} open.csv --key a", 3, "open.csv: not readable as CSV: line 3: a quoted value does not end"),
    (f"{DATA} two-open.csv --key a", 3, "two-open.csv: not readable as CSV: line 2: a quoted value"),
    (f"{DATA} last-open.csv --key a", 3, "last-open.csv: not readable as CSV: line 4: a quoted value"),
    (
        "run --target flight://h --tls-insecure",
        3,
        "--tls-insecure: is for TLS, and flight:// goes without it",
    ),
    ("run --target mysql://h --tls-ca ca.pem", 3, "--tls-ca: is for TLS, and mysql:// goes without it"),
    (f"{DATA} /dev/zero --key a", 3, "/dev/zero: is no file"),
    (f"{DATA} pipe.csv --key a", 3, "pipe.csv: is no file"),
]


@pytest.mark.parametrize(("words", "code", "error"), TYPED, ids=[words[:48] for words, *_ in TYPED])
def test_one_line_and_a_code(words: str, code: int, error: str, here: Path) -> None:
    for name, content in FILES.items():
        if name in words:
            (here / name).write_bytes(content.encode() if isinstance(content, str) else content)
    if "pipe.csv" in words:
        os.mkfifo(here / "pipe.csv")
    check_refused(typed(*shlex.split(words)), code, error)


ONE_OF_EACH = "\n".join(
    ("get-1x4096-8aa3ca50  get rows_per_stream=4000000 streams=1",
     "get-2x4096-04a9f76b  get rows_per_stream=2000000 streams=2",
     "get-4x4096-4ecef2dd  get rows_per_stream=500000 streams=4")
)  # fmt: skip
NOTE = "info: streams and {} advance together, as zip.toml:5: matrix.zip says; --set matrix.zip=[] makes a "


def test_flags_over_a_zipped_axis_stay_zipped(here: Path) -> None:
    (here / "zip.toml").write_text(ZIPPED)
    done = typed("run", "zip.toml", "--dry-run", "--streams", "1,2,4")
    assert done.code == 0 and done.out.startswith(ONE_OF_EACH)
    assert done.err == NOTE.format("rows_per_stream") + "product of them\n"
    # A size that takes another one's place takes its place in the zip too.
    done = typed("run", "zip.toml", "--dry-run", "--bytes-per-stream", "1M,2M,4M")
    assert "cells: 3," in done.out and done.err == NOTE.format("bytes_per_stream") + "product of them\n"
    # Whoever asks for the product gets it; one value is no axis.
    done = typed("run", "zip.toml", "--dry-run", "--streams", "1,2", "--set", "matrix.zip=[]")
    assert "cells: 6," in done.out and done.err == ""
    done = typed("run", "zip.toml", "--dry-run", "--streams", 2)
    assert "cells: 3," in done.out and done.err == ""


def test_quoted_csv_is_read(here: Path) -> None:
    """Line ends, quotes and long values inside of quotes, also beyond what is read in one piece."""
    from venturi.inputs.files import read_table

    rows = [f'{n},"line one\nline ""{n}"", {"z" * 200}"' for n in range(20_000)]
    text = "a,b\n" + "\n".join([*rows, f'20000,"{"y" * 300_000}"', '20001,5" pipe']) + "\n"
    (here / "quoted.csv").write_text(text)
    found = read_table("quoted.csv")
    assert found.num_rows == 20_002 and found["b"][7].as_py() == f'line one\nline "7", {"z" * 200}'
    assert found["b"][20_001].as_py() == '5" pipe' and len(found["b"][20_000].as_py()) == 300_000


def changed(run: Path, path: tuple[Any, ...], text: str) -> None:
    """Puts a text in the place of one value of the third line."""
    file = run / "trials.jsonl"
    lines = file.read_text().splitlines()
    record = json.loads(lines[2])
    within = record
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = "@@@"
    lines[2] = json.dumps(record).replace('"@@@"', text)
    file.write_text("\n".join(lines) + "\n")


HUGE = "1" + "0" * 40
PLACES: list[tuple[Any, ...]] = [
    ("counts", "payload_bytes"), ("times", "interval_ns"), ("repeat",), ("cell",), ("parameters", "streams"),
    ("latency", "service", "p99"), ("latency", "service", "percentiles", 1), ("streams", 0, "rows"),
    ("resources", "client", "host", "busy_share"), ("stages", "client"), ("cpu", "client", "user_ns"),
]  # fmt: skip
READING = ("show r", "show r --format json", "report r --out x.html", "sql r 'select count(*) from trials'")


@pytest.mark.parametrize("words", READING)
@pytest.mark.parametrize("value", ["NaN", "Infinity", HUGE, '"many"', "[]", "true", "1e400"])
def test_damaged_records_are_named(value: str, words: str, run: Path) -> None:
    """Nothing that a line of a run may hold is a fault of ours: it is named, or it does no harm."""
    whole = (run / "trials.jsonl").read_text()
    for path in PLACES:
        (run / "trials.jsonl").write_text(whole)
        with contextlib.suppress(KeyError, IndexError):
            changed(run, path, value)
            done = typed(*shlex.split(words))
            named = done.code == 7 and "r/trials.jsonl:3: " in done.error and "damaged" in done.error
            assert named or done.code == 0, (path, done.err)
            if value in ("NaN", "Infinity") or path[0] in ("counts", "times"):
                assert named, path


def test_a_run_with_a_damaged_record_is_not_gone_on_with(run: Path) -> None:
    changed(run, ("counts", "rows"), "NaN")
    before = (run / "trials.jsonl").read_bytes()
    done = typed("run", "--resume", "r", "--no-report", "--quiet")
    check_refused(done, 7, "r/trials.jsonl:3: NaN is no number; the file is damaged")
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
    counted = typed("sql", "r", "select count(*) as n from trials", "--format", "csv")
    assert (counted.code, counted.out) == (0, "n\n6\n") and counted.err.startswith(said)
    others = typed("sql", "r", "select count(distinct trial) as n from samples", "--format", "csv")
    assert (others.code, others.out) == (0, "n\n5\n")
    for words in ("show r", "report r --out x.html", "run --resume r --quiet"):
        done = typed(*shlex.split(words))
        assert done.code == 0 and "error" not in done.err and done.err.count("\n") <= 1, done.err


def test_samples_of_a_missing_file_are_no_news(run: Path) -> None:
    sorted((run / "samples").glob("*.parquet"))[0].unlink()
    done = typed("sql", "r", "select count(*) as n from trials", "--format", "csv")
    assert (done.code, done.out, done.err) == (0, "n\n6\n", "")


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
    done = typed(*(str(measured) if word == "RUN" else word for word in shlex.split(words)))
    assert done.code in (2, 7) and done.error and "fault" not in done.err, done.err
    if words.startswith(("run quick", "sql")):
        assert done.error == "the working directory has been deleted" and done.code == 7


# From here on in processes of their own.


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict"])
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
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as told:
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=told)
sys.exit(done.returncode)
"""


def test_what_a_server_says_is_one_line_that_no_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "no\x1b]0;x\x07 way\nerror: " + "x" * 10_000_000
    line = {"outcome": "failed", "error": {"kind": "server", "message": evil}, "parameters": {}, "counts": {}}
    say("error", evil)
    for said in (capsys.readouterr().err.removesuffix("\n"), outcome_text(line)):
        assert said.isprintable() and 3000 < len(said) < 5000 and "way error: x" in said


@pytest.mark.slow
def test_an_error_of_100_mb_costs_little(here: Path) -> None:
    assert model("--out", here / "r", *SMALL, "--quiet").returncode == 0
    lines = (here / "r" / "trials.jsonl").read_text().splitlines()
    record = json.loads(lines[5])
    record |= {
        "outcome": "failed",
        "error": {"kind": "server", "message": "no way " * 15_000_000, "stream": 0},
    }
    (here / "r" / "trials.jsonl").write_text("\n".join([*lines[:5], json.dumps(record), *lines[6:]]) + "\n")
    for words in (("show", "r"), ("report", "r", "--out", "x.html")):
        used, child = here / "used", [sys.executable, "-c", USED, here / "used", *command(*words)]
        done = subprocess.run(child, cwd=here, env=environment(), capture_output=True)
        said = done.stdout + done.stderr
        assert done.returncode == 0 and len(said) < 20_000, said[:2000]
        # Time of a CPU, which a busy machine does not change much.
        seconds, kilobytes = map(float, used.read_text().split())
        assert seconds < 20 and kilobytes < 700 * 2**10
    assert (here / "x.html").stat().st_size < 10 * 2**20
