"""The command line as text, with the deterministic executor: progress, kill -9, Ctrl-C, resume; what users
get wrong, as they type it: one clear line, the right exit code, nothing lost."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.flight import Certificates, served
from support.golden import kept
from support.run import SMALL, command, environment, model, venturi
from support.stranger import stranger


def test_plain_progress_is_a_line_a_trial(tmp_path: Path) -> None:
    done = model("--out", tmp_path / "r", *SMALL)
    assert done.returncode == 0
    kept("run-progress", done.stderr)


def test_json_is_one_object_a_trial_and_nothing_else(tmp_path: Path) -> None:
    done = model("--out", tmp_path / "r", *SMALL, "--json")
    assert done.returncode == 0 and done.stderr == ""
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    stored = [json.loads(line) for line in (tmp_path / "r" / "trials.jsonl").read_text().splitlines()]
    assert printed == stored and len(printed) == 12


def test_samples_are_as_often_as_asked(tmp_path: Path) -> None:
    counts = []
    for interval in ("1ms", "10ms"):
        done = model("--out", tmp_path / interval, *SMALL, "--sample-interval", interval, "--json")
        first = json.loads(done.stdout.splitlines()[-1])
        counts.append(first["resources"]["sampler"]["samples"])
    assert counts[0] > 2 * counts[1]
    done = model("--out", tmp_path / "none", *SMALL, "--sample-interval", "0", "--json")
    assert all(json.loads(line)["resources"] is None for line in done.stdout.splitlines())


def test_quiet_prints_results_only(tmp_path: Path) -> None:
    done = model("--out", tmp_path / "r", *SMALL, "--quiet")
    assert done.returncode == 0 and done.stderr == "" and "get" in done.stdout


def test_the_run_directory_is_named_after_time_and_scenario(tmp_path: Path) -> None:
    assert model("quick", *SMALL, "--quiet", cwd=tmp_path).returncode == 0
    (made,) = (tmp_path / "venturi-runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-quick", made.name)
    assert {path.name for path in made.iterdir()} >= {
        "scenario.toml", "environment.json", "trials.jsonl", "ceilings.jsonl", "samples",
    }  # fmt: skip


def test_a_dry_run_says_what_would_be_run(tmp_path: Path) -> None:
    done = venturi("run", *SMALL, "--dry-run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    kept("run-dry", done.stdout)
    assert not list(tmp_path.iterdir())


def test_scaling_is_announced(tmp_path: Path) -> None:
    done = venturi("run", "flight-local", "--scale", "0.01", "--dry-run", cwd=tmp_path)
    assert done.stderr == (
        "info: scaled by 0.01: 50 of 800 cells; streams: 5 of 8 points; rows_per_stream: 5 of 50 points; "
        "rows_per_stream 10M..500M became 100k..5M; repeats 5 became 3\n"
    )


def test_failed_trials_set_the_exit_code(tmp_path: Path) -> None:
    for kind, code in (("lost", 5), ("verification", 6)):
        fails = f"support.model:fail={kind}:operation == 'put'"
        done = venturi("run", "--executor", fails, "--out", tmp_path / kind, *SMALL, "--quiet")
        assert done.returncode == code
        assert f"\nerror: 6 of 12 trials failed, 2 of them warm-ups: {kind}: " in done.stderr
        # What was lost may go well another time; what was wrong will not.
        assert ("--retry-failed" in done.stderr) == (kind == "lost")
    done = venturi(
        "run", "--executor", "support.model:fail=unreachable:true", "--out", tmp_path / "u", *SMALL,
        "--quiet", "--target", "flight://127.0.0.1:9",
    )  # fmt: skip
    assert done.returncode == 4
    assert "error: flight://127.0.0.1:9 never answered; its other trials are left out\n" in done.stderr


def started_until(path: Path, lines: int, executor: str) -> subprocess.Popen[str]:
    """A run that hangs in a trial after `lines` lines are on disk."""
    words = command("run", "--executor", executor, "--out", path, *SMALL, "--no-shuffle")
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        words, stdin=nothing, stdout=nothing, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stderr is not None
    # Each line is printed when its trial is on disk; one more when it hangs.
    for _ in range(lines):
        assert process.stderr.readline().startswith("[")
    assert process.stderr.readline() == "info: the model hangs, as it was told to\n"
    return process


HANG = "support.model:hang:operation == 'put'"


def test_kill_9_loses_the_trial_in_flight_only(tmp_path: Path) -> None:
    path = tmp_path / "r"
    process = started_until(path, 2, HANG)
    process.kill()
    process.wait()
    whole = model("--out", tmp_path / "whole" / "r", *SMALL, "--no-shuffle", "--json")
    torn = (path / "trials.jsonl").read_text()
    (path / "trials.jsonl").write_text(torn + torn[:100])
    done = model("--resume", path, "--json")
    assert done.returncode == 0
    assert done.stderr == f"warning: {path / 'trials.jsonl'}: cut off a torn last line of 100 bytes\n"
    assert torn + done.stdout == (path / "trials.jsonl").read_text()
    # Nothing is missing, nothing is doubled, and the figures are those of a run without a crash.
    assert (path / "trials.jsonl").read_text() == whole.stdout


def test_two_runs_in_one_directory_are_refused(tmp_path: Path) -> None:
    process = started_until(tmp_path / "r", 2, HANG)
    try:
        for arguments in (("--out", tmp_path / "r", *SMALL), ("--resume", tmp_path / "r")):
            done = model(*arguments)
            assert done.returncode == 7
            assert done.stderr.startswith(
                f"error: {tmp_path / 'r'}: another run is writing here (process {process.pid})\n"
            )
    finally:
        process.kill()
        process.communicate()


def test_a_full_disk_ends_the_run_and_prints_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left, kept = os.write, [3], tmp_path / "r" / "trials.jsonl"

    def limited(descriptor: int, data: bytes) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}") == str(kept):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", limited)
        done = model("--out", tmp_path / "r", *SMALL, "--json")
    assert done.returncode == 7
    assert done.stderr.startswith(f"error: {kept}: the disk is full; trials stored before are safe\n")
    assert len(done.stdout.splitlines()) == 4 and kept.read_text().count("\n") == 3
    assert model("--resume", tmp_path / "r", "--quiet").returncode == 0
    assert kept.read_text().count("\n") == 12


def test_a_terminal_gets_a_live_line(tmp_path: Path) -> None:
    """Drawn in place on a terminal's standard error: the trial's number, a bar, what it is."""
    leader, follower = os.openpty()
    words = command("run", "--executor", "support.model", "--out", tmp_path / "r", *SMALL)
    nothing, terminal = subprocess.DEVNULL, environment(TERM="xterm")
    process = subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=follower, env=terminal)
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError as error:
            # How Linux says that the other side of a terminal has gone.
            assert error.errno == errno.EIO
            break
        if not piece:
            break
        seen += piece
    os.close(leader)
    assert process.wait() == 0
    text = seen.decode()
    assert "12 of 12" in text and "━" in text and "get streams=2" in text and "Traceback" not in text


# ---- what users get wrong


FLAGS = (
    *("--operation", "get", "--rows-per-stream", "10k", "--repeats", "5", "--warmup", "0"),
    *("--timeout", "20s", "--no-report", "--no-ceilings"),
)


def test_a_cpu_that_is_not_there(tmp_path: Path) -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system pins no threads")
    ended = venturi("run", *FLAGS, "--pin", "4711", cwd=tmp_path)
    assert re.fullmatch(r"error: --pin: CPU 4711 is not there; this process may use [\d,-]+\n", ended.stderr)
    assert ended.returncode == 3


@pytest.mark.parametrize("kind", ["flight", "charrow", "timeseries"])
def test_a_server_for_other_hosts_says_so_first(kind: str, tmp_path: Path) -> None:
    # An address for documentation (RFC 5737), which no host here has: nothing is ever open.
    ended = venturi("serve", kind, "--host", "192.0.2.7", cwd=tmp_path)
    warning, hint, error = ended.stderr.splitlines()
    assert warning.startswith("warning: 192.0.2.7 is reachable by other hosts, ")
    assert hint.startswith("hint: ") and error.startswith("error: cannot listen on 192.0.2.7:")
    assert (ended.returncode, ended.stdout) == (4, "")


def test_more_than_the_memory(tmp_path: Path) -> None:
    arguments = ("--operation", "put", "--rows-per-batch", "100M", "--streams", "4000", "--dry-run")
    ended = venturi("run", *arguments, "--rows-per-stream", "1G", cwd=tmp_path)
    assert ended.returncode == 3 and ended.stderr.startswith(
        "error: --rows-per-batch: 100,000,000 rows are a message of 3.2 GB, and 4000 streams hold one each; "
    )
    assert ended.stderr.endswith(" fits; or take fewer streams\n")


@pytest.fixture(scope="module")
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@pytest.fixture(scope="module")
def silent_port() -> Iterator[int]:
    """Connections are taken by the kernel, and nobody ever says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


