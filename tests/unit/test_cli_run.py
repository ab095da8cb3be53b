"""The command line as text, with the deterministic executor; kill -9, Ctrl-C and resume."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from support.golden import kept
from support.run import SMALL, command, environment, model, venturi


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
        assert f"\nerror: 6 of 12 trials failed: {kind}: " in done.stderr
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
