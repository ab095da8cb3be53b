"""A driver that crashes, hangs or is killed takes its trial with it, and nothing else."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.adbc import QUIET, URI, lines, run
from support.read import refused
from support.run import command, environment
from venturi.engine.apart import _lost

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]

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


def test_a_crash_fails_its_trial_and_no_other(crashing: Path, tmp_path: Path) -> None:
    urls = f'matrix.target=["adbc://{crashing}", "adbc://sqlite"]'
    words = ("--set", urls, "--operation", "get", "--data", "records")
    words += ("--rows-per-stream", "1000", "--driver-option-env", f"uri={URI}")
    done = subprocess.run(
        command("run", *words, *QUIET, "--out", tmp_path / "run"),
        env=environment(**{URI: str(tmp_path / "very-secret.db")}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    broken, good = sorted(lines(tmp_path / "run"), key=lambda record: record["outcome"] == "ok")
    message = refused(broken, "plugin", "crashed (SIGSEGV)", "libcrash.so", "its last words: broken")
    assert "hush" not in message + done.stderr and "very-secret" not in message + done.stderr
    assert good["outcome"] == "ok" and good["verification"]["achieved"] == "checksum"
    assert done.returncode != 0 and "SIGSEGV" in done.stderr


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://me:hush%40pw@host/db",
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
    begun = time.monotonic()
    (record,) = run(tmp_path / "run", "sqlite", "--query", FOR_EVER, "--verify", "none", "--timeout", "1s",
                    "--driver-option", "statement:adbc.sqlite.query.batch_rows=2000000000")  # fmt: skip
    refused(record, "timeout", "plan")
    assert time.monotonic() - begun < 60 and not children(os.getpid())


def test_a_trial_without_end_is_cancelled(tmp_path: Path) -> None:
    words = ("--target", "adbc://sqlite", "--query", FOR_EVER, "--verify", "none", "--repeats", "2")
    arguments = command("run", *words, "--no-report", "--no-ceilings", "--out", tmp_path / "run")
    with subprocess.Popen(arguments, env=environment(), stderr=subprocess.PIPE, text=True) as running:
        apart = []
        while not apart and running.poll() is None:
            apart = children(running.pid)
            time.sleep(0.05)
        time.sleep(1)  # into its query, or on the way there: either must end
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert not any(Path(f"/proc/{pid}").exists() for pid in apart)
    assert all(record["outcome"] == "interrupted" for record in lines(tmp_path / "run"))


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    words = ("--target", "adbc://sqlite", "--query", FOR_EVER, "--verify", "none", "--repeats", "1")
    arguments = command("run", *words, *QUIET[2:], "--out", tmp_path / "run")
    with subprocess.Popen(arguments, env=environment(), stderr=subprocess.PIPE, text=True) as running:
        apart = []
        while not apart and running.poll() is None:
            apart = children(running.pid)
            time.sleep(0.05)
        os.kill(apart[0], signal.SIGKILL)
        _, said = running.communicate(timeout=60)
    assert running.returncode != 0 and "was killed" in said
    refused(lines(tmp_path / "run")[0], "plugin", "the process that had loaded the driver was killed")


def test_nothing_stays_where_venturi_is_killed(tmp_path: Path) -> None:
    words = ("--target", "adbc://sqlite", "--query", FOR_EVER, "--verify", "none")
    arguments = command("run", *words, *QUIET, "--out", tmp_path / "run")
    with subprocess.Popen(arguments, env=environment(), stderr=subprocess.DEVNULL) as running:
        apart = []
        while not apart and running.poll() is None:
            apart = children(running.pid)
            time.sleep(0.05)
        running.kill()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in apart) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in apart)