def is_abandoned(url: str, *more: object, cwd: Path, code: int = 5) -> str:
    """The reason of a run in which nothing could begin; it is tried twice, not five times."""
    ended = venturi("run", *FLAGS, "--target", url, *more, "--out", "r", cwd=cwd)
    assert ended.returncode == code, ended.stderr
    found = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    how = "never answered" if code == 4 else "let no trial begin"
    assert found[0] == f"error: {url} {how}; its other trials are left out"
    assert len((cwd / "r" / "trials.jsonl").read_text().splitlines()) == 2
    assert "Traceback" not in ended.stderr and ended.stdout.endswith("run: r\n")
    start, reason = found[1].split(" trials failed: ")
    assert start == "error: 2 of 2" and len(found) == 2
    return reason


def test_nobody_listens(core: object, closed_port: int, tmp_path: Path) -> None:
    reason = is_abandoned(f"flight://127.0.0.1:{closed_port}", cwd=tmp_path, code=4)
    assert reason.startswith(f"unreachable: 127.0.0.1:{closed_port}: Connection refused")
    assert reason.endswith("nothing listens there; is the server running, and is the port right?")


def test_a_host_that_is_not_there(core: object, tmp_path: Path) -> None:
    reason = is_abandoned("flight://no-such-host.invalid:31337", cwd=tmp_path, code=4)
    assert reason.startswith("unreachable: no-such-host.invalid:31337: ")


