"""A driver that crashes, hangs or is killed takes its trial with it, and nothing else."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.adbc import QUIET, URI, run
from support.read import records, refused
from support.run import command, environment, venturi
from support.wait import wait_until
from venturi.engine.apart import _lost

pytestmark = pytest.mark.usefixtures("core")

FOR_EVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"
# What no real driver can be made to do.
CRASHES = """
#include <stdio.h>
#include <stdlib.h>
int AdbcDriverInit(int version, void *driver, void *error) {
    fprintf(stderr, "broken: password=hush, %s\\n", getenv("VENTURI_TEST_ADBC_URI"));
    *(volatile int *)0 = version;
    return 0;
}
"""


@pytest.fixture
def crashing(tmp_path: Path) -> Path:
    """A driver that does not survive being loaded."""
    from support.needs import require

    compiler = shutil.which("cc")
    require(compiler, "a C compiler")
    (tmp_path / "crash.c").write_text(CRASHES)
    words = [str(compiler), "-shared", "-fPIC", "-o", "libcrash.so", "crash.c"]
    subprocess.run(words, cwd=tmp_path, check=True)
    return tmp_path / "libcrash.so"


def children(pid: int) -> list[int]:
    """The processes of trials that this one has started."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            words = Path(f"/proc/{name}/cmdline").read_text()
        except OSError:
            continue
        if int(status[1]) == pid and "venturi.engine.apart" in words:
            found.append(int(name))
    return found


def test_a_crash_fails_its_trial_and_no_other(
    crashing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    urls = f'matrix.target=["adbc://{crashing}", "adbc://sqlite"]'
    words = ("--set", urls, "--operation", "get", "--data", "records")
    words += ("--rows-per-stream", "1000", "--driver-option-env", f"uri={URI}")
    monkeypatch.setenv(URI, str(tmp_path / "very-secret.db"))
    done = venturi("run", *words, *QUIET, "--out", tmp_path / "run")
    broken, good = sorted(records(tmp_path / "run"), key=lambda record: record["outcome"] == "ok")
    message = refused(broken, "plugin", "crashed (SIGSEGV)", "libcrash.so", "its last words: broken")
    said = message + done.stderr + "".join(capfd.readouterr())
    assert "hush" not in said and "very-secret" not in said
    assert good["outcome"] == "ok" and good["verification"]["achieved"] == "checksum"
    assert done.returncode != 0 and "SIGSEGV" in done.stderr


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://me:hush%40pw@h/db",
        "host=h password=hush%40pw",
        "postgresql://h/db?password=hush%40pw&a=b",
    ],
)
def test_no_part_of_a_secret_is_in_a_drivers_last_words(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URI, value)
    spec = json.dumps({"target": "adbc://x", "options": {"driver_option_env": {"uri": URI}}})
    said = io.BytesIO(f"bad: hush@pw, hush%40pw of {value}".encode())
    message = _lost(spec, -signal.SIGSEGV, said)["error"]["message"]
    assert "hush" not in message and "its last words: bad: ***" in message


def test_a_call_that_never_returns_ends_with_the_time_out(tmp_path: Path) -> None:
    (record,) = run(tmp_path / "run", "sqlite", "--query", FOR_EVER, "--verify", "none", "--timeout", "1s",
                    "--driver-option", "statement:adbc.sqlite.query.batch_rows=2000000000")  # fmt: skip
    refused(record, "timeout", "plan")
    assert not children(os.getpid())


@contextlib.contextmanager
def running(out: Path, query: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A run of a query without an end, and the process of its trial."""
    given = ("--target", "adbc://sqlite", "--query", query, "--verify", "none", *words, *QUIET, "--out", out)
    with subprocess.Popen(
        command("run", *given), env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        apart = wait_until(lambda: children(process.pid) or process.poll() is not None)
        assert isinstance(apart, list), process.communicate()
        yield process, apart


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def is_read(file: Path) -> bool:
    """Whether a statement reads the file, which nobody may write to meanwhile."""
    with contextlib.closing(sqlite3.connect(file, timeout=0)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return True
    return False


@pytest.mark.parametrize("when", ["on the way there", "in its query"])
def test_a_trial_without_end_is_cancelled(tmp_path: Path, when: str) -> None:
    file = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE seed AS SELECT 1 AS n")
    of_file = FOR_EVER.replace("SELECT 1 UNION", "SELECT n FROM seed UNION")
    with running(tmp_path / "run", of_file, "--driver-option", f"uri={file}") as (process, apart):
        if when == "in its query":
            wait_until(lambda: is_read(file))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130, said
    assert gone(apart)
    assert all(record["outcome"] == "interrupted" for record in records(tmp_path / "run"))


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "run", FOR_EVER) as (process, apart):
        os.kill(apart[0], signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode != 0 and "was killed" in said
    refused(records(tmp_path / "run")[0], "plugin", "the process that had loaded the driver was killed")


def test_nothing_stays_where_venturi_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "run", FOR_EVER) as (process, apart):
        process.kill()
    wait_until(lambda: gone(apart))