def test_a_web_server(core: object, tmp_path: Path) -> None:
    with stranger(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        reason = is_abandoned(f"flight://127.0.0.1:{port}", cwd=tmp_path)
    assert reason.startswith("protocol: first contact: ") and "HTTP/2 (gRPC)" in reason


def test_a_port_that_says_nothing(core: object, silent_port: int, tmp_path: Path) -> None:
    reason = is_abandoned(f"flight://127.0.0.1:{silent_port}", "--timeout", "300ms", cwd=tmp_path)
    # Contact and plan may take that long each: who is late first is the machine's affair.
    assert reason.startswith("timeout: ") and "no answer" in reason and "0.3 s" in reason


def test_tls_here_and_not_there(core: object, certificates: Certificates, tmp_path: Path) -> None:
    c = certificates
    with served("flight") as plain:
        reason = is_abandoned(f"flight+tls://{plain}", cwd=tmp_path)
    assert reason.startswith("tls: ") and reason.endswith("Without TLS the URL begins with flight://")
    keys = {"tls_certificate": str(c.server), "tls_key": str(c.server_key)}
    old = {"tls_certificate": str(c.expired), "tls_key": str(c.expired_key)}
    for server, scheme, trusted, said in (
        (keys, "flight", (), "does it want TLS (flight+tls://)?"),
        (keys, "flight+tls", ("--tls-ca", c.other_ca), "UnknownIssuer"),
        (old, "flight+tls", ("--tls-ca", c.ca), "xpired"),
    ):
        with served("flight", **server) as address, tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            assert said in is_abandoned(f"{scheme}://{address}", *trusted, cwd=Path(folder))
